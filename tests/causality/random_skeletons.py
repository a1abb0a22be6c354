"""Random computations whose happened-before is known by reachability, cut into segments at arbitrary places."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
from hypothesis import strategies as st

from ledto.causality.boundary import Boundary
from ledto.causality.skeleton import Longs, Skeleton
from ledto.causality.vector_clocks import Scan


class Computation:
    """Events in a linear extension; each has any number of causes among the earlier ones, near or far."""

    def __init__(self, random: Random, processes: int, events: int, busy: float) -> None:
        self.processes = processes
        # Some processes may have no event, or start late.
        self.process = [min(random.randrange(processes), random.randrange(processes)) for _ in range(events)]
        self.causes: list[list[int]] = []
        self.index: list[int] = []
        last: dict[int, int] = {}
        self.past = np.zeros((events, events), np.bool_)
        """``past[b, a]``: a is b, or happened before it."""
        for event, process in enumerate(self.process):
            causes: list[int] = []
            while event and random.random() < busy:
                causes.append(
                    max(0, event - random.choice([1, 2, 5, 20, events]))
                    if random.random() < 0.7
                    else random.randrange(event)
                )
            self.causes.append(causes)
            self.index.append(self.index[last[process]] + 1 if process in last else 1)
            for cause in causes + ([last[process]] if process in last else []):
                self.past[event] |= self.past[cause]
            self.past[event, event] = True
            last[process] = event

    def __len__(self) -> int:
        return len(self.process)

    def vector(self, event: int) -> list[int]:
        """The vector clock, by counting."""
        inside = np.flatnonzero(self.past[event])
        return np.bincount(np.array(self.process, np.int64)[inside], minlength=self.processes).tolist()


@dataclass
class Segment:
    """Rows ``first <= event < first + len(skeleton)`` of a computation; positions are `gap` more than events."""

    skeleton: Skeleton
    first: int
    first_position: int
    edge_row: Longs
    edge_position: Longs
    needed_later: Longs

    @property
    def events(self) -> range:
        return range(self.first, self.first + len(self.skeleton))


@dataclass
class History:
    """A computation in segments, between which the history holds something else."""

    truth: Computation
    segments: list[Segment]
    position: list[int]
    """Of each event."""

    def boundaries(self) -> list[Boundary]:
        scan = Scan(self.truth.processes)
        return [
            scan.segment(each.skeleton, each.first_position, each.edge_row, each.edge_position, each.needed_later)
            for each in self.segments
        ]

    def segment_of(self, event: int) -> int:
        return next(number for number, segment in enumerate(self.segments) if event in segment.events)


def cut(truth: Computation, cuts: list[int], gaps: list[int]) -> History:
    """The computation in segments that start at these events, with so many foreign positions before each."""
    starts = sorted({0, *(at for at in cuts if at < len(truth))})
    bounds = list(zip(starts, [*starts[1:], len(truth)], strict=True)) if len(truth) else []
    position: list[int] = []
    for number, (start, stop) in enumerate(bounds):
        base = (position[-1] + 1 if position else 0) + gaps[number % len(gaps)]
        position += range(base, base + stop - start)
    segments = []
    for start, stop in bounds:
        inner = [[event - cause for cause in truth.causes[event] if cause >= start] for event in range(start, stop)]
        across = [
            (event - start, position[cause])
            for event in range(start, stop)
            for cause in truth.causes[event]
            if cause < start
        ]
        needed = [
            position[cause]
            for event in range(stop, len(truth))
            for cause in truth.causes[event]
            if start <= cause < stop
        ]
        segments.append(
            Segment(
                Skeleton(
                    np.array(truth.process[start:stop]),
                    np.cumsum([0, *map(len, inner)]),
                    np.array([back for backs in inner for back in backs], np.int64),
                ),
                start,
                position[start],
                np.array([row for row, _ in across], np.int64),
                np.array([sent for _, sent in across], np.int64),
                np.array(needed, np.int64),
            )
        )
    return History(truth, segments, position)


def parts(segment: Segment, rows: int) -> list[tuple[Skeleton, int, tuple[Longs, Longs]]]:
    """The segment in parts of so many rows, oldest first: skeleton, first position, edges across the segment's start."""
    found = []
    for start in range(0, len(segment.skeleton), rows):
        stop = min(start + rows, len(segment.skeleton))
        own = (segment.edge_row >= start) & (segment.edge_row < stop)
        edges = (segment.edge_row[own] - start, segment.edge_position[own])
        found.append((segment.skeleton.part(start, stop), segment.first_position + start, edges))
    return found


@st.composite
def histories(draw: st.DrawFn, *, least: int = 0) -> History:
    random = Random(draw(st.integers(0, 1 << 32)))
    events = draw(st.integers(least, 60))
    truth = Computation(
        random, draw(st.sampled_from([1, 2, 3, 5, 20])), events, draw(st.sampled_from([0, 0.2, 0.5, 0.7]))
    )
    cuts = draw(st.lists(st.integers(0, 60), max_size=6))
    return cut(truth, cuts, draw(st.sampled_from([[0], [0, 7], [3]])))
