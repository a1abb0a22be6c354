"""Lines of exported events, as whence's own format tells them, so that what is read again follows what it followed.

A history knows what each event follows within its process. This says the same by lines: an event follows the one before on
its line; the first of a line is started from another (``line_parent``), and any may have waited for others (``line_joins``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from whence.events.schema import FIRST


@dataclass(frozen=True, slots=True)
class Told:
    """How an event is told."""

    line: str | None
    parent: str | None = None
    """The line it was started from."""
    joins: list[str] | None = None
    """The lines it waited for."""
    phase: str | None = None
    """`FIRST` on the first event of a line that was started from another."""
    untold: tuple[int, ...] = ()
    """Positions of what it follows and no line can tell: events that are no longer the last of their lines."""


@dataclass(slots=True)
class Lines:
    """Goes over the exported events, in order. Remembers the last event of each line."""

    _last: dict[tuple[int, str | None], tuple[int, str | None]] = field(default_factory=dict)
    """By process and line: the position of its last event, and the name under which the line is told."""
    _named: dict[int, str | None] = field(default_factory=dict)
    """By the position of the last event of a line: that name."""

    def tell(self, rows: Iterable[tuple[int, int, str | None, list[int]]]) -> Iterator[Told]:
        """Give for each event how it is told, by its position, process and line, and the positions of what it follows.

        An event that does not follow the one before on its line goes on under a new name.
        """
        for position, code, line, follows in rows:
            before = self._last.get((code, line))
            name = line
            told = set(follows)
            if before is not None:
                self._named.pop(before[0])
                name = before[1] if before[0] in told else f"{line or 'main'} from {position}"
                told.discard(before[0])
            joined: list[str] = []
            untold: list[int] = []
            for each in sorted(told):
                other = self._named.get(each)
                if other is None:
                    untold.append(each)
                else:
                    joined.append(other)
            parent = joined.pop(0) if joined and name is not None and before is None else None
            self._last[code, line] = (position, name)
            self._named[position] = name
            phase = FIRST if parent is not None else None
            yield Told(name, parent, joined or None, phase, tuple(untold))
