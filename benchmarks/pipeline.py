"""From a raw log to a history, against what Spark needs to copy and to sort the same rows."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable

from benchmarks.histories import Observed, folder, history, largest_events, observe_raw, raw_log, session, size
from benchmarks.report import Goal, Section

PROCESSES = 100
ROUNDS = 3
ALLOWED_BYTES = 8
ALLOWED_RATIO = 1.5


def section() -> Section:
    events = largest_events() // 10
    ways: dict[str, Callable[[], float]] = {
        "copy": lambda: rewritten(events, by_time=False),
        "sort by time": lambda: rewritten(events, by_time=True),
        "observe": lambda: observe_raw(PROCESSES, events).seconds,
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    raw_log(PROCESSES, events)
    for number in range(-1, ROUNDS):
        # Each round starts with another, so that none always follows the same.
        names = list(ways)[number % len(ways) :] + list(ways)[: number % len(ways)]
        for name in names:
            seconds = ways[name]()
            print(f"  {'warm-up' if number < 0 else f'round {number + 1}'}: {name} {seconds:.1f} s", flush=True)
            if number >= 0:
                found[name].append(seconds)
    medians = {name: statistics.median(seconds) for name, seconds in found.items()}
    ratio = medians["observe"] / medians["sort by time"]
    few, many = history(PROCESSES, events), observe_raw(PROCESSES, 10 * events)
    growth, memory = many.seconds / medians["observe"], many.peak_bytes / few.peak_bytes
    skeleton = skeleton_bytes(many) / (10 * events)
    small, large = size(events), size(10 * events)
    return Section(
        "From a raw log to a history",
        f"Seconds in one Spark session in local mode for a raw log in Parquet ({PROCESSES} processes, {small} events, "
        "`whence.simulation.rawlogs`): reading and writing the rows, sorting them by time as well, and `observe`, which "
        "matches messages, orders causally, checks and writes a history with all columns. Medians of "
        f"{ROUNDS} runs that took turns, after one of each that was not counted. Then {large} events once. Memory is what Python "
        "and Java, with all their workers, held together at most, looked at ten times a second.",
        ("", "seconds", "million events/s", "peak memory, GB"),
        [
            *(
                (f"{name}, {small}", medians[name], events / medians[name] / 1e6, "")
                for name in ("copy", "sort by time")
            ),
            (f"observe, {small}", medians["observe"], events / medians["observe"] / 1e6, few.peak_bytes / 1e9),
            (f"observe, {large}", many.seconds, 10 * events / many.seconds / 1e6, many.peak_bytes / 1e9),
        ],
        [
            Goal(f"observe at most {ALLOWED_RATIO}x sorting by time", f"{ratio:.2f}x", ratio <= ALLOWED_RATIO),
            Goal("observe faster than sorting by time", f"{ratio:.2f}x", ratio < 1),
            Goal(f"time grows linearly: {large} in at most 12x the time of {small}", f"{growth:.1f}x", growth <= 12),
            Goal(f"bounded memory: {large} in at most 1.5x the memory of {small}", f"{memory:.2f}x", memory <= 1.5),
            Goal(
                f"skeleton and boundaries at most {ALLOWED_BYTES} bytes an event",
                f"{skeleton:.1f} bytes",
                skeleton <= ALLOWED_BYTES,
            ),
        ],
    )


def rewritten(events: int, *, by_time: bool) -> float:
    """Seconds for Spark to read the raw log and to write its rows again."""
    spark, raw, target = session(), raw_log(PROCESSES, events), folder() / "rewritten"
    shutil.rmtree(target, ignore_errors=True)
    start = time.perf_counter()
    rows = spark.read.parquet(str(raw))
    if by_time:
        rows = rows.sort("time")
    rows.write.parquet(str(target))
    seconds = time.perf_counter() - start
    shutil.rmtree(target)
    return seconds


def skeleton_bytes(observed: Observed) -> int:
    """What a history keeps for questions about causes, besides the events themselves."""
    kinds = ("skeleton-*", "boundary-*", "crossings-*")
    return sum(path.stat().st_size for kind in kinds for path in observed.path.glob(f"runs/*/{kind}"))
