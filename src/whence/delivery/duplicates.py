"""Find rows of messages that come more than once.

Numbers of a sender usually have few gaps, so one bit for each number records whether it was seen; tables whose numbers
are far apart are sorted instead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whence.delivery.bits import bit
from whence.kernels import kernel

Longs = NDArray[np.int64]


def repeated_rows(process: NDArray[np.int32], seq: Longs) -> Longs:
    """Return every row of each message that has more than one, ascending."""
    rows = len(seq)
    if rows < 2:
        return np.empty(0, np.int64)
    if int(process.max()) < 16 * rows:
        first, spans = seq_spans(process, seq, int(process.max()) + 1)
        if float(spans.astype(np.float64).sum()) < 64.0 * rows:
            return rows_marked_twice(process, seq, first, np.cumsum(spans) - spans, int(spans.sum()))
    order = np.lexsort((seq, process))
    same = (np.diff(process[order]) == 0) & (np.diff(seq[order]) == 0)
    repeated = np.zeros(rows, np.bool_)
    repeated[order[1:][same]] = True
    repeated[order[:-1][same]] = True
    return np.flatnonzero(repeated)


@kernel("UniTuple(int64[::1], 2)(int32[::1], int64[::1], int64)")
def seq_spans(process: NDArray[np.int32], seq: Longs, processes: int) -> tuple[Longs, Longs]:
    """Return each sender's smallest number, and how many numbers there are from it to the largest; 0 without rows."""
    first = np.full(processes, np.iinfo(np.int64).max, np.int64)
    last = np.full(processes, np.int64(-1), np.int64)
    for row in range(len(seq)):
        sender = process[row]
        first[sender] = min(first[sender], seq[row])
        last[sender] = max(last[sender], seq[row])
    spans = np.zeros(processes, np.int64)
    for sender in range(processes):
        if last[sender] >= 0:
            spans[sender] = last[sender] - first[sender] + 1
    return first, spans


@kernel("int64[::1](int32[::1], int64[::1], int64[::1], int64[::1], int64)")
def rows_marked_twice(process: NDArray[np.int32], seq: Longs, first: Longs, start: Longs, total: int) -> Longs:
    """Return the rows of numbers that come twice; a sender's numbers are marked from `start` on."""
    once = np.zeros((total + 63) >> 6, np.uint64)
    repeats = 0
    for row in range(len(seq)):
        place = start[process[row]] + seq[row] - first[process[row]]
        repeats += (once[place >> 6] & bit(place)) != 0
        once[place >> 6] |= bit(place)
    if repeats == 0:
        return np.empty(0, np.int64)
    once[:] = 0
    twice = np.zeros(len(once), np.uint64)
    for row in range(len(seq)):
        place = start[process[row]] + seq[row] - first[process[row]]
        twice[place >> 6] |= once[place >> 6] & bit(place)
        once[place >> 6] |= bit(place)
    rows = np.empty(2 * repeats, np.int64)
    count = 0
    for row in range(len(seq)):
        place = start[process[row]] + seq[row] - first[process[row]]
        if twice[place >> 6] & bit(place):
            rows[count] = row
            count += 1
    return rows[:count]
