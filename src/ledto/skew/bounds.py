"""Tighten bounds on differences: from ``x[b] - x[a] <= w`` for some pairs, the tightest bounds for all pairs.

These are shortest paths (Cormen et al., *Introduction to Algorithms*, difference constraints). A cycle of negative
length means that no x meets all bounds. Numbers are integers, so nothing is rounded.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ledto.kernels import kernel, part

Longs = NDArray[np.int64]

UNBOUNDED = int(np.iinfo(np.int64).max) >> 1
"""No bound; the sum of two of them does not overflow."""
LEAST = -(UNBOUNDED >> 1)
"""The smallest bound: smaller ones are raised to it, which keeps them true, so that sums cannot overflow."""
NO_UNKNOWN = -1
"""In place of the number of an unknown: none."""
DENSE = 256
"""The most unknowns for which bounds of all pairs are kept."""


def to_matrix(count: int, a: Longs, b: Longs, bound: Longs) -> Longs:
    """Put bounds into a matrix: by ``[a, b]`` the least bound on ``x[b] - x[a]``."""
    bounds = np.full((count, count), UNBOUNDED, np.int64)
    np.fill_diagonal(bounds, 0)
    np.minimum.at(bounds, (a, b), np.maximum(bound, LEAST))
    return bounds


def tighten(bounds: Longs) -> Longs | None:
    """Return the bounds that follow from these for all pairs; None if they contradict each other."""
    tightest = bounds.copy()
    return tightest if _tighten_in_place(tightest) else None


def bounds_from(count: int, a: Longs, b: Longs, bound: Longs, source: int) -> Longs | None:
    """Return, by b, the least bound on ``x[b] - x[source]``; None if bounds that concern it contradict each other."""
    least, converged = _from_source(count, a.astype(np.int64), b.astype(np.int64), bound, source)
    return least if converged else None


def contradictions(bounds: Longs) -> NDArray[np.bool_]:
    """Tell which two unknowns contradict each other, by the shortest chains that show any contradiction; symmetric."""
    chains = bounds
    for _ in range(len(bounds).bit_length() + 1):
        bounded = (chains < UNBOUNDED) & (chains.T < UNBOUNDED)
        contradicted = bounded & (np.where(bounded, chains, 0) + np.where(bounded, chains.T, 0) < 0)
        if contradicted.any():
            return contradicted
        chains = _doubled(chains)
    return np.zeros(bounds.shape, np.bool_)


@kernel("boolean(int64[:, ::1])", work=lambda bounds: len(bounds) ** 3)
def _tighten_in_place(bounds: Longs) -> bool:
    """Tighten the bounds in place; False as soon as they contradict each other."""
    count = len(bounds)
    for via in range(count):
        for a in range(count):
            first = bounds[a, via]
            if first >= UNBOUNDED:
                continue
            for b in range(count):
                second = bounds[via, b]
                if second < UNBOUNDED and first + second < bounds[a, b]:
                    bounds[a, b] = max(first + second, LEAST)
        for a in range(count):
            # Stopping at once keeps the sums along such a cycle from growing without end.
            if bounds[a, a] < 0:
                return False
    return True


@kernel("int64[:, ::1](int64[:, :])", work=lambda bounds: len(bounds) ** 3)
def _doubled(bounds: Longs) -> Longs:
    """Return the least bounds by chains of two."""
    count = len(bounds)
    doubled = np.empty((count, count), np.int64)
    for a in range(count):
        for b in range(count):
            doubled[a, b] = bounds[a, b]
        for via in range(count):
            first = bounds[a, via]
            if first >= UNBOUNDED:
                continue
            for b in range(count):
                second = bounds[via, b]
                if second < UNBOUNDED and first + second < doubled[a, b]:
                    doubled[a, b] = max(first + second, LEAST)
    return doubled


@part
def _circular(via: Longs, source: int) -> bool:
    """Tell whether bounds follow from each other in a circle; `via` has the unknown that each one's bound came through."""
    visited_from = np.zeros(len(via), np.int64)
    for start in range(len(via)):
        unknown = start
        while unknown != NO_UNKNOWN and unknown != source and visited_from[unknown] == 0:
            visited_from[unknown] = start + 1
            unknown = via[unknown]
        if unknown != NO_UNKNOWN and unknown != source and visited_from[unknown] == start + 1:
            return True
    return bool(via[source] != NO_UNKNOWN)


@kernel(
    "Tuple((int64[::1], boolean))(int64, int64[::1], int64[::1], int64[::1], int64)",
    work=lambda count, a, b, bound, source: 16 * len(a),
)
def _from_source(count: int, a: Longs, b: Longs, bound: Longs, source: int) -> tuple[Longs, bool]:
    """Return the bounds, and whether they converged; each round looks at every bound that was given."""
    least = np.full(count, UNBOUNDED, np.int64)
    least[source] = 0
    via = np.full(count, NO_UNKNOWN, np.int64)
    check_round = 64
    for round_number in range(count):
        changed = False
        for edge in range(len(a)):
            first, second = least[a[edge]], max(bound[edge], LEAST)
            if first < UNBOUNDED and second < UNBOUNDED and max(first + second, LEAST) < least[b[edge]]:
                least[b[edge]] = max(first + second, LEAST)
                via[b[edge]] = a[edge]
                changed = True
        if not changed:
            return least, True
        if round_number == check_round:
            # Bounds in a circle would shrink until the last round: with many clocks, for hours.
            if _circular(via, source):
                return least, False
            check_round *= 2
    return least, False
