"""Bounds on differences: given ``x[b] - x[a] <= w`` for some pairs, the tightest such bounds for all pairs.

These are shortest paths (Cormen et al., *Introduction to Algorithms*, difference constraints). A cycle of negative
length says that no x meets all bounds. Numbers are integers, so that nothing is rounded.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whence.kernels import kernel, part

Longs = NDArray[np.int64]

UNBOUNDED = int(np.iinfo(np.int64).max) >> 1
"""No bound; two of them can be added."""
LEAST = -(UNBOUNDED >> 1)
"""The smallest bound: smaller ones are raised to it, which keeps them true, so that sums of them cannot overflow."""
DENSE = 256
"""Up to so many unknowns, bounds are kept for all pairs of them."""


def matrix_of(count: int, a: Longs, b: Longs, bound: Longs) -> Longs:
    """By ``[a, b]`` the least of the bounds on ``x[b] - x[a]`` that were given."""
    found = np.full((count, count), UNBOUNDED, np.int64)
    np.fill_diagonal(found, 0)
    np.minimum.at(found, (a, b), np.maximum(bound, LEAST))
    return found


def tightened(bounds: Longs) -> Longs | None:
    """The bounds that follow from these for all pairs; None where they contradict each other."""
    found = bounds.copy()
    return found if _tighten(found) else None


def bounds_from(count: int, a: Longs, b: Longs, bound: Longs, source: int) -> Longs | None:
    """By b: the least bound on ``x[b] - x[source]``; None where bounds that concern it contradict each other."""
    found, converged = _from_source(count, a.astype(np.int64), b.astype(np.int64), bound, source)
    return found if converged else None


def contradictions(bounds: Longs) -> NDArray[np.bool_]:
    """Which two unknowns contradict each other, by chains of as few bounds as show any contradiction; symmetric."""
    chains = bounds
    for _ in range(len(bounds).bit_length() + 1):
        bounded = (chains < UNBOUNDED) & (chains.T < UNBOUNDED)
        found = bounded & (np.where(bounded, chains, 0) + np.where(bounded, chains.T, 0) < 0)
        if found.any():
            return found
        chains = _doubled(chains)
    return np.zeros(bounds.shape, np.bool_)


@kernel("boolean(int64[:, ::1])", work=lambda bounds: len(bounds) ** 3)
def _tighten(bounds: Longs) -> bool:
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
    """The least over chains of two."""
    count = len(bounds)
    found = np.empty((count, count), np.int64)
    for a in range(count):
        for b in range(count):
            found[a, b] = bounds[a, b]
        for via in range(count):
            first = bounds[a, via]
            if first >= UNBOUNDED:
                continue
            for b in range(count):
                second = bounds[via, b]
                if second < UNBOUNDED and first + second < found[a, b]:
                    found[a, b] = max(first + second, LEAST)
    return found


@part
def _circular(via: Longs, source: int) -> bool:
    """Whether bounds come from each other in a circle, by which unknown each one's bound came through; -1: none."""
    state = np.zeros(len(via), np.int64)
    for start in range(len(via)):
        at = start
        while at >= 0 and at != source and state[at] == 0:
            state[at] = start + 1
            at = via[at]
        if at >= 0 and at != source and state[at] == start + 1:
            return True
    return bool(via[source] >= 0)


@kernel(
    "Tuple((int64[::1], boolean))(int64, int64[::1], int64[::1], int64[::1], int64)",
    work=lambda count, a, b, bound, source: 16 * len(a),
)
def _from_source(count: int, a: Longs, b: Longs, bound: Longs, source: int) -> tuple[Longs, bool]:
    """The bounds, and whether they converged; each round looks at every bound that was given."""
    found = np.full(count, UNBOUNDED, np.int64)
    found[source] = 0
    via = np.full(count, -1, np.int64)
    look_at = 64
    for round_ in range(count):
        changed = False
        for edge in range(len(a)):
            first, second = found[a[edge]], max(bound[edge], LEAST)
            if first < UNBOUNDED and second < UNBOUNDED and max(first + second, LEAST) < found[b[edge]]:
                found[b[edge]] = max(first + second, LEAST)
                via[b[edge]] = a[edge]
                changed = True
        if not changed:
            return found, True
        if round_ == look_at:
            # Bounds in a circle would shrink until the last round: with many clocks, for hours.
            if _circular(via, source):
                return found, False
            look_at *= 2
    return found, False
