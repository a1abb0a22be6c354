from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from ledto.batch.join import EpsTooSmall
from ledto.batch.observe import Delivering, NothingDelivered
from ledto.durations import read_duration
from ledto.history.errors import HistoryError
from ledto.history.run import Run, open_run
from ledto.history.store import Store
from ledto.simulation.raw_logs import RawLog
from ledto.spark import engine
from tests.history.computations import relations_of
from tests.spark.running import explain, observe

LOG = RawLog(
    processes=7, events=1_500, seed=3, eps_ns=2_000_000, lost=0.02, duplicated=0.05, multicast=0.1, with_seq=True
)
CUT = 100


def true_relations(log: RawLog) -> dict[str, set[str]]:
    """By event that was reported: its past among such events, by every path."""
    truth = log.truth()
    reported = np.zeros(len(truth.process), np.bool_)
    reported[truth.row_event] = True
    names = [f"p{process}-{seq}" for process, seq in zip(truth.process, truth.seq, strict=True)]
    causes: list[list[int]] = [[] for _ in names]
    latest: dict[int, int] = {}
    for cause, effect in truth.edges.tolist():
        if truth.process[cause] != truth.process[effect] or truth.seq[cause] + 1 != truth.seq[effect]:
            causes[effect].append(cause)
    past: list[set[int]] = [set() for _ in names]
    for event in range(len(names)):
        if not reported[event]:
            continue
        before = [cause for cause in causes[event] if reported[cause]]
        before += [latest[truth.process[event]]] if truth.process[event] in latest else []
        for each in before:
            past[event] |= past[each] | {each}
        latest[truth.process[event]] = event
    return {names[event]: {names[each] for each in past[event]} for event in np.flatnonzero(reported).tolist()}


def opened(path: Path) -> Run:
    return open_run(Store(path))


def test_however_it_is_cut_the_relations_are_the_true_ones(session, tmp_path: Path, monkeypatch) -> None:
    """A user would be told causes that depend on the size of his cluster, or that are none."""
    LOG.write_parquet(tmp_path / "log", rows_per_file=300)
    expected = true_relations(LOG)
    manifests = []
    orders = []
    for name, rows, most_read in (("read by its tasks", CUT, 1_000), ("sent by Spark", CUT, 0), ("whole", 10_000, 0)):
        monkeypatch.setattr(engine, "MOST_READ", most_read)
        if session is not None:
            plan = explain(session, [str(tmp_path / "log")], tmp_path / name, epoch_rows=rows)
            assert ("Exchange" in plan) == (most_read == 0)
        manifests.append(observe(session, [str(tmp_path / "log")], tmp_path / name, epoch_rows=rows))
        order, found = relations_of(opened(tmp_path / name))
        assert found == expected
        orders.append(order)
    assert orders[0] == orders[1] == orders[2]
    cut, sent, whole = manifests
    assert cut.segments > 5
    assert sent.segments > 5
    assert whole.segments == 1
    for other in (cut, sent):
        for key in ("ledger", "lag", "eps", "wall_clock"):
            assert getattr(other, key) == getattr(whole, key)
        assert replace(other.policies["exact"], files=()) == replace(whole.policies["exact"], files=())
    rows = LOG.table().num_rows
    ledger = cut.ledger
    assert ledger.reports == rows == ledger.delivered + ledger.duplicate + ledger.quarantined
    assert ledger.delivered == len(expected)
    assert ledger.duplicate == rows - len(np.unique(LOG.truth().row_event))


def test_an_eps_too_small_is_refused_with_the_value_that_would_do(session, tmp_path: Path) -> None:
    """A user who promises too much of his clocks would get wrong clocks instead of an answer."""
    LOG.write_parquet(tmp_path / "log")
    inputs = [str(tmp_path / "log")]
    with pytest.raises(EpsTooSmall) as refused:
        observe(session, inputs, tmp_path / "h", epoch_rows=CUT, eps=1_000)
    least = refused.value.least
    assert least is not None
    enough = re.search(r"use --eps (\S+) or more", str(refused.value))
    assert enough is not None
    assert least <= read_duration(enough[1], "ns") < 1.2 * least
    assert observe(session, inputs, tmp_path / "h", epoch_rows=CUT, eps=least).lag == least
    with pytest.raises(EpsTooSmall):
        observe(session, inputs, tmp_path / "h", epoch_rows=CUT, eps=least - 1)


def test_a_run_that_fails_leaves_the_history_as_it_was(spark, tmp_path: Path) -> None:
    """A user would lose yesterday's history to today's broken file."""
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text('{"process": "a", "time": 1}\n{"process": "a", "time": 2}\n')
    bad.write_bytes(b"\x00\xff{]\nnothing\n")
    first = observe(spark, [str(good)], tmp_path / "h")
    with pytest.raises(NothingDelivered, match=r"bad\.jsonl, 1: "):
        observe(spark, [str(bad)], tmp_path / "h")
    assert opened(tmp_path / "h").manifest == first
    assert "Exchange" in explain(spark, [str(good)], tmp_path / "h")
    again = observe(spark, [str(good)], tmp_path / "h")
    # Names of files tell the attempt that wrote them.
    of_first_run = {name: getattr(first, name) for name in ("run", "created", "policies", "tables")}
    assert replace(again, **of_first_run) == first


def test_computations_do_not_touch_each_other(session, tmp_path: Path) -> None:
    """Two test runs in one log share names of processes and messages; one's events would become the other's causes."""
    lines = []
    for computation in ("large", "small-1", "small-2"):
        for step in range(300 if computation == "large" else 3):
            common = {"computation": computation, "time": 10 * step}
            lines.append({**common, "process": "a", "seq": step + 1, "kind": "send", "message": f"m{step}"})
            lines.append({**common, "process": "b", "seq": step + 1, "kind": "receive", "message": f"m{step}"})
    (tmp_path / "log.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    manifest = observe(
        session, [str(tmp_path / "log.jsonl")], tmp_path / "h", epoch_rows=CUT, delivering=Delivering(("cbd:0.5",))
    )
    assert manifest.computations == 3
    _, found = relations_of(opened(tmp_path / "h"))
    for event, past in found.items():
        computation, _, seq = (
            event[: event.rindex("-") - 1],
            event[event.rindex("-") - 1],
            int(event.rpartition("-")[2]),
        )
        expected = {f"{computation}a-{each}" for each in range(1, seq + ("b-" in event))}
        expected |= {f"{computation}b-{each}" for each in range(1, seq)} if "b-" in event else set()
        assert past == expected


def test_only_histories_are_replaced(spark, tmp_path: Path) -> None:
    """A mistyped --to would delete a folder of other things."""
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_bytes(b"1")
    (tmp_path / "log.jsonl").write_text('{"process": "a", "time": 1}\n')
    with pytest.raises(HistoryError):
        observe(spark, [str(tmp_path / "log.jsonl")], tmp_path / "photos")
    assert (tmp_path / "photos" / "one.jpg").exists()


def test_staged_text_is_private_whatever_the_umask(spark, tmp_path: Path) -> None:
    """Other users of the machine would read the log while it is observed, though its own file is closed to them."""
    (tmp_path / "log.jsonl").write_text('{"process": "a", "time": 1}\n{"process": "a", "time": 2}\n')
    modes: dict[str, int] = {}

    def look(stage: str, done: int, total: int) -> None:
        modes.update({path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "h").glob("runs/*/staging")})

    before = os.umask(0)
    try:
        observe(spark, [str(tmp_path / "log.jsonl")], tmp_path / "h", on_stage=look)
    finally:
        os.umask(before)
    assert modes == {"staging": 0o700}
    assert not [*(tmp_path / "h").glob("runs/*/staging")]
