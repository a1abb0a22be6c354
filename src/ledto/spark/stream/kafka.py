"""Read a Kafka topic as a source, through Spark's own connector, whose rows become `FRAMES`.

The connector is a Java archive that pip does not install. Name it to Spark when the session starts, in the version of
Spark: ``spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0``.

HAZARD: this source has not been run against a Kafka broker. Tests check that the connector gets these options, that its
documented columns become `FRAMES`, and that a missing connector is an error that says what to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own name for it)

from ledto.sources.registry import SOURCES
from ledto.spark.stream.contract import FRAMES, ROWS, StreamSourceError, refuse_unknown

OPTIONS: Final = (
    "format",
    "startingOffsets",
    "startingTimestamp",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "groupIdPrefix",
)
"""The options besides those that begin with ``kafka.``, which go to the Kafka client as they are."""

_CLIENT: Final = "kafka."
_DEFAULTS: Final = {"startingOffsets": "earliest", "failOnDataLoss": "true", "maxOffsetsPerTrigger": "10000"}


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """A topic: a record is a row, its partition and offset are `partition` and `sequence`, its time is `arrival`.

    Offsets order the records of one partition only. `arrival` is in nanoseconds, with Kafka's precision of
    milliseconds. It is the producer's time unless the topic has ``message.timestamp.type=LogAppendTime``, which it
    should have.
    """

    servers: str
    topic: str
    options: Mapping[str, Any] = field(repr=False)

    @classmethod
    def at(cls, url: str, options: Mapping[str, Any]) -> KafkaSource:
        """Parse ``kafka://HOST:PORT,HOST:PORT/TOPIC``, and check the options."""
        parts = urlsplit(url)
        topic = parts.path.strip("/")
        if not parts.netloc or "@" in parts.netloc or not topic or "/" in topic or parts.query or parts.fragment:
            raise StreamSourceError(
                "a topic is named as kafka://HOST:PORT,HOST:PORT/TOPIC, and credentials are given as options that "
                f"begin with kafka.; this is not: kafka://{parts.netloc.rpartition('@')[2]}{parts.path}"
            )
        set_options = {name: value for name, value in options.items() if value is not None}
        refuse_unknown(
            {name: value for name, value in set_options.items() if not name.startswith(_CLIENT)},
            OPTIONS,
            what="a Kafka topic, beside those that begin with kafka.,",
        )
        format = set_options.get("format", ROWS)
        if format != ROWS and format not in SOURCES:
            raise StreamSourceError(f"there is no format {format!r}; there are {', '.join((ROWS, *SOURCES))}")
        return cls(parts.netloc, topic, set_options)

    @property
    def name(self) -> str:
        """The name of the source, and the `origin` of its rows."""
        return f"kafka:{self.topic}"

    @property
    def names_files(self) -> bool:
        """False: payloads are the messages themselves."""
        return False

    def describe(self) -> str:
        """Say where the records come from."""
        return f"records of the Kafka topic {self.topic} at {self.servers}"

    def connector_options(self) -> dict[str, str]:
        """List the options for Spark's connector."""
        set_options = {name: str(value) for name, value in self.options.items() if name != "format"}
        address = {"kafka.bootstrap.servers": self.servers, "subscribe": self.topic}
        return _DEFAULTS | set_options | address

    def frames(self, records: DataFrame) -> DataFrame:
        """Turn the connector's rows into `FRAMES`. A record without a value has an empty payload, and no report."""
        columns = {
            "partition": F.col("partition").cast("string"),
            "sequence": F.col("offset"),
            "arrival": F.unix_micros("timestamp") * 1000,
            "format": F.lit(self.options.get("format", ROWS)),
            "origin": F.lit(self.name),
            "payload": F.coalesce(F.col("value"), F.expr("X''")),
        }
        return records.select(*(columns[name].alias(name) for name in FRAMES.names))

    def load(self, session: SparkSession) -> DataFrame:
        """Make the streaming DataFrame: a row for each record; tasks read the topic's partitions."""
        try:
            records = session.readStream.format("kafka").options(**self.connector_options()).load()
        except AnalysisException as fault:
            if "kafka" not in str(fault).lower() or "find" not in str(fault).lower():
                raise
            raise StreamSourceError(
                "Spark has no Kafka connector; start it with spark.jars.packages="
                f"org.apache.spark:spark-sql-kafka-0-10_2.13:{session.version}, or put the archive into spark.jars"
            ) from None
        return self.frames(records)

    def trim(self, upto: int) -> None:
        """Do nothing: a topic forgets by its own retention, which must be longer than the stream may stop."""
