"""Asking a history for the last causes of an event, against a recursive query in DuckDB and a graph in networkx."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.asking import COMPARED, LAST, NEAR, ask, ask_anew, drawn_events, milliseconds, opened, timed
from benchmarks.asking_otherwise import KEYED_SQL, PLAIN_SQL, ask_graph, ask_sql, ask_window, graph_of, sql_tables
from benchmarks.histories import history, largest_events, size
from benchmarks.pipeline import PROCESSES
from benchmarks.questions_of_lines import with_lines
from benchmarks.report import Goal, Section
from ledto.questions import RELATIONS, Standing

if TYPE_CHECKING:
    import networkx

COLD, WARM, AGAIN = 200, 2_000, 2_000
PAIRS = 20_000_000
WANTED_TIMES, WANTED_PAIRS = 1_000, 10e6


def section() -> Section:
    most = largest_events()
    large, middle, small = (history(PROCESSES, most // part).path for part in (1, 10, 100))
    rows: list[tuple[object, ...]] = []
    ours: dict[Path, float] = {}
    for path, events in ((large, most), (middle, most // 10), (small, most // 100)):
        print(f"  asking {size(events)} events ...", flush=True)
        drawn = drawn_events(opened(path), COLD + WARM)
        cold = timed(partial(ask_anew, path), drawn[:COLD])
        open_history = opened(path)
        warm = timed(partial(ask, open_history), drawn[COLD:])
        near = [drawn[0]] * AGAIN
        again = timed(partial(ask, open_history), near)
        ours[path] = statistics.median(warm)
        for way, taken in (
            ("history just opened", cold),
            ("open history, any event", warm),
            ("the same event again", again),
        ):
            rows.append((f"ledto, {way}", size(events), *milliseconds(taken)))
    tables = sql_tables(middle)
    plain, keyed = (compared(middle, partial(ask_sql, tables, sql)) for sql in (PLAIN_SQL, KEYED_SQL))
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


def compared(path: Path, other: Callable[[int], list[int]]) -> list[float]:
    """Seconds of the other way, once its answers are known to be ours."""
    kept = opened(path)
    events = drawn_events(kept, COMPARED)
    for event in events:
        if other(event) != ask(kept, event):
            raise AssertionError(f"two ways give different causes of the event at {event} of {path}")
    return timed(other, events)


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
