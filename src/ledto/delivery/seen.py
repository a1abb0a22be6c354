"""Remember which messages have been seen, in bounded memory. Needs no NumPy: the online observer is light."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum

DEFAULT_MAX_GAPS = 4096
"""How many gaps of a sender are remembered by default."""


class Sighting(Enum):
    """What is known of a message number."""

    NEW = "new"
    DUPLICATE = "duplicate"
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages ``have + 1`` to ``need`` of a sender: causes of a delivery that were not delivered before it."""

    process: int
    have: int
    need: int


class _Ranges:
    """The numbers seen of one sender, as ascending ranges that neither touch nor overlap."""

    __slots__ = ("firsts", "forgotten", "lasts")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        self.forgotten = 0

    def add(self, seq: int, max_gaps: int) -> None:
        """Add a number; forget the oldest gap if there are more than `max_gaps`."""
        firsts, lasts = self.firsts, self.lasts
        after = bisect_right(firsts, seq)
        joins_left = after > 0 and lasts[after - 1] == seq - 1
        joins_right = after < len(firsts) and firsts[after] == seq + 1
        if joins_left and joins_right:
            lasts[after - 1] = lasts.pop(after)
            del firsts[after]
        elif joins_left:
            lasts[after - 1] = seq
        elif joins_right:
            firsts[after] = seq
        else:
            firsts.insert(after, seq)
            lasts.insert(after, seq)
        if len(firsts) > max_gaps + 1:
            del firsts[1]
            del lasts[0]
            self.forgotten = lasts[0]


class SeenMessages:
    """A record of message numbers by sender."""

    __slots__ = ("_max_gaps", "_senders")

    def __init__(self, *, max_gaps: int = DEFAULT_MAX_GAPS) -> None:
        if max_gaps < 0:
            raise ValueError(f"max_gaps is 0 or more, not {max_gaps}")
        self._max_gaps = max_gaps
        self._senders: dict[int, _Ranges] = {}

    def sight(self, process: int, seq: int) -> Sighting:
        """Tell what is known of this number, before it is added."""
        ranges = self._senders.get(process)
        if ranges is None:
            return Sighting.NEW
        if seq <= ranges.forgotten:
            return Sighting.FORGOTTEN
        index = bisect_right(ranges.firsts, seq) - 1
        return Sighting.DUPLICATE if index >= 0 and seq <= ranges.lasts[index] else Sighting.NEW

    def add(self, process: int, seq: int) -> None:
        """Record a number that `sight` called NEW."""
        self._senders.setdefault(process, _Ranges()).add(seq, self._max_gaps)

    def gaps(self, process: int) -> list[Gap]:
        """Return the sender's messages not seen so far although a later one was, from the oldest gap that is remembered."""
        ranges = self._senders.get(process)
        if ranges is None:
            return []
        lasts = ranges.lasts if ranges.forgotten else [0, *ranges.lasts]
        firsts = ranges.firsts[1:] if ranges.forgotten else ranges.firsts
        return [Gap(process, last, first - 1) for last, first in zip(lasts, firsts, strict=False) if last < first - 1]
