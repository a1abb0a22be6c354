"""Find reports of a table that come more than once, by bits of 64-bit words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ledto.kernels import inlined, kernel

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


@inlined
def bits_set(word: np.uint64) -> int:
    """Count the bits that are 1: sums pairs, nibbles and bytes side by side. LLVM makes one instruction of it."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inlined
def lowest_bit(word: np.uint64) -> int:
    """Return the place of the lowest 1; the word must not be 0."""
    return bits_set((word & (~word + np.uint64(1))) - np.uint64(1))


@inlined
def bit(place: int) -> np.uint64:
    """Return a word with one 1, at ``place % 64``."""
    return np.uint64(1) << np.uint64(place & 63)
