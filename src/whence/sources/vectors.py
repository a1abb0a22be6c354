"""Causes from vector clocks: where a log has clocks and no message ids, the entries that grew name the causes.

An event is referred to as ``process:own entry``. Its causes are the foreign entries that are larger than they were at the
previous event of its process. An entry that did not grow names an event that is known to precede already, and so does one
that another cause's own clock reaches: leaving them out loses nothing, and naming them costs only room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from whence.events.schema import STAMPED

REMEMBERED_ENTRIES = 1_000_000
"""Of the clocks that are remembered to see which causes others imply; the oldest clocks are forgotten first."""


_UNKNOWN: Mapping[str, int] = {}


def key(process: str, count: int) -> str:
    """How other events refer to the event of a process with this own entry."""
    return f"{process}:{count}"


def stamp_key(process: str, count: int) -> str:
    """As `key`, for an event whose source has message ids as well, and gave it none."""
    return f"{STAMPED}{process}:{count}"


@dataclass(slots=True)
class _Last:
    own: int
    clock: Mapping[str, int]
    """What the process knows of, for the causes of its next event."""
    before: Mapping[str, int]
    trusted: Mapping[str, int]
    """The last clock that was not set aside, which later ones must not contradict."""


@dataclass(slots=True)
class Growth:
    """The last clock of each process, and some clocks besides; memory is bounded, whatever the number of events."""

    _last: dict[tuple[str, str], _Last] = field(default_factory=dict)
    _clocks: OrderedDict[tuple[str, str, int], Mapping[str, int]] = field(default_factory=OrderedDict)
    """The oldest first. A plain dict would look for its first entry past all those that were removed before it."""
    _entries: int = 0

    def followed(
        self, computation: str, process: str, own: int, clock: Mapping[str, int]
    ) -> list[tuple[str, int]] | None:
        """As `grown` for the usual: the clock is of a later event than the last one, which was not set aside.

        None if that is not so, or an entry is less than it was. If nothing grew, the clock is noted, otherwise not yet.
        """
        last = self._last.get((computation, process))
        if last is None or own <= last.own or last.clock is not last.trusted:
            return None
        known = last.clock.get
        changed = [(name, count) for name, count in clock.items() if count != known(name)]
        if len(changed) == 1 and len(clock) == len(last.clock):
            self.remember(computation, process, clock)
            last.own, last.before, last.clock, last.trusted = own, last.clock, clock, clock
            return []
        new = 0
        for name, count in changed:
            before = known(name)
            if before is None:
                new += 1
            elif count < before:
                return None
        if len(clock) - new < len(last.clock):
            return None
        found = [(name, count) for name, count in changed if count and name != process]
        if not found:
            self.note(computation, process, clock)
        return found if len(found) < 2 else self._not_implied(computation, sorted(found))

    def grown(self, computation: str, process: str, clock: Mapping[str, int]) -> list[tuple[str, int]]:
        """The foreign entries that grew since the previous event of this process, by name.

        Where the previous event is not known, because this is the first one seen or it comes out of order, all foreign
        entries are given: more than needed, never less. An event that is seen twice in a row has the same causes twice.
        """
        before = self._before(computation, process, clock[process])
        known = before.get
        found = [(name, count) for name, count in clock.items() if count > known(name, 0) and name != process]
        return found if len(found) < 2 else self._not_implied(computation, sorted(found))

    def _not_implied(self, computation: str, causes: list[tuple[str, int]]) -> list[tuple[str, int]]:
        """The causes that no other cause has in its past, as far as the clocks of the others are remembered."""
        clocks = {name: self._clocks.get((computation, name, count), _UNKNOWN) for name, count in causes}
        first, most = causes[0]
        for name, count in causes:
            if clocks[name].get(first, 0) >= most:
                first, most = name, count
        reaches = clocks[first].get
        if all(
            name == first or (reaches(name, 0) >= count and clocks[name].get(first, 0) < most) for name, count in causes
        ):
            return [(first, most)]  # The usual: one message brought all of it.
        left = dict(causes)
        # The one that knows most first: in a chain of messages it leaves nothing to be compared.
        for name, clock in sorted(clocks.items(), key=lambda each: -len(each[1])):
            if name in left and clock:
                left = {other: count for other, count in left.items() if other == name or clock.get(other, 0) < count}
        return [(name, count) for name, count in causes if name in left]

    def note(self, computation: str, process: str, clock: Mapping[str, int]) -> None:
        """Take this clock as the last one of its process, unless a later one was noted."""
        own = clock[process]
        self.remember(computation, process, clock)
        last = self._last.get((computation, process))
        if last is None or own >= last.own:
            self._last[computation, process] = _Last(own, clock, self._before(computation, process, own), clock)

    def remember(self, computation: str, process: str, clock: Mapping[str, int]) -> None:
        """Take this clock as that of an event which others may name; the events may come in any order."""
        event = (computation, process, clock[process])
        if event in self._clocks:
            return
        self._clocks[event] = clock
        self._entries += len(clock)
        while self._entries > REMEMBERED_ENTRIES and len(self._clocks) > 1:
            _, forgotten = self._clocks.popitem(last=False)
            self._entries -= len(forgotten)

    def note_only(self, computation: str, process: str, own: int, entries: Mapping[str, int]) -> None:
        """Take only these entries as known: of an event that is left out, and whose other causes the next one inherits."""
        before = self._before(computation, process, own)
        last = self._last.get((computation, process))
        if last is None or own >= last.own:
            known = {**before, **entries, process: own}
            self._last[computation, process] = _Last(own, known, before, last.trusted if last else {})

    def backwards(self, computation: str, process: str, clock: Mapping[str, int]) -> str | None:
        """The entry in which this clock contradicts the last one of its process, or ``None``.

        Of two events of a process, the one with the larger own entry has all other entries at least as large; with equal
        own entries all are equal.
        """
        last = self._last.get((computation, process))
        if last is None or process not in last.trusted:
            return None
        own, trusted = clock[process], last.trusted
        found: list[str] = []
        if own >= trusted[process]:
            found += [name for name, count in trusted.items() if count > clock.get(name, 0)]
        if own <= trusted[process]:
            found += [name for name, count in clock.items() if count > trusted.get(name, 0)]
        return min(found, default=None)

    def _before(self, computation: str, process: str, own: int) -> Mapping[str, int]:
        last = self._last.get((computation, process))
        if last is None or own < last.own:
            return {}
        return last.clock if own > last.own else last.before
