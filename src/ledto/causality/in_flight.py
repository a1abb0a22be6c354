"""Find the messages in flight across a cut: sent inside it and received outside.

A cut says how many events of each process are inside.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledto.causality.boundary import Boundary
from ledto.causality.skeleton import Ints, Longs, Skeleton, longs
from ledto.kernels import kernel


def messages_in_flight(
    skeleton: Skeleton, boundary: Boundary, first_position: int, inside: ArrayLike
) -> tuple[Longs, Longs]:
    """Find messages that a row of this segment receives outside the cut; return positions of sends and of receives.

    `inside` counts the events of each process within the cut, over the whole computation, as a vector clock does. The result
    is sorted by receive, then by send. A segment whose rows are all inside has none.
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
    """Tell for each row whether it is inside the cut."""
    remaining = limits - before
    inside = np.empty(len(process), np.bool_)
    for row in range(len(process)):
        remaining[process[row]] -= 1
        inside[row] = remaining[process[row]] >= 0
    return inside
