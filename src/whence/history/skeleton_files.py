"""Columns of skeleton files as arrays."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from whence.causality.skeleton import Skeleton
from whence.history.tables import Longs


def skeleton_from(table: pa.Table) -> Skeleton:
    """The skeleton that rows of a skeleton's file hold."""
    return Skeleton(table["process"].to_numpy().astype(np.int32), *lists_of(table["causes"]))


def without_last(table: pa.Table, column: str) -> tuple[Longs, Longs]:
    """The causes by message that rows of a skeleton's file hold, as `lists_of` gives them, without so many of the last as a
    column says, if it is there."""
    offsets, back = lists_of(table["causes"])
    if column not in table.column_names:
        return offsets, back
    counts = table[column].to_numpy().astype(np.int64)
    kept = np.ones(len(back), np.bool_)
    kept[np.repeat(offsets[1:] - counts, counts) + counted_up(counts)] = False
    return np.concatenate(([0], np.cumsum(np.diff(offsets) - counts))).astype(np.int64), back[kept]


def lists_of(column: pa.ChunkedArray) -> tuple[Longs, Longs]:
    """Where the lists of a column of numbers start, and what they hold."""
    lists = column.combine_chunks()
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return offsets - offsets[0], lists.flatten().to_numpy().astype(np.int64)


def distances(column: pa.ChunkedArray) -> Longs:
    """The numbers of a column, 0 where there is none."""
    found: Longs = pc.fill_null(column, 0).to_numpy().astype(np.int64)
    return found


def counted_up(counts: Longs) -> Longs:
    """For each count the numbers from 0 up to it, one after the other."""
    found: Longs = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return found
