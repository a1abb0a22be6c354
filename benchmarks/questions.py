"""Asking a history for the last causes of an event, against a recursive query in DuckDB and a graph in networkx."""

from __future__ import annotations

import heapq
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.histories import THREADS, history, largest_events, lined_history, size
from benchmarks.pipeline import PROCESSES
from benchmarks.report import Goal, Section
from benchmarks.traces import history_path, largest_spans
from whence.history import RELATIONS, History, Standing
from whence.history.questions.history import DEFAULT_POSSIBLE

if TYPE_CHECKING:
    import duckdb
    import networkx

LAST = 100
"""How many causes are asked for: ``whence why -k 100``."""
COLD, WARM, AGAIN = 200, 2_000, 2_000
COMPARED = 10
"""Events asked of the slow ways, and compared one by one with ours."""
PAIRS = 20_000_000
NEAR = 2_000
"""How far apart in history order the events of a pair are at most: farther apart, nearly all are ordered."""
WANTED_TIMES, WANTED_PAIRS, WANTED_MS = 1_000, 10e6, 5
ASKED_PAIRS, PAIRS_WITH_LINES = 1_000, 20_000


def section() -> Section:
    most = largest_events()
    large, middle, small = (history(PROCESSES, most // part).path for part in (1, 10, 100))
    rows: list[tuple[object, ...]] = []
    ours: dict[Path, float] = {}
    for path, events in ((large, most), (middle, most // 10), (small, most // 100)):
        print(f"  asking {size(events)} events ...", flush=True)
        drawn = drawn_events(opened(path), COLD + WARM)
        cold = timed(lambda event, path=path: ask(opened(path), event), drawn[:COLD])
        open_history = opened(path)
        warm = timed(lambda event, kept=open_history: ask(kept, event), drawn[COLD:])
        near = [drawn[0]] * AGAIN
        again = timed(lambda event, kept=open_history: ask(kept, event), near)
        ours[path] = statistics.median(warm)
        for way, taken in (
            ("history just opened", cold),
            ("open history, any event", warm),
            ("the same event again", again),
        ):
            rows.append((f"whence, {way}", size(events), *milliseconds(taken)))
    tables = sql_tables(middle)
    plain, keyed = (
        compared(middle, lambda event, sql=sql: ask_sql(tables, sql, event)) for sql in (PLAIN_SQL, KEYED_SQL)
    )
    within = compared(middle, lambda event: ask_window(tables, event))
    tables.close()
    rows.append(("DuckDB, `UNION`", size(most // 10), *milliseconds(plain)))
    rows.append(("DuckDB, `USING KEY`", size(most // 10), *milliseconds(keyed)))
    rows.append(("DuckDB, `UNION`, within a window of history order", size(most // 10), *milliseconds(within)))
    graph = graph_of(small)
    walked = compared(small, lambda event: ask_graph(graph, event))
    check_relations(small, graph)
    rows.append(("networkx `ancestors`", size(most // 100), *milliseconds(walked)))
    against_sql = statistics.median(plain) / ours[middle]
    against_graph = statistics.median(walked) / ours[small]
    pairs = pairs_a_second(middle)
    lines = with_lines(most)
    return Section(
        "Questions",
        f"Milliseconds for the last {LAST} causes of an event, in history order ({PROCESSES} processes; half of the events anywhere in "
        "the history, half in its last hundredth), inside one process: median and 99th percentile. *Just opened*: a new `History` for each "
        "question, files in the page cache. DuckDB holds tables of events and of edges (the event before in the process, the send of what "
        f"was received) and follows the edges back for {LAST} steps in a recursive query: no more are needed, because every event on the way "
        f"to one of the last {LAST} causes is itself one of them. `UNION` drops what was found twice at the same step, `USING KEY` what "
        f"was found before. networkx gives all ancestors, of which the last {LAST} are taken. All ways gave the same causes for "
        f"{COMPARED} events before any was timed. Loading the tables and the graph is not counted. *Within a window*: the query looks at the "
        "latest 4,096 events before the one in question, and at more if need be, which is right only in an order like that of the history, where "
        "a cause never comes after its effect; raw logs, sorted by their clocks, do not have it.",
        ("", "events", "median, ms", "99%, ms"),
        [*rows, *lines.rows],
        [
            Goal(
                f"at least {WANTED_TIMES:,}x a recursive query in DuckDB at {size(most // 10)} events",
                f"{against_sql:,.0f}x",
                against_sql >= WANTED_TIMES,
            ),
            Goal(
                f"at least {WANTED_TIMES:,}x networkx at {size(most // 100)} events",
                f"{against_graph:,.0f}x",
                against_graph >= WANTED_TIMES,
            ),
            Goal(
                f"relations of at least {WANTED_PAIRS / 1e6:.0f} million pairs a second",
                f"{pairs / 1e6:.1f} million",
                pairs >= WANTED_PAIRS,
            ),
            *lines.goals,
        ],
        lines.notes,
    )


@dataclass(frozen=True)
class WithLines:
    """The part of the section about histories with lines."""

    rows: list[tuple[object, ...]]
    goals: list[Goal]
    notes: str


def with_lines(most: int) -> WithLines:
    """Ask histories in which recorded and possible causes are not the same."""
    compare_lines(lined_history(PROCESSES, most // 100))
    rows: list[tuple[object, ...]] = []
    goals, bulk = [], []
    for name, path in (("threads", lined_history(PROCESSES, most)), ("spans", history_path(largest_spans()))):
        kept = opened(path)
        events = size(len(kept))
        print(f"  asking {events} events of {name} ...", flush=True)
        drawn = drawn_events(kept, WARM)
        why = timed(lambda event, kept=kept: ask(kept, event), drawn)
        pairs = near_pairs(len(kept), ASKED_PAIRS)
        related = timed(lambda pair, kept=kept: kept.relation(*pair), pairs)
        led = [pair for pair in pairs if kept.relation(*pair) in (Standing.BEFORE, Standing.AFTER, Standing.POSSIBLE)]
        explained = timed(lambda pair, kept=kept: kept.explain(*pair), led)
        for question, taken in (
            ("`why` with what is possible, any event", why),
            ("`relation`, any pair", related),
            ("`explain`, pairs of which one may have led to the other", explained),
        ):
            rows.append((f"whence, {name}: {question}", events, *milliseconds(taken)))
        reached = 1e3 * statistics.median(why)
        goals.append(
            Goal(
                f"`why` with what is possible at most {WANTED_MS} ms at {events} events of {name}, history open",
                f"{reached:.1f} ms",
                reached <= WANTED_MS,
            )
        )
        first, second = zip(*near_pairs(len(kept), PAIRS_WITH_LINES), strict=True)
        start = time.perf_counter()
        kept.relations(first, second)
        bulk.append(f"{PAIRS_WITH_LINES / (time.perf_counter() - start):,.0f} pairs a second of {name}")
    return WithLines(
        rows,
        goals,
        f"Histories with lines: in that of *threads*, each process of the raw log has {THREADS} that share its state, drawn for each event, "
        f"and messages go from thread to thread; in that of *spans*, each span of the traces of the section above is a line. `why` then gives the last {LAST} "
        f"recorded causes and up to {DEFAULT_POSSIBLE} events that may have led to it. Recorded causes of {COMPARED} events of threads were compared "
        "with all ancestors in networkx, whose graph has edges along threads instead of processes. Events of a pair are at most "
        f"{NEAR:,} apart in history order. Many pairs at a time, `relations` tells of {' and '.join(bulk)}.",
    )


def compare_lines(path: Path) -> None:
    """Compare recorded causes with those of a graph that was made without our skeleton, and what is possible with its rest."""
    import networkx

    kept = opened(path)
    recorded, wide = graph_of(path, along="process, line"), graph_of(path)
    for event in drawn_events(kept, COMPARED):
        if ask_graph(recorded, event) != ask(kept, event):
            raise AssertionError(f"the recorded causes of the event at {event} of {path} are not those of the graph")
        possible = {each.event.position for each in kept.why(event, k=LAST).possible}
        if not possible <= networkx.ancestors(wide, event) - networkx.ancestors(recorded, event):
            raise AssertionError(f"what may have led to the event at {event} of {path} is not possible in the graph")


def near_pairs(total: int, count: int) -> list[tuple[int, int]]:
    """Random pairs of events that are near enough for all answers to occur."""
    random = np.random.default_rng(10)
    first = random.integers(0, total, count)
    second = np.clip(first + random.integers(-NEAR, NEAR, count), 0, total - 1)
    return list(zip(first.tolist(), second.tolist(), strict=True))


def opened(path: Path) -> History:
    return History(path)


def ask(kept: History, event: int) -> list[int]:
    """Positions of the last causes, the latest first."""
    return [cause.position for cause in reversed(kept.why(event, k=LAST).events)]


def drawn_events(kept: History, count: int) -> list[int]:
    """Positions, the same in every run: half anywhere, half in the last hundredth."""
    random = np.random.default_rng(7)
    total = len(kept)
    late = random.random(count) < 0.5
    anywhere, at_the_end = random.integers(0, total, count), random.integers(total - total // 100, total, count)
    return np.where(late, at_the_end, anywhere).tolist()


def timed(call: Callable[[Any], object], events: Sequence[Any]) -> list[float]:
    taken = []
    for event in events:
        start = time.perf_counter()
        call(event)
        taken.append(time.perf_counter() - start)
    return taken


def milliseconds(taken: list[float]) -> tuple[float, float]:
    return 1e3 * statistics.median(taken), 1e3 * float(np.percentile(taken, 99))


def compared(path: Path, other: Callable[[int], list[int]]) -> list[float]:
    """Seconds of the other way, once its answers are known to be ours."""
    kept = opened(path)
    events = drawn_events(kept, COMPARED)
    for event in events:
        if other(event) != ask(kept, event):
            raise AssertionError(f"two ways give different causes of the event at {event} of {path}")
    return timed(other, events)


PLAIN_SQL = f"""
WITH RECURSIVE past(event, steps) AS (
    SELECT cause, 1 FROM edges WHERE effect = $event
    UNION
    SELECT edges.cause, past.steps + 1 FROM past JOIN edges ON edges.effect = past.event WHERE past.steps < {LAST}
)
SELECT DISTINCT event FROM past ORDER BY event DESC LIMIT {LAST}
"""

KEYED_SQL = f"""
WITH RECURSIVE past(event, steps) USING KEY (event) AS (
    SELECT cause, 1 FROM edges WHERE effect = $event
    UNION
    SELECT edges.cause, min(past.steps) + 1 FROM past JOIN edges ON edges.effect = past.event
    WHERE past.steps < {LAST} AND edges.cause NOT IN (SELECT event FROM recurring.past) GROUP BY edges.cause
)
SELECT event FROM past ORDER BY event DESC LIMIT {LAST}
"""


WINDOW_SQL = f"""
WITH RECURSIVE past(event) AS (
    SELECT cause FROM edges WHERE effect = $event AND cause >= $first
    UNION
    SELECT edges.cause FROM past JOIN edges ON edges.effect = past.event
    WHERE edges.effect BETWEEN $first AND $event AND edges.cause >= $first
)
SELECT event FROM past ORDER BY event DESC LIMIT {LAST}
"""


def ask_window(tables: duckdb.DuckDBPyConnection, event: int) -> list[int]:
    """Look at the latest events before it only, and at more of them while too few are causes."""
    window = 4_096
    while True:
        first = max(0, event - window)
        found = tables.execute(WINDOW_SQL, {"event": event, "first": first}).fetchall()
        if len(found) == LAST or first == 0:
            return [cause for (cause,) in found]
        window *= 4


def sql_tables(path: Path, *, along: str = "process") -> duckdb.DuckDBPyConnection:
    """Events by position, and the edges among them, from the stored events alone: our skeleton is not used.

    `along` are the columns whose events follow each other by their clock.
    """
    import duckdb

    tables = duckdb.connect()
    run = next((path / "runs").iterdir())
    tables.execute(
        f"""
        CREATE TABLE events AS
        SELECT
            segments.first_position + rows.file_row_number AS event, dense_rank() OVER (ORDER BY {along}) AS along, rows.sends,
            rows.receives, row_number() OVER (PARTITION BY {along} ORDER BY rows.time) AS seq
        FROM read_parquet('{run}/events-*.parquet', filename = true, file_row_number = true) AS rows
        JOIN read_parquet('{run}/segments-*.parquet') AS segments ON ends_with(rows.filename, segments.events_file)
        """
    )
    tables.execute(
        """
        CREATE TABLE edges AS
        SELECT effect, cause FROM (
            SELECT later.event AS effect, earlier.event AS cause FROM events AS later
            JOIN events AS earlier ON earlier.along = later.along AND earlier.seq = later.seq - 1
            UNION ALL
            SELECT later.event, earlier.event FROM events AS later JOIN events AS earlier ON earlier.sends = later.receives
        ) ORDER BY effect
        """
    )
    return tables


def ask_sql(tables: duckdb.DuckDBPyConnection, sql: str, event: int) -> list[int]:
    return [found for (found,) in tables.execute(sql, {"event": event}).fetchall()]


def graph_of(path: Path, *, along: str = "process") -> networkx.DiGraph:
    """The same edges as `sql_tables`."""
    import networkx

    tables = sql_tables(path, along=along)
    edges = tables.execute("SELECT cause, effect FROM edges").fetchnumpy()
    tables.close()
    graph = networkx.DiGraph()
    graph.add_nodes_from(range(len(opened(path))))
    graph.add_edges_from(zip(edges["cause"].tolist(), edges["effect"].tolist(), strict=True))
    return graph


def ask_graph(graph: networkx.DiGraph, event: int) -> list[int]:
    import networkx

    return heapq.nlargest(LAST, networkx.ancestors(graph, event))


def check_relations(path: Path, graph: networkx.DiGraph) -> None:
    """Compare relations with the graph's: each of a few events with many around it."""
    import networkx

    kept = opened(path)
    random = np.random.default_rng(8)
    for event in drawn_events(kept, COMPARED):
        near = np.clip(event + random.integers(-NEAR, NEAR, 1_000), 0, len(kept) - 1)
        before, after = networkx.ancestors(graph, event), networkx.descendants(graph, event)
        truth = [
            Standing.BEFORE
            if other in before
            else Standing.AFTER
            if other in after
            else Standing.EQUAL
            if other == event
            else Standing.CONCURRENT
            for other in near.tolist()
        ]
        if [RELATIONS[found] for found in kept.relations(near, np.full(len(near), event)).tolist()] != truth:
            raise AssertionError(f"relations to the event at {event} of {path} are not those of the graph")


def pairs_a_second(path: Path) -> float:
    """Relations of random pairs of events of the whole history, a pair being near enough for both answers to occur."""
    kept = opened(path)
    random = np.random.default_rng(9)
    first = random.integers(0, len(kept), PAIRS)
    second = np.clip(first + random.integers(-NEAR, NEAR, PAIRS), 0, len(kept) - 1)
    kept.relations(first[:1000], second[:1000])
    start = time.perf_counter()
    kept.relations(first, second)
    return PAIRS / (time.perf_counter() - start)
