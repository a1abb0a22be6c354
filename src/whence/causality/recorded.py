"""The recorded past of events within a run of rows: only along lines and messages, not along whole processes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whence.causality.skeleton import Longs
from whence.kernels import kernel


@dataclass(frozen=True, slots=True, eq=False)
class RecordedCauses:
    """What rows follow by what is recorded: row i the rows ``i - back[offsets[i]:offsets[i + 1]]``, some below the first."""

    offsets: Longs
    back: Longs

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        return self.offsets.nbytes + self.back.nbytes

    def past_of(self, rows: Longs, lowest: int = 0) -> tuple[Longs, Longs]:
        """The rows that lead to these, and they themselves, ascending; and rows before the first, as negative numbers.

        What stands before `lowest`, and what only that leads to, is left out.
        """
        marked = np.zeros(len(self), np.bool_)
        marked[rows] = True
        return _past(self.offsets, self.back, marked, int(rows.max()), lowest)


@kernel("UniTuple(int64[::1], 2)(int64[::1], int64[::1], boolean[::1], int64, int64)")
def _past(offsets: Longs, back: Longs, marked: NDArray[np.bool_], highest: int, lowest: int) -> tuple[Longs, Longs]:
    found = np.empty(highest + 1, np.int64)
    leaving = np.empty(16, np.int64)
    count = left = 0
    for row in range(highest, lowest - 1, -1):
        if not marked[row]:
            continue
        count += 1
        found[highest + 1 - count] = row
        for entry in range(offsets[row], offsets[row + 1]):
            cause = row - back[entry]
            if cause >= 0:
                marked[cause] = True
                continue
            if left == len(leaving):
                more = np.empty(2 * left, np.int64)
                more[:left] = leaving
                leaving = more
            leaving[left] = cause
            left += 1
    return found[highest + 1 - count :].copy(), leaving[:left].copy()


def joined(first: RecordedCauses, second: RecordedCauses) -> RecordedCauses:
    """The causes of both, for the same rows."""
    lengths = np.diff(first.offsets), np.diff(second.offsets)
    offsets = np.concatenate(([0], np.cumsum(lengths[0] + lengths[1]))).astype(np.int64)
    back = np.empty(int(offsets[-1]), np.int64)
    for part, start in ((first, offsets[:-1]), (second, offsets[:-1] + lengths[0])):
        at = np.arange(len(part.back)) + np.repeat(start - part.offsets[:-1], np.diff(part.offsets))
        back[at] = part.back
    return RecordedCauses(offsets, back)
