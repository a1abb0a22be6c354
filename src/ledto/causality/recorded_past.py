"""Find the recorded past of events: only what lines and messages say led to them, not all that their processes did before.

References are those of `ledto.causality.lines`: to a row, or to the list of a row. Where causes are stored as distances, a
distance is what to subtract from the reference of the effect's row. Below the first row, references are negative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.causality.lines import NONE, list_reference, referred_row, refers_to_list, row_reference
from ledto.causality.skeleton import Longs
from ledto.kernels import kernel

NO_REST = 0
"""In place of a distance: a list holds nothing but its row."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordedCauses:
    """The recorded causes of consecutive rows. Some may be before the first row."""

    offsets: Longs
    back: Longs
    """Row i follows the references ``row_reference(i) - back[offsets[i]:offsets[i + 1]]``."""
    rest: Longs
    """The list of row i holds the row and the reference ``row_reference(i) - rest[i]``; `NO_REST`: only the row."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self.offsets.nbytes + self.back.nbytes + self.rest.nbytes

    def entries_of(self, rows: Longs) -> tuple[Longs, Longs]:
        """Find the entries of `back` for some rows; return for each entry its row, and its place in `back`."""
        starts, lengths = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        at = np.arange(int(lengths.sum())) + np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
        return np.repeat(rows, lengths), at

    def past_of(self, references: Longs, lowest: int = 0) -> tuple[Longs, Longs]:
        """Find all rows that lead to these rows and lists, themselves included, ascending; and references below the first
        row.

        Rows before `lowest` are left out, and so is what only they lead to.
        """
        marked = np.zeros(row_reference(len(self)), np.bool_)
        marked[references] = True
        return _past(self.offsets, self.back, self.rest, marked, referred_row(int(references.max())), lowest)

    def part(self, start: int, stop: int) -> RecordedCauses:
        """Take the rows ``start <= row < stop``."""
        first, last = self.offsets[start], self.offsets[stop]
        return RecordedCauses(self.offsets[start : stop + 1] - first, self.back[first:last], self.rest[start:stop])

    def without_first(self, rows: Longs) -> RecordedCauses:
        """Leave out the first cause of each of these rows, all of which have one."""
        lengths = np.diff(self.offsets)
        lengths[rows] -= 1
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        return RecordedCauses(offsets, np.delete(self.back, self.offsets[:-1][rows]), self.rest)


@kernel("UniTuple(int64[::1], 2)(int64[::1], int64[::1], int64[::1], boolean[::1], int64, int64)")
def _past(
    offsets: Longs, back: Longs, rest: Longs, marked: NDArray[np.bool_], highest: int, lowest: int
) -> tuple[Longs, Longs]:
    """Do the work of `RecordedCauses.past_of`; `marked` is by reference, and changes."""
    past = np.empty(highest + 1, np.int64)
    below = np.empty(16, np.int64)
    count = below_count = 0
    for row in range(highest, lowest - 1, -1):
        has_list = marked[list_reference(row)]
        if not (has_list or marked[row_reference(row)]):
            continue
        count += 1
        past[highest + 1 - count] = row
        first = offsets[row]
        # The rest of a list comes first, like one more entry.
        for entry in range(first - 1 if has_list and rest[row] > NO_REST else first, offsets[row + 1]):
            cause = row_reference(row) - (rest[row] if entry < first else back[entry])
            if cause >= 0:
                marked[cause] = True
                continue
            if below_count == len(below):
                longer = np.empty(2 * below_count, np.int64)
                longer[:below_count] = below
                below = longer
            below[below_count] = cause
            below_count += 1
    return past[highest + 1 - count :].copy(), below[:below_count].copy()


@kernel("Tuple((int64[::1], uint64[::1]))(int64[::1], int64[::1], int64[::1], uint64[::1])")
def past_of_many(
    offsets: Longs, back: Longs, rest: Longs, marked: NDArray[np.uint64]
) -> tuple[Longs, NDArray[np.uint64]]:
    """Find up to 64 pasts at once, as `RecordedCauses.past_of` finds one.

    Each past is one bit. `marked`, by reference, has the bits to begin with, and gets those of all rows. Returns references
    below the first row with their bits; a reference may come several times.
    """
    below, below_bits = np.empty(16, np.int64), np.empty(16, np.uint64)
    below_count = 0
    for row in range(len(offsets) - 2, -1, -1):
        list_bits = marked[list_reference(row)]
        row_bits = marked[row_reference(row)] | list_bits
        if row_bits == 0:
            continue
        marked[row_reference(row)] = row_bits
        first = offsets[row]
        for entry in range(first - 1 if list_bits != 0 and rest[row] > NO_REST else first, offsets[row + 1]):
            cause = row_reference(row) - (rest[row] if entry < first else back[entry])
            bits = list_bits if entry < first else row_bits
            if cause >= 0:
                marked[cause] |= bits
                continue
            if below_count == len(below):
                longer, longer_bits = np.empty(2 * below_count, np.int64), np.empty(2 * below_count, np.uint64)
                longer[:below_count], longer_bits[:below_count] = below, below_bits
                below, below_bits = longer, longer_bits
            below[below_count], below_bits[below_count] = cause, bits
            below_count += 1
    return below[:below_count].copy(), below_bits[:below_count].copy()


@kernel("UniTuple(int64[::1], 2)(int64[::1], int64[::1], int64[::1])")
def members(references: Longs, rest: Longs, low: Longs) -> tuple[Longs, Longs]:
    """List the rows that references mean; return for each row also the place of its reference.

    `rest` and `low` are those of `ledto.causality.lines.Lists`.
    """
    rows, which = np.empty(len(references), np.int64), np.empty(len(references), np.int64)
    count = 0
    for at in range(len(references)):
        reference = references[at]
        lowest = np.int64(0)
        if refers_to_list(reference):
            lowest = low[referred_row(reference)]
        while reference >= 0 and referred_row(reference) >= lowest:
            if count == len(rows):
                longer = np.empty((2, 2 * count), np.int64)
                longer[0, :count], longer[1, :count] = rows, which
                rows, which = longer[0].copy(), longer[1].copy()
            rows[count], which[count] = referred_row(reference), at
            count += 1
            reference = rest[referred_row(reference)] if refers_to_list(reference) else np.int64(NONE)
    return rows[:count].copy(), which[:count].copy()


def merge_causes(first: RecordedCauses, second: RecordedCauses) -> RecordedCauses:
    """Give the same rows the causes of both, those of `first` first, and the lists of `first`."""
    lengths = np.diff(first.offsets), np.diff(second.offsets)
    offsets = np.concatenate(([0], np.cumsum(lengths[0] + lengths[1]))).astype(np.int64)
    back = np.empty(int(offsets[-1]), np.int64)
    for part, start in ((first, offsets[:-1]), (second, offsets[:-1] + lengths[0])):
        at = np.arange(len(part.back)) + np.repeat(start - part.offsets[:-1], np.diff(part.offsets))
        back[at] = part.back
    return RecordedCauses(offsets, back, first.rest)
