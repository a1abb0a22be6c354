"""Compute the stamps that hybrid logical clocks would put on the messages of a simulation.

The wall part of a hybrid stamp is the largest clock reading in the causal past, which is ``r + c``. The counter comes
from the truth: one more than the largest counter among the causes with the same wall part, or 0 if there are none. It
counts only messages that reached the observer, and no receives. So counters are never larger than those of a clock that
counts every event. Causes still come strictly before their effects.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whence.events.columns import Ints, Reports, Truth
from whence.kernels import kernel

Longs = NDArray[np.int64]


def hybrid_stamps(reports: Reports, truth: Truth) -> Reports:
    """Return the same reports with ``(wall, counter)`` as stamps: wall is `r`, and the counter is the one element of kn."""
    wall = reports.r + reports.c.astype(np.int64)
    counter = hybrid_counters(wall, truth)
    return Reports(
        process=reports.process,
        seq=reports.seq,
        r=wall,
        c=np.zeros_like(reports.c),
        kn=counter.astype(np.int32).reshape(-1, 1),
        arrival=reports.arrival,
    )


def hybrid_counters(wall: Ints, truth: Truth) -> Longs:
    """Return the counter of each row."""
    process = np.ascontiguousarray(truth.process, np.int64)
    seq = np.ascontiguousarray(truth.seq, np.int64)
    vector = np.ascontiguousarray(truth.vector, np.int32)
    # A message has more messages in its past than each of its causes, so this order has causes first.
    order = np.argsort(vector.sum(axis=1, dtype=np.int64), kind="stable")
    lengths = np.zeros(vector.shape[1] + 1, np.int64)
    np.maximum.at(lengths[1:], process, seq)
    starts = np.cumsum(lengths + 1)
    return np.asarray(_count(order, process, seq, vector, np.ascontiguousarray(wall, np.int64), starts))


@kernel("int64[::1](int64[::1], int64[::1], int64[::1], int32[:, ::1], int64[::1], int64[::1])")
def _count(order: Longs, process: Longs, seq: Longs, vector: NDArray[np.int32], wall: Longs, starts: Longs) -> Longs:
    """Count row by row, causes first. The stamp of message s of process p is at ``starts[p] + s``."""
    processes = vector.shape[1]
    walls = np.full(starts[-1], -1, np.int64)
    counters = np.zeros(starts[-1], np.int64)
    last = np.zeros(processes, np.int64)
    result = np.zeros(len(order), np.int64)
    for row in order:
        sender, number = process[row], seq[row]
        counter = -1
        for cause in range(processes):
            number_known = min(np.int64(vector[row, cause]), last[cause])
            at = starts[cause] + number_known
            if number_known > 0 and walls[at] == wall[row]:
                counter = max(counter, counters[at])
        result[row] = counter + 1
        # A message that never reached the observer gets the stamp of the one before it.
        for missing in range(last[sender] + 1, number):
            walls[starts[sender] + missing] = walls[starts[sender] + last[sender]]
            counters[starts[sender] + missing] = counters[starts[sender] + last[sender]]
        walls[starts[sender] + number] = wall[row]
        counters[starts[sender] + number] = result[row]
        last[sender] = number
    return result
