"""Count the reports, and send each to the windows that need it.

These are its own, and a neighbour's if it is within eps of the cut. `survey` and `histogram` count what must be known
before windows can be planned.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (Spark's own name for it)

from ledto.batch.survey import Computation, Survey, counted_columns, survey_from
from ledto.history.window.columns import LARGEST_TIME
from ledto.history.window.plan import Epochs, TimeBins, WindowPlan


def survey(reports: DataFrame, *, window_rows: int) -> Survey:
    """Count the reports by process in one pass. The driver gets one row for each process."""
    judged = reports.withColumn("good", F.col("reason").isNull())
    counted = counted_columns(reports.columns)
    good_time = F.when(F.col("good"), F.col("time"))
    per_process = judged.groupBy("computation", "process", "good").agg(
        F.count("*").alias("rows"),
        F.count("time").alias("timed"),
        F.count("seq").alias("numbered"),
        F.min(good_time).alias("first"),
        F.max(good_time).alias("last"),
        *(F.count(name).alias(f"n_{number}") for number, name in enumerate(counted)),
    )
    return survey_from(per_process.toArrow(), counted, window_rows=window_rows)


def bin_of(bins: TimeBins, *, shift: int = 0) -> Column:
    """Compute the bin of a row's wall time plus `shift`; times outside fall into the first and the last."""
    inside = f"least(greatest(time, {-LARGEST_TIME}), {LARGEST_TIME})"
    # Clamped once more, to the range of the bins: a difference of times may overflow.
    low, high = bins.start - shift, bins.start - shift + bins.width * bins.count - 1
    return F.expr(f"cast((least(greatest({inside}, {low}), {high}) - ({low})) div {bins.width} as int)")


def histogram(reports: DataFrame, computation: Computation, bins: TimeBins) -> dict[int, int]:
    """Count the rows of a computation by bin of wall time."""
    chosen = reports.where(
        F.col("reason").isNull() & F.col("time").isNotNull() & (F.col("computation") == computation.name)
    )
    return {row["bin"]: row["count"] for row in chosen.groupBy(bin_of(bins).alias("bin")).count().collect()}


def place_by_window(reports: DataFrame, plan: WindowPlan, columns: Sequence[str]) -> DataFrame:
    """Add ``window`` and ``own`` to these columns of the reports, with one partition for each window.

    A report within eps of a cut is in both windows, and ``own`` in the one whose epoch has its wall time. This is the
    only shuffle of a run: nothing is joined, and nothing is sorted.
    """
    if not plan.large:
        placed = reports.select(*columns, _shared_window(plan).alias("window"))
        return placed.repartitionById(plan.windows, F.col("window"))
    epoch = _by_computation(plan, 0)
    windows = F.sequence(_by_computation(plan, -plan.eps), _by_computation(plan, plan.eps))
    spread = reports.select(*columns, epoch.alias("epoch"), F.explode(windows).alias("window"))
    placed = spread.select(*columns, "window", (F.col("window") == F.col("epoch")).alias("own"))
    return placed.repartitionById(plan.windows, F.col("window"))


def _by_computation(plan: WindowPlan, shift: int) -> Column:
    """Compute the window of the epoch that holds a row's wall time plus `shift`."""
    chosen = _shared_window(plan)
    for epochs in plan.large:
        in_computation = (F.col("computation") == epochs.computation) & F.col("reason").isNull()
        chosen = F.when(in_computation, _window(plan, epochs, shift)).otherwise(chosen)
    return chosen


def _shared_window(plan: WindowPlan) -> Column:
    """Compute the window of a whole computation, by its name.

    Rows that a source quarantined go anywhere, since nothing is solved with them.
    """
    windows = max(1, plan.shared)
    # The inline engine uses the same hash (`ledto.batch.inline.window_of`).
    by_name = F.pmod(F.crc32("computation"), F.lit(windows))
    anywhere = F.pmod(F.crc32(F.concat_ws(":", "file", "place")), F.lit(plan.windows))
    return F.when(F.col("reason").isNull(), by_name).otherwise(anywhere).cast("int")


def _window(plan: WindowPlan, epochs: Epochs, shift: int) -> Column:
    """Compute the window within a computation that has several epochs."""
    first = plan.first_window(epochs)
    if len(epochs.first_bins) == 1:
        return F.lit(first)
    by_bin = F.array(*(F.lit(first + epoch) for epoch in epochs.epoch_of_bins()))
    return F.get(by_bin, bin_of(epochs.bins, shift=shift))
