"""Reports as records and as columns: the same rows, in the same order."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from whence.events.columns import Reports
from whence.events.report import Report


def to_columns(rows: Iterable[Report]) -> Reports:
    """The same reports as columns, in the same order; raises `ValueError` when their kn differ in length."""
    found = list(rows)
    widths = {len(row.kn) for row in found}
    if len(widths) > 1:
        raise ValueError(
            f"reports of one table carry equally many kn elements, found {sorted(widths)}: cut them to one length"
        )
    width = widths.pop() if widths else 0
    return Reports(
        process=np.array([row.process for row in found], np.int32),
        seq=np.array([row.seq for row in found], np.int64),
        r=np.array([row.r for row in found], np.int64),
        c=np.array([row.c for row in found], np.int32),
        kn=np.array([row.kn for row in found], np.int32).reshape(len(found), width),
        arrival=np.array([row.arrival for row in found], np.int64),
    )


def from_columns(reports: Reports) -> list[Report]:
    """The same reports as records, in the same order."""
    return [
        Report(process, seq, r, c, tuple(kn), arrival)
        for process, seq, r, c, kn, arrival in zip(
            reports.process.tolist(),
            reports.seq.tolist(),
            reports.r.tolist(),
            reports.c.tolist(),
            reports.kn.tolist(),
            reports.arrival.tolist(),
            strict=True,
        )
    ]
