"""Vectors as members of a boundary's file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.causality.sparse_vectors import Vectors


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
