"""Assumed causes stay unless a certain cause contradicts them."""

from __future__ import annotations

import numpy as np

from ledto.causality.order import Edges, order_rows


def ordered(assumed_cause: int) -> list[int]:
    """Rows 0-2 are a client's, 3-5 a server's: a call, its end, a second call; both calls arrive, then the first ends.

    Gives the assumed edges that were left out.
    """
    starts = np.array([0, 3, 6], np.int64)
    time = np.array([0, 10, 20, 1, 21, 22], np.int64)
    # Row 3 receives from 0 and row 4 from 2; row 1 is assumed to have waited for a row of the server.
    offsets = np.array([0, 0, 1, 1, 2, 3, 3], np.int64)
    edges = Edges(offsets, np.array([assumed_cause, 0, 2], np.int64), np.array([7, 1, 2], np.int64))
    found = order_rows(starts, time, edges, np.array([True, False, False]))
    assert not len(found.in_cycle)
    assert found.edges.causes.tolist()[1:] == [0, 2]
    return np.flatnonzero(found.edges.causes == -1).tolist()


def test_an_answer_that_came_after_its_effects_is_left_out_alone() -> None:
    """A server that ends after the client's next call would be called a cause of it, or true messages would be left out."""
    assert ordered(5) == [0]
    assert ordered(3) == []
