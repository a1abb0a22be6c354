"""The past and the future of events, part by part, against reachability."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.causality.skeleton import Skeleton
from ledto.causality.sweeps import FutureSweep, PastSweep
from tests.causality.random_skeletons import Computation, History, cut, histories, parts

part_rows = st.sampled_from([1, 2, 7, 100])


def parts_of(history: History, rows: int) -> list[tuple[Skeleton, int, tuple]]:
    return [part for segment in history.segments for part in parts(segment, rows)]


def events_at(history: History, positions: list[int]) -> list[int]:
    event = {position: event for event, position in enumerate(history.position)}
    return [event[position] for position in positions]


@given(histories(least=1), part_rows, st.booleans())
def test_past(history: History, rows: int, exhausted: bool) -> None:
    """What led to an event would be incomplete, or name what had nothing to do with it."""
    truth = history.truth
    boundaries = history.boundaries()
    for start in range(len(truth)):
        sweep = PastSweep(truth.processes, history.position[start])
        found: list[int] = []
        for segment, boundary in zip(reversed(history.segments), reversed(boundaries), strict=True):
            for part, first, edges in reversed(parts(segment, rows)):
                in_past = sweep.step(part, first, edges_across=edges)
                assert in_past.tolist() == sorted(in_past.tolist())
                found += [first + int(row) for row in in_past]
            if exhausted:
                sweep.forget_exhausted(boundary.before)
                if sweep.done:
                    break
        assert sorted(events_at(history, found)) == [a for a in np.flatnonzero(truth.past[start]) if a != start]
        assert sweep.done or not exhausted


@given(histories(least=1), part_rows, st.integers(0, 12), st.integers(1, 4))
def test_last_ones_wanted(history: History, rows: int, limit: int, every: int) -> None:
    """The last K causes of a kind would be others, or be cut short where unwanted events carry the past on."""
    truth = history.truth
    for start in range(len(truth)):
        sweep = PastSweep(truth.processes, history.position[start], limit=limit)
        found: list[int] = []
        for part, first, edges in reversed(parts_of(history, rows)):
            if sweep.done:
                break
            wanted = np.array([position % every == 0 for position in range(first, first + len(part))])
            found += [first + int(row) for row in sweep.step(part, first, edges_across=edges, wanted=wanted)]
        past = [a for a in np.flatnonzero(truth.past[start]) if a != start and history.position[a] % every == 0]
        assert sorted(events_at(history, found)) == (past[-limit:] if limit else [])


@given(histories(least=1), part_rows)
def test_vector_at_the_segment_start(history: History, rows: int) -> None:
    """The clock of an event would differ from the one it had, and with it every relation and cut drawn from it."""
    truth = history.truth
    for segment, boundary in zip(history.segments, history.boundaries(), strict=True):
        for event in segment.events:
            sweep = PastSweep(truth.processes, history.position[event])
            for part, first, edges in reversed(parts(segment, rows)):
                sweep.step(part, first, edges_across=edges)
            assert sweep.vector(boundary).tolist() == truth.vector(event)


@given(histories(least=1), part_rows)
def test_future_and_paths(history: History, rows: int) -> None:
    """An explanation would show a message that was never sent, or miss that one event led to another."""
    truth = history.truth
    messages = {(cause, event) for event, causes in enumerate(truth.causes) for cause in causes}
    whole = cut(truth, [], [0])
    for start in range(len(truth)):
        sweep, uncut = FutureSweep(truth.processes, history.position[start]), FutureSweep(truth.processes, start)
        uncut.step(whole.segments[0].skeleton, 0)
        found: list[int] = []
        for part, first, edges in parts_of(history, rows):
            found += [first + int(row) for row in sweep.step(part, first, edges_across=edges)]
        future = [b for b in range(len(truth)) if truth.past[b, start]]
        assert events_at(history, found) == [b for b in future if b != start]
        firsts = [next((b for b in future if truth.process[b] == each), None) for each in range(truth.processes)]
        assert sweep.entered.tolist() == [-1 if b is None else history.position[b] for b in firsts]
        assert sweep.complete == (None not in firsts)
        for target in range(len(truth)):
            steps = sweep.path(
                history.position[target],
                truth.process[target],
                process_of=lambda position: truth.process[events_at(history, [position])[0]],
            )
            if target not in future:
                assert steps is None
                continue
            assert steps is not None
            at = start
            path = [(*events_at(history, [cause, effect]), message) for cause, effect, message in steps]
            for cause, effect, message in path:
                assert cause == at
                if message:
                    assert (cause, effect) in messages
                else:
                    assert truth.process[cause] == truth.process[effect]
                    assert cause < effect
                at = effect
            assert at == target
            assert path == uncut.path(target, truth.process[target])
            if target in firsts and target != start:
                assert path[-1] == (min(cause for cause in truth.causes[target] if cause in future), target, True)


@given(histories(least=1), part_rows, st.integers(0, 12), st.integers(1, 4))
def test_first_ones_wanted(history: History, rows: int, limit: int, every: int) -> None:
    """The first K effects of a kind would be others."""
    truth = history.truth
    for start in range(len(truth)):
        sweep = FutureSweep(truth.processes, history.position[start], limit=limit)
        found: list[int] = []
        for part, first, edges in parts_of(history, rows):
            wanted = np.array([position % every == 0 for position in range(first, first + len(part))])
            found += [first + int(row) for row in sweep.step(part, first, edges_across=edges, wanted=wanted)]
        future = [b for b in np.flatnonzero(truth.past[:, start]) if b != start and history.position[b] % every == 0]
        assert events_at(history, found) == future[:limit]


def test_parts_out_of_order_or_left_out() -> None:
    """A reader that skips a row group would present half a past as the whole."""
    truth = Computation(Random(3), 3, 60, 0.6)
    (segment,) = cut(truth, [], [0]).segments
    oldest, middle, newest = parts(segment, 20)
    # Of a process that has no events: nobody can know that all were reached.
    past = PastSweep(4, 59)
    with pytest.raises(ValueError, match="position 59 is in the past and was passed over"):
        past.step(middle[0], middle[1])
    past.step(newest[0], newest[1])
    with pytest.raises(ValueError, match="newest first"):
        past.step(newest[0], newest[1])
    with pytest.raises(ValueError, match="was passed over: this part ends before 20"):
        past.step(oldest[0], oldest[1])
    with pytest.raises(ValueError, match="take the vector at the start of the event's own segment"):
        past.vector(cut(truth, [], [0]).boundaries()[0])
    future = FutureSweep(3, 0)
    with pytest.raises(ValueError, match="start with the one that holds 0"):
        future.step(middle[0], middle[1])
    future.step(oldest[0], oldest[1])
    with pytest.raises(ValueError, match="oldest first"):
        future.step(oldest[0], oldest[1])
    with pytest.raises(ValueError, match="position 20 was not reached yet"):
        future.path(20, 0)
    with pytest.raises(ValueError, match="not before the part"):
        future.step(middle[0], middle[1], edges_across=(np.array([0]), np.array([20])))


def test_an_earlier_part_that_was_left_out() -> None:
    """The future would silently lose all that a skipped row group passed on."""
    chain = Skeleton([0, 1, 2], [0, 0, 1, 2], [1, 1])
    sweep = FutureSweep(3, 0)
    sweep.step(chain.part(0, 1), 0)
    with pytest.raises(ValueError, match="a cause at position 1 was passed over"):
        sweep.step(chain.part(2, 3), 2)


def test_a_path_across_parts_needs_to_know_senders() -> None:
    """The path would be guessed where the sender's process is not at hand."""
    chain = Skeleton([0, 1], [0, 0, 1], [1])
    sweep = FutureSweep(2, 0)
    sweep.step(chain.part(0, 1), 0)
    sweep.step(chain.part(1, 2), 1)
    with pytest.raises(LookupError, match="the process of position 0 is needed"):
        sweep.path(1, 1)
    assert sweep.path(1, 1, process_of=lambda position: [0, 1][position]) == [(0, 1, True)]
