"""Reports as records and as columns, for tests that write records and deliver columns."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ledto.events.columns import ReportArrays
from ledto.events.report import Report


def to_columns(reports: Iterable[Report]) -> ReportArrays:
    """Make columns of these records, in the same order; their kn must be equally long."""
    rows = list(reports)
    return ReportArrays(
        process=np.array([row.process for row in rows], np.int32),
        seq=np.array([row.seq for row in rows], np.int64),
        r=np.array([row.r for row in rows], np.int64),
        c=np.array([row.c for row in rows], np.int32),
        kn=np.array([row.kn for row in rows], np.int32).reshape(len(rows), len(rows[0].kn) if rows else 0),
        arrival=np.array([row.arrival for row in rows], np.int64),
    )


def from_columns(reports: ReportArrays) -> list[Report]:
    """Make records of these columns, in the same order."""
    columns = (reports.process, reports.seq, reports.r, reports.c, reports.kn, reports.arrival)
    return [
        Report(process, seq, r, c, tuple(kn), arrival)
        for process, seq, r, c, kn, arrival in zip(*(column.tolist() for column in columns), strict=True)
    ]
