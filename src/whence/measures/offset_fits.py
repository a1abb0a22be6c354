"""A model of how the clocks of a group stand to each other, fitted to their messages: constant offsets.

A *fit* bounds all differences at some moments: whatever offsets, and rates, the clocks of the model really had lie within.
Where none exist, the contradiction is told by the clocks between which it shows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from whence.measures.choosing import reference_of
from whence.measures.difference_bounds import UNBOUNDED, contradictions, matrix_of, tightened

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

RATE_UNIT = 1e-15
"""Logarithms of rates are integers in this unit."""


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """Messages between different clocks of a group of `count`, as numbers from 0."""

    count: int
    sender: Longs
    receiver: Longs
    send: Longs
    receive: Longs
    bound: Longs
    """By how much the receiver's clock can have been ahead of the sender's, at most."""
    left_out: frozenset[int] = frozenset()
    """Clocks that have no messages here because they were left out."""

    def without(self, clock: int) -> Messages:
        """Those of the other clocks."""
        others = self.take((self.sender != clock) & (self.receiver != clock))
        return replace(others, left_out=self.left_out | {clock})

    def take(self, chosen: Flags | Longs) -> Messages:
        """Some of them, told by a truth value each or by their places."""
        columns = ("sender", "receiver", "send", "receive", "bound")
        return replace(self, **{column: getattr(self, column)[chosen] for column in columns})

    def spans(self) -> tuple[Longs, Longs]:
        """By clock: the first and the last time it shows; `UNBOUNDED` and less than that for clocks without messages."""
        firsts, lasts = np.full(self.count, UNBOUNDED), np.full(self.count, -UNBOUNDED)
        for clock, time in ((self.sender, self.send), (self.receiver, self.receive)):
            np.minimum.at(firsts, clock, time)
            np.maximum.at(lasts, clock, time)
        return firsts, lasts

    def moments(self, clock: int, count: int) -> tuple[int, ...]:
        """So many times from the first that a clock shows to the last."""
        firsts, lasts = self.spans()
        first, last = int(firsts[clock]), int(lasts[clock])
        return tuple(first + (last - first) * step // (count - 1) for step in range(count)) if first <= last else (0,)


class Ends:
    """Finds the messages of one clock without looking at all messages."""

    def __init__(self, messages: Messages) -> None:
        clocks = np.concatenate((messages.sender, messages.receiver))
        order = np.argsort(clocks, kind="stable")
        self._messages, self._clocks = messages, clocks[order]
        self._rows = order % max(1, len(messages.sender))

    def of(self, clock: int) -> Messages:
        """Those that the clock sent and those that it received."""
        first, last = np.searchsorted(self._clocks, [clock, clock + 1])
        return self._messages.take(self._rows[first:last])


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Bounds against a reference that hold for a group's clocks; `UNBOUNDED` for those that messages do not bound."""

    reference: int
    moments: tuple[int, ...]
    """By the reference's clock."""
    ahead: tuple[Longs, ...]
    """At each moment, by clock: how far ahead of the reference it is at most."""
    behind: tuple[Longs, ...]
    """How far behind."""
    rates: tuple[Longs, Longs] | None
    """By clock: the largest logarithms of its rate over the reference's, and of the reference's over its, in `RATE_UNIT`;
    None for constant offsets."""
    eps_low: int
    """Two clocks differ by this much at least."""
    eps_high: int
    """No two that are bounded against each other differ by more."""


@dataclass(frozen=True, slots=True, eq=False)
class Refused:
    """No offsets of the model explain the messages."""

    between: Flags
    """By ``[a, b]``: whether these two contradict each other; symmetric."""


def constant_offsets(messages: Messages, reference: int | None) -> Fit | Refused:
    """Offsets that never change, against this reference or the median clock."""
    given = matrix_of(messages.count, messages.sender, messages.receiver, messages.bound)
    found = tightened(given)
    if found is None:
        return Refused(contradictions(given))
    middle = reference_of(found, messages) if reference is None else reference
    moments = messages.moments(middle, 2)
    return fit_of(middle, moments, (found,) * len(moments), None)


def fit_of(reference: int, moments: tuple[int, ...], upper: tuple[Longs, ...], rates: Longs | None) -> Fit:
    """From bounds for all pairs."""
    return Fit(
        reference,
        moments,
        tuple(each[reference] for each in upper),
        tuple(each[:, reference] for each in upper),
        None if rates is None else (rates[reference], rates[:, reference]),
        max(-int(each.min(initial=0)) for each in upper),
        max(int(each[each < UNBOUNDED].max(initial=0)) for each in upper),
    )
