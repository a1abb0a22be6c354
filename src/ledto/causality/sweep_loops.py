"""The loops of the sweeps over one part."""

from __future__ import annotations

import numpy as np

from ledto.causality.skeleton import Flags, Ints, Longs
from ledto.kernels import inlined, kernel


@kernel(
    "Tuple((int64, int64, int64))(int32[::1], int64[::1], int64[::1], int64, int64[::1], int64[::1], uint8[::1], "
    "int64, int64, uint8[::1], int64[::1], int64, int64[::1], uint8[::1], int64[::1], int64[::1])"
)
def past_rows(
    process: Ints,
    offsets: Longs,
    back: Longs,
    first_position: int,
    edge_row: Longs,
    edge_position: Longs,
    wanted: Flags,
    limit: int,
    start: int,
    reached: Flags,
    visited: Longs,
    unreached: int,
    sends: Longs,
    marked: Flags,
    found: Longs,
    sends_left: Longs,
) -> tuple[int, int, int]:
    """How many rows were put at the end of `found`, how many sends into `sends_left`, and processes unreached.

    `marked` is longer than the part; it is zero before, and after unless the limit was met.
    """
    rows = len(process)
    count = left = 0
    highest = -1
    for send in sends:
        if send < first_position:
            sends_left[left] = send
            left += 1
        else:
            marked[send - first_position] = 1
            highest = max(highest, send - first_position)
    if reached.any():
        highest = rows - 1
    edge = len(edge_row) - 1
    for row in range(highest, -1, -1):
        own = process[row]
        if reached[own] | marked[row]:
            marked[row] = 0
            unreached -= reached[own] == 0
            reached[own] = 1
            visited[own] += 1
            if (len(wanted) == 0 or wanted[row]) and first_position + row != start:
                count += 1
                found[rows - count] = row
                if count == limit:
                    break
            if unreached > 0:
                first, end = offsets[row], offsets[row + 1]
                # The first cause is taken without asking whether there is one, or where: the answers are hard to foresee.
                cause = row - back[min(first, len(back) - 1)] if len(back) else row
                below = (end > first) & (cause < 0)
                marked[cause if (end > first) & (cause >= 0) else rows] = 1
                sends_left[left] = first_position + cause
                left += below
                for entry in range(first + 1, end):
                    cause = row - back[entry]
                    if cause >= 0:
                        marked[cause] = 1
                    else:
                        sends_left[left] = first_position + cause
                        left += 1
                while edge >= 0 and edge_row[edge] > row:
                    edge -= 1
                while edge >= 0 and edge_row[edge] == row:
                    sends_left[left] = edge_position[edge]
                    left += 1
                    edge -= 1
    marked[rows] = 0
    # With every process reached, all that is before is in the past, whatever was sent.
    return count, left if unreached > 0 else 0, unreached


@inlined
def _seen(position: int, firsts: Longs, ends: Longs, starts: Longs, bits: Flags) -> int:
    """1 or 0: whether the event at a position of an earlier part is in the future; -1 if no part held it."""
    part = np.searchsorted(firsts, position, side="right") - 1
    if part < 0 or position >= ends[part]:
        return -1
    place = starts[part] + position - firsts[part]
    return int(np.int64(bits[place >> 3]) >> (place & 7)) & 1


@kernel(
    "Tuple((int64, int64))(int32[::1], int64[::1], int64[::1], int64, int64[::1], int64[::1], uint8[::1], int64, int64, "
    "int64[::1], int64[::1], int32[::1], int64[::1], int64[::1], int64[::1], uint8[::1], uint8[::1], int64[::1])"
)
def future_rows(
    process: Ints,
    offsets: Longs,
    back: Longs,
    first_position: int,
    edge_row: Longs,
    edge_position: Longs,
    wanted: Flags,
    limit: int,
    start: int,
    entered: Longs,
    through: Longs,
    through_process: Ints,
    firsts: Longs,
    ends: Longs,
    starts: Longs,
    bits: Flags,
    inside: Flags,
    found: Longs,
) -> tuple[int, int]:
    """How many rows were put into `found`, and -1 or the position of a cause in a part that was left out.

    ``inside[row]`` says which rows are in the future, the start among them. Parts seen before are ``firsts`` to ``ends``
    in positions, and their bits begin at ``starts`` in `bits`.
    """
    count = edge = 0
    for row in range(len(process)):
        own = process[row]
        inside[row] = entered[own] >= 0
        if first_position + row <= start:
            if first_position + row == start:
                entered[own] = start
                inside[row] = 1
            continue
        if not inside[row]:
            best = np.int64(-1)
            best_process = np.int32(-1)
            for entry in range(offsets[row], offsets[row + 1]):
                cause = row - back[entry]
                position = first_position + cause
                if position < start or (best >= 0 and position >= best):
                    continue
                if cause >= 0:
                    if inside[cause]:
                        best, best_process = position, process[cause]
                    continue
                seen = _seen(position, firsts, ends, starts, bits)
                if seen < 0:
                    return count, position
                if seen:
                    best, best_process = position, np.int32(-1)
            while edge < len(edge_row) and edge_row[edge] < row:
                edge += 1
            while edge < len(edge_row) and edge_row[edge] == row:
                position = edge_position[edge]
                edge += 1
                if position < start or (best >= 0 and position >= best):
                    continue
                seen = _seen(position, firsts, ends, starts, bits)
                if seen < 0:
                    return count, position
                if seen:
                    best, best_process = position, np.int32(-1)
            if best < 0:
                continue
            inside[row] = 1
            entered[own], through[own], through_process[own] = first_position + row, best, best_process
        if len(wanted) == 0 or wanted[row]:
            found[count] = row
            count += 1
            if count == limit:
                break
    return count, -1
