"""Which events an execution holds: counts of each host, as runs of consecutive numbers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from whence.sources.rows import BadRecord

_SHOWN = 60


@dataclass(slots=True)
class Presence:
    """Memory is one pair of numbers for each host and each gap in its counts."""

    _starts: dict[str, list[int]] = field(default_factory=dict)
    _stops: dict[str, list[int]] = field(default_factory=dict)

    def add(self, host: str, count: int) -> None:
        """Note that the host has logged this event."""
        ends = self._stops.get(host)
        if ends is not None and ends[-1] == count:  # As nearly always, it is the host's next one.
            ends[-1] = count + 1
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
        """The entries that name an event that is not here."""
        return {host: count for host, count in entries if not self._holds(host, count)}

    def complaint(self, absent: Mapping[str, int]) -> BadRecord:
        """What is wrong with an event that knows of these."""
        for host in absent:
            if host not in self._starts:
                return BadRecord("unknown-process", f"the clock counts {host[:_SHOWN]!r}, which logs nothing")
        host, count = next(iter(absent.items()))
        return BadRecord("unknown-event", f"the clock knows event {count} of {host[:_SHOWN]!r}, which is not logged")

    def _holds(self, host: str, count: int) -> bool:
        at = bisect_right(self._starts.get(host, []), count)
        return at > 0 and count < self._stops[host][at - 1]
