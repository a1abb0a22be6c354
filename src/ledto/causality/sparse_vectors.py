"""Vector clocks stored without zeros: in a large computation, most processes never hear of most others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from ledto.causality.skeleton import Ints, Longs, ints, longs


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """Vectors, each a row of counts by process. Row r has the entries ``offsets[r]:offsets[r + 1]``; all others are 0."""

    offsets: Longs
    """int64[R + 1]: where the entries of each row start."""
    process: Ints
    """int32[n]: ascending within a row."""
    count: Ints
    """int32[n]: 1 or more."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "offsets", longs(self.offsets))
        for name in ("process", "count"):
            object.__setattr__(self, name, ints(getattr(self, name)))
        entries = len(self.process)
        if len(self.offsets) == 0 or self.offsets[0] != 0 or self.offsets[-1] != entries or len(self.count) != entries:
            raise ValueError(f"vectors of {entries} entries have {len(self.count)} counts and offsets {self.offsets}")
        if entries and self.process.min() < 0:
            raise ValueError(f"vectors name process {self.process.min()}: codes are 0 or more")
        if len(self.offsets) > 1 and np.diff(self.offsets).min() < 0:
            raise ValueError("a vector ends before it starts")

    @classmethod
    def empty(cls, rows: int = 0) -> Self:
        """Make rows that are all zero."""
        return cls(np.zeros(rows + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))

    @classmethod
    def of(cls, matrix: ArrayLike) -> Self:
        """Make rows of a matrix with zeros, int32[R, P]."""
        dense = np.asarray(matrix)
        row, process = np.nonzero(dense)
        return cls(starts_of(row, len(dense)), ints(process), ints(dense[row, process]))

    @classmethod
    def collected(cls, rows: int, row: Longs, process: Ints, count: Ints) -> Self:
        """Make rows of entries in any order, but those of one row ascend by process."""
        order = np.argsort(row, kind="stable")
        return cls(starts_of(row, rows), process[order], count[order])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        """Memory, in bytes."""
        return self.offsets.nbytes + self.process.nbytes + self.count.nbytes

    @property
    def lengths(self) -> Longs:
        """int64[R]: the number of entries of each row."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> Longs:
        """int64[n]: the row of each entry."""
        return np.repeat(np.arange(len(self), dtype=np.int64), self.lengths)

    def take(self, rows: ArrayLike) -> Vectors:
        """Take these rows, in this order."""
        chosen = longs(rows)
        lengths = self.lengths[chosen]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        entries = np.arange(starts[-1]) + np.repeat(self.offsets[chosen] - starts[:-1], lengths)
        return Vectors(starts, self.process[entries], self.count[entries])

    def only(self, rows: Longs) -> Vectors:
        """Set all rows but these, which ascend, to zero."""
        kept = self.take(rows)
        lengths = np.zeros(len(self), np.int64)
        lengths[rows] = kept.lengths
        return Vectors(np.concatenate(([0], np.cumsum(lengths))), kept.process, kept.count)

    def replaced(self, rows: Longs, new: Vectors) -> Vectors:
        """Replace these rows by new ones."""
        place = np.arange(len(self))
        place[rows] = len(self) + np.arange(len(rows))
        return self.followed_by(new).take(place)

    def followed_by(self, more: Vectors) -> Vectors:
        """Append rows."""
        return Vectors(
            np.concatenate((self.offsets, self.offsets[-1] + more.offsets[1:])),
            np.concatenate((self.process, more.process)),
            np.concatenate((self.count, more.count)),
        )

    def dense(self, processes: int) -> Ints:
        """Make a matrix with zeros, int32[R, processes]. Takes much memory if rows and processes are many."""
        matrix = np.zeros((len(self), processes), np.int32)
        matrix[self.rows, self.process] = self.count
        return matrix


def starts_of(row: Longs, rows: int) -> Longs:
    """Find where each row starts among entries sorted by row; `row` is the row of each entry."""
    return np.concatenate(([0], np.cumsum(np.bincount(row, minlength=rows)))).astype(np.int64)
