"""Many counters in one integer: whole vectors are merged and compared by a few operations on big integers.

A `Roster` is a sorted set of process ids; each id owns a *lane* in a packed integer. The top bit of a lane is never
used by a counter and guards against borrows, so one subtraction compares all lanes at once: ``(a | guards) - b`` keeps
a lane's guard exactly where ``a >= b``. Lanes have 32 bits until a counter outgrows 31, and 64 from then on.

Why not a dictionary: merging 100 entries one by one takes several times as long in CPython, and a packed integer is
immutable, so making a stamp copies nothing. `make bench` measures the ratio: `docs/benchmarks.md`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import itemgetter
from threading import Lock
from weakref import WeakValueDictionary

NARROW, WIDE = 32, 64


class Roster:
    """Process ids in sorted order, and the width of their lanes. Equal rosters are one object, so `is` compares them."""

    __slots__ = ("__weakref__", "_format", "guards", "index", "lane_bits", "limit", "mask", "names", "size_bytes")

    def __init__(self, names: tuple[str, ...], lane_bits: int) -> None:
        self.names = names
        self.lane_bits = lane_bits
        self.index = {name: lane for lane, name in enumerate(names)}
        self.mask = (1 << lane_bits) - 1
        self.limit = 1 << lane_bits - 1
        """Counters are below this."""
        lane_bytes = lane_bits // 8
        self.size_bytes = lane_bytes * len(names)
        self.guards = int.from_bytes((bytes(lane_bytes - 1) + b"\x80") * len(names), "little")
        self._format = f"<{len(names)}{'I' if lane_bits == NARROW else 'Q'}"

    @staticmethod
    def of(names: Iterable[str], *, largest: int = 0) -> Roster:
        """Return the roster of these ids, with lanes that hold counters up to `largest`."""
        return Roster.sorted(tuple(sorted(set(names))), lane_bits_for(largest))

    @staticmethod
    def sorted(names: tuple[str, ...], lane_bits: int) -> Roster:
        """Return the roster of ids that are sorted and distinct."""
        with _ROSTERS_LOCK:
            roster = _ROSTERS.get((names, lane_bits))
            if roster is None:
                roster = _ROSTERS[names, lane_bits] = Roster(names, lane_bits)
            return roster

    def widened(self) -> Roster:
        """Return the roster of the same ids in wide lanes."""
        return Roster.sorted(self.names, WIDE)

    def pack(self, counters: Iterable[int]) -> int:
        """Pack one counter for each name, in their order."""
        return int.from_bytes(struct.pack(self._format, *counters), "little")

    def unpack(self, packed: int) -> tuple[int, ...]:
        """Return the counters, in the order of the names."""
        return struct.unpack(self._format, packed.to_bytes(self.size_bytes, "little"))

    def spread(self, packed: int, wider: Roster) -> int:
        """Move counters to the lanes of a roster that has all of these names, and lanes at least as wide."""
        if wider is self:
            return packed
        return wider.pack(_picker(self, wider)((*self.unpack(packed), 0)))


def lane_bits_for(largest: int) -> int:
    """Return the width of lanes that hold counters up to `largest`."""
    return WIDE if largest >> NARROW - 1 else NARROW


def merge(roster: Roster, a: int, b: int) -> int:
    """Return the larger of both counters in every lane."""
    guards = roster.guards
    kept = (a | guards) - b & guards
    return b ^ (a ^ b) & kept - (kept >> roster.lane_bits - 1)


def at_most(roster: Roster, a: int, b: int) -> bool:
    """Tell whether no counter of `a` exceeds that of `b`."""
    guards = roster.guards
    return (b | guards) - a & guards == guards


@lru_cache(maxsize=256)
def union(a: Roster, b: Roster) -> Roster:
    """Return the roster that has the names of both and the wider of their lanes."""
    return Roster.sorted(tuple(sorted({*a.names, *b.names})), max(a.lane_bits, b.lane_bits))


_ROSTERS: WeakValueDictionary[tuple[tuple[str, ...], int], Roster] = WeakValueDictionary()
_ROSTERS_LOCK = Lock()


@lru_cache(maxsize=256)
def _picker(narrow: Roster, wide: Roster) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """Make a function that picks the wide roster's counters out of ``(*narrow counters, 0)``; new names get the 0."""
    absent = len(narrow.names)
    picks = [narrow.index.get(name, absent) for name in wide.names]
    if len(picks) > 1:
        return itemgetter(*picks)
    return lambda counters: tuple(counters[pick] for pick in picks)  # itemgetter would give a bare value
