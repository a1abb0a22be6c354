"""Orders that need no observer, to compare deliveries with.

| ordering | sorts by |
|---|---|
| `arrival` | the observer's clock at arrival: no reordering |
| `wall-clock` | r, the sender's physical clock |
| `largest-clock` | r + c, the largest clock reading in the causal past: a hybrid logical clock without its counter |

Each ends with process and seq, so that it is total. None waits: they are what a sort of the stored table gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from whence.events.columns import Ints, Reports

Longs = NDArray[np.int64]


def arrival_order(reports: Reports) -> Longs:
    """Rows as they came in."""
    return np.lexsort((reports.seq, reports.process, reports.arrival))


def wall_clock_order(reports: Reports) -> Longs:
    """Rows by their senders' physical clocks."""
    return np.lexsort((reports.seq, reports.process, reports.r))


def largest_clock_order(reports: Reports) -> Longs:
    """Rows by the largest clock reading their senders knew of."""
    return np.lexsort((reports.seq, reports.process, reports.r + reports.c.astype(np.int64)))


def hybrid_order(wall: Ints, logical: Ints, process: Ints, seq: Ints) -> Longs:
    """Rows by their hybrid logical clocks; causes come before effects."""
    return np.lexsort((seq, process, logical, wall))


ORDERINGS: Mapping[str, Callable[[Reports], Longs]] = MappingProxyType(
    {"arrival": arrival_order, "wall-clock": wall_clock_order, "largest-clock": largest_clock_order}
)
