"""Arrivals that go on when the clock that stamps them is set back.

A stream waits by its own time, which is that of the last arrival. If the broker's host sets its clock back by an hour, that
time must not stand still for an hour: nothing would be delivered. So it goes on at half the pace of the arrivals until they
have caught up with it. Arrivals that ascend stay as they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

LONGEST_PAUSE_NS = 30_000_000_000
"""What one arrival moves the stream's time by, at most, while they are behind it: more is a clock that is set right."""


def keep_going(arrival: Longs, *, before: int | None, now: int) -> Longs:
    """Give each report an arrival that is never before `now` nor before the report ahead of it.

    `before` is the last arrival that was stamped before these; None if it is not known. However a stream is cut, with
    `before` and `now` passed on, it gets the same arrivals.
    """
    if not len(arrival):
        return arrival
    steps = np.diff(arrival, prepend=arrival[0] if before is None else before)
    pauses = np.cumsum(np.minimum(np.maximum(steps, 0) // 2, LONGEST_PAUSE_NS))
    return np.asarray(pauses + np.maximum.accumulate(np.maximum(arrival - pauses, now)), np.int64)
