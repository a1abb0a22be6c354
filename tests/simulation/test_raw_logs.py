"""Raw logs whose truth is known, put to that truth."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.simulation.raw_logs import RawLog

Row = dict[str, Any]

logs = st.builds(
    RawLog,
    processes=st.integers(2, 6),
    events=st.integers(0, 120),
    seed=st.integers(0, 2**64 - 1),
    eps_ns=st.sampled_from([0, 1, 4, 5_000, 10_000_000]),
    drift_ppm=st.sampled_from([0, 50, 100_000]),
    gap_ns=st.sampled_from([6, 2_000, 1_000_000]),
    unevenness=st.integers(1, 9),
    local=st.sampled_from([0.0, 0.3, 0.9]),
    multicast=st.sampled_from([0.0, 0.5, 1.0]),
    fanout=st.integers(1, 7),
    delay_ns=st.sampled_from([0, 1_000, 1_000_000]),
    report_delay_ns=st.sampled_from([0, 1_000, 3_000_000]),
    reports_in_order=st.booleans(),
    lost=st.sampled_from([0.0, 0.3]),
    duplicated=st.sampled_from([0.0, 0.4]),
    with_seq=st.just(True),
    with_arrival=st.just(True),
    integer_messages=st.booleans(),
)


def causal_times(times: list[int], edges: np.ndarray) -> list[int]:
    """The largest time in each event's past, itself included; causes have smaller numbers."""
    found = list(times)
    for cause, effect in sorted(edges.tolist(), key=lambda edge: edge[1]):
        found[effect] = max(found[effect], found[cause])
    return found


def by_event(log: RawLog) -> dict[int, Row]:
    truth, rows = log.truth(), log.table().to_pylist()
    return dict(zip(truth.row_event.tolist(), rows, strict=True))


@given(logs)
def test_rows_tell_what_happened(log: RawLog) -> None:
    """Every exactness test that runs on these logs compares with the truth, so the truth has to be that of the rows."""
    truth, events = log.truth(), by_event(log)
    assert len(truth.process) == log.events
    assert (truth.edges[:, 0] < truth.edges[:, 1]).all()
    causes = defaultdict(list)
    for cause, effect in truth.edges.tolist():
        causes[effect].append(cause)
    senders: dict[Any, int] = {}
    received = Counter()
    number_within: Counter[int] = Counter()
    for event in range(log.events):
        process, seq = int(truth.process[event]), int(truth.seq[event])
        number_within[process] += 1
        assert seq == number_within[process]
        own = [c for c in causes[event] if truth.process[c] == process]
        assert [int(truth.seq[c]) for c in own] == ([seq - 1] if seq > 1 else [])
        others = [c for c in causes[event] if truth.process[c] != process]
        if event not in events:
            continue
        row = events[event]
        assert (row["process"], row["seq"]) == (f"p{process}", seq)
        assert len(others) == (row["kind"] == "receive")
        assert (row["message"] is None) == (row["kind"] == "local")
        if row["kind"] == "send":
            assert row["message"] not in senders
            senders[row["message"]] = event
        elif row["kind"] == "receive":
            received[row["message"], process] += 1
            assert senders.get(row["message"], others[0]) == others[0]
            if others[0] in events:
                assert (events[others[0]]["message"], events[others[0]]["name"]) == (row["message"], row["name"])
    assert all(times == 1 for times in received.values())


@given(logs)
def test_clocks_lie_within_bounds(log: RawLog) -> None:
    """A pipeline is told eps: were a clock beyond it, the pipeline would be blamed for refusing the log."""
    complete = RawLog(**{**parameters(log), "lost": 0.0})
    truth, events = complete.truth(), by_event(complete)
    times = [events[event]["time"] for event in range(complete.events)]
    for own, causal in zip(times, causal_times(times, truth.edges), strict=True):
        assert causal - own <= complete.eps_ns
    for process in range(complete.processes):
        mine = [time for time, owner in zip(times, truth.process, strict=True) if owner == process]
        assert all(a < b for a, b in pairwise(mine)), "ties would hide the process's order"


def test_coarse_clocks_keep_to_the_bound_and_tie() -> None:
    """Clocks of milliseconds show ties, and they are still within eps."""
    log = RawLog(5, 3_000, resolution_ns=1_000_000, gap_ns=200_000, with_seq=True)
    truth, events = log.truth(), by_event(log)
    times = [events[event]["time"] for event in range(log.events)]
    assert all(time % 1_000_000 == 0 for time in times)
    assert max(np.subtract(causal_times(times, truth.edges), times)) <= log.eps_ns
    for process in range(5):
        mine = [time for time, owner in zip(times, truth.process, strict=True) if owner == process]
        assert mine == sorted(mine)
        assert len(set(mine)) < len(mine)


def test_wall_time_misleads_and_delays_vary() -> None:
    """A log in which sorting by time were right, or in which nothing came late, would test nothing."""
    log = RawLog(20, 20_000, with_arrival=True)
    truth, events = log.truth(), by_event(log)
    times = np.array([events[event]["time"] for event in range(log.events)])
    received = truth.edges[truth.process[truth.edges[:, 0]] != truth.process[truth.edges[:, 1]]]
    backwards = (times[received[:, 0]] > times[received[:, 1]]).mean()
    assert 0.1 < backwards < 0.5
    assert max(np.subtract(causal_times(times.tolist(), truth.edges), times)) > 0.6 * log.eps_ns
    waited = np.array([events[e]["arrival"] for e in range(log.events)]) - times
    assert np.percentile(waited, 99.9) > 10 * np.median(waited)
    kinds = Counter(row["kind"] for row in events.values())
    assert min(kinds.values()) > 0.25 * log.events
    assert len(received) > kinds["send"], "some messages go to several processes"


@given(logs)
def test_rows_stand_in_order_of_arrival(log: RawLog) -> None:
    """A collector writes what comes as it comes; a log sorted otherwise would flatter a pipeline."""
    rows = log.table().to_pylist()
    assert [row["arrival"] for row in rows] == sorted(row["arrival"] for row in rows)
    if log.reports_in_order:
        for process in {row["process"] for row in rows}:
            seqs = [row["seq"] for row in rows if row["process"] == process]
            assert seqs == sorted(seqs)


def test_losses_and_duplicates_come_as_often_as_asked() -> None:
    """A tolerance of loss is only tested by losses, and a duplicate must be the same report again."""
    log = RawLog(10, 20_000, lost=0.1, duplicated=0.05, with_seq=True)
    told = Counter(log.truth().row_event.tolist())
    assert 0.09 < 1 - len(told) / log.events < 0.11
    assert set(told.values()) == {1, 2}
    assert 0.045 < sum(times == 2 for times in told.values()) / len(told) < 0.055
    reports: dict[int, Row] = {}
    for event, row in zip(log.truth().row_event.tolist(), log.table().to_pylist(), strict=True):
        assert reports.setdefault(event, row) == row


def test_the_same_seed_gives_the_same_bytes_everywhere() -> None:
    """Figures measured on one machine must be of the log that another machine makes."""
    table = RawLog(7, 5_000, seed=3, lost=0.01, duplicated=0.01, with_seq=True, with_arrival=True).table()
    text = "\n".join(map(str, table.to_pylist())).encode()
    assert sha256(text).hexdigest() == "e73aaec4765561f2ae211276caa93e626d68a555af611148ffcd092b421c0e8b"
    assert RawLog(7, 5_000, seed=4).table() != RawLog(7, 5_000, seed=3).table()


def test_files_hold_the_table_however_it_is_cut(tmp_path: Path) -> None:
    """A log too large for memory is written in pieces; they must be the log, with strings any reader understands."""
    log = RawLog(12, 5_000, duplicated=0.1, lost=0.1, with_seq=True, with_arrival=True)
    seen: list[int] = []
    paths = log.write_parquet(tmp_path / "log", rows_per_file=700, progress=seen.append)
    assert [path.name for path in paths] == [f"part-{number:05d}.parquet" for number in range(len(paths))]
    parts = [pyarrow.parquet.read_table(path) for path in paths]
    assert parts[0].schema == log.schema
    assert len(parts) > 5
    assert max(map(len, parts)) <= 700
    assert pa.concat_tables(parts).combine_chunks() == log.table()
    assert seen[-1] == len(log.table())
    with pytest.raises(ValueError, match="holds Parquet files already"):
        log.write_parquet(tmp_path / "log")


@pytest.mark.parametrize("integers", [False, True])
def test_json_lines_hold_the_table(tmp_path: Path, integers: bool) -> None:
    """The same log as text: one object a line, in which what is not there is left out."""
    log = RawLog(4, 300, integer_messages=integers)
    log.write_json_lines(tmp_path / "log.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    rows = log.table().to_pylist()
    assert lines == [{name: value for name, value in row.items() if value is not None} for row in rows]
    assert any("message" not in line for line in lines)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"processes": 1}, "processes must be an integer from 2"),
        ({"lost": 1.5}, "lost is a share from 0 to 1"),
        ({"gap_ns": 2}, "gap_ns must be an integer from 5"),
        ({"resolution_ns": 10**7}, "deviate by more than half of eps_ns"),
        ({"local": 1.0}, "multicast must be 0"),
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any], said: str) -> None:
    """A mistaken parameter is named at once, not after an hour of writing."""
    with pytest.raises(ValueError, match=said):
        RawLog(**{"processes": 5, "events": 10, **wrong})


def parameters(log: RawLog) -> dict[str, Any]:
    return {name: getattr(log, name) for name in RawLog.__dataclass_fields__ if name != "_"}
