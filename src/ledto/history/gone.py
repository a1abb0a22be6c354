"""Find where a process lacks reports that do exist: they were quarantined, or came too late for their place.

Such a report is *gone*. What it says may have led to everything that its process did later. Its number says where it
belongs in its process, or else its time; without both it may be the first report of its process.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.order import NO_TIME
from ledto.causality.skeleton import Ints
from ledto.history.quarantine import QUARANTINED
from ledto.history.window.columns import LARGEST_TIME, LEAST_TIME

Longs = NDArray[np.int64]

LATE = "late"
"""The reason of a report that came too late. Its event is in the history, outside its process."""
REFUSED = "too-many-"
"""The prefix of reasons for which all reports of a process or a computation are refused: these have no events."""

BESIDE_NUMBERS = (LATE, "conflict", "no-seq")
"""Reasons that leave no gap in the numbers of a process. For all other reasons, the gap shows the place."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A report that its process lacks: the earliest of several."""

    computation: str
    process: str
    why: str
    """The code of the reason for which it was quarantined, or `LATE`."""
    seq: int | None
    time: int | None


def gone_from(quarantined: pa.Table) -> list[Gone]:
    """Find the earliest gone reports of each process in a table of `ledto.history.quarantine.PLACED`; a few for each."""
    rows = quarantined.filter(
        pc.and_(pc.equal(quarantined["outcome"], QUARANTINED), pc.is_valid(quarantined["process"]))
    )
    rows = rows.filter(pc.invert(pc.fill_null(pc.starts_with(rows["reason"], REFUSED), False)))
    if not len(rows):
        return []
    seq, time = _within(rows["seq"], 1), _within(rows["time"], LEAST_TIME)
    table = pa.table(
        {
            "computation": pc.fill_null(rows["computation"], ""),
            "process": rows["process"],
            "why": pc.replace_substring_regex(pc.fill_null(rows["reason"], ""), "(?s):.*", ""),
            "seq": seq,
            "time": time,
            "has_seq": pc.is_valid(seq),
            "has_time": pc.is_valid(time),
        }
    )
    keys = ["computation", "process", "why", "has_seq", "has_time"]
    groups = table.group_by(keys, use_threads=False).aggregate([("seq", "min"), ("time", "min")])
    return earliest(
        Gone(row["computation"], row["process"], row["why"], row["seq_min"], row["time_min"])
        for row in groups.to_pylist()
    )


def _within(values: pa.ChunkedArray, least: int) -> pa.ChunkedArray:
    """Replace values outside the range of times by null."""
    good = pc.and_(pc.greater_equal(values, least), pc.less_equal(values, LARGEST_TIME))
    return pc.if_else(good, values, pa.scalar(None, pa.int64()))


def earliest(gone: Iterable[Gone]) -> list[Gone]:
    """Keep the earliest report of each process, for each way of saying its place: by seq, time, both or neither."""
    firsts: dict[tuple[str, str, bool, bool], Gone] = {}
    for report in gone:
        key = (report.computation, report.process, report.seq is None, report.time is None)
        firsts[key] = min(firsts.get(key, report), report, key=_sort_key)
    return [firsts[key] for key in sorted(firsts)]


def _sort_key(gone: Gone) -> tuple[int, int, str]:
    return gone.seq or 0, gone.time or 0, gone.why


def may_belong(gone: Gone, last_seq: int, last_time: int) -> bool:
    """Tell whether the report may belong before one of its process's events, which reach up to this number and time.

    `last_seq` is 0 if the process has no numbers; `last_time` is `NO_TIME` if it has no times.
    """
    if last_seq > 0 and gone.why not in BESIDE_NUMBERS:
        return False
    if gone.seq is not None and last_seq > 0:
        return gone.seq <= last_seq
    return gone.time is None or last_time == NO_TIME or gone.time <= last_time


def rows_after(
    gone: Mapping[int, Iterable[Gone]], process: Ints, seq: Longs, time: Longs
) -> dict[int, tuple[int, str]]:
    """Find for each process the first row that may come after a gone report, and the reason for which that is gone.

    Processes without such a row are left out. Rows of a process must be in its order; `seq` is 0 and `time` is `NO_TIME`
    where a row has none.
    """
    first_rows: dict[int, tuple[int, str]] = {}
    for code, reports in gone.items():
        rows = np.flatnonzero(process == code)
        candidates = []
        is_numbered = bool(seq[rows].any())
        for report in reports:
            if is_numbered and report.why not in BESIDE_NUMBERS:
                continue
            later = np.ones(len(rows), np.bool_)
            if report.seq is not None and is_numbered:
                later = seq[rows] >= report.seq
            elif report.time is not None and (time[rows] != NO_TIME).any():
                later = time[rows] >= report.time
            candidates += [(int(rows[at]), report.why) for at in np.flatnonzero(later)[:1]]
        if candidates:
            first_rows[code] = min(candidates)
    return first_rows
