"""Reports that exist and that their processes lack: those that were set aside, and those that came too late for their place.

Whatever such a report tells may have led to all that its process did from its place on. Its place is told by its number,
or else by its time; without both it may be the first of its process.
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
"""Why a report is gone that has an event of its own, beside its process."""
REFUSED = "too-many-"
"""What reasons begin with that take no report of a process, or of a computation: it has no events."""

BESIDE_NUMBERS = (LATE, "conflict", "no-seq")
"""Why a report is gone that the numbers of its process do not show. Of all others, a number that is left out tells."""


@dataclass(frozen=True, slots=True)
class Gone:
    """The earliest of some reports of a process that it lacks."""

    computation: str
    process: str
    why: str
    """The code of the reason for which it was set aside, or `LATE`."""
    seq: int | None
    time: int | None


def gone_from(aside: pa.Table) -> list[Gone]:
    """What the rows of a table of `ledto.history.quarantine.PLACED` leave out, by process: a few entries each."""
    rows = aside.filter(pc.and_(pc.equal(aside["outcome"], QUARANTINED), pc.is_valid(aside["process"])))
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
    found = table.group_by(keys, use_threads=False).aggregate([("seq", "min"), ("time", "min")])
    return earliest(
        Gone(row["computation"], row["process"], row["why"], row["seq_min"], row["time_min"])
        for row in found.to_pylist()
    )


def _within(values: pa.ChunkedArray, least: int) -> pa.ChunkedArray:
    """The values, null where they cannot be meant."""
    good = pc.and_(pc.greater_equal(values, least), pc.less_equal(values, LARGEST_TIME))
    return pc.if_else(good, values, pa.scalar(None, pa.int64()))


def earliest(gone: Iterable[Gone]) -> list[Gone]:
    """The earliest of each process, of those that tell their place in the same way."""
    found: dict[tuple[str, str, bool, bool], Gone] = {}
    for each in gone:
        key = (each.computation, each.process, each.seq is None, each.time is None)
        found[key] = min(found.get(key, each), each, key=_place)
    return [found[key] for key in sorted(found)]


def _place(gone: Gone) -> tuple[int, int, str]:
    return gone.seq or 0, gone.time or 0, gone.why


def may_belong(gone: Gone, last_seq: int, last_time: int) -> bool:
    """Tell whether it belongs before an event of a process that has events up to this number and time.

    0 and `NO_TIME` stand for processes that have no numbers, or no times.
    """
    if last_seq > 0 and gone.why not in BESIDE_NUMBERS:
        return False
    if gone.seq is not None and last_seq > 0:
        return gone.seq <= last_seq
    return gone.time is None or last_time == NO_TIME or gone.time <= last_time


def rows_after(
    gone: Mapping[int, Iterable[Gone]], process: Ints, seq: Longs, time: Longs
) -> dict[int, tuple[int, str]]:
    """By process: the first row that may come after one of its reports that are gone, and why that is gone.

    Processes without such a row are left out. Rows of a process are in its order; 0 and `NO_TIME` stand for no number and
    no time.
    """
    found: dict[int, tuple[int, str]] = {}
    for code, reports in gone.items():
        mine = np.flatnonzero(process == code)
        places = []
        is_numbered = bool(seq[mine].any())
        for each in reports:
            if is_numbered and each.why not in BESIDE_NUMBERS:
                continue
            later = np.ones(len(mine), np.bool_)
            if each.seq is not None and is_numbered:
                later = seq[mine] >= each.seq
            elif each.time is not None and (time[mine] != NO_TIME).any():
                later = time[mine] >= each.time
            places += [(int(mine[row]), each.why) for row in np.flatnonzero(later)[:1]]
        if places:
            found[code] = min(places)
    return found
