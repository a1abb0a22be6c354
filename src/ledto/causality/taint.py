"""Find the events that may have unknown causes: those with a hole in their past.

A missing report shows in the event after it: a number is left out before it, or it names a cause that nobody reported. Such
an event is a *hole*. The missing event could have been the effect of anything, so nothing can be called concurrent with an
event that has a hole in its past: it is *tainted*. All later events of its process are tainted, too, so it is enough to keep
the number of each process's first tainted event.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ledto.causality.boundary import Boundary
from ledto.causality.skeleton import Ints, Longs, Skeleton
from ledto.kernels import kernel

NEVER = int(np.iinfo(np.int64).max)
"""In place of a number: the process has no tainted event."""


def spread_taint(skeleton: Skeleton, boundary: Boundary, holes: Longs, first_tainted: Longs) -> Longs:
    """Go over one more segment; return by process the number of the first tainted event so far.

    `holes` are rows of the segment. `first_tainted` is the result for the segments before. Events are numbered from 1 within
    their process, over the whole computation.
    """
    first_tainted = first_tainted.copy()
    is_hole = np.zeros(len(skeleton), np.bool_)
    is_hole[holes] = True
    if not len(holes) and not (first_tainted != NEVER).any():
        return first_tainted
    send = boundary.edge_send
    from_tainted = boundary.send_index[send] >= first_tainted[boundary.send_process[send]]
    _spread(
        skeleton.process, skeleton.offsets, skeleton.back, boundary.before.astype(np.int64), is_hole,
        np.ascontiguousarray(boundary.edge_row[from_tainted], np.int64), first_tainted,
    )  # fmt: skip
    return first_tainted


@kernel("void(int32[::1], int64[::1], int64[::1], int64[::1], boolean[::1], int64[::1], int64[::1])")
def _spread(
    process: Ints,
    offsets: Longs,
    back: Longs,
    before: Longs,
    is_hole: NDArray[np.bool_],
    reached_row: Longs,
    first_tainted: Longs,
) -> None:
    """Lower `first_tainted`. `reached_row`, ascending, are the rows with a tainted cause before the segment."""
    number = before.copy()
    tainted = np.zeros(len(process), np.bool_)
    edge = 0
    for row in range(len(process)):
        own = process[row]
        number[own] += 1
        tainted[row] = is_hole[row] or number[own] >= first_tainted[own]
        for entry in range(offsets[row], offsets[row + 1]):
            tainted[row] |= tainted[row - back[entry]]
        while edge < len(reached_row) and reached_row[edge] == row:
            tainted[row] = True
            edge += 1
        if tainted[row] and number[own] < first_tainted[own]:
            first_tainted[own] = number[own]
