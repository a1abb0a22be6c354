"""A cut of a computation, given by how many events of each process are inside, and what is in flight across it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledto.causality.boundary import Boundary
from ledto.causality.skeleton import Ints, Longs, Skeleton, longs
from ledto.kernels import kernel


def messages_in_flight(
    skeleton: Skeleton, boundary: Boundary, first_position: int, inside: ArrayLike
) -> tuple[Longs, Longs]:
    """Messages sent inside the cut and received outside, by a row of this segment: positions of sends and of receives.

    `inside` counts the events of each process within the cut, over the whole computation; any vector clock is one. They
    are ordered by receive, and those of one receive by send. A segment all of whose rows are inside has none; all later
    ones may have some.
    """
    boundary.check(skeleton)
    limits = longs(inside)
    if limits.shape != boundary.before.shape:
        raise ValueError(f"a cut counts the events of each of {boundary.processes} processes, not {limits.shape}")
    rows_inside = _rows_inside(skeleton.process, boundary.before, limits)
    effects = np.repeat(np.arange(len(skeleton), dtype=np.int64), np.diff(skeleton.offsets))
    causes = effects - skeleton.back
    within = np.flatnonzero(rows_inside[causes] & ~rows_inside[effects])
    sent_inside = boundary.send_index <= limits[boundary.send_process]
    across = np.flatnonzero(sent_inside[boundary.edge_send] & ~rows_inside[boundary.edge_row])
    sends = np.concatenate([causes[within] + first_position, boundary.send_position[boundary.edge_send[across]]])
    receives = np.concatenate([effects[within], boundary.edge_row[across]]) + first_position
    order = np.lexsort((sends, receives))
    return sends[order], receives[order]


@kernel("boolean[::1](int32[::1], int64[::1], int64[::1])")
def _rows_inside(process: Ints, before: Longs, limits: Longs) -> NDArray[np.bool_]:
    """Whether each row is inside the cut."""
    left = limits - before
    inside = np.empty(len(process), np.bool_)
    for row in range(len(process)):
        left[process[row]] -= 1
        inside[row] = left[process[row]] >= 0
    return inside
