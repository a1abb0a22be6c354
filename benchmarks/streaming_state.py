"""The stream against the same observer as Spark's operator for state would have it."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from benchmarks.histories import folder, is_trial, session
from benchmarks.report import Goal, Section
from benchmarks.service import CoreTime, publish, served
from benchmarks.stateful_observers import DELIVERY, NAMES, REPORT, InBlob, InList, ThroughList
from benchmarks.stream_reports import stream_reports
from benchmarks.streaming import ARRIVAL_RATE, LISTENER_SECONDS, TERMS, Drained, Listener, drain, later

TIMES = 5
MESSAGE = 100
SMALL, LARGE = ARRIVAL_RATE, 5 * ARRIVAL_RATE
"""Reports of a micro-batch: those of a second, and of five."""
WARM_UP = 20_000
STATE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # What changed is uploaded in place of whole files: the cheapest commit there is.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


def section() -> Section:
    scale = 4 if is_trial() else 1
    small, large = SMALL // scale, LARGE // scale
    sizes = {small: 4 * small, large: 2 * large}
    rows = stream_reports(sizes[small] + sizes[large], start_ns=time.time_ns(), rate=ARRIVAL_RATE)
    parts = {small: rows.slice(0, sizes[small]), large: rows.slice(sizes[small])}
    path = Path(tempfile.mkdtemp(prefix="state-", dir=folder()))
    found: dict[tuple[str, int], Drained] = {}
    with served("state", "--no-stream") as service:
        history = service.history.parent / "live"
        publish(service, later(rows.slice(0, WARM_UP)))
        drain(service, history, reports=WARM_UP)
        for batch_rows, some in parts.items():
            # Another stream of the same reports: what was closed before would be a duplicate.
            some = some.set_column(0, "computation", pa.array([f"of {batch_rows}"] * len(some)))
            publish(service, later(some))
            drained = drain(service, history, reports=len(some), messages=batch_rows // MESSAGE)
            found["foreachBatch", batch_rows] = drained
            _tell("foreachBatch", batch_rows, drained)
    for warmed in (InList, InBlob):
        stateful(rows.slice(0, WARM_UP), warmed, path / f"warm-{warmed.__name__}", batch_rows=WARM_UP // 2)
    ways: list[tuple[type[StatefulProcessor], int]] = [
        (InBlob, small),
        (InBlob, large),
        (InList, small),
        (InList, large),
        (ThroughList, small),
    ]
    for number, (processor, batch_rows) in enumerate(ways):
        some = parts[batch_rows]
        if processor is ThroughList:
            some = some.slice(0, 2 * batch_rows)
        name = processor.__name__
        found[name, batch_rows] = stateful(some, processor, path / str(number), batch_rows=batch_rows)
        _tell(name, batch_rows, found[name, batch_rows])
    shutil.rmtree(path)
    best = {name: max(each.rate for (of, _), each in found.items() if of == name) for name, _ in found}
    ours, list_state = found["foreachBatch", small], found["InList", small]
    ratio, like = best["foreachBatch"] / best["InList"], ours.rate / list_state.rate
    through = ours.rate / found["ThroughList", small].rate
    names = {
        "foreachBatch": "the stream: `foreachBatch`, and a carry with each commit",
        "InList": "list state, of what is not due at the end of a micro-batch",
        "ThroughList": "list state, of every report",
        "InBlob": "one value with all that waits, pickled",
    }
    return Section(
        "The stream's state",
        "The same reports, delivered by the stream, and by `transformWithStateInPandas` with RocksDB (changelog checkpoints), grouped "
        "by computation, of which there is one. The latter does less: it gets decoded rows from Parquet files with the time at which "
        "each is due, and writes those that are due, in order, to Parquet files. It matches no messages, orders nothing causally, "
        "drops no duplicates, checks nothing and writes no history. Reports/s from the first micro-batch to the end of the last, "
        f"after a warm-up; reports came at up to {ARRIVAL_RATE:,}/s, so that some {ARRIVAL_RATE * 55 // 100:,} of them wait at any time.",
        (
            "",
            f"{small:,} reports a micro-batch: reports/s",
            "us of a core a report",
            f"{large:,}: reports/s",
            "us of a core a report",
        ),
        [
            (text, *(cell for size in (small, large) for cell in _cells(found.get((name, size)))))
            for name, text in names.items()
        ],
        [
            Goal(
                f"at least {TIMES}x list state, each at its better size",
                f"{ratio:.1f}x; {like:.1f}x with {small:,} reports a micro-batch",
                ratio >= TIMES,
            ),
            Goal(
                f"at least {TIMES}x list state that every report passes through",
                f"{through:.1f}x with {small:,} reports a micro-batch",
                through >= TIMES,
            ),
        ],
        "Time of cores is that of Python, Java and, for the stream, the broker.",
    )


def _tell(name: str, batch_rows: int, found: Drained) -> None:
    rate, core = found.rate, found.core_seconds / found.reports * 1e6
    print(f"  {name}, {batch_rows:,} a micro-batch: {rate:,.0f} reports/s, {core:.0f} us of a core each", flush=True)


def _cells(found: Drained | None) -> tuple[object, object]:
    return ("", "") if found is None else (round(found.rate), found.core_seconds / found.reports * 1e6)


def write_files(rows: pa.Table, path: Path, *, file_rows: int) -> None:
    """The rows as Parquet files, in order, with the time at which each is due."""
    path.mkdir(parents=True)
    due = pa.array(rows["time"].to_numpy() + TERMS.eps + TERMS.delta)
    rows = rows.append_column("due", due).select(NAMES)
    for number, first in enumerate(range(0, len(rows), file_rows)):
        pq.write_table(rows.slice(first, file_rows), path / f"part-{number:05d}.parquet")


def stateful(rows: pa.Table, processor: type[StatefulProcessor], path: Path, *, batch_rows: int) -> Drained:
    """Deliver these rows by a processor."""
    spark, listener = session(), Listener()
    write_files(rows, path / "in", file_rows=batch_rows)
    spark.streams.addListener(listener)
    before = {name: spark.conf.get(name, None) for name in STATE}
    for name, value in STATE.items():
        spark.conf.set(name, value)
    try:
        reports = spark.readStream.schema(REPORT).option("maxFilesPerTrigger", 1).parquet(str(path / "in"))
        delivered = reports.groupBy("computation").transformWithStateInPandas(
            processor(), outputStructType=DELIVERY, outputMode="Append", timeMode="None"
        )
        writing = delivered.writeStream.format("parquet").outputMode("append").trigger(availableNow=True)
        with CoreTime() as cores:
            query = writing.option("checkpointLocation", str(path / "checkpoint")).start(str(path / "out"))
            query.awaitTermination()
        listener.ended.wait(LISTENER_SECONDS)
    finally:
        spark.streams.removeListener(listener)
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)
    _check(rows, path / "out")
    return Drained(len(rows), listener.batches, core_seconds=cores.seconds)


def _check(rows: pa.Table, out: Path) -> None:
    """What came out is what was due by the end."""
    last = int(rows["arrival"].to_numpy()[-1])
    due = int(np.sum(rows["time"].to_numpy() + TERMS.eps + TERMS.delta <= last))
    found = sum(pq.read_metadata(each).num_rows for each in out.glob("*.parquet"))
    if found != due:
        raise AssertionError(f"{due:,} reports were due, and {found:,} delivered")
