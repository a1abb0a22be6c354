"""`replay`: the stamps of a recorded trace, and the traces it must refuse."""

from __future__ import annotations

from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.events.columns import ReportArrays, TrueOrder
from ledto.simulation import Delay, RecordedTrace, TraceError, closest, drawn_arrivals, replay, simulate
from ledto.simulation.replay import LOCAL, NEVER, RECEIVE, SEND
from tests.simulation.reference import Simulation, simulation

KINDS = {"local": LOCAL, "send": SEND, "receive": RECEIVE}


def trace_of(run: Simulation, order: list[int]) -> RecordedTrace:
    """The run's events in another interleaving: `order` picks whose event comes next."""
    arrivals = {(row.process, row.seq): row.arrival for row in run.rows[: run.model.messages]}
    queues: dict[int, list[Any]] = {}
    for event in run.trace:
        queues.setdefault(event[0], []).append(event)
    events = []
    while queues:
        chosen = sorted(queues)[order[len(events) % len(order)] % len(queues)]
        events.append(queues[chosen].pop(0))
        if not queues[chosen]:
            del queues[chosen]
    return RecordedTrace(
        np.array([process for process, *_ in events]),
        np.array([KINDS[kind] for _, kind, *_ in events]),
        np.array([-7 if name is None else name[0] * 1000 + name[1] for *_, name, _ in events]),
        np.array([wall for *_, wall in events]),
        np.array([arrivals.get(name, NEVER) for *_, name, _ in events]),
    )


def by_message(reports: ReportArrays, truth: TrueOrder) -> list[tuple[Any, ...]]:
    columns = (reports.process, reports.seq, reports.r, reports.c, reports.kn, reports.arrival, truth.vector)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


@settings(max_examples=60)
@given(
    processes=st.integers(2, 5),
    eps=st.integers(1, 6),
    idle=st.sampled_from(["no_event", "local_event"]),
    seed=st.integers(0, 10**6),
    order=st.lists(st.integers(0, 9), min_size=1, max_size=30),
)
def test_a_recorded_run_replays_to_the_same_reports(
    processes: int, eps: int, idle: Any, seed: int, order: list[int]
) -> None:
    """A study on a real trace would differ from the synthetic one by the tool, not by the traffic."""
    model = replace(closest(processes, eps, 5, 0.4, messages=60), receives="on_arrival", idle_ticks=idle)
    run = simulation(model, seed)
    run.run()
    reports, truth = replay(trace_of(run, order), eps)
    expected_reports, expected_truth = simulate(model, seed)
    assert (np.diff(reports.arrival) >= 0).all()
    # The largest process that appears sets the vector's length: others have sent nothing.
    width = truth.vector.shape[1]
    expected = replace(expected_truth, vector=expected_truth.vector[:, :width])
    assert by_message(reports, truth) == by_message(expected_reports, expected)


def trace(*events: tuple[int, int, int, int]) -> RecordedTrace:
    """Events (process, kind, message, wall); every report arrives at 99."""
    process, kind, message, wall = (np.array(column) for column in zip(*events, strict=True))
    return RecordedTrace(process, kind, message, wall, np.full(len(process), 99))


@pytest.mark.parametrize(
    ("events", "what"),
    [
        ([(0, RECEIVE, 5, 1)], "event 0: message 5 is received and never sent"),
        ([(0, SEND, 5, 1), (1, SEND, 5, 1)], "event 1: message 5 is sent a second time"),
        ([(0, LOCAL, 0, 4), (1, LOCAL, 0, 9), (0, LOCAL, 0, 3)], "event 2: the clock of process 0 goes back to 3"),
        ([(0, RECEIVE, 2, 1), (0, SEND, 1, 1), (1, RECEIVE, 1, 1), (1, SEND, 2, 1)], "event 0: .* causal loop"),
        ([(0, SEND, 1, 9), (1, RECEIVE, 1, 5)], "event 1: process 1 at 5 .* eps = 3 ticks ahead; replay with a larger"),
        ([(0, 3, 1, 9)], "event 0: kind runs from 0 to 2"),
        ([(-1, LOCAL, 1, 9)], "event 0: process runs from 0"),
    ],
)
def test_a_trace_that_cannot_have_happened_is_refused(events: list[tuple[int, int, int, int]], what: str) -> None:
    """Clocks computed all the same would be wrong without anybody noticing, above all where eps is too small."""
    with pytest.raises(TraceError, match=what):
        replay(trace(*events), 3)


def test_clocks_exactly_eps_apart_are_fine() -> None:
    """The bound itself is allowed: refusing it would reject sound traces."""
    reports, truth = replay(trace((0, SEND, 1, 9), (1, RECEIVE, 1, 6), (1, SEND, 2, 6)), 3)
    assert reports.c.tolist() == [0, 3]
    assert reports.kn.tolist() == [[1, 0, 0, 0], [1, 0, 0, 2]]
    assert truth.vector.tolist() == [[1, 0], [1, 1]]


def test_arrivals_can_be_drawn_for_a_trace_without_any() -> None:
    """A trace recorded without an observer could not be studied."""
    wall = np.arange(50_000)
    for delay, normal in ((Delay.quarter, NormalDist(2.5, 1.25)), (Delay.custom(9, 5), NormalDist(9, 5))):
        waited = drawn_arrivals(wall, 10, 4, delay=delay) - wall
        waited[waited < 0] = 10  # NEVER
        for ticks in range(11):
            share = (normal.cdf(ticks + 1) if ticks < 10 else 1) - normal.cdf(ticks)
            assert (waited == ticks).mean() == pytest.approx(share / (1 - normal.cdf(0)), abs=0.01)
