from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.export import export
from ledto.export.selection import choose
from ledto.questions import History
from tests.export.returning import exported, hard_history, selections
from tests.history.building import Made, write_history
from tests.questions.test_model import Execution, observed

Record = dict[str, Any]


def records(data: bytes) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = defaultdict(list)
    for record in json.loads(data)["traceEvents"]:
        found[record["ph"]].append(record)
    return found


def ns(record: Record, name: str = "ts") -> int:
    return round(record[name] * 1_000)


def arrows(found: dict[str, list[Record]]) -> list[tuple[Record, Record]]:
    """Starts and ends by id; each id has one of each."""
    starts, ends = ({record["id"]: record for record in found[kind]} for kind in "sf")
    assert len(starts) == len(found["s"]) == len(ends) == len(found["f"])
    assert starts.keys() == ends.keys()
    assert all(record["bp"] == "e" for record in ends.values())
    return [(starts[each], ends[each]) for each in starts]


def holder(slices: list[Record], end: Record) -> int:
    """The position of the event whose slice an arrow is bound to: the innermost that encloses it, on its thread."""
    around = [
        each
        for each in slices
        if (each["pid"], each["tid"]) == (end["pid"], end["tid"]) and ns(each) <= ns(end) < ns(each) + ns(each, "dur")
    ]
    return int(min(around, key=lambda each: (ns(each, "dur"), -ns(each)))["args"]["position"])


def check_nesting(slices: list[Record]) -> None:
    """On one thread, of two slices one holds the other or they do not meet."""
    threads: dict[tuple[int, int], list[Record]] = defaultdict(list)
    for each in slices:
        threads[each["pid"], each["tid"]].append(each)
    for mine in threads.values():
        open_until: list[int] = []
        for each in sorted(mine, key=lambda each: (ns(each), -ns(each, "dur"))):
            while open_until and open_until[-1] <= ns(each):
                open_until.pop()
            assert ns(each, "dur") > 0
            assert not open_until or ns(each) + ns(each, "dur") <= open_until[-1]
            open_until.append(ns(each) + ns(each, "dur"))


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_every_arrow_leads_forwards_from_a_cause_to_its_effect(seed: int) -> None:
    """An arrow that points backwards, or at another event, tells a story that did not happen."""
    with hard_history(seed) as (history, events, random, _):
        by_position = {event.position: event for event in events}
        for selection, kept in selections(history, events, random):
            found = records(exported(history, "perfetto", selection=selection))
            assert sorted(each["args"]["position"] for each in found["X"]) == sorted(each.position for each in kept)
            check_nesting(found["X"])
            drawn = set()
            for start, end in arrows(found):
                assert ns(start) < ns(end)
                cause, effect = holder(found["X"], start), holder(found["X"], end)
                assert by_position[cause].happened_before(by_position[effect])
                drawn.add((cause, effect))
            times = {each["args"]["position"]: ns(each) for each in found["X"]}
            for one in kept:
                for other in kept:
                    if one.happened_before(other):
                        assert times[one.position] < times[other.position]
            if selection.whole:
                assert drawn == {(cause.position, event.position) for event in kept for cause in event.causes}


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_wall_times_are_drawn_as_they_are(seed: int) -> None:
    """Whoever asks for wall times sees how wrong they are: no arrow backwards, and the number of those left out."""
    with hard_history(seed) as (history, events, _, folder):
        sink = (folder / "trace.json").open("wb+")
        with sink:
            done = export(history, "perfetto", sink, times="wall")
        found = records((folder / "trace.json").read_bytes())
        start = min((event.time for event in events if event.time is not None), default=0)
        shown: dict[int, int] = {}
        last: dict[tuple[str, str], int] = {}
        for event in events:
            name = (event.computation, event.process)
            last[name] = last.get(name, 0) if event.time is None else (event.time - start) * 1_000
            shown[event.position] = last[name]
        assert {each["args"]["position"]: ns(each) for each in found["X"]} == shown
        check_nesting(found["X"])
        backwards = sum(shown[cause.position] > shown[event.position] for event in events for cause in event.causes)
        assert (done.arrows_left_out, done.arrows) == (backwards, sum(len(e.causes) for e in events) - backwards)
        assert len(arrows(found)) == done.arrows
        assert all(ns(start) <= ns(end) for start, end in arrows(found))


def made(process: str, index: int, id: str, time: int, previous: Made | None = None) -> Made:
    event = Made("", process, index, index, id, id, time, "local", previous=previous, causal_time=time)
    event.number = time
    return event


@pytest.fixture
def spans(tmp_path: Path) -> History:
    """One process: outer holds inner; then two that overlap; then one that never ends."""
    ids = ["outer/start", "inner/start", "note", "inner", "outer", "one/start", "two/start", "one", "two", "open/start"]
    write_history(tmp_path / "h", [([made("p", n, id, 10 * n) for n, id in enumerate(ids, 1)], [4])], [], unit="us")
    return History(tmp_path / "h")


def test_spans_are_slices_where_they_nest(spans: History) -> None:
    """A reader knows spans from other tracing tools; where slices cannot show them, their two ends do."""
    slices = {each["args"]["id"]: each for each in records(exported(spans, "perfetto"))["X"]}
    check_nesting(list(slices.values()))
    assert len(slices) == 10
    long = {name for name, each in slices.items() if each["dur"] > 2}
    assert long == {"outer/start", "inner/start", "two/start"}
    for name, first, last in (("outer", 10, 50), ("inner", 20, 40), ("two", 70, 90)):
        start = slices[f"{name}/start"]
        assert start["ts"] == first - 10
        assert last - 10 < start["ts"] + start["dur"] < last - 10 + 1


def test_names_of_threads_and_what_an_event_says(spans: History) -> None:
    """Without names, a diagram of numbers."""
    found = records(exported(spans, "perfetto", selection=choose(spans, around="note", k=1)))
    named = {(each["name"], each["args"].get("name")) for each in found["M"]}
    assert {("process_name", "history"), ("thread_name", "p")} <= named
    (note,) = (each for each in found["X"] if each["args"]["id"] == "note")
    assert {"seq": 3, "time": 30, "corrected_time": 30}.items() <= note["args"].items()
    assert len(found["X"]) == 2


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32), cuts=st.lists(st.integers(1, 110), max_size=2))
def test_a_line_is_a_thread_of_its_process(seed: int, cuts: list[int]) -> None:
    """Requests that a process serves at once would lie on top of each other, and slices would not nest."""
    execution = Execution(Random(seed), processes=3, events=40, skew=9)
    _, wide = execution.paths()
    by_id = {event.id: event for event in execution.done}
    with TemporaryDirectory() as folder:
        history = observed(Path(folder) / "history", execution, numbered=True, cuts=cuts, eps=10)
        names = {event.position: event.id for event in history.order()}
        found = records(exported(history, "perfetto"))
    check_nesting(found["X"])
    threads = {(each["pid"], each["tid"]): each["args"]["name"] for each in found["M"] if each["name"] == "thread_name"}
    for each in found["X"]:
        event = by_id[each["args"]["id"]]
        assert threads[each["pid"], each["tid"]] == (event.line or event.process)
    drawn = set()
    for start, end in arrows(found):
        cause, effect = (by_id[names[holder(found["X"], each)]] for each in (start, end))
        assert cause in wide[effect]
        assert (start["cat"] == "possible") == (cause in effect.assumed)
        drawn.add((cause.id, effect.id))
    sent = {each.sends: each for each in execution.done if each.sends}
    assert drawn == {(sent[key].id, each.id) for each in execution.done for key in each.receives}
