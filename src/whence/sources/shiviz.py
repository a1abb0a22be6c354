"""The source of logs for ShiViz, as GoVector writes them: text in which each event has a host and a vector clock.

One literal event, as the default expression reads it::

    shop {"shop":2, "stock":1}
    order placed

An event's own entry is its number in its host; the foreign entries that grew name its causes (`whence.sources.vectors`).
Events are found as ShiViz finds them (`whence.sources.executions`). Text that belongs to no event is set aside, line by
line. A line for which the expression takes too long is set aside, and after some of them the expression is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import groupby, repeat
from typing import ClassVar, Final

import msgspec
import pyarrow as pa

from whence.events.schema import LOCAL, RECEIVE
from whence.sources.contract import Piece, Records
from whence.sources.executions import Match, delimiter_too_slow, matches
from whence.sources.javascript_regex import Expression, TooSlow, compile_javascript
from whence.sources.presence import Presence
from whence.sources.quick_objects import NOT_TAKEN
from whence.sources.rows import BadRecord, Row, bad_row, batches
from whence.sources.strict_json import value_of
from whence.sources.times import INT64_LEAST, INT64_MOST, time_from_text
from whence.sources.vectors import Growth, key
from whence.sources.windows import Window

CLOCK_FIRST: Final = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"
"""What GoVector writes."""
EVENT_FIRST: Final = r"(?<event>.*)\n(?<host>\S*) (?<clock>{.*})"
"""What ShiViz itself expects, unless it is told otherwise."""

MOST_ENTRY: Final = 1 << 53
"""The largest count that JavaScript, and so ShiViz, can count to."""

_KNOWN_GROUPS = ("host", "clock", "event")
_TIME_GROUPS = ("timestamp", "date", "time")
_STAMPED_LINE = re.compile(r"\S+ \{.*\}", re.DOTALL)
_INTEGER = re.compile(r"-?\d{1,19}", re.ASCII)
_ESCAPED_CLOCK = re.compile(r'\s*\{\s*\\"')
_SHOWN = 60
_encode = msgspec.json.Encoder().encode
_decode_clock = msgspec.json.Decoder(dict[str, int]).decode


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
        yield from batches(self._rows(piece))

    def _executions(self, piece: Piece, pattern: Expression) -> Iterator[Iterator[Match]]:
        with closing(Window(piece)) as window:
            found = matches(window, pattern, self._delimiter, piece.file)
            for _, execution in groupby(found, key=lambda match: match.execution.number):
                yield execution

    def _rows(self, piece: Piece) -> Iterator[Row]:
        # A clock may name an event that stands further on, so a first pass, one execution ahead, notes what there is.
        pattern = self._given or _event_pattern(
            CLOCK_FIRST if _has_clocks_first(piece, self._delimiter) else EVENT_FIRST, is_trusted=True
        )
        executions = self._executions(piece, pattern)
        ahead = map(_look_ahead, self._executions(piece, pattern)) if self.complete else repeat(None)
        for execution, seen in zip(executions, ahead, strict=False):
            present, growth = seen or (None, Growth())
            for match in execution:
                yield self._row(match, growth, present, piece.file)

    def _row(self, match: Match, growth: Growth, present: Presence | None, file: str) -> Row:
        name = match.execution.name
        if match.groups is None:
            return bad_row(file, match.line, match.problem, match.text, computation=name)
        host = None
        try:
            host, clock = _stamped(match)
            return self._good_row(match, match.groups, host, clock, growth, present, file)
        except BadRecord as error:
            return bad_row(file, match.line, str(error), match.text, computation=name, process=host)

    def _good_row(
        self,
        match: Match,
        groups: Mapping[str, str | None],
        host: str,
        clock: dict[str, int],
        growth: Growth,
        present: Presence | None,
        file: str,
    ) -> Row:
        computation, own = match.execution.name, clock[host]
        contradicted = growth.backwards(computation, host, clock)
        if contradicted is not None:
            event, entry = f"event {own} of {host[:_SHOWN]!r}", f"the entry of {contradicted[:_SHOWN]!r}"
            raise BadRecord("clock-backwards", f"{event} contradicts the one read before it in {entry}")
        grown = growth.grown(computation, host, clock)
        absent = present.absent(grown) if present is not None else {}
        if absent and present is not None:
            growth.note_only(computation, host, own, absent)
            raise present.complaint(absent)
        row = Row(computation=computation, process=host, seq=own, file=file, place=match.line)
        row.sends = key(host, own)
        row.receive([key(name, count) for name, count in grown])
        row.kind = LOCAL if row.receives is None else RECEIVE
        event_text = groups.get("event")
        row.name = event_text.strip() if event_text else None
        row.time = self._time(groups)
        row.attributes = _attributes(groups)
        growth.note(computation, host, clock)
        return row

    def _time(self, groups: Mapping[str, str | None]) -> int | None:
        given = [text.strip() for name in _TIME_GROUPS if (text := groups.get(name))]
        date, clock_time = groups.get("date"), groups.get("time")
        if date and clock_time:
            given[:0] = [f"{date.strip()}{between}{clock_time.strip()}" for between in "T "]
        return next((time for text in given if (time := _time_of(text, self.unit)) is not None), None)


@lru_cache(maxsize=10_000)
def _time_of(text: str, unit: str) -> int | None:
    """The time that the text tells, if it does. Events of one second often tell it in the same way."""
    if _INTEGER.fullmatch(text) and INT64_LEAST <= int(text) <= INT64_MOST:
        return int(text)
    try:
        return time_from_text(_iso(text), unit)
    except BadRecord:
        return None


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
                    first, last = first or line, line
            except TooSlow:
                assert delimiter is not None
                raise delimiter_too_slow(delimiter, window, piece.file) from None
    return not (first and last) or bool(_STAMPED_LINE.fullmatch(first)) or not _STAMPED_LINE.fullmatch(last)


def _iso(text: str) -> str:
    """A time as Java's and C#'s loggers of the United States write it, in ISO 8601; other texts as they are."""
    with suppress(ValueError):
        return datetime.strptime(text, "%m/%d/%Y %I:%M:%S %p").isoformat()
    return text


def _look_ahead(execution: Iterable[Match]) -> tuple[Presence, Growth]:
    """Which events there are, and the clocks that others may name."""
    present, growth = Presence(), Growth()
    for match in execution:
        if match.groups is not None:
            with suppress(BadRecord):
                host, clock = _stamped(match)
                present.add(host, clock[host])
                growth.remember(match.execution.name, host, clock)
    return present, growth


def _stamped(match: Match) -> tuple[str, dict[str, int]]:
    """The event's host and clock, or `BadRecord`."""
    assert match.groups is not None
    try:
        match.text.encode("utf-8")
    except UnicodeEncodeError:
        raise BadRecord("not-utf8", "the text holds bytes that are not UTF-8") from None
    host, text = match.groups["host"], match.groups["clock"] or ""
    if not host:
        raise BadRecord("no-process", "the host is empty")
    if "\0" in host:
        raise BadRecord("bad-field", "the host holds a NUL character")
    quick = _quick_clock(text, host)
    if quick is not None:
        return host, quick
    clock = value_of(_unescaped(text))
    if not isinstance(clock, dict):
        raise BadRecord("bad-clock", f"a clock is an object of counts, not {text[:_SHOWN]}")
    for name, count in clock.items():
        if type(count) is not int or not 0 <= count <= MOST_ENTRY:
            raise BadRecord("bad-clock", f"the entry of {name[:_SHOWN]!r} is a count up to 2**53, not {count!r:.60}")
        if "\0" in name:
            raise BadRecord("bad-clock", "the name of an entry holds a NUL character")
    if not clock.get(host):
        raise BadRecord("bad-clock", f"the clock does not count its own host {host[:_SHOWN]!r}")
    return host, clock


def _quick_clock(text: str, host: str) -> dict[str, int] | None:
    """The clock that the text is; None if the exact reader must look: for anything unusual, and to say what is wrong."""
    try:
        clock = _decode_clock(text)
    except NOT_TAKEN:
        return None
    # Two quotes a key, unless one is given twice, of which msgspec keeps the last.
    if "\\" in text or 2 * len(clock) != text.count('"') or not clock.get(host) or max(clock.values()) > MOST_ENTRY:
        return None
    return clock if min(clock.values()) >= 0 else None


def _unescaped(clock: str) -> str:
    r"""The clock without the backslashes of a text that it stands in, as TLA+ prints it: ``{\"n1\":1}``."""
    if _ESCAPED_CLOCK.match(clock):
        with suppress(ValueError):
            return str(json.loads(f'"{clock}"'))
    return clock


def _attributes(groups: Mapping[str, str | None]) -> str | None:
    others = {name: text for name, text in groups.items() if text is not None and name not in _KNOWN_GROUPS}
    return _encode(others).decode() if others else None
