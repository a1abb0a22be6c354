"""The stored order of a segment: for each event its process and its causes, which all come before it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledto.kernels import inlined, kernel

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Flags = NDArray[np.uint8]

NO_ROWS: Longs = np.empty(0, np.int64)
NO_EDGES: tuple[Longs, Longs] = (NO_ROWS, NO_ROWS)

LOW_HALF = (1 << 32) - 1
"""The largest number that the low half of a packed number holds."""


@inlined
def pack(high: Any, low: Any) -> Any:
    """Put two numbers from 0 to `LOW_HALF` into one of 64 bits, which sorts by the first. For numbers and for arrays."""
    return high << 32 | low


@inlined
def high_half(packed: Any) -> Any:
    """Give the first of two packed numbers."""
    return packed >> 32


@inlined
def low_half(packed: Any) -> Any:
    """Give the second of two packed numbers."""
    return packed & LOW_HALF


@dataclass(frozen=True, slots=True, eq=False)
class Skeleton:
    """Consecutive events of a history: a segment, or a part of one.

    `back` holds messages. That an event follows the one before it in its process needs no entry. Causes before the segment
    are in its `ledto.causality.boundary.Boundary`.

    Integer arrays of other types are converted; those of the types below are not copied. The arrays are checked here, in
    about a millisecond per million rows, so that no kernel reads outside of them. Do not write to them.
    """

    process: Ints
    """int32[n]: each row's process, a code of the segment, 0 or more."""
    offsets: Longs
    """int64[n + 1]: where the causes of each row start in `back`."""
    back: Longs
    """int64[m]: row i has the causes ``i - back[offsets[i]:offsets[i + 1]]``."""
    highest_process: int = field(init=False)
    """The largest code; -1 without rows."""
    reach_below: int = field(init=False)
    """How many rows before the first one the causes reach. Always 0 for a whole segment."""

    def __post_init__(self) -> None:
        process, offsets, back = ints(self.process), longs(self.offsets), longs(self.back)
        if process.ndim != 1 or back.ndim != 1 or offsets.shape != (len(process) + 1,):
            raise ValueError(
                f"a skeleton of {process.shape} processes takes one offset more than rows and flat causes; "
                f"offsets are {offsets.shape}, back is {back.shape}"
            )
        damaged, highest, reach = _survey(process, offsets, back)
        if damaged:
            fault = _first_fault(process, offsets, back)
            raise ValueError(f"the skeleton is damaged: {fault}. Write the history again from its sources")
        for name, value in (("process", process), ("offsets", offsets), ("back", back)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "highest_process", int(highest))
        object.__setattr__(self, "reach_below", int(reach))

    def __len__(self) -> int:
        return len(self.process)

    def cause_rows(self) -> Longs:
        """Give the rows of all causes, in the order of `back`; negative where a cause is before the first row."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.offsets)) - self.back

    def part(self, start: int, stop: int) -> Skeleton:
        """Take the rows ``start <= row < stop``, numbered from 0. Causes before `start` stay, as negative rows."""
        first, last = self.offsets[start], self.offsets[stop]
        return Skeleton(self.process[start:stop], self.offsets[start : stop + 1] - first, self.back[first:last])


def longs(values: ArrayLike) -> Longs:
    """Convert to contiguous int64, without a copy where nothing changes. Raises `TypeError` unless all are integers."""
    return np.ascontiguousarray(_integers(values), np.int64)


def ints(values: ArrayLike) -> Ints:
    """Convert to contiguous int32, as `longs` does. Raises `ValueError` for values that do not fit."""
    integers = _integers(values)
    if integers.dtype.itemsize >= 4 and integers.dtype != np.int32 and integers.size:
        least, largest = int(integers.min()), int(integers.max())
        if least < -(1 << 31) or largest >= 1 << 31:
            raise ValueError(f"values from {least} to {largest} do not fit 32 bits")
    return np.ascontiguousarray(integers, np.int32)


def _integers(values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"expected whole numbers, not {array.dtype}")
    return array


@kernel("Tuple((boolean, int64, int64))(int32[::1], int64[::1], int64[::1])")
def _survey(process: Ints, offsets: Longs, back: Longs) -> tuple[bool, int, int]:
    """Return whether the arrays are damaged, the largest code, and how many rows before the first the causes reach.

    Several simple loops run faster than one over rows and causes: the compiler vectorizes each.
    """
    lowest, highest = 0, -1
    for row in range(len(process)):
        lowest, highest = min(lowest, int(process[row])), max(highest, int(process[row]))
    falls = (offsets[0] != 0) | (offsets[-1] != len(back))
    for row in range(len(process)):
        falls |= offsets[row + 1] < offsets[row]
    nearest, farthest, reach = 1, 0, 0
    for entry in range(len(back)):
        nearest, farthest = min(nearest, int(back[entry])), max(farthest, int(back[entry]))
    if falls or lowest < 0 or nearest < 1:
        return True, highest, reach
    for row in range(min(len(process), farthest)):
        for entry in range(offsets[row], offsets[row + 1]):
            reach = max(reach, int(back[entry]) - row)
    return False, highest, reach


def _first_fault(process: Ints, offsets: Longs, back: Longs) -> str:
    """Describe the first fault of a damaged skeleton, and where it is."""
    if offsets[0] != 0 or offsets[-1] != len(back):
        return f"the causes go from {offsets[0]} to {offsets[-1]} and not from 0 to {len(back)}, as many as there are"
    if (process < 0).any():
        return f"row {(process < 0).argmax()} has process {process.min()}: codes are 0 or more"
    if (np.diff(offsets) < 0).any():
        return f"the causes of row {(np.diff(offsets) < 0).argmax()} end before they start"
    return f"cause {(back < 1).argmax()} is {back.min()} rows back: causes are 1 row back or more"
