"""The forward pass: every row's vector clock in turn, of which only those asked for are written down.

A process keeps one row of numbers, its vector as of its last receive; its own entry is a counter beside it. A send
then costs no copy: it holds on to its process's numbers until its last receive. A receive takes a free row of numbers,
and lets go of the one its process had. So memory is a row of numbers a process and one a message in flight, and those
let go are used again while they are in the cache.

What bounds it: below some 100 processes, that no processor foresees which rows are receives; above, to read two rows of
numbers and write one for each receive. No other branch depends on the data, which took a third off the time. Planning
all receives first, and merging without any such branch, was slower: the merges no longer overlapped with anything.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.causality.skeleton import NO_ROWS, Ints, Longs, Skeleton
from ledto.kernels import kernel

LARGEST_COUNT = (1 << 31) - 1
LOW_HALF = (1 << 32) - 1
LANES = 16
"""Rows of numbers are whole cache lines: loops over them have no remainder."""
LINE_BYTES = 64
AT_ROW, AT_EDGE, AT_WANTED, FREE = range(4)
"""Places of a pass's cursor."""


@dataclass(frozen=True, slots=True)
class AskedPairs:
    """Questions by wanted row: did an event happen before it?"""

    start: Longs
    """int64[w + 1]: where the questions of each wanted row start."""
    event: Longs
    """int64[k]: the events asked about, by row; a process in the high half, a number within it in the low half."""
    place: Longs
    """int64[k]: where in `answers` each answer goes."""
    answers: NDArray[np.bool_]


NO_PAIRS = AskedPairs(NO_ROWS, NO_ROWS, NO_ROWS, np.empty(0, np.bool_))


@dataclass(slots=True)
class ForwardState:
    """What the pass knows between segments; changed in place."""

    count: Longs
    """int64[P]: events of each process so far."""
    known: Ints
    """int32[K, W]: vectors of their last events."""
    column: Ints
    """int32[P]: the column of each process in vectors. Processes whose events never meet may share one."""
    row: Longs | None = None
    """int64[P]: which row of `known` each process has. None: each its own, which a pass to the end needs."""


class ForwardPass:
    """Runs passes, and keeps their memory: faulting in new pages costs more than the clocks."""

    def __init__(self) -> None:
        self._numbers = _whole_lines(0, LANES)
        self._holders = np.empty(0, np.int32)
        self._free = np.empty(1, np.int32)
        self._uses = np.empty(0, np.int32)
        self._sent = np.empty(0, np.int64)

    def run(
        self,
        skeleton: Skeleton,
        state: ForwardState,
        edges: tuple[Longs, Longs, Ints],
        wanted: Longs,
        out: Ints,
        *,
        pairs: AskedPairs = NO_PAIRS,
        to_the_end: bool,
    ) -> None:
        """Pass over a segment and write the vectors of the wanted rows to `out`, which may be empty if there are `pairs`.

        `edges` are the rows with causes before the segment, ascending; which of the vectors each cause has; and those
        vectors. `wanted` ascends. Unless run to the end, the pass stops after the last wanted row and `state` is of
        no further use.
        """
        stop = len(skeleton) if to_the_end else int(wanted[-1]) + 1 if len(wanted) else 0
        check_counts_fit(skeleton, state.count, stop)
        row = np.arange(len(state.count), dtype=np.int64) if state.row is None else state.row
        cursor = self._prepare(skeleton, state, row)
        current = row << 32 | state.count
        rows = (skeleton.process, skeleton.offsets, skeleton.back, stop)
        _count_uses(*rows[1:], self._uses)
        while not _advance(
            *rows,
            *edges,
            state.column,
            current,
            wanted,
            out,
            pairs.start,
            pairs.event,
            pairs.place,
            pairs.answers,
            self._numbers,
            self._holders,
            self._free,
            self._uses,
            self._sent,
            cursor,
        ):
            self._add_numbers(cursor)
        if to_the_end:
            state.count[:] = current & LOW_HALF
            state.known[:] = self._numbers[current >> 32, : state.known.shape[1]]
            state.known[np.arange(len(current)), state.column] = state.count

    def _prepare(self, skeleton: Skeleton, state: ForwardState, row: Longs) -> Longs:
        """Make room for a segment; gives the cursor at its start."""
        rows, columns = state.known.shape
        width = -(-columns // LANES) * LANES
        if self._numbers.shape[1] != width or len(self._numbers) <= rows:
            self._numbers = _whole_lines(2 * rows + LANES, width)
            self._holders = np.empty(len(self._numbers), np.int32)
            self._free = np.empty(len(self._numbers) + 1, np.int32)
        if len(self._uses) < len(skeleton):
            self._uses = np.empty(len(skeleton), np.int32)
            self._sent = np.empty(len(skeleton), np.int64)
        self._numbers[:rows, :columns] = state.known
        self._holders[:rows] = np.bincount(row, minlength=rows)
        free = np.arange(len(self._numbers) - 1, rows - 1, -1)
        self._free[: len(free)] = free
        return np.array([0, 0, 0, len(free)], np.int64)

    def _add_numbers(self, cursor: Longs) -> None:
        """Twice as many rows of numbers, for a pass that has used them all."""
        had = len(self._numbers)
        numbers, holders = _whole_lines(2 * had, self._numbers.shape[1]), np.empty(2 * had, np.int32)
        numbers[:had], holders[:had] = self._numbers, self._holders
        self._numbers, self._holders = numbers, holders
        self._free = np.empty(2 * had + 1, np.int32)
        self._free[:had] = np.arange(2 * had - 1, had - 1, -1)
        cursor[FREE] = had


def _whole_lines(count: int, width: int) -> Ints:
    """Rows of numbers that start where cache lines do: an eighth faster to merge than others."""
    raw = np.empty(count * width * 4 + LINE_BYTES, np.uint8)
    start = -raw.ctypes.data % LINE_BYTES
    return raw[start : start + count * width * 4].view(np.int32).reshape(count, width)


def check_counts_fit(skeleton: Skeleton, count: Longs, stop: int) -> None:
    """Raise `OverflowError` when the rows before `stop` give a process more events than 32 bits count."""
    if int(count.max(initial=0)) + stop <= LARGEST_COUNT:
        return
    counts = count + np.bincount(skeleton.process[:stop], minlength=len(count))
    if counts.max() > LARGEST_COUNT:
        raise OverflowError(
            f"process {counts.argmax()} has {counts.max()} events; vectors count up to {LARGEST_COUNT}. "
            "Split the computation or the process into several"
        )


@kernel("void(int64[::1], int64[::1], int64, int32[::1])")
def _count_uses(offsets: Longs, back: Longs, stop: int, uses: Ints) -> None:
    """How many receives each row has."""
    uses[:stop] = 0
    if len(back) == 0:
        return
    for row in range(stop):
        first, end = offsets[row], offsets[row + 1]
        # The first cause is read without asking whether there is one: the answer is hard to foresee.
        uses[max(row - back[min(first, len(back) - 1)], 0)] += end > first
        for entry in range(first + 1, end):
            uses[row - back[entry]] += 1


@kernel(
    "boolean(int32[::1], int64[::1], int64[::1], int64, int64[::1], int64[::1], int32[:, ::1], int32[::1], "
    "int64[::1], int64[::1], int32[:, ::1], int64[::1], int64[::1], int64[::1], boolean[::1], "
    "int32[:, ::1], int32[::1], int32[::1], int32[::1], int64[::1], int64[::1])"
)
def _advance(
    process: Ints,
    offsets: Longs,
    back: Longs,
    stop: int,
    edge_row: Longs,
    edge_send: Longs,
    send_known: Ints,
    column: Ints,
    current: Longs,
    wanted: Longs,
    out: Ints,
    pair_start: Longs,
    pair_event: Longs,
    pair_place: Longs,
    answers: NDArray[np.bool_],
    numbers: Ints,
    holders: Ints,
    free: Ints,
    uses: Ints,
    sent: Longs,
    cursor: Longs,
) -> bool:
    """Go on from the cursor; true when done, false when a receive needs a row of numbers and none is free.

    ``current[p]`` packs where the numbers of process p are with the count of its events, and ``sent[row]`` is what that
    was at a row. ``holders`` counts who needs each row of numbers: the process, and the sends that had it;
    ``free[:cursor[FREE]]`` are those that nobody needs. `uses` counts receives still to come.
    """
    width, columns = numbers.shape[1], send_known.shape[1]
    edge, asked, frees = cursor[AT_EDGE], cursor[AT_WANTED], cursor[FREE]
    edge_next = edge_row[edge] if edge < len(edge_row) else stop
    wanted_next = wanted[asked] if asked < len(wanted) else stop
    for row in range(cursor[AT_ROW], stop):
        own = process[row]
        first, end = offsets[row], offsets[row + 1]
        if (end > first) | (row == edge_next):
            if frees == 0:
                cursor[AT_ROW], cursor[AT_EDGE], cursor[AT_WANTED] = row, edge, asked
                return False
            frees -= 1
            new = np.int64(free[frees])
            holders[new] = 1
            left = old = current[own] >> 32
            current[own] = new << 32 | current[own] & LOW_HALF
            for entry in range(first, end):
                cause = row - back[entry]
                at = sent[cause] >> 32
                for place in range(width):
                    numbers[new, place] = max(numbers[old, place], numbers[at, place])
                sender = column[process[cause]]
                numbers[new, sender] = max(numbers[new, sender], np.int32(sent[cause] & LOW_HALF))
                old = new
                uses[cause] -= 1
                last = uses[cause] == 0
                holders[at] -= last
                free[frees] = at
                frees += last & (holders[at] == 0)
            while row == edge_next:
                for place in range(columns):
                    numbers[new, place] = max(numbers[old, place], send_known[edge_send[edge], place])
                old = new
                edge += 1
                edge_next = edge_row[edge] if edge < len(edge_row) else stop
            holders[left] -= 1
            free[frees] = left
            frees += holders[left] == 0
        now = current[own] + 1
        current[own] = sent[row] = now
        holders[now >> 32] += uses[row] > 0
        if row == wanted_next:
            at, count = now >> 32, now & LOW_HALF
            if len(out):
                for place in range(out.shape[1]):
                    out[asked, place] = numbers[at, place]
                out[asked, column[own]] = count
            if len(pair_start):
                for pair in range(pair_start[asked], pair_start[asked + 1]):
                    other, index = pair_event[pair] >> 32, pair_event[pair] & LOW_HALF
                    # No event is before itself.
                    reach = count - 1 if other == own else np.int64(numbers[at, column[other]])
                    answers[pair_place[pair]] = index <= reach
            asked += 1
            wanted_next = wanted[asked] if asked < len(wanted) else stop
    return True
