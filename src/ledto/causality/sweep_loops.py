"""The loops of `ledto.causality.sweeps` over the rows of one part."""

from __future__ import annotations

import numpy as np

from ledto.causality.skeleton import Flags, Ints, Longs
from ledto.kernels import inlined, kernel

NOT_YET = -1
"""In place of a position or process: the process is not reached, or no message reached it, or the sender is not known."""
NOTHING_SKIPPED = -1
"""In place of a position: no cause is in a part that was left out."""
_OUTSIDE, _INSIDE, _SKIPPED = 0, 1, -1
"""Of an event in an earlier part: it is not in the future; it is; the part was left out."""


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
    earlier_sends: Longs,
) -> tuple[int, int, int]:
    """Write rows to the end of `found` and sends before the part to `earlier_sends`.

    Returns the numbers of rows, of sends, and of processes not reached yet. `marked` is longer than the part and zero; it is
    zero again afterwards, unless the limit was met.
    """
    rows = len(process)
    count = send_count = 0
    highest = -1
    for send in sends:
        if send < first_position:
            earlier_sends[send_count] = send
            send_count += 1
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
                # No branch on whether there is a first cause, or where: processors cannot predict it.
                cause = row - back[min(first, len(back) - 1)] if len(back) else row
                below = (end > first) & (cause < 0)
                marked[cause if (end > first) & (cause >= 0) else rows] = 1
                earlier_sends[send_count] = first_position + cause
                send_count += below
                for entry in range(first + 1, end):
                    cause = row - back[entry]
                    if cause >= 0:
                        marked[cause] = 1
                    else:
                        earlier_sends[send_count] = first_position + cause
                        send_count += 1
                while edge >= 0 and edge_row[edge] > row:
                    edge -= 1
                while edge >= 0 and edge_row[edge] == row:
                    earlier_sends[send_count] = edge_position[edge]
                    send_count += 1
                    edge -= 1
    marked[rows] = 0
    # Once every process is reached, all earlier events are in the past: sends do not matter.
    return count, send_count if unreached > 0 else 0, unreached


@inlined
def _look_up(position: int, firsts: Longs, ends: Longs, starts: Longs, bits: Flags) -> int:
    """Tell whether the event at a position of an earlier part is in the future: _INSIDE, _OUTSIDE or _SKIPPED."""
    part = np.searchsorted(firsts, position, side="right") - 1
    if part < 0 or position >= ends[part]:
        return _SKIPPED
    place = starts[part] + position - firsts[part]
    return _INSIDE if int(np.int64(bits[place >> 3]) >> (place & 7)) & 1 else _OUTSIDE


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
    """Write rows to `found`; return their number, and the position of a cause in a part that was left out.

    That is `NOTHING_SKIPPED` if all is well. ``inside[row]`` gets whether the row is in the future, or the start. Earlier
    parts have the positions ``firsts[i]`` to ``ends[i]``, and their bits begin at ``starts[i]`` in `bits`.
    """
    count = edge = 0
    for row in range(len(process)):
        own = process[row]
        inside[row] = entered[own] != NOT_YET
        if first_position + row <= start:
            if first_position + row == start:
                entered[own] = start
                inside[row] = 1
            continue
        if not inside[row]:
            best = np.int64(NOT_YET)
            best_process = np.int32(NOT_YET)
            for entry in range(offsets[row], offsets[row + 1]):
                cause = row - back[entry]
                position = first_position + cause
                if position < start or (best != NOT_YET and position >= best):
                    continue
                if cause >= 0:
                    if inside[cause]:
                        best, best_process = position, process[cause]
                    continue
                state = _look_up(position, firsts, ends, starts, bits)
                if state == _SKIPPED:
                    return count, position
                if state == _INSIDE:
                    best, best_process = position, np.int32(NOT_YET)
            while edge < len(edge_row) and edge_row[edge] < row:
                edge += 1
            while edge < len(edge_row) and edge_row[edge] == row:
                position = edge_position[edge]
                edge += 1
                if position < start or (best != NOT_YET and position >= best):
                    continue
                state = _look_up(position, firsts, ends, starts, bits)
                if state == _SKIPPED:
                    return count, position
                if state == _INSIDE:
                    best, best_process = position, np.int32(NOT_YET)
            if best == NOT_YET:
                continue
            inside[row] = 1
            entered[own], through[own], through_process[own] = first_position + row, best, best_process
        if len(wanted) == 0 or wanted[row]:
            found[count] = row
            count += 1
            if count == limit:
                break
    return count, NOTHING_SKIPPED
