"""A day of silence and noise for a live history's writer, in a process of its own: ``python -m benchmarks.silent_day``.

Hours pass in heartbeats alone. Once an hour comes noise: reports that cannot be read, reports that were delivered before,
reports of hours ago, and reports of clocks that are a day off; and, for the first and the last hour to be alike, as much of
it every hour. Prints one line of JSON for every eighth of the day.
"""

from __future__ import annotations

import gc
import json
import os
import pickle
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.stream_reports import stream_reports
from ledto.events.schema import REPORTS
from ledto.history.manifest import read_manifest
from ledto.live import LiveTerms, LiveWriter

SECOND = 1_000_000_000
HOURS = 24
START_NS = 1_800_000_000 * SECOND
TERMS = LiveTerms(eps=50_000_000, delta=500_000_000)
STATE = ("carry-", "tail-", "closed-")
INDEX = ("segments-", "processes-", "crossings-")
"""Tables of the closed segments. The file of what is closed tells of them, too, and the carry of files set aside."""


def noise(hour: int, now: int, *, count: int) -> pa.Table:
    """An hour's noise: a quarter unreadable, a quarter of what came before, a quarter late, a quarter of clocks far off."""
    quarter = count // 4
    bad = pa.Table.from_pylist(
        [
            {"computation": "", "file": "http:bench", "place": each, "reason": "not-json: {", "text": "{"}
            for each in range(quarter)
        ],
        REPORTS,
    )
    again = stream_reports(quarter, start_ns=START_NS, rate=10_000)
    late = _numbered(stream_reports(quarter, start_ns=now - 3 * 3_600 * SECOND, rate=10_000), "late", hour)
    ahead = _numbered(stream_reports(quarter, start_ns=now + 86_400 * SECOND, rate=10_000), "ahead", hour)
    rows = pa.concat_tables([bad, again, late, ahead])
    arrival = now + np.arange(len(rows)) * 1_000
    return rows.set_column(rows.column_names.index("arrival"), "arrival", pa.array(arrival))


def _numbered(rows: pa.Table, name: str, hour: int) -> pa.Table:
    """The rows as those of processes of this name, whose numbers go on from hour to hour without gaps."""
    mine = rows.group_by("process").aggregate([("seq", "max")])
    a_hour = dict(zip(mine["process"].to_pylist(), mine["seq_max"].to_pylist(), strict=True))
    process, seq = rows["process"].to_pylist(), rows["seq"].to_pylist()
    columns = {
        "process": pa.array([f"{name}-{each}" for each in process]),
        "seq": pa.array([number + hour * a_hour[each] for each, number in zip(process, seq, strict=True)]),
    }
    for key in ("sends", "receives"):
        named = [None if each is None else f"{each}/{name}/{hour}" for each in rows[key].to_pylist()]
        columns[key] = pa.array(named, pa.string())
    for column, values in columns.items():
        rows = rows.set_column(rows.column_names.index(column), column, values)
    return rows


def day(path: str, *, step_seconds: int, count: int) -> None:
    """Pass a day, and tell what the writer holds."""
    writer = LiveWriter(path, TERMS)
    first = stream_reports(count // 4, start_ns=START_NS, rate=10_000)
    writer.step(first, now=START_NS + 60 * SECOND, positions={"bench": 1})
    steps = 3_600 // step_seconds
    started = time.monotonic()
    for hour in range(HOURS):
        for number in range(steps):
            now = START_NS + (hour * 3_600 + (number + 1) * step_seconds + 60) * SECOND
            rows = noise(hour, now, count=count) if number == 0 else REPORTS.empty_table()
            now += len(rows) * 1_000
            writer.step(rows, now=now, positions={"bench": hour * steps + number + 2})
        if hour % (HOURS // 8) == HOURS // 8 - 1:
            # Files that a commit replaced stay for some seconds of real time; whoever opens the history removes them.
            writer.close()
            writer = LiveWriter(path, TERMS)
            print(
                json.dumps({"hour": hour + 1, "seconds": time.monotonic() - started, **held(writer, path)}), flush=True
            )
    writer.close()


def held(writer: LiveWriter, path: str) -> dict[str, Any]:
    """Memory, and bytes on disk: what goes on from micro-batch to micro-batch, the index of what is closed, and the rest."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    index = sum(len(pickle.dumps(each.records, protocol=5)) for each in writer.closed.chains.values())
    index += len(pickle.dumps(read_manifest(writer.store).quarantine_files, protocol=5))
    found: dict[str, Any] = {"resident": resident, "index": index, "state": -index, "history": 0}
    for each in Path(path).rglob("*"):
        if each.is_file():
            kind = "state" if each.name.startswith(STATE) else "index" if each.name.startswith(INDEX) else "history"
            found[kind] += each.stat().st_size
    found["waiting"] = sum(len(rows) for rows in writer.tail.rows())
    found["segments"] = sum(1 for _ in writer.closed.records())
    return found


if __name__ == "__main__":
    day(sys.argv[1], step_seconds=int(sys.argv[2]), count=int(sys.argv[3]))
