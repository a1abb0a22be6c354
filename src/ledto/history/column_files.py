"""Columns of skeleton files as arrays."""

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
    """The members of the archive that hold vectors; `vectors_from` reads them."""
    # Processes as steps from the one before, and counts as what is not known of a process: small numbers, often the same.
    steps = np.diff(vectors.process, prepend=np.int32(0))
    steps[vectors.offsets[:-1][vectors.lengths > 0]] = vectors.process[vectors.offsets[:-1][vectors.lengths > 0]]
    return {
        f"{name}_rows": _narrow(np.flatnonzero(vectors.lengths)),
        f"{name}_lengths": _narrow(vectors.lengths[vectors.lengths > 0]),
        f"{name}_steps": _narrow(steps),
        f"{name}_unknown": _narrow(before[vectors.process] - vectors.count),
    }


def vectors_from(name: str, rows: int, archive: Mapping[str, NDArray[Any]], before: NDArray[np.int64]) -> Vectors:
    """The vectors that `vector_arrays` gave for this name; so many rows, of which those not written are zero."""
    lengths = np.zeros(rows, np.int64)
    lengths[archive[f"{name}_rows"]] = archive[f"{name}_lengths"]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    sums = np.cumsum(archive[f"{name}_steps"].astype(np.int64))
    # What the rows before add up to is taken off again.
    starts = offsets[:-1][lengths > 0]
    earlier = np.concatenate(([0], sums))[starts]
    process = sums - np.repeat(earlier, lengths[lengths > 0])
    return Vectors(offsets, process, before[process] - archive[f"{name}_unknown"].astype(np.int64))


def _narrow(values: NDArray[np.int64]) -> NDArray[Any]:
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


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
