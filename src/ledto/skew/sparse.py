"""Find constant offsets for groups of clocks too large for bounds on all pairs: against a reference only.

Bounds against the reference are as tight as those of `ledto.skew.fits`. Drift is not looked for, and
contradictions are found between pairs that exchange messages in both directions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ledto.skew.bounds import UNBOUNDED, bounds_from
from ledto.skew.explain import OffsetsExplained, Peel, choose_wrong
from ledto.skew.fits import Fit, Messages
from ledto.skew.reference import FEWEST, RoughPlaces, choose_median

Longs = NDArray[np.int64]


def explain_sparsely(messages: Messages) -> OffsetsExplained:
    """Find constant offsets, without the clocks that contradict most others."""
    remaining, left_out = _without_contradictions(messages)
    while True:
        root = int(np.argmax(np.bincount(remaining.sender, minlength=remaining.count)))
        bounds = _against(remaining, root)
        if bounds is not None:
            break
        # A chain of several clocks contradicts itself, and nothing shows which of them is wrong: leave the busiest out.
        left_out.append(Peel(root, ()))
        remaining = remaining.without(root)
    ahead, behind = bounds
    places = RoughPlaces(remaining)
    both = np.flatnonzero((ahead < UNBOUNDED) & (behind < UNBOUNDED) & places.trusted)
    nearest = int(np.lexsort((np.abs(places.ahead), ~places.trusted))[0])
    reference = choose_median(both, ahead, behind) if len(both) >= FEWEST else nearest
    against_reference = _against(remaining, reference)
    assert against_reference is not None  # The same cycles can be reached from there.
    ahead, behind = against_reference
    finite = [side[side < UNBOUNDED] for side in against_reference]
    low = max(-int(remaining.bound.min(initial=0)), -int(ahead.min()), -int(behind.min()))
    high = sum(int(side.max(initial=0)) for side in finite)
    moments = remaining.moments(reference, 2)
    fit = Fit(reference, moments, (ahead,) * len(moments), (behind,) * len(moments), None, low, high)
    return OffsetsExplained((fit,), tuple(left_out))


def _against(messages: Messages, clock: int) -> tuple[Longs, Longs] | None:
    """Return, by clock, how far ahead and behind this clock it is at most; None if bounds contradict each other."""
    ahead = bounds_from(messages.count, messages.sender, messages.receiver, messages.bound, clock)
    behind = bounds_from(messages.count, messages.receiver, messages.sender, messages.bound, clock)
    return None if ahead is None or behind is None else (ahead, behind)


def _without_contradictions(messages: Messages) -> tuple[Messages, list[Peel]]:
    """Leave out clocks until no two contradict each other directly; return the rest of the messages and those clocks."""
    left_out: list[Peel] = []
    pair = messages.sender * messages.count + messages.receiver
    pairs, place = np.unique(pair, return_inverse=True)
    bound = np.full(len(pairs), UNBOUNDED)
    np.minimum.at(bound, place, messages.bound)
    a, b = pairs // messages.count, pairs % messages.count
    opposite = np.searchsorted(pairs, b * messages.count + a)
    opposite[opposite == len(pairs)] = 0
    answered = pairs[opposite] == b * messages.count + a
    wrong = answered & (np.where(answered, bound, 0) + np.where(answered, bound[opposite], 0) < 0)
    agrees, strange = answered & ~wrong, RoughPlaces(messages).strangeness
    while wrong.any():
        votes, agreeing = (np.bincount(a[which], minlength=messages.count) for which in (wrong, agrees))
        left_out.append(choose_wrong(votes, agreeing, strange))
        messages = messages.without(left_out[-1].clock)
        others = (a != left_out[-1].clock) & (b != left_out[-1].clock)
        wrong, agrees = wrong & others, agrees & others
    return messages, left_out
