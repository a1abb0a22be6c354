"""Questions to histories with lines, in which recorded and possible causes are not the same."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.asking import COMPARED, LAST, NEAR, ask, ask_pair, drawn_events, milliseconds, near_pairs, opened, timed
from benchmarks.asking_otherwise import ask_graph, graph_of
from benchmarks.histories import THREADS, lined_history, size
from benchmarks.pipeline import PROCESSES
from benchmarks.report import Goal
from benchmarks.traces import history_path, largest_spans
from ledto.questions import Standing
from ledto.questions.history import DEFAULT_POSSIBLE

ASKED, ASKED_PAIRS, PAIRS_AT_ONCE = 2_000, 1_000, 20_000
WANTED_MS = 5


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
        drawn = drawn_events(kept, ASKED)
        why = timed(partial(ask, kept), drawn)
        pairs = near_pairs(len(kept), ASKED_PAIRS)
        related = timed(partial(ask_pair, kept.relation), pairs)
        led = [pair for pair in pairs if kept.relation(*pair) in (Standing.BEFORE, Standing.AFTER, Standing.POSSIBLE)]
        explained = timed(partial(ask_pair, kept.explain), led)
        for question, taken in (
            ("`why` with what is possible, any event", why),
            ("`relation`, any pair", related),
            ("`explain`, pairs of which one may have led to the other", explained),
        ):
            rows.append((f"ledto, {name}: {question}", events, *milliseconds(taken)))
        reached = 1e3 * statistics.median(why)
        goals.append(
            Goal(
                f"`why` with what is possible at most {WANTED_MS} ms at {events} events of {name}, history open",
                f"{reached:.1f} ms",
                reached <= WANTED_MS,
            )
        )
        first, second = zip(*near_pairs(len(kept), PAIRS_AT_ONCE), strict=True)
        start = time.perf_counter()
        kept.relations(first, second)
        bulk.append(f"{PAIRS_AT_ONCE / (time.perf_counter() - start):,.0f} pairs a second of {name}")
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
