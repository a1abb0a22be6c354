"""Which events may have causes that nobody knows of: those that are, or come after, one before which a report is missing.

A report that is missing shows in the event that comes after it: a number is left out before it, or it names a cause that
nobody reported. Such an event is a *hole*. Whatever the missing report was, it could have been the effect of anything; so
nothing can be said to be concurrent with an event that has a hole in its past. Along a process this never ends, so the
number of its first such event says it all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ledto.causality.boundary import Boundary
from ledto.causality.skeleton import Ints, Longs, Skeleton
from ledto.kernels import kernel

NEVER = int(np.iinfo(np.int64).max)
"""In place of a number, for a process without such an event."""


def spread_taint(skeleton: Skeleton, boundary: Boundary, holes: Longs, first_tainted: Longs) -> Longs:
    """Give, by process, the number of its first tainted event, with those of one more segment.

    `holes` are rows of the segment; `first_tainted` is what earlier segments gave. Events are numbered from 1 within their
    process, over the whole computation.
    """
    found = first_tainted.copy()
    is_hole = np.zeros(len(skeleton), np.bool_)
    is_hole[holes] = True
    if not len(holes) and not (found != NEVER).any():
        return found
    send = boundary.edge_send
    from_before = boundary.send_index[send] >= found[boundary.send_process[send]]
    _spread(
        skeleton.process, skeleton.offsets, skeleton.back, boundary.before.astype(np.int64), is_hole,
        np.ascontiguousarray(boundary.edge_row[from_before], np.int64), found,
    )  # fmt: skip
    return found


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
    """``reached_row``, ascending, are the rows with a tainted cause before the segment."""
    number = before.copy()
    tainted = np.zeros(len(process), np.bool_)
    edge = 0
    for row in range(len(process)):
        own = process[row]
        number[own] += 1
        is_so = is_hole[row] or number[own] >= first_tainted[own]
        for entry in range(offsets[row], offsets[row + 1]):
            is_so |= tainted[row - back[entry]]
        while edge < len(reached_row) and reached_row[edge] == row:
            is_so = True
            edge += 1
        tainted[row] = is_so
        if is_so and number[own] < first_tainted[own]:
            first_tainted[own] = number[own]
