"""The events of a text log, and the executions they belong to: what the expressions match, and what they leave."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from whence.sources.windows import Window

_NO_MATCH = "no-match: this line belongs to no event as the regex reads them"


@dataclass(frozen=True, slots=True)
class Execution:
    """One of the executions in a file; `number` counts those that hold anything from 1."""

    number: int
    name: str


@dataclass(frozen=True, slots=True)
class Match:
    """One event, or, without `groups`, something that is none, with what is wrong with it."""

    execution: Execution
    line: int
    text: str
    groups: dict[str, str | None] | None
    problem: str = ""


def matches(window: Window, event: re.Pattern[str], delimiter: re.Pattern[str] | None, file: str) -> Iterator[Match]:
    """What the log holds, in order: every line that is not blank is part of a match or of a delimiter.

    Events and delimiters begin at the beginning of a line; what follows them on their last line belongs to no event.
    """
    borders = _Borders(window, delimiter, PurePosixPath(file).name)
    while not window.at_end:
        found = borders.crossing()
        if found is None:
            found = event.match(window.text, window.position, borders.limit())
            if found is not None and found.end() > window.position:
                yield Match(borders.used(), window.line, found[0], found.groupdict())
        ends_line = False
        if found is not None and found.end() > window.position:
            ends_line = found[0].endswith("\n")
            window.advance(found.end())
        if not ends_line:
            line, rest = window.line, window.take_line()
            if rest.strip():
                yield Match(borders.used(), line, rest, None, _NO_MATCH)
    if window.torn is not None:
        yield Match(
            borders.used(), window.line, "", None, f"torn-file: nothing can be read from here on: {window.torn}"
        )


class _Borders:
    """Where the executions begin and end."""

    def __init__(self, window: Window, delimiter: re.Pattern[str] | None, file: str) -> None:
        self._window = window
        self._delimiter = delimiter
        self._file = file
        self._names: set[str] = set()
        self._in_use = False
        self._execution = Execution(1, "" if delimiter is None else f"{file}#1")
        self._searched_to = 0
        self._next: int | None = None

    def used(self) -> Execution:
        """The execution that the position belongs to, which now holds something."""
        if not self._in_use:
            self._in_use = True
            self._names.add(self._execution.name)
        return self._execution

    def crossing(self) -> re.Match[str] | None:
        """The delimiter at the position, if there is one; what follows belongs to the next execution."""
        if self._delimiter is None or self._next_index() != self._window.position:
            return None
        found = self._match(self._window.position)
        assert found is not None
        self._next = None
        self._searched_to += 1
        number = self._execution.number + self._in_use
        trace = (found.groupdict().get("trace") or "").strip()
        self._execution = Execution(number, self._unused(trace, number))
        self._in_use = False
        return found

    def limit(self) -> int:
        """How far an event at the position may reach: its window, or the next delimiter."""
        limit = self._window.limit(self._window.position)
        following = self._next_index()
        return limit if following is None else min(limit, following)

    def _unused(self, trace: str, number: int) -> str:
        name = trace.encode("utf-8", "backslashreplace").decode() or f"{self._file}#{number}"
        while name in self._names:
            name = f"{name}#{number}"
        return name

    def _next_index(self) -> int | None:
        """The next delimiter within the window; what was searched once is not searched again."""
        if self._delimiter is None:
            return None
        window = self._window
        if self._next is None:
            limit = window.limit(window.position)
            index = max(window.position, self._searched_to - window.base)
            if index > window.position and window.text[index - 1] != "\n":
                index = (window.text.find("\n", index) + 1) or len(window.text)
            while index < limit:
                if self._match(index) is not None:
                    self._next = window.base + index
                    break
                index = (window.text.find("\n", index, limit) + 1) or limit
            self._searched_to = window.base + index
        return None if self._next is None else self._next - window.base

    def _match(self, index: int) -> re.Match[str] | None:
        assert self._delimiter is not None
        return self._delimiter.match(self._window.text, index, self._window.limit(index))
