"""Bound how pairs of clocks, each with its own constant rate, differ, by messages in both directions.

When clock a shows x, clock b shows ``x + D(x)``, and for constant rates D is a line. A message that a sent at x and
that took d by the two clocks says ``D(x) <= d``; one that a received at x says ``D(x) >= -d``. The line runs between:
below all points of the one sort, above all of the other. Its possible slopes are those of the tightest such lines, and
so are its values at a time (the convex hull method of Moon, Skelly and Towsley, *Estimation and Removal of Clock Skew
from Network Delay Measurements*, 1999, for both directions at once). Delays are only assumed not to be negative.

Bounds are rounded outwards by more than floating-point numbers lose.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ledto.kernels import kernel
from ledto.skew.bounds import UNBOUNDED

Longs = NDArray[np.int64]
Doubles = NDArray[np.float64]

LOST = 2.0**-46
"""The share of a number that rounding may lose, with a margin."""


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Points by pair: those of pair k are ``starts[k]:starts[k + 1]``."""

    starts: Longs
    at: Doubles
    """Times, counted from the pair's origin."""
    value: Doubles
    """Differences, counted from the pair's pivot."""


@dataclass(frozen=True, slots=True, eq=False)
class Corridors:
    """The points that bound the line of each pair from above and from below."""

    origin: Longs
    pivot: Longs
    above: Points
    below: Points
    least_slope: Doubles
    largest_slope: Doubles

    @property
    def empty(self) -> NDArray[np.bool_]:
        """By pair: whether no line fits."""
        return self.least_slope > self.largest_slope

    def narrowed(self, least_slope: Doubles, largest_slope: Doubles) -> Corridors:
        """Return the same, with these bounds on the slopes as well."""
        return replace(
            self,
            least_slope=np.maximum(self.least_slope, least_slope),
            largest_slope=np.minimum(self.largest_slope, largest_slope),
        )

    def at_most(self, first: Longs, last: Longs) -> Longs:
        """Return, by pair, the largest value of a line at a time from `first` to `last`; `UNBOUNDED` without a bound.

        The largest value at a time is a convex function of time, so it is largest at an end.
        """
        return self._highest(self.above, 1.0, self.least_slope, self.largest_slope, first, last, self.pivot)

    def at_least_negated(self, first: Longs, last: Longs) -> Longs:
        """Return, by pair, minus the smallest value of a line at a time from `first` to `last`."""
        return self._highest(self.below, -1.0, -self.largest_slope, -self.least_slope, first, last, -self.pivot)

    def _highest(
        self, points: Points, sign: float, least: Doubles, largest: Doubles, first: Longs, last: Longs, pivot: Longs
    ) -> Longs:
        """Return `at_most` for these points, with differences multiplied by `sign`."""
        values = sign * points.value
        highest = np.maximum(
            *(
                _highest_below(
                    (time - self.origin).astype(np.float64), points.starts, points.at, values, least, largest
                )
                for time in (first, last)
            )
        )
        bounded = np.isfinite(highest)
        whole = np.ceil(np.where(bounded, highest, 0)).astype(np.int64)
        return np.where(bounded, whole + pivot, UNBOUNDED)


def find_corridors(pairs: int, above: tuple[Longs, Longs, Longs], below: tuple[Longs, Longs, Longs]) -> Corridors:
    """Find the lines between points, given as columns of pair, time and value.

    Each pair needs a point of one sort at least.
    """
    origin, pivot = np.zeros(pairs, np.int64), np.zeros(pairs, np.int64)
    for pair, time, value in (below, above):
        origin[pair], pivot[pair] = time, value
    upper, lower = (_points(pairs, *columns, origin, pivot) for columns in (above, below))
    least, largest = _slopes(upper.starts, upper.at, upper.value, lower.starts, lower.at, lower.value)
    return Corridors(origin, pivot, upper, lower, least - _lost(least), largest + _lost(largest))


def _lost(slopes: Doubles) -> Doubles:
    """Return how much rounding may have changed these slopes."""
    return np.where(np.isfinite(slopes), LOST * np.abs(slopes) + 1e-18, 0)


def _points(pairs: int, pair: Longs, time: Longs, value: Longs, origin: Longs, pivot: Longs) -> Points:
    order = np.argsort(pair, kind="stable")
    owner = pair[order]
    starts = np.searchsorted(owner, np.arange(pairs + 1)).astype(np.int64)
    # Differences of large integers are exact as integers and, being small, as floating-point numbers.
    at, shown = time[order] - origin[owner], value[order] - pivot[owner]
    return Points(starts, at.astype(np.float64), shown.astype(np.float64))


@kernel(
    "Tuple((float64[::1], float64[::1]))"
    "(int64[::1], float64[::1], float64[::1], int64[::1], float64[::1], float64[::1])"
)
def _slopes(
    above_starts: Longs, above_at: Doubles, above: Doubles, below_starts: Longs, below_at: Doubles, below: Doubles
) -> tuple[Doubles, Doubles]:
    """Return, by pair, the least and the largest slope of a line that fits."""
    pairs = len(above_starts) - 1
    least, largest = np.full(pairs, -np.inf), np.full(pairs, np.inf)
    for pair in range(pairs):
        for i in range(above_starts[pair], above_starts[pair + 1]):
            for j in range(below_starts[pair], below_starts[pair + 1]):
                room, apart = above[i] - below[j], above_at[i] - below_at[j]
                if apart > 0:
                    largest[pair] = min(largest[pair], room / apart)
                elif apart < 0:
                    least[pair] = max(least[pair], room / apart)
                elif room < 0:
                    least[pair], largest[pair] = np.inf, -np.inf
    return least, largest


@kernel("float64[::1](float64[::1], int64[::1], float64[::1], float64[::1], float64[::1], float64[::1])")
def _highest_below(
    time: Doubles, starts: Longs, at: Doubles, values: Doubles, least_slope: Doubles, largest_slope: Doubles
) -> Doubles:
    """Return, by pair, the least bound: that of each point with the steepest slope, and of each two on both sides."""
    pairs = len(starts) - 1
    highest = np.full(pairs, np.inf)
    for pair in range(pairs):
        now, lowest, widest = time[pair], np.inf, 0.0
        first, stop = starts[pair], starts[pair + 1]
        for i in range(first, stop):
            widest = max(widest, abs(values[i]))
            if at[i] == now:
                lowest = min(lowest, values[i])
                continue
            slope = largest_slope[pair] if at[i] < now else least_slope[pair]
            if np.isfinite(slope):
                lowest = min(lowest, values[i] + slope * (now - at[i]))
            if at[i] > now:
                continue
            for j in range(first, stop):
                if at[j] > now:
                    share = (now - at[i]) / (at[j] - at[i])
                    lowest = min(lowest, values[i] + share * (values[j] - values[i]))
        highest[pair] = lowest + LOST * (widest + abs(lowest))
    return highest
