"""Traces of services whose clocks differ to a history, against a PySpark program that sorts their starts and ends by time.

A tenth of LEDTO_BENCH_EVENTS is the number of spans: 10^7 without it, and 10^6 tries it with 10^5 spans.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.histories import check_room, folder, largest_events, peak_memory, size
from benchmarks.otlp_traces import MOST_BETWEEN_TRACES_NS, SERVICES, START_NS, json_lines, requests
from benchmarks.report import Goal, Section
from ledto.questions import History

CALLS_DEEP = 2
"""Which gives traces of about ten spans."""
CLOCKS_DIFFER_NS = 1_000_000_000
SPANS_A_FILE = 100_000
WARM_UP_SPANS = 2_000
BYTES_A_SPAN = 4_000
"""On disk: 1,200 of the file, and twice that of what Spark and the history take on the way."""
ALLOWED_RATIO = 2
ALLOWED_GROWTH, ALLOWED_MEMORY = 12, 1.5

OBSERVE = (sys.executable, "-m", "ledto.cli", "observe")
SORT = (sys.executable, "-m", "benchmarks.traces_sorted")


@dataclass(frozen=True)
class Ran:
    """What a command took, in a process of its own."""

    seconds: float
    peak_bytes: int
    """Of memory, resident in all processes of the command together, at most."""


def largest_spans() -> int:
    return largest_events() // 10


def section() -> Section:
    most = largest_spans()
    warm_up()
    rows: list[tuple[object, ...]] = []
    by_size: dict[int, tuple[Ran, Ran]] = {}
    for spans in (most // 10, most):
        ours, theirs = by_size[spans] = observed(spans), sorted_by_time(spans)
        for name, ran in (("read, explode, sort by time", theirs), ("`ledto observe`", ours)):
            rows.append((name, size(spans), ran.seconds, spans / ran.seconds / 1e3, ran.peak_bytes / 1e9))
    (small, _), (large, theirs) = by_size.values()
    ratio = large.seconds / theirs.seconds
    growth, memory_growth = large.seconds / small.seconds, large.peak_bytes / small.peak_bytes
    events = len(History(history_path(most)))
    return Section(
        "Traces to a history",
        f"Traces of about ten spans each ({size(most)} spans: {traces_bytes(most) / 1e9:.1f} GB of OTLP in JSON lines, 12 attributes a span) of "
        f"{SERVICES} services, whose clocks differ by up to {CLOCKS_DIFFER_NS / 1e9:g} s: seconds of `ledto observe`, which makes a history of "
        f"{events:,} events, with lines, messages, and assumed answers, all in one computation; and of a PySpark program "
        "(`benchmarks/traces_sorted.py`) that reads the same files by a schema, makes one row of each span's start and one of its end, "
        "attributes included, and writes them sorted by time as Parquet. Sorted by clocks that differ, effects stand before their causes. Both with the "
        "same settings of the session, each once, in a process of its own that starts Java, after both have been run on "
        f"{WARM_UP_SPANS:,} spans. Memory is what all processes of the command held together at most, looked at ten times a second.",
        ("", "spans", "seconds", "thousand spans/s", "peak memory, GB"),
        rows,
        [
            Goal(
                f"observe of {size(most)} spans at most {ALLOWED_RATIO}x reading and sorting them",
                f"{ratio:.2f}x",
                ratio <= ALLOWED_RATIO,
            ),
            Goal(
                f"time grows linearly: {size(most)} spans in at most {ALLOWED_GROWTH}x the time of {size(most // 10)}",
                f"{growth:.1f}x",
                growth <= ALLOWED_GROWTH,
            ),
            Goal(
                f"bounded memory: {size(most)} spans in at most {ALLOWED_MEMORY}x the memory of {size(most // 10)}",
                f"{memory_growth:.2f}x",
                memory_growth <= ALLOWED_MEMORY,
            ),
        ],
    )


def history_path(spans: int) -> Path:
    """The history of `traces` of this size, made when it is asked for first in this run."""
    observed(spans)
    return folder() / f"history-of-traces-{spans}"


@cache
def observed(spans: int) -> Ran:
    """Make the history of traces by the command, and give what it took."""
    source, target = traces(spans), folder() / f"history-of-traces-{spans}"
    shutil.rmtree(target, ignore_errors=True)
    ran = run([*OBSERVE, str(source), "--to", str(target)])
    if not (found := History(target)).run.has_lines or len(found) < 2 * spans:
        raise AssertionError(f"{len(found)} events of {spans} spans are too few, or have no lines")
    return ran


def sorted_by_time(spans: int) -> Ran:
    source, target = traces(spans), folder() / "sorted-traces"
    shutil.rmtree(target, ignore_errors=True)
    ran = run([*SORT, str(source), str(target)])
    shutil.rmtree(target)
    return ran


def warm_up() -> None:
    """Run both once on a few spans: compiled code and the archive of Java's classes stay for later runs, as on any machine."""
    observed(WARM_UP_SPANS)
    sorted_by_time(WARM_UP_SPANS)


def run(command: Sequence[str]) -> Ran:
    start = time.perf_counter()
    with subprocess.Popen(
        command, cwd=Path(__file__).parent.parent, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        with peak_memory(root=process.pid) as peak:
            _, said = process.communicate()
        seconds = time.perf_counter() - start
    if process.returncode:
        raise AssertionError(f"{' '.join(command)} ended with {process.returncode}: {said[-2000:]}")
    print(f"  {seconds:.1f} s, {peak.bytes / 1e9:.2f} GB: {' '.join(command[1:4])}", flush=True)
    return Ran(seconds, peak.bytes)


def traces(spans: int) -> Path:
    """A folder of files with about this many spans, made when it is asked for first."""
    path = folder() / f"traces-{spans}"
    done = path.with_suffix(".done")
    if not done.exists():
        check_room(folder(), spans * BYTES_A_SPAN)
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        start = time.perf_counter()
        parts = [
            (path, number, min(SPANS_A_FILE, spans - first))
            for number, first in enumerate(range(0, spans, SPANS_A_FILE))
        ]
        with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
            pool.starmap(write_part, parts, chunksize=1)
        done.touch()
        print(f"  wrote {size(spans)} spans in {time.perf_counter() - start:.0f} s", flush=True)
    return path


def write_part(path: Path, number: int, spans: int) -> None:
    """Write one file of traces; those of the next begin when they are over."""
    lasts_ns = SPANS_A_FILE // 8 * MOST_BETWEEN_TRACES_NS // 2
    made = requests(
        spans,
        seed=1 + number,
        start_ns=START_NS + number * lasts_ns,
        calls_deep=CALLS_DEEP,
        clocks_differ_ns=CLOCKS_DIFFER_NS,
    )
    (path / f"part-{number:05d}.jsonl").write_bytes(json_lines(made))


def traces_bytes(spans: int) -> int:
    return sum(file.stat().st_size for file in traces(spans).iterdir())
