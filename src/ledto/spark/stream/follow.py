"""A stream of reports becomes a live history: Spark reads and decodes, the one writer orders, delivers and commits.

Each micro-batch is read and decoded by tasks, and taken by `ledto.live.LiveWriter` on the driver, which commits
the reports together with the positions up to which they go. A micro-batch that runs again, because the driver or anything
else was killed, finds its frames below these positions and passes over them: every report counts once.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ledto.errors import LedtoError
from ledto.events.schema import REPORTS
from ledto.history.store import Store
from ledto.live import LiveLimits, LiveTerms, LiveWriter, blames_reports, rescue
from ledto.spark.jobs import summarise_failure
from ledto.spark.stream import StreamSource
from ledto.spark.stream.decode import BATCH_BYTES, TAKEN, Decoder, rows_of

Longs = NDArray[np.int64]

SET_BACK_NS = 10_000_000_000
"""An arrival so far before an earlier one was stamped by a clock that was set back."""
LONGEST_PAUSE_NS = 30_000_000_000
"""What one arrival moves the stream's time by, at most, while they are behind it: more is a clock that is set right."""


def keep_going(arrival: Longs, *, before: int | None, now: int) -> Longs:
    """Give each report an arrival that is never before `now` nor before the report ahead of it.

    `before` is the last arrival that was stamped before these; None if it is not known. However a stream is cut, with
    `before` and `now` passed on, it gets the same arrivals.
    """
    ascending = np.maximum.accumulate(np.maximum(arrival, now))
    behind = ascending - arrival > SET_BACK_NS
    if not behind.any():
        return np.asarray(ascending, np.int64)
    raised, last, stamped = ascending.copy(), now, before
    for row, own in enumerate(arrival.tolist()):
        pause = 0 if stamped is None else min(max(own - stamped, 0) // 2, LONGEST_PAUSE_NS)
        last = max(own, last + (pause if last - own > SET_BACK_NS else 0))
        raised[row], stamped = last, own
    return raised


log = logging.getLogger("ledto.spark")

CHECKPOINT = "checkpoint"
"""The folder, within the history, of Spark's own journal of the stream."""
IDLE_SECONDS = 5.0
"""Without reports and heartbeats for so long, the stream's clock goes on with this machine's, so far behind it."""
IDLE_TRIGGERS = 3
"""And for so many triggers."""
FINISH_SECONDS = 3.0
"""How long a micro-batch that is under way at the end may take; longer ones are interrupted, and run again."""


class StreamFailed(LedtoError):
    """The stream ended with an error; what was committed stays, and starting it again goes on from there."""


@dataclass(slots=True)
class Follower:
    """Takes micro-batches. `on_commit` hears of every commit, and `reopen` makes a writer in place of one that failed."""

    writer: LiveWriter
    reopen: Callable[[], LiveWriter]
    source: StreamSource
    options: Mapping[str, Any] = field(default_factory=dict)
    on_commit: Callable[[LiveWriter], None] = lambda writer: None
    idle_seconds: float = IDLE_SECONDS
    _taking: Lock = field(default_factory=Lock)
    _heard: float = field(default_factory=time.monotonic)
    _trimmable: int = -1
    _stamped: int | None = None
    """The last arrival as the origin stamped it; after a start it is not known."""
    fault: Exception | None = None
    """What went wrong between micro-batches."""

    def take(self, frames: DataFrame, number: int) -> None:
        """One micro-batch, as `foreachBatch` calls it."""
        with self._taking:
            started = -1
            most_bytes = BATCH_BYTES // max(1, frames.sparkSession.sparkContext.defaultParallelism)
            while True:
                decoder = Decoder(
                    self.writer.positions, self.options, names_files=self.source.names_files, most_bytes=most_bytes
                )
                found = frames.mapInArrow(decoder, TAKEN).toArrow()
                started = min(found["first"].to_pylist(), default=-1) if started < 0 else started
                self._step(settled(found))
                if not pc.any(found["left"]).as_py():
                    break
            self._trim(started)
            self._heard = time.monotonic()

    def _trim(self, started: int) -> None:
        """Let the origin forget what came before the micro-batch before this one: Spark may still ask for that again."""
        if self._trimmable >= 0 and len(self.writer.positions) == 1:
            # An origin that is away just now is told the next time.
            with suppress(LedtoError, OSError):
                self.source.trim(self._trimmable)
        self._trimmable = max(started, self._trimmable)

    def _step(self, found: pa.Table) -> None:
        taken = sorted(found.to_pylist(), key=lambda each: (each["partition"], each["first"]))
        rows = rows_of(each["payload"] for each in taken if each["payload"] is not None)
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
            stamped = rows["arrival"].to_numpy()
            arrival = keep_going(stamped, before=self._stamped, now=self.writer.now)
            self._stamped = int(stamped[-1])
            rows = rows.set_column(rows.column_names.index("arrival"), "arrival", pa.array(arrival))
            now = max(now, int(arrival[-1]))
        if self._committed(rows, now, positions):
            self.on_commit(self.writer)

    def _committed(self, rows: pa.Table, now: int, positions: Mapping[str, int]) -> bool:
        try:
            return self.writer.step(rows, now=now, positions=positions)
        except Exception as fault:
            log.exception("a micro-batch of %d reports failed: %s: %s", len(rows), type(fault).__name__, fault)
            if not blames_reports(fault):
                raise
            self.writer.close()
            self.writer = rescue(self.reopen, rows, now=now, positions=positions, fault=fault)
            return True

    def finish(self) -> None:
        """Wait for the micro-batch that is under way, for a while."""
        if self._taking.acquire(timeout=FINISH_SECONDS):
            self._taking.release()

    def tick(self) -> None:
        """Let the stream's time go on where nothing has been heard for a while.

        HAZARD: only while the source has nothing that is not read. What came before the time to which the stream goes on
        would be taken to have come then, and be late.
        """
        with self._taking:
            silent = time.monotonic() - self._heard - self.idle_seconds
            if silent > 0 and self.writer.now:
                self._heard += silent
                self._advance(REPORTS.empty_table(), self.writer.now + int(silent * 1e9), {})


def settled(found: pa.Table) -> pa.Table:
    """What tasks gave, up to the first frame of each partition that one of them had no room for.

    What others gave of later frames is decoded again: reports count in the order of the frames.
    """
    rows = found.to_pylist()
    ends: dict[str, int] = {}
    for each in rows:
        if each["left"]:
            ends[each["partition"]] = min(each["first"], ends.get(each["partition"], each["first"]))
    kept = [not each["left"] and each["first"] < ends.get(each["partition"], each["first"] + 1) for each in rows]
    return found.filter(pa.array(kept, pa.bool_()))


def follow(
    session: SparkSession,
    source: StreamSource,
    history: str | os.PathLike[str],
    *,
    terms: LiveTerms | None = None,
    limits: LiveLimits | None = None,
    options: Mapping[str, Any] | None = None,
    trigger_seconds: float = 1.0,
    once: bool = False,
    stop: Event | None = None,
    on_commit: Callable[[LiveWriter], None] = lambda writer: None,
) -> None:
    """Keep the live history at `history` up to date with a source, until `stop` is set; `once`: with what is there now.

    Goes on where it stopped, however that was; by itself where the stream failed, because a worker died or the source was
    away, and had committed something since it began. Raises `StreamFailed`, `OtherTerms` for terms that are not those the
    stream began with, and `HistoryInUse` where another is at work on the history.
    """
    ended = stop or Event()
    while True:
        # A writer that was interrupted is not used again: a new one begins with what was committed.
        reopen = partial(LiveWriter, Store(history), terms, limits)
        writer = reopen()
        began = writer.version
        idle_seconds = max(IDLE_SECONDS, IDLE_TRIGGERS * trigger_seconds)
        follower = Follower(writer, reopen, source, options or {}, on_commit, idle_seconds)
        try:
            query = _started(session, source, follower, checkpoint_of(history), trigger_seconds, once)
            failure = _followed(query, follower, once, ended)
            went_on = follower.writer.version > began
        finally:
            follower.writer.close()
        if failure is None:
            return
        reason = f"{source.describe()}: {summarise_failure(failure)}"
        if once or ended.is_set() or not went_on:
            raise StreamFailed(reason) from failure
        log.warning("the stream failed and goes on from its last commit: %s", reason)


def _followed(query: StreamingQuery, follower: Follower, once: bool, ended: Event) -> Exception | None:
    """Wait until the query ends or is to end; gives what it failed with."""
    over = Event()
    ticker = Thread(target=_tick, args=(follower, query, over), daemon=True)
    if not once:
        ticker.start()
    try:
        while query.isActive and not ended.wait(0 if once else 0.2):
            # It raises what `exception` gives below.
            with suppress(StreamingQueryException):
                query.awaitTermination(1)
    finally:
        over.set()
        follower.finish()
        query.stop()
        if ticker.is_alive():
            ticker.join()
    return query.exception() or follower.fault


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
    return chosen.queryName("ledto").start()


def _tick(follower: Follower, query: StreamingQuery, ended: Event) -> None:
    while query.isActive and not ended.wait(IDLE_SECONDS / 2):
        if not _has_read_all(query):
            continue
        try:
            follower.tick()
        except Exception as fault:
            follower.fault = fault
            query.stop()
            return


def _has_read_all(query: StreamingQuery) -> bool:
    """Whether the last trigger found nothing to read; not so before the first has ended, and while one is at work."""
    status = query.status
    return query.lastProgress is not None and not status["isDataAvailable"] and not status["isTriggerActive"]


def journal_of(history: str | os.PathLike[str]) -> Path:
    """Where the files of a followed folder are written down; beside the checkpoint."""
    return Path(Store(history).root) / f"{CHECKPOINT}-files" / "journal"
