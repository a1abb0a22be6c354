"""An order that needs no observer and does not wait, to compare deliveries with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ledto.events.columns import ReportArrays

Longs = NDArray[np.int64]


def arrival_order(reports: ReportArrays) -> Longs:
    """Sort rows by the observer's clock at arrival; ends with process and seq, so that the order is total."""
    return np.lexsort((reports.seq, reports.process, reports.arrival))
