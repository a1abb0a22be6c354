"""What happened before what, as stored: events in an order in which every cause comes before its effects."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledto.kernels import kernel

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Flags = NDArray[np.uint8]

NO_ROWS: Longs = np.empty(0, np.int64)
NO_EDGES: tuple[Longs, Longs] = (NO_ROWS, NO_ROWS)


@dataclass(frozen=True, slots=True, eq=False)
class Skeleton:
    """A contiguous run of history order: a segment, or a part of one.

    An event's predecessor in its own process is a cause that needs no entry; entries are messages. Causes before the
    segment are not here but in its `ledto.causality.boundary.Boundary`.

    Any integer arrays are accepted and kept as the types below, without a copy where they have them. Checked when
    made, in about a millisecond a million rows, so that no kernel reads outside of the arrays: do not write to them.
    """

    process: Ints
    """int32[n]: the process of each row, 0 or more; the codes are those of the segment."""
    offsets: Longs
    """int64[n + 1]: where the causes of each row start in `back`."""
    back: Longs
    """int64[m]: row i has the causes ``i - back[offsets[i]:offsets[i + 1]]``."""
    highest_process: int = field(init=False)
    """The largest code; -1 without rows."""
    reach_below: int = field(init=False)
    """How many rows before the first the causes reach: 0 in a whole segment, and maybe more in a part of one."""

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
        """The causes as rows, in the order of `back`; negative for those before the first row of a part."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.offsets)) - self.back

    def part(self, start: int, stop: int) -> Skeleton:
        """Rows ``start <= row < stop``, numbered from 0; causes before `start` are kept as reaching below."""
        first, last = self.offsets[start], self.offsets[stop]
        return Skeleton(self.process[start:stop], self.offsets[start : stop + 1] - first, self.back[first:last])


def longs(values: ArrayLike) -> Longs:
    """The values as contiguous int64, not a copy where they are; `TypeError` for what is not whole numbers."""
    return np.ascontiguousarray(_whole(values), np.int64)


def ints(values: ArrayLike) -> Ints:
    """The values as contiguous int32, as `longs`; `ValueError` for values that do not fit."""
    found = _whole(values)
    if found.dtype.itemsize >= 4 and found.dtype != np.int32 and found.size:
        least, largest = int(found.min()), int(found.max())
        if least < -(1 << 31) or largest >= 1 << 31:
            raise ValueError(f"values from {least} to {largest} do not fit 32 bits")
    return np.ascontiguousarray(found, np.int32)


def _whole(values: ArrayLike) -> NDArray[Any]:
    found = np.asarray(values)
    if found.size and found.dtype.kind not in "iu":
        raise TypeError(f"expected whole numbers, not {found.dtype}")
    return found


@kernel("Tuple((boolean, int64, int64))(int32[::1], int64[::1], int64[::1])")
def _survey(process: Ints, offsets: Longs, back: Longs) -> tuple[bool, int, int]:
    """Whether something is damaged, the largest code, and how far causes reach below the first row.

    Several plain loops: each runs on whole registers, where one loop over rows and their causes would not.
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
    """What is wrong with a damaged skeleton, and where."""
    if offsets[0] != 0 or offsets[-1] != len(back):
        return f"the causes go from {offsets[0]} to {offsets[-1]} and not from 0 to {len(back)}, as many as there are"
    if (process < 0).any():
        return f"row {(process < 0).argmax()} has process {process.min()}: codes are 0 or more"
    if (np.diff(offsets) < 0).any():
        return f"the causes of row {(np.diff(offsets) < 0).argmax()} end before they start"
    return f"cause {(back < 1).argmax()} is {back.min()} rows back: causes are 1 row back or more"
