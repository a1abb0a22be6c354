"""Which events of a process nobody reported, by the numbers that it gives them: 1, 2, 3, ...

A process whose reported events have the numbers 1, 2, 5 had two more before the last one. Each of these may have been a
send in any of the channels that the process sends in. Where events have no numbers, nothing shows that a report was lost.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Unreported:
    """By row: how many events of its process nobody reported."""

    before: Longs
    """Those with a smaller number than the row's."""
    in_all: Longs
    """Those before any event of the process that is known."""

    def filter(self, chosen: NDArray[np.bool_]) -> Unreported:
        """The same of these rows."""
        return Unreported(self.before[chosen], self.in_all[chosen])

    @classmethod
    def none(cls, rows: int) -> Unreported:
        """Of rows before which nothing is missing."""
        return cls(np.zeros(rows, np.int64), np.zeros(rows, np.int64))


def unreported_in(table: pa.Table) -> Unreported:
    """Of rows of `REPORTS`, which are all there are of their processes; those that are set aside report nothing."""
    usable = pc.and_(pc.is_null(table["reason"]), pc.greater_equal(table["seq"].fill_null(0), 1))
    rows = np.flatnonzero(usable.to_numpy())
    found = Unreported.none(len(table))
    if not len(rows):
        return found
    computation, process = (_codes(table[name]) for name in ("computation", "process"))
    codes = np.unique(computation * (process.max() + 1) + process, return_inverse=True)[1].astype(np.int64)
    seq = table["seq"].take(pa.array(rows)).to_numpy()
    nothing = np.zeros(codes.max() + 1, np.int64)
    found.before[rows] = left_out_before(codes[rows], seq, nothing, nothing)
    in_all = nothing.copy()
    np.maximum.at(in_all, codes[rows], found.before[rows])
    found.in_all[rows] = in_all[codes[rows]]
    return found


def left_out_before(process: Longs, seq: Longs, last: Longs, missing: Longs) -> Longs:
    """By row: how many smaller numbers of its process are in no row.

    By process: all up to `last` were reported before these rows, but for `missing` of them. Rows up to there get 0.
    """
    found = np.zeros(len(seq), np.int64)
    new = np.flatnonzero(seq > last[process])
    if not len(new):
        return found
    order = new[np.lexsort((seq[new], process[new]))]
    whose, numbers = process[order], seq[order]
    starts = np.diff(whose, prepend=-1) != 0
    is_first_report = starts | (np.diff(numbers, prepend=-1) != 0)
    reported = np.cumsum(is_first_report)
    before_process = np.maximum.accumulate(np.where(starts, reported - 1, 0))
    found[order] = missing[whose] + (numbers - last[whose]) - (reported - before_process)
    return found


def _codes(column: pa.ChunkedArray) -> Longs:
    indices = column.combine_chunks().dictionary_encode().indices
    return np.asarray(pc.fill_null(indices, -1).to_numpy(zero_copy_only=False), np.int64) + 1
