"""Arrivals that go on when the clock that stamps them is set back.

A stream waits by its own time, which is that of the last arrival. If the broker's host sets its clock back by an hour, that
time must not stand still for an hour: nothing would be delivered. So it goes on at half the pace of the arrivals until they
have caught up with it. Arrivals that ascend stay as they are, and those that are a little behind are raised to those before.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

SET_BACK_NS = 10_000_000_000
"""An arrival so far before an earlier one was stamped by a clock that was set back."""
LONGEST_PAUSE_NS = 30_000_000_000
"""What one arrival moves the stream's time by, at most, while they are behind it: more is a clock that is set right."""


def keep_going(arrival: Longs, *, before: int | None, now: int) -> Longs:
    """Give each report an arrival that is never before `now` nor before the report ahead of it.

    `before` is the last arrival that was stamped before these; None if it is not known. However a stream is cut, with
    `before` and `now` passed on, it gets the same arrivals.
    """
    ascending = np.maximum.accumulate(np.maximum(arrival, now))
    behind = ascending - arrival > SET_BACK_NS
    if not behind.any():
        return np.asarray(ascending, np.int64)
    raised, last, stamped = ascending.copy(), now, before
    for row, own in enumerate(arrival.tolist()):
        pause = 0 if stamped is None else min(max(own - stamped, 0) // 2, LONGEST_PAUSE_NS)
        last = max(own, last + (pause if last - own > SET_BACK_NS else 0))
        raised[row], stamped = last, own
    return raised
