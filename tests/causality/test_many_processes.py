"""Computations of many processes that come and go, against reachability written out."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.causality import column_blocks
from ledto.causality.boundary import Boundary
from ledto.causality.pairs import happened_before
from ledto.causality.skeleton import Skeleton
from ledto.causality.sweeps import PastSweep
from ledto.causality.vector_clocks import Scan, clock_rows


class Drawn:
    """An execution of processes of which few live at a time, and its pasts as sets of events."""

    def __init__(self, random: Random, events: int, alive: int) -> None:
        self.process: list[int] = []
        self.causes: list[list[int]] = []
        self.past: list[set[int]] = []
        living, self.processes = list(range(alive)), alive
        last: dict[int, int] = {}
        flight: list[int] = []
        for event in range(events):
            if random.random() < 0.2:
                living[random.randrange(alive)] = self.processes
                self.processes += 1
            own = random.choice(living)
            chosen = [flight.pop(random.randrange(len(flight))) for _ in range(random.choice((0, 0, 1, 2))) if flight]
            self.process.append(own)
            self.causes.append(sorted(set(chosen)))
            behind = [*self.causes[-1], *([last[own]] if own in last else [])]
            self.past.append({event}.union(*(self.past[cause] for cause in behind)))
            last[own] = event
            if random.random() < 0.6:
                flight.append(event)

    def vector(self, event: int) -> list[int]:
        return np.bincount([self.process[each] for each in self.past[event]], minlength=self.processes).tolist()

    def segment(self, start: int, stop: int) -> tuple[Skeleton, list[int], list[int], list[int]]:
        rows = range(start, stop)
        inner = [[event - cause for cause in self.causes[event] if cause >= start] for event in rows]
        across = [(event - start, cause) for event in rows for cause in self.causes[event] if cause < start]
        later = [cause for causes in self.causes[stop:] for cause in causes if start <= cause < stop]
        skeleton = Skeleton(
            self.process[start:stop], np.cumsum([0, *map(len, inner)]), [back for each in inner for back in each]
        )
        return skeleton, [row for row, _ in across], [cause for _, cause in across], later


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from([2, 5, 40]), st.booleans())
def test_what_is_known_where_processes_come_and_go(seed: int, alive: int, narrow: bool) -> None:
    """A boundary that forgot what someone still knows, or a block of columns that was lost, would hide causes.

    Processes are forgotten after their last events. With narrow blocks, every segment takes several passes.
    """
    random = Random(seed)
    truth = Drawn(random, random.choice((30, 120)), alive)
    total = len(truth.process)
    cuts = sorted({0, total, *(random.randrange(total) for _ in range(random.choice((1, 4, 12))))})
    scan = Scan(truth.processes)
    with pytest.MonkeyPatch.context() as patch:
        if narrow:
            patch.setattr(column_blocks, "BLOCK_NUMBERS", 1)
        for start, stop in itertools.pairwise(cuts):
            skeleton, rows, positions, later = truth.segment(start, stop)
            ended = sorted(set(truth.process[:stop]) - set(truth.process[stop:]))
            boundary = scan.segment(skeleton, start, rows, positions, later, ended)
            _check(truth, random, skeleton, boundary, start)


def _check(truth: Drawn, random: Random, skeleton: Skeleton, boundary: Boundary, start: int) -> None:
    every = range(start, start + len(skeleton))
    before = np.bincount(truth.process[:start], minlength=truth.processes)
    assert boundary.before.tolist() == before.tolist()
    known = boundary.known.dense(truth.processes).tolist()
    for process in {truth.process[event] for event in every}:
        earlier = [event for event in range(start) if truth.process[event] == process]
        assert known[process] == (truth.vector(earlier[-1]) if earlier else [0] * truth.processes)
    assert boundary.send_known.dense(truth.processes).tolist() == [
        truth.vector(send) for send in boundary.send_position.tolist()
    ]
    found = clock_rows(skeleton, boundary, np.arange(len(skeleton))).dense(truth.processes)
    assert found.tolist() == [truth.vector(event) for event in every]
    row = random.randrange(len(skeleton))
    sweep = PastSweep(truth.processes, start + row)
    sweep.step(skeleton.part(0, row + 1), start, edges_across=boundary.edges(0, row + 1))
    assert sweep.vector(boundary).tolist() == truth.vector(start + row)
    one = [random.randrange(start + len(skeleton)) for _ in range(60)]
    other = [random.choice(every) for _ in one]
    index = [truth.process[: event + 1].count(truth.process[event]) for event in one]
    answers = happened_before(
        skeleton, boundary, [truth.process[event] for event in one], index, [event - start for event in other]
    )
    assert answers.tolist() == [a != b and a in truth.past[b] for a, b in zip(one, other, strict=True)]


def test_a_process_that_has_ended_has_no_more_events() -> None:
    """Its later events would seem to have no past."""
    scan = Scan(2)
    one = Skeleton([0, 1], [0, 0, 0], [])
    scan.segment(one, 0, [], [], [], [1])
    scan.segment(Skeleton([0], [0, 0], []), 2, [], [], [])
    with pytest.raises(ValueError, match="process 1 has 1 events before the segment and more in it"):
        scan.segment(one, 3, [], [], [])
