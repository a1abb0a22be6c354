"""A model of how the clocks of a group stand to each other: constant rates.

A pair's line is a function of one of its clocks' time (`whence.measures.clock_lines`), so that bounds for one moment ask for
what that clock showed then. At first it may be any time that the clock shows at all; each round of bounds narrows it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whence.measures.choosing import reference_of
from whence.measures.clock_lines import Corridors, corridors
from whence.measures.difference_bounds import UNBOUNDED, contradictions, matrix_of, tightened
from whence.measures.offset_fits import RATE_UNIT, Fit, Messages, Refused, fit_of

Longs = NDArray[np.int64]

MOST_DRIFT = 1e-3
"""How much a clock gains on another at most while it is said to drift: ten times what bad quartz does. Without a limit,
a line would explain any two messages."""
MOMENTS = 5
"""Moments at which offsets are told, from the reference's first message to its last."""
ROUNDS = 4
"""After these, what is left to narrow is smaller than a clock's resolution: each gains a factor of a thousand or more."""


def constant_rates(messages: Messages, reference: int | None) -> Fit | Refused:
    """Clocks that gain or lose at a constant rate, no more than `MOST_DRIFT` on each other, against a reference as above.

    Every pair is bounded by its own messages, and then by the bounds of the others: sound, and where a pair exchanges
    messages, not far from the tightest.
    """
    count = messages.count
    low, high = np.minimum(messages.sender, messages.receiver), np.maximum(messages.sender, messages.receiver)
    keys, pair = np.unique(low * count + high, return_inverse=True)
    a, b = keys // count, keys % count
    onward = messages.sender < messages.receiver
    lines = corridors(
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
    given = matrix_of(count, *both, np.ceil(logarithms).astype(np.int64) + 1)
    rates = tightened(given)
    if rates is None:
        return Refused(contradictions(given))
    lines = lines.narrowed(np.expm1(-rates[b, a] * RATE_UNIT), np.expm1(rates[a, b] * RATE_UNIT))
    firsts, lasts = messages.spans()
    if reference is None:
        ever = _at(lines, count, a, b, firsts, lasts)
        if isinstance(ever, Refused):
            return ever
        reference = reference_of(ever, messages)
    moments = messages.moments(reference, MOMENTS)
    upper: list[Longs] = []
    for moment in moments:
        # A clock that the reference's time is not compared with in any message may show an earlier or later time than any.
        beyond = moments[-1] - moments[0]
        found = _narrowed(lines, count, a, b, firsts - beyond, lasts + beyond, reference, moment)
        if isinstance(found, Refused):
            return found
        upper.append(found)
    return fit_of(reference, moments, tuple(upper), rates)


def _narrowed(
    lines: Corridors, count: int, a: Longs, b: Longs, first: Longs, last: Longs, reference: int, moment: int
) -> Longs | Refused:
    """Bounds for all pairs when the reference shows `moment` and each other clock a time from `first` to `last`."""
    first[reference] = last[reference] = moment
    found = _at(lines, count, a, b, first, last)
    for _ in range(ROUNDS - 1):
        if isinstance(found, Refused):
            return found
        ahead, behind = found[reference], found[:, reference]
        first = np.where(behind < UNBOUNDED, np.maximum(first, moment - behind), first)
        last = np.where(ahead < UNBOUNDED, np.minimum(last, moment + ahead), last)
        found = _at(lines, count, a, b, first, last)
    return found


def _at(lines: Corridors, count: int, a: Longs, b: Longs, first: Longs, last: Longs) -> Longs | Refused:
    """Bounds for all pairs, where clock a of each shows a time from ``first[a]`` to ``last[a]``."""
    bounds = (lines.at_most(first[a], last[a]), lines.at_least_negated(first[a], last[a]))
    given = matrix_of(count, np.concatenate((a, b)), np.concatenate((b, a)), np.concatenate(bounds))
    found = tightened(given)
    return Refused(contradictions(given)) if found is None else found
