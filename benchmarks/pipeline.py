"""From a raw log to a history, against what Spark needs to copy and to sort the same rows."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable

from benchmarks.histories import (
    Observed,
    folder,
    history,
    largest_events,
    observe_raw,
    observe_text,
    raw_log,
    session,
    size,
    text_log,
)
from benchmarks.report import Goal, Section

PROCESSES = 100
ROUNDS = 3
ALLOWED_BYTES = 8
ALLOWED_RATIO = 1.5
ALLOWED_TEXT_RATIO = 3


def section() -> Section:
    events = largest_events() // 10
    text_events = largest_events() // 50
    raw_log(PROCESSES, events)
    text_log(PROCESSES, text_events)
    medians = in_turns(
        {
            "copy": lambda: rewritten(events, by_time=False),
            "sort by time": lambda: rewritten(events, by_time=True),
            "observe": lambda: observe_raw(PROCESSES, events).seconds,
        }
    )
    text_medians = in_turns(
        {
            "text, sort by time": lambda: sorted_text(text_events),
            "text, observe": lambda: observe_text(PROCESSES, text_events),
        }
    )
    ratio = medians["observe"] / medians["sort by time"]
    text_ratio = text_medians["text, observe"] / text_medians["text, sort by time"]
    few, many = history(PROCESSES, events), observe_raw(PROCESSES, 10 * events)
    growth, memory = many.seconds / medians["observe"], many.peak_bytes / few.peak_bytes
    skeleton = skeleton_bytes(many) / (10 * events)
    small, large, text_size = size(events), size(10 * events), size(text_events)
    return Section(
        "From a raw log to a history",
        f"Seconds in one Spark session in local mode for a raw log in Parquet ({PROCESSES} processes, {small} events, "
        "`ledto.simulation.raw_logs`): reading and writing the rows, sorting them by time as well, and `observe`, which "
        "matches messages, orders causally, checks and writes a history with all columns. Medians of "
        f"{ROUNDS} runs that took turns, after one of each that was not counted. Then {large} events once. Text is the same as JSON "
        "lines, with notes of 200 characters that repeat, in four epochs or more. Memory is what Python "
        "and Java, with all their workers, held together at most, looked at ten times a second.",
        ("", "seconds", "million events/s", "peak memory, GB"),
        [
            *(
                (f"{name}, {small}", medians[name], events / medians[name] / 1e6, "")
                for name in ("copy", "sort by time")
            ),
            (f"observe, {small}", medians["observe"], events / medians["observe"] / 1e6, few.peak_bytes / 1e9),
            *(
                (f"{name}, {text_size}", seconds, text_events / seconds / 1e6, "")
                for name, seconds in text_medians.items()
            ),
            (f"observe, {large}", many.seconds, 10 * events / many.seconds / 1e6, many.peak_bytes / 1e9),
        ],
        [
            Goal(f"observe at most {ALLOWED_RATIO}x sorting by time", f"{ratio:.2f}x", ratio <= ALLOWED_RATIO),
            Goal("observe faster than sorting by time", f"{ratio:.2f}x", ratio < 1),
            Goal(
                f"observe of text at most {ALLOWED_TEXT_RATIO}x reading and sorting it",
                f"{text_ratio:.2f}x",
                text_ratio <= ALLOWED_TEXT_RATIO,
            ),
            Goal(f"time grows linearly: {large} in at most 12x the time of {small}", f"{growth:.1f}x", growth <= 12),
            Goal(f"bounded memory: {large} in at most 1.5x the memory of {small}", f"{memory:.2f}x", memory <= 1.5),
            Goal(
                f"skeleton and boundaries at most {ALLOWED_BYTES} bytes an event",
                f"{skeleton:.1f} bytes",
                skeleton <= ALLOWED_BYTES,
            ),
        ],
    )


def in_turns(ways: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The median seconds of each way, over rounds in which they take turns, after one that is not counted."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(-1, ROUNDS):
        # Each round starts with another, so that none always follows the same.
        names = list(ways)[number % len(ways) :] + list(ways)[: number % len(ways)]
        for name in names:
            seconds = ways[name]()
            print(f"  {'warm-up' if number < 0 else f'round {number + 1}'}: {name} {seconds:.1f} s", flush=True)
            if number >= 0:
                found[name].append(seconds)
    return {name: statistics.median(seconds) for name, seconds in found.items()}


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


def sorted_text(events: int) -> float:
    """Seconds for Spark to read the same text by a schema, and to write its rows by time as Parquet."""
    spark, text, target = session(), text_log(PROCESSES, events), folder() / "rewritten"
    schema = "process string, time long, kind string, message string, name string, note string"
    shutil.rmtree(target, ignore_errors=True)
    start = time.perf_counter()
    spark.read.schema(schema).json(str(text)).sort("time").write.parquet(str(target))
    seconds = time.perf_counter() - start
    shutil.rmtree(target)
    return seconds


def skeleton_bytes(observed: Observed) -> int:
    """What a history keeps for questions about causes, besides the events themselves."""
    kinds = ("skeleton-*", "boundary-*", "crossings-*")
    return sum(path.stat().st_size for kind in kinds for path in observed.path.glob(f"runs/*/{kind}"))
