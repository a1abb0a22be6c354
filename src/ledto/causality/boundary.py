"""What processes know where a segment begins, so that the segment can be asked without reading earlier ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ledto.causality.skeleton import NO_ROWS, Ints, Longs, Skeleton, ints, longs
from ledto.causality.sparse_vectors import Vectors


@dataclass(frozen=True, slots=True, eq=False)
class Boundary:
    """The state of a computation at a consistent cut, where one of its segments begins.

    Arrays are converted and checked as those of `Skeleton` are; the values of vectors are not checked.
    """

    before: Longs
    """int64[P]: events of each process before the segment."""
    known: Vectors
    """P vectors: that of p's last event before the segment. All zero if p has none, or has no event in the segment."""
    edge_row: Longs
    """int64[k]: rows of the segment with a cause before it, ascending; a row with several comes several times."""
    edge_send: Longs
    """int64[k]: the number of that cause among the sends below."""
    send_position: Longs
    """int64[u]: positions of those causes in the history, ascending."""
    send_process: Ints
    """int32[u]: their processes."""
    send_index: Longs
    """int64[u]: their numbers within their processes, from 1."""
    send_known: Vectors
    """u vectors: those of the sends."""

    def __post_init__(self) -> None:
        for name in ("before", "edge_row", "edge_send", "send_position", "send_index"):
            object.__setattr__(self, name, longs(getattr(self, name)))
        object.__setattr__(self, "send_process", ints(self.send_process))
        processes, sends = len(self.before), len(self.send_position)
        shapes = {
            "known": (len(self.known), processes),
            "edge_send": (self.edge_send.shape, self.edge_row.shape),
            "send_process": (self.send_process.shape, (sends,)),
            "send_index": (self.send_index.shape, (sends,)),
            "send_known": (len(self.send_known), sends),
        }
        for name, (shape, expected) in shapes.items():
            if shape != expected:
                raise ValueError(
                    f"{name} of a boundary of {processes} processes and {sends} sends has {shape} entries, not {expected}"
                )
        for vectors in (self.known, self.send_known):
            if vectors.process.max(initial=-1) >= processes:
                raise ValueError(f"a vector names process {vectors.process.max()}; the boundary has {processes}")
        if len(self.edge_row) and (
            self.edge_row[0] < 0
            or (np.diff(self.edge_row) < 0).any()
            or self.edge_send.min() < 0
            or self.edge_send.max() >= sends
        ):
            raise ValueError(f"edge_row ascends from 0 or more, and edge_send names one of {sends} sends")
        if sends and (
            (np.diff(self.send_position) <= 0).any()
            or self.send_process.min() < 0
            or self.send_process.max() >= processes
        ):
            raise ValueError(f"send_position ascends strictly, and send_process is one of {processes}")

    @classmethod
    def empty(cls, processes: int) -> Self:
        """Make the boundary of a first segment: nothing is before it."""
        nothing = np.empty(0, np.int32)
        return cls(
            np.zeros(processes, np.int64),
            Vectors.empty(processes),
            NO_ROWS,
            NO_ROWS,
            NO_ROWS,
            nothing,
            NO_ROWS,
            Vectors.empty(),
        )

    @property
    def processes(self) -> int:
        """P, the number of processes."""
        return len(self.before)

    @property
    def starts(self) -> bool:
        """Whether nothing is before the segment."""
        return not self.before.any()

    def edges(self, start: int, stop: int) -> tuple[Longs, Longs]:
        """Give the causes before the segment of its rows ``start <= row < stop``: rows, counted from `start`; positions."""
        first, last = np.searchsorted(self.edge_row, [start, stop])
        return self.edge_row[first:last] - start, self.send_position[self.edge_send[first:last]]

    def check(self, skeleton: Skeleton) -> None:
        """Raise `ValueError` unless this can be the boundary of that whole segment."""
        if skeleton.highest_process >= self.processes:
            raise ValueError(f"the segment has process {skeleton.highest_process}; its boundary, {self.processes}")
        if skeleton.reach_below:
            raise ValueError(
                f"causes reach {skeleton.reach_below} rows before the first: give the whole segment, not a part of it"
            )
        unknown = (self.before > 0) & (self.known.lengths == 0)
        if unknown.any() and unknown[skeleton.process].any():
            process = skeleton.process[unknown[skeleton.process].argmax()]
            raise ValueError(
                f"process {process} has {self.before[process]} events before the segment and more in it, and the boundary "
                "does not say what it knew"
            )
        if len(self.edge_row) and self.edge_row[-1] >= len(skeleton):
            raise ValueError(f"row {self.edge_row[-1]} has a cause before the segment, which has {len(skeleton)} rows")
