"""Print answers as tables for people, with marks that a legend explains below the table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ledto.cli.grid import Grid
from ledto.cli.output import say
from ledto.cli.words import describe_message, describe_step, describe_through, shorten_line
from ledto.durations import show_duration
from ledto.history.times import ShortTimes

if TYPE_CHECKING:
    from ledto.questions.event import Event
    from ledto.questions.missing import Missing
    from ledto.questions.path import PathStep
    from ledto.questions.possible import Possible

MOST_MISSING = 10
"""The most lines about missing reports."""
ASKED, ERROR, MOVED, POSSIBLE = "*", "!", "~", "?"
"""Marks beside a row."""
LEGEND = {ASKED: "the event asked about", ERROR: "error", POSSIBLE: "possible: nothing recorded says so"}
"""What marks mean. `ShownTimes` says what `MOVED` means."""
SHRINK = ("computation", "process", "line", "name", "message", "by", "through")
"""Columns of events whose texts may be shortened."""
WANTED = {"name": 20, "message": 12, "by": 16, "through": 24}
"""How many characters of them say something. Columns of `_list_optional` are left out rather than shortened to less."""


class ShownTimes(StrEnum):
    """The times to show: those of the clocks, or corrected ones."""

    WALL = "wall"
    CORRECTED = "corrected"

    def of(self, event: Event) -> int | None:
        """Return the event's time of this kind."""
        return event.time if self is ShownTimes.WALL else event.corrected_time

    def marks(self, event: Event) -> str:
        """Return the mark of an event whose time is corrected, or whose clock is behind; or nothing."""
        if self is ShownTimes.CORRECTED:
            return MOVED if event.correction else ""
        behind = event.time is not None and event.causal_time is not None and event.causal_time > event.time
        # A time that a live history does not believe has another causal time, and no correction.
        return MOVED if behind and event.correction != 0 else ""

    @property
    def meaning(self) -> str:
        """What the mark means."""
        return "its clock is behind its causes" if self is ShownTimes.WALL else "its time is corrected"


def print_events(
    events: Iterable[Event],
    unit: str,
    *,
    title: str | None = None,
    shown: Event | None = None,
    asked: Event | None = None,
    times: ShownTimes = ShownTimes.WALL,
    local: bool = False,
    steps: Sequence[PathStep | None] | None = None,
) -> None:
    """Print a table of events. No events print the title alone.

    `shown`, the event asked about, comes last; `asked` is that event if it is one of the others. With `steps`, one for
    each event or None, the table says what leads to each event from the one above.
    """
    rows = [*events, *([shown] if shown is not None else [])]
    asked = asked or shown
    if title is not None:
        say(title)
    if not rows:
        return
    taken = list(steps) if steps is not None else [None] * len(rows)
    several = len({event.computation for event in rows}) > 1
    lines = steps is None and any(event.line for event in rows)
    short = ShortTimes(map(times.of, rows), unit, local=local)
    corrected = times is ShownTimes.CORRECTED and any(event.correction for event in rows)
    marks = [_marks(event, asked, step, times) for event, step in zip(rows, taken, strict=True)]
    columns = [
        *([""] if any(marks) else []),
        "time",
        *(["correction"] if corrected else []),
        *(["computation"] if several else []),
        "process",
        *(["line"] if lines else []),
        "name",
        "message" if steps is None else "by",
        "id",
    ]
    grid = Grid(columns, SHRINK, right=["correction"], wanted=WANTED, optional=_list_optional(rows))
    date = ""
    for event, step, mark in zip(rows, taken, marks, strict=True):
        time = times.of(event)
        if short.date(time) not in ("", date):
            date = short.date(time)
            grid.add_line(date)
        grid.add(
            [
                *([mark] if any(marks) else []),
                short.time_of_day(time),
                *([_signed(event.correction, unit)] if corrected else []),
                *([event.computation] if several else []),
                event.process,
                *([shorten_line(event.line)] if lines else []),
                event.name,
                _describe_exchange(event) if steps is None else "" if step is None else describe_step(step, unit),
                event.id,
            ],
            style=" ".join(["bold"] * (event is asked) + ["red"] * bool(event.error)),
        )
    grid.print()
    print_legend("".join(marks), times)


def _marks(event: Event, asked: Event | None, step: PathStep | None, times: ShownTimes) -> str:
    is_possible = step is not None and not step.recorded
    return (
        (ASKED if event is asked else "")
        + (ERROR if event.error else "")
        + times.marks(event)
        + (POSSIBLE if is_possible else "")
    )


def _list_optional(events: Sequence[Event]) -> tuple[str, ...]:
    """List the columns that a narrow screen can do without: first the process, if all ids begin with it."""
    in_ids = all(event.id.startswith(f"{event.process}:") for event in events)
    return ("process", "line", "message") if in_ids else ("line", "message")


def _describe_exchange(event: Event) -> str:
    """Say whether the event sends or receives, and what."""
    return " ".join(filter(None, ("" if event.kind == "local" else event.kind, describe_message(event))))


def _signed(value: int | None, unit: str) -> str:
    return f"{'+' if value > 0 else ''}{show_duration(value, unit)}" if value else ""


def print_legend(marks: str, times: ShownTimes = ShownTimes.WALL) -> None:
    """Say what those of the marks mean that were printed; print nothing without marks."""
    meanings = {**LEGEND, MOVED: times.meaning}
    if used := [f"{mark} {meaning}" for mark, meaning in meanings.items() if mark in marks]:
        say("; ".join(used))


def print_possible(
    possible: Sequence[Possible], unit: str, *, times: ShownTimes = ShownTimes.WALL, local: bool = False
) -> None:
    """Print possible causes, each with what it would have acted through, the most telling first."""
    say("also possible (it could have led to it, but nothing recorded says so), the most telling first:")
    events = [cause.event for cause in possible]
    short = ShortTimes(map(times.of, events), unit, local=local)
    marks = [ERROR if event.error else "" for event in events]
    has_marks = [""] if any(marks) else []
    grid = Grid(
        [*has_marks, "time", "process", "name", "through", "id"], SHRINK, wanted=WANTED, optional=_list_optional(events)
    )
    if short.heading:
        grid.add_line(short.heading)
    for cause, mark in zip(possible, marks, strict=True):
        event = cause.event
        cells = [
            short.show(times.of(event)),
            event.process,
            event.name,
            describe_through(cause.through, unit),
            event.id,
        ]
        grid.add([*([mark] if has_marks else []), *cells])
    grid.print()
    print_legend("".join(marks), times)


def print_rows(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    shrink: Sequence[str] = (),
    right: Sequence[str] = (),
) -> None:
    """Print a table of any values. Texts of the columns `shrink` may be shortened."""
    if title is not None:
        say(title)
    grid = Grid(columns, shrink, right)
    for row in rows:
        grid.add(row)
    grid.print()


def print_missing(missing: Sequence[Missing], *, err: bool = False) -> None:
    """Print one line for each missing report, and how many more there are."""
    for gap in missing[:MOST_MISSING]:
        say(f"missing: {gap.words}", err=err)
    if len(missing) > MOST_MISSING:
        say(f"missing: {len(missing) - MOST_MISSING:,} more, which --json lists", err=err)


def print_orders(wall_clock: dict[str, Any], policies: dict[str, Any], unit: str) -> None:
    """Print violations and waits: of the wall clock's order, then of each policy's. Takes entries of a manifest."""
    numbers = ("messages", "events", "pairs", "p50", "p99", "longest", "late")
    rows = [("wall clock", *_counts(wall_clock.get("violations", {})), "", "", "", "")]
    for name, policy in policies.items():
        waits = [_wait(policy.get("delays", {}), which, unit) for which in ("p50", "p99", "max")]
        rows.append((name, *_counts(policy.get("violations", {})), *waits, f"{policy.get('late', 0):,}"))
    print_rows(["order", *numbers], rows, title="Violations of causal order, and how long events wait:", right=numbers)
    say("messages: received before they were sent; events: before one of their causes;")
    say("pairs: of cause and effect, in the wrong order; late: reported after they were due")


def _counts(violations: dict[str, Any]) -> tuple[str, ...]:
    if violations.get("events") == 0:
        return ("no times",) * 3
    return tuple(_number(violations.get(name)) for name in ("messages_inverted", "before_cause", "pairs"))


def _number(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"


def _wait(delays: dict[str, Any], which: str, unit: str) -> str:
    value = delays.get(which)
    return "" if value is None else show_duration(int(value), unit)
