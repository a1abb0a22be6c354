"""Violations by windows of the order that can be counted in parallel, exactly.

How far inverted pairs reach is bounded first, from summaries of short blocks of the order: the largest entry of each
column of a block's vectors, and the smallest number of each sender. A cause in a block is inverted with an effect in
an earlier one only if the running maximum up to there reaches a number of the cause's block. Each window is then
counted with that many messages before and after it. Summaries and counts need only their own rows; a distributed run
gathers the summaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whence.events.columns import Ints, Truth
from whence.kernels import kernel
from whence.measures.violations import Violations, count_window, in_fixed_types

Longs = NDArray[np.int64]

BLOCKS_A_WINDOW = 64
"""More give a tighter bound and more summaries."""
NO_NUMBER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class Summary:
    """What must be known of a block to see which other blocks it can be inverted with."""

    known: Longs
    """By sender: the largest entry of the column in the block's vectors."""
    smallest: Longs
    """By sender: its smallest number in the block; `NO_NUMBER` without one."""


def summarise(truth: Truth, order: Ints) -> Summary:
    """The summary of the block that holds these rows."""
    truth = in_fixed_types(truth)
    return Summary(*summary_columns(truth.process, truth.seq, truth.vector, np.ascontiguousarray(order, np.int64)))


def reach_bound(summaries: Sequence[Summary], *, block_messages: int) -> int:
    """A bound of `Violations.reach` from summaries of consecutive blocks, the last of which may be shorter."""
    if not summaries:
        return 0
    known = np.maximum.accumulate(np.array([summary.known for summary in summaries]), axis=0)
    smallest = np.array([summary.smallest for summary in summaries])
    blocks = np.arange(len(summaries))
    farthest = 0
    for sender in range(known.shape[1]):
        # The first block by which some vector has reached the smallest number of each block.
        since = np.searchsorted(known[:, sender], smallest[:, sender])
        farthest = max(farthest, int((blocks - since).max()))
    return (farthest + 1) * block_messages - 1


def count_in_windows(truth: Truth, order: Ints, *, window_messages: int) -> Violations:
    """The counts of the whole order, window by window; equal to `count_violations`."""
    if window_messages < 1:
        raise ValueError(f"window_messages is 1 or more, not {window_messages}")
    truth = in_fixed_types(truth)
    block = max(1, window_messages // BLOCKS_A_WINDOW)
    summaries = [summarise(truth, order[start : start + block]) for start in range(0, len(order), block)]
    halo = reach_bound(summaries, block_messages=block)
    total = Violations(0, 0, 0, 0, 0, 0)
    for start in range(0, len(order), window_messages):
        stop = min(start + window_messages, len(order))
        first = max(0, start - halo)
        total += count_window(truth, order[first : stop + halo], start - first, stop - first)
    return total


@kernel("UniTuple(int64[::1], 2)(int32[::1], int64[::1], int32[:, ::1], int64[::1])")
def summary_columns(
    process: NDArray[np.int32], seq: Longs, vector: NDArray[np.int32], rows: Longs
) -> tuple[Longs, Longs]:
    """The columns of a `Summary`."""
    known = np.zeros(vector.shape[1], np.int32)
    smallest = np.full(vector.shape[1], NO_NUMBER, np.int64)
    for row in rows:
        for sender in range(len(known)):
            known[sender] = max(known[sender], vector[row, sender])
        smallest[process[row]] = min(smallest[process[row]], seq[row])
    return known.astype(np.int64), smallest
