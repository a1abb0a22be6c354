"""Passes over a segment that hold a block of columns at a time: memory does not grow with the square of the processes.

The processes of a segment fall into *groups* that messages connect within it. What a group can know of is what its
processes and the sends that reach it know where the segment begins, and its own processes: these are the group's *columns*.
Vectors of different groups never meet, so all groups number their columns from 0. Columns do not depend on each other
either, so the segment is passed over once for each block of them, by those groups that have so many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.causality.boundary import Boundary
from ledto.causality.forward import LANES, ForwardState, check_counts_fit
from ledto.causality.skeleton import Ints, Longs, Skeleton, ints
from ledto.causality.sparse_vectors import Vectors
from ledto.kernels import kernel

BLOCK_NUMBERS = 1 << 26
"""Numbers that a pass holds, about: 256 MB."""


@dataclass(frozen=True, slots=True, eq=False)
class ColumnBlock:
    """One pass: the rows of some groups, and a run of their columns."""

    skeleton: Skeleton
    """Processes are numbered within the block."""
    state: ForwardState
    """Process ``n + c``, of which there are no rows, has column c; n is how many processes have rows."""
    edges: tuple[Longs, Longs, Ints]
    rows: Longs
    """By row: which row of the segment it is."""
    own: Longs
    """By process of the block: its number among the segment's."""
    first: int
    """The column of its group that is column 0 of the block."""
    columns: int


class Grouped:
    """The processes of a segment by groups."""

    def __init__(self, skeleton: Skeleton, boundary: Boundary, stop: int) -> None:
        """Rows from `stop` on are left out."""
        check_counts_fit(skeleton, boundary.before, stop)
        part = skeleton if stop == len(skeleton) else skeleton.part(0, stop)
        present = np.zeros(boundary.processes, np.bool_)
        present[part.process] = True
        self.present = np.flatnonzero(present)
        """Processes of the segment, ascending."""
        number = np.full(boundary.processes, -1, np.int32)
        number[self.present] = np.arange(len(self.present))
        self._skeleton = Skeleton(number[part.process], part.offsets, part.back)
        self._before = boundary.before[self.present]
        self._known = boundary.known.take(self.present)
        last_edge = int(np.searchsorted(boundary.edge_row, stop))
        self._edge_row, self._edge_send = boundary.edge_row[:last_edge], boundary.edge_send[:last_edge]
        self._sends = boundary.send_known
        self.group = _groups(self._skeleton.process, part.offsets, part.back, len(self.present))
        """By process of the segment, in the order of `present`: its group."""
        self._sent_to = np.unique(self.group[self._skeleton.process[self._edge_row]] << 32 | self._edge_send)
        """Which send reaches which group, each once: the group in the high half."""
        reaching = self._sends.take(self._sent_to & 0xFFFFFFFF)
        self._keys = np.unique(
            np.concatenate(
                (
                    self.group << 32 | self.present,
                    np.repeat(self.group, self._known.lengths) << 32 | self._known.process,
                    np.repeat(self._sent_to >> 32, reaching.lengths) << 32 | reaching.process,
                )
            )
        )
        """Group and process of every column, ascending."""
        groups = int(self.group.max(initial=-1)) + 1
        self._starts = np.searchsorted(self._keys, np.arange(groups + 1) << 32)
        self._widths = np.diff(self._starts)

    def number_of(self, process: Ints) -> Longs:
        """Places in `present` of processes that are there."""
        return np.searchsorted(self.present, process)

    def column_of(self, group: Longs, process: Longs) -> Longs:
        """Columns of processes in groups; -1 where a group cannot know of a process."""
        key = group << 32 | process
        at = np.searchsorted(self._keys, key)
        found = np.full(len(key), -1, np.int64)
        inside = np.flatnonzero(at < len(self._keys))
        inside = inside[self._keys[at[inside]] == key[inside]]
        found[inside] = at[inside] - self._starts[group[inside]]
        return found

    def process_of(self, group: Longs, column: Longs) -> Ints:
        """Processes of columns that groups have."""
        return ints(self._keys[self._starts[group] + column] & 0xFFFFFFFF)

    def width_of(self, group: Longs) -> Longs:
        """How many columns groups have."""
        return self._widths[group]

    def blocks(self, wanted: int) -> Iterator[ColumnBlock]:
        """All passes that it takes to see each column of each group once, where so many rows are to be written down."""
        first = 0
        left = len(self.present)
        rows, own = np.arange(len(self._skeleton)), np.arange(len(self.present))
        skeleton = self._skeleton
        while left:
            widths = self._widths[self.group[own]]
            if (widths <= first).any():
                own, (rows, skeleton) = own[widths > first], self._rows_of(widths > first, skeleton, rows)
                left = len(own)
                continue
            room = max(LANES, BLOCK_NUMBERS // (2 * left + wanted + LANES) // LANES * LANES)
            columns = min(room, int(widths.max()) - first)
            yield self._block(skeleton, rows, own, first, columns)
            first += columns

    @staticmethod
    def _rows_of(stay: NDArray[np.bool_], skeleton: Skeleton, rows: Longs) -> tuple[Longs, Skeleton]:
        """The rows of the processes that stay, with all of their causes: these are of the same groups."""
        kept = stay[skeleton.process]
        place = np.cumsum(kept) - 1
        effect = np.repeat(np.arange(len(skeleton)), np.diff(skeleton.offsets))
        inside = kept[effect]
        offsets = np.concatenate(([0], np.cumsum(np.diff(skeleton.offsets)[kept])))
        back = (place[effect] - place[effect - skeleton.back])[inside]
        number = np.cumsum(stay) - 1
        return rows[kept], Skeleton(number[skeleton.process[kept]], offsets, back)

    def _block(self, skeleton: Skeleton, rows: Longs, own: Longs, first: int, columns: int) -> ColumnBlock:
        groups = self.group[own]
        # The column after the last takes what is said of processes whose columns are in other blocks.
        mine = self.column_of(groups, self.present[own]) - first
        mine[(mine < 0) | (mine >= columns)] = columns
        column = np.concatenate((mine, np.arange(columns + 1))).astype(np.int32)
        known, row_of_known = self._dense(self._known.take(own), groups, first, columns)
        state = ForwardState(self._before[own], known, column, row_of_known)
        at = np.searchsorted(rows, self._edge_row)
        here = np.flatnonzero(at < len(rows))
        here = here[rows[at[here]] == self._edge_row[here]]
        effect = at[here].astype(np.int64)
        sent = np.searchsorted(
            self._sent_to, self.group[own[skeleton.process[effect]]] << 32 | self._edge_send[here]
        )  # fmt: skip
        used, place = np.unique(sent, return_inverse=True)
        sends = self._sends.take(self._sent_to[used] & 0xFFFFFFFF)
        vectors, row_of_vector = self._dense(sends, self._sent_to[used] >> 32, first, columns)
        return ColumnBlock(skeleton, state, (effect, row_of_vector[place], vectors), rows, own, first, columns)

    def _dense(self, vectors: Vectors, groups: Longs, first: int, columns: int) -> tuple[Ints, Longs]:
        """The block's columns of vectors that groups have, and the row of each; those that are zero share the first."""
        row = vectors.rows
        column = self.column_of(groups[row], vectors.process.astype(np.int64)) - first
        inside = (column >= 0) & (column < columns)
        used, place = np.unique(row[inside], return_inverse=True)
        found = np.zeros((len(used) + 1, columns + 1), np.int32)
        found[place + 1, column[inside]] = vectors.count[inside]
        row_of = np.zeros(len(vectors), np.int64)
        row_of[used] = np.arange(1, len(used) + 1)
        return found, row_of


def _groups(process: Ints, offsets: Longs, back: Longs, processes: int) -> Longs:
    """By process: its group, from 0."""
    return np.unique(_leaders(process, offsets, back, processes), return_inverse=True)[1].astype(np.int64)


@kernel("int32[::1](int32[::1], int64[::1], int64[::1], int64)")
def _leaders(process: Ints, offsets: Longs, back: Longs, processes: int) -> Ints:
    """For each process: the lowest of those it is connected with through messages."""
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
    for each in range(processes):
        # A leader is the lowest of its group, so every lower process already points at its own.
        leader[each] = leader[leader[each]]
    return leader
