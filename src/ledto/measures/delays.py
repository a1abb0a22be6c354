"""Measure how long deliveries waited: exact percentiles.

The p-th percentile is the *nearest rank*: the smallest wait that at least p percent of all waits do not exceed. It is
always one of the waits, never a mean of two, so it means the same for 10 deliveries as for 10 million.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ledto.events.columns import Ints

Longs = NDArray[np.int64]

MAX_VALUES = 1 << 16
"""The most different waits that are counted exactly."""


@dataclass(frozen=True, slots=True, eq=False)
class Waits:
    """How often each wait occurred."""

    values: Longs
    """Ascending multiples of `width`."""
    counts: Longs
    width: int
    """1 while percentiles are exact; else they are up to width - 1 too small."""
    largest: int
    total: int
    """The sum of all waits, before rounding."""

    @classmethod
    def none(cls) -> Self:
        """Return no waits."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64), 1, 0, 0)

    @classmethod
    def of(cls, waited: Longs) -> Self:
        """Count these waits, each 0 or more."""
        if not len(waited):
            return cls.none()
        largest = int(waited.max())
        if largest < 4 * len(waited) + MAX_VALUES:
            counts = np.bincount(waited)
            values = np.flatnonzero(counts)
            counts = counts[values]
        else:
            values, counts = np.unique(waited, return_counts=True)
        return cls._fitted(values.astype(np.int64), counts.astype(np.int64), 1, largest, int(waited.sum()))

    @classmethod
    def _fitted(cls, values: Longs, counts: Longs, width: int, largest: int, total: int) -> Self:
        """Make the counts, with values rounded to a width at which they are few enough."""
        while len(values) > MAX_VALUES:
            width *= 2
            values, counts = _add_up(values // width * width, counts)
        return cls(values, counts, width, largest, total)

    def __add__(self, other: Waits) -> Waits:
        width = max(self.width, other.width)
        values = np.concatenate((self.values, other.values)) // width * width
        values, counts = _add_up(values, np.concatenate((self.counts, other.counts)))
        return Waits._fitted(values, counts, width, max(self.largest, other.largest), self.total + other.total)

    @property
    def deliveries(self) -> int:
        return int(self.counts.sum())

    def delays(self) -> Delays | None:
        """Return the percentiles; None without any wait."""
        count = self.deliveries
        if not count:
            return None
        up_to = np.cumsum(self.counts)
        p50, p95, p99 = (
            int(self.values[np.searchsorted(up_to, nearest_rank(percent, count))]) for percent in (50, 95, 99)
        )
        return Delays(count, p50, p95, p99, self.largest, self.total / count)


def _add_up(values: Longs, counts: Longs) -> tuple[Longs, Longs]:
    """Add up the counts of equal values."""
    distinct, place = np.unique(values, return_inverse=True)
    sums = np.zeros(len(distinct), np.int64)
    np.add.at(sums, place, counts)
    return distinct, sums


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
