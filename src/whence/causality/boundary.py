"""What must be known at the start of a segment to answer questions about it without reading what came before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from whence.causality.skeleton import NO_ROWS, Ints, Longs, Skeleton, ints, longs


@dataclass(frozen=True, slots=True, eq=False)
class Boundary:
    """The state of a computation at a consistent cut, where one of its segments starts.

    Arrays are accepted and kept as those of `Skeleton` are. Checked when made, apart from the vectors' values.
    """

    before: Longs
    """int64[P]: events of each process before the segment."""
    known: Ints
    """int32[P, P]: ``known[p, q]`` events of q are in the past of p's last event before the segment, which counts among
    its own; 0 where p has none."""
    edge_row: Longs
    """int64[k]: rows of the segment that have a cause before it, ascending; a row with several comes several times."""
    edge_send: Longs
    """int64[k]: which of the sends below that cause is."""
    send_position: Longs
    """int64[u]: positions of those causes in the whole history, ascending."""
    send_process: Ints
    """int32[u]: their processes."""
    send_index: Longs
    """int64[u]: their numbers within their processes, from 1."""
    send_known: Ints
    """int32[u, P]: their vectors, themselves included."""

    def __post_init__(self) -> None:
        for name in ("before", "edge_row", "edge_send", "send_position", "send_index"):
            object.__setattr__(self, name, longs(getattr(self, name)))
        for name in ("send_process", "send_known"):
            object.__setattr__(self, name, ints(getattr(self, name)))
        # Not made contiguous: at a computation's start it is one zero, seen P * P times.
        known = np.asarray(self.known)
        object.__setattr__(self, "known", known if known.dtype == np.int32 else ints(known))
        processes, sends = len(self.before), len(self.send_position)
        shapes = {
            "known": (self.known.shape, (processes, processes)),
            "edge_send": (self.edge_send.shape, self.edge_row.shape),
            "send_process": (self.send_process.shape, (sends,)),
            "send_index": (self.send_index.shape, (sends,)),
            "send_known": (self.send_known.shape, (sends, processes)),
        }
        for name, (found, expected) in shapes.items():
            if found != expected:
                raise ValueError(f"{name} of a boundary of {processes} processes and {sends} sends is {found}")
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
        """Where computations start: nothing is before. Takes no memory for `known`, however many processes."""
        return cls(
            np.zeros(processes, np.int64),
            np.broadcast_to(np.zeros((), np.int32), (processes, processes)),
            NO_ROWS,
            NO_ROWS,
            NO_ROWS,
            np.empty(0, np.int32),
            NO_ROWS,
            np.empty((0, processes), np.int32),
        )

    @property
    def processes(self) -> int:
        """P."""
        return len(self.before)

    @property
    def starts(self) -> bool:
        """Whether nothing is before the segment."""
        return not self.before.any()

    def edges(self, start: int, stop: int) -> tuple[Longs, Longs]:
        """The causes before the segment of its rows ``start <= row < stop``: rows counted from `start`, positions."""
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
        if len(self.edge_row) and self.edge_row[-1] >= len(skeleton):
            raise ValueError(f"row {self.edge_row[-1]} has a cause before the segment, which has {len(skeleton)} rows")
