"""Compute bounded stamps ``<r, c, kn>`` for events that carry none, from their causes and wall times.

They are the stamps that a `ledto.clocks.BoundedClock` in every process would have given, if it read the wall time in ticks:
``r = time // tick``; ``r + c = causal_time // tick``, because the causal time is the largest time in the past and rounding
down keeps the order; and ``kn[i]`` counts the known events at reading ``r + c - i``. If a wall time goes back within a
process, the clock would raise; here stamps go on, because `less` only needs ``0 <= c <= eps``, in ticks. So ``e -> f``
implies that e's stamp is less.

**Which rows a stamp depends on.** ``kn[i]`` is the largest number of events at reading ``x = r + c - i`` on any one chain of
causes that ends in the event. The first such event g on the chain reads x itself, so from g on every event of the chain has
a causal time of reading x or more; and x is at least ``r + c - eps``. So rows whose causal time is more than eps ticks
before the event's do not matter. Consecutive rows therefore get exactly the stamps of the whole history if they are preceded
by all rows of the computation with a causal time of ``(first - eps) * tick`` or more, where `first` is the reading of their
first row's causal time. It does not matter where rows are cut, or which causes outside of them are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.causality.skeleton import Ints, Longs, Skeleton
from ledto.errors import ClockDrift
from ledto.kernels import kernel

MAX_ELEMENTS = 4096
"""The most elements of kn in a stamp: 16 KiB per row."""
DEFAULT_EPS_TICKS = 16


@dataclass(frozen=True, slots=True)
class BoundedStamps:
    """Stamps by row, as columns of `ledto.events.columns.ReportArrays`; readings are in ticks."""

    r: Longs
    c: Ints
    kn: Ints
    """int32[n, elements], in the order in which `less` compares."""


def default_tick(eps: int) -> int:
    """Choose the tick, in eps's unit, so that eps is at most 16 ticks: finer ones cost more and rarely help."""
    return max(1, -(-eps // DEFAULT_EPS_TICKS))


def eps_ticks(eps: int, tick: int) -> int:
    """Convert eps to ticks, rounded up: the largest c, since rounding can add one tick to a difference of times."""
    return -(-eps // tick)


def stamp_rows(
    skeleton: Skeleton,
    time: Longs,
    causal_time: Longs,
    *,
    eps: int,
    tick: int,
    elements: int | None = None,
) -> BoundedStamps:
    """Stamp the rows of a skeleton; causes before the first row are left out.

    `eps` and `tick` are in the unit of the times. `elements`: how many of kn to compute, by default all that matter: eps in
    ticks, plus 1. Raises `ClockDrift` if a causal time is more than eps after its time.
    """
    if tick < 1:
        raise ValueError(f"tick is 1 or more of the history's unit, not {tick}")
    ticks = eps_ticks(eps, tick)
    width = ticks + 1 if elements is None else elements
    if not 0 <= width <= min(ticks + 1, MAX_ELEMENTS):
        raise ValueError(
            f"stamps of eps {eps} and tick {tick} carry 0 to {min(ticks + 1, MAX_ELEMENTS)} elements, not {width}: "
            f"give fewer elements, or a tick of {default_tick(eps)}"
        )
    lag = causal_time - time
    if len(lag) and not 0 <= int(lag.min()) <= int(lag.max()) <= eps:
        row = int(lag.argmax()) if lag.max() > eps else int(lag.argmin())
        raise ClockDrift(
            f"row {row} has the time {time[row]} and the causal time {causal_time[row]}, and eps is {eps}: "
            "the causal time is at most eps larger. Build the history again with a larger eps"
        )
    r, top = time // tick, causal_time // tick
    kn = np.empty((len(r), width), np.int32)
    count_known(skeleton.process, skeleton.offsets, skeleton.back, r, top, skeleton.highest_process + 1, kn)
    return BoundedStamps(r, (top - r).astype(np.int32), kn)


@kernel("void(int32[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64, int32[:, ::1])")
def count_known(process: Ints, offsets: Longs, back: Longs, r: Longs, top: Longs, processes: int, kn: Ints) -> None:
    """Fill `kn`: for each reading the largest count among the causes, plus 1 for the event itself at its own reading."""
    width = kn.shape[1]
    last = np.full(processes, -1, np.int64)
    for row in range(len(process)):
        before = last[process[row]]
        last[process[row]] = row
        shift = width
        if before >= 0:
            shift = min(np.int64(width), top[row] - top[before])
        for at in range(shift):
            kn[row, at] = 0
        for at in range(shift, width):
            kn[row, at] = kn[before, at - shift]
        for entry in range(offsets[row], offsets[row + 1]):
            cause = row - back[entry]
            if cause >= 0:
                shift = top[row] - top[cause]
                for at in range(shift, width):
                    kn[row, at] = max(kn[row, at], kn[cause, at - shift])
        if top[row] - r[row] < width:
            kn[row, top[row] - r[row]] += 1


def stamp_known_rows(
    skeleton: Skeleton,
    r: Longs,
    counted: NDArray[np.bool_],
    informed: NDArray[np.bool_],
    *,
    most_c: int,
    elements: int,
) -> BoundedStamps:
    """Stamp rows as an observer can who gets some reports too late.

    Rows that are not `counted` are in no other row's stamp. Rows that are not `informed` know only of themselves. Readings
    are in ticks. A cause more than `most_c` ticks ahead of its effect is ignored: the clocks then break their bound, and the
    order of these two is not promised.
    """
    top, kn = np.empty(len(r), np.int64), np.empty((len(r), elements), np.int32)
    rows = (skeleton.process, skeleton.offsets, skeleton.back, r, counted, informed)
    count_known_of(*rows, most_c, skeleton.highest_process + 1, top, kn)
    return BoundedStamps(r, (top - r).astype(np.int32), kn)


@kernel(
    "void(int32[::1], int64[::1], int64[::1], int64[::1], boolean[::1], boolean[::1], int64, int64, int64[::1], "
    "int32[:, ::1])"
)
def count_known_of(
    process: Ints,
    offsets: Longs,
    back: Longs,
    r: Longs,
    counted: NDArray[np.bool_],
    informed: NDArray[np.bool_],
    most_c: int,
    processes: int,
    top: Longs,
    kn: Ints,
) -> None:
    """Fill `kn` as `count_known` does, but from counted rows only; and `top`, the largest known reading."""
    width = kn.shape[1]
    last = np.full(processes, -1, np.int64)
    for row in range(len(process)):
        before = last[process[row]] if informed[row] else -1
        stop = offsets[row + 1] if informed[row] else offsets[row]
        most, limit = r[row], r[row] + most_c
        if before >= 0 and top[before] <= limit:
            most = max(most, top[before])
        for entry in range(offsets[row], stop):
            cause = row - back[entry]
            if cause >= 0 and counted[cause] and top[cause] <= limit:
                most = max(most, top[cause])
        top[row] = most
        for at in range(width):
            kn[row, at] = 0
        if before >= 0 and top[before] <= limit:
            for at in range(most - top[before], width):
                kn[row, at] = kn[before, at - (most - top[before])]
        for entry in range(offsets[row], stop):
            cause = row - back[entry]
            if cause >= 0 and counted[cause] and top[cause] <= limit:
                for at in range(most - top[cause], width):
                    kn[row, at] = max(kn[row, at], kn[cause, at - (most - top[cause])])
        if most - r[row] < width:
            kn[row, most - r[row]] += 1
        if counted[row]:
            last[process[row]] = row
