"""Each report gets the date by which a stream orders it, from nothing but itself: its time, kept within reason.

A time is believed if its report took from ``-eps`` to ``delta``. One that took longer is *late*: it is dated ``arrival -
delta``, as if it had just been in time, because what comes before that is closed. One from a clock that is *ahead* by more
than eps is dated with its arrival. So the date of every report that is still to come is at least ``now - delta``, whatever
its clock says, and a clock that is far off moves nobody but itself.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledto.causality.order import NO_TIME
from ledto.history.window.columns import LARGEST_TIME

Longs = NDArray[np.int64]

DATED = "dated"
"""The column of dates."""


def dates(time: Longs, arrival: Longs, *, eps: int, delta: int) -> Longs:
    """The dates of reports; one without a time is dated with its arrival."""
    unknown = (time == NO_TIME) | (np.abs(time) > LARGEST_TIME)
    date = np.maximum(np.where(unknown, arrival, time), arrival - delta)
    found: Longs = np.where(date > arrival + eps, arrival, date)
    return found


def with_dates(rows: pa.Table, *, eps: int, delta: int) -> pa.Table:
    """The rows, all of which have an arrival, and their dates."""
    time = rows["time"].fill_null(NO_TIME).to_numpy()
    date = dates(time, rows["arrival"].to_numpy(), eps=eps, delta=delta)
    return rows.append_column(DATED, pa.array(date))
