"""Store which events an execution has: the numbers of each host, as runs of consecutive ones."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from whence.sources.rows import BadRecord

_SHOWN = 60


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
