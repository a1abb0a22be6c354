"""Compute the vector clock of every row in turn, and write down only those that are asked for.

Each process has a *vector row*: its vector as of its last receive. Its own count is kept beside that. So a send copies
nothing: it shares the vector row of its process until its last receive. A receive takes a free vector row and gives up the
one that its process had. Memory is one vector row per process and one per message in flight. Free ones are used again
while they are in the cache.

What limits the speed: up to about 100 processes, that processors cannot predict which rows are receives; above, that each
receive reads two vector rows and writes one. No other branch depends on the data, which saved a third of the time. To plan
all receives first and merge without branches was slower: merges then overlapped with nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.causality.skeleton import NO_ROWS, Ints, Longs, Skeleton, high_half, low_half, pack
from ledto.kernels import kernel

LARGEST_COUNT = (1 << 31) - 1
"""Vectors count in 32 bits."""
LANES = 16
"""Vector rows are multiples of so many numbers, one cache line: loops over them have no remainder."""
LINE_BYTES = 64
AT_ROW, AT_EDGE, AT_WANTED, FREE = range(4)
"""Fields of a pass's cursor: the next row, edge and wanted row, and the number of free vector rows."""


@dataclass(frozen=True, slots=True)
class AskedPairs:
    """Questions about wanted rows: did this event happen before the row?"""

    start: Longs
    """int64[w + 1]: where the questions about each wanted row start."""
    event: Longs
    """int64[k]: the event of each question: its process and its number there, packed."""
    place: Longs
    """int64[k]: where in `answers` the answer goes."""
    answers: NDArray[np.bool_]


NO_PAIRS = AskedPairs(NO_ROWS, NO_ROWS, NO_ROWS, np.empty(0, np.bool_))


@dataclass(slots=True)
class ForwardState:
    """The state of a pass between segments; changed in place."""

    count: Longs
    """int64[P]: the number of events of each process so far."""
    known: Ints
    """int32[K, W]: the vectors of the last events."""
    column: Ints
    """int32[P]: each process's column in vectors. Processes that never hear of each other may share one."""
    row: Longs | None = None
    """int64[P]: each process's row of `known`. None: process p has row p, which a pass to the end needs."""


class ForwardPass:
    """Memory for passes, kept from one to the next: getting new pages takes longer than the clocks. Not for two threads."""

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
        """Pass over a segment; write the vectors of the wanted rows to `out`, which may be empty if there are `pairs`.

        `edges`: rows with causes before the segment, ascending; for each which of the vectors its cause has; and those
        vectors. `wanted` ascends. Unless `to_the_end`, the pass stops after the last wanted row, and `state` is then
        useless.
        """
        stop = len(skeleton) if to_the_end else int(wanted[-1]) + 1 if len(wanted) else 0
        check_counts_fit(skeleton, state.count, stop)
        row = np.arange(len(state.count), dtype=np.int64) if state.row is None else state.row
        cursor = self._prepare(skeleton, state, row)
        current = pack(row, state.count)
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
            state.count[:] = low_half(current)
            state.known[:] = self._numbers[high_half(current), : state.known.shape[1]]
            state.known[np.arange(len(current)), state.column] = state.count

    def _prepare(self, skeleton: Skeleton, state: ForwardState, row: Longs) -> Longs:
        """Make room for a segment; return the cursor at its start."""
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
        """Double the vector rows, for a pass that has used them all."""
        before = len(self._numbers)
        numbers, holders = _whole_lines(2 * before, self._numbers.shape[1]), np.empty(2 * before, np.int32)
        numbers[:before], holders[:before] = self._numbers, self._holders
        self._numbers, self._holders = numbers, holders
        self._free = np.empty(2 * before + 1, np.int32)
        self._free[:before] = np.arange(2 * before - 1, before - 1, -1)
        cursor[FREE] = before


def _whole_lines(count: int, width: int) -> Ints:
    """Make rows of numbers that start where cache lines do: an eighth faster to merge than others."""
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
    """Count for each row how many rows before `stop` have it as a cause."""
    uses[:stop] = 0
    if len(back) == 0:
        return
    for row in range(stop):
        first, end = offsets[row], offsets[row + 1]
        # No branch on whether there is a first cause: processors cannot predict it.
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
    """Go on from the cursor; return whether it reached the end. False: a receive needs a vector row, and none is free.

    `numbers` are the vector rows. ``current[p]`` packs the vector row of process p and the count of its events;
    ``sent[row]`` is what that was at the row. `holders` counts who needs a vector row: its process, and the sends that share
    it; ``free[:cursor[FREE]]`` are those that nobody needs. `uses` counts the receives of each row still to come.
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
            given_up = old = high_half(current[own])
            current[own] = pack(new, low_half(current[own]))
            for entry in range(first, end):
                cause = row - back[entry]
                at = high_half(sent[cause])
                for place in range(width):
                    numbers[new, place] = max(numbers[old, place], numbers[at, place])
                sender = column[process[cause]]
                numbers[new, sender] = max(numbers[new, sender], np.int32(low_half(sent[cause])))
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
            holders[given_up] -= 1
            free[frees] = given_up
            frees += holders[given_up] == 0
        # One more event: the count is in the low half.
        now = current[own] + 1
        current[own] = sent[row] = now
        holders[high_half(now)] += uses[row] > 0
        if row == wanted_next:
            at, count = high_half(now), low_half(now)
            if len(out):
                for place in range(out.shape[1]):
                    out[asked, place] = numbers[at, place]
                out[asked, column[own]] = count
            if len(pair_start):
                for pair in range(pair_start[asked], pair_start[asked + 1]):
                    other, index = high_half(pair_event[pair]), low_half(pair_event[pair])
                    # No event happened before itself.
                    reach = count - 1 if other == own else np.int64(numbers[at, column[other]])
                    answers[pair_place[pair]] = index <= reach
            asked += 1
            wanted_next = wanted[asked] if asked < len(wanted) else stop
    return True
