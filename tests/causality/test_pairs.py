"""Happened-before for many pairs, against reachability."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.causality.boundary import Boundary
from ledto.causality.pairs import happened_before
from ledto.causality.skeleton import Skeleton
from tests.causality.random_skeletons import Computation, History, cut, histories


@given(histories(), st.integers(0, 1 << 32))
def test_every_pair(history: History, seed: int) -> None:
    """An answer about two events would depend on where the history was cut, or be wrong."""
    truth = history.truth
    for segment, boundary in zip(history.segments, history.boundaries(), strict=True):
        pairs = [(a, b) for a in range(len(truth)) for b in segment.events]
        Random(seed).shuffle(pairs)
        found = happened_before(
            segment.skeleton,
            boundary,
            np.array([truth.process[a] for a, _ in pairs], np.int64),
            np.array([truth.index[a] for a, _ in pairs], np.int64),
            np.array([b - segment.first for _, b in pairs], np.int64),
        )
        assert found.tolist() == [bool(truth.past[b, a]) and a != b for a, b in pairs]


@given(st.integers(0, 1 << 32), st.integers(1, 12), st.sampled_from([1, 2, 4]))
def test_small_computations_in_one_segment(seed: int, computations: int, processes: int) -> None:
    """Events of computations that have nothing to do with each other would be called related."""
    random = Random(seed)
    truths = [Computation(random, processes, random.randrange(1, 12), 0.4) for _ in range(computations)]
    merged = sorted((random.random(), which) for which, truth in enumerate(truths) for _ in range(len(truth)))
    rows: list[tuple[int, int]] = []
    done = [0] * computations
    for _, which in merged:
        rows.append((which, done[which]))
        done[which] += 1
    place = {event: row for row, event in enumerate(rows)}
    backs = [
        [row - place[which, cause] for cause in truths[which].causes[event]] for row, (which, event) in enumerate(rows)
    ]
    skeleton = Skeleton(
        np.array([which * processes + truths[which].process[event] for which, event in rows]),
        np.cumsum([0, *map(len, backs)]),
        np.array([back for each in backs for back in each], np.int64),
    )
    pairs = [(a, b) for a in range(len(rows)) for b in range(len(rows))]
    found = happened_before(
        skeleton,
        Boundary.empty(computations * processes),
        skeleton.process[[a for a, _ in pairs]],
        np.array([truths[rows[a][0]].index[rows[a][1]] for a, _ in pairs]),
        np.array([b for _, b in pairs]),
    )
    assert found.tolist() == [
        a != b and rows[a][0] == rows[b][0] and bool(truths[rows[a][0]].past[rows[b][1], rows[a][1]]) for a, b in pairs
    ]


def test_very_many_processes_that_do_not_meet() -> None:
    """A segment of a hundred thousand small computations would need 40 GB."""
    processes = 200_000
    process = np.repeat(np.arange(processes), 2)
    process[1::2] ^= 1
    rows = np.arange(2 * processes)
    odd = rows % 2 == 1
    skeleton = Skeleton(process, np.cumsum([0, *odd]), np.ones(processes, np.int64))
    found = happened_before(skeleton, Boundary.empty(processes), process[:-1], rows[:-1] % 4 // 2 + 1, rows[1:])
    assert found.tolist() == [row % 4 != 3 for row in rows[:-1]]


def test_pairs_that_do_not_exist() -> None:
    """A mistyped process or row would be answered from another's memory; an event to come is in no past."""
    history = cut(Computation(Random(1), 2, 10, 0.5), [5], [0])
    segment, boundary = history.segments[1], history.boundaries()[1]
    assert happened_before(segment.skeleton, boundary, [0], [999], [4]).tolist() == [False]
    assert happened_before(segment.skeleton, boundary, [], [], []).tolist() == []
    for process, index, row, message in [
        ([2], [1], [0], "process 2 is asked for; the boundary has 2"),
        ([0], [0], [0], "numbered from 1; index 0"),
        ([0], [1], [5], "row 5 is asked for; the segment has 5"),
        ([0], [1], [-1], "row -1 is asked for"),
        ([0, 1], [1], [0], "three flat columns of one length"),
    ]:
        with pytest.raises(ValueError, match=message):
            happened_before(segment.skeleton, boundary, process, index, row)
