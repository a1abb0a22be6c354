"""Causes from vector clocks: where a log has clocks and no message ids, the entries that grew name the causes.

An event is referred to as ``process:own entry``. Its causes are the foreign entries that are larger than they were at the
previous event of its process. An entry that did not grow names an event that is known to precede already, so leaving it
out loses nothing, and naming it costs only room.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


def key(process: str, count: int) -> str:
    """How other events refer to the event of a process with this own entry."""
    return f"{process}:{count}"


@dataclass(frozen=True, slots=True)
class _Last:
    own: int
    clock: Mapping[str, int]
    before: Mapping[str, int]


@dataclass(slots=True)
class Growth:
    """The last clock of each process; memory is processes times entries, whatever the number of events."""

    _last: dict[tuple[str, str], _Last] = field(default_factory=dict)

    def grown(self, computation: str, process: str, clock: Mapping[str, int]) -> list[tuple[str, int]]:
        """The foreign entries that grew since the previous event of this process, by name.

        Where the previous event is not known, because this is the first one seen or it comes out of order, all foreign
        entries are given: more than needed, never less. An event that is seen twice in a row has the same causes twice.
        """
        before = self._before(computation, process, clock[process])
        known = before.get
        return sorted((name, count) for name, count in clock.items() if count > known(name, 0) and name != process)

    def note(self, computation: str, process: str, clock: Mapping[str, int]) -> None:
        """Take this clock as the last one of its process, unless a later one was noted."""
        own = clock[process]
        last = self._last.get((computation, process))
        if last is None or own >= last.own:
            self._last[computation, process] = _Last(own, clock, self._before(computation, process, own))

    def note_only(self, computation: str, process: str, own: int, entries: Mapping[str, int]) -> None:
        """Take only these entries as known: of an event that is left out, and whose other causes the next one inherits."""
        before = self._before(computation, process, own)
        self.note(computation, process, {**before, **entries, process: own})

    def backwards(self, computation: str, process: str, clock: Mapping[str, int]) -> str | None:
        """The entry in which this clock contradicts the last one of its process, or ``None``.

        Of two events of a process, the one with the larger own entry has all other entries at least as large; with equal
        own entries all are equal.
        """
        last = self._last.get((computation, process))
        if last is None:
            return None
        own = clock[process]
        found: list[str] = []
        if own >= last.own:
            found += [name for name, count in last.clock.items() if count > clock.get(name, 0)]
        if own <= last.own:
            found += [name for name, count in clock.items() if count > last.clock.get(name, 0)]
        return min(found, default=None)

    def _before(self, computation: str, process: str, own: int) -> Mapping[str, int]:
        last = self._last.get((computation, process))
        if last is None or own < last.own:
            return {}
        return last.clock if own > last.own else last.before
