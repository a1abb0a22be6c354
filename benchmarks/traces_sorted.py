"""What a user of Spark would do with traces: ``python -m benchmarks.traces_sorted FOLDER TARGET``.

Reads OTLP in JSON lines, makes one row of each span's start and one of its end, and writes them by time as Parquet.
"""

from __future__ import annotations

import sys

from pyspark.sql import functions as F  # noqa: N812  (Spark's own name for it)

from ledto.sources.inputs import find_inputs
from ledto.spark.engine import is_brief
from ledto.spark.session.session import spark_session

MEMORY = "2g"
"""As `ledto observe` has it if nobody says otherwise."""

_VALUE = "struct<stringValue: string, intValue: string, doubleValue: double, boolValue: boolean>"
_ATTRIBUTES = f"array<struct<key: string, value: {_VALUE}>>"
_EVENTS = f"array<struct<timeUnixNano: string, name: string, attributes: {_ATTRIBUTES}>>"
_SPAN = f"""struct<
    traceId: string, spanId: string, parentSpanId: string, name: string, kind: int,
    startTimeUnixNano: string, endTimeUnixNano: string, attributes: {_ATTRIBUTES}, events: {_EVENTS},
    links: array<struct<traceId: string, spanId: string>>, status: struct<code: int, message: string>
>"""
_RESOURCE = f"struct<resource: struct<attributes: {_ATTRIBUTES}>, scopeSpans: array<struct<spans: array<{_SPAN}>>>>"
SCHEMA = f"resourceSpans array<{_RESOURCE}>"


def main(source: str, target: str) -> None:
    """Write the rows of the traces in a folder, sorted by time."""
    brief = is_brief(find_inputs([source]))
    spark = spark_session("sort-traces", config={"spark.driver.memory": MEMORY}, brief=brief)
    instance = F.filter("resource.attributes", lambda pair: pair["key"] == "service.instance.id")
    spans = (
        spark.read.schema(SCHEMA)
        .json(source)
        .select(F.inline("resourceSpans"))
        .select(instance[0]["value"]["stringValue"].alias("process"), F.explode("scopeSpans.spans").alias("spans"))
        .select("process", F.inline("spans"))
    )
    start = F.struct(
        F.lit("start").alias("phase"),
        F.col("startTimeUnixNano").cast("long").alias("time"),
        F.lit(None).cast(_ATTRIBUTES).alias("attributes"),
        F.lit(None).cast(_EVENTS).alias("events"),
    )
    end = F.struct(
        F.lit("end").alias("phase"),
        F.col("endTimeUnixNano").cast("long").alias("time"),
        F.col("attributes"),
        F.col("events"),
    )
    rows = spans.select(
        "process", "traceId", "spanId", "parentSpanId", "name", "kind", "links", "status", F.inline(F.array(start, end))
    )
    rows.sort("time").write.parquet(target)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
