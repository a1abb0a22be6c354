"""Bounded stamps ``<r, c, kn>`` of events that carry none, from their causes and wall times.

The stamps are those that `ledto.clocks.BoundedClock` would have given, had every process run one whose reading is its wall
time in ticks: ``r = time // tick``; ``r + c = causal_time // tick``, because the causal time is the largest time in the
past and rounding down keeps the order; and ``kn[i]`` counts the events known of at reading ``r + c - i``. Where the
clock would refuse (a wall time that goes back within a process) the stamps go on: all that `less` needs is
``0 <= c <= eps``, in ticks. So ``e -> f`` implies that e's stamp is less.

**Which rows a stamp depends on.** Written out, the merges by maximum say: ``kn[i]`` is the largest number of events at
reading ``x = r + c - i`` on any one chain of causes that ends in the event. The first such event g on the chain has ``x``
as its own reading, so from g on every event of the chain has a causal time of reading x or more; and x is at least
``r + c - eps``. Hence rows whose causal time lies more than eps ticks before the event's do not matter. A run of rows
in history order, preceded by all rows of the computation with a causal time of at least ``(first - eps) * tick``, where
`first` is the reading of its first row's causal time, gets exactly the stamps of the whole history: however it is cut,
and whatever causes outside these rows are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.causality.skeleton import Ints, Longs, Skeleton
from ledto.errors import ClockDrift
from ledto.kernels import kernel

MAX_ELEMENTS = 4096
"""Elements of kn a stamp may carry here: 16 KiB a row."""
DEFAULT_EPS_TICKS = 16


@dataclass(frozen=True, slots=True)
class BoundedStamps:
    """Stamps as the columns of `ledto.events.columns.Reports`, row by row; readings in ticks."""

    r: Longs
    c: Ints
    kn: Ints
    """int32[n, elements], in the order in which `less` compares."""


def default_tick(eps: int) -> int:
    """The tick, in eps's unit, with which eps is at most 16 ticks: finer ones cost more and rarely tell more."""
    return max(1, -(-eps // DEFAULT_EPS_TICKS))


def eps_ticks(eps: int, tick: int) -> int:
    """The bound on c: rounding a time and a causal time down to ticks can add one tick to their difference."""
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
    """Stamps of a skeleton's rows; causes below the first row are left out.

    `eps` and `tick` are in the unit of the times; `elements` of kn are given, by default all that tell anything, which is
    eps in ticks and 1. Raises `ClockDrift` for a causal time more than eps after its time.
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
    """Fill `kn`: the counts of the causes, by reading, at their maximum, and the event itself at its own reading."""
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
    """Stamps as an observer can know them who has some reports too late: what is not `counted` is passed on to nobody, and
    what is not `informed` knows of nothing but itself.

    Readings are in ticks. A cause that is more than `most_c` ahead of its effect is as if it were not known: then the clocks
    break their bound, and the order of these two is not promised.
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
    """As `count_known`, from counted rows alone; fills `top`, the largest reading known of, too."""
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
