"""Pass over a segment with a block of columns at a time, so that memory does not grow with the square of the processes.

Messages within the segment connect its processes to *groups*. The *columns* of a group are the processes that it can know
of: its own, and those that its processes, or the sends that reach it, know of where the segment begins. Vectors of two
groups are never compared, so each group numbers its columns from 0. Columns do not depend on each other either. So there is
one pass for each block of columns, over the groups that have so many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.causality.boundary import Boundary
from ledto.causality.forward import LANES, ForwardState, check_counts_fit
from ledto.causality.skeleton import Ints, Longs, Skeleton, high_half, ints, low_half, pack
from ledto.causality.sparse_vectors import Vectors
from ledto.kernels import kernel

BLOCK_NUMBERS = 1 << 26
"""About how many numbers a pass holds: 256 MB."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBlock:
    """The arguments of one pass: the rows of some groups, and some consecutive columns."""

    skeleton: Skeleton
    """The rows; processes are numbered within the block, from 0 to n - 1."""
    state: ForwardState
    """Besides the n processes there is one for each column: process ``n + c`` has column c and no rows."""
    edges: tuple[Longs, Longs, Ints]
    """As for `ledto.causality.forward.ForwardPass.run`."""
    rows: Longs
    """By row: its row in the segment."""
    own: Longs
    """By process of the block: its place in `Grouped.present`."""
    first: int
    """The column of each group that is column 0 of the block."""
    columns: int
    """The number of columns."""


class Grouped:
    """The processes of a segment in groups."""

    def __init__(self, skeleton: Skeleton, boundary: Boundary, stop: int) -> None:
        """Find the groups of the rows before `stop`. Raises `OverflowError` if a process has too many events."""
        check_counts_fit(skeleton, boundary.before, stop)
        part = skeleton if stop == len(skeleton) else skeleton.part(0, stop)
        present = np.zeros(boundary.processes, np.bool_)
        present[part.process] = True
        self.present = np.flatnonzero(present)
        """Processes that have rows, ascending."""
        number = np.full(boundary.processes, -1, np.int32)
        number[self.present] = np.arange(len(self.present))
        self._skeleton = Skeleton(number[part.process], part.offsets, part.back)
        self._before = boundary.before[self.present]
        self._known = boundary.known.take(self.present)
        last_edge = int(np.searchsorted(boundary.edge_row, stop))
        self._edge_row, self._edge_send = boundary.edge_row[:last_edge], boundary.edge_send[:last_edge]
        self._sends = boundary.send_known
        self.group = _groups(self._skeleton.process, part.offsets, part.back, len(self.present))
        """By process, in the order of `present`: its group."""
        self._sent_to = np.unique(pack(self.group[self._skeleton.process[self._edge_row]], self._edge_send))
        """Packed group and send of before the segment, for each send that reaches a group; ascending."""
        reaching = self._sends.take(low_half(self._sent_to))
        self._column_keys = np.unique(
            np.concatenate(
                (
                    pack(self.group, self.present),
                    pack(np.repeat(self.group, self._known.lengths), self._known.process),
                    pack(np.repeat(high_half(self._sent_to), reaching.lengths), reaching.process),
                )
            )
        )
        """Packed group and process of every column, ascending."""
        groups = int(self.group.max(initial=-1)) + 1
        self._starts: Longs = np.searchsorted(self._column_keys, pack(np.arange(groups + 1), 0))
        self._widths: Longs = np.diff(self._starts)

    def number_of(self, process: Ints) -> Longs:
        """Find the places in `present` of processes, all of which are there."""
        return np.searchsorted(self.present, process)

    def column_of(self, group: Longs, process: Longs) -> Longs:
        """Find the columns of processes in groups; -1 where a group cannot know of a process."""
        key = pack(group, process)
        at = np.searchsorted(self._column_keys, key)
        column = np.full(len(key), -1, np.int64)
        inside = np.flatnonzero(at < len(self._column_keys))
        inside = inside[self._column_keys[at[inside]] == key[inside]]
        column[inside] = at[inside] - self._starts[group[inside]]
        return column

    def process_of(self, group: Longs, column: Longs) -> Ints:
        """Find the processes of columns of groups."""
        return ints(low_half(self._column_keys[self._starts[group] + column]))

    def width_of(self, group: Longs) -> Longs:
        """Give the number of columns of groups."""
        return self._widths[group]

    def blocks(self, wanted: int) -> Iterator[ColumnBlock]:
        """Yield blocks that have each column of each group once. `wanted`: the number of vectors that will be written."""
        first = 0
        rows, own = np.arange(len(self._skeleton)), np.arange(len(self.present))
        skeleton = self._skeleton
        while len(own):
            widths = self._widths[self.group[own]]
            if (widths <= first).any():
                own, (rows, skeleton) = own[widths > first], self._rows_of(widths > first, skeleton, rows)
                continue
            room = max(LANES, BLOCK_NUMBERS // (2 * len(own) + wanted + LANES) // LANES * LANES)
            columns = min(room, int(widths.max()) - first)
            yield self._block(skeleton, rows, own, first, columns)
            first += columns

    @staticmethod
    def _rows_of(stay: NDArray[np.bool_], skeleton: Skeleton, rows: Longs) -> tuple[Longs, Skeleton]:
        """Take the rows of the processes that stay. These are whole groups, so no row loses a cause."""
        kept = stay[skeleton.process]
        place = np.cumsum(kept) - 1
        effect = np.repeat(np.arange(len(skeleton)), np.diff(skeleton.offsets))
        inside = kept[effect]
        offsets = np.concatenate(([0], np.cumsum(np.diff(skeleton.offsets)[kept])))
        back = (place[effect] - place[effect - skeleton.back])[inside]
        number = np.cumsum(stay) - 1
        return rows[kept], Skeleton(number[skeleton.process[kept]], offsets, back)

    def _block(self, skeleton: Skeleton, rows: Longs, own: Longs, first: int, columns: int) -> ColumnBlock:
        """Make the block of the columns from `first` on."""
        groups = self.group[own]
        # One more column, after the last, gets the counts of processes whose columns are in other blocks.
        own_column = self.column_of(groups, self.present[own]) - first
        own_column[(own_column < 0) | (own_column >= columns)] = columns
        column = np.concatenate((own_column, np.arange(columns + 1))).astype(np.int32)
        known, row_of_known = self._dense(self._known.take(own), groups, first, columns)
        state = ForwardState(self._before[own], known, column, row_of_known)
        at = np.searchsorted(rows, self._edge_row)
        in_block = np.flatnonzero(at < len(rows))
        in_block = in_block[rows[at[in_block]] == self._edge_row[in_block]]
        effect = at[in_block].astype(np.int64)
        sent_to = pack(self.group[own[skeleton.process[effect]]], self._edge_send[in_block])
        used, place = np.unique(np.searchsorted(self._sent_to, sent_to), return_inverse=True)
        sends = self._sends.take(low_half(self._sent_to[used]))
        vectors, row_of_vector = self._dense(sends, high_half(self._sent_to[used]), first, columns)
        return ColumnBlock(skeleton, state, (effect, row_of_vector[place], vectors), rows, own, first, columns)

    def _dense(self, vectors: Vectors, groups: Longs, first: int, columns: int) -> tuple[Ints, Longs]:
        """Write out the block's columns of vectors; return them, and the row of each vector. Row 0 has only zeros."""
        row = vectors.rows
        column = self.column_of(groups[row], vectors.process.astype(np.int64)) - first
        inside = (column >= 0) & (column < columns)
        used, place = np.unique(row[inside], return_inverse=True)
        dense = np.zeros((len(used) + 1, columns + 1), np.int32)
        dense[place + 1, column[inside]] = vectors.count[inside]
        row_of = np.zeros(len(vectors), np.int64)
        row_of[used] = np.arange(1, len(used) + 1)
        return dense, row_of


def _groups(process: Ints, offsets: Longs, back: Longs, processes: int) -> Longs:
    """Number the groups from 0, and give each process its group."""
    return np.unique(_leaders(process, offsets, back, processes), return_inverse=True)[1].astype(np.int64)


@kernel("int32[::1](int32[::1], int64[::1], int64[::1], int64)")
def _leaders(process: Ints, offsets: Longs, back: Longs, processes: int) -> Ints:
    """Find for each process the lowest process that messages connect it with, itself included."""
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
    for member in range(processes):
        # A leader is the lowest of its group, so every lower process already has its final leader.
        leader[member] = leader[leader[member]]
    return leader
