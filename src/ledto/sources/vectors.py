"""Find the causes of events from their vector clocks, for logs without message ids: the entries that grew name the causes.

The key of an event is ``process:own entry``. Its causes are the entries of other processes that are larger than at the
previous event of its process. An entry that did not grow names an event that came before the previous one already. So does
an entry that the clock of another cause has. To leave them out loses nothing; to name them only takes room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from ledto.events.keys import STAMPED

REMEMBERED_ENTRIES = 1_000_000
"""Entries of clocks in memory at most, to see which causes others imply. The oldest clocks are forgotten first."""

_UNKNOWN: Mapping[str, int] = {}


def key(process: str, count: int) -> str:
    """Return the key of the event of a process with this own entry."""
    return f"{process}:{count}"


def stamp_key(process: str, count: int) -> str:
    """Return such a key for an event without a message id, of a source that also has message ids."""
    return f"{STAMPED}{process}:{count}"


@dataclass(slots=True)
class _Last:
    own_entry: int
    clock: Mapping[str, int]
    """What the process knows, for the causes of its next event."""
    before: Mapping[str, int]
    """What it knew before this event."""
    trusted: Mapping[str, int]
    """The clock of its last good row, which later ones must not contradict."""


@dataclass(slots=True)
class ClockGrowth:
    """The last clock of each process, and the clocks of recent events. Memory does not grow with the number of events."""

    _last: dict[tuple[str, str], _Last] = field(default_factory=dict)
    _clocks: OrderedDict[tuple[str, str, int], Mapping[str, int]] = field(default_factory=OrderedDict)
    """Clocks of events, the oldest first. In a plain dict, to find the first takes time for all that were removed before."""
    _entries: int = 0

    def grown_since_last(
        self, computation: str, process: str, own_entry: int, clock: Mapping[str, int]
    ) -> list[tuple[str, int]] | None:
        """Return what `grown` returns in the usual case: the event is later than the last one, which was a good row.

        None in other cases, or if an entry is less than it was. If nothing grew, this notes the clock; otherwise it does
        not.
        """
        last = self._last.get((computation, process))
        if last is None or own_entry <= last.own_entry or last.clock is not last.trusted:
            return None
        last_count = last.clock.get
        changed = [(name, count) for name, count in clock.items() if count != last_count(name)]
        if len(changed) == 1 and len(clock) == len(last.clock):
            self.remember(computation, process, clock)
            last.own_entry, last.before, last.clock, last.trusted = own_entry, last.clock, clock, clock
            return []
        new = 0
        for name, count in changed:
            before = last_count(name)
            if before is None:
                new += 1
            elif count < before:
                return None
        if len(clock) - new < len(last.clock):
            return None
        causes = [(name, count) for name, count in changed if count and name != process]
        if not causes:
            self.note(computation, process, clock)
        return causes if len(causes) < 2 else self._not_implied(computation, sorted(causes))

    def grown(self, computation: str, process: str, clock: Mapping[str, int]) -> list[tuple[str, int]]:
        """Return the entries of other processes that grew since the previous event of this process, by name.

        If the previous event is not known, because this is the first one or they are out of order, return all entries of
        other processes: more than needed, never less. The same event twice in a row has the same causes twice.
        """
        count_before = self._before(computation, process, clock[process]).get
        causes = [(name, count) for name, count in clock.items() if count > count_before(name, 0) and name != process]
        return causes if len(causes) < 2 else self._not_implied(computation, sorted(causes))

    def _not_implied(self, computation: str, causes: list[tuple[str, int]]) -> list[tuple[str, int]]:
        """Return the causes that no other cause has in its past, as far as clocks are in memory."""
        clocks = {name: self._clocks.get((computation, name, count), _UNKNOWN) for name, count in causes}
        first, most = causes[0]
        for name, count in causes:
            if clocks[name].get(first, 0) >= most:
                first, most = name, count
        reaches = clocks[first].get
        if all(
            name == first or (reaches(name, 0) >= count and clocks[name].get(first, 0) < most) for name, count in causes
        ):
            return [(first, most)]  # The usual case: one message brought all of it.
        direct = dict(causes)
        # The largest clock comes first: in a chain of messages it implies all others.
        for name, clock in sorted(clocks.items(), key=lambda item: -len(item[1])):
            if name in direct and clock:
                direct = {
                    other: count for other, count in direct.items() if other == name or clock.get(other, 0) < count
                }
        return [(name, count) for name, count in causes if name in direct]

    def note(self, computation: str, process: str, clock: Mapping[str, int]) -> None:
        """Store this clock as the last one of its process, unless a later one is stored."""
        own_entry = clock[process]
        self.remember(computation, process, clock)
        last = self._last.get((computation, process))
        if last is None or own_entry >= last.own_entry:
            self._last[computation, process] = _Last(
                own_entry, clock, self._before(computation, process, own_entry), clock
            )

    def remember(self, computation: str, process: str, clock: Mapping[str, int]) -> None:
        """Store the clock of an event that others may name. Events may come in any order."""
        event = (computation, process, clock[process])
        if event in self._clocks:
            return
        self._clocks[event] = clock
        self._entries += len(clock)
        while self._entries > REMEMBERED_ENTRIES and len(self._clocks) > 1:
            _, forgotten = self._clocks.popitem(last=False)
            self._entries -= len(forgotten)

    def note_entries(self, computation: str, process: str, own_entry: int, entries: Mapping[str, int]) -> None:
        """Note only these entries of an event that becomes a bad row. The next event inherits its other causes."""
        before = self._before(computation, process, own_entry)
        last = self._last.get((computation, process))
        if last is None or own_entry >= last.own_entry:
            clock = {**before, **entries, process: own_entry}
            self._last[computation, process] = _Last(own_entry, clock, before, last.trusted if last else {})

    def contradicted_entry(self, computation: str, process: str, clock: Mapping[str, int]) -> str | None:
        """Return the entry in which this clock contradicts the last one of its process; None if there is none.

        Of two events of a process, the one with the larger own entry has all other entries at least as large; with equal
        own entries all are equal.
        """
        last = self._last.get((computation, process))
        if last is None or process not in last.trusted:
            return None
        own_entry, trusted = clock[process], last.trusted
        contradicted: list[str] = []
        if own_entry >= trusted[process]:
            contradicted += [name for name, count in trusted.items() if count > clock.get(name, 0)]
        if own_entry <= trusted[process]:
            contradicted += [name for name, count in clock.items() if count > trusted.get(name, 0)]
        return min(contradicted, default=None)

    def _before(self, computation: str, process: str, own_entry: int) -> Mapping[str, int]:
        """Return what the process knew before the event with this own entry; nothing if that is not known."""
        last = self._last.get((computation, process))
        if last is None or own_entry < last.own_entry:
            return {}
        return last.clock if own_entry > last.own_entry else last.before
