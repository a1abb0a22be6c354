"""Check before delivery over columns, compiled: a queue whose smallest key waits until it is due.

The queue is a set of ranks kept as bits, with a bit above every 64 that says whether any of them is set, and so on up.
As ranks are known beforehand, removing the smallest and adding one touch one word each nearly always, and log64 of the
number of rows at worst: sorting first and this together took a half to a fifth of the time of a heap of keys.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ledto.delivery.duplicates import bit, lowest_bit
from ledto.kernels import inlined, kernel, part

Longs = NDArray[np.int64]
Words = NDArray[np.uint64]


@part
def _levels(ranks: int) -> Longs:
    """Return where each level of words starts; the last entry is the number of words."""
    starts = [0]
    words = (ranks + 63) >> 6
    starts.append(words)
    while words > 1:
        words = (words + 63) >> 6
        starts.append(starts[-1] + words)
    return np.array(starts, np.int64)


@inlined
def _add(words: Words, starts: Longs, rank: int) -> None:
    """Add a rank to the set."""
    for level in range(len(starts) - 1):
        word = starts[level] + (rank >> 6)
        before = words[word]
        words[word] = before | bit(rank)
        if before != 0:
            break
        rank >>= 6


@inlined
def _remove_smallest(words: Words, starts: Longs, smallest: int, none: int) -> int:
    """Remove the smallest rank; return the smallest of the rest, or `none`."""
    rank = smallest
    for level in range(len(starts) - 1):
        word = starts[level] + (rank >> 6)
        remaining = words[word] & ~bit(rank)
        words[word] = remaining
        if remaining != 0:
            rank = (rank >> 6 << 6) + lowest_bit(remaining)
            for lower in range(level - 1, -1, -1):
                rank = (rank << 6) + lowest_bit(words[starts[lower] + rank])
            return rank
        rank >>= 6
    return none


@kernel(
    "void(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])",
    # Each row joins the queue and leaves it: some thirty steps.
    work=lambda arrival, due, by_key, order, at: 30 * len(arrival),
)
def check_before_delivery(arrival: Longs, due: Longs, by_key: Longs, order: Longs, at: Longs) -> None:
    """Fill `order` with the rows in the order of their delivery, and `at` with the times.

    Rows come by arrival; `by_key` lists them by key. At each tick the arrivals of the tick join the queue first; then
    the smallest key leaves while it is due.
    """
    rows = len(arrival)
    rank_of = np.empty(rows, np.int64)
    due_by_rank = np.empty(rows, np.int64)
    for rank in range(rows):
        rank_of[by_key[rank]] = rank
        due_by_rank[rank] = due[by_key[rank]]
    starts = _levels(rows)
    words = np.zeros(starts[-1], np.uint64)
    smallest = rows
    row = done = 0
    clock = 0
    while done < rows:
        now = arrival[row] if row < rows else np.iinfo(np.int64).max
        while smallest < rows:
            time = max(due_by_rank[smallest], clock)
            if time >= now:
                break
            order[done] = by_key[smallest]
            at[done] = time
            done += 1
            clock = time
            smallest = _remove_smallest(words, starts, smallest, rows)
        while row < rows and arrival[row] == now:
            clock = now
            smallest = min(smallest, rank_of[row])
            _add(words, starts, rank_of[row])
            row += 1
