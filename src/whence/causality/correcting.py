"""Wall times moved as little as causality demands: no effect before its cause, and so each process in its own order.

The corrected time of an event is the middle between the largest wall time in its past and the smallest in its future, the
event itself included in both. Where nothing contradicts an event's time the two are that time. This is isotonic
regression in the maximum norm: no other times that respect causality have a smaller largest change.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whence.causality.ordering import NO_TIME, Edges
from whence.kernels import kernel

Longs = NDArray[np.int64]


def corrections(starts: Longs, time: Longs, causal_time: Longs, edges: Edges) -> Longs:
    """By row: corrected time minus wall time; 0 for a row without a time.

    Rows, `starts` and `edges` are as in `whence.causality.ordering`, without cycles. The work grows with the events that
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


def corrections_by_clock(starts: Longs, time: Longs, edges: Edges, clock: Longs) -> Longs:
    """As `corrections`, where rows also keep the order of the clock that they share: `clock` by row, -1 for none.

    Rows of one clock that causality orders against that clock get the same time.
    """
    rows = np.arange(len(time))
    follows = np.ones(len(time), np.bool_)
    follows[starts[:-1][starts[:-1] < len(time)]] = False
    known = edges.causes >= 0
    timed = np.flatnonzero((clock >= 0) & (time != NO_TIME))
    by_clock = timed[np.lexsort((timed, time[timed], clock[timed]))]
    shared = clock[by_clock[1:]] == clock[by_clock[:-1]]
    causes = np.concatenate((rows[follows] - 1, edges.causes[known], by_clock[:-1][shared]))
    effects = np.concatenate((rows[follows], edges.effects()[known], by_clock[1:][shared]))
    ever = np.iinfo(np.int64).max
    earliest = np.where(time == NO_TIME, ever, time)
    latest = np.where(time == NO_TIME, ever, -np.maximum(time, -ever))
    for values, origin, target in ((earliest, effects, causes), (latest, causes, effects)):
        by_origin = np.argsort(origin, kind="stable")
        offsets = np.concatenate(([0], np.cumsum(np.bincount(origin, minlength=len(time))))).astype(np.int64)
        _lower(np.argsort(values, kind="stable"), offsets, target[by_origin], values)
    found = np.zeros(len(time), np.int64)
    known_time = np.flatnonzero(time != NO_TIME)
    low, high = earliest[known_time], -latest[known_time]
    found[known_time] = low + (high - low) // 2 - time[known_time]
    return found


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1])")
def _lower(ascending: Longs, offsets: Longs, targets: Longs, values: Longs) -> None:
    """Lower the values of all rows to the smallest that leads to them; the smallest goes first, so each is lowered once."""
    waiting = np.empty(len(values) + 1, np.int64)
    for origin in ascending:
        least = values[origin]
        waiting[0] = origin
        count = 1
        while count:
            count -= 1
            row = waiting[count]
            for at in range(offsets[row], offsets[row + 1]):
                if values[targets[at]] > least:
                    values[targets[at]] = least
                    waiting[count] = targets[at]
                    count += 1


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
