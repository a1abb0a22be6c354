"""Whether one event happened before another, for many pairs at once.

The pairs are dealt out to the rows they ask about, and one forward pass answers each when it comes by: no vector is
written down, so memory is that of the pass and 16 bytes a pair. Dealing them out takes most of the time where they come in
no order: 30 to 50 ns a pair.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from whence.causality.boundary import Boundary
from whence.causality.forward import LOW_HALF, Forward, Pairs, State
from whence.causality.skeleton import Ints, Longs, Skeleton, longs
from whence.kernels import kernel


def happened_before(
    skeleton: Skeleton, boundary: Boundary, process: ArrayLike, index: ArrayLike, row: ArrayLike
) -> NDArray[np.bool_]:
    """Whether event ``index[i]`` of ``process[i]``, of any segment, happened before ``row[i]`` of this segment.

    No event happened before itself. Events are numbered from 1 within their process, over the whole computation. An
    event that a process does not have (yet) happened before nothing.
    """
    boundary.check(skeleton)
    earlier, number, later = longs(process), longs(index), longs(row)
    if not (earlier.shape == number.shape == later.shape and earlier.ndim == 1):
        raise ValueError(
            f"pairs are three flat columns of one length, not {earlier.shape}, {number.shape}, {later.shape}"
        )
    answers = np.zeros(len(later), np.bool_)
    if not len(later):
        return answers
    _check_range("row", later, len(skeleton), "the segment")
    _check_range("process", earlier, boundary.processes, "the boundary")
    if number.min() < 1:
        raise ValueError(f"events are numbered from 1; index {number.min()} is asked for")
    state, group = _state(skeleton, boundary)
    wanted, start, event, place = _by_row(earlier, number, later, len(skeleton))
    out = np.empty((0, state.known.shape[1]), np.int32)
    edges = (boundary.edge_row, boundary.edge_send, boundary.send_known if len(boundary.send_known) else out)
    pairs = Pairs(start, event, place, answers)
    Forward().run(skeleton, state, edges, wanted, out, pairs=pairs, to_the_end=False)
    if group is not None:
        answers &= group[earlier] == group[skeleton.process[later]]
    return answers


def _check_range(what: str, values: Longs, count: int, where: str) -> None:
    least, largest = int(values.min()), int(values.max())
    if least < 0 or largest >= count:
        raise ValueError(f"{what} {least if least < 0 else largest} is asked for; {where} has {count}, from 0")


def _state(skeleton: Skeleton, boundary: Boundary) -> tuple[State, Ints | None]:
    """The state at the segment's start, and the group of each process if they do not all have columns of their own."""
    count = boundary.before.copy()
    if not boundary.starts:
        own = np.arange(boundary.processes, dtype=np.int32)
        return State(count, np.array(boundary.known, order="C"), own), None
    # Many small computations may share a segment; a column for each process of all of them would be too many.
    group, column = _groups(skeleton.process, skeleton.offsets, skeleton.back, boundary.processes)
    return State(count, np.zeros((boundary.processes, int(column.max()) + 1), np.int32), column), group


@kernel("Tuple((int32[::1], int32[::1]))(int32[::1], int64[::1], int64[::1], int64)")
def _groups(process: Ints, offsets: Longs, back: Longs, processes: int) -> tuple[Ints, Ints]:
    """For each process: the lowest of those it is connected with through messages, and its number among them."""
    leader = np.arange(processes).astype(np.int32)
    for row in range(len(process)):
        for entry in range(offsets[row], offsets[row + 1]):
            one, other = process[row], process[row - back[entry]]
            while leader[one] != one:
                leader[one] = leader[leader[one]]
                one = leader[one]
            while leader[other] != other:
                leader[other] = leader[leader[other]]
                other = leader[other]
            if one < other:
                leader[other] = one
            else:
                leader[one] = other
    column = np.zeros(processes, np.int32)
    members = np.zeros(processes, np.int32)
    for each in range(processes):
        # A leader is the lowest of its group, so every lower process already points at its own.
        leader[each] = leader[leader[each]]
        column[each] = members[leader[each]]
        members[leader[each]] += 1
    return leader, column


@kernel("Tuple((int64[::1], int64[::1], int64[::1], int64[::1]))(int64[::1], int64[::1], int64[::1], int64)")
def _by_row(process: Longs, index: Longs, row: Longs, rows: int) -> tuple[Longs, Longs, Longs, Longs]:
    """The rows asked about, ascending; where the pairs of each start; and by row the pairs' events and places."""
    filled_to = np.zeros(rows, np.int64)
    for pair in range(len(row)):
        filled_to[row[pair]] += 1
    distinct = 0
    for each in range(rows):
        distinct += filled_to[each] > 0
    wanted, start = np.empty(distinct, np.int64), np.empty(distinct + 1, np.int64)
    filled = distinct = 0
    for each in range(rows):
        count = filled_to[each]
        filled_to[each] = filled
        if count:
            wanted[distinct], start[distinct] = each, filled
            distinct += 1
            filled += count
    start[distinct] = filled
    event, place = np.empty(len(row), np.int64), np.empty(len(row), np.int64)
    for pair in range(len(row)):
        at = filled_to[row[pair]]
        filled_to[row[pair]] = at + 1
        event[at] = process[pair] << 32 | min(index[pair], LOW_HALF)
        place[at] = pair
    return wanted, start, event, place
