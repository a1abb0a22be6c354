"""How long the first answer takes, Java's start included, against a PySpark program that only sorts the same file.

Each run is a process of its own. A run with empty caches has a home cache and a folder for compiled code that are new:
no machine code of numba, no archive of Java's classes.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.otlp_traces import json_lines, requests
from benchmarks.report import Goal, Section

ROUNDS = 3
OTLP_BYTES = 10_000_000
SPANS_TRIED = 1_000
LEDTO = (sys.executable, "-m", "ledto.cli")
SORT = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[*]").getOrCreate()
spark.read.json(sys.argv[1]).sort(sys.argv[2]).write.mode("overwrite").json(sys.argv[3])
spark.stop()
"""
BECOME_SUBREAPER = 36
"""Linux's number for it: processes whose parents have ended come to us, and with them the time that they took."""


@dataclass(frozen=True)
class Took:
    """What a run took."""

    seconds: float
    cpu_seconds: float
    """Of all processes that the run started, those that outlived it included."""


@dataclass(frozen=True)
class Row:
    """A line of the table, and the most that its run may take."""

    name: str
    took: Took
    sort: Took | None
    allowed_seconds: float
    allowed_ratio: float | None = None

    @property
    def ratio(self) -> float | None:
        return None if self.sort is None else self.took.seconds / self.sort.seconds

    def cells(self) -> tuple[object, ...]:
        ratio = "" if self.ratio is None else self.ratio
        return self.name, self.took.seconds, self.took.cpu_seconds, ratio, self.allowed_seconds

    def goals(self) -> list[Goal]:
        seconds = self.took.seconds
        goals = [
            Goal(
                f"{self.name}: at most {self.allowed_seconds:g} s", f"{seconds:.2f} s", seconds <= self.allowed_seconds
            )
        ]
        if self.allowed_ratio is not None and self.ratio is not None:
            text = f"{self.name}: at most {self.allowed_ratio:g}x the sort"
            goals.append(Goal(text, f"{self.ratio:.2f}x", self.ratio <= self.allowed_ratio))
        return goals


def section() -> Section:
    with tempfile.TemporaryDirectory(prefix="ledto-bench-") as name:
        return measured(Path(name))


def measured(folder: Path) -> Section:
    runs = Runs(folder)
    four, traces, history = write_four(folder / "four.jsonl"), write_otlp(folder / "otlp.jsonl"), folder / "history"
    observe = (*LEDTO, "observe", str(four), "--to", str(history))
    sort_four = runs.least((sys.executable, "-c", SORT, str(four), "time", str(folder / "sorted")))
    sort_traces = runs.once((sys.executable, "-c", SORT, str(traces), "resourceSpans", str(folder / "sorted")))
    cold = runs.least(observe, empty=True)
    runs.keep(observe)
    warm = runs.least(observe)
    demo = (sys.executable, "-m", "ledto.demo", "--to", str(folder / "demo"))
    rows = [
        Row("observe, four lines, empty caches", cold, sort_four, 8),
        Row("observe, four lines", warm, sort_four, 5.5, 1.3),
        Row("observe --engine inline, four lines, empty caches",
            runs.least((*observe, "--engine", "inline"), empty=True), sort_four, 1.5),
        Row("observe, 10 MB of OTLP JSON, empty caches",
            runs.once((*LEDTO, "observe", str(traces), "--to", str(folder / "traces")), empty=True), sort_traces, 12),
        Row("why, four lines", runs.least((*LEDTO, "why", str(history), "b:2")), None, 0.4),
        Row("make demo, empty caches", runs.once(demo, empty=True), None, 40),
    ]  # fmt: skip
    return Section(
        "The first answer",
        "Seconds from the command to its end, each in a process of its own, Java's start included; the CPU seconds of all "
        "processes that it started; and the seconds as a ratio against a PySpark program that starts a session, reads the "
        f"same file, sorts it and writes it ({sort_four.seconds:.1f} s and {sort_four.cpu_seconds:.1f} s of CPU for four "
        f"lines, {sort_traces.seconds:.1f} s for the OTLP file). The least of {ROUNDS} runs; the demo and the OTLP file "
        "once. Empty caches: no compiled code of numba, no archive of Java's classes.",
        ("", "seconds", "CPU seconds", "ratio", "goal, seconds"),
        [row.cells() for row in rows],
        [goal for row in rows for goal in row.goals()],
    )


class Runs:
    """Runs commands one after the other, with caches that are kept or empty."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept = folder / "caches"
        ctypes.CDLL(None).prctl(BECOME_SUBREAPER, 1, 0, 0, 0)

    def keep(self, command: Sequence[str]) -> None:
        """Fill the caches that later runs find, as a first run leaves them, with all that it does in the background."""
        _run(command, self._kept)

    def least(self, command: Sequence[str], *, empty: bool = False) -> Took:
        """The shortest of several runs: whatever else the machine does can only add to it."""
        return min((self.once(command, empty=empty) for _ in range(ROUNDS)), key=lambda took: took.seconds)

    def once(self, command: Sequence[str], *, empty: bool = False) -> Took:
        caches = Path(tempfile.mkdtemp(dir=self._folder)) if empty else self._kept
        took = _run(command, caches)
        if empty:
            shutil.rmtree(caches)
        return took


def _run(command: Sequence[str], caches: Path) -> Took:
    environ = {**os.environ, "XDG_CACHE_HOME": str(caches), "NUMBA_CACHE_DIR": str(caches / "numba")}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    # Into a file: a pipe would only end with the last of the processes that hold it, and a shell does not wait for them.
    with tempfile.TemporaryFile() as errors:
        done = subprocess.run(command, env=environ, stdout=subprocess.DEVNULL, stderr=errors, check=False)
        seconds = time.perf_counter() - start
        if done.returncode:
            errors.seek(0)
            said = errors.read().decode(errors="replace")[-2000:]
            raise AssertionError(f"{' '.join(command)} ended with {done.returncode}: {said}")
    while True:
        try:
            os.wait()
        except ChildProcessError:
            break
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"  {seconds:6.2f} s, {cpu:6.2f} s of CPU: {' '.join(command[1:4]).strip()[:60]!r}", flush=True)
    return Took(seconds, cpu)


def write_four(path: Path) -> Path:
    """Write two messages: four events of two processes."""
    kinds = [("a", 1, "send", "m1"), ("b", 1, "receive", "m1"), ("b", 2, "send", "m2"), ("a", 2, "receive", "m2")]
    records = (
        {"process": process, "seq": seq, "time": 1_000 + 100 * at, "kind": kind, "message": message, "name": kind}
        for at, (process, seq, kind, message) in enumerate(kinds)
    )
    path.write_text("".join(f"{json.dumps(each)}\n" for each in records))
    return path


def write_otlp(path: Path) -> Path:
    """Write traces of about `OTLP_BYTES`, one request a line."""
    spans = SPANS_TRIED * OTLP_BYTES // len(json_lines(requests(SPANS_TRIED)))
    path.write_bytes(json_lines(requests(spans)))
    return path
