"""The same job on a real cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ledto.history.run import Run, open_run
from ledto.history.store import Store
from ledto.simulation.raw_logs import RawLog
from tests.spark.standalone import HOST, standalone_cluster

EPOCH_ROWS = 1_000


@pytest.mark.slow
def test_a_worker_killed_in_mid_job_changes_nothing(tmp_path: Path) -> None:
    """On a cluster that loses a machine, a user would lose the run, or get events twice or in another order."""
    RawLog(processes=8, events=20_000, seed=5, lost=0.01, duplicated=0.01).write_parquet(tmp_path / "log")
    _run(_observe(tmp_path / "log", tmp_path / "local", "local[2]"))
    with standalone_cluster(tmp_path, workers=2) as cluster:
        driver = _observe(tmp_path / "log", tmp_path / "spread", cluster.url)
        _wait_for_segments(driver, tmp_path / "spread", 3)
        assert driver.poll() is None, "the run ended before a worker could be killed"
        cluster.kill_worker()
        _run(driver)
    ours, theirs = open_run(Store(tmp_path / "local")), open_run(Store(tmp_path / "spread"))
    assert len(ours.segments) > 10
    for name in ("ledger", "eps", "lag", "events", "processes", "wall_clock"):
        assert getattr(ours.manifest, name) == getattr(theirs.manifest, name), name
    for name in ("violations", "delays", "late"):
        policies = (each.manifest.policies["cbd-0.5"] for each in (ours, theirs))
        assert len({repr(getattr(each, name)) for each in policies}) == 1, name
    for number in range(len(ours.segments)):
        assert _contents(ours, number).equals(_contents(theirs, number))
        _same_boundaries(ours, theirs, number)


def _observe(log: Path, history: Path, master: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ledto.cli", "observe", str(log), "--to", str(history), "--master", master]
    environment = {**os.environ, "SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable}
    return subprocess.Popen(
        [*command, "--epoch-rows", str(EPOCH_ROWS), "--policy", "cbd:0.5", "--memory", "1g"],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _run(process: subprocess.Popen[str]) -> None:
    said, _ = process.communicate(timeout=240)
    assert process.returncode == 0, said


def _wait_for_segments(driver: subprocess.Popen[str], history: Path, count: int) -> None:
    """Until so many segments have been written: some tasks are done then, and most are not."""
    deadline = time.monotonic() + 120
    while driver.poll() is None and time.monotonic() < deadline:
        if len(list(history.glob("runs/*/skeleton-*"))) >= count:
            return
        time.sleep(0.02)


def _contents(run: Run, number: int) -> pa.Table:
    rows = int(run.segments.rows[number])
    return run.events(number, run.event_schema().names, 0, rows).combine_chunks()


def _same_boundaries(ours: Run, theirs: Run, number: int) -> None:
    rows = int(ours.segments.rows[number])
    skeletons = [run.skeleton(number, 0, rows) for run in (ours, theirs)]
    boundaries = [run.boundary(number) for run in (ours, theirs)]
    assert _same(skeletons, ("process", "offsets", "back"))
    assert _same(boundaries, ("edge_row", "send_position"))
    for vectors in ("known", "send_known"):
        assert _same([getattr(each, vectors) for each in boundaries], ("offsets", "process", "count"))


def _same(pair: list[Any], columns: tuple[str, ...]) -> bool:
    ours, theirs = pair
    return all(np.array_equal(getattr(ours, column), getattr(theirs, column)) for column in columns)
