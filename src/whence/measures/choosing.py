"""Which clock the others are compared with: one that agrees with most of them, as far as messages let see.

A reference is a convention, and bounds are proofs against any of them. But a clock that is hours off, or runs backwards,
makes a bad one: all others would seem to be wrong. Where all clocks are bounded on both sides, the median is safe. With
messages in one direction nothing is proven, so that the choice rests on two guesses, which are used for nothing else: that
the quickest message between two clocks took next to no time, and that delays do not change as much as the history is long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from whence.measures.difference_bounds import LEAST, UNBOUNDED

if TYPE_CHECKING:
    from whence.measures.offset_fits import Messages

Longs = NDArray[np.int64]
Reals = NDArray[np.float64]
Flags = NDArray[np.bool_]

FAR = 10
"""A clock is far off if it is so many times as far from the middle as clocks usually are, or can be told to be."""
FEWEST = 3
"""Of fewer clocks, none is in the middle."""


class RoughPlaces:
    """Where the clocks stand if the quickest messages took no time."""

    def __init__(self, messages: Messages) -> None:
        count = messages.count
        key, place = np.unique(messages.sender * count + messages.receiver, return_inverse=True)
        least, largest = np.full(len(key), np.inf), np.full(len(key), -np.inf)
        bound = np.clip(messages.bound, LEAST, UNBOUNDED).astype(np.float64)
        np.minimum.at(least, place, bound)
        np.maximum.at(largest, place, bound)
        self._key, self._sender, self._receiver = key, key // count, key % count
        self._least, self._spread = least, largest - least
        self.talks = np.zeros(count, np.bool_)
        """Clocks that have messages here."""
        self.talks[self._sender] = self.talks[self._receiver] = True
        self.ahead = self._ahead(count)
        """By clock: how far it is ahead of the middle one."""
        self.spread = _median(self._spread)
        """How much the quickest messages of two clocks usually differ, from one time to another."""
        self.usual = max(_median(np.abs(self.ahead[self.talks])), self.spread)
        """How far clocks usually are from the middle, or can be told to be."""
        self.strangeness = self._strangeness(messages)
        """By clock: with how many others its differences change as much as the history is long."""
        steady = self.talks & (self.strangeness == self.strangeness[self.talks].min(initial=messages.count))
        near = steady & (np.abs(self.ahead) <= FAR * self.usual)
        self.trusted = near if near.any() else steady
        """Clocks that agree with most others."""
        if not self.talks.any():
            self.trusted = ~np.isin(np.arange(count), list(messages.left_out))

    def _ahead(self, count: int) -> Reals:
        """Pair by pair, those whose differences change least first; then counted from the middle.

        A clock stands at its place plus the shift of its group. When two groups meet, the receiver's moves to where the
        pair's difference puts it. It is the smaller group whose places are changed, so each clock's are seldom.
        """
        group = list(range(count))
        members = [[clock] for clock in range(count)]
        place, shift = [0.0] * count, [0.0] * count
        keys, least = self._key.tolist(), self._least.tolist()
        number = {key: pair for pair, key in enumerate(keys)}
        for pair in np.argsort(self._spread, kind="stable").tolist():
            a, b = divmod(keys[pair], count)
            one, other = group[a], group[b]
            if one == other:
                continue
            back = number.get(b * count + a)
            difference = least[pair] if back is None else (least[pair] - least[back]) / 2
            shift[other] += place[a] + shift[one] + difference - (place[b] + shift[other])
            stays, moves = (one, other) if len(members[one]) >= len(members[other]) else (other, one)
            by = shift[moves] - shift[stays]
            for clock in members[moves]:
                group[clock] = stays
                place[clock] += by
            members[stays] += members[moves]
            members[moves] = []
        ahead = np.array([place[clock] + shift[group[clock]] for clock in range(count)])
        return ahead - _median(ahead[self.talks])

    def _strangeness(self, messages: Messages) -> Longs:
        firsts, lasts = messages.spans()
        long = _median((lasts - firsts)[self.talks].astype(np.float64))
        strange = self._spread > long / 2
        pairs = {tuple(sorted(pair)) for pair in zip(self._sender[strange], self._receiver[strange], strict=True)}
        members = np.array([clock for pair in pairs for clock in pair], np.int64)
        return np.bincount(members, minlength=messages.count)


def reference_of(upper: Longs, messages: Messages) -> int:
    """The median of trusted clocks that are bounded on both sides against most others; one of these, if they are few.

    `upper` has by ``[a, b]`` how far b is ahead of a at most.
    """
    places, known = RoughPlaces(messages), upper < UNBOUNDED
    both = known & known.T & places.trusted[None, :]
    bounded = (known | known.T).sum(axis=1)
    root = int(np.lexsort((np.abs(places.ahead), -bounded, -both.sum(axis=1), ~places.trusted))[0])
    members = np.flatnonzero(both[root])
    return median_clock(members, upper[root], upper[:, root]) if len(members) >= FEWEST else root


def median_clock(clocks: Longs, ahead: Longs, behind: Longs) -> int:
    """Of these, the one in the middle, by how far ahead and behind some other clock they are at most."""
    middles = ahead[clocks] - behind[clocks]
    return int(clocks[np.lexsort((clocks, middles))[(len(clocks) - 1) // 2]])


def _median(values: Reals) -> float:
    """The lower one of two in the middle, so that it is one of them."""
    return float(np.sort(values)[(len(values) - 1) // 2]) if len(values) else 0.0
