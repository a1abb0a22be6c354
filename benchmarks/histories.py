"""What the benchmarks of the pipeline share: raw logs, the histories made of them, one Spark session, and a watch on memory.

Everything lies in one folder, so that a run makes each log and each history once: the folder LEDTO_BENCH_DIR names,
whose logs the next run uses again, or a temporary one that goes when the run ends. LEDTO_BENCH_EVENTS is the size of the
largest history, 10^8 without it; 10^6 tries everything in a few minutes, and then the page is not written.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ledto.simulation.raw_logs import RawLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FULL_EVENTS = 10**8
WARM_UP = (10, 10_000)
"""Processes and events of the history that is made before any is timed."""
BYTES_AN_EVENT = 100
"""On disk: 8 of a raw log, 14 of its history, twice that of those with lines, and what Spark writes on the way."""


def largest_events() -> int:
    """How many events the largest history has; the others have a tenth, a hundredth and so on."""
    return int(os.environ.get("LEDTO_BENCH_EVENTS", FULL_EVENTS))


def is_trial() -> bool:
    """Whether this run only tries the benchmarks out at a smaller size."""
    return largest_events() != FULL_EVENTS


def size(events: int) -> str:
    """As it stands in tables: 10^7, or 3,000,000 where it is no power of ten."""
    digits = str(events)
    return f"10^{len(digits) - 1}" if digits.strip("0") == "1" else f"{events:,}"


@cache
def folder() -> Path:
    """Where logs and histories are; refuses to start where they would not fit."""
    named = os.environ.get("LEDTO_BENCH_DIR")
    found = Path(named or tempfile.mkdtemp(prefix="ledto-bench-")).absolute()
    found.mkdir(parents=True, exist_ok=True)
    if named is None:
        atexit.register(shutil.rmtree, found, ignore_errors=True)
    check_room(found, largest_events() * BYTES_AN_EVENT)
    return found


def check_room(place: Path, needed: int) -> None:
    """Refuse to go on where so many bytes would not fit."""
    free = shutil.disk_usage(place).free
    if free < needed:
        raise SystemExit(
            f"{place} has {free / 1e9:.0f} GB free and {needed / 1e9:.0f} GB are needed: set LEDTO_BENCH_DIR to a "
            "folder with room, or LEDTO_BENCH_EVENTS to fewer events"
        )


@cache
def session() -> SparkSession:
    """The session of all benchmarks of the pipeline, on the cores of this machine.

    It has made one small history, which nobody counts: first jobs compile what later ones use.
    """
    from ledto.spark.session.session import spark_session

    spark = spark_session("ledto-bench")
    make_history(spark, WARM_UP, folder() / "warm-up")
    return spark


def raw_log(processes: int, events: int) -> Path:
    """A raw log in Parquet, made when it is asked for first."""
    path = folder() / f"raw-{processes}-{events}"
    if not (path / "_DONE").exists():
        shutil.rmtree(path, ignore_errors=True)
        start = time.perf_counter()

        def show(written: int) -> None:
            rate = written / (time.perf_counter() - start) / 1e6
            if sys.stdout.isatty() or written >= events:
                print(
                    f"\r  raw log of {processes} processes: {written:,} events, {rate:.1f} million/s",
                    end="",
                    flush=True,
                )

        log(processes, events).write_parquet(path, progress=show)
        print()
        (path / "_DONE").touch()
    return path


THREADS = 16


def lined_log(processes: int, events: int) -> Path:
    """The raw log with a column ``line``, made when it is asked for first: each process has `THREADS` threads."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    raw, path = raw_log(processes, events), folder() / f"lined-{processes}-{events}"
    if not (path / "_DONE").exists():
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        for part in sorted(raw.glob("*.parquet")):
            rows = pq.read_table(part)
            # The last digits of a time in nanoseconds are as good as drawn.
            thread = pc.bit_wise_and(rows["time"], THREADS - 1).cast("string")
            lines = pc.binary_join_element_wise(rows["process"].cast("string"), thread, "/")
            pq.write_table(rows.append_column("line", lines.dictionary_encode()), path / part.name, compression="zstd")
        (path / "_DONE").touch()
    return path


@cache
def lined_history(processes: int, events: int) -> Path:
    """The history of `lined_log`, made when it is asked for first in this run."""
    path = folder() / f"history-of-lines-{processes}-{events}"
    seconds = make_history(session(), (processes, events), path, raw=lined_log(processes, events))
    print(f"  observed {size(events)} events of {processes} processes with {THREADS} lines each in {seconds:.1f} s")
    return path


def log(processes: int, events: int) -> RawLog:
    """The log of this size; all of one number of processes start with the same events."""
    return RawLog(processes, events, seed=1)


@dataclass(frozen=True)
class Observed:
    """A history and what making it took."""

    path: Path
    seconds: float
    peak_bytes: int
    """Of memory, resident in all processes of the run together, at most."""


_observed: dict[tuple[int, int], Observed] = {}


def history(processes: int, events: int) -> Observed:
    """The history of `raw_log`, made when it is asked for first in this run: its time is that of today's code."""
    return _observed.get((processes, events)) or observe_raw(processes, events)


def observe_raw(processes: int, events: int) -> Observed:
    """Make the history of a raw log, again if there is one, and keep what it took."""
    raw_log(processes, events)
    spark, path = session(), folder() / f"history-{processes}-{events}"
    with peak_memory() as peak:
        seconds = make_history(spark, (processes, events), path)
    print(f"  observed {size(events)} events of {processes} processes in {seconds:.1f} s, {peak.bytes / 1e9:.2f} GB")
    found = _observed[processes, events] = Observed(path, seconds, peak.bytes)
    return found


def make_history(spark: SparkSession, log_size: tuple[int, int], path: Path, *, raw: Path | None = None) -> float:
    """Seconds that making the history of a raw log took; no events may be missing from it.

    `raw` is where the log is, if it is not the plain one of this size.
    """
    from ledto.batch.observe import Delivering, RunSettings, observe
    from ledto.sources.inputs import find_inputs
    from ledto.spark.engine import SparkEngine

    raw, events = raw or raw_log(*log_size), log_size[1]
    shutil.rmtree(path, ignore_errors=True)
    eps, nothing = log(*log_size).eps_ns, Delivering(policies=())
    start = time.perf_counter()
    manifest = observe(
        SparkEngine(spark), find_inputs([str(raw)]), path, RunSettings(eps=eps, delivering=nothing), on_stage=show_stage
    )
    seconds = time.perf_counter() - start
    if manifest.events != events:
        raise AssertionError(f"the history has {manifest.events} events, and the log {events}")
    return seconds


REPEATING_NOTES = 2_000


def text_log(processes: int, events: int) -> Path:
    """The raw log as JSON lines, made when it is asked for first; its events have notes of 200 characters that repeat."""
    from pyspark.sql import functions as F  # noqa: N812  (Spark's own name for it)

    path = folder() / f"text-{processes}-{events}"
    if not (path / "_SUCCESS").exists():
        rows = session().read.parquet(str(raw_log(processes, events)))
        number = (F.xxhash64("process", "time") % REPEATING_NOTES).cast("string")
        note = F.rpad(F.concat(F.sha2(number, 512), F.sha2(number, 256)), 200, ".")
        rows.withColumn("note", note).write.mode("overwrite").json(str(path))
    return path


def observe_text(processes: int, events: int) -> float:
    """Seconds that making the history of a text log took, in four epochs or more; no events may be missing from it."""
    from ledto.batch.observe import Delivering, RunSettings, observe
    from ledto.history.window.plan import EPOCH_ROWS
    from ledto.sources.inputs import find_inputs
    from ledto.spark.engine import SparkEngine

    text, path = text_log(processes, events), folder() / f"history-of-text-{processes}-{events}"
    shutil.rmtree(path, ignore_errors=True)
    eps, rows = log(processes, events).eps_ns, min(EPOCH_ROWS, events // 4)
    settings = RunSettings(eps=eps, epoch_rows=rows, delivering=Delivering(policies=()))
    start = time.perf_counter()
    manifest = observe(SparkEngine(session()), find_inputs([str(text)]), path, settings, on_stage=show_stage)
    seconds = time.perf_counter() - start
    if manifest.events != events or manifest.segments < 4:
        raise AssertionError(f"{manifest.events} of {events} events in {manifest.segments} segments")
    return seconds


def show_stage(stage: str, done: int, total: int) -> None:
    """What a run is at, on one line of a terminal."""
    if sys.stdout.isatty():
        print(f"\r  {stage} {f'{done:,} of {total:,}' if total else '':<30}", end="\r", flush=True)


class Peak:
    """The most memory seen so far, in bytes."""

    bytes = 0


@contextmanager
def peak_memory(*, root: int | None = None, every_seconds: float = 0.1) -> Iterator[Peak]:
    """Watch what a process, this one if none is named, and all those below it (Java, Python workers) hold together.

    Pages that several of them share are counted once for each, so the sum is an upper bound.
    """
    peak, ended = Peak(), threading.Event()

    def watch() -> None:
        while not ended.wait(every_seconds):
            peak.bytes = max(peak.bytes, resident_bytes(root or os.getpid()))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        ended.set()
        watcher.join()


def resident_bytes(root: int) -> int:
    """Resident memory of a process and its descendants, from /proc."""
    parents, pages = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                pages[int(entry.name)] = int((entry / "statm").read_text().split()[1])
            except (OSError, ValueError):
                continue  # It ended while we looked.
    children: dict[int, list[int]] = {}
    for child, parent in parents.items():
        children.setdefault(parent, []).append(child)
    total, left = 0, [root]
    while left:
        process = left.pop()
        total += pages.get(process, 0)
        left += children.get(process, [])
    return total * os.sysconf("SC_PAGE_SIZE")
