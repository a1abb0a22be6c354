"""Express what each exported event follows within its process by lines, as ledto's own format has them.

A history knows what each event follows within its process. A file says the same with lines: an event follows the one
before it on its line, the first event of a line follows another line (``line_parent``), and any event may follow the ends
of others (``line_joins``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ledto.events.schema import FIRST


@dataclass(frozen=True, slots=True)
class ExportedLine:
    """The lines that an event names in a file."""

    line: str | None
    parent: str | None = None
    """The line that started its line."""
    joins: list[str] | None = None
    """The lines that it waited for."""
    phase: str | None = None
    """`FIRST` on the first event of a line that another line started."""
    unexpressed: tuple[int, ...] = ()
    """Positions of events that it follows but no line can express, since they are not the last of their lines."""


@dataclass(slots=True)
class ExportedLines:
    """A pass over the exported events, in order. Remembers the last event of each line."""

    _last: dict[tuple[int, str | None], tuple[int, str | None]] = field(default_factory=dict)
    """By process and line: the position of its last event, and the name of the line in the file."""
    _names: dict[int, str | None] = field(default_factory=dict)
    """By the position of the last event of a line: that name."""

    def express(self, rows: Iterable[tuple[int, int, str | None, list[int]]]) -> Iterator[ExportedLine]:
        """Yield the lines of each event, given its position, process and line, and the positions of what it follows.

        If an event does not follow the one before it on its line, it begins a line with a new name.
        """
        for position, code, line, follows in rows:
            before = self._last.get((code, line))
            name = line
            others = set(follows)
            if before is not None:
                last_position, last_name = before
                self._names.pop(last_position)
                name = last_name if last_position in others else f"{line or 'main'} from {position}"
                others.discard(last_position)
            joined: list[str] = []
            unexpressed: list[int] = []
            for cause in sorted(others):
                other_line = self._names.get(cause)
                if other_line is None:
                    unexpressed.append(cause)
                else:
                    joined.append(other_line)
            parent = joined.pop(0) if joined and name is not None and before is None else None
            self._last[code, line] = (position, name)
            self._names[position] = name
            phase = FIRST if parent is not None else None
            yield ExportedLine(name, parent, joined or None, phase, tuple(unexpressed))
