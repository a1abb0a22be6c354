"""Vector clocks of all rows of a segment, a stretch at a time: the numbers of one stretch are in memory, not of all.

The rows are passed over once. A stretch begins with what each process knows by then, and with the vectors of earlier sends
that are still to be received.
"""

from __future__ import annotations

import numpy as np

from whence.causality.boundary import Boundary
from whence.causality.forward import Forward, State
from whence.causality.skeleton import Ints, Longs, Skeleton


class Stamping:
    """Goes over the rows of one segment, in order."""

    def __init__(self, skeleton: Skeleton, boundary: Boundary, edges: tuple[Longs, Longs], column: Ints) -> None:
        """`edges` are the rows with causes before the segment, ascending, and which send of the boundary each has.

        `column` says where in vectors each process has its entry; processes that never meet may share one. It is the
        process itself where something is known before the segment.
        """
        self._skeleton = skeleton
        self._edges = edges
        self._sends = boundary.send_known
        width = int(column.max(initial=-1)) + 1
        known = boundary.known.dense(width)
        self._state = State(boundary.before.copy(), known, column)
        self._forward = Forward()
        self._last_use = np.full(len(skeleton), -1, np.int64)
        effects = np.repeat(np.arange(len(skeleton), dtype=np.int64), np.diff(skeleton.offsets))
        np.maximum.at(self._last_use, skeleton.cause_rows(), effects)
        self._kept = np.empty(0, np.int64)
        self._kept_known = np.empty((0, width), np.int32)

    def vectors(self, start: int, stop: int, chosen: Longs) -> Ints:
        """The vectors of the chosen rows, which ascend, of rows ``start <= row < stop``, which follow those before."""
        part = self._skeleton.part(start, stop)
        cause = part.cause_rows()
        effect = np.repeat(np.arange(stop - start, dtype=np.int64), np.diff(part.offsets))
        inside = cause >= 0
        counts = np.bincount(effect[inside], minlength=stop - start)
        within = Skeleton(part.process, np.concatenate(([0], np.cumsum(counts))), part.back[inside])
        needed = start + np.flatnonzero(self._last_use[start:stop] >= stop)
        wanted = np.union1d(chosen, needed)
        found = np.empty((len(wanted), self._state.known.shape[1]), np.int32)
        edges = self._edges_into(start, stop, effect[~inside], start + cause[~inside])
        self._forward.run(within, self._state, edges, wanted - start, found, to_the_end=True)
        stay = self._last_use[self._kept] >= stop
        self._kept = np.concatenate((self._kept[stay], needed))
        self._kept_known = np.concatenate((self._kept_known[stay], found[np.searchsorted(wanted, needed)]))
        return found if len(wanted) == len(chosen) else found[np.searchsorted(wanted, chosen)]

    def _edges_into(self, start: int, stop: int, effect: Longs, cause: Longs) -> tuple[Longs, Longs, Ints]:
        """The causes of a stretch before it: rows of the stretch, which of the vectors each has, and the vectors."""
        first, last = np.searchsorted(self._edges[0], [start, stop])
        sends, place = np.unique(self._edges[1][first:last], return_inverse=True)
        rows = np.concatenate((effect, self._edges[0][first:last] - start))
        vectors = np.concatenate((np.searchsorted(self._kept, cause), len(self._kept) + place))
        order = np.argsort(rows, kind="stable")
        known = np.ascontiguousarray(
            np.concatenate((self._kept_known, self._sends.take(sends).dense(self._kept_known.shape[1])))
        )
        return rows[order], vectors[order].astype(np.int64), known
