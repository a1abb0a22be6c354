"""Cut the rows of a run into windows: decide which part of which computation each task solves."""

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
"""The number of bins of wall time in which the rows of a computation are counted, to cut it."""
EPOCH_ROWS = 500_000
"""About how many rows a window has. A task holds them in memory, some hundred bytes each."""


class TooLarge(LedtoError):
    """A computation cannot be cut into windows that fit in memory."""


@dataclass(frozen=True, slots=True)
class TimeBins:
    """Bins of wall time, all of one width. The first also holds all earlier times, and the last all later ones."""

    start: int
    width: int
    count: int = BINS

    @classmethod
    def over(cls, first: int, last: int) -> TimeBins:
        """Make bins from the first time to the last."""
        first, last = max(first, -LARGEST_TIME), min(last, LARGEST_TIME)
        return cls(first, max(1, -(-(last - first + 1) // BINS)))

    def places(self, time: NDArray[np.int64], *, shift: int = 0) -> NDArray[np.int64]:
        """Find the bin of each time plus `shift`."""
        low, high = self.start - shift, self.start - shift + self.width * self.count - 1
        # Also within the range of times: otherwise a difference might not fit in 64 bits.
        inside = np.clip(time, max(low, -LARGEST_TIME), min(high, LARGEST_TIME))
        return np.asarray((inside - low) // self.width, np.int64)

    def count_rows(self, time: NDArray[np.int64]) -> dict[int, int]:
        """Count the times in each bin; bins without any are left out."""
        places, counts = np.unique(self.places(time), return_counts=True)
        return dict(zip(places.tolist(), counts.tolist(), strict=True))


def spread_bins(
    bins: TimeBins, count_rows: Callable[[TimeBins], dict[int, int]], *, epoch_rows: int
) -> tuple[TimeBins, dict[int, int]]:
    """Refine bins until they are fine enough to cut; return them with their counts.

    A few clocks that are years off make bins far too wide. So while one bin has more rows than an epoch should, new bins are
    made over the range of those that have at least a thousandth of the rows.
    """
    counts = count_rows(bins)
    while bins.width > 1 and max(counts.values()) > epoch_rows:
        total = sum(counts.values())
        dense = [number for number, rows in counts.items() if rows * 1_000 >= total]
        finer = TimeBins.over(bins.start + min(dense) * bins.width, bins.start + (max(dense) + 1) * bins.width - 1)
        if finer.width >= bins.width:
            break
        bins, counts = finer, count_rows(finer)
    return bins, counts


@dataclass(frozen=True, slots=True)
class Epochs:
    """A large computation, cut by time into epochs."""

    computation: str
    names: tuple[str, ...]
    """Its processes, ascending."""
    bins: TimeBins
    """Epochs begin and end with bins."""
    first_bins: tuple[int, ...]
    """By epoch: the bin at which it begins; the first is 0."""
    rows: int
    """The number of rows of the computation."""

    @property
    def cuts(self) -> tuple[int, ...]:
        """The times between two epochs."""
        return tuple(self.bins.start + first * self.bins.width for first in self.first_bins[1:])

    def windows(self) -> list[SegmentWindow]:
        """Make the window of each epoch. The first has no beginning, and the last no end."""
        cuts = (None, *self.cuts, None)
        return [SegmentWindow(low, high) for low, high in pairwise(cuts)]

    def epoch_of_bins(self) -> list[int]:
        """Give the epoch of each bin."""
        return [bisect_right(self.first_bins, number) - 1 for number in range(self.bins.count)]


@dataclass(frozen=True, slots=True)
class WindowPlan:
    """The windows of a run, by number: first those of small computations, several whole ones in each; then all epochs."""

    shared: int
    """The number of windows of whole computations."""
    large: tuple[Epochs, ...]
    """The computations that are cut into epochs."""
    eps: int
    """How far beyond its cuts, on both sides, the rows of an epoch's window reach."""

    @property
    def windows(self) -> int:
        """The number of windows."""
        return self.shared + sum(len(epochs.first_bins) for epochs in self.large)

    def first_window(self, epochs: Epochs) -> int:
        """Find the number of the window of a computation's first epoch."""
        number = self.shared
        for other in self.large:
            if other is epochs:
                return number
            number += len(other.first_bins)
        raise ValueError(f"computation {epochs.computation!r} is not part of the plan")

    def solves(self, number: int) -> tuple[Epochs, SegmentWindow] | None:
        """Find the computation and the limits of a window; None if it has whole computations."""
        at = number - self.shared
        if at < 0:
            return None
        for epochs in self.large:
            if at < len(epochs.first_bins):
                return epochs, epochs.windows()[at]
            at -= len(epochs.first_bins)
        raise ValueError(f"there are {self.windows} windows, numbered from 0, and no window {number}")


def cut_into_epochs(counts: dict[int, int], *, bin_width: int, eps: int, epoch_rows: int) -> tuple[int, ...]:
    """Choose the bins at which epochs begin: about `epoch_rows` rows each, and none shorter than 4 eps.

    A window has the rows within eps of its epoch, so most rows of a shorter one would be those of its neighbours. `counts`
    are the rows by bin.
    """
    least_bins = max(1, -(-4 * eps // bin_width))
    first_bins, rows = [0], 0
    for number in sorted(counts):
        if rows + counts[number] > epoch_rows and rows and number - first_bins[-1] >= least_bins:
            first_bins.append(number)
            rows = 0
        rows += counts[number]
    return tuple(first_bins)
