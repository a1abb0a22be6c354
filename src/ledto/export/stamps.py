"""Compute the vector clocks of a segment's rows, one stretch at a time, so that only one stretch of them is in memory.

Each row is computed once. A stretch begins with what each process knows there, and with the vectors of earlier sends
that later rows receive.
"""

from __future__ import annotations

import numpy as np

from ledto.causality.boundary import Boundary
from ledto.causality.forward import ForwardPass, ForwardState
from ledto.causality.skeleton import Ints, Longs, Skeleton


class VectorPass:
    """A pass over the rows of one segment, in order."""

    def __init__(self, skeleton: Skeleton, boundary: Boundary, edges: tuple[Longs, Longs], column: Ints) -> None:
        """Start before the first row.

        `edges` are the rows with causes before the segment, ascending, and for each the number of its send in the
        boundary. `column`: each process's entry in vectors. Processes that never meet may share one, but only in a
        segment with an empty boundary.
        """
        self._skeleton = skeleton
        self._edges = edges
        self._sends = boundary.send_known
        width = int(column.max(initial=-1)) + 1
        known = boundary.known.dense(width)
        self._state = ForwardState(boundary.before.copy(), known, column)
        self._forward = ForwardPass()
        self._last_use = np.full(len(skeleton), -1, np.int64)
        effects = np.repeat(np.arange(len(skeleton), dtype=np.int64), np.diff(skeleton.offsets))
        np.maximum.at(self._last_use, skeleton.cause_rows(), effects)
        self._kept = np.empty(0, np.int64)
        self._kept_known = np.empty((0, width), np.int32)

    def vectors(self, start: int, stop: int, chosen: Longs) -> Ints:
        """Compute the rows ``start <= row < stop``; return the vectors of the chosen ones, which ascend.

        Call it for adjacent ranges of rows, from 0 on.
        """
        part = self._skeleton.part(start, stop)
        cause = part.cause_rows()
        effect = np.repeat(np.arange(stop - start, dtype=np.int64), np.diff(part.offsets))
        is_inside = cause >= 0
        counts = np.bincount(effect[is_inside], minlength=stop - start)
        within = Skeleton(part.process, np.concatenate(([0], np.cumsum(counts))), part.back[is_inside])
        needed_later = start + np.flatnonzero(self._last_use[start:stop] >= stop)
        wanted = np.union1d(chosen, needed_later)
        vectors = np.empty((len(wanted), self._state.known.shape[1]), np.int32)
        edges = self._find_edges_into(start, stop, effect[~is_inside], start + cause[~is_inside])
        self._forward.run(within, self._state, edges, wanted - start, vectors, to_the_end=True)
        is_used_later = self._last_use[self._kept] >= stop
        self._kept = np.concatenate((self._kept[is_used_later], needed_later))
        self._kept_known = np.concatenate(
            (self._kept_known[is_used_later], vectors[np.searchsorted(wanted, needed_later)])
        )
        return vectors if len(wanted) == len(chosen) else vectors[np.searchsorted(wanted, chosen)]

    def _find_edges_into(self, start: int, stop: int, effect: Longs, cause: Longs) -> tuple[Longs, Longs, Ints]:
        """Find the causes before a stretch: return the rows that have one, the number of its vector, and the vectors."""
        first, last = np.searchsorted(self._edges[0], [start, stop])
        sends, place = np.unique(self._edges[1][first:last], return_inverse=True)
        rows = np.concatenate((effect, self._edges[0][first:last] - start))
        vectors = np.concatenate((np.searchsorted(self._kept, cause), len(self._kept) + place))
        order = np.argsort(rows, kind="stable")
        known = np.ascontiguousarray(
            np.concatenate((self._kept_known, self._sends.take(sends).dense(self._kept_known.shape[1])))
        )
        return rows[order], vectors[order].astype(np.int64), known
