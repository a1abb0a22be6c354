"""What each event follows in its own process: the lines of a segment, where they part and where they meet again.

A *line* is one thing that a process does: a request, a task, a span. Its *front* is what its next event follows: its last
event, and the ends of lines that it started and that have ended since. All of this is settled in one pass over the events in
history order, in which each process's own order is kept.

A line that began before the segment has a front there. Its first event here *continues* it: the front is looked for in
earlier segments when somebody asks (`whence.history.recorded`). So no segment has to wait for another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whence.causality.skeleton import Longs
from whence.kernels import kernel

Flags = NDArray[np.bool_]
NONE = -1


@dataclass(frozen=True, slots=True, eq=False)
class LineRows:
    """Rows of a segment in history order. Lines have numbers; the same line in two processes has two."""

    line: Longs
    """By row."""
    parent: Longs
    """By row: the line of the same process that it was started from, or at its end ends into; -1 for none."""
    starts: Flags
    """By row: whether it begins its line."""
    ends: Flags
    """By row: whether it ends its line."""
    join_offsets: Longs
    joins: Longs
    """Row i waited for the lines ``joins[join_offsets[i]:join_offsets[i + 1]]``."""
    lines: int
    """How many there are; some may have no rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Fronts:
    """What rows follow in their own process, and what later segments may follow."""

    offsets: Longs
    back: Longs
    """Row i follows the rows ``i - back[offsets[i]:offsets[i + 1]]``."""
    continued_row: Longs
    """Rows, ascending, that also follow a front before the segment ..."""
    continued_line: Longs
    """... which is that of this line."""
    open_line: Longs
    """Lines, ascending, that later segments may go on with or wait for, those that have ended included ..."""
    open_offsets: Longs
    open_row: Longs
    """... and the rows of their fronts ..."""
    open_extends: Flags
    """... to which a front before the segment is to be added."""


def find_fronts(rows: LineRows) -> Fronts:
    """Follow the lines through a segment.

    A row that begins a line, or that is the first of its line and names a parent, follows the parent's front. Any other
    first row of a line continues it.
    """
    offsets, back, continued_row, continued_line, head, after, node_row, settled = _follow(
        rows.line, rows.parent, rows.starts, rows.ends, rows.join_offsets, rows.joins, rows.lines
    )
    found = np.flatnonzero(head >= 0)
    open_offsets, open_row = _unrolled(found, head, after, node_row)
    return Fronts(offsets, back, continued_row, continued_line, found, open_offsets, open_row, ~settled[found])


@kernel(
    "Tuple((int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], "
    "boolean[::1]))"
    "(int64[::1], int64[::1], boolean[::1], boolean[::1], int64[::1], int64[::1], int64)"
)
def _follow(
    line: Longs, parent: Longs, starts: Flags, ends: Flags, join_offsets: Longs, joins: Longs, lines: int
) -> tuple[Longs, Longs, Longs, Longs, Longs, Longs, Longs, Flags]:
    """Fronts are lists of nodes, newest first: ``head[line]``, then ``after[node]``; ``node_row`` has the row of a node."""
    rows = len(line)
    head = np.full(lines, -1, np.int64)
    after, node_row = np.empty(2 * rows, np.int64), np.empty(2 * rows, np.int64)
    nodes = 0
    # Whether the front of a line is all known here; what it was started from, and the newest node at that moment.
    settled = np.zeros(lines, np.bool_)
    started_from, started_at = np.full(lines, -1, np.int64), np.full(lines, -1, np.int64)
    offsets = np.zeros(rows + 1, np.int64)
    back = np.empty(rows + len(joins) + 16, np.int64)
    count = 0
    continued_row = np.empty(2 * rows + len(joins), np.int64)
    continued_line = np.empty(2 * rows + len(joins), np.int64)
    continued = 0
    for row in range(rows):
        own = line[row]
        begins = starts[row] or (not settled[own] and head[own] < 0 and parent[row] >= 0 and not ends[row])
        first_join, last_join = join_offsets[row], join_offsets[row + 1]
        for turn in range(1 + last_join - first_join):
            # First its own line, or the one it was started from; then those it waited for.
            followed = own
            if turn:
                followed = joins[first_join + turn - 1]
            elif begins and not settled[own]:
                followed = parent[row]
                started_from[own], started_at[own] = followed, nodes
            if followed < 0:
                continue
            if not settled[followed]:
                continued_row[continued], continued_line[continued] = row, followed
                continued += 1
            node = head[followed]
            while node >= 0:
                if count == len(back):
                    more = np.empty(2 * count, np.int64)
                    more[:count] = back
                    back = more
                back[count] = row - node_row[node]
                count += 1
                node = after[node]
        offsets[row + 1] = count
        node_row[nodes], after[nodes] = row, -1
        head[own], settled[own] = nodes, True
        nodes += 1
        if ends[row]:
            into = parent[row]
            if into >= 0 and into != own:
                keep = head[into]
                if started_from[own] == into:
                    # What the line had done when it started this one is before its end: only what came since stays.
                    last, node = -1, head[into]
                    while node >= started_at[own]:
                        last, node = node, after[node]
                    if last >= 0:
                        after[last] = -1
                    else:
                        keep = -1
                node_row[nodes], after[nodes] = row, keep
                head[into] = nodes
                nodes += 1
    return (
        offsets, back[:count].copy(), continued_row[:continued].copy(), continued_line[:continued].copy(),
        head, after[:nodes].copy(), node_row[:nodes].copy(), settled,
    )  # fmt: skip


@kernel("UniTuple(int64[::1], 2)(int64[::1], int64[::1], int64[::1], int64[::1])")
def _unrolled(chosen: Longs, head: Longs, after: Longs, node_row: Longs) -> tuple[Longs, Longs]:
    """The rows of some lists of nodes, one list after the other."""
    offsets = np.zeros(len(chosen) + 1, np.int64)
    for at in range(len(chosen)):
        node, count = head[chosen[at]], 0
        while node >= 0:
            node, count = after[node], count + 1
        offsets[at + 1] = offsets[at] + count
    found = np.empty(offsets[-1], np.int64)
    for at in range(len(chosen)):
        node, place = head[chosen[at]], offsets[at]
        while node >= 0:
            found[place] = node_row[node]
            node, place = after[node], place + 1
    return offsets, found
