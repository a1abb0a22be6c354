"""A backlog on the broker, drained by the stream as it runs: Spark reads and decodes, the writer orders, delivers, commits."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from benchmarks.histories import is_trial, session
from benchmarks.report import Goal, Section
from benchmarks.service import CoreTime, Service, broker_of, publish, served
from benchmarks.stream_reports import PROCESSES, stream_reports
from ledto.live import LiveHistory, LiveTerms, LiveWriter
from ledto.service.broker.nats_server import STREAM
from ledto.spark.stream import open_source
from ledto.spark.stream.decode import Decoder
from ledto.spark.stream.follow import follow
from ledto.spark.stream.nats.jetstream import read_range
from ledto.spark.stream.nats.source import as_frames

REPORTS_A_SECOND = 300_000
MESSAGES_A_BATCH = 5_000
TERMS = LiveTerms(eps=50_000_000, delta=500_000_000)
ARRIVAL_RATE = 60_000
"""Reports a second that the backlog was gathered at, about what one client of the broker can store."""
WARM_UP, BACKLOG = 200_000, 2_000_000
LISTENER_SECONDS = 30


@dataclass
class Drained:
    """One run over a backlog: what the micro-batches took, and what of that the writer took."""

    reports: int
    batches: list[dict[str, Any]] = field(default_factory=list)
    """Of each with rows: seconds from its start, and of its parts."""
    steps: list[float] = field(default_factory=list)
    core_seconds: float = 0.0
    """Of this process, Java, the workers and the broker."""

    @property
    def seconds(self) -> float:
        """From the start of the first micro-batch to the end of the last."""
        return float(max(each["end"] for each in self.batches) - min(each["start"] for each in self.batches))

    @property
    def rate(self) -> float:
        """Reports a second."""
        return self.reports / self.seconds

    @property
    def step_seconds(self) -> float:
        """Of the writer."""
        return sum(self.steps)

    @property
    def reading_seconds(self) -> float:
        """From the broker to the writer: reading, decoding, and the way between processes."""
        return float(sum(each["addBatch"] for each in self.batches)) - self.step_seconds


class Listener(StreamingQueryListener):
    """Keeps what Spark tells of micro-batches."""

    def __init__(self) -> None:
        self.batches: list[dict[str, Any]] = []
        self.ended = threading.Event()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Spark's name."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Spark's name."""
        told = event.progress
        if told.numInputRows:
            start = _seconds(told.timestamp)
            took = {name: each / 1e3 for name, each in told.durationMs.items()}
            self.batches.append(
                {"start": start, "end": start + took["triggerExecution"], "rows": told.numInputRows, **took}
            )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Spark's name."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Spark's name."""
        self.ended.set()


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp.replace("Z", "+00:00")).timestamp()


@contextmanager
def timed_steps() -> Iterator[list[float]]:
    """Seconds of every step of a writer in this process."""
    plain, seconds = LiveWriter.step, []

    def step(self: LiveWriter, rows: pa.Table, **given: Any) -> bool:
        start = time.perf_counter()
        try:
            return plain(self, rows, **given)
        finally:
            seconds.append(time.perf_counter() - start)

    LiveWriter.step = step  # type: ignore[method-assign]
    try:
        yield seconds
    finally:
        LiveWriter.step = plain  # type: ignore[method-assign]


def drain(service: Service, history: Path, *, reports: int, messages: int = MESSAGES_A_BATCH) -> Drained:
    """Take all that the broker has."""
    spark, listener = session(), Listener()
    spark.streams.addListener(listener)
    try:
        with timed_steps() as steps, CoreTime() as cores:
            source = open_source(service.source, {"maxMessages": messages})
            follow(spark, source, history, terms=TERMS, once=True)
        listener.ended.wait(LISTENER_SECONDS)
    finally:
        spark.streams.removeListener(listener)
    return Drained(reports, listener.batches, steps, cores.seconds)


def alone(rows: pa.Table, path: Path, *, batch_rows: int) -> tuple[float, float]:
    """Seconds, and seconds of all cores together, that a writer takes for these rows without Spark."""
    with LiveWriter(str(path), TERMS) as writer:
        start, cpu = time.perf_counter(), time.process_time()
        for first in range(0, len(rows), batch_rows):
            some = rows.slice(first, batch_rows)
            writer.step(some, now=some["arrival"][-1].as_py(), positions={"bench": first})
        return time.perf_counter() - start, time.process_time() - cpu


def decoded(service: Service, last: int) -> tuple[int, float]:
    """Reports of the messages up to one, and seconds to read and decode them in one process without Spark."""
    start = time.perf_counter()
    frames = (as_frames(some, STREAM) for some in read_range(broker_of(service), 1, last + 1))
    found = sum(each["rows"][0].as_py() for each in Decoder({}, {}, names_files=False)(frames))
    return found, time.perf_counter() - start


def section() -> Section:
    warm, backlog = (WARM_UP, BACKLOG) if not is_trial() else (WARM_UP // 2, BACKLOG // 8)
    with served("backlog", "--no-stream") as service:
        history = service.history.parent / "live"
        begin = time.time_ns() + 2_000_000_000
        rows = stream_reports(warm + backlog, start_ns=begin, rate=ARRIVAL_RATE)
        publish(service, rows.slice(0, warm))
        reading = decoded(service, warm // 100)
        drain(service, history, reports=warm)
        rest = later(rows.slice(warm))
        gathered = publish(service, rest)
        print(f"  {backlog:,} reports stored in {gathered:.0f} s", flush=True)
        found = drain(service, history, reports=backlog)
        state = LiveHistory(str(history)).state()
        assert state is not None
        counts = state.counts
        if counts.reports != warm + backlog or counts.duplicate or counts.quarantined:
            raise AssertionError(f"{warm + backlog:,} reports were stored, and the history says {counts}")
        batch_rows = 100 * MESSAGES_A_BATCH
        wall, cpu = alone(rest, service.history.parent / "alone", batch_rows=batch_rows)
    one_core = reading[0] / reading[1]
    needed = backlog / one_core + cpu
    return Section(
        "The stream, with a backlog",
        f"{backlog:,} reports of {PROCESSES} processes, which send messages to each other, stand on the broker in messages of 100. The "
        f"stream of `ledto observe --follow` takes them, {MESSAGES_A_BATCH:,} messages a micro-batch: Spark's tasks read and decode, "
        "the writer on the driver orders, delivers (policy exact, eps 50 ms, delta 500 ms) and commits with sync. From the start of "
        "the first micro-batch to the end of the last, after a run over other reports that warmed it up. Below, each part for "
        "itself: one process that reads and decodes, and the writer given the same rows from memory.",
        ("", "seconds", "reports/s"),
        [
            ("the stream", found.seconds, round(found.rate)),
            ("the stream, seconds of all cores, Java and the broker included", found.core_seconds, ""),
            ("of this, the writer", found.step_seconds, round(backlog / found.step_seconds)),
            ("of this, reading and decoding", found.reading_seconds, round(backlog / found.reading_seconds)),
            (
                "of this, Spark's own journal",
                found.seconds - found.step_seconds - found.reading_seconds,
                "",
            ),
            ("reading and decoding alone, one process", backlog / one_core, round(one_core)),
            ("the writer alone", wall, round(backlog / wall)),
            ("the writer alone, seconds of all cores", cpu, round(backlog / cpu)),
        ],
        [
            Goal(
                f"at least {REPORTS_A_SECOND:,} reports/s of backlog",
                f"{found.rate:,.0f} reports/s",
                found.rate >= REPORTS_A_SECOND,
            )
        ],
        f"What bounds it: a report takes {found.core_seconds / backlog * 1e6:.1f} us of one core in all, {needed / backlog * 1e6:.1f} of "
        f"them for decoding and the writer; and a micro-batch is decoded before the writer takes it. {counts.late:,} of all "
        "reports came late.",
    )


def later(rows: pa.Table) -> pa.Table:
    """The same, as if they arrived from now on."""
    delay_ns = time.time_ns() + 1_000_000_000 - rows["arrival"][0].as_py()
    for name in ("time", "arrival"):
        moved = pa.array(rows[name].to_numpy() + delay_ns)
        rows = rows.set_column(rows.column_names.index(name), name, moved)
    return rows
