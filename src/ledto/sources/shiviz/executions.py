"""Find the events of a text log and the executions they belong to, and the text that belongs to no event.

As in ShiViz, delimiters are found first, anywhere in the text. Events are then found in the text between them, from left
to right, each after the end of the one before it, also in the middle of a line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, repeat
from pathlib import PurePosixPath
from typing import Final

from ledto.sources.contract import SourceError
from ledto.sources.regex.javascript import LINE_SECONDS, Expression, TooSlow
from ledto.sources.rows import BadRecord
from ledto.sources.shiviz.text_window import TextWindow

_SHOWN = 60


MOST_SLOW_LINES: Final = 5
"""How many lines of a file may take too long. Each becomes a bad row; the last raises `SourceError`."""
RUN_EVENTS: Final = 1_024
RUN_CHARACTERS: Final = 1 << 20
"""About how many events, and how much text, `Events` has at most."""
_TOO_SLOW = f"too-slow: looking for an event from here on takes more than {LINE_SECONDS:g} s"
_ADVICE = "write it without a repetition within a repetition"
_NO_MATCH = "no-match: this text belongs to no event as the regex reads them"


@dataclass(slots=True)
class Presence:
    """The events of an execution. Memory holds two numbers for each host and each gap in its numbers."""

    _starts: dict[str, list[int]] = field(default_factory=dict)
    _stops: dict[str, list[int]] = field(default_factory=dict)

    def add(self, host: str, count: int) -> None:
        """Note that the host has this event."""
        last_stops = self._stops.get(host)
        if last_stops is not None and last_stops[-1] == count:  # Nearly always, it is the host's next one.
            last_stops[-1] = count + 1
            return
        starts, stops = self._starts.setdefault(host, []), self._stops.setdefault(host, [])
        at = bisect_right(starts, count)
        if at and count < stops[at - 1]:
            return
        joins_before = at > 0 and stops[at - 1] == count
        joins_after = at < len(starts) and starts[at] == count + 1
        if joins_before and joins_after:
            stops[at - 1] = stops.pop(at)
            del starts[at]
        elif joins_before:
            stops[at - 1] = count + 1
        elif joins_after:
            starts[at] = count
        else:
            starts.insert(at, count)
            stops.insert(at, count + 1)

    def absent(self, entries: Iterable[tuple[str, int]]) -> dict[str, int]:
        """Return the entries that name an event that is not here."""
        return {host: count for host, count in entries if not self._has(host, count)}

    def error(self, absent: Mapping[str, int]) -> BadRecord:
        """Make the error for an event whose clock names these absent events."""
        for host in absent:
            if host not in self._starts:
                return BadRecord("unknown-process", f"the clock counts {host[:_SHOWN]!r}, which logs nothing")
        host, count = next(iter(absent.items()))
        return BadRecord("unknown-event", f"the clock knows event {count} of {host[:_SHOWN]!r}, which is not logged")

    def _has(self, host: str, count: int) -> bool:
        at = bisect_right(self._starts.get(host, []), count)
        return at > 0 and count < self._stops[host][at - 1]


@dataclass(frozen=True, slots=True)
class Execution:
    """An execution in a file. `number` counts from 1, without empty executions."""

    number: int
    name: str


@dataclass(frozen=True, slots=True)
class Leftover:
    """A line of text that is part of no event, with the reason."""

    execution: Execution
    line: int
    text: str
    problem: str


@dataclass(frozen=True, slots=True)
class Events:
    """Events of an execution that follow each other with only blanks between them."""

    execution: Execution
    lines: list[int]
    """The number of the line in the file where each begins."""
    matches: list[re.Match[str]]


def find_events(
    window: TextWindow, event: Expression, delimiter: Expression | None, file: str
) -> Iterator[Events | Leftover]:
    """Yield events and other text, in order. All text but blanks is part of an event, a delimiter or a `Leftover`.

    A `Leftover` is a line, or the part of a line before or after an event.
    """
    borders = _Borders(window, delimiter, PurePosixPath(file).name)
    unused = _Unused(window, borders)
    watched = _Watched(event, window)
    while not window.at_end:
        delimiter_end = borders.delimiter_end()
        if delimiter_end is not None:
            yield from unused.rest()
            borders.cross()
            window.advance(delimiter_end)
            continue
        limit, is_border = borders.limit()
        # An event that begins in the second half may end beyond the limit. It is searched again from there.
        half = (window.position + limit) // 2
        horizon = limit if is_border else window.line_start(half, least=(window.position + half) // 2)
        text, before = window.text, 0
        if borders.is_first_look():
            # An execution may begin in the middle of a line. For an expression, the text begins there.
            text, before = window.text[window.position : limit], window.position
        try:
            matches, horizon = watched.search(text, before, limit, horizon)
        except TooSlow:
            end = window.text.find("\n", window.position, limit) + 1 or limit
            yield from unused.rest()
            yield Leftover(borders.use(), window.line, window.text[window.position : end].rstrip("\n"), _TOO_SLOW)
            watched.note_slow_line(file)
            window.advance(end)
            continue
        if (
            matches
            and not is_border
            and before + matches[-1].end() == limit
            and before + matches[-1].start() > window.position
        ):
            # The limit may have cut this match. It is searched again from where it begins.
            horizon = before + matches.pop().start()
        text_start, goal = window.base + before, window.base + horizon
        for run in _split_runs(text, matches):
            yield from unused.up_to(text_start + run[0].start() - window.base)
            yield from unused.rest()
            yield Events(borders.use(), _number_lines(text, run, window.line), run)
            window.advance(text_start + run[-1].end() - window.base)
        if goal > window.base + window.position:
            yield from unused.up_to(goal - window.base)
    yield from unused.rest()
    if window.torn is not None:
        yield Leftover(borders.use(), window.line, "", f"torn-file: nothing can be read from here on: {window.torn}")


def _split_runs(text: str, matches: list[re.Match[str]]) -> Iterator[list[re.Match[str]]]:
    """Divide the matches where more than blanks is between two of them, and where a run becomes too large."""
    first, end = 0, 0
    for number, match in enumerate(matches):
        begin, stop = match.span()
        if number > first and (
            number - first == RUN_EVENTS
            or stop - matches[first].start() > RUN_CHARACTERS
            or not (begin == end or text[end:begin].isspace())
        ):
            yield matches[first:number]
            first = number
        end = stop
    if matches:
        yield matches[first:]


def _number_lines(text: str, run: list[re.Match[str]], line: int) -> list[int]:
    """Return the line number of each match, given that of the first."""
    starts = [match.start() for match in run]
    return list(accumulate(map(text.count, repeat("\n"), starts, starts[1:]), initial=line))


def delimiter_too_slow(expression: Expression, window: TextWindow, file: str) -> SourceError:
    """Make the error for a delimiter that takes too long."""
    where = f"from line {window.line} of {file} on"
    return SourceError(f"the delimiter {expression.source!r:.200} takes too long {where}: {_ADVICE}")


class _Watched:
    """An expression that is searched line by line where it takes too long, to find the line that causes it."""

    def __init__(self, expression: Expression, window: TextWindow) -> None:
        self._expression = expression
        self._window = window
        self._slow_up_to = 0
        self._slow_lines = 0

    def search(self, text: str, before: int, limit: int, horizon: int) -> tuple[list[re.Match[str]], int]:
        """Return matches that begin from the window's position up to `horizon`, and the index up to which there are no more.

        They end at `limit` or earlier. `text` is the window's text from `before` on. Raises `TooSlow` if the line at the
        position takes too long.
        """
        window = self._window
        start, stop = window.position - before, limit - before
        if window.base + window.position >= self._slow_up_to:
            matches: list[re.Match[str]] = []
            try:
                self._expression.append_matches(text, start, stop, horizon - before, matches)
                return matches, horizon
            except TooSlow:
                self._slow_up_to = window.base + limit
                if matches:
                    return matches, matches[-1].end() + before
        line_end = window.text.find("\n", window.position, limit) + 1 or limit
        first = self._expression.search_line(text, start, stop, line_end - before)
        if first is None or first.start() + before >= horizon:
            return [], min(horizon, line_end)
        return [first], first.end() + before

    def note_slow_line(self, file: str) -> None:
        """Count a line that took too long. Raises `SourceError` after too many."""
        self._slow_lines += 1
        if self._slow_lines == MOST_SLOW_LINES:
            raise SourceError(
                f"the expression {self._expression.source!r:.200} takes more than {LINE_SECONDS:g} s for a line, the "
                f"{MOST_SLOW_LINES}th time at line {self._window.line} of {file}: {_ADVICE}"
            )


class _Borders:
    """The delimiters, and the execution at the window's position."""

    def __init__(self, window: TextWindow, delimiter: Expression | None, file: str) -> None:
        self._window = window
        self._delimiter = delimiter
        self._file = file
        self._names: set[str] = set()
        self._in_use = False
        self._execution = Execution(1, "" if delimiter is None else f"{file}#1")
        self._is_new = False
        self._searched_to = 0
        self._next: tuple[int, int, str] | None = None
        """The start and end of the next delimiter in the file, and the name that it gives to its execution."""

    def use(self) -> Execution:
        """Return the execution at the position, and note that it is not empty."""
        if not self._in_use:
            self._in_use = True
            self._names.add(self._execution.name)
        return self._execution

    def delimiter_end(self) -> int | None:
        """Return the end of the delimiter that begins at the position; None if none does."""
        self._look_ahead()
        if self._next is None or self._next[0] != self._window.base + self._window.position:
            return None
        return self._next[1] - self._window.base

    def cross(self) -> None:
        """Begin the next execution, after the delimiter at the position."""
        assert self._next is not None
        _, self._searched_to, trace = self._next
        self._next = None
        number = self._execution.number + self._in_use
        self._execution = Execution(number, self._unused_name(trace, number))
        self._in_use = False
        self._is_new = True

    def is_first_look(self) -> bool:
        """Return whether this is the first call after a delimiter."""
        is_new, self._is_new = self._is_new, False
        return is_new

    def limit(self) -> tuple[int, bool]:
        """Return how far an event after the position may reach, and whether its execution ends there."""
        window = self._window
        limit = window.limit(window.position)
        if self._next is not None and self._next[0] - window.base <= limit:
            return self._next[0] - window.base, True
        if self._delimiter is not None:
            limit = min(limit, self._searched_to - window.base)
        return limit, window.is_last(limit)

    def _unused_name(self, trace: str, number: int) -> str:
        name = trace.encode("utf-8", "backslashreplace").decode() or f"{self._file}#{number}"
        while name in self._names:
            name = f"{name}#{number}"
        return name

    def _look_ahead(self) -> None:
        """Find the next delimiter, if it is less than a window away. Text is searched once."""
        window, expression = self._window, self._delimiter
        searched = self._searched_to - window.base
        if expression is None or self._next is not None:
            return
        if searched - window.position >= window.width // 2 or window.is_last(searched):
            return
        limit, half = window.limit(window.position, windows=2), window.width // 2
        stop = window.line_start(window.position + window.width, least=window.position + half)
        stop = limit if window.is_last(limit) else stop
        try:
            match = expression.search(window.text, max(searched, window.position), limit)
        except TooSlow:
            raise delimiter_too_slow(expression, window, self._file) from None
        if match is not None and match.start() < stop:
            name = (match.groupdict().get("trace") or "").strip()
            self._next = (window.base + match.start(), window.base + match.end(), name)
        self._searched_to = window.base + stop


class _Unused:
    """Text that is part of no event, line by line. Of a line that is longer than the window, only its beginning."""

    def __init__(self, window: TextWindow, borders: _Borders) -> None:
        self._window = window
        self._borders = borders
        self._line = 0
        self._text = ""

    def up_to(self, index: int) -> Iterator[Leftover]:
        """Advance the window to an index of its text. Yield the lines that end before it, and hold the rest."""
        window = self._window
        if not self._text and window.text[window.position : index].isspace():
            window.advance(index)
            return
        goal = window.base + index
        while window.base + window.position < goal:
            end = window.text.find("\n", window.position, goal - window.base)
            stop = goal - window.base if end < 0 else end
            if not self._text:
                self._line = window.line
            self._text += window.text[window.position : stop][: window.width - len(self._text)]
            if end >= 0:
                yield from self.rest()
            window.advance(stop if end < 0 else end + 1)

    def rest(self) -> Iterator[Leftover]:
        """Yield the held text, unless it is blank."""
        text, self._text = self._text, ""
        if text.strip():
            yield Leftover(self._borders.use(), self._line, text, _NO_MATCH)
