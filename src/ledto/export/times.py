"""Give exported events times in nanoseconds. In diagrams, each effect is after its causes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ledto.questions.event import Event

WALL: Final = "wall"
CORRECTED: Final = "corrected"
TIMES: Final = (CORRECTED, WALL)

NANOSECONDS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
"""Nanoseconds of each unit of time. Diagrams show one of any other unit as a microsecond."""
APART: Final = 8
"""Nanoseconds between events of one process in a diagram, at least. An arrow's end then fits strictly inside each slice,
even if the reader cuts off the last digit."""


@dataclass(slots=True)
class Showing:
    """The sort of times that an export shows, and counts of the arrows that it drew."""

    times: str
    arrows: int | None = None
    """How many arrows were drawn; None for formats without arrows."""
    arrows_left_out: int | None = None
    """How many arrows were not drawn, because they would point to an earlier time."""

    @property
    def wall(self) -> bool:
        """Return whether wall times are shown."""
        return self.times == WALL

    def time_of(self, event: Event) -> int | None:
        """Return the time of the event to show, in the history's unit."""
        return event.time if self.wall else event.corrected_time


@dataclass(slots=True)
class PlacedCause:
    """An event in a diagram that is a cause of later ones."""

    at: int
    """Its time in the diagram, in nanoseconds."""
    track: int
    uses: int | None
    """How many later events will have it as a cause; None if that is not known."""


@dataclass(slots=True)
class Timeline:
    """A pass over events in history order that gives each a time in nanoseconds.

    With corrected times, it is the event's corrected time, or the least time after all its causes if that is later or the
    event has none. So no effect is before or beside its cause, also with coarse clocks. With wall times, it is the event's
    wall time; an event without one gets the time of the one before it in its process.

    Memory is one number for each process, and a few for each event that will be a cause of another.
    """

    unit: str
    start: int
    """The time that is 0 in the diagram, in the history's unit."""
    showing: Showing
    last: dict[int, int] = field(default_factory=dict)
    """By process: the time of its last event so far."""
    _waiting: dict[int, PlacedCause] = field(default_factory=dict)

    @property
    def tick(self) -> int:
        """Return how many nanoseconds of the diagram one unit of the history takes."""
        return NANOSECONDS.get(self.unit, NANOSECONDS["us"])

    def place(
        self, event: Event, code: int, track: int, causes: list[int], uses: int | None
    ) -> tuple[int, list[PlacedCause]]:
        """Return the event's time, and its causes with their times and tracks. Pass None for unknown `uses`."""
        own_time = self.showing.time_of(event)
        time = self.last.get(code, 0) if own_time is None else (own_time - self.start) * self.tick
        placed = [self._use(position) for position in causes]
        if not self.showing.wall:
            if code in self.last:
                time = max(time, self.last[code] + APART)
            time = max([time, *(cause.at + 1 for cause in placed)])
        self.last[code] = time
        if uses != 0:
            self._waiting[event.position] = PlacedCause(time, track, uses)
        return time, placed

    def _use(self, position: int) -> PlacedCause:
        """Return a cause; forget it after its last use."""
        cause = self._waiting[position]
        if cause.uses is not None:
            cause.uses -= 1
            if cause.uses == 0:
                del self._waiting[position]
        return cause
