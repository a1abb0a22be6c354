"""Write simulated reports as tables and files, to be read by a source.

One literal line of `write_json_lines` (one line in the file)::

    {"computation": "sim", "process": "p3", "seq": 17, "kind": "send", "message": "p3-17", "time": 120, "arrival": 127,
     "stamp": {"clock": "bounded", "process": "p3", "r": 120, "c": 2, "kn": [4, 1, 0]}}
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from whence.clocks.bounded.clock import BoundedStamp
from whence.events.columns import Ints, ReportArrays, TrueOrder


def to_arrow(reports: ReportArrays, truth: TrueOrder) -> pa.Table:
    """Make a table of the columns of `ReportArrays` and the truth's ``vector``; ``kn`` and ``vector`` are lists of int32."""
    columns = {name: pa.array(getattr(reports, name)) for name in ("process", "seq", "r", "c")}
    columns |= {"kn": _lists(reports.kn), "arrival": pa.array(reports.arrival), "vector": _lists(truth.vector)}
    return pa.table(columns)


def write_parquet(path: Path, reports: ReportArrays, truth: TrueOrder) -> None:
    """Write `to_arrow` as one Parquet file."""
    pyarrow.parquet.write_table(to_arrow(reports, truth), path, compression="zstd")


def write_json_lines(path: Path, reports: ReportArrays, *, computation: str = "sim") -> None:
    """Write the reports as events in JSON, one on each line, in row order; without the truth."""
    columns = (reports.process, reports.seq, reports.r, reports.c, reports.kn, reports.arrival)
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for process, seq, r, c, kn, arrival in zip(*(column.tolist() for column in columns), strict=True):
            name = f"p{process}"
            event = {
                "computation": computation,
                "process": name,
                "seq": seq,
                "kind": "send",
                "message": f"{name}-{seq}",
                "time": r,
                "arrival": arrival,
                "stamp": BoundedStamp(name, r, c, tuple(kn)).to_json(),
            }
            out.write(json.dumps(event) + "\n")


def _lists(table: Ints) -> pa.LargeListArray:
    """Make a list for each row of a two-dimensional column, without copying the values."""
    count, width = table.shape
    offsets = np.arange(count + 1) * width
    return pa.LargeListArray.from_arrays(offsets, np.ascontiguousarray(table).ravel())
