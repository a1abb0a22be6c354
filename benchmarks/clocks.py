"""What it costs to compare the clocks of a history by its messages, and to correct its times, as a share of making it."""

from __future__ import annotations

import statistics
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.histories import history, largest_events, session, size
from benchmarks.report import Goal, Section

PROCESSES = 100
ROUNDS = 3
ALLOWED_SHARE = 0.2


def section() -> Section:
    events = largest_events() // 10
    found = history(PROCESSES, events)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for number in range(-1, ROUNDS):
        for measured in (False, True) if number % 2 else (True, False):
            taken = delivered(found.path, measure_clocks=measured)
            print(
                f"  {'warm-up' if number < 0 else f'round {number + 1}'}: clocks {measured}, {taken:.1f} s", flush=True
            )
            if number >= 0:
                seconds[measured].append(taken)
    without, with_clocks = (statistics.median(seconds[measured]) for measured in (False, True))
    cost = with_clocks - without
    correction = seconds_to_correct(found.path) * events / session().sparkContext.defaultParallelism
    share = (cost + correction) / (found.seconds - cost - correction)
    return Section(
        "Comparing clocks and correcting times",
        f"Seconds of the last step of `observe` for {size(events)} events of {PROCESSES} processes whose clocks differ and drift: "
        "the step that counts what wall-clock order gets wrong, without and with the comparison of all clocks by all messages and "
        f"the estimate of offsets and drift that follows. Medians of {ROUNDS} runs that took turns, after one of each that was not "
        "counted. Times are corrected while epochs are solved: their seconds are those that solving one epoch takes longer with it, on "
        "one core, times the epochs, by the cores. The share is of the whole run without both.",
        ("", "seconds"),
        [
            ("observe", found.seconds),
            ("last step without clocks", without),
            ("last step with clocks", with_clocks),
            ("correcting times", correction),
        ],
        [
            Goal(
                f"comparing clocks and correcting times takes at most {ALLOWED_SHARE:.0%} of the run",
                f"{share:.1%}",
                share <= ALLOWED_SHARE,
            )
        ],
    )


def _no_corrections(starts: np.ndarray[Any, Any], time: np.ndarray[Any, Any], *_: object) -> np.ndarray[Any, Any]:
    return np.zeros(len(time), np.int64)


def seconds_to_correct(path: Path) -> float:
    """Seconds an event that correcting adds to solving an epoch, on one core."""
    from ledto.history.run import open_run
    from ledto.history.store import Store
    from ledto.history.window import solve

    run = open_run(Store(path))
    rows = int(run.segments.rows[0])
    table = run.events(0, ["process", "seq", "time", "kind", "sends", "receives", "name", "file", "place"], 0, rows)
    names = sorted(table["process"].unique().to_pylist())
    taken: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * (ROUNDS + 1)):
        corrected = bool(number % 2)
        with nullcontext() if corrected else patch.object(solve, "find_corrections", _no_corrections):
            start = time.perf_counter()
            solve.solve(table, names, solve.SegmentWindow())
            taken[corrected].append(time.perf_counter() - start)
    without, with_it = (statistics.median(taken[corrected][1:]) for corrected in (False, True))
    return max(0.0, with_it - without) / rows


def delivered(path: Path, *, measure_clocks: bool) -> float:
    """Seconds for the last step, on the history that is there."""
    import pyarrow.parquet as pq

    from ledto.batch.deliver import deliver
    from ledto.history import layout
    from ledto.history.run import open_run
    from ledto.history.store import Store
    from ledto.spark.engine import SparkEngine

    spark, store = session(), Store(path)
    run = open_run(store)
    folder = path / layout.run_folder(run.name)
    segments, processes = (pq.read_table(folder / run.table_file(name)) for name in ("segments", "processes"))
    start = time.perf_counter()
    deliver(
        SparkEngine(spark), store, run.name, segments, processes, (), eps=run.manifest.eps, measure_clocks=measure_clocks
    )  # fmt: skip
    return time.perf_counter() - start
