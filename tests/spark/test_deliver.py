"""Delivery on Spark, from files and into files: against one table at once, and against reachability."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
import pytest

from ledto.causality.bounded_stamps import eps_ticks, stamp_rows
from ledto.causality.skeleton import Skeleton
from ledto.delivery.batch import deliver_batch
from ledto.delivery.policies import DAPW
from ledto.events.columns import ReportArrays
from ledto.history import layout
from ledto.history.run import open_run
from ledto.history.store import Store
from tests.history.building import Made, draw, write_history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPS, TICK = 12, 2


def consistent_cuts(events: list[Made], random: Random, count: int) -> list[int]:
    times = sorted(event.causal_time for event in events)
    return random.sample([at for at in range(1, len(times)) if times[at] > times[at - 1]], count)


def whole_order(events: list[Made]) -> list[Made]:
    """One computation's events, in history order, as one table delivers them."""
    place = {id(event): at for at, event in enumerate(events)}
    names = sorted({event.process for event in events})
    offsets = np.cumsum([0] + [len(event.causes) for event in events])
    back = [place[id(event)] - place[id(cause)] for event in events for cause in event.causes]
    process = np.array([names.index(event.process) for event in events], np.int32)
    causal = np.array([event.causal_time for event in events], np.int64)
    time = np.array([event.causal_time if event.time is None else event.time for event in events], np.int64)
    stamps = stamp_rows(Skeleton(process, offsets, np.array(back, np.int64)), time, causal, eps=EPS, tick=TICK)
    seq = np.array([event.index for event in events], np.int64)
    reports = ReportArrays(process, seq, stamps.r, stamps.c, stamps.kn, time // TICK)
    found = deliver_batch(reports, DAPW(0.1, eps_ticks(EPS, TICK), 0))
    return [events[row] for row in found.order]


def pairs_inverted(order: list[Made]) -> int:
    return sum(later.happened_before(earlier) for at, earlier in enumerate(order) for later in order[at + 1 :])


def test_a_history_delivered_by_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """A run on Spark would give other deliveries, or other counts, than the observer that users tried first."""
    from ledto.batch.deliver import deliver
    from ledto.spark.engine import SparkEngine

    random = Random(5)
    large = draw(random, "large", 4, 300)
    small = [draw(random, f"small-{number}", 3, 20) for number in range(4)]
    history = write_history(tmp_path / "h", [(large, consistent_cuts(large, random, 4))], [small])
    store = Store(tmp_path / "h")
    run = open_run(store)
    folder = tmp_path / "h" / layout.run_folder(run.name)
    segments, processes = (pq.read_table(folder / run.table_file(name)) for name in ("segments", "processes"))
    heard: list[tuple[int, int]] = []
    told = deliver(
        SparkEngine(spark), store, run.name, segments, processes, ["dapw:0.1", "exact"], eps=EPS, tick=TICK,
        on_progress=lambda done, total: heard.append((done, total)),
    )  # fmt: skip

    assert heard[-1] == (2 * segments.num_rows, 2 * segments.num_rows)
    entry = told.policies["dapw-0.1"]
    assert (entry.arrival, entry.delta, entry.undelivered) == ("assumed at once", None, 0)
    assert set(entry.files) < {path.name for path in folder.iterdir()}
    lines = [line for name in entry.files for line in pq.read_table(folder / name).to_pylist()]
    assert len(lines) == len(history)
    orders: dict[str, list[Made]] = defaultdict(list)
    for _, event in sorted(
        zip(lines, history, strict=True), key=lambda each: (each[0]["at"], each[0]["lead"], each[0]["tie"])
    ):
        orders[event.computation].append(event)
    for computation, order in orders.items():
        mine = [event for event in history if event.computation == computation]
        assert [event.position for event in order] == [event.position for event in whole_order(mine)]
    violations = entry.violations
    pairs = sum(map(pairs_inverted, orders.values()))
    assert violations["pairs"] == pairs
    assert pairs > 0
    assert violations["events"] == len(history)
    assert told.policies["exact"].violations["pairs"] == 0
    waits = sorted(line["waited"] for line in lines)
    assert entry.delays["p50"] == waits[(len(waits) + 1) // 2 - 1]
    assert (entry.delays["max"], entry.delays["exact"]) == (waits[-1], True)

    by_time: dict[str, list[Made]] = defaultdict(list)
    for event in sorted(history, key=lambda each: (_reading(each), each.process, each.index)):
        by_time[event.computation].append(event)
    pairs = sum(map(pairs_inverted, by_time.values()))
    assert told.wall_clock.violations["pairs"] == pairs
    assert pairs > 0
    gaps = [_reading(cause) - _reading(event) for event in history for cause in event.causes]
    assert told.wall_clock.messages_before_cause == sum(gap > 0 for gap in gaps)
    assert (told.wall_clock.ties, told.wall_clock.earlier_by) == (gaps.count(0), max(gaps))

    again = deliver(SparkEngine(spark), store, run.name, segments, processes, ["dapw:0.1"], eps=EPS, tick=TICK)
    assert not set(entry.files) & set(again.policies["dapw-0.1"].files)


def _reading(event: Made) -> int:
    return event.causal_time if event.time is None else event.time


def test_a_policy_that_does_not_exist_costs_no_job(spark: SparkSession, tmp_path: Path) -> None:
    """A misspelt policy would be noticed after an hour of work."""
    from ledto.batch.deliver import deliver
    from ledto.spark.engine import SparkEngine

    nothing = layout.SEGMENTS.empty_table()
    with pytest.raises(ValueError, match="no delivery policy is called 'cdb'"):
        deliver(SparkEngine(spark), Store(tmp_path), "r", nothing, layout.PROCESSES.empty_table(), ["cdb:0.3"], eps=1)
