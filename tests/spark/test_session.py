from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from whence.clocks import LamportClock, LamportStamp
from whence.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_stamps_survive_the_trip_through_a_worker(spark: SparkSession) -> None:
    """Every pipeline moves stamps as binary columns; a changed byte there would change what caused what."""
    clocks = [LamportClock(name) for name in ("order", "stock", "zahlung-ä")]
    stamps = [clock.local() for clock in clocks for _ in range(200)]
    stamps += [receiver.receive(stamps[-1]) for receiver in clocks]

    def decode_and_encode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            read = [LamportStamp.from_bytes(raw) for raw in batch["stamp"].to_pylist()]
            columns = [[s.time for s in read], [s.process for s in read], [s.to_bytes() for s in read]]
            yield pa.RecordBatch.from_arrays([pa.array(column) for column in columns], ["time", "process", "stamp"])

    rows = spark.createDataFrame([(stamp.to_bytes(),) for stamp in stamps], "stamp binary")
    back = rows.mapInArrow(decode_and_encode, "time long, process string, stamp binary").collect()
    assert {LamportStamp(row.time, row.process) for row in back} == set(stamps)
    assert sorted(bytes(row.stamp) for row in back) == sorted(stamp.to_bytes() for stamp in stamps)


def test_local_sessions_are_closed_to_the_network_and_sized_to_the_cores(spark: SparkSession) -> None:
    """An open UI or driver port would expose the data; by default every small job would run 200 tasks."""
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.driver.bindAddress") == conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


def test_a_running_session_is_shared_and_its_settings_can_be_changed(spark: SparkSession) -> None:
    """Two parts of one program that each ask for a session must not start two Javas."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        again = spark_session(master="local[2]", config={"spark.sql.shuffle.partitions": 7, "spark.whence.flag": True})
        assert again.sparkContext is spark.sparkContext
        assert again.conf.get("spark.sql.shuffle.partitions") == "7"
        assert again.conf.get("spark.whence.flag") == "true"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
        spark.conf.unset("spark.whence.flag")
