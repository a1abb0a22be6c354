"""The recorded past of events within a run of rows: only along lines and messages, not along whole processes.

Rows and their lists are referred to as in `ledto.causality.lines`: twice the number of the row, and one more for its list.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.causality.skeleton import Longs
from ledto.kernels import kernel


@dataclass(frozen=True, slots=True, eq=False)
class RecordedCauses:
    """What rows follow by what is recorded, some of it below the first row."""

    offsets: Longs
    back: Longs
    """Row i follows what the references ``2 * i - back[offsets[i]:offsets[i + 1]]`` say."""
    rest: Longs
    """The list of row i holds the row, and what the reference ``2 * i - rest[i]`` says; 0: nothing else."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        return self.offsets.nbytes + self.back.nbytes + self.rest.nbytes

    def entries_of(self, rows: Longs) -> tuple[Longs, Longs]:
        """Places in `back` of what some rows follow: for each the row, and the place."""
        starts, lengths = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        at = np.arange(int(lengths.sum())) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        return np.repeat(rows, lengths), at

    def past_of(self, references: Longs, lowest: int = 0) -> tuple[Longs, Longs]:
        """The rows that lead to these rows and lists, and they themselves, ascending; and references below the first row.

        What stands before `lowest`, and what only that leads to, is left out.
        """
        marked = np.zeros(2 * len(self), np.bool_)
        marked[references] = True
        return _past(self.offsets, self.back, self.rest, marked, int(references.max()) // 2, lowest)

    def part(self, start: int, stop: int) -> RecordedCauses:
        """The rows ``start <= row < stop``."""
        first, last = self.offsets[start], self.offsets[stop]
        return RecordedCauses(self.offsets[start : stop + 1] - first, self.back[first:last], self.rest[start:stop])

    def without_first(self, rows: Longs) -> RecordedCauses:
        """The same without the first thing that each of these rows follows."""
        lengths = np.diff(self.offsets)
        lengths[rows] -= 1
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        return RecordedCauses(offsets, np.delete(self.back, self.offsets[:-1][rows]), self.rest)


@kernel("UniTuple(int64[::1], 2)(int64[::1], int64[::1], int64[::1], boolean[::1], int64, int64)")
def _past(
    offsets: Longs, back: Longs, rest: Longs, marked: NDArray[np.bool_], highest: int, lowest: int
) -> tuple[Longs, Longs]:
    found = np.empty(highest + 1, np.int64)
    leaving = np.empty(16, np.int64)
    count = left = 0
    for row in range(highest, lowest - 1, -1):
        listed = marked[2 * row + 1]
        if not (listed or marked[2 * row]):
            continue
        count += 1
        found[highest + 1 - count] = row
        first = offsets[row]
        # Of a list, what it goes on with comes first, as if it were one entry more.
        for entry in range(first - 1 if listed and rest[row] > 0 else first, offsets[row + 1]):
            cause = 2 * row - (rest[row] if entry < first else back[entry])
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


@kernel("Tuple((int64[::1], uint64[::1]))(int64[::1], int64[::1], int64[::1], uint64[::1])")
def past_of_many(
    offsets: Longs, back: Longs, rest: Longs, marked: NDArray[np.uint64]
) -> tuple[Longs, NDArray[np.uint64]]:
    """As `RecordedCauses.past_of` for up to 64 pasts at a time: `marked` has their bits by reference, and gets those of all
    rows. Gives references below the first row, some of them several times, and their bits."""
    leaving, bits = np.empty(16, np.int64), np.empty(16, np.uint64)
    left = 0
    for row in range(len(offsets) - 2, -1, -1):
        listed = marked[2 * row + 1]
        own = marked[2 * row] | listed
        if own == 0:
            continue
        marked[2 * row] = own
        first = offsets[row]
        for entry in range(first - 1 if listed != 0 and rest[row] > 0 else first, offsets[row + 1]):
            cause = 2 * row - (rest[row] if entry < first else back[entry])
            told = listed if entry < first else own
            if cause >= 0:
                marked[cause] |= told
                continue
            if left == len(leaving):
                more, more_bits = np.empty(2 * left, np.int64), np.empty(2 * left, np.uint64)
                more[:left], more_bits[:left] = leaving, bits
                leaving, bits = more, more_bits
            leaving[left], bits[left] = cause, told
            left += 1
    return leaving[:left].copy(), bits[:left].copy()


@kernel("UniTuple(int64[::1], 2)(int64[::1], int64[::1], int64[::1])")
def members(references: Longs, rest: Longs, low: Longs) -> tuple[Longs, Longs]:
    """The rows that references stand for, one after the other, and for each which of the references that was.

    `rest` and `low` as `ledto.causality.lines.Lists` has them.
    """
    found, which = np.empty(len(references), np.int64), np.empty(len(references), np.int64)
    count = 0
    for at in range(len(references)):
        reference = references[at]
        lowest = low[reference // 2] if reference % 2 else np.int64(0)
        while reference >= 0 and reference // 2 >= lowest:
            if count == len(found):
                longer = np.empty((2, 2 * count), np.int64)
                longer[0, :count], longer[1, :count] = found, which
                found, which = longer[0].copy(), longer[1].copy()
            found[count], which[count] = reference // 2, at
            count += 1
            reference = rest[reference // 2] if reference % 2 else np.int64(-1)
    return found[:count].copy(), which[:count].copy()


def joined(first: RecordedCauses, second: RecordedCauses) -> RecordedCauses:
    """The causes of both, for the same rows, and the lists of the first."""
    lengths = np.diff(first.offsets), np.diff(second.offsets)
    offsets = np.concatenate(([0], np.cumsum(lengths[0] + lengths[1]))).astype(np.int64)
    back = np.empty(int(offsets[-1]), np.int64)
    for part, start in ((first, offsets[:-1]), (second, offsets[:-1] + lengths[0])):
        at = np.arange(len(part.back)) + np.repeat(start - part.offsets[:-1], np.diff(part.offsets))
        back[at] = part.back
    return RecordedCauses(offsets, back, first.rest)
