"""Print answers as tables for people, with times in ISO 8601 unless the history's unit is a tick."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ledto.cli.output import console, escape_controls, say
from ledto.cli.words import describe_message, describe_through, shorten_line
from ledto.durations import show_duration
from ledto.history.times import count_digits, format_time

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from ledto.questions.event import Event
    from ledto.questions.missing import Missing
    from ledto.questions.possible import Possible

WIDTH_WITHOUT_TERMINAL = 160
MOST_MISSING = 10
"""The most lines about missing reports."""
ERROR = "error"
"""Printed beside an event that reports a failure. It is red where colours are shown."""
DISAGREES = "clock behind its causes"
"""Printed beside an event whose wall time is before that of one of its causes."""


class ShownTimes(StrEnum):
    """The times to show: those of the clocks, or corrected ones."""

    WALL = "wall"
    CORRECTED = "corrected"

    def of(self, event: Event) -> int | None:
        """Return the event's time of this kind."""
        return event.time if self is ShownTimes.WALL else event.corrected_time

    def note(self, event: Event, unit: str) -> str:
        """Return the note to print beside the time: its correction, or that the clock is behind; or nothing."""
        if self is ShownTimes.CORRECTED:
            sign = "+" if (event.correction or 0) > 0 else ""
            return f"corrected by {sign}{show_duration(event.correction, unit)}" if event.correction else ""
        behind = event.time is not None and event.causal_time is not None and event.causal_time > event.time
        # A time that a live history does not believe has another causal time, and no correction.
        behind = behind and event.correction != 0
        return DISAGREES if behind else ""


def print_events(
    events: Iterable[Event],
    unit: str,
    *,
    title: str | None = None,
    shown: Event | None = None,
    times: ShownTimes = ShownTimes.WALL,
) -> None:
    """Print a table of events; `shown` comes last, in bold."""
    rows = [*events, *([shown] if shown is not None else [])]
    computations = len({event.computation for event in rows}) > 1
    notes = [", ".join(filter(None, (ERROR if event.error else "", times.note(event, unit)))) for event in rows]
    digits = count_digits((times.of(event) for event in rows), unit)
    lines = any(event.line for event in rows)
    columns = ["time", "process", *(["line"] if lines else []), "id", "name", "kind", "message"]
    table = _table(["computation", *columns] if computations else columns, notes=any(notes))
    for event, note in zip(rows, notes, strict=True):
        cells = [
            format_time(times.of(event), unit, digits=digits),
            event.process,
            *([shorten_line(event.line)] if lines else []),
            event.id,
            event.name or "",
            event.kind,
            describe_message(event),
        ]
        cells = [event.computation, *cells] if computations else cells
        cells += [note] if any(notes) else []
        styles = ["bold"] * (event is shown) + ["red"] * bool(event.error)
        table.add_row(*map(_cell, cells), style=" ".join(styles) or None)
    print_table(table, title=title)


def print_possible(possible: Sequence[Possible], unit: str, *, times: ShownTimes = ShownTimes.WALL) -> None:
    """Print possible causes, each with what it would have acted through, the most telling first."""
    digits = count_digits((times.of(cause.event) for cause in possible), unit)
    print_rows(
        ["time", "process", "id", "name", "through", ""],
        [
            (
                format_time(times.of(cause.event), unit, digits=digits),
                cause.event.process,
                cause.event.id,
                cause.event.name,
                describe_through(cause.through, unit),
                ERROR if cause.event.error else "",
            )
            for cause in possible
        ],
        title="also possible (it could have led to it, but nothing recorded says so), the most telling first:",
    )


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Print a table of any values."""
    table = _table(columns, notes=False)
    for row in rows:
        table.add_row(*map(_cell, row))
    print_table(table, title=title)


def print_missing(missing: Sequence[Missing]) -> None:
    """Print one line for each missing report, and how many more there are."""
    for gap in missing[:MOST_MISSING]:
        say(f"missing: {gap.words}")
    if len(missing) > MOST_MISSING:
        say(f"missing: {len(missing) - MOST_MISSING:,} more, which --json lists")


def print_table(table: Table, *, title: str | None = None) -> None:
    """Print a table: as wide as the terminal, or wide and without trailing blanks if stdout is no terminal."""
    if title is not None:
        say(title)
    if (stdout := console()).is_terminal:
        stdout.print(table)
        return
    plain = console(width=WIDTH_WITHOUT_TERMINAL)
    with plain.capture() as captured:
        plain.print(table)
    for line in captured.get().split("\n")[:-1]:
        say(line.rstrip())


def make_orders_table(wall_clock: dict[str, Any], policies: dict[str, Any], unit: str) -> Table:
    """Make the table of violations and waits: the wall clock's order, then each policy's. Takes entries of a manifest."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(
        title="Violations of causal order, and how long events wait",
        title_justify="left",
        caption="messages received before they were sent; events before one of their causes; pairs of cause and effect",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    table.add_column("order", no_wrap=True)
    for name in ("messages", "events", "pairs", "p50", "p99", "longest", "late"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("wall clock", *_counts(wall_clock.get("violations", {})), "", "", "", "")
    for name, policy in policies.items():
        waits = [_wait(policy.get("delays", {}), which, unit) for which in ("p50", "p99", "max")]
        table.add_row(name, *_counts(policy.get("violations", {})), *waits, f"{policy.get('late', 0):,}")
    return table


def _counts(violations: dict[str, Any]) -> tuple[str, ...]:
    if violations.get("events") == 0:
        return ("no times",) * 3
    return tuple(_number(violations.get(name)) for name in ("messages_inverted", "before_cause", "pairs"))


def _number(value: int | None) -> str:
    return "not known" if value is None else f"{value:,}"


def _wait(delays: dict[str, Any], which: str, unit: str) -> str:
    value = delays.get(which)
    return "" if value is None else show_duration(int(value), unit)


def _cell(value: object) -> Text:
    """Make a cell of a value, escaped."""
    from rich.text import Text

    return Text(escape_controls("" if value is None else str(value)))


def _table(columns: Sequence[str], *, notes: bool) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(_cell(column), overflow="fold")
    if notes:
        table.add_column("")
    return table
