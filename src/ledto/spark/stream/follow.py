"""Follow a stream of reports: Spark reads and decodes, and the one writer orders, delivers and commits.

Tasks read and decode each micro-batch. `ledto.live.LiveWriter` on the driver takes the reports, and commits them
together with the positions up to which they go. If a micro-batch runs again, because the driver or anything else was
killed, its frames below these positions are skipped: every report counts once.

A stream waits by its own time, that of the last arrival. If the broker's host sets its clock back by an hour, that time
must not stop for an hour: nothing would be delivered. `raise_arrivals` lets it go on at half the pace of the arrivals
until they have caught up.
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
from ledto.spark.stream.decode import BATCH_BYTES, DECODED_DDL, Decoder, join_payloads

Longs = NDArray[np.int64]

log = logging.getLogger("ledto.spark")

CHECKPOINT = "checkpoint"
"""The folder, within the history, of Spark's own journal of the stream."""
IDLE_SECONDS = 5.0
"""After this long without reports and heartbeats, the stream's time goes on with this machine's clock, this far behind
it."""
IDLE_TRIGGERS = 3
"""The silence must last this many triggers as well."""
FINISH_SECONDS = 3.0
"""How long a running micro-batch may take at the end; a longer one is interrupted, and runs again at the next start."""
SET_BACK_NS = 10_000_000_000
"""An arrival this far before an earlier one comes from a clock that was set back."""
LONGEST_PAUSE_NS = 30_000_000_000
"""Most that one arrival moves the stream's time on while arrivals are behind it; a longer pause is a clock being
corrected."""


class StreamFailed(LedtoError):
    """The stream ended with an error. What was committed stays, and starting it again goes on from there."""


@dataclass(slots=True)
class Follower:
    """Takes micro-batches.

    `on_commit` is called after every commit; `reopen` makes a writer to replace one that failed.
    """

    writer: LiveWriter
    reopen: Callable[[], LiveWriter]
    source: StreamSource
    options: Mapping[str, Any] = field(default_factory=dict)
    on_commit: Callable[[LiveWriter], None] = lambda writer: None
    idle_seconds: float = IDLE_SECONDS
    _busy: Lock = field(default_factory=Lock)
    _heard: float = field(default_factory=time.monotonic)
    _trimmable: int = -1
    _stamped: int | None = None
    """The last arrival as the origin stamped it; None after a start."""
    fault: Exception | None = None
    """What went wrong between micro-batches."""

    def take(self, frames: DataFrame, number: int) -> None:
        """Take one micro-batch. `foreachBatch` calls this."""
        with self._busy:
            started = -1
            most_bytes = BATCH_BYTES // max(1, frames.sparkSession.sparkContext.defaultParallelism)
            while True:
                decoder = Decoder(
                    self.writer.positions, self.options, names_files=self.source.names_files, most_bytes=most_bytes
                )
                decoded = frames.mapInArrow(decoder, DECODED_DDL).toArrow()
                started = min(decoded["first"].to_pylist(), default=-1) if started < 0 else started
                self._step(drop_after_unread(decoded))
                if not pc.any(decoded["unread"]).as_py():
                    break
            self._trim(started)
            self._heard = time.monotonic()

    def _trim(self, started: int) -> None:
        """Let the origin forget what came before the previous micro-batch, which Spark may still read again."""
        if self._trimmable >= 0 and len(self.writer.positions) == 1:
            # An origin that cannot be reached now is trimmed the next time.
            with suppress(LedtoError, OSError):
                self.source.trim(self._trimmable)
        self._trimmable = max(started, self._trimmable)

    def _step(self, decoded: pa.Table) -> None:
        """Join what tasks decoded, and advance the writer."""
        parts = sorted(decoded.to_pylist(), key=lambda part: (part["partition"], part["first"]))
        rows = join_payloads(part["payload"] for part in parts if part["payload"] is not None)
        positions: dict[str, int] = {}
        for part in parts:
            positions[part["partition"]] = max(part["last"], positions.get(part["partition"], -1))
        if len(positions) > 1 and len(rows):
            # Rows of different partitions have no order but that of arrival.
            rows = rows.take(pa.array(np.argsort(rows["arrival"].to_numpy(), kind="stable")))
        now = max([part["now"] for part in parts], default=self.writer.now)
        self._advance(rows, now, positions)

    def _advance(self, rows: pa.Table, now: int, positions: Mapping[str, int]) -> None:
        """Advance the writer with rows whose arrivals never fall."""
        if len(rows):
            stamped = rows["arrival"].to_numpy()
            arrival = raise_arrivals(stamped, before=self._stamped, now=self.writer.now)
            self._stamped = int(stamped[-1])
            rows = rows.set_column(rows.column_names.index("arrival"), "arrival", pa.array(arrival))
            now = max(now, int(arrival[-1]))
        if self._commit(rows, now, positions):
            self.on_commit(self.writer)

    def _commit(self, rows: pa.Table, now: int, positions: Mapping[str, int]) -> bool:
        """Step the writer; if reports make that fail, rescue the others. Returns whether anything was committed."""
        try:
            return self.writer.step(rows, now=now, positions=positions)
        except Exception as fault:
            if not blames_reports(fault):
                raise
            log.exception("a micro-batch of %d reports failed: %s: %s", len(rows), type(fault).__name__, fault)
            self.writer.close()
            self.writer = rescue(self.reopen, rows, now=now, positions=positions, fault=fault)
            return True

    def finish(self) -> None:
        """Wait for the running micro-batch, at most `FINISH_SECONDS`."""
        if self._busy.acquire(timeout=FINISH_SECONDS):
            self._busy.release()

    def tick(self) -> None:
        """Let the stream's time go on if nothing has come for a while.

        HAZARD: call it only if everything of the source is read. A report that came before the new time would count as
        late.
        """
        with self._busy:
            silent = time.monotonic() - self._heard - self.idle_seconds
            if silent > 0 and self.writer.now:
                self._heard += silent
                self._advance(REPORTS.empty_table(), self.writer.now + int(silent * 1e9), {})


def raise_arrivals(arrival: Longs, *, before: int | None, now: int) -> Longs:
    """Give each report an arrival that is never before `now`, nor before the report ahead of it.

    `before` is the last arrival that was stamped before these; None if unknown. If `before` and `now` are passed on, a
    stream gets the same arrivals however it is cut.
    """
    ascending = np.maximum.accumulate(np.maximum(arrival, now))
    behind = ascending - arrival > SET_BACK_NS
    if not behind.any():
        return np.asarray(ascending, np.int64)
    raised, last, stamped = ascending.copy(), now, before
    for row, arrived in enumerate(arrival.tolist()):
        pause = 0 if stamped is None else min(max(arrived - stamped, 0) // 2, LONGEST_PAUSE_NS)
        last = max(arrived, last + (pause if last - arrived > SET_BACK_NS else 0))
        raised[row], stamped = last, arrived
    return raised


def drop_after_unread(decoded: pa.Table) -> pa.Table:
    """Keep what tasks decoded up to the first frame of each partition that one of them did not read.

    What others decoded of later frames is decoded again, because reports count in the order of the frames.
    """
    parts = decoded.to_pylist()
    ends: dict[str, int] = {}
    for part in parts:
        if part["unread"]:
            ends[part["partition"]] = min(part["first"], ends.get(part["partition"], part["first"]))
    kept = [not part["unread"] and part["first"] < ends.get(part["partition"], part["first"] + 1) for part in parts]
    return decoded.filter(pa.array(kept, pa.bool_()))


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
    """Keep the live history at `history` up to date with a source until `stop` is set; with `once`, until all is read.

    Goes on where it stopped, for whatever reason. If the stream fails, because a worker died or the source was away, it
    restarts by itself, provided that it committed something since it began. Raises `StreamFailed`, `OtherTerms` if the
    stream began with other terms, and `HistoryInUse` if another writer has the history.
    """
    ended = stop or Event()
    while True:
        # A writer that failed or was interrupted cannot go on: open a new one at the last commit.
        reopen = partial(LiveWriter, Store(history), terms, limits)
        writer = reopen()
        began = writer.version
        idle_seconds = max(IDLE_SECONDS, IDLE_TRIGGERS * trigger_seconds)
        follower = Follower(writer, reopen, source, options or {}, on_commit, idle_seconds)
        try:
            query = _start(session, source, follower, checkpoint_of(history), trigger_seconds, once)
            failure = _wait_for_end(query, follower, once, ended)
            went_on = follower.writer.version > began
        finally:
            follower.writer.close()
        if failure is None:
            return
        reason = f"{source.describe()}: {summarise_failure(failure, history)}"
        if once or ended.is_set() or not went_on:
            raise StreamFailed(reason) from failure
        log.warning("the stream failed and goes on from its last commit: %s", reason)


def _wait_for_end(query: StreamingQuery, follower: Follower, once: bool, ended: Event) -> Exception | None:
    """Wait until the query ends or is to end; return what it failed with, or None."""
    over = Event()
    ticker = Thread(target=_tick, args=(follower, query, over), daemon=True)
    if not once:
        ticker.start()
    try:
        while query.isActive and not ended.wait(0 if once else 0.2):
            # It raises what `query.exception()` returns below.
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
    """Name the folder of Spark's journal of the stream of a history."""
    return Store(history).place(CHECKPOINT)


def _start(
    session: SparkSession, source: StreamSource, follower: Follower, checkpoint: str, trigger_seconds: float, once: bool
) -> StreamingQuery:
    """Start the streaming query."""
    writing = source.load(session).writeStream.foreachBatch(follower.take).option("checkpointLocation", checkpoint)
    chosen = (
        writing.trigger(availableNow=True) if once else writing.trigger(processingTime=f"{trigger_seconds} seconds")
    )
    return chosen.queryName("ledto").start()


def _tick(follower: Follower, query: StreamingQuery, ended: Event) -> None:
    """Let the stream's time go on from time to time while the query runs; stop the query if that fails."""
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
    """Tell whether the last trigger found nothing to read. False before the first has ended, and while one runs."""
    status = query.status
    return query.lastProgress is not None and not status["isDataAvailable"] and not status["isTriggerActive"]


def journal_of(history: str | os.PathLike[str]) -> Path:
    """Name the journal of a followed folder's files, beside the checkpoint."""
    return Path(Store(history).root) / f"{CHECKPOINT}-files" / "journal"
