"""How many reports the observer holds, over time.

A report is held from its arrival until its delivery. `most` is what a buffer must hold: at each tick the arrivals of
the tick are taken in before its deliveries leave, as in `whence.delivery.observer`, so an observer with this capacity
never refuses and one with less does. `mean` is the average over the ticks from the first arrival to the last
delivery.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whence.events.columns import Ints


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Reports held, over one run."""

    most: int
    mean: float


def measure_occupancy(arrival: Ints, at: Ints) -> Occupancy:
    """From arrivals and delivery times, row by row in any order; duplicates that were dropped are held by no one."""
    if len(arrival) != len(at):
        raise ValueError(f"{len(arrival)} arrivals and {len(at)} deliveries: give both for the same reports")
    if not len(arrival):
        return Occupancy(0, 0.0)
    if (at < arrival).any():
        raise ValueError("a report was delivered before it arrived: are the columns in the same order?")
    arrivals, deliveries = np.sort(arrival), np.sort(at)
    left: NDArray[np.int64] = np.searchsorted(deliveries, arrivals, side="left").astype(np.int64)
    most = int((np.arange(1, len(arrivals) + 1) - left).max())
    ticks = int(deliveries[-1] - arrivals[0])
    return Occupancy(most, float((at - arrival).sum()) / ticks if ticks else 0.0)
