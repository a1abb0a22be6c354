"""Vector clocks from a skeleton: of the rows asked for, or of the boundaries between segments.

The vector of an event counts, for each process, its events in the past of that event, which is in its own past.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whence.causality.boundary import Boundary
from whence.causality.forward import Forward, State
from whence.causality.skeleton import Ints, Longs, Skeleton, longs

_HELD = ("_position", "_process", "_index", "_known")
"""The arrays of a scan with an entry a send that it holds."""


def vector_clocks(skeleton: Skeleton, boundary: Boundary) -> Ints:
    """The vectors of all rows of a segment, int32[n, P]: for small segments.

    Raises `OverflowError` when a process has more events than 32 bits count.
    """
    return clock_rows(skeleton, boundary, np.arange(len(skeleton), dtype=np.int64))


def clock_rows(skeleton: Skeleton, boundary: Boundary, rows: ArrayLike) -> Ints:
    """The vectors of these rows of a segment, int32[len(rows), P], in one pass up to the last of them."""
    boundary.check(skeleton)
    asked = longs(rows)
    wanted, places = np.unique(asked, return_inverse=True)
    if len(wanted) and not (wanted[0] >= 0 and wanted[-1] < len(skeleton)):
        raise ValueError(f"rows {wanted[0]} to {wanted[-1]} are asked for; the segment has {len(skeleton)}")
    out = np.empty((len(wanted), boundary.processes), np.int32)
    state = State(
        boundary.before.copy(), np.array(boundary.known, order="C"), np.arange(boundary.processes, dtype=np.int32)
    )
    edges = (boundary.edge_row, boundary.edge_send, boundary.send_known)
    Forward().run(skeleton, state, edges, wanted, out, to_the_end=False)
    return out if np.array_equal(asked, wanted) else out[places]


class Scan:
    """Goes over the segments of one computation, in order, and gives the boundary at the start of each.

    All segments number the processes alike. Memory is P * P numbers, a vector a message in flight, and a vector for each
    send that was announced as needed later and not released.
    """

    def __init__(self, processes: int) -> None:
        self._state = State(
            np.zeros(processes, np.int64),
            _nothing_known(processes),
            np.arange(processes, dtype=np.int32),
        )
        self._forward = Forward()
        self._end = 0
        self._kept = 0
        self._position = np.empty(0, np.int64)
        self._process = np.empty(0, np.int32)
        self._index = np.empty(0, np.int64)
        self._known = np.empty((0, processes), np.int32)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All that a scan is between two segments, to be stored; `from_arrays` goes on from it."""
        known = {"known": self._state.known} if self._state.count.any() else {}
        held = {name: getattr(self, name)[: self._kept] for name in _HELD}
        return {"count": self._state.count, "end": np.array([self._end]), **known, **held}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The scan that these are of. Raises `KeyError` or `ValueError` where they are of none."""
        count, (end,) = arrays["count"], arrays["end"].tolist()
        found = cls(len(count))
        if "known" in arrays:
            found._state = State(count, arrays["known"], np.arange(len(count), dtype=np.int32))
        for name in _HELD:
            setattr(found, name, arrays[name])
        found._end, found._kept = end, len(found._position)
        return found

    def grow(self, processes: int) -> None:
        """Make room for processes that had no event so far; those there keep their numbers."""
        more = processes - len(self._state.count)
        if not more:
            return
        self._state = State(
            np.pad(self._state.count, (0, more)),
            np.pad(self._state.known, (0, more)) if self._state.count.any() else _nothing_known(processes),
            np.arange(processes, dtype=np.int32),
        )
        self._known = np.pad(self._known, ((0, 0), (0, more)))

    def hold(self, position: int, process: int, index: int, known: ArrayLike) -> None:
        """Take up an event of an earlier segment, by its vector, as if it had been announced as needed later."""
        place = int(np.searchsorted(self._position[: self._kept], position))
        if place < self._kept and self._position[place] == position:
            return
        self._make_room(1)
        for held in (self._position, self._process, self._index, self._known):
            held[place + 1 : self._kept + 1] = held[place : self._kept].copy()
        self._position[place], self._process[place], self._index[place] = position, process, index
        self._known[place] = known
        self._kept += 1

    def hold_last(self, process: int, position: int) -> None:
        """Take up the last event of a process so far, which is at this position."""
        self.hold(position, process, int(self._state.count[process]), self._state.known[process])

    def boundary(self, edge_row: ArrayLike, edge_position: ArrayLike) -> Boundary:
        """The boundary of a segment that would come next, as `segment` gives it, without passing over it."""
        return self._boundary(longs(edge_row), longs(edge_position))

    def keep_only(self, positions: ArrayLike) -> None:
        """Let go of all sends but these."""
        self.release(np.setdiff1d(self._position[: self._kept], longs(positions)))

    @property
    def sends_kept(self) -> int:
        """Sends held for later segments."""
        return self._kept

    def segment(
        self,
        skeleton: Skeleton,
        first_position: int,
        edge_row: ArrayLike,
        edge_position: ArrayLike,
        needed_later: ArrayLike,
    ) -> Boundary:
        """The boundary at the start of this segment, over which the scan then passes.

        `edge_row` and `edge_position` are the rows of the segment with causes before it, ascending, and the positions
        of those causes. `needed_later` are the positions of rows of this segment that are causes in later ones.

        Raises `ValueError` when a cause was not announced as needed later, or was released; when the segment is not
        after the last one; and `OverflowError` when a process has more events than 32 bits count. The scan is then as
        it was.
        """
        if first_position < self._end:
            raise ValueError(
                f"segments come in order: this one starts at {first_position}, the last ended at {self._end}"
            )
        boundary = self._boundary(longs(edge_row), longs(edge_position))
        boundary.check(skeleton)
        needed = np.unique(longs(needed_later)) - first_position
        if len(needed) and not (needed[0] >= 0 and needed[-1] < len(skeleton)):
            raise ValueError(
                f"positions {needed[0] + first_position} to {needed[-1] + first_position} are needed later; the segment "
                f"has {first_position} to {first_position + len(skeleton) - 1}"
            )
        self._make_room(len(needed))
        added = slice(self._kept, self._kept + len(needed))
        edges = (boundary.edge_row, boundary.edge_send, boundary.send_known)
        if len(skeleton):
            if not self._state.known.flags.writeable:
                self._state = State(self._state.count, np.array(self._state.known), self._state.column)
            self._forward.run(skeleton, self._state, edges, needed, self._known[added], to_the_end=True)
        self._position[added] = needed + first_position
        self._process[added] = skeleton.process[needed]
        self._index[added] = self._known[added][np.arange(len(needed)), skeleton.process[needed]]
        self._kept += len(needed)
        self._end = first_position + len(skeleton)
        return boundary

    def release(self, positions: ArrayLike) -> None:
        """Let go of sends that no further segment needs; positions that are not held are passed over."""
        stay = np.flatnonzero(~np.isin(self._position[: self._kept], longs(positions)))
        for held in (self._position, self._process, self._index, self._known):
            held[: len(stay)] = held[stay]
        self._kept = len(stay)

    def _boundary(self, edge_row: Longs, edge_position: Longs) -> Boundary:
        sends, edge_send = np.unique(edge_position, return_inverse=True)
        held = self._position[: self._kept]
        places = np.searchsorted(held, sends)
        found = np.zeros(len(sends), np.bool_)
        inside = places < self._kept
        found[inside] = held[places[inside]] == sends[inside]
        if not found.all():
            missing = sends[~found]
            raise ValueError(
                f"{len(missing)} causes from before the segment are not held, the first at position {missing[0]}: "
                "announce them in needed_later with their own segment, and release none that is needed"
            )
        return Boundary(
            self._state.count.copy(),
            self._state.known.copy() if self._state.count.any() else self._state.known,
            edge_row,
            edge_send,
            sends,
            self._process[places],
            self._index[places],
            self._known[places],
        )

    def _make_room(self, more: int) -> None:
        if self._kept + more <= len(self._position):
            return
        room = max(2 * len(self._position), self._kept + more)
        for name in ("_position", "_process", "_index", "_known"):
            held = getattr(self, name)
            larger = np.empty((room, *held.shape[1:]), held.dtype)
            larger[: self._kept] = held[: self._kept]
            setattr(self, name, larger)


def _nothing_known(processes: int) -> Ints:
    """What processes know of each other before their first events; takes no memory, however many they are."""
    return np.broadcast_to(np.zeros((), np.int32), (processes, processes))
