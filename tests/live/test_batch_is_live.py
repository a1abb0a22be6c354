"""The same reports give the same history, made at once or as they come: what every event followed, and what is missing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.events.keys import ANSWER, SPAN
from ledto.events.schema import REPORTS
from ledto.history.recorded import recorded_past
from ledto.history.run import Run
from ledto.live import LiveHistory, LiveTerms, LiveWriter
from ledto.live import files as live_files
from ledto.questions import Standing
from tests.history.computations import observe_cut, relations_of, told_of
from tests.live.lined import lined_stream, truth_of
from tests.live.streams import BASE, DELTA, EPS, HOUR, MS, terms

SEEDS = st.integers(0, 1 << 32)


@dataclass(frozen=True)
class Answers:
    """What a history says of its events, by id, and of its processes."""

    wide: dict[str, set[str]]
    recorded: dict[str, set[str]]
    missing: dict[str, list[str]]
    holes: dict[str, tuple[int | None, int | None]]


def answers_of(run: Run) -> Answers:
    ids, wide = relations_of(run)
    recorded = {
        name: {
            ids[cause]
            for part in recorded_past(run, np.array([position], np.int64))
            for cause in part.tolist()
            if cause != position
        }
        for position, name in enumerate(ids)
    }
    missing = {name: lacks for name, (_, lacks) in told_of(run).items() if lacks}
    holes = {row["process"]: (row["first_hole"], row["first_tainted"]) for row in run.processes.table.to_pylist()}
    return Answers(wide, recorded, missing, holes)


def at_once(table: pa.Table, cuts: list[int]) -> Answers:
    """The history of the rows made at once, cut at these milliseconds."""
    for name in ("time", "arrival", "line_since"):
        times = pa.array(
            [None if time is None else (time - BASE) // MS for time in table[name].to_pylist()], pa.int64()
        )
        table = table.set_column(table.column_names.index(name), name, times)
    with tempfile.TemporaryDirectory() as folder:
        return answers_of(observe_cut(Path(folder), table, cuts, EPS // MS))


def as_they_come(
    table: pa.Table, steps: Iterable[int], given_terms: LiveTerms, restart: Random, *, settled: bool = False
) -> Answers:
    """The live history of the rows, in steps of these sizes, by a new writer now and then.

    `settled`: it is asked when nothing that belongs before the last row can come any more.
    """
    # What a version does not name is removed at once, as it is for everybody who runs for more than some seconds.
    with tempfile.TemporaryDirectory() as folder, patch.object(live_files, "GRACE_SECONDS", -1.0):
        writer = LiveWriter(folder, given_terms)
        done = 0
        for size in steps:
            part = table.slice(done, size)
            if not len(part):
                break
            done += len(part)
            writer.step(part, now=part["arrival"][-1].as_py(), positions={"rows": done})
            if restart.random() < 0.4:
                writer.close()
                writer = LiveWriter(folder)
        if settled:
            writer.step(REPORTS.empty_table(), now=writer.now + DELTA + 2 * EPS)
        writer.close()
        if restart.random() < 0.7:
            with LiveWriter(folder) as writer:
                writer.step(REPORTS.empty_table(), now=writer.now + HOUR)
        return answers_of(LiveHistory(folder).current().run)


def differences(one: Answers, other: Answers) -> dict[str, object]:
    """What two histories say otherwise."""
    found: dict[str, object] = {}
    for what in ("wide", "recorded"):
        first, second = getattr(one, what), getattr(other, what)
        for name in first.keys() | second.keys():
            if first.get(name) != second.get(name):
                before, after = first.get(name, set()), second.get(name, set())
                found[f"{what} {name}"] = (sorted(before - after), sorted(after - before))
    for what in ("missing", "holes"):
        if getattr(one, what) != getattr(other, what):
            found[what] = (getattr(one, what), getattr(other, what))
    return found


@settings(max_examples=12, deadline=None)
@given(SEEDS, st.sampled_from((0.0, 0.0, 0.05, 0.3)))
def test_live_histories_say_what_batch_says(seed: int, loss: float) -> None:
    """Or an engineer asks the live service and the logs of the same day, and hears of different causes."""
    random = Random(seed)
    table = lined_stream(random, events=random.choice((30, 120)), loss=loss)
    whole = at_once(table, [])
    rows = {row["id"]: row for row in table.to_pylist()}
    assert (whole.recorded, whole.wide) == truth_of([rows[name] for name in whole.recorded])
    cuts = sorted(random.randint(1, 900) for _ in range(random.randint(1, 3)))
    assert differences(whole, at_once(table, cuts)) == {}
    given_terms = terms(close_rows=random.choice((4, 20, 60)))
    assert differences(whole, as_they_come(table, iter(lambda: random.randint(1, 40), 0), given_terms, random)) == {}


def event(process: str, at: int, name: str, **given: Any) -> dict[str, Any]:
    time = BASE + at * MS
    common = {"computation": "", "kind": "local", "arrival": time, "file": "f", "place": at}
    return {**common, "process": process, "time": time, "id": name, **given}


def span(process: str, name: str, parent: str | None, begins: int, ends: int) -> list[dict[str, Any]]:
    """A server's span if it has a parent, else a client's."""
    common = {"line": name, "line_parent": parent, "line_phase": "start", "sends": SPAN + name}
    start = event(process, begins, f"{name} starts", **common, receives=None if parent is None else SPAN + parent)
    end = event(process, ends, f"{name} ends", line=name, line_phase="end", line_since=start["time"])
    start["kind"], end["kind"] = ("send", "receive") if parent is None else ("receive", "send")
    end |= {"receives": ANSWER + name} if parent is None else {"sends": f"{ANSWER}{parent}"}
    return [start, end]


BETWEEN = [event(process, at, f"{process} at {at}") for process in "abc" for at in (100, 150, 300, 350, 450, 650, 700)]
APART: dict[str, tuple[list[dict[str, Any]], str, str]] = {
    "two answers": ([*span("a", "C", None, 0, 900), *span("b", "S", "C", 10, 200), *span("c", "T", "C", 20, 600)],
                    "S ends", "C ends"),
    "a record after the end": (
        [*span("a", "C", None, 0, 200), event("a", 900, "record", line="C", line_parent="C")], "C ends", "record"),
    "a line that was waited for": (
        [event("a", 0, "begin", line="r", line_phase="start"), event("a", 200, "end", line="r", line_phase="end"),
         event("a", 899, "other", line="s", line_phase="start"), event("a", 900, "wait", line="s", line_joins=["r"])],
        "end", "wait"),
    "a record before the start": (
        [*span("a", "C", None, 0, 900), event("a", 200, "early", line="S"), event("a", 500, "S starts", line="S",
         line_parent="C", line_phase="start", sends=f"{SPAN}S", receives=f"{SPAN}C")], "C starts", "S starts"),
    "a parent that is named again": (
        [event("a", 0, "begin", line="r", line_phase="start"), event("a", 120, "other", line="s", line_phase="start"),
         event("a", 900, "goes on", line="r", line_parent="s")], "begin", "goes on"),
    "a wait where no line is": (
        [event("a", 0, "begin", line="r", line_phase="start"), event("a", 900, "wait", line_joins=["r"])],
        "begin", "wait"),
}  # fmt: skip
"""Rows, of which those with these names are in parts that are far apart, and the first is before the second."""


def within(process: str, name: str, parent: str, begins: int, ends: int) -> list[dict[str, Any]]:
    """A span that its parent, in the same process, is assumed to wait for."""
    keys = {"sends": SPAN + name, "receives": SPAN + parent}
    start = event(process, begins, f"{name} starts", line=name, line_parent=parent, line_phase="start", **keys)
    answer = {"sends": ANSWER + parent, "receives": ANSWER + name}
    return [
        start,
        event(process, ends, f"{name} ends", line=name, line_phase="end", line_since=start["time"], **answer),
    ]


@pytest.mark.parametrize(
    "cuts", [[], [80], [250], [400], [250, 500], [120, 220, 320, 420, 520, 620, 760], [600], [780]]
)
def test_children_of_a_server_that_shares_an_id_follow_it_wherever_the_work_is_cut(cuts: list[int]) -> None:
    """Zipkin's: what the server had done before would be a mere possibility, if a cut fell between it and its children."""
    server = span("b", "C/server", "C", 10, 790)
    rows = [*span("a", "C", None, 0, 900), *server, *within("b", "X", "C", 200, 310), *within("b", "Y", "C", 500, 610)]
    table = pa.Table.from_pylist(sorted([*rows, *BETWEEN], key=lambda row: row["time"]), REPORTS)
    whole = at_once(table, [])
    assert whole.recorded["X starts"] == {"C starts", "C/server starts"}
    assert whole.recorded["Y starts"] == {"C starts", "C/server starts"}
    assert whole.recorded["C/server ends"] == {"C starts", "C/server starts"}
    assert whole.recorded["C ends"] == {"C starts"}
    assert differences(whole, at_once(table, cuts)) == {}
    as_it_came = as_they_come(table, [3] * len(table), terms(close_rows=4), Random(str(cuts)))
    assert differences(whole, as_it_came) == {}


@pytest.mark.parametrize("what", APART)
def test_what_is_in_different_parts_still_belongs_together(what: str) -> None:
    """What a cut falls between was lost, and nothing said so: random systems seldom have their parts so far apart."""
    given_rows, earlier, later = APART[what]
    table = pa.Table.from_pylist(sorted([*given_rows, *BETWEEN], key=lambda row: row["time"]), REPORTS)
    recorded, wide = truth_of(table.to_pylist())
    assert earlier in wide[later]
    for found in (
        at_once(table, []),
        at_once(table, [250, 400, 800]),
        as_they_come(table, [3] * len(table), terms(close_rows=4), Random(what)),
    ):
        assert found.wide == wide
        assert found.recorded == recorded
        assert found.missing == {}


@pytest.mark.parametrize("numbered", [False, True])
def test_a_late_report_is_missed_where_it_belongs(numbered: bool) -> None:
    """Or all that was ever concurrent in its process would be doubted, or what heard of its process since would not."""
    rows = [
        event("a", 20, "a1", sends="m", kind="send", seq=1 if numbered else None),
        event("b", 50, "b0", sends="x", kind="send", seq=1 if numbered else None),
        event("b", 80, "b1", receives="m", kind="receive", seq=2 if numbered else None),
        event("b", 110, "b2", sends="n", kind="send", seq=3 if numbered else None),
        event("c", 120, "c1", receives="x", kind="receive", seq=1 if numbered else None),
        event("c", 3_000, "c2", receives="n", kind="receive", seq=2 if numbered else None),
    ]
    late = rows.pop(2)
    late["arrival"] = rows[-1]["arrival"] + HOUR
    with tempfile.TemporaryDirectory() as folder:
        with LiveWriter(folder, terms(close_rows=4)) as writer:
            writer.step(pa.Table.from_pylist(rows, REPORTS), now=late["arrival"] - 1)
        with LiveWriter(folder) as writer:
            writer.step(pa.Table.from_pylist([late], REPORTS), now=late["arrival"])
        for _ in range(2):
            history = LiveHistory(folder).current()
            found = {name: history.relation("a1", name) for name in ("b0", "b2", "c1", "c2")}
            concurrent = {name for name, standing in found.items() if standing is Standing.CONCURRENT}
            assert concurrent == {"b0", "c1"}
            assert [each.kind for each in history.why("c2").missing] == (
                ["numbers", "report"] if numbered else ["report"]
            )
            # What was found out stays known to those who go on.
            with LiveWriter(folder) as writer:
                writer.step(REPORTS.empty_table(), now=late["arrival"] + HOUR)
