"""The source of logs for ShiViz, as GoVector writes them: text in which each event has a host and a vector clock.

One literal event, as the default expression reads it::

    shop {"shop":2, "stock":1}
    order placed

An event's own entry is its number in its host; the foreign entries that grew name its causes (`whence.sources.vectors`).
Events are found as ShiViz finds them (`whence.sources.executions`). Text that belongs to no event is set aside, line by
line. A line for which the expression takes too long is set aside, and after some of them the expression is refused.
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

from whence.events.schema import LOCAL, RECEIVE
from whence.sources.contract import Piece, Records
from whence.sources.executions import Leftover, delimiter_too_slow, matches
from whence.sources.group_columns import attributes_of, times_of
from whence.sources.javascript_regex import Expression, TooSlow, compile_javascript
from whence.sources.presence import Presence
from whence.sources.rows import (
    MOST_CAUSES,
    BadRecord,
    Batches,
    bad_row,
    too_many_causes,
)
from whence.sources.stamped_text import Clock, Stamped, stamped
from whence.sources.vectors import Growth, key
from whence.sources.windows import Window

CLOCK_FIRST: Final = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"
"""What GoVector writes."""
EVENT_FIRST: Final = r"(?<event>.*)\n(?<host>\S*) (?<clock>{.*})"
"""What ShiViz itself expects, unless it is told otherwise."""

MOST_HELD_CHARACTERS: Final = 16 << 20
"""Of an execution that is held while it is looked through to its end; a longer one is read twice."""

_STAMPED_LINE = re.compile(r"\S+ \{.*\}", re.DOTALL)
_SHOWN = 60


@dataclass(frozen=True)
class ShiViz:
    """Text with vector clocks; `regex` has the groups ``host`` and ``clock``, and ``event`` for what happened.

    Without one, what happened stands after host and clock, as GoVector writes it, or before them, as ShiViz expects it:
    whichever the first and the last line say. All further groups become attributes; ``timestamp``, ``date`` or ``time`` is
    the event's wall time where it is an integer or ISO-8601 text. With `delimiter`, the text between its matches is one
    execution each, a computation of its own, named by its group ``trace`` or by its number. `complete` says that a file
    holds the whole of its executions: events whose clocks name an event that is not in it are then set aside; otherwise
    that is left to the observer.
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
        _ = self._given, self._delimiter

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @cached_property
    def _given(self) -> Expression | None:
        return None if self.regex is None else _event_pattern(self.regex)

    @cached_property
    def _delimiter(self) -> Expression | None:
        if self.delimiter is None:
            return None
        return compile_javascript(self.delimiter, what="the delimiter of executions")

    def read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        made = Batches(piece.file)
        for execution, present, growth in self._executions_to_read(piece):
            for found in execution:
                if isinstance(found, Leftover):
                    name = found.execution.name
                    made.add_rows([bad_row(piece.file, found.line, found.problem, found.text, computation=name)])
                else:
                    self._add(found, growth, present, made)
                if made.is_full:
                    yield made.taken()
        if not made.is_empty:
            yield made.taken()

    def _executions_to_read(
        self, piece: Piece
    ) -> Iterator[tuple[Iterable[Stamped | Leftover], Presence | None, Growth]]:
        """Each execution, with what later parts of it say about its earlier parts, if that must be known."""
        pattern = self._given or _event_pattern(
            CLOCK_FIRST if _has_clocks_first(piece, self._delimiter) else EVENT_FIRST, is_trusted=True
        )
        again = self._executions(piece, pattern)
        for number, execution in self._executions(piece, pattern):
            if not self.complete:
                yield execution, None, Growth()
                continue
            # A clock may name an event that stands further on.
            held, present, growth = _look_ahead(execution)
            if held is None:
                yield next(each for other, each in again if other == number), present, growth
            else:
                yield held, present, growth

    def _executions(self, piece: Piece, pattern: Expression) -> Iterator[tuple[int, Iterator[Stamped | Leftover]]]:
        """The number of each execution, and what it holds."""
        with closing(Window(piece)) as window:
            found = matches(window, pattern, self._delimiter, piece.file)
            for number, execution in groupby(found, key=lambda each: each.execution.number):
                yield number, (each if isinstance(each, Leftover) else stamped(each) for each in execution)

    def _add(self, events: Stamped, growth: Growth, present: Presence | None, made: Batches) -> None:
        """Add the rows of some events."""
        computation, followed = events.execution.name, growth.followed
        bad = dict(events.bad)
        causes: list[list[str] | None] = []
        for number, (host, own, clock) in enumerate(zip(events.hosts, events.own, events.clocks, strict=True)):
            grown = followed(computation, host, own, clock)
            if grown is not None and not grown:
                causes.append(None)
            elif number not in bad:
                try:
                    grown = _checked(computation, host, clock, grown, growth, present)
                    causes.append([key(name, count) for name, count in grown] or None)
                except BadRecord as error:
                    bad[number] = error
        others = {
            number: bad_row(
                made.file,
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
            "seq": good.own,
            "time": times_of(good.groups, self.unit),
            "kind": [LOCAL if keys is None else RECEIVE for keys in causes],
            "sends": list(map(key, good.hosts, good.own)),
            "name": [text.strip() if text else None for text in good.groups.get("event", ())] or None,
            "receives": [None if keys is None else keys[0] for keys in causes],
            "receives_more": [None if keys is None else keys[1:] or None for keys in causes],
            "attributes": attributes_of(good.groups),
            "place": good.lines,
        }
        made.add({name: column for name, column in columns.items() if column is not None}, others)


def _checked(
    computation: str,
    host: str,
    clock: Clock,
    grown: list[tuple[str, int]] | None,
    growth: Growth,
    present: Presence | None,
) -> list[tuple[str, int]]:
    """The causes that a clock names, which `Growth.followed` may have found, and note it; raises `BadRecord`."""
    own = clock[host]
    if grown is None:
        contradicted = growth.backwards(computation, host, clock)
        if contradicted is not None:
            event, entry = f"event {own} of {host[:_SHOWN]!r}", f"the entry of {contradicted[:_SHOWN]!r}"
            raise BadRecord("clock-backwards", f"{event} contradicts the one read before it in {entry}")
        grown = growth.grown(computation, host, clock)
    absent = present.absent(grown) if present is not None else {}
    if absent and present is not None:
        growth.note_only(computation, host, own, absent)
        raise present.complaint(absent)
    if len(grown) > MOST_CAUSES:
        raise too_many_causes(len(grown))
    growth.note(computation, host, clock)
    return grown


def _event_pattern(regex: str, *, is_trusted: bool = False) -> Expression:
    return compile_javascript(regex, what="the regex of an event", needs=("host", "clock"), is_trusted=is_trusted)


def _has_clocks_first(piece: Piece, delimiter: Expression | None) -> bool:
    """Whether the text of an event follows its clock: unless the file begins with a text and ends with a clock."""
    with closing(Window(piece)) as window:
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
) -> tuple[list[Stamped | Leftover] | None, Presence, Growth]:
    """What the execution holds, or None if that is too much; which events there are, and the clocks others may name."""
    held: list[Stamped | Leftover] | None = []
    characters, present, growth = 0, Presence(), Growth()
    for found in execution:
        if isinstance(found, Leftover):
            characters += len(found.text)
        else:
            characters += len(found.text)
            for number, (host, own, clock) in enumerate(zip(found.hosts, found.own, found.clocks, strict=True)):
                if number not in found.bad:
                    present.add(host, own)
                    growth.remember(found.execution.name, host, clock)
        if characters > MOST_HELD_CHARACTERS:
            held = None
        elif held is not None:
            held.append(found)
    return held, present, growth
