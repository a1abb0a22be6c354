from __future__ import annotations

import getpass
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from ledto.clocks import LamportClock, LamportStamp
from ledto.spark.session.session import spark_session

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
        again = spark_session(master="local[2]", config={"spark.sql.shuffle.partitions": 7, "spark.ledto.flag": True})
        assert again.sparkContext is spark.sparkContext
        assert again.conf.get("spark.sql.shuffle.partitions") == "7"
        assert again.conf.get("spark.ledto.flag") == "true"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
        spark.conf.unset("spark.ledto.flag")


@pytest.mark.slow
def test_temporary_files_are_private_whatever_the_umask_and_go_at_an_interrupt(tmp_path: Path) -> None:
    """On a machine with other users, they would read a log from the temporary files of its run; or the disk would fill."""
    (tmp_path / "here").mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        cwd=tmp_path / "here",
        env={**os.environ, "TMPDIR": str(tmp_path), "SPARK_LOCAL_DIRS": str(tmp_path / "fast disk")},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    *told, last = ended.stdout.splitlines()
    seen = {name: Path(path) for name, path in (line.split(" ", 1) for line in told)}
    for name in ("spark.local.dir", "java.io.tmpdir"):
        assert seen[name].parent == tmp_path / "fast disk"
        assert not seen[name].exists(), "it goes with the run"
    assert last == "private"
    assert [*(tmp_path / "here").iterdir()] == [], "a table that was made is not in the current folder"
    assert {path.name for path in tmp_path.iterdir()} <= {"here", "fast disk", f"hsperfdata_{getpass.getuser()}"}
    assert [*(tmp_path / "fast disk").iterdir()] == []
    assert ended.returncode in (130, -signal.SIGINT)


INTERRUPTED = """
import os, signal
# Who runs the tests in the background of a shell has them ignore interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)
os.umask(0)
from ledto.spark.sweep import borrowed_session

with borrowed_session(master="local[1]") as session:
    session.range(1000).repartition(3).write.saveAsTable("made")
    context = session.sparkContext
    local = context.getConf().get("spark.local.dir")
    print("spark.local.dir", local)
    print("java.io.tmpdir", context._jvm.System.getProperty("java.io.tmpdir"))
    print("private" if os.stat(local).st_mode & 0o777 == 0o700 else oct(os.stat(local).st_mode), flush=True)
    signal.raise_signal(signal.SIGINT)
"""
