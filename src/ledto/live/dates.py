"""Give each report the date by which a stream orders it. A date depends on the report alone.

A report's time is believed if the report took between ``-eps`` and ``delta`` to arrive. A report that took longer is
*late*: its date is ``arrival - delta``, because everything before that may be closed. A report whose clock is *ahead*
by more than eps is dated with its arrival. So every report still to come has a date of at least ``now - delta``, and a
wrong clock misplaces only its own reports. Whether a delivery is flagged as late is decided later, by when it was due
(`ledto.delivery.stamped`); whether a report's place is closed, in `ledto.live.closed_processes`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledto.causality.order import NO_TIME
from ledto.history.window.columns import LARGEST_TIME

Longs = NDArray[np.int64]

DATED = "dated"
"""The name of the column of dates."""


def dates(time: Longs, arrival: Longs, *, eps: int, delta: int) -> Longs:
    """Date reports by time and arrival, in ns; a report without a time is dated with its arrival."""
    has_no_time = (time == NO_TIME) | (np.abs(time) > LARGEST_TIME)
    earliest = np.maximum(np.where(has_no_time, arrival, time), arrival - delta)
    dated: Longs = np.where(earliest > arrival + eps, arrival, earliest)
    return dated


def with_dates(rows: pa.Table, *, eps: int, delta: int) -> pa.Table:
    """Append the column of dates. All rows must have an arrival."""
    time = rows["time"].fill_null(NO_TIME).to_numpy()
    date = dates(time, rows["arrival"].to_numpy(), eps=eps, delta=delta)
    return rows.append_column(DATED, pa.array(date))
