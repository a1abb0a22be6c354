"""A stream of reports becomes a live history: Spark reads and decodes, the one writer orders, delivers and commits.

Each micro-batch is read and decoded by tasks, and taken by `whence.history.live.LiveWriter` on the driver, which commits
the reports together with the positions up to which they go. A micro-batch that runs again, because the driver or anything
else was killed, finds its frames below these positions and passes over them: every report counts once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from whence.clocks.errors import WhenceError
from whence.events.schema import REPORTS
from whence.history.live import LiveTerms, LiveWriter
from whence.history.storage import Store
from whence.spark.stream.decoding import TAKEN, Decoder, rows_of
from whence.spark.stream.sources import StreamSource

CHECKPOINT = "checkpoint"
"""The folder, within the history, of Spark's own journal of the stream."""
IDLE_SECONDS = 5.0
"""Without reports and heartbeats for so long, the stream's clock goes on with this machine's."""


class StreamFailed(WhenceError):
    """The stream ended with an error; what was committed stays, and starting it again goes on from there."""


@dataclass(slots=True)
class Follower:
    """Takes micro-batches. `on_commit` hears of every commit."""

    writer: LiveWriter
    source: StreamSource
    options: Mapping[str, Any] = field(default_factory=dict)
    on_commit: Callable[[LiveWriter], None] = lambda writer: None
    _taking: Lock = field(default_factory=Lock)
    _heard: float = field(default_factory=time.monotonic)
    _trimmable: int = -1

    def take(self, frames: DataFrame, number: int) -> None:
        """One micro-batch, as `foreachBatch` calls it."""
        with self._taking:
            found = frames.mapInArrow(Decoder(self.writer.positions, self.options), TAKEN).toArrow()
            started = min(found["first"].to_pylist(), default=-1)
            self._step(found)
            # What Spark may still ask for again is this micro-batch; what came before it is safe.
            if self._trimmable >= 0 and len(self.writer.positions) == 1:
                self.source.trim(self._trimmable)
            self._trimmable = max(started, self._trimmable)
            self._heard = time.monotonic()

    def _step(self, found: pa.Table) -> None:
        taken = sorted(found.to_pylist(), key=lambda each: (each["partition"], each["first"]))
        tables = [rows_of(each["payload"]) for each in taken if each["payload"] is not None]
        rows = pa.concat_tables(tables) if tables else REPORTS.empty_table()
        positions: dict[str, int] = {}
        for each in taken:
            positions[each["partition"]] = max(each["last"], positions.get(each["partition"], -1))
        if len(positions) > 1 and len(rows):
            # Partitions have no order among them but that of arrival.
            rows = rows.take(pa.array(np.argsort(rows["arrival"].to_numpy(), kind="stable")))
        now = max([each["now"] for each in taken], default=self.writer.now)
        self._advance(rows, now, positions)

    def _advance(self, rows: pa.Table, now: int, positions: Mapping[str, int]) -> None:
        if len(rows):
            arrival = np.maximum.accumulate(np.maximum(rows["arrival"].to_numpy(), self.writer.now))
            rows = rows.set_column(rows.column_names.index("arrival"), "arrival", pa.array(arrival))
            now = max(now, int(arrival[-1]))
        if self.writer.step(rows, now=now, positions=positions):
            self.on_commit(self.writer)

    def tick(self) -> None:
        """Let the stream's time go on where nothing has been heard for a while."""
        with self._taking:
            silent = time.monotonic() - self._heard
            if silent >= IDLE_SECONDS and self.writer.now:
                self._heard = time.monotonic()
                self._advance(REPORTS.empty_table(), self.writer.now + int(silent * 1e9), {})


def follow(
    session: SparkSession,
    source: StreamSource,
    history: str | os.PathLike[str],
    *,
    terms: LiveTerms | None = None,
    options: Mapping[str, Any] | None = None,
    trigger_seconds: float = 1.0,
    once: bool = False,
    stop: Event | None = None,
    on_commit: Callable[[LiveWriter], None] = lambda writer: None,
) -> None:
    """Keep the live history at `history` up to date with a source, until `stop` is set; `once`: with what is there now.

    Goes on where it stopped, however that was. Raises `StreamFailed`, `OtherTerms` for terms that are not those the stream
    began with, and `HistoryInUse` where another is at work on the history.
    """
    with LiveWriter(Store(history), terms) as writer:
        follower = Follower(writer, source, options or {}, on_commit)
        query = _started(session, source, follower, checkpoint_of(history), trigger_seconds, once)
        ended = stop or Event()
        ticker = Thread(target=_tick, args=(follower, query, ended), daemon=True)
        if not once:
            ticker.start()
        try:
            while query.isActive and not ended.wait(0 if once else 0.2):
                query.awaitTermination(1)
        finally:
            ended.set()
            query.stop()
            if ticker.is_alive():
                ticker.join()
        failure = query.exception()
        if failure is not None:
            raise StreamFailed(f"{source.describe()}: {str(failure).strip().splitlines()[0]}") from failure


def checkpoint_of(history: str | os.PathLike[str]) -> str:
    """Where Spark keeps its journal of the stream of a history."""
    return Store(history).place(CHECKPOINT)


def _started(
    session: SparkSession, source: StreamSource, follower: Follower, checkpoint: str, trigger_seconds: float, once: bool
) -> StreamingQuery:
    writing = source.load(session).writeStream.foreachBatch(follower.take).option("checkpointLocation", checkpoint)
    chosen = (
        writing.trigger(availableNow=True) if once else writing.trigger(processingTime=f"{trigger_seconds} seconds")
    )
    return chosen.queryName("whence").start()


def _tick(follower: Follower, query: StreamingQuery, ended: Event) -> None:
    while query.isActive and not ended.wait(IDLE_SECONDS / 2):
        follower.tick()


def journal_of(history: str | os.PathLike[str]) -> Path:
    """Where the files of a followed folder are written down; beside the checkpoint."""
    return Path(Store(history).root) / f"{CHECKPOINT}-files" / "journal"
