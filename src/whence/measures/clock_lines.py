"""What messages in both directions show of pairs of clocks, each of which runs at a rate of its own.

When clock a shows x, clock b shows ``x + D(x)``, and for constant rates D is a line. A message that a sent at x and that
took d by the two clocks says ``D(x) <= d``; one that a received at x says ``D(x) >= -d``. The line runs between: below
all points of the one sort, above all of the other. The slopes it can have are those of the tightest such lines, and so
are its values at a time (the convex hull method of Moon, Skelly and Towsley, *Estimation and Removal of Clock Skew from
Network Delay Measurements*, 1999, for both directions at once). Nothing is assumed of delays but that none is negative.

Bounds are rounded outwards by more than floating-point numbers lose.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from whence.kernels import kernel
from whence.measures.difference_bounds import UNBOUNDED

Longs = NDArray[np.int64]
Doubles = NDArray[np.float64]

LOST = 2.0**-46
"""How much of a number rounding may lose, with room."""


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Points by pair: those of pair k are ``starts[k]:starts[k + 1]``."""

    starts: Longs
    at: Doubles
    """Times, counted from the pair's origin."""
    value: Doubles
    """Counted from the pair's pivot."""


@dataclass(frozen=True, slots=True, eq=False)
class Corridors:
    """By pair, what bounds its line from above and from below."""

    origin: Longs
    pivot: Longs
    above: Points
    below: Points
    least_slope: Doubles
    largest_slope: Doubles

    @property
    def empty(self) -> NDArray[np.bool_]:
        """Which pairs have no line that fits."""
        return self.least_slope > self.largest_slope

    def narrowed(self, least_slope: Doubles, largest_slope: Doubles) -> Corridors:
        """The same, where something else bounds the slopes, too."""
        return replace(
            self,
            least_slope=np.maximum(self.least_slope, least_slope),
            largest_slope=np.minimum(self.largest_slope, largest_slope),
        )

    def at_most(self, first: Longs, last: Longs) -> Longs:
        """By pair: the largest value of a line at a time from `first` to `last`; `UNBOUNDED` where nothing bounds it.

        The largest value at a time is a convex function of time, so it is largest at an end.
        """
        return self._highest(self.above, 1.0, self.least_slope, self.largest_slope, first, last, self.pivot)

    def at_least_negated(self, first: Longs, last: Longs) -> Longs:
        """By pair: minus the smallest value of a line there."""
        return self._highest(self.below, -1.0, -self.largest_slope, -self.least_slope, first, last, -self.pivot)

    def _highest(
        self, points: Points, sign: float, least: Doubles, largest: Doubles, first: Longs, last: Longs, pivot: Longs
    ) -> Longs:
        values = sign * points.value
        found = np.maximum(
            *(
                _highest_below(
                    (time - self.origin).astype(np.float64), points.starts, points.at, values, least, largest
                )
                for time in (first, last)
            )
        )
        bounded = np.isfinite(found)
        whole = np.ceil(np.where(bounded, found, 0)).astype(np.int64)
        return np.where(bounded, whole + pivot, UNBOUNDED)


def corridors(pairs: int, above: tuple[Longs, Longs, Longs], below: tuple[Longs, Longs, Longs]) -> Corridors:
    """The lines between points, given as columns of pair, time and value; each pair has a point of one sort at least."""
    origin, pivot = np.zeros(pairs, np.int64), np.zeros(pairs, np.int64)
    for pair, time, value in (below, above):
        origin[pair], pivot[pair] = time, value
    sorts = [_points(pairs, *each, origin, pivot) for each in (above, below)]
    least, largest = _slopes(sorts[0].starts, sorts[0].at, sorts[0].value, sorts[1].starts, sorts[1].at, sorts[1].value)
    return Corridors(origin, pivot, sorts[0], sorts[1], least - _lost(least), largest + _lost(largest))


def _lost(slopes: Doubles) -> Doubles:
    return np.where(np.isfinite(slopes), LOST * np.abs(slopes) + 1e-18, 0)


def _points(pairs: int, pair: Longs, time: Longs, value: Longs, origin: Longs, pivot: Longs) -> Points:
    order = np.argsort(pair, kind="stable")
    owner = pair[order]
    starts = np.searchsorted(owner, np.arange(pairs + 1)).astype(np.int64)
    # Small differences of large integers are exact as integers, and then as floating-point numbers.
    at, shown = time[order] - origin[owner], value[order] - pivot[owner]
    return Points(starts, at.astype(np.float64), shown.astype(np.float64))


@kernel(
    "Tuple((float64[::1], float64[::1]))"
    "(int64[::1], float64[::1], float64[::1], int64[::1], float64[::1], float64[::1])"
)
def _slopes(
    above_starts: Longs, above_at: Doubles, above: Doubles, below_starts: Longs, below_at: Doubles, below: Doubles
) -> tuple[Doubles, Doubles]:
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
    """By pair: the least of what each point allows with the steepest slope from it, and each two on both sides."""
    pairs = len(starts) - 1
    found = np.full(pairs, np.inf)
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
        found[pair] = lowest + LOST * (widest + abs(lowest))
    return found
