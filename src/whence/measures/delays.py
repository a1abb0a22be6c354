"""Measure how long deliveries waited: exact percentiles.

The p-th percentile is the *nearest rank*: the smallest wait that at least p percent of all waits do not exceed. It is
always one of the waits, never a mean of two, so it means the same for 10 deliveries as for 10 million.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from whence.events.columns import Ints


@dataclass(frozen=True, slots=True)
class Delays:
    """Percentiles of waits, in the unit of the waits."""

    deliveries: int
    p50: int
    p95: int
    p99: int
    max: int
    mean: float


def measure_delays(waited: Ints) -> Delays:
    """Return the percentiles of these waits, in any order; `ValueError` without any."""
    count = len(waited)
    if not count:
        raise ValueError("nothing was delivered, so there are no waits to measure: check the count of deliveries first")
    ranks = [nearest_rank(percent, count) for percent in (50, 95, 99)]
    partitioned = np.partition(waited, [rank - 1 for rank in ranks])
    p50, p95, p99 = (int(partitioned[rank - 1]) for rank in ranks)
    return Delays(count, p50, p95, p99, int(waited.max()), float(waited.mean()))


def nearest_rank(percent: int, count: int) -> int:
    """Return which of `count` ascending values, counted from 1, is the percentile."""
    return max(1, -(-percent * count // 100))
