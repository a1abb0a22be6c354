"""What must be known of all reports before they are cut into windows: two aggregates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own name for it)

from whence.events.schema import COLUMNS
from whence.history.clustered import Clustered
from whence.history.plan import Bins
from whence.history.solving import LARGEST_TIME

ALWAYS = ("computation", "process", "time", "kind", "sends", "receives", "name", "file", "place")
"""Columns that are passed on even if no row has a value."""
OPTIONAL = (
    *("seq", "arrival", "receives_more", "id", "stamp", "attributes"),
    *("clock_name", "instance_key", "instance_parent", "instance_phase", "channel_key", "channel_bytes"),
    *("reason", "text"),
)
"""Columns that are passed on only if some row has a value."""


@dataclass(frozen=True, slots=True)
class Computation:
    """One computation's rows, as counted."""

    name: str
    rows: int
    timed_rows: int
    span_rows: int
    first_time: int | None
    last_time: int | None
    processes: tuple[str, ...]
    """Ascending."""

    @property
    def timed(self) -> bool:
        """Whether it can be cut by time: every row has one, and none is part of a span, of which all must be at hand."""
        return self.timed_rows == self.rows and not self.span_rows


@dataclass(frozen=True, slots=True)
class Survey:
    """What all reports are."""

    reports: int
    bad: int
    """Rows that their source set aside."""
    present: tuple[str, ...]
    """Columns that have a value in some row."""
    large: tuple[Computation, ...]
    """Computations with more rows than a window takes."""
    small_rows: int
    """Rows of all others."""
    computations: int
    all_numbered: bool
    """Whether every row that can be used has a sequence number of its source."""


def survey(reports: DataFrame, *, window_rows: int) -> Survey:
    """Count the reports, in one pass; what comes to the driver is a row a process."""
    told = reports.withColumn("good", F.col("reason").isNull())
    counted = [name for name in OPTIONAL if name in reports.columns] + [
        name for name in reports.columns if name not in COLUMNS
    ]
    good_time = F.when(F.col("good"), F.col("time"))
    per_process = told.groupBy("computation", "process", "good").agg(
        F.count("*").alias("rows"),
        F.count("time").alias("timed"),
        F.count("seq").alias("numbered"),
        F.count("instance_key").alias("spans"),
        F.min(good_time).alias("first"),
        F.max(good_time).alias("last"),
        *(F.count(name).alias(f"n_{at}") for at, name in enumerate(counted)),
    )
    rows = per_process.toArrow()
    present = tuple(name for at, name in enumerate(counted) if pc.sum(rows[f"n_{at}"]).as_py())
    good, bad = rows.filter(rows["good"]), rows.filter(pc.invert(rows["good"]))
    computations = good.group_by("computation").aggregate(
        [("rows", "sum"), ("timed", "sum"), ("spans", "sum"), ("first", "min"), ("last", "max"), ("process", "list")]
    )
    large = computations.filter(pc.greater(computations["rows_sum"], window_rows)).sort_by("computation")
    total = pc.sum(good["rows"]).as_py() or 0
    found = tuple(
        Computation(
            row["computation"],
            row["rows_sum"],
            row["timed_sum"],
            row["spans_sum"],
            row["first_min"],
            row["last_max"],
            tuple(sorted(row["process_list"])),
        )
        for row in large.to_pylist()
    )
    return Survey(
        reports=total + (pc.sum(bad["rows"]).as_py() or 0),
        bad=pc.sum(bad["rows"]).as_py() or 0,
        present=(*ALWAYS, *present),
        large=found,
        small_rows=total - sum(each.rows for each in found),
        computations=len(computations),
        all_numbered=(pc.sum(good["numbered"]).as_py() or 0) == total,
    )


def survey_clusters(session: SparkSession, clustered: Clustered, *, window_rows: int) -> Survey | None:
    """The same for plain Parquet files, of which tasks read the few columns that matter, at a part of the cost.

    None where a row might have to be set aside, or where there are several computations: then all rows are looked at.
    """
    groups = clustered.groups
    mappings = [group.mapping for group in groups]
    if any(each is None or each.known & {"computation", "seq", "stamp"} for each in mappings):
        return None

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                rows = clustered.process_rows(clustered.groups[number]) or {"": 0}
                yield pa.record_batch({"process": list(rows), "rows": pa.array(list(rows.values()), pa.int64())})

    found = session.range(0, len(groups), 1, len(groups)).mapInArrow(look, "process string, rows long").toArrow()
    names = tuple(sorted(pc.unique(found["process"]).to_pylist()))
    rows = sum(group.rows for group in groups)
    if "" in names or pc.sum(found["rows"]).as_py() != rows:
        return None
    times = min(group.first_time for group in groups), max(group.last_time for group in groups)
    large = (Computation("", rows, rows, 0, *times, names),) if rows > window_rows else ()
    further = [name for name in clustered.columns if name not in ALWAYS]
    return Survey(
        reports=rows,
        bad=0,
        present=(*ALWAYS, *further),
        large=large,
        small_rows=0 if large else rows,
        computations=1,
        all_numbered=False,
    )


def bin_of(bins: Bins, *, shift: int = 0) -> Column:
    """The bin of a row's wall time plus `shift`; times outside fall into the first and the last."""
    inside = f"least(greatest(time, {-LARGEST_TIME}), {LARGEST_TIME})"
    # Clamped once more, now to the bins' own range: a difference of times may not fit.
    low, high = bins.start - shift, bins.start - shift + bins.width * bins.count - 1
    return F.expr(f"cast((least(greatest({inside}, {low}), {high}) - ({low})) div {bins.width} as int)")


def histogram(reports: DataFrame, computation: Computation, bins: Bins) -> dict[int, int]:
    """Rows of a computation by bin of wall time."""
    chosen = reports.where(
        F.col("reason").isNull() & F.col("time").isNotNull() & (F.col("computation") == computation.name)
    )
    return {row["bin"]: row["count"] for row in chosen.groupBy(bin_of(bins).alias("bin")).count().collect()}
