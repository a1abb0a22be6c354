"""Compute vector clocks from a skeleton: of chosen rows, or for the boundaries between segments.

The vector of an event counts, for each process, its events in the past of that event, the event itself included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledto.causality.boundary import Boundary
from ledto.causality.column_blocks import Grouped
from ledto.causality.forward import ForwardPass
from ledto.causality.skeleton import Ints, Longs, Skeleton, longs
from ledto.causality.sparse_vectors import Vectors

MOST_ENTRIES = 400_000_000
"""The most entries of vectors that are held at a time, 8 bytes each."""


class TooManyEntries(ValueError):
    """Processes know so much of each other that their vectors do not fit in memory."""


_HELD = ("position", "process", "index")
"""The arrays of a scan with one entry for each send that it holds."""
_VECTORS = ("known", "sends")
"""The vectors of a scan: of processes, and of the sends that it holds."""


def vector_clocks(skeleton: Skeleton, boundary: Boundary) -> Ints:
    """Compute the vectors of all rows of a small segment, int32[n, P].

    Raises `OverflowError` if a process has more events than 32 bits count.
    """
    return clock_rows(skeleton, boundary, np.arange(len(skeleton), dtype=np.int64)).dense(boundary.processes)


def clock_rows(skeleton: Skeleton, boundary: Boundary, rows: ArrayLike) -> Vectors:
    """Compute the vectors of these rows of a segment.

    Raises `OverflowError` if a process has more events than 32 bits count, and `TooManyEntries`.
    """
    boundary.check(skeleton)
    asked = longs(rows)
    wanted, places = np.unique(asked, return_inverse=True)
    if len(wanted) and not (wanted[0] >= 0 and wanted[-1] < len(skeleton)):
        raise ValueError(f"rows {wanted[0]} to {wanted[-1]} are asked for; the segment has {len(skeleton)}")
    vectors = _vectors(skeleton, boundary, wanted)
    return vectors if np.array_equal(asked, wanted) else vectors.take(places)


def _vectors(skeleton: Skeleton, boundary: Boundary, wanted: Longs) -> Vectors:
    """Compute the vectors of rows that ascend, each once."""
    if not len(wanted):
        return Vectors.empty()
    grouped = Grouped(skeleton, boundary, int(wanted[-1]) + 1)
    group = grouped.group[grouped.number_of(skeleton.process[wanted])]
    forward = ForwardPass()
    row, process, count = [np.empty(0, np.int64)], [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    entries = 0
    for block in grouped.blocks(len(wanted)):
        in_block = np.flatnonzero(grouped.width_of(group) > block.first)
        out = np.empty((len(in_block), block.columns + 1), np.int32)
        at = np.searchsorted(block.rows, wanted[in_block])
        forward.run(block.skeleton, block.state, block.edges, at, out, to_the_end=False)
        place, column = np.nonzero(out[:, : block.columns])
        entries += len(place)
        if entries > MOST_ENTRIES:
            raise TooManyEntries(f"the vectors of {len(wanted):,} events have more than {MOST_ENTRIES:,} entries")
        row.append(in_block[place])
        process.append(grouped.process_of(group[row[-1]], block.first + column))
        count.append(out[place, column])
    return Vectors.collected(len(wanted), np.concatenate(row), np.concatenate(process), np.concatenate(count))


class Scan:
    """A walk over the segments of one computation, in order, that computes the boundary of each.

    All segments use the same numbers for processes. Memory is the vector of each process that has not ended; of each send
    that is needed later and not released; and a block of columns of one segment at a time.
    """

    def __init__(self, processes: int) -> None:
        self._count = np.zeros(processes, np.int64)
        self._known = Vectors.empty(processes)
        self._end = 0
        self._position = np.empty(0, np.int64)
        self._process = np.empty(0, np.int32)
        self._index = np.empty(0, np.int64)
        self._sends = Vectors.empty()

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Give the state between two segments, to be stored; `from_arrays` goes on from it."""
        arrays: dict[str, NDArray[Any]] = {"count": self._count, "end": np.array([self._end])}
        arrays |= {name: getattr(self, f"_{name}") for name in _HELD}
        for which in _VECTORS:
            vectors: Vectors = getattr(self, f"_{which}")
            arrays |= {f"{which}_{part}": getattr(vectors, part) for part in ("offsets", "process", "count")}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Make the scan that `to_arrays` stored. Raises `KeyError` or `ValueError` if the arrays are damaged."""
        count, (end,) = arrays["count"], arrays["end"].tolist()
        scan = cls(len(count))
        scan._count, scan._end = count, end
        for name in _HELD:
            setattr(scan, f"_{name}", arrays[name])
        for which in _VECTORS:
            parts = (arrays[f"{which}_{part}"] for part in ("offsets", "process", "count"))
            setattr(scan, f"_{which}", Vectors(*parts))
        if len(scan._known) != len(count) or len(scan._sends) != len(scan._position):
            raise ValueError(
                f"a scan of {len(count)} processes and {len(scan._position)} sends has {len(scan._known)} and "
                f"{len(scan._sends)} vectors"
            )
        return scan

    def grow(self, processes: int) -> None:
        """Make room for new processes; the others keep their numbers."""
        more = processes - len(self._count)
        if more:
            self._count = np.pad(self._count, (0, more))
            self._known = self._known.followed_by(Vectors.empty(more))

    def hold(self, position: int, process: int, index: int, known: Vectors) -> None:
        """Hold an event of an earlier segment, with its vector, as if it had been announced as needed later."""
        if position not in self._position:
            self._hold(np.array([position]), np.array([process], np.int32), np.array([index]), known)

    def hold_last(self, process: int, position: int) -> None:
        """Hold the last event so far of a process, which is at this position."""
        self.hold(position, process, int(self._count[process]), self._known.take([process]))

    def boundary(self, skeleton: Skeleton, edge_row: ArrayLike, edge_position: ArrayLike) -> Boundary:
        """Compute the boundary of the next segment, as `segment` does, but do not go over it."""
        sends, edge_send = np.unique(longs(edge_position), return_inverse=True)
        is_held = np.isin(sends, self._position)
        if not is_held.all():
            missing = sends[~is_held]
            raise ValueError(
                f"{len(missing)} causes from before the segment are not held, the first at position {missing[0]}: "
                "announce them in needed_later with their own segment, and release none that is needed"
            )
        places = np.searchsorted(self._position, sends)
        boundary = Boundary(
            self._count.copy(),
            self._known.only(_present(skeleton, len(self._count))),
            longs(edge_row),
            edge_send,
            sends,
            self._process[places],
            self._index[places],
            self._sends.take(places),
        )
        boundary.check(skeleton)
        return boundary

    def keep_only(self, positions: ArrayLike) -> None:
        """Release all sends but these."""
        self._keep(np.isin(self._position, longs(positions)))

    def segment(
        self,
        skeleton: Skeleton,
        first_position: int,
        edge_row: ArrayLike,
        edge_position: ArrayLike,
        needed_later: ArrayLike,
        ended: ArrayLike = (),
    ) -> Boundary:
        """Compute the boundary of the next segment, and go over the segment.

        `edge_row` and `edge_position`: rows of the segment with causes before it, ascending, and the positions of those
        causes. `needed_later`: positions of rows of this segment that are causes in later ones. `ended`: processes without
        events in later segments; their vectors are dropped, not what others know of them.

        Raises `ValueError` if a cause was not announced as needed later, or was released; if the segment is not after the
        last one, or has an event of a process that had ended; `OverflowError` if a process has more events than 32 bits
        count; and `TooManyEntries`. The scan is then unchanged.
        """
        if first_position < self._end:
            raise ValueError(
                f"segments come in order: this one starts at {first_position}, the last ended at {self._end}"
            )
        boundary = self.boundary(skeleton, edge_row, edge_position)
        needed = np.unique(longs(needed_later)) - first_position
        if len(needed) and not (needed[0] >= 0 and needed[-1] < len(skeleton)):
            raise ValueError(
                f"positions {needed[0] + first_position} to {needed[-1] + first_position} are needed later; the segment "
                f"has {first_position} to {first_position + len(skeleton) - 1}"
            )
        present = _present(skeleton, len(self._count))
        last = np.zeros(len(self._count), np.int64)
        last[skeleton.process] = np.arange(len(skeleton))
        going_on = np.ones(len(self._count), np.bool_)
        going_on[longs(ended)] = False
        stay = present[going_on[present]]
        wanted = np.union1d(last[stay], needed)
        vectors = _vectors(skeleton, boundary, wanted)
        known = self._known.replaced(stay, vectors.take(np.searchsorted(wanted, last[stay])))
        self._known = known if going_on.all() else known.only(np.flatnonzero(going_on))
        self._count += np.bincount(skeleton.process, minlength=len(self._count))
        held = vectors.take(np.searchsorted(wanted, needed))
        process = skeleton.process[needed]
        index = held.count[held.process == np.repeat(process, held.lengths)]
        self._hold(needed + first_position, process, index, held)
        self._end = first_position + len(skeleton)
        return boundary

    def release(self, positions: ArrayLike) -> None:
        """Release sends that no further segment needs; positions that are not held are ignored."""
        self._keep(~np.isin(self._position, longs(positions)))

    def _hold(self, position: Longs, process: Ints, index: Any, known: Vectors) -> None:
        order = np.argsort(np.concatenate((self._position, position)), kind="stable")
        self._position = np.concatenate((self._position, position))[order]
        self._process = np.concatenate((self._process, process))[order]
        self._index = np.concatenate((self._index, index)).astype(np.int64)[order]
        self._sends = self._sends.followed_by(known).take(order)

    def _keep(self, stay: Any) -> None:
        self._position, self._process, self._index = self._position[stay], self._process[stay], self._index[stay]
        self._sends = self._sends.take(np.flatnonzero(stay))


def _present(skeleton: Skeleton, processes: int) -> Longs:
    """List the processes that have rows, ascending."""
    has_rows = np.zeros(max(processes, skeleton.highest_process + 1), np.bool_)
    has_rows[skeleton.process] = True
    return np.flatnonzero(has_rows[:processes])
