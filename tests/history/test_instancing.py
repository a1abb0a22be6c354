"""Spans become lines: the relations between all events of a trace are those of duplication and combination."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import networkx
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from tests.examples import examples
from whence.events.schema import REPORTS
from whence.history.instancing import with_lines
from whence.history.segmenting import solve_whole
from whence.sources.rows import Row
from whence.sources.spans import CLIENT, CONSUMER, INTERNAL, PRODUCER, SERVER, SPAN_KINDS, Span, span_batches, spans_of

TRACE = "ab" * 16


def table_of(spans: Sequence[Span], logs: Sequence[Row] = (), *, order: Sequence[int] | None = None) -> pa.Table:
    found = [spans_of(*(structs.replace(span, place=place) for place, span in enumerate(spans))), *logs]
    table = pa.Table.from_batches(span_batches(found, "spans.json"), REPORTS)
    return table if order is None else table.take(order)


def key(row: dict[str, Any]) -> tuple[Any, ...]:
    """What tells an event, whatever line it is on."""
    return row["instance_key"], row["instance_phase"] or "", row["time"], row["name"], row["place"]


def related(table: pa.Table) -> set[tuple[Any, Any]]:
    """All pairs of cause and effect, by the lines, numbers and causes of a table."""
    rows = table.to_pylist()
    graph = networkx.DiGraph()
    graph.add_nodes_from(key(row) for row in rows)
    by_line = sorted(rows, key=lambda row: (row["process"], row["seq"]))
    for before, after in pairwise(by_line):
        if before["process"] == after["process"]:
            assert after["seq"] == before["seq"] + 1
            graph.add_edge(key(before), key(after))
    for row in rows:
        for cause in row["causes"] or ():
            graph.add_edge(key(rows[cause]), key(row))
    return set(networkx.transitive_closure_dag(graph).edges)


def truly_related(spans: Sequence[Span]) -> set[tuple[Any, Any]]:
    """The same by the rules themselves: a child forks off and joins at points of its parent's life, by their clock.

    A point of an instance precedes every later one; points of the same time are not ordered, but that an instance begins
    with its start, that its own rows are in order, and that its end comes after what ended at that time.
    """
    graph = networkx.DiGraph()
    by_key = {span.key: span for span in spans}
    events: dict[str, list[tuple[Any, dict[str, Any]]]] = {}
    for place, span in enumerate(spans):
        (table,) = table_of([structs.replace(span, links=())]).to_batches()
        rows = [{**row, "place": place} for row in table.to_pylist()]
        start, rest = rows[0], sorted(rows[1:], key=lambda row: max(row["time"], span.start))
        events[span.key] = [(key(row), row) for row in [start, *rest]]
        graph.add_nodes_from(name for name, _ in events[span.key])
        graph.add_edges_from(pairwise(name for name, _ in events[span.key]))
    for span in spans:
        points: list[tuple[int, int, Any]] = []
        for name, row in events[span.key][1:]:
            is_end = bool(row["instance_phase"])
            points.append((max(row["time"], span.start), 1 if is_end else 0, name))
        for child in spans:
            if child.parent != span.key:
                continue
            first = events[child.key][0][0]
            ends = [name for name, row in events[child.key][1:] if row["instance_phase"]]
            graph.add_edge(events[span.key][0][0], first)
            if child.process == span.process:
                points.append((child.start, 0, ("fork", child.key)))
                graph.add_edge(("fork", child.key), first)
                if ends:
                    points.append((max(child.start, child.end or 0), 0, ("join", child.key)))
                    graph.add_edge(ends[0], ("join", child.key))
            elif child.kind == SERVER and span.kind == CLIENT and ends and child.awaited and span.awaited:
                own = [name for name, row in events[span.key][1:] if row["instance_phase"]]
                lasted = max(child.end or 0, child.start) - child.start
                if own and lasted <= max(span.end or 0, span.start) - span.start:
                    graph.add_edge(ends[0], own[0])
        for time, rank, name in points:
            for later, later_rank, other in points:
                joins = isinstance(name, tuple) and name[0] == "join"
                if time < later or (time == later and joins and rank < later_rank):
                    graph.add_edge(name, other)
    assert by_key
    closed = networkx.transitive_closure_dag(graph)
    return {(a, b) for a, b in closed.edges if len(a) == len(b) == 5}


@st.composite
def traces(draw: st.DrawFn) -> list[Span]:
    count = draw(st.integers(1, 9))
    small = st.integers(0, 12)
    spans = []
    for number in range(count):
        start = draw(small)
        end = draw(st.one_of(st.none(), small, small))
        moments = [(draw(small), f"moment {n}", None) for n in range(draw(st.integers(0, 2)))]
        parent = f"s{draw(st.integers(0, number - 1))}" if number else None
        spans.append(
            Span(
                TRACE,
                f"s{number}",
                draw(st.sampled_from(["a", "b"])),
                "work",
                start,
                end,
                kind=draw(st.sampled_from(SPAN_KINDS)),
                parent=parent,
                awaited=draw(st.booleans()),
                moments=moments,
            )
        )
    return spans


@examples(400)
@given(traces(), st.randoms(use_true_random=False))
def test_lines_and_causes_say_what_duplication_and_combination_say(spans: list[Span], random: Any) -> None:
    """A relation too many shows a user a cause that was none; one too few hides the cause."""
    rows = len(table_of(spans))
    order = list(range(rows))
    random.shuffle(order)
    shuffled = with_lines(table_of(spans, order=order))
    assert related(shuffled) == truly_related(spans)
    again = with_lines(table_of(spans))
    where = {key(row): (row["process"], row["seq"]) for row in again.to_pylist()}
    assert where == {key(row): (row["process"], row["seq"]) for row in shuffled.to_pylist()}


def test_one_thing_at_a_time_is_one_line() -> None:
    """A service that calls one after the other should look like one process, and several calls at once like several."""
    calls = [Span(TRACE, f"c{n}", "shop", "call", 10 * n + 1, 10 * n + 5, kind=CLIENT, parent="p") for n in range(5)]
    parent = Span(TRACE, "p", "shop", "GET /", 0, 100, kind=SERVER)
    table = with_lines(table_of([parent, *calls]))
    assert set(table["process"].to_pylist()) == {"shop"}
    at_once = [structs.replace(call, start=1, end=50) for call in calls]
    table = with_lines(table_of([parent, *at_once]))
    assert set(table["process"].to_pylist()) == {"shop", *(f"shop~{n}" for n in range(2, 6))}


@dataclass(frozen=True)
class Asked:
    spans: Sequence[Span]

    def precedes(self, cause: str, effect: str) -> bool:
        rows = with_lines(table_of(self.spans)).to_pylist()
        ids = {key(row): row["id"] for row in rows}
        return (cause, effect) in {(ids[a], ids[b]) for a, b in related(with_lines(table_of(self.spans)))}


def call(server_start: int, server_end: int, *, child_kind: str = SERVER) -> Asked:
    parent_kind = PRODUCER if child_kind == CONSUMER else CLIENT
    client = Span(TRACE, "c", "web", "POST", 100, 200, kind=parent_kind)
    server = Span(TRACE, "s", "db", "POST", server_start, server_end, kind=child_kind, parent="c")
    return Asked([client, server])


def test_a_call_is_two_messages_whatever_the_clocks_say() -> None:
    """The server's clock may be hours off: its start still follows the call and its end precedes the answer."""
    for skew in (-10_000, 0, 10_000):
        asked = call(110 + skew, 190 + skew)
        assert asked.precedes("c/start", "s/start")
        assert asked.precedes("s", "c")


def test_what_is_not_awaited_is_not_forced_inside() -> None:
    """A server that worked longer than the call lasted did not cause its end, nor did a consumer of its message."""
    assert not call(110, 290).precedes("s", "c")
    assert not call(110, 190, child_kind=CONSUMER).precedes("s", "c")
    assert call(110, 290).precedes("c/start", "s/start")


def test_missing_parents_are_told_and_not_invented() -> None:
    """Sampling loses spans: what remains is kept, is not related through the gap, and says what it lacks."""
    spans = [Span(TRACE, name, "web", "GET", at, at + 5, parent="gone") for name, at in (("a", 0), ("b", 10))]
    log = Row(computation=TRACE, process="db", time=3, name="hello", instance_key="lost", file="logs", place=1)
    table = with_lines(table_of(spans, [log]))
    told = {row["id"] or row["name"]: row["missing"] for row in table.to_pylist()}
    lacks = f"span {TRACE}/gone"
    assert told == {"a/start": lacks, "a": None, "b/start": lacks, "b": None, "hello": f"span {TRACE}/lost"}
    assert not Asked(spans).precedes("a", "b/start")


def test_logs_take_their_place_within_their_span() -> None:
    """One causal list of spans and logs: after the calls that ended, before those that began, in the span they name."""
    parent = Span(TRACE, "p", "web", "GET", 0, 100, kind=SERVER)
    first = Span(TRACE, "a", "web", "query", 10, 20, parent="p")
    second = Span(TRACE, "b", "web", "query", 40, 50, parent="p")
    logs = [
        Row(computation=TRACE, process="web", time=30, name="between", instance_key="p", file="l", place=1),
        Row(computation=TRACE, process="web", time=45, name="meanwhile", instance_key="p", file="l", place=2),
        Row(computation=TRACE, process="web", time=120, name="after", instance_key="p", file="l", place=3),
        Row(computation=TRACE, process="db", time=-5, name="elsewhere", instance_key="p", file="l", place=4),
    ]
    table = with_lines(table_of([parent, first, second], logs))
    name = {key(row): row["id"] or row["name"] for row in table.to_pylist()}
    pairs = {(name[a], name[b]) for a, b in related(table)}
    assert {("a", "between"), ("between", "b/start"), ("p", "after"), ("p/start", "elsewhere")} <= pairs
    assert not {("meanwhile", "b"), ("b/start", "meanwhile"), ("elsewhere", "p"), ("after", "p")} & pairs


def test_servers_that_share_their_clients_id_are_told_apart() -> None:
    """Zipkin's shared spans: children of the server hang on the server, not on the client with the same id."""
    client = Span(TRACE, "c", "web", "get", 0, 100, kind=CLIENT)
    server = Span(TRACE, "c/server", "db", "get", 1_000, 1_050, kind=SERVER, parent="c")
    query = Span(TRACE, "q", "db", "query", 1_010, 1_020, kind=INTERNAL, parent="c")
    asked = Asked([client, server, query])
    assert asked.precedes("c/start", "c/server/start")
    assert asked.precedes("c/server/start", "q/start")
    assert asked.precedes("q", "c/server")
    assert asked.precedes("c/server", "c")


@pytest.mark.parametrize("copies", [2, 3])
def test_copies_of_a_span_are_counted_and_change_nothing(copies: int) -> None:
    """Exporters retry: the second copy must not become a second span, and the ledger must say so."""
    parent = Span(TRACE, "p", "web", "GET", 0, 100, kind=SERVER)
    retries = [(12, "retry", None), (12, "retry", None), (15, "retry", '{"n":2}')]
    child = Span(TRACE, "a", "web", "query", 10, 20, parent="p", moments=retries)
    log = Row(computation=TRACE, process="web", time=12, name="retry", instance_key="a", file="l", place=1)
    logs = [log, replace(log, place=2)]
    once, often = table_of([parent, child], logs), table_of([parent, child] * copies, logs)
    solved, _ = solve_whole(with_lines(often))
    alone, _ = solve_whole(with_lines(once))
    assert len(alone.table_rows) == 9
    assert solved.aside.outcomes == ["duplicate"] * 7 * (copies - 1)
    assert solved.placed.skeleton.process.tolist() == alone.placed.skeleton.process.tolist()
    assert solved.placed.skeleton.back.tolist() == alone.placed.skeleton.back.tolist()


def test_copies_are_found_where_no_row_has_attributes() -> None:
    """A run leaves out columns in which nothing stands; a retry of a bare span must not make it fail."""
    twice = table_of([Span(TRACE, "p", "web", "GET", 0, 100, moments=[(5, "retry", None)])] * 2)
    assert twice["attributes"].null_count == len(twice)
    solved, _ = solve_whole(with_lines(twice.drop_columns(["attributes"])))
    assert solved.aside.outcomes == ["duplicate"] * 3


def test_computations_without_spans_are_left_alone() -> None:
    """Logs outside any trace stay on their process's own line, beside traces in the same window."""
    plain = [Row(process="web", time=at, name=f"n{at}", file="l", place=at) for at in range(3)]
    table = with_lines(table_of([Span(TRACE, "p", "web", "GET", 0, 100)], plain))
    outside = table.filter(pc.equal(table["computation"], ""))
    assert outside["process"].to_pylist() == ["web"] * 3
    assert outside["seq"].null_count == outside["causes"].null_count == 3
