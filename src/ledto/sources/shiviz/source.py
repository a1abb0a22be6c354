"""Read logs for ShiViz, as GoVector writes them: text in which each event has a host and a vector clock.

One literal event, as the default expression reads it::

    shop {"shop":2, "stock":1}
    order placed

An event's own entry is its number in its host. The entries of other hosts that grew name its causes
(`ledto.sources.vectors`). Events are found as ShiViz finds them (`ledto.sources.shiviz.executions`). Each line of text that
belongs to no event becomes a bad row. So does a line for which the expression takes too long; after some of them the
source raises `SourceError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any, ClassVar, Final

import pyarrow as pa

from ledto.events.schema import LOCAL, RECEIVE
from ledto.sources.contract import FileSlice, Records
from ledto.sources.regex.javascript import Expression, TooSlow, compile_javascript
from ledto.sources.rows import (
    MOST_CAUSES,
    BadRecord,
    Batches,
    bad_row,
    too_many_causes,
)
from ledto.sources.shiviz.executions import Leftover, Presence, delimiter_too_slow, find_events
from ledto.sources.shiviz.groups import parse_times, write_attributes
from ledto.sources.shiviz.stamped_text import Clock, Stamped, read_stamps
from ledto.sources.shiviz.text_window import TextWindow
from ledto.sources.vectors import ClockGrowth, key

CLOCK_FIRST: Final = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"
"""The expression for GoVector's logs."""
EVENT_FIRST: Final = r"(?<event>.*)\n(?<host>\S*) (?<clock>{.*})"
"""The expression that ShiViz has by default."""

MOST_HELD_CHARACTERS: Final = 16 << 20
"""The length of an execution that is kept in memory, at most. A longer one is read twice."""

_STAMPED_LINE = re.compile(r"\S+ \{.*\}", re.DOTALL)
_SHOWN = 60


@dataclass(frozen=True)
class ShiViz:
    """A source of text with vector clocks. `regex` has the groups ``host``, ``clock`` and, for the event's text, ``event``.

    Without `regex`, the event's text is after host and clock, as GoVector writes it, or before them, as ShiViz expects it:
    the first and the last line of the file tell which. All further groups become attributes. ``timestamp``, ``date`` or
    ``time`` is the event's wall time if it is an integer or ISO-8601 text. With `delimiter`, each text between its matches
    is an execution, which is a computation of its own. Its name is the group ``trace`` or its number. With `complete`, a
    file has all events of its executions: an event whose clock names another one that is not in the file becomes a bad
    row. Without it, the observer finds missing events.
    """

    name: ClassVar[str] = "shiviz"
    suffixes: ClassVar[tuple[str, ...]] = (".log", ".txt", ".shiviz")
    splittable: ClassVar[bool] = False
    records: ClassVar[Records] = "lines"

    regex: str | None = None
    delimiter: str | None = None
    unit: str = "ns"
    complete: bool = True

    def __post_init__(self) -> None:
        _ = self._chosen_regex, self._delimiter

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @cached_property
    def _chosen_regex(self) -> Expression | None:
        return None if self.regex is None else _compile_event(self.regex)

    @cached_property
    def _delimiter(self) -> Expression | None:
        if self.delimiter is None:
            return None
        return compile_javascript(self.delimiter, what="the delimiter of executions")

    def read(self, piece: FileSlice) -> Iterator[pa.RecordBatch]:
        batches = Batches(piece.file)
        for execution, present, growth in self._prepare_executions(piece):
            for part in execution:
                if isinstance(part, Leftover):
                    name = part.execution.name
                    batches.add_rows([bad_row(piece.file, part.line, part.problem, part.text, computation=name)])
                else:
                    self._add_rows(part, growth, present, batches)
                if batches.is_full:
                    yield batches.take_batch()
        if not batches.is_empty:
            yield batches.take_batch()

    def _prepare_executions(
        self, piece: FileSlice
    ) -> Iterator[tuple[Iterable[Stamped | Leftover], Presence | None, ClockGrowth]]:
        """Yield each execution, with the events that it has, if it must be complete, and the clocks of these."""
        pattern = self._chosen_regex or _compile_event(
            CLOCK_FIRST if _has_clocks_first(piece, self._delimiter) else EVENT_FIRST, is_trusted=True
        )
        second_reading = self._read_executions(piece, pattern)
        for number, execution in self._read_executions(piece, pattern):
            if not self.complete:
                yield execution, None, ClockGrowth()
                continue
            # A clock may name an event that comes later in the file.
            held, present, growth = _look_ahead(execution)
            if held is None:
                yield next(parts for other, parts in second_reading if other == number), present, growth
            else:
                yield held, present, growth

    def _read_executions(
        self, piece: FileSlice, pattern: Expression
    ) -> Iterator[tuple[int, Iterator[Stamped | Leftover]]]:
        """Yield the number of each execution, and its parts."""
        with closing(TextWindow(piece)) as window:
            parts = find_events(window, pattern, self._delimiter, piece.file)
            for number, execution in groupby(parts, key=lambda part: part.execution.number):
                yield number, (part if isinstance(part, Leftover) else read_stamps(part) for part in execution)

    def _add_rows(self, events: Stamped, growth: ClockGrowth, present: Presence | None, batches: Batches) -> None:
        """Add the rows of some events."""
        computation, grown_since_last = events.execution.name, growth.grown_since_last
        bad = dict(events.bad)
        causes: list[list[str] | None] = []
        for number, (host, own_entry, clock) in enumerate(
            zip(events.hosts, events.own_entries, events.clocks, strict=True)
        ):
            grown = grown_since_last(computation, host, own_entry, clock)
            if grown is not None and not grown:
                causes.append(None)
            elif number not in bad:
                try:
                    grown = _check_causes(computation, host, clock, grown, growth, present)
                    causes.append([key(name, count) for name, count in grown] or None)
                except BadRecord as error:
                    bad[number] = error
        bad_rows = {
            number: bad_row(
                batches.file,
                events.lines[number],
                str(error),
                events.text_of(number),
                computation=computation,
                process=None if number in events.bad else events.hosts[number],
            )
            for number, error in bad.items()
        }
        good = events.without(bad) if bad else events
        columns: dict[str, Sequence[Any] | None] = {
            "computation": [computation] * len(good.hosts),
            "process": good.hosts,
            "seq": good.own_entries,
            "time": parse_times(good.groups, self.unit),
            "kind": [LOCAL if keys is None else RECEIVE for keys in causes],
            "sends": list(map(key, good.hosts, good.own_entries)),
            "name": [text.strip() if text else None for text in good.groups.get("event", ())] or None,
            "receives": [None if keys is None else keys[0] for keys in causes],
            "receives_more": [None if keys is None else keys[1:] or None for keys in causes],
            "attributes": write_attributes(good.groups),
            "place": good.lines,
        }
        batches.add({name: column for name, column in columns.items() if column is not None}, bad_rows)


def _check_causes(
    computation: str,
    host: str,
    clock: Clock,
    grown: list[tuple[str, int]] | None,
    growth: ClockGrowth,
    present: Presence | None,
) -> list[tuple[str, int]]:
    """Return the causes that a clock names, and note the clock. Raises `BadRecord` if the clock or a cause is wrong.

    `grown` are the causes if `ClockGrowth.grown_since_last` has found them.
    """
    own_entry = clock[host]
    if grown is None:
        contradicted = growth.contradicted_entry(computation, host, clock)
        if contradicted is not None:
            event, entry = f"event {own_entry} of {host[:_SHOWN]!r}", f"the entry of {contradicted[:_SHOWN]!r}"
            raise BadRecord("clock-backwards", f"{event} contradicts the one read before it in {entry}")
        grown = growth.grown(computation, host, clock)
    absent = present.absent(grown) if present is not None else {}
    if absent and present is not None:
        growth.note_entries(computation, host, own_entry, absent)
        raise present.error(absent)
    if len(grown) > MOST_CAUSES:
        raise too_many_causes(len(grown))
    growth.note(computation, host, clock)
    return grown


def _compile_event(regex: str, *, is_trusted: bool = False) -> Expression:
    return compile_javascript(regex, what="the regex of an event", needs=("host", "clock"), is_trusted=is_trusted)


def _has_clocks_first(piece: FileSlice, delimiter: Expression | None) -> bool:
    """Return False if the file begins with a text and ends with a clock, else True."""
    with closing(TextWindow(piece)) as window:
        first = last = None
        while not window.at_end:
            line = window.take_line().strip()
            try:
                if line and (delimiter is None or not delimiter.occurs_in(line)):
                    if first is None and _STAMPED_LINE.fullmatch(line):
                        return True
                    first, last = first or line, line
            except TooSlow:
                assert delimiter is not None
                raise delimiter_too_slow(delimiter, window, piece.file) from None
    return not last or not _STAMPED_LINE.fullmatch(last)


def _look_ahead(
    execution: Iterable[Stamped | Leftover],
) -> tuple[list[Stamped | Leftover] | None, Presence, ClockGrowth]:
    """Read an execution to its end. Return its parts, or None if they are too large; its events; and their clocks."""
    held: list[Stamped | Leftover] | None = []
    characters, present, growth = 0, Presence(), ClockGrowth()
    for part in execution:
        characters += len(part.text)
        if not isinstance(part, Leftover):
            for number, (host, own_entry, clock) in enumerate(
                zip(part.hosts, part.own_entries, part.clocks, strict=True)
            ):
                if number not in part.bad:
                    present.add(host, own_entry)
                    growth.remember(part.execution.name, host, clock)
        if characters > MOST_HELD_CHARACTERS:
            held = None
        elif held is not None:
            held.append(part)
    return held, present, growth
