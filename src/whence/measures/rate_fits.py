"""Fit constant rates to the messages of a group of clocks.

A pair's line is a function of the time of one of its clocks (`whence.measures.clock_lines`). So bounds for one moment
need to know what that clock showed then. At first it may be any time that the clock shows at all; each round of bounds
narrows it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whence.measures.choosing import choose_reference
from whence.measures.clock_lines import Corridors, find_corridors
from whence.measures.difference_bounds import UNBOUNDED, contradictions, tighten, to_matrix
from whence.measures.offset_fits import RATE_UNIT, Fit, Messages, Refused, make_fit

Longs = NDArray[np.int64]

MOST_DRIFT = 1e-3
"""How much a drifting clock gains on another at most: ten times what bad quartz does. Without a limit, a line would
explain any two messages."""
MOMENTS = 5
"""How many moments have offsets, from the reference's first message to its last."""
ROUNDS = 4
"""How often bounds are narrowed. What remains is smaller than a clock's resolution: each round gains a factor of a
thousand or more."""


def constant_rates(messages: Messages, reference: int | None) -> Fit | Refused:
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
        return Refused(between | between.T)
    logarithms = np.concatenate((np.log1p(lines.largest_slope), -np.log1p(lines.least_slope))) / RATE_UNIT
    both = np.concatenate((a, b)), np.concatenate((b, a))
    bounds = to_matrix(count, *both, np.ceil(logarithms).astype(np.int64) + 1)
    rates = tighten(bounds)
    if rates is None:
        return Refused(contradictions(bounds))
    lines = lines.narrowed(np.expm1(-rates[b, a] * RATE_UNIT), np.expm1(rates[a, b] * RATE_UNIT))
    firsts, lasts = messages.spans()
    if reference is None:
        at_any_time = _bound_pairs(lines, count, a, b, firsts, lasts)
        if isinstance(at_any_time, Refused):
            return at_any_time
        reference = choose_reference(at_any_time, messages)
    moments = messages.moments(reference, MOMENTS)
    upper: list[Longs] = []
    for moment in moments:
        # A clock without messages at the reference's moment may show a time before its first message or after its last.
        beyond = moments[-1] - moments[0]
        at_moment = _narrow_bounds(lines, count, a, b, firsts - beyond, lasts + beyond, reference, moment)
        if isinstance(at_moment, Refused):
            return at_moment
        upper.append(at_moment)
    return make_fit(reference, moments, tuple(upper), rates)


def _narrow_bounds(
    lines: Corridors, count: int, a: Longs, b: Longs, first: Longs, last: Longs, reference: int, moment: int
) -> Longs | Refused:
    """Bound all pairs when the reference shows `moment` and each other clock a time from `first` to `last`."""
    first[reference] = last[reference] = moment
    bounds = _bound_pairs(lines, count, a, b, first, last)
    for _ in range(ROUNDS - 1):
        if isinstance(bounds, Refused):
            return bounds
        ahead, behind = bounds[reference], bounds[:, reference]
        first = np.where(behind < UNBOUNDED, np.maximum(first, moment - behind), first)
        last = np.where(ahead < UNBOUNDED, np.minimum(last, moment + ahead), last)
        bounds = _bound_pairs(lines, count, a, b, first, last)
    return bounds


def _bound_pairs(lines: Corridors, count: int, a: Longs, b: Longs, first: Longs, last: Longs) -> Longs | Refused:
    """Bound all pairs, if clock a of each shows a time from ``first[a]`` to ``last[a]``."""
    sides = (lines.at_most(first[a], last[a]), lines.at_least_negated(first[a], last[a]))
    bounds = to_matrix(count, np.concatenate((a, b)), np.concatenate((b, a)), np.concatenate(sides))
    tightest = tighten(bounds)
    return Refused(contradictions(bounds)) if tightest is None else tightest
