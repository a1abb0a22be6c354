"""Constant offsets for groups of clocks too large for bounds on all pairs: against a reference only.

Bounds against the reference are as tight as `whence.measures.offset_fits` gives them. Drift is not looked for, and
contradictions are found between pairs that exchange messages in both directions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whence.measures.choosing import FEWEST, RoughPlaces, median_clock
from whence.measures.difference_bounds import UNBOUNDED, bounds_from
from whence.measures.explaining import Explanation, Peel, likeliest
from whence.measures.offset_fits import Fit, Messages

Longs = NDArray[np.int64]


def explained_sparsely(messages: Messages) -> Explanation:
    """Constant offsets, without the clocks that contradict most others."""
    left, gone = _without_contradictions(messages)
    while True:
        root = int(np.argmax(np.bincount(left.sender, minlength=left.count)))
        found = _against(left, root)
        if found is not None:
            break
        # A chain of several clocks contradicts itself, and nothing says which of them is wrong: the busiest has to go.
        gone.append(Peel(root, ()))
        left = left.without(root)
    ahead, behind = found
    places = RoughPlaces(left)
    both = np.flatnonzero((ahead < UNBOUNDED) & (behind < UNBOUNDED) & places.trusted)
    nearest = int(np.lexsort((np.abs(places.ahead), ~places.trusted))[0])
    reference = median_clock(both, ahead, behind) if len(both) >= FEWEST else nearest
    again = _against(left, reference)
    assert again is not None  # The same cycles can be reached from there.
    ahead, behind = again
    known = [side[side < UNBOUNDED] for side in again]
    low = max(-int(left.bound.min(initial=0)), -int(ahead.min()), -int(behind.min()))
    high = sum(int(side.max(initial=0)) for side in known)
    moments = left.moments(reference, 2)
    fit = Fit(reference, moments, (ahead,) * len(moments), (behind,) * len(moments), None, low, high)
    return Explanation((fit,), tuple(gone))


def _against(messages: Messages, clock: int) -> tuple[Longs, Longs] | None:
    ahead = bounds_from(messages.count, messages.sender, messages.receiver, messages.bound, clock)
    behind = bounds_from(messages.count, messages.receiver, messages.sender, messages.bound, clock)
    return None if ahead is None or behind is None else (ahead, behind)


def _without_contradictions(messages: Messages) -> tuple[Messages, list[Peel]]:
    gone: list[Peel] = []
    pair = messages.sender * messages.count + messages.receiver
    pairs, place = np.unique(pair, return_inverse=True)
    bound = np.full(len(pairs), UNBOUNDED)
    np.minimum.at(bound, place, messages.bound)
    a, b = pairs // messages.count, pairs % messages.count
    back = np.searchsorted(pairs, b * messages.count + a)
    back[back == len(pairs)] = 0
    answered = pairs[back] == b * messages.count + a
    wrong = answered & (np.where(answered, bound, 0) + np.where(answered, bound[back], 0) < 0)
    agrees, strange = answered & ~wrong, RoughPlaces(messages).strangeness
    while wrong.any():
        votes, agreeing = (np.bincount(a[which], minlength=messages.count) for which in (wrong, agrees))
        gone.append(likeliest(votes, agreeing, strange))
        messages = messages.without(gone[-1].clock)
        others = (a != gone[-1].clock) & (b != gone[-1].clock)
        wrong, agrees = wrong & others, agrees & others
    return messages, gone
