"""Answers as text: tables for people, times in ISO 8601 where the history's unit is one of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from ledto.cli.output import console, say, spelt_out
from ledto.cli.wording import event_message, shortened_line, through_words
from ledto.durations import show_duration
from ledto.history.times import PER_SECOND

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from ledto.questions.event import Event
    from ledto.questions.missing import Missing
    from ledto.questions.possible import Possible

WIDTH_WITHOUT_TERMINAL = 160
MOST_MISSING = 10
"""Lines that tell what is missing."""
ERROR = "error"
"""Beside an event that tells of a failure; where there are colours, it is red as well."""
DISAGREES = "clock behind its causes"
"""Beside an event whose wall time is earlier than that of something that led to it."""


def format_time(time: int | None, unit: str, *, digits: int | None = None) -> str:
    """In UTC, with all digits of the unit or so many; the plain number where the unit is not one of time."""
    if time is None:
        return ""
    per_second = PER_SECOND.get(unit)
    if per_second is None:
        return str(time)
    seconds, fraction = divmod(time, per_second)
    try:
        whole = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return str(time)
    every = len(str(per_second)) - 1
    shown = f"{fraction:0{every}d}"[: every if digits is None else digits] if every else ""
    return f"{whole}.{shown}Z" if shown else f"{whole}Z"


def digits_of(times: Iterable[int | None], unit: str) -> int:
    """How many digits after the second it takes to show these times exactly: 0, 3, 6 or 9."""
    per_second = PER_SECOND.get(unit, 1)
    every = len(str(per_second)) - 1
    fractions = [f"{time % per_second:0{every}d}".rstrip("0") for time in times if time is not None and every]
    return -(-max(map(len, fractions), default=0) // 3) * 3


class ShownTimes(StrEnum):
    """Which times are shown."""

    WALL = "wall"
    CORRECTED = "corrected"

    def of(self, event: Event) -> int | None:
        """The event's time, of this kind."""
        return event.time if self is ShownTimes.WALL else event.corrected_time

    def note(self, event: Event, unit: str) -> str:
        """What is to be said of it."""
        if self is ShownTimes.CORRECTED:
            sign = "+" if (event.correction or 0) > 0 else ""
            return f"corrected by {sign}{show_duration(event.correction, unit)}" if event.correction else ""
        behind = event.time is not None and event.causal_time is not None and event.causal_time > event.time
        # What a live history did not believe has another causal time, and no correction.
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
    """A table of events, one a line; `shown` comes last, in bold."""
    rows = [*events, *([shown] if shown is not None else [])]
    computations = len({event.computation for event in rows}) > 1
    notes = [", ".join(filter(None, (ERROR if event.error else "", times.note(event, unit)))) for event in rows]
    digits = digits_of((times.of(event) for event in rows), unit)
    lines = any(event.line for event in rows)
    columns = ["time", "process", *(["line"] if lines else []), "id", "name", "kind", "message"]
    table = _table(["computation", *columns] if computations else columns, notes=any(notes))
    for event, note in zip(rows, notes, strict=True):
        cells = [
            format_time(times.of(event), unit, digits=digits),
            event.process,
            *([shortened_line(event.line)] if lines else []),
            event.id,
            event.name or "",
            event.kind,
            event_message(event),
        ]
        cells = [event.computation, *cells] if computations else cells
        cells += [note] if any(notes) else []
        styles = ["bold"] * (event is shown) + ["red"] * bool(event.error)
        table.add_row(*map(_cell, cells), style=" ".join(styles) or None)
    print_table(table, title=title)


def print_possible(possible: Sequence[Possible], unit: str, *, times: ShownTimes = ShownTimes.WALL) -> None:
    """A table of events that are only possible causes, and through what; the most telling first."""
    digits = digits_of((times.of(each.event) for each in possible), unit)
    print_rows(
        ["time", "process", "id", "name", "through", ""],
        [
            (
                format_time(times.of(each.event), unit, digits=digits),
                each.event.process,
                each.event.id,
                each.event.name,
                through_words(each.through, unit),
                ERROR if each.event.error else "",
            )
            for each in possible
        ],
        title="also possible (it could have led to it, but nothing recorded says so), the most telling first:",
    )


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """A table of anything."""
    table = _table(columns, notes=False)
    for row in rows:
        table.add_row(*map(_cell, row))
    print_table(table, title=title)


def print_missing(missing: Sequence[Missing]) -> None:
    """What is known to be missing, a line each, and how much more there is."""
    for gap in missing[:MOST_MISSING]:
        say(f"missing: {gap.words}")
    if len(missing) > MOST_MISSING:
        say(f"missing: {len(missing) - MOST_MISSING:,} more, which --json lists")


def print_table(table: Table, *, title: str | None = None) -> None:
    """On a terminal as it is; elsewhere wide, and without blanks at the ends of lines."""
    if title is not None:
        say(title)
    if (shown := console()).is_terminal:
        shown.print(table)
        return
    plain = console(width=WIDTH_WITHOUT_TERMINAL)
    with plain.capture() as captured:
        plain.print(table)
    for line in captured.get().split("\n")[:-1]:
        say(line.rstrip())


def _cell(value: object) -> Text:
    """A value as text that does nothing to a terminal."""
    from rich.text import Text

    return Text(spelt_out("" if value is None else str(value)))


def _table(columns: Sequence[str], *, notes: bool) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(_cell(column), overflow="fold")
    if notes:
        table.add_column("")
    return table
