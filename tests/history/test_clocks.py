"""What a history's segments show of its clocks, against counting every message, for every cutting."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from ledto import observe
from ledto.history import layout
from ledto.history.clocks.measure import SegmentClocks, add_clocks, measure_segment, time_bins
from ledto.history.clocks.tables import between_clocks, read_clocks, resolution_of, store_clocks
from ledto.history.errors import HistoryError
from ledto.history.run import Run, open_run
from ledto.history.store import Store
from ledto.questions import History, Standing
from ledto.skew.offsets import REFERENCE, UNKNOWN
from ledto.skew.pairs import COLUMNS, NO_NEXT, joined_bins
from tests.history import building
from tests.history.computations import Event, draw, observe_cut, reports
from tests.sources.otlp_requests import NOON_NS, attributes, lines, of_spans, span

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Cell = tuple[str, str, int, int]


def measured(run: Run, *, most: int = 16) -> SegmentClocks:
    numbers = range(len(run.segments))
    level = joined_bins([time_bins(run, number, most=most) for number in numbers], most=most).level
    return add_clocks((measure_segment(run, number, level=level) for number in numbers), level=level)


def told(found: SegmentClocks) -> dict[Cell, tuple[int, ...]]:
    pairs = found.pairs
    rows = zip(*(getattr(pairs, name).tolist() for name in COLUMNS), strict=True)
    return {(pairs.names[row[0]], pairs.names[row[1]], row[2], row[3]): row[4:] for row in rows}


def stored_pairs(run: Run) -> dict[Cell, tuple[int, ...]]:
    """Read the table of pairs as `told` gives them."""
    assert run.manifest.clocks is not None
    cells = {}
    for row in run.table(run.manifest.clocks.files["clock_pairs"]).read().to_pylist():
        sender, receiver, *numbers = (NO_NEXT if row[name] is None else row[name] for name in COLUMNS)
        cells[sender, receiver, numbers[0], numbers[1]] = tuple(numbers[2:])
    return cells


def counted(messages: list[tuple[str, str, int, int, int]], level: int) -> dict[Cell, tuple[int, ...]]:
    """From clocks, times and the position of the receive."""
    groups = defaultdict(list)
    for sender, receiver, sent, received, position in messages:
        groups[sender, receiver, sent >> level, received >> level].append((received - sent, sent, position))
    return {
        cell: (
            len(each),
            *min(each),
            sorted(each)[1][0] if len(each) > 1 else NO_NEXT,
            max(each)[0],
            sum(difference < 0 for difference, _, _ in each),
            sum(difference == 0 for difference, _, _ in each),
        )
        for cell, each in groups.items()
    }


@pytest.mark.parametrize("seed", range(4))
def test_all_timed_messages_count_once_wherever_the_history_is_cut(seed: int, tmp_path: Path) -> None:
    """Messages from one segment to the next would be missing, or those of events without a time be made up."""
    random = Random(seed)
    large = building.draw(random, "large", 4, 200, untimed=seed % 2 == 1)
    small = [building.draw(random, f"small-{number}", 3, 20) for number in range(4)]
    cuts = sorted(random.sample(range(1, 200), 3))
    history = building.write_history(tmp_path / "h", [(large, cuts)], [small[:2], small[2:]])
    found = measured(open_run(Store(tmp_path / "h")))
    messages = [
        (cause.process, event.process, cause.time, event.time, event.position)
        for event in history
        for cause in event.causes
        if cause.time is not None and event.time is not None
    ]
    assert len(messages) > 20
    assert told(found) == counted(messages, found.pairs.level)
    timed = [event for event in history if event.time is not None]
    assert {name: count for name, (count, _) in found.events.items()} == {
        name: sum(event.process == name for event in timed) for name in {event.process for event in timed}
    }
    assert found.message_delays.deliveries == len(messages)
    assert found.message_delays.largest == max(0, *(received - sent for _, _, sent, received, _ in messages))


def named_reports(events: list[Event], random: Random, machines: dict[str, str]) -> pa.Table:
    """Reports whose times come from the clocks of machines, where one is named."""
    table = reports(events, random, numbered=True, copies=0.1)
    names = pa.array([machines.get(process) for process in table["process"].to_pylist()], pa.string())
    return table.set_column(table.column_names.index("clock_name"), "clock_name", names)


@pytest.mark.parametrize("seed", range(4))
def test_processes_on_one_machine_share_its_clock(seed: int, tmp_path: Path) -> None:
    """Every thread and every trace would have a clock of its own, with too few messages to say anything of it."""
    random = Random(seed)
    events = draw(random, processes=5, events=300, skew=9, loss=0)
    machines = {"p1": "rack", "p2": "rack", "p3": "p0"}
    table = named_reports(events, random, machines)
    eps = 20
    runs = [
        observe_cut(tmp_path / str(at), table, cuts, eps) for at, cuts in enumerate(([], [150, 320], [90, 333, 500]))
    ]
    results = [measured(run) for run in runs]
    assert len(runs[2].segments) > 2
    for other in results[1:]:
        assert told(other) == told(results[0])
        assert other.events == results[0].events
    clock = {name: machines.get(name, name) for name in (f"p{number}" for number in range(5))}
    expected = [
        (clock[cause.process], clock[event.process], cause.time, event.time, 0)
        for event in events
        if not event.lost
        for cause in event.causes
        if not cause.lost
    ]
    without_position = {cell: (*row[:3], *row[4:]) for cell, row in told(results[0]).items()}
    assert without_position == {
        cell: (*row[:3], *row[4:]) for cell, row in counted(expected, results[0].pairs.level).items()
    }
    position = int(results[0].pairs.least_position[0])
    (row,) = runs[0].rows(np.array([position]), ["time"]).to_pylist()
    assert row["time"] == results[0].pairs.least_receive[0]


def test_what_is_stored_is_what_was_found(tmp_path: Path) -> None:
    """The table that users query would differ from what the run found, or lack the clocks nobody sends messages to."""
    random = Random(1)
    rows = building.draw(random, "large", 4, 120)
    building.write_history(tmp_path / "h", [(rows, [50])], [[building.draw(random, "lonely", 1, 5)]])
    run = open_run(Store(tmp_path / "h"))
    found = measured(run)
    stored = store_clocks(run.store, run.name, found, unit="ticks")
    run.commit(replace(run.manifest, clocks=stored))
    assert stored_pairs(run) == told(found)
    clocks = {estimate.name: (estimate, events) for estimate, events in read_clocks(run)}
    assert {name: events for name, (_, events) in clocks.items()} == {
        name: count for name, (count, _) in found.events.items()
    }
    assert stored.clocks == len(clocks) == sum(stored.verdicts.values())
    reference = [estimate for estimate, _ in clocks.values() if estimate.verdict == REFERENCE]
    assert len(reference) == stored.groups == 1
    assert stored.message_delays["max"] == found.message_delays.largest
    with pytest.raises(HistoryError, match="make it again"):
        History(tmp_path / "h").clocks()


def test_a_history_without_messages_says_that_nothing_is_known(tmp_path: Path) -> None:
    """One log of one process would end in an error, or in a clock that is right for want of others."""
    building.write_history(tmp_path / "h", [], [[building.draw(Random(2), "", 1, 9)]])
    run = open_run(Store(tmp_path / "h"))
    found = measured(run)
    stored = store_clocks(run.store, run.name, found, unit="ticks")
    run.commit(replace(run.manifest, clocks=stored))
    assert stored.verdicts == {UNKNOWN: 1}
    assert stored.eps == {"at_least": 0, "at_most": 0, "unbounded": 0}
    assert between_clocks(found.pairs)["messages"] == 0
    ((estimate, _),) = read_clocks(run)
    assert (estimate.verdict, estimate.low, estimate.high, estimate.reference) == (UNKNOWN, None, None, None)


def test_a_history_without_times_says_so(tmp_path: Path) -> None:
    """Logs that only have vector clocks have no wall times; asking for clocks would end in a stack trace."""
    events = building.draw(Random(3), "", 3, 30)
    for event in events:
        event.time, event.causal_time, event.level = None, building.UNTIMED, event.number
    building.write_history(tmp_path / "h", [], [[events]])
    run = open_run(Store(tmp_path / "h"))
    found = measured(run)
    stored = store_clocks(run.store, run.name, found, unit="ns")
    run.commit(replace(run.manifest, clocks=stored))
    assert (stored.clocks, stored.groups, len(found.pairs)) == (0, 0, 0)
    assert read_clocks(run) == []
    assert stored_pairs(run) == {}
    assert between_clocks(found.pairs)["messages"] == 0


def test_a_resolution_is_told_from_times_that_happen_to_be_round() -> None:
    """Three events at full seconds would widen all bounds by a second, or a log in seconds contradict itself."""
    assert resolution_of(1_000, 9, "ns") == 10**9
    assert resolution_of(1_000, 8, "ns") == 10**8
    assert resolution_of(4, 8, "ns") == 10**6
    assert resolution_of(4, 2, "ns") == 0
    assert resolution_of(1_000, 0, "ns") == 0
    assert resolution_of(1_000, 0, "s") == 1


def test_a_run_measures_the_same_clocks_in_any_number_of_epochs(session: SparkSession | None, tmp_path: Path) -> None:
    """The estimate would depend on how the work was spread, and two runs of one log would blame different clocks."""
    from ledto.simulation.raw_logs import RawLog
    from tests.spark.running import observe

    log = RawLog(5, 6_000, seed=3, gap_ns=10_000_000, with_arrival=True)
    log.write_parquet(tmp_path / "log")
    manifests = [
        observe(session, [str(tmp_path / "log")], tmp_path / str(rows), epoch_rows=rows) for rows in (10**6, 900)
    ]
    assert manifests[1].segments > 3 > manifests[0].segments
    assert manifests[0].wall_clock == manifests[1].wall_clock
    assert manifests[0].clocks == manifests[1].clocks
    tables = []
    for rows, manifest in zip((10**6, 900), manifests, strict=True):
        folder = tmp_path / str(rows) / layout.run_folder(manifest.run)
        assert not list(folder.glob("*.measured"))
        tables.append([pq.read_table(folder / name) for name in manifest.clocks.files.values()])
    assert tables[0] == tables[1]

    shown = log.table().to_pylist()
    sends = {row["message"]: row for row in shown if row["kind"] == "send"}
    gaps = [row["time"] - sends[row["message"]]["time"] for row in shown if row["kind"] == "receive"]
    between = manifests[0].wall_clock.between_clocks
    assert between["messages"] == len(gaps)
    assert between["before_cause"] == sum(gap < 0 for gap in gaps) > 0
    assert between["earlier_by"] == -min(gaps)
    assert between["ties"] == gaps.count(0)
    assert sum(each["before_cause"] for each in between["pairs"]) <= between["before_cause"]
    delays = [row["arrival"] - row["time"] for row in shown]
    told_delays = manifests[0].clocks.report_delays
    assert (told_delays["count"], told_delays["max"]) == (len(shown), max(delays))
    assert told_delays["before_event"] == sum(delay < 0 for delay in delays)
    median = sorted(max(0, delay) for delay in delays)[(len(delays) + 1) // 2 - 1]
    assert 0.96 * median <= told_delays["p50"] <= median
    found = History(tmp_path / "900").clocks()
    assert found.eps["at_least"] <= log.eps_ns
    assert found.lag is not None
    assert found.lag <= found.eps["at_least"] + 1


def test_a_server_that_ends_after_its_client_does_not_break_the_run(tmp_path: Path) -> None:
    """Servers clean up after they answered, so this is in most traces. It says nothing of clocks and asks for no eps."""
    client = span(spanId="00f067aa0ba902b7", kind=3, endTimeUnixNano=str(NOON_NS + 10_000_000))
    server = span(
        spanId="00f067aa0ba902b8",
        parentSpanId="00f067aa0ba902b7",
        kind=2,
        startTimeUnixNano=str(NOON_NS + 1_000_000),
        endTimeUnixNano=str(NOON_NS + 16_000_000),
    )
    requests = [of_spans(client, resource={"attributes": attributes(service__name="web")})]
    requests += [of_spans(server, resource={"attributes": attributes(service__name="shop")})]
    (tmp_path / "spans.jsonl").write_bytes(lines(*requests))
    history = observe(tmp_path / "spans.jsonl", tmp_path / "history", format="otlp")
    assert history.relation("00f067aa0ba902b8", "00f067aa0ba902b7") is Standing.POSSIBLE
    found = history.clocks()
    assert found.lag == 0, "by its messages, no clock is behind"
    assert found.eps_used == 0, "what is only assumed asks for no eps"
    assert found.eps["at_least"] == 0
