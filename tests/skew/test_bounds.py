"""Bounds on differences, against sums over chains written out."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.skew.bounds import UNBOUNDED, bounds_from, contradictions, tighten, to_matrix


def _two_in_a_row(bounds: list[list[float]]) -> list[list[float]]:
    """The least bound by one or two of these in a row; numbers without end stand for none."""
    every = range(len(bounds))
    return [[min(bounds[a][b], *(bounds[a][via] + bounds[via][b] for via in every)) for b in every] for a in every]


@given(st.integers(0, 1 << 32), st.sampled_from([1, 2, 3, 5, 9]))
def test_who_contradicts_whom(seed: int, count: int) -> None:
    """A broken clock is named by who contradicts it: a pair too many accuses a good one, a pair too few hides it."""
    random = Random(seed)
    edges = [(random.randrange(count), random.randrange(count)) for _ in range(random.choice((0, count, 3 * count)))]
    edges = [(a, b) for a, b in edges if a != b]
    weights = [random.randint(-4, 20) for _ in edges]
    ends = np.array(edges, np.int64).reshape(-1, 2)
    given_bounds = to_matrix(count, ends[:, 0], ends[:, 1], np.array(weights, np.int64))
    chains = [[float(bound) if bound < UNBOUNDED else float("inf") for bound in row] for row in given_bounds.tolist()]
    expected = [[False] * count for _ in range(count)]
    for _ in range(count.bit_length() + 1):
        expected = [[chains[a][b] + chains[b][a] < 0 for b in range(count)] for a in range(count)]
        if any(map(any, expected)):
            break
        chains = _two_in_a_row(chains)
    assert contradictions(given_bounds).tolist() == expected
    assert (tighten(given_bounds) is None) == any(map(any, expected))


@pytest.mark.parametrize("count", [3, 4, 8])
def test_a_long_circle_is_found(count: int) -> None:
    """A contradiction that only many clocks together show."""
    ring = np.arange(count)
    weights = np.where(ring == 0, -count, 1)
    found = contradictions(to_matrix(count, ring, (ring + 1) % count, weights))
    assert found.any()
    assert np.array_equal(found, found.T)


@pytest.mark.parametrize("closing", [-1_000, 1_000])
def test_bounds_along_a_long_chain_are_sums_and_a_circle_has_none(closing: int) -> None:
    """Of hundreds of clocks, one would be bounded too loosely, or contradictions would pass for bounds.

    The chain is given from its end, so that each round finds one more sum: many rounds are no contradiction yet.
    """
    count = 700
    at = np.arange(count - 1)[::-1]
    weights = np.where(at % 3 == 0, -2, 1)
    found = bounds_from(count, at, at + 1, weights, 0)
    expected = np.concatenate(([0], np.cumsum(weights[::-1])))
    assert found is not None
    assert np.array_equal(found, expected)
    ring = bounds_from(count, np.append(at, count - 1), np.append(at + 1, 5), np.append(weights, closing), 0)
    assert (ring is None) == (closing < 0)
