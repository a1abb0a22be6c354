"""Wall times moved as little as causality demands: no effect before its cause, and so each process in its own order.

The corrected time of an event is the middle between the largest wall time in its past and the smallest in its future, the
event itself included in both. Where nothing contradicts an event's time the two are that time. This is isotonic
regression in the maximum norm: no other times that respect causality have a smaller largest change.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ledto.causality.order import NO_TIME, Edges
from ledto.kernels import kernel

Longs = NDArray[np.int64]


def corrections(starts: Longs, time: Longs, causal_time: Longs, edges: Edges) -> Longs:
    """By row: corrected time minus wall time; 0 for a row without a time.

    Rows, `starts` and `edges` are as in `ledto.causality.order`, without cycles. The work grows with the events that
    are contradicted, not with all.
    """
    behind = np.flatnonzero((time != NO_TIME) & (causal_time > time))
    found = np.zeros(len(time), np.int64)
    if not len(behind):
        return found
    earliest = np.where(time == NO_TIME, np.iinfo(np.int64).max, time)
    _spread(behind[np.argsort(time[behind], kind="stable")], starts, edges.offsets, edges.causes, earliest)
    changed = np.flatnonzero((time != NO_TIME) & ((causal_time > time) | (earliest < time)))
    # Halves are added one by one: the sum of two times may not fit in 64 bits.
    low, high = earliest[changed], causal_time[changed]
    found[changed] = low + (high - low) // 2 - time[changed]
    return found


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def _spread(behind: Longs, starts: Longs, offsets: Longs, causes: Longs, earliest: Longs) -> None:
    """Lower `earliest` of all rows to that of their effects; `behind` are the rows with a cause that is later, by time.

    A row that stops the spreading because it is earlier itself is `behind` for any later row before it. The smallest time
    comes first, so that a row is reached once.
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
                cause = causes[at] if at >= first else -1 if is_first[row] else row - 1
                if cause >= 0 and earliest[cause] > least:
                    earliest[cause] = least
                    waiting[count] = cause
                    count += 1
