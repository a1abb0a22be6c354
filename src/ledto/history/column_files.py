"""Convert between arrays and how they are stored: columns of skeleton files, and vectors in the archives of boundaries.

Vectors over processes are packed into small numbers that often repeat, so that they compress well: a process as the step
from the one before it in its row, and a count as the number of the process's events that are *not* known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.skeleton import Skeleton
from ledto.causality.sparse_vectors import Vectors
from ledto.history.tables import Longs


def vector_arrays(name: str, vectors: Vectors, before: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Pack vectors into members of an archive. `before` has the events of each process before the segment.

    `vectors_from` reads them again.
    """
    steps = np.diff(vectors.process, prepend=np.int32(0))
    steps[vectors.offsets[:-1][vectors.lengths > 0]] = vectors.process[vectors.offsets[:-1][vectors.lengths > 0]]
    return {
        f"{name}_rows": _narrow(np.flatnonzero(vectors.lengths)),
        f"{name}_lengths": _narrow(vectors.lengths[vectors.lengths > 0]),
        f"{name}_steps": _narrow(steps),
        f"{name}_unknown": _narrow(before[vectors.process] - vectors.count),
    }


def vectors_from(name: str, rows: int, archive: Mapping[str, NDArray[Any]], before: NDArray[np.int64]) -> Vectors:
    """Unpack what `vector_arrays` made under this name. Gives `rows` vectors; those that were not stored are zero."""
    lengths = np.zeros(rows, np.int64)
    lengths[archive[f"{name}_rows"]] = archive[f"{name}_lengths"]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    sums = np.cumsum(archive[f"{name}_steps"].astype(np.int64))
    # The sums run over all rows; take off what the rows before have added.
    starts = offsets[:-1][lengths > 0]
    earlier = np.concatenate(([0], sums))[starts]
    process = sums - np.repeat(earlier, lengths[lengths > 0])
    return Vectors(offsets, process, before[process] - archive[f"{name}_unknown"].astype(np.int64))


def _narrow(values: NDArray[np.int64]) -> NDArray[Any]:
    """Convert to the smallest type that holds all values."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def skeleton_from(table: pa.Table) -> Skeleton:
    """Make a skeleton from rows of a skeleton's file."""
    return Skeleton(table["process"].to_numpy().astype(np.int32), *lists_of(table["causes"]))


def without_last(table: pa.Table, column: str) -> tuple[Longs, Longs]:
    """Give the causes by message of rows of a skeleton's file, as `lists_of` does, without the last ones of each row.

    `column` says how many to leave out by row; without that column in the table, none.
    """
    offsets, back = lists_of(table["causes"])
    if column not in table.column_names:
        return offsets, back
    counts = table[column].to_numpy().astype(np.int64)
    kept = np.ones(len(back), np.bool_)
    kept[np.repeat(offsets[1:] - counts, counts) + counted_up(counts)] = False
    return np.concatenate(([0], np.cumsum(np.diff(offsets) - counts))).astype(np.int64), back[kept]


def lists_of(column: pa.ChunkedArray) -> tuple[Longs, Longs]:
    """Flatten a column of lists: give where each list starts in the values, and the values."""
    lists = column.combine_chunks()
    offsets = lists.offsets.to_numpy().astype(np.int64)
    return offsets - offsets[0], lists.flatten().to_numpy().astype(np.int64)


def distances(column: pa.ChunkedArray) -> Longs:
    """Give the distances in a column; 0 for null."""
    values: Longs = pc.fill_null(column, 0).to_numpy().astype(np.int64)
    return values


def counted_up(counts: Longs) -> Longs:
    """Count from 0 up to each count, one after the other: ``[2, 3]`` gives ``[0, 1, 0, 1, 2]``."""
    values: Longs = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return values
