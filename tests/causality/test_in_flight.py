"""Messages in flight across a cut, against a walk over every message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.causality.boundary import Boundary
from ledto.causality.in_flight import messages_in_flight
from ledto.causality.skeleton import Skeleton
from tests.causality.random_skeletons import History, histories


@given(histories(), st.lists(st.integers(0, 12), min_size=20, max_size=20))
def test_in_flight(history: History, limits: list[int]) -> None:
    """A snapshot would miss messages under way, or show some that had arrived."""
    truth = history.truth
    inside = limits[: truth.processes]
    found = []
    for segment, boundary in zip(history.segments, history.boundaries(), strict=True):
        sends, receives = messages_in_flight(segment.skeleton, boundary, segment.first_position, inside)
        found += list(zip(sends.tolist(), receives.tolist(), strict=True))
    within = [truth.index[event] <= inside[truth.process[event]] for event in range(len(truth))]
    assert found == [
        (history.position[cause], history.position[event])
        for event in range(len(truth))
        for cause in sorted(truth.causes[event])
        if within[cause] and not within[event]
    ]


def test_a_cut_of_another_computation() -> None:
    """Counts would be taken for those of other processes."""
    with pytest.raises(ValueError, match="each of 2 processes, not"):
        messages_in_flight(Skeleton([0], [0, 0], []), Boundary.empty(2), 0, [1])
