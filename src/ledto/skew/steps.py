"""Compare one clock with the others, which agree: at what rates it ran, and when it was set.

The others tell the time, so each message with one of them bounds how far ahead the clock was at that time. The course
is the fewest stretches in each of which a constant rate explains that; if two of them do not meet, the clock was set.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ledto.skew.bounds import UNBOUNDED
from ledto.skew.corridors import find_corridors
from ledto.skew.fits import MOST_DRIFT, Fit, Messages

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Moment:
    """Bounds of an offset at a time by the reference's clock; None without a bound."""

    time: int
    low: int | None
    high: int | None


@dataclass(frozen=True, slots=True)
class ClockStep:
    """A clock was set between two times by the reference's clock: ahead by at least `low` and at most `high`."""

    first: int
    last: int
    low: int | None
    high: int | None


@dataclass(frozen=True, slots=True, eq=False)
class _OffsetBounds:
    """Bounds of the clock's offset from one side, in the order of time: the tightest of each bin."""

    time: Longs
    value: Longs


def find_course(
    messages: Messages, clock: int, fit: Fit, *, level: int
) -> tuple[tuple[Moment, ...], tuple[ClockStep, ...]]:
    """Find the ends of the fewest stretches in which the clock ran at one rate, two each; and when it was set.

    `fit` has the offsets of the others. Times are sorted into bins of ``2**level``; a bin within which the clock
    contradicts itself belongs to no stretch.
    """
    into, out = messages.receiver == clock, messages.sender == clock
    sent, _, ahead = _against_reference(fit, messages.sender[into], messages.send[into])
    came, behind, _ = _against_reference(fit, messages.receiver[out], messages.receive[out])
    above = _tightest(sent, messages.bound[into], ahead, level)
    below = _tightest(came, messages.bound[out], behind, level)
    edges = np.unique(np.concatenate((above.time >> level, below.time >> level)))
    stretches: list[tuple[Moment, Moment]] = []
    first = 0
    while first < len(edges):
        stop = _reach(above, below, edges, first, level)
        if stop > first:
            stretches.append(_ends(above, below, int(edges[first]), int(edges[stop - 1]), level))
        first = max(stop, first + 1)
    steps = [_step(before, after, above, below) for before, after in pairwise(stretches)]
    return tuple(moment for ends in stretches for moment in ends), tuple(step for step in steps if step is not None)


def _step(
    stretch: tuple[Moment, Moment], following: tuple[Moment, Moment], above: _OffsetBounds, below: _OffsetBounds
) -> ClockStep | None:
    """Tell how the clock was set, if a stretch cannot go on as the following one, even at another rate between the two.

    It was set after the last message that contradicts the following stretch, and before the first that contradicts this
    one.
    """
    before, after = stretch[1], following[0]
    gain = int(MOST_DRIFT * (following[1].time - stretch[0].time)) + 1
    low = high = None
    old, new = above.time[:0], above.time[:0]
    if after.low is not None and before.high is not None:
        low = after.low - before.high
        if low > gain:
            old, new = above.time[above.value + gain < after.low], below.time[-below.value > before.high + gain]
    if after.high is not None and before.low is not None:
        high = after.high - before.low
        if high < -gain:
            old, new = below.time[-below.value > after.high + gain], above.time[above.value + gain < before.low]
    if not (low is not None and low > gain) and not (high is not None and high < -gain):
        return None
    first = max(old[(old >= stretch[0].time) & (old <= before.time)].tolist(), default=stretch[0].time)
    last = min(new[(new > first) & (new <= following[1].time)].tolist(), default=following[1].time)
    return ClockStep(first, last, low, high)


def _against_reference(fit: Fit, clock: Longs, time: Longs) -> tuple[Longs, Longs, Longs]:
    """Return about what the reference showed when clocks showed these times, and how far behind and ahead they were at most.

    Between two moments bounds lie on a line or within it, as they are convex functions of time.
    """
    shown = time
    for _ in range(3):
        behind, ahead = _interpolated(fit, clock, shown)
        both = (behind < UNBOUNDED) & (ahead < UNBOUNDED)
        # Offsets change little while a clock gains what it is ahead.
        shown = time - np.where(both, (ahead - behind) // 2, 0)
    return shown, behind, ahead


def _interpolated(fit: Fit, clock: Longs, time: Longs) -> tuple[Longs, Longs]:
    """Interpolate the bounds of a fit at these times: how far clocks are behind and ahead."""
    moments = np.array(fit.moments, np.int64)
    after = np.clip(np.searchsorted(moments, time, side="right"), 1, max(1, len(moments) - 1))
    before, after = after - 1, np.minimum(after, len(moments) - 1)
    width = np.maximum(1, moments[after] - moments[before])
    share = np.clip((time - moments[before]) / width, -1, 2)
    sides = []
    for tables in (fit.behind, fit.ahead):
        table = np.stack(tables)
        left, right = table[before, clock], table[after, clock]
        is_known = (left < UNBOUNDED) & (right < UNBOUNDED)
        change = np.ceil(share * np.where(is_known, right - left, 0)).astype(np.int64)
        sides.append(np.where(is_known, left + change, UNBOUNDED))
    return sides[0], sides[1]


def _tightest(time: Longs, bound: Longs, other_bound: Longs, level: int) -> _OffsetBounds:
    """Return the least bound of each bin, if the other clock is bounded against the reference."""
    is_known = other_bound < UNBOUNDED
    time, value = time[is_known], (bound + np.where(is_known, other_bound, 0))[is_known]
    order = np.lexsort((time, value, time >> level))
    first = order[np.append(True, np.diff(time[order] >> level) != 0)[: len(order)]]
    return _OffsetBounds(time[first], value[first])


def _reach(above: _OffsetBounds, below: _OffsetBounds, edges: Longs, first: int, level: int) -> int:
    """Return the number of the first bin that a line from bin number `first` on cannot pass, which may be `first`."""
    fits, fails = first, len(edges) + 1
    reach = first + 1
    while fits + 1 < fails:
        stop = min(reach, fails - 1)
        if _passes(above, below, int(edges[first]), int(edges[stop - 1]), level):
            fits, reach = stop, 2 * stop - first
        else:
            fails, reach = stop, (fits + stop) // 2 if fits + 1 < stop else fits + 1
    return fits


def _within(points: _OffsetBounds, first: int, last: int, level: int) -> tuple[Longs, Longs, Longs]:
    """Return the points in the bins from `first` to `last`, as columns of pair, time and value."""
    inside = slice(*np.searchsorted(points.time >> level, [first, last + 1]).tolist())
    time = points.time[inside]
    return np.zeros(len(time), np.int64), time, points.value[inside]


def _passes(above: _OffsetBounds, below: _OffsetBounds, first: int, last: int, level: int) -> bool:
    """Tell whether one line passes all bins from `first` to `last`."""
    pair, time, value = _within(below, first, last, level)
    lines = find_corridors(1, _within(above, first, last, level), (pair, time, -value))
    return not lines.narrowed(np.array([-MOST_DRIFT]), np.array([MOST_DRIFT])).empty[0]


def _ends(above: _OffsetBounds, below: _OffsetBounds, first: int, last: int, level: int) -> tuple[Moment, Moment]:
    """Return the bounds at the first and the last time in the bins from `first` to `last`."""
    upper, (pair, time, value) = _within(above, first, last, level), _within(below, first, last, level)
    lines = find_corridors(1, upper, (pair, time, -value)).narrowed(np.array([-MOST_DRIFT]), np.array([MOST_DRIFT]))
    times = np.concatenate((upper[1], time))

    def moment(at: int) -> Moment:
        instant = np.array([at], np.int64)
        behind, ahead = int(lines.at_least_negated(instant, instant)[0]), int(lines.at_most(instant, instant)[0])
        return Moment(at, -behind if behind < UNBOUNDED else None, ahead if ahead < UNBOUNDED else None)

    return moment(int(times.min())), moment(int(times.max()))
