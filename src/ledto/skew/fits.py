"""Fit constant offsets, or offsets and constant rates, to the messages of a group of clocks.

A *fit* bounds all differences at some moments: the true offsets, and rates, of clocks that follow the model lie within.
If there is no fit, `NoFit` names the clocks that contradict each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ledto.skew.bounds import UNBOUNDED, contradictions, tighten, to_matrix
from ledto.skew.corridors import Corridors, find_corridors
from ledto.skew.reference import choose_reference

Longs = NDArray[np.int64]

MOST_DRIFT = 1e-3
"""How much a drifting clock gains on another at most: ten times what bad quartz does. Without a limit, a line would
explain any two messages."""
MOMENTS = 5
"""How many moments have offsets, from the reference's first message to its last."""
ROUNDS = 4
"""How often bounds are narrowed. What remains is smaller than a clock's resolution: each round gains a factor of a
thousand or more."""


Flags = NDArray[np.bool_]
RATE_UNIT = 1e-15
"""The unit in which logarithms of rates are integers."""


def constant_rates(messages: Messages, reference: int | None) -> Fit | NoFit:
    """Fit clocks that gain or lose at a constant rate, against this reference or the median clock.

    No clock gains more than `MOST_DRIFT` on another. Every pair is bounded by its own messages, and then by the bounds
    of the others. That is sound and, for pairs that exchange messages, not far from the tightest.
    """
    count = messages.count
    low, high = np.minimum(messages.sender, messages.receiver), np.maximum(messages.sender, messages.receiver)
    keys, pair = np.unique(low * count + high, return_inverse=True)
    a, b = keys // count, keys % count
    onward = messages.sender < messages.receiver
    lines = find_corridors(
        len(keys),
        (pair[onward], messages.send[onward], messages.bound[onward]),
        (pair[~onward], messages.receive[~onward], -messages.bound[~onward]),
    ).narrowed(*(np.full(len(keys), limit) for limit in (-MOST_DRIFT, MOST_DRIFT)))
    if lines.empty.any():
        between = np.zeros((count, count), np.bool_)
        between[a[lines.empty], b[lines.empty]] = True
        return NoFit(between | between.T)
    logarithms = np.concatenate((np.log1p(lines.largest_slope), -np.log1p(lines.least_slope))) / RATE_UNIT
    both = np.concatenate((a, b)), np.concatenate((b, a))
    bounds = to_matrix(count, *both, np.ceil(logarithms).astype(np.int64) + 1)
    rates = tighten(bounds)
    if rates is None:
        return NoFit(contradictions(bounds))
    lines = lines.narrowed(np.expm1(-rates[b, a] * RATE_UNIT), np.expm1(rates[a, b] * RATE_UNIT))
    firsts, lasts = messages.spans()
    if reference is None:
        at_any_time = _bound_pairs(lines, count, a, b, firsts, lasts)
        if isinstance(at_any_time, NoFit):
            return at_any_time
        reference = choose_reference(at_any_time, messages)
    moments = messages.moments(reference, MOMENTS)
    upper: list[Longs] = []
    for moment in moments:
        # A clock without messages at the reference's moment may show a time before its first message or after its last.
        beyond = moments[-1] - moments[0]
        at_moment = _narrow_bounds(lines, count, a, b, firsts - beyond, lasts + beyond, reference, moment)
        if isinstance(at_moment, NoFit):
            return at_moment
        upper.append(at_moment)
    return make_fit(reference, moments, tuple(upper), rates)


def _narrow_bounds(
    lines: Corridors, count: int, a: Longs, b: Longs, first: Longs, last: Longs, reference: int, moment: int
) -> Longs | NoFit:
    """Bound all pairs when the reference shows `moment` and each other clock a time from `first` to `last`."""
    first[reference] = last[reference] = moment
    bounds = _bound_pairs(lines, count, a, b, first, last)
    for _ in range(ROUNDS - 1):
        if isinstance(bounds, NoFit):
            return bounds
        ahead, behind = bounds[reference], bounds[:, reference]
        first = np.where(behind < UNBOUNDED, np.maximum(first, moment - behind), first)
        last = np.where(ahead < UNBOUNDED, np.minimum(last, moment + ahead), last)
        bounds = _bound_pairs(lines, count, a, b, first, last)
    return bounds


def _bound_pairs(lines: Corridors, count: int, a: Longs, b: Longs, first: Longs, last: Longs) -> Longs | NoFit:
    """Bound all pairs, if clock a of each shows a time from ``first[a]`` to ``last[a]``."""
    sides = (lines.at_most(first[a], last[a]), lines.at_least_negated(first[a], last[a]))
    bounds = to_matrix(count, np.concatenate((a, b)), np.concatenate((b, a)), np.concatenate(sides))
    tightest = tighten(bounds)
    return NoFit(contradictions(bounds)) if tightest is None else tightest


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """Messages between different clocks of a group of `count`; clocks are numbers from 0."""

    count: int
    sender: Longs
    receiver: Longs
    send: Longs
    receive: Longs
    bound: Longs
    """How far the receiver's clock can have been ahead of the sender's, at most."""
    left_out: frozenset[int] = frozenset()
    """Clocks that were left out, and so have no messages here."""

    def without(self, clock: int) -> Messages:
        """Return the messages of the other clocks."""
        others = self.take((self.sender != clock) & (self.receiver != clock))
        return replace(others, left_out=self.left_out | {clock})

    def take(self, chosen: Flags | Longs) -> Messages:
        """Return some of the messages, chosen by a truth value for each or by their indices."""
        columns = ("sender", "receiver", "send", "receive", "bound")
        return replace(self, **{column: getattr(self, column)[chosen] for column in columns})

    def spans(self) -> tuple[Longs, Longs]:
        """Return, by clock, the first and the last time it shows; `UNBOUNDED` and its negative without messages."""
        firsts, lasts = np.full(self.count, UNBOUNDED), np.full(self.count, -UNBOUNDED)
        for clock, time in ((self.sender, self.send), (self.receiver, self.receive)):
            np.minimum.at(firsts, clock, time)
            np.maximum.at(lasts, clock, time)
        return firsts, lasts

    def moments(self, clock: int, count: int) -> tuple[int, ...]:
        """Return so many times, evenly from the first that a clock shows to the last."""
        firsts, lasts = self.spans()
        first, last = int(firsts[clock]), int(lasts[clock])
        return tuple(first + (last - first) * step // (count - 1) for step in range(count)) if first <= last else (0,)


class MessagesByClock:
    """Finds the messages of one clock without looking at all messages."""

    def __init__(self, messages: Messages) -> None:
        clocks = np.concatenate((messages.sender, messages.receiver))
        order = np.argsort(clocks, kind="stable")
        self._messages, self._clocks = messages, clocks[order]
        self._rows = order % max(1, len(messages.sender))

    def of(self, clock: int) -> Messages:
        """Return the messages that the clock sent and those that it received."""
        first, last = np.searchsorted(self._clocks, [clock, clock + 1])
        return self._messages.take(self._rows[first:last])


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """Bounds of a group's clocks against a reference; `UNBOUNDED` for clocks that messages do not bound."""

    reference: int
    moments: tuple[int, ...]
    """Times by the reference's clock."""
    ahead: tuple[Longs, ...]
    """At each moment, by clock: how far ahead of the reference it is at most."""
    behind: tuple[Longs, ...]
    """At each moment, by clock: how far behind the reference it is at most."""
    rates: tuple[Longs, Longs] | None
    """By clock: the largest logarithms of its rate over the reference's, and of the reference's over its, in
    `RATE_UNIT`; None for constant offsets."""
    eps_low: int
    """Some two clocks differ by at least this."""
    eps_high: int
    """No two clocks that are bounded against each other differ by more."""


@dataclass(frozen=True, slots=True, eq=False)
class NoFit:
    """No offsets of the model explain the messages."""

    between: Flags
    """By ``[a, b]``: whether these two contradict each other; symmetric."""


def constant_offsets(messages: Messages, reference: int | None) -> Fit | NoFit:
    """Fit offsets that never change, against this reference or the median clock."""
    bounds = to_matrix(messages.count, messages.sender, messages.receiver, messages.bound)
    tightest = tighten(bounds)
    if tightest is None:
        return NoFit(contradictions(bounds))
    middle = choose_reference(tightest, messages) if reference is None else reference
    moments = messages.moments(middle, 2)
    return make_fit(middle, moments, (tightest,) * len(moments), None)


def make_fit(reference: int, moments: tuple[int, ...], upper: tuple[Longs, ...], rates: Longs | None) -> Fit:
    """Make a fit from bounds for all pairs at each moment."""
    return Fit(
        reference,
        moments,
        tuple(bounds[reference] for bounds in upper),
        tuple(bounds[:, reference] for bounds in upper),
        None if rates is None else (rates[reference], rates[:, reference]),
        max(-int(bounds.min(initial=0)) for bounds in upper),
        max(int(bounds[bounds < UNBOUNDED].max(initial=0)) for bounds in upper),
    )
