"""The Kafka source as far as it can be tested without Kafka: what the connector is given, and what its rows become."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from ledto.spark.stream import FRAMES, StreamSourceError, open_source
from ledto.spark.stream.kafka import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR_SCHEMA = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, timestampType int"
)


def kafka(url: str = "kafka://a:9092,b:9092/reports", **options: object) -> KafkaSource:
    source = open_source(url, options)
    assert isinstance(source, KafkaSource)
    return source


def test_the_connector_is_given_what_was_asked_for_and_loses_nothing_by_default() -> None:
    """With Kafka's own defaults a new query would begin at the end of the topic, and pass over what was deleted."""
    assert kafka().connector_options() == {
        "kafka.bootstrap.servers": "a:9092,b:9092",
        "subscribe": "reports",
        "startingOffsets": "earliest",
        "failOnDataLoss": "true",
        "maxOffsetsPerTrigger": "10000",
    }
    asked = {"startingOffsets": "latest", "minPartitions": 4, "kafka.security.protocol": "SASL_SSL", "format": "otlp"}
    given = kafka(**asked, failOnDataLoss=None).connector_options()
    assert given["startingOffsets"] == "latest"
    assert given["minPartitions"] == "4"
    assert given["kafka.security.protocol"] == "SASL_SSL"
    assert given["failOnDataLoss"] == "true"
    assert "format" not in given


@pytest.mark.parametrize(
    ("url", "options", "complaint"),
    [
        ("kafka://a:9092", {}, "kafka://HOST:PORT"),
        ("kafka:///reports", {}, "kafka://HOST:PORT"),
        ("kafka://a:9092/x/y", {}, "kafka://HOST:PORT"),
        ("kafka://a:9092/reports", {"startingOffset": "latest"}, "no option 'startingOffset'"),
        ("kafka://a:9092/reports", {"format": "avro"}, "no format 'avro'"),
    ],
)
def test_a_topic_that_is_misnamed_is_refused_at_once(url: str, options: dict[str, object], complaint: str) -> None:
    """Not by a consumer that waits for a topic that will never be."""
    with pytest.raises(StreamSourceError, match=complaint):
        kafka(url, **options)
    with pytest.raises(StreamSourceError) as caught:
        kafka("kafka://me:hush@a:9092/reports")
    assert "hush" not in str(caught.value)


def test_records_become_frames(spark: SparkSession) -> None:
    """Times in microseconds or seconds would put every report in another century; a tombstone must not be null."""
    moment = datetime(2024, 5, 1, 12, 0, 0, 123_000, tzinfo=UTC)
    records = spark.createDataFrame(
        [(None, b"abc", "reports", 3, 2**40, moment, 0), (b"k", None, "reports", 0, 0, moment, 1)], CONNECTOR_SCHEMA
    )
    frames = kafka(format="otlp").frames(records)
    assert frames.columns == FRAMES.names
    assert [kind for _, kind in frames.dtypes] == ["string", "bigint", "bigint", "string", "string", "binary"]
    first, second = (tuple(row) for row in frames.collect())
    assert first == ("3", 2**40, 1_714_564_800_123_000_000, "otlp", "kafka:reports", b"abc")
    assert second == ("0", 0, 1_714_564_800_123_000_000, "otlp", "kafka:reports", b"")


def test_without_the_connector_the_error_says_where_it_is(spark: SparkSession) -> None:
    """The connector does not come by pip, so this is the first thing that a user of Kafka sees."""
    with pytest.raises(StreamSourceError, match=r"spark-sql-kafka-0-10_2\.13:" + spark.version):
        kafka().load(spark)
