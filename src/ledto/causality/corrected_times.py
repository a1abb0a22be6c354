"""Correct wall times as little as causality demands: so that no effect is before its cause.

The corrected time of an event is the middle between the largest wall time in its past and the smallest in its future, the
event itself included in both. If nothing contradicts an event's time, both are that time. This is isotonic regression in
the maximum norm: among all times that respect causality, the largest change is as small as it can be.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ledto.causality.order import NO_CAUSE, NO_TIME, Edges
from ledto.kernels import kernel

Longs = NDArray[np.int64]


def find_corrections(starts: Longs, time: Longs, causal_time: Longs, edges: Edges) -> Longs:
    """Give for each row the corrected time minus the wall time; 0 for a row without a time.

    Rows, `starts` and `edges` are as in `ledto.causality.order`, without cycles. The work grows with the number of
    contradicted events, not of all events.
    """
    behind = np.flatnonzero((time != NO_TIME) & (causal_time > time))
    corrections = np.zeros(len(time), np.int64)
    if not len(behind):
        return corrections
    earliest = np.where(time == NO_TIME, np.iinfo(np.int64).max, time)
    _spread(behind[np.argsort(time[behind], kind="stable")], starts, edges.offsets, edges.causes, earliest)
    changed = np.flatnonzero((time != NO_TIME) & ((causal_time > time) | (earliest < time)))
    low, high = earliest[changed], causal_time[changed]
    # Not (low + high) // 2: the sum of two times may not fit in 64 bits.
    corrections[changed] = low + (high - low) // 2 - time[changed]
    return corrections


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def _spread(behind: Longs, starts: Longs, offsets: Longs, causes: Longs, earliest: Longs) -> None:
    """Lower `earliest` of each row to the smallest of its effects. `behind`: the rows with a later cause, sorted by time.

    Spreading stops at rows that are earlier themselves: if one of these has a later cause, it is in `behind`, too. The
    smallest time spreads first, so each row is lowered at most once.
    """
    is_first = np.zeros(len(earliest) + 1, np.bool_)
    is_first[starts] = True
    waiting = np.empty(len(earliest), np.int64)
    for origin in behind:
        least = earliest[origin]
        waiting[0] = origin
        count = 1
        while count:
            count -= 1
            row = waiting[count]
            first = offsets[row]
            for at in range(first - 1, offsets[row + 1]):
                # The row before in the process comes first, like one more edge.
                cause = causes[at] if at >= first else NO_CAUSE if is_first[row] else row - 1
                if cause >= 0 and earliest[cause] > least:
                    earliest[cause] = least
                    waiting[count] = cause
                    count += 1
