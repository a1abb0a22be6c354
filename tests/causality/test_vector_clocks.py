"""Vector clocks and boundaries against reachability, however a computation is cut into segments."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.causality.boundary import Boundary
from ledto.causality.skeleton import Skeleton
from ledto.causality.sparse_vectors import Vectors
from ledto.causality.vector_clocks import Scan, clock_rows, vector_clocks
from tests.causality.random_skeletons import History, histories


@given(histories())
def test_clocks_count_the_past(history: History) -> None:
    """Every relation, past and cut that rests on a clock would be wrong."""
    truth = history.truth
    for segment, boundary in zip(history.segments, history.boundaries(), strict=True):
        clocks = vector_clocks(segment.skeleton, boundary)
        assert clocks.dtype == np.int32
        assert clocks.tolist() == [truth.vector(event) for event in segment.events]


@given(histories())
def test_boundaries_say_what_is_before(history: History) -> None:
    """A segment would be answered from a state that is not that of its start."""
    truth = history.truth
    for segment, boundary in zip(history.segments, history.boundaries(), strict=True):
        last = {truth.process[event]: event for event in range(segment.first)}
        none = [0] * truth.processes
        present = {truth.process[event] for event in segment.events}
        assert boundary.known.dense(truth.processes).tolist() == [
            truth.vector(last[each]) if each in last and each in present else none for each in range(truth.processes)
        ]
        assert boundary.before.tolist() == [
            truth.index[last[each]] if each in last else 0 for each in range(truth.processes)
        ]
        assert boundary.starts == (segment.first == 0)
        sends = sorted({cause for event in segment.events for cause in truth.causes[event] if cause < segment.first})
        assert boundary.send_position.tolist() == [history.position[send] for send in sends]
        assert boundary.send_process.tolist() == [truth.process[send] for send in sends]
        assert boundary.send_index.tolist() == [truth.index[send] for send in sends]
        assert boundary.send_known.dense(truth.processes).tolist() == [truth.vector(send) for send in sends]
        assert boundary.send_position[boundary.edge_send].tolist() == segment.edge_position.tolist()
        rows, positions = boundary.edges(1, len(segment.skeleton))
        inner = segment.edge_row >= 1
        assert (rows + 1).tolist() == segment.edge_row[inner].tolist()
        assert positions.tolist() == segment.edge_position[inner].tolist()


@given(histories(least=1), st.lists(st.integers(0, 59), max_size=9))
def test_rows_asked_for(history: History, asked: list[int]) -> None:
    """A question about few rows, in any order and repeated, would get the clocks of others."""
    truth = history.truth
    for segment, boundary in zip(history.segments, history.boundaries(), strict=True):
        rows = [row % len(segment.skeleton) for row in asked]
        clocks = clock_rows(segment.skeleton, boundary, np.array(rows, np.int64))
        assert clocks.dense(truth.processes).tolist() == [truth.vector(segment.first + row) for row in rows]


def test_many_messages_in_flight() -> None:
    """Small cases never hold more vectors than the pass starts with; those added in mid-run would be lost or mixed up."""
    random = np.random.default_rng(5)
    events, processes, flight = 6000, 3, 2400
    process = random.integers(0, processes, events)
    # Every row receives from the one before it, so that each send holds on to numbers of its own.
    causes = [[event - back for back in (1, flight) if event >= back] for event in range(events)]
    vectors = np.zeros((events, processes), np.int64)
    last: dict[int, int] = {}
    for event, own in enumerate(process):
        for cause in [*causes[event], *([last[own]] if own in last else [])]:
            vectors[event] = np.maximum(vectors[event], vectors[cause])
        vectors[event, own] += 1
        last[own] = event
    backs = [event - cause for event in range(events) for cause in causes[event]]
    whole = Skeleton(process, np.cumsum([0, *map(len, causes)]), backs)
    assert (vector_clocks(whole, Boundary.empty(processes)) == vectors).all()
    scan, half = Scan(processes), events // 2
    scan.segment(whole.part(0, half), 0, [], [], np.arange(half - flight, half))
    rest = np.arange(half, half + flight)
    rows = np.concatenate([[0], rest - half])
    positions = np.concatenate([[half - 1], rest - flight])
    inner = [[back for back in (1, flight) if event - back >= half] for event in range(half, events)]
    second = Skeleton(process[half:], np.cumsum([0, *map(len, inner)]), [back for backs in inner for back in backs])
    boundary = scan.segment(second, half, rows, positions, [])
    assert (vector_clocks(second, boundary) == vectors[half:]).all()


def test_sends_are_kept_until_released() -> None:
    """A long scan would run out of memory, or a late receive would find its send gone."""
    send, receive = Skeleton([0, 0], [0, 0, 0], []), Skeleton([1], [0, 0], [])
    scan = Scan(2)
    scan.segment(send, 0, [], [], [0, 1])
    assert scan.segment(receive, 2, [0], [1], []).send_known.dense(2).tolist() == [[2, 0]]
    assert scan.to_arrays()["position"].tolist() == [0, 1]
    scan.release([1, 99])
    assert scan.segment(receive, 3, [0], [0], []).send_known.dense(2).tolist() == [[1, 0]]
    with pytest.raises(ValueError, match="1 causes from before the segment are not held, the first at position 1"):
        scan.segment(receive, 4, [0], [1], [])
    after = scan.segment(receive, 4, [], [], [])
    assert after.known.dense(2).tolist() == [[0, 0], [2, 2]]


def test_what_cannot_be_a_segment_is_refused() -> None:
    """Damaged files would be read out of bounds, or answered from."""
    for process, offsets, back, message in [
        ([0, -1], [0, 0, 0], [], "row 1 has process -1"),
        ([0, 0], [0, 1, 3], [1, 1, 0], "cause 2 is 0 rows back"),
        ([0, 0, 0], [0, 2, 1, 2], [1, 1], "the causes of row 1 end before they start"),
        ([0], [0, 0], [1], "from 0 to 0 and not from 0 to 1"),
        ([0], [1, 1], [1], "from 1 to 1 and not from 0 to 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            Skeleton(process, offsets, back)
    with pytest.raises(ValueError, match="one offset more than rows"):
        Skeleton([0, 0], [0, 0], [])
    with pytest.raises(TypeError, match="whole numbers"):
        Skeleton([0.5], [0, 0], [])
    with pytest.raises(ValueError, match="do not fit 32 bits"):
        Skeleton([1 << 31], [0, 0], [])
    scan = Scan(1)
    with pytest.raises(ValueError, match="has process 1; its boundary, 1"):
        scan.segment(Skeleton([1], [0, 0], []), 0, [], [], [])
    with pytest.raises(ValueError, match="reach 1 rows before the first"):
        scan.segment(Skeleton([0], [0, 1], [1]), 0, [], [], [])
    with pytest.raises(ValueError, match="positions 1 to 1 are needed later; the segment has 0 to 0"):
        scan.segment(Skeleton([0], [0, 0], []), 0, [], [], [1])
    scan.segment(Skeleton([0], [0, 0], []), 5, [], [], [])
    with pytest.raises(ValueError, match="starts at 5, the last ended at 6"):
        scan.segment(Skeleton([0], [0, 0], []), 5, [], [], [])


def test_more_events_than_vectors_can_count() -> None:
    """A count past 2**31 would turn negative, and everything would be concurrent."""
    full = Boundary([(1 << 31) - 2, 0], Vectors.of([[(1 << 31) - 2, 0], [0, 0]]), [], [], [], [], [], Vectors.empty())
    one, two = Skeleton([0], [0, 0], []), Skeleton([0, 0], [0, 0, 0], [])
    assert vector_clocks(one, full).tolist() == [[(1 << 31) - 1, 0]]
    assert vector_clocks(Skeleton([1, 1], [0, 0, 0], []), full).tolist() == [[0, 1], [0, 2]]
    with pytest.raises(OverflowError, match="process 0 has 2147483648 events"):
        vector_clocks(two, full)
