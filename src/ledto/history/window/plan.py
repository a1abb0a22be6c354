"""How the rows of a run are cut into windows: which part of which computation a task solves."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ledto.errors import LedtoError
from ledto.history.window.columns import LARGEST_TIME
from ledto.history.window.solve import SegmentWindow

BINS = 4096
"""In which the rows of a computation are counted by wall time, to cut it."""
EPOCH_ROWS = 500_000
"""Rows of a window, about: what a task holds in memory, some hundred bytes each."""


class TooLarge(LedtoError):
    """A computation cannot be cut into windows that fit in memory."""


@dataclass(frozen=True, slots=True)
class TimeBins:
    """Wall time in steps of one width; the first holds all that is earlier as well, and the last all that is later."""

    start: int
    width: int
    count: int = BINS

    @classmethod
    def over(cls, first: int, last: int) -> TimeBins:
        """Bins that reach from the first time to the last."""
        first, last = max(first, -LARGEST_TIME), min(last, LARGEST_TIME)
        return cls(first, max(1, -(-(last - first + 1) // BINS)))

    def places(self, time: NDArray[np.int64], *, shift: int = 0) -> NDArray[np.int64]:
        """Give the bin of each time plus `shift`; times outside fall into the first and the last."""
        low, high = self.start - shift, self.start - shift + self.width * self.count - 1
        # Clamped to what times may be as well: a difference of times may not fit 64 bits.
        inside = np.clip(time, max(low, -LARGEST_TIME), min(high, LARGEST_TIME))
        return np.asarray((inside - low) // self.width, np.int64)

    def count_rows(self, time: NDArray[np.int64]) -> dict[int, int]:
        """Count the times in each bin that has any."""
        places, counts = np.unique(self.places(time), return_counts=True)
        return dict(zip(places.tolist(), counts.tolist(), strict=True))


def spread_bins(
    bins: TimeBins, count_rows: Callable[[TimeBins], dict[int, int]], *, epoch_rows: int
) -> tuple[TimeBins, dict[int, int]]:
    """Bins, with their counts, that are fine enough to cut by: a few clocks that are years off may not make them too wide.

    While one bin holds more rows than an epoch should, bins are made of the time that holds most rows.
    """
    counts = count_rows(bins)
    while bins.width > 1 and max(counts.values()) > epoch_rows:
        total = sum(counts.values())
        dense = [each for each, rows in counts.items() if rows * 1_000 >= total]
        finer = TimeBins.over(bins.start + min(dense) * bins.width, bins.start + (max(dense) + 1) * bins.width - 1)
        if finer.width >= bins.width:
            break
        bins, counts = finer, count_rows(finer)
    return bins, counts


@dataclass(frozen=True, slots=True)
class Epochs:
    """A large computation, cut by time."""

    computation: str
    names: tuple[str, ...]
    """Its processes, ascending."""
    bins: TimeBins
    """Cuts lie between two of them."""
    first_bins: tuple[int, ...]
    """The bin at which each epoch begins; the first is 0."""
    rows: int

    @property
    def cuts(self) -> tuple[int, ...]:
        """The times between two epochs."""
        return tuple(self.bins.start + each * self.bins.width for each in self.first_bins[1:])

    def windows(self) -> list[SegmentWindow]:
        """One for each epoch; the first has no beginning and the last no end."""
        cuts = (None, *self.cuts, None)
        return [SegmentWindow(low, high) for low, high in pairwise(cuts)]

    def epoch_of_bins(self) -> list[int]:
        """By bin: its epoch."""
        return [bisect_right(self.first_bins, each) - 1 for each in range(self.bins.count)]


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """Windows by number: first those of whole computations, several in each, then the epochs of each large one."""

    shared: int
    """Windows of whole computations."""
    large: tuple[Epochs, ...]
    eps: int
    """How far beyond its cuts the rows of an epoch reach, on both sides."""

    @property
    def windows(self) -> int:
        return self.shared + sum(len(each.first_bins) for each in self.large)

    def first_window(self, epochs: Epochs) -> int:
        """The number of the window of its first epoch."""
        number = self.shared
        for each in self.large:
            if each is epochs:
                return number
            number += len(each.first_bins)
        raise ValueError(f"computation {epochs.computation!r} is not part of the plan")

    def solves(self, number: int) -> tuple[Epochs, SegmentWindow] | None:
        """The computation and the window of a number; None for one of whole computations."""
        at = number - self.shared
        if at < 0:
            return None
        for each in self.large:
            if at < len(each.first_bins):
                return each, each.windows()[at]
            at -= len(each.first_bins)
        raise ValueError(f"there are {self.windows} windows, and no number {number}")


def cut_into_epochs(counts: dict[int, int], *, bin_width: int, eps: int, epoch_rows: int) -> tuple[int, ...]:
    """The bins at which epochs begin: about `epoch_rows` rows each, and none shorter than 4 eps.

    An epoch is read with the rows within eps of its ends, so a shorter one would be mostly rows of its neighbours.
    """
    least_bins = max(1, -(-4 * eps // bin_width))
    firsts, rows = [0], 0
    for each in sorted(counts):
        if rows + counts[each] > epoch_rows and rows and each - firsts[-1] >= least_bins:
            firsts.append(each)
            rows = 0
        rows += counts[each]
    return tuple(firsts)
