"""Choose the clock that the others are compared with: one that agrees with most of them, as far as messages show.

A reference is a convention, and bounds hold against any. But a clock that is hours off, or runs backwards, makes a bad
one: all others would seem to be wrong. If all clocks are bounded on both sides, the median is safe. Messages in one
direction prove nothing, so the choice then needs two guesses, which are used for nothing else: that the quickest
message between two clocks took next to no time, and that delays change less than the history is long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ledto.skew.bounds import LEAST, UNBOUNDED

if TYPE_CHECKING:
    from ledto.skew.fits import Messages

Longs = NDArray[np.int64]
Reals = NDArray[np.float64]
Flags = NDArray[np.bool_]

FAR = 10
"""A clock is far off if it is so many times as far from the middle as clocks usually are, or as messages can tell."""
FEWEST = 3
"""Fewer clocks than this have no middle one."""


class RoughPlaces:
    """Where the clocks are if the quickest messages took no time."""

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
        """By clock: whether it has messages here."""
        self.talks[self._sender] = self.talks[self._receiver] = True
        self.ahead = self._ahead(count)
        """By clock: how far it is ahead of the middle one."""
        self.spread = _median(self._spread)
        """How much the least differences of two clocks usually vary from one time to another."""
        self.usual = max(_median(np.abs(self.ahead[self.talks])), self.spread)
        """How far clocks usually are from the middle, or how exactly messages can tell."""
        self.strangeness = self._strangeness(messages)
        """By clock: with how many others its differences vary as much as the history is long."""
        steady = self.talks & (self.strangeness == self.strangeness[self.talks].min(initial=messages.count))
        near = steady & (np.abs(self.ahead) <= FAR * self.usual)
        self.trusted = near if near.any() else steady
        """By clock: whether it agrees with most others."""
        if not self.talks.any():
            self.trusted = ~np.isin(np.arange(count), list(messages.left_out))

    def _ahead(self, count: int) -> Reals:
        """Place clocks pair by pair, pairs whose differences vary least first; then count from the middle.

        A clock is at its place plus the shift of its group. When two groups meet, the receiver's moves to where the
        pair's difference puts it. The places of the smaller group are changed, so each clock's change seldom.
        """
        group = list(range(count))
        members = [[clock] for clock in range(count)]
        place, shift = [0.0] * count, [0.0] * count
        keys, least = self._key.tolist(), self._least.tolist()
        pair_of = {key: pair for pair, key in enumerate(keys)}
        for pair in np.argsort(self._spread, kind="stable").tolist():
            a, b = divmod(keys[pair], count)
            group_a, group_b = group[a], group[b]
            if group_a == group_b:
                continue
            opposite = pair_of.get(b * count + a)
            difference = least[pair] if opposite is None else (least[pair] - least[opposite]) / 2
            shift[group_b] += place[a] + shift[group_a] + difference - (place[b] + shift[group_b])
            stays, moves = (group_a, group_b) if len(members[group_a]) >= len(members[group_b]) else (group_b, group_a)
            change = shift[moves] - shift[stays]
            for clock in members[moves]:
                group[clock] = stays
                place[clock] += change
            members[stays] += members[moves]
            members[moves] = []
        ahead = np.array([place[clock] + shift[group[clock]] for clock in range(count)])
        return ahead - _median(ahead[self.talks])

    def _strangeness(self, messages: Messages) -> Longs:
        """Count, by clock, the others with which its differences vary as much as the history is long."""
        firsts, lasts = messages.spans()
        duration = _median((lasts - firsts)[self.talks].astype(np.float64))
        strange = self._spread > duration / 2
        pairs = {tuple(sorted(pair)) for pair in zip(self._sender[strange], self._receiver[strange], strict=True)}
        members = np.array([clock for pair in pairs for clock in pair], np.int64)
        return np.bincount(members, minlength=messages.count)


def choose_reference(upper: Longs, messages: Messages) -> int:
    """Choose the median of trusted clocks that are bounded on both sides against most others.

    If these are few, choose one of them. `upper` has by ``[a, b]`` how far b is ahead of a at most.
    """
    places, is_bounded = RoughPlaces(messages), upper < UNBOUNDED
    both_sides = is_bounded & is_bounded.T & places.trusted[None, :]
    bounded_others = (is_bounded | is_bounded.T).sum(axis=1)
    root = int(np.lexsort((np.abs(places.ahead), -bounded_others, -both_sides.sum(axis=1), ~places.trusted))[0])
    members = np.flatnonzero(both_sides[root])
    return choose_median(members, upper[root], upper[:, root]) if len(members) >= FEWEST else root


def choose_median(clocks: Longs, ahead: Longs, behind: Longs) -> int:
    """Choose the middle one of `clocks`, by how far ahead and behind some other clock they are at most."""
    middles = ahead[clocks] - behind[clocks]
    return int(clocks[np.lexsort((clocks, middles))[(len(clocks) - 1) // 2]])


def _median(values: Reals) -> float:
    """Return the median; of two in the middle the lower one, so that it is one of the values."""
    return float(np.sort(values)[(len(values) - 1) // 2]) if len(values) else 0.0
