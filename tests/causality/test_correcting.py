"""Corrected times where lines share clocks: causality and the order of each clock, and nothing more."""

from __future__ import annotations

from random import Random

import networkx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from whence.causality.correcting import corrections, corrections_by_clock
from whence.causality.ordering import NO_TIME, Edges


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 30), st.integers(0, 20))
def test_corrected_times_keep_causes_and_each_clock_in_order(seed: int, lines: int, rows: int, span: int) -> None:
    """A service's own two events must not change places because a caller's clock was off."""
    random = Random(seed)
    line = np.sort([random.randrange(lines) for _ in range(rows)])
    starts = np.searchsorted(line, np.arange(lines + 1)).astype(np.int64)
    time = np.array([random.choice([NO_TIME, *[random.randint(0, span)] * 5]) for _ in range(rows)], np.int64)
    clock = np.array([random.choice([-1, 0, 0, 1]) for _ in range(lines)], np.int64)[line]
    causes = [[random.randrange(rows) for _ in range(random.choice([0, 0, 1, 2]))] for _ in range(rows)]
    causes = [[cause for cause in mine if cause < row] for row, mine in enumerate(causes)]
    offsets = np.concatenate(([0], np.cumsum([len(mine) for mine in causes]))).astype(np.int64)
    flat = np.array([cause for mine in causes for cause in mine], np.int64)

    graph = networkx.DiGraph()
    graph.add_nodes_from(range(rows))
    graph.add_edges_from((cause, row) for row, mine in enumerate(causes) for cause in mine)
    graph.add_edges_from((row - 1, row) for row in range(1, rows) if line[row] == line[row - 1])
    edges = Edges(offsets, flat, np.full(len(flat), -1, np.int64))
    pasts, expected = _naive(graph, time)
    causal_time = np.array([max(past, default=NO_TIME) for past in pasts], np.int64)
    assert corrections(starts, time, causal_time, edges).tolist() == expected

    timed = [row for row in range(rows) if time[row] != NO_TIME]
    for one in timed:
        for other in timed:
            if one != other and clock[one] == clock[other] >= 0 and (time[one], one) < (time[other], other):
                graph.add_edge(one, other)
    found = corrections_by_clock(starts, time, edges, clock)
    assert found.tolist() == _naive(graph, time)[1]


def _naive(graph: networkx.DiGraph, time: NDArray[np.int64]) -> tuple[list[list[int]], list[int]]:
    """By row: the times in its past, its own included, and the correction by the definition."""
    pasts, expected = [], []
    for row in range(len(time)):
        past = [time[each] for each in {row, *networkx.ancestors(graph, row)} if time[each] != NO_TIME]
        future = [time[each] for each in {row, *networkx.descendants(graph, row)} if time[each] != NO_TIME]
        pasts.append(past)
        expected.append(0 if time[row] == NO_TIME else (max(past) + min(future)) // 2 - time[row])
    return pasts, expected
