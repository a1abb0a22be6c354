"""Times of exported events: in nanoseconds, and for diagrams such that every effect stands after its causes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from whence.history.questions.event import Event

WALL: Final = "wall"
CORRECTED: Final = "corrected"
TIMES: Final = (CORRECTED, WALL)

NANOSECONDS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""In units of time. Where a history counts something else, diagrams take one of it as a microsecond."""
APART: Final = 8
"""Nanoseconds, at least, between events of one process in a diagram, so that something fits strictly inside of each, even
if the reader cuts off the last digit."""


@dataclass(slots=True)
class Showing:
    """Which times a format is to show, and how many messages it then drew as arrows, where it draws them."""

    times: str
    arrows: int | None = None
    arrows_left_out: int | None = None
    """Those that would have led to an earlier time."""

    @property
    def wall(self) -> bool:
        """Whether wall times are shown as they are."""
        return self.times == WALL

    def time_of(self, event: Event) -> int | None:
        """The event's time that is to be shown, in the history's unit."""
        return event.time if self.wall else event.corrected_time


@dataclass(slots=True)
class Placed:
    """A cause that is still to be drawn as such."""

    at: int
    track: int
    """Where it is drawn."""
    uses: int


@dataclass(slots=True)
class Timeline:
    """Gives each event, in history order, a time in nanoseconds.

    Its corrected time or, where that is not after all its causes or is not known, the least time that is.
    So clocks that tick coarsely, and events without a time, do not make an effect stand before or beside its cause.
    Where wall times are shown, its wall time as it is; one without stands where the one before it in its process does.

    Memory is one number a process and a few for each event that is still to be a cause of another.
    """

    unit: str
    start: int
    """The time that becomes 0, in the history's unit."""
    showing: Showing
    last: dict[int, int] = field(default_factory=dict)
    """By process: the time of its last event so far."""
    _waiting: dict[int, Placed] = field(default_factory=dict)

    @property
    def tick(self) -> int:
        """Nanoseconds of one unit in a diagram."""
        return NANOSECONDS.get(self.unit, NANOSECONDS["us"])

    def place(self, event: Event, code: int, track: int, causes: list[int], uses: int) -> tuple[int, list[Placed]]:
        """The event's time, and those of its causes with their tracks."""
        known = self.showing.time_of(event)
        time = self.last.get(code, 0) if known is None else (known - self.start) * self.tick
        found = [self._cause(position) for position in causes]
        if not self.showing.wall:
            if code in self.last:
                time = max(time, self.last[code] + APART)
            time = max([time, *(cause.at + 1 for cause in found)])
        self.last[code] = time
        if uses:
            self._waiting[event.position] = Placed(time, track, uses)
        return time, found

    def _cause(self, position: int) -> Placed:
        found = self._waiting[position]
        found.uses -= 1
        if found.uses == 0:
            del self._waiting[position]
        return found
