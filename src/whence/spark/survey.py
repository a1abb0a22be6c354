"""What must be known of all reports before they are cut into windows: two aggregates."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (Spark's own name for it)

from whence.history.batch.survey import Computation, Survey, counted_columns, survey_from
from whence.history.plan import Bins
from whence.history.report_columns import LARGEST_TIME


def survey(reports: DataFrame, *, window_rows: int) -> Survey:
    """Count the reports, in one pass; what comes to the driver is a row a process."""
    told = reports.withColumn("good", F.col("reason").isNull())
    counted = counted_columns(reports.columns)
    good_time = F.when(F.col("good"), F.col("time"))
    per_process = told.groupBy("computation", "process", "good").agg(
        F.count("*").alias("rows"),
        F.count("time").alias("timed"),
        F.count("seq").alias("numbered"),
        F.min(good_time).alias("first"),
        F.max(good_time).alias("last"),
        *(F.count(name).alias(f"n_{at}") for at, name in enumerate(counted)),
    )
    return survey_from(per_process.toArrow(), counted, window_rows=window_rows)


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
