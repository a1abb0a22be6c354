"""Traces that link to each other become one computation, so that their events can be related."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own name for it)

from whence.events.schema import SPAN
from whence.history.batch.linking import INSTANCE_KEYS, components
from whence.history.instancing import OF_TRACE


def link_traces(session: SparkSession, reports: DataFrame) -> DataFrame:
    """The reports, in which traces with links between them are one computation, called as the first of them by name.

    What comes to the driver is a row for each pair of traces that are linked.
    """
    is_start = F.col("instance_phase").isNotNull() & F.col("receives").isNotNull() & F.col("reason").isNull()
    keys = F.concat(F.array("receives"), F.coalesce("receives_more", F.array().cast("array<string>")))
    linked = reports.where(is_start).select("computation", F.explode(keys).alias("key"))
    other = F.substring_index(F.substring(F.col("key"), len(SPAN) + 1, 1 << 20), "/", 1)
    pairs = linked.where(F.col("key").startswith(SPAN)).select("computation", other.alias("other"))
    pairs = pairs.where(F.col("computation") != F.col("other")).distinct()
    if pairs.isEmpty():
        return reports
    # What nobody reported connects nothing, and gives nothing its name.
    reported = reports.where(F.col("reason").isNull()).select(F.col("computation").alias("other")).distinct()
    pairs = pairs.join(reported, "other", "left_semi")
    names = components((row.computation, row.other) for row in pairs.collect())
    if not names:
        return reports
    renamed = session.createDataFrame(list(names.items()), "trace string, linked string")
    joined = reports.join(F.broadcast(renamed), F.col("computation") == F.col("trace"), "left")
    is_linked = F.col("linked").isNotNull()
    for column in INSTANCE_KEYS:
        within = F.concat(F.col("trace"), F.lit(OF_TRACE), F.col(column))
        joined = joined.withColumn(column, F.when(is_linked, within).otherwise(F.col(column)))
    joined = joined.withColumn("computation", F.coalesce("linked", "computation"))
    return joined.select(*reports.columns)
