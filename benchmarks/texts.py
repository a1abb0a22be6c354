"""Text of several epochs in every format: from the log to a history, against Spark reading and sorting its lines."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.histories import folder, largest_events, session
from benchmarks.report import Goal, Section
from tests.history.computations import draw
from tests.spark.running import observe
from tests.spark.text_logs import FORMATS, SPANS, TRACE_FORMATS, write_events

PROCESSES = 5


def section() -> Section:
    """Each format once, with 1,200,000 events at full size: more than two epochs at default options."""
    count = largest_events() // 250 * 3
    rows, whole = [], 0
    for format in (*FORMATS, *TRACE_FORMATS):
        place = folder() / f"text-{format}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        path, options = _write(format, place, count)
        sorting = _seconds_to_sort(path, place / "sorted")
        start = time.perf_counter()
        manifest = observe(session(), [str(path)], place / "history", format=format, options=options)
        seconds = time.perf_counter() - start
        ledger = manifest.ledger
        whole += ledger.delivered == ledger.reports >= count
        megabytes = path.stat().st_size / 1e6
        rows.append((format, count, megabytes, seconds, count / seconds, sorting, seconds / sorting))
        print(f"  {format}: {seconds:.1f} s, sorting {sorting:.1f} s", flush=True)
        shutil.rmtree(place)
    return Section(
        "Text of several epochs",
        "One log in each text format, with texts of 200 characters that repeat, through `observe` on a warm Spark session in local "
        "mode; beside it, Spark reads the same lines as text, sorts them and writes them as Parquet.",
        ("format", "events", "MB", "observe, s", "events/s", "sort lines, s", "ratio"),
        rows,
        [Goal("every format is read whole", f"{whole} of {len(rows)}", whole == len(rows))],
    )


def _write(format: str, place: Path, count: int) -> tuple[Path, dict[str, Any]]:
    if format in TRACE_FORMATS:
        # A span is two events: its start and its end.
        return TRACE_FORMATS[format](place, -(-count // (2 * len(SPANS)))), {}
    return write_events(format, place, draw(Random(5), processes=PROCESSES, events=count, skew=40, loss=0))


def _seconds_to_sort(path: Path, target: Path) -> float:
    start = time.perf_counter()
    session().read.text(str(path)).sort("value").write.parquet(str(target))
    return time.perf_counter() - start
