"""Find what each event follows in its own process: follow the lines of a segment where they part and meet again.

A *line* is one thing that a process does: a request, a task, a span. Its *front* is what its next event follows: its last
event, and the ends of lines that have ended into it since. One pass over the events, in history order, finds all fronts.

A front may hold many ends, and many events may follow it, so it is stored once. Each row that ends a line into another has a
*list*: the row itself, and the front as it was before. A *reference* names a row, or the list of a row; `row_reference` and
`list_reference` make them. Memory is proportional to the rows.

A line that began before the segment has a front there. Its first event in the segment *continues* it: that front is looked
up in earlier segments when a question needs it (`ledto.history.recorded`). So no segment has to wait for another.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledto.causality.skeleton import Longs
from ledto.kernels import inlined, kernel

Flags = NDArray[np.bool_]

NONE = -1
"""In place of a row, a line or a reference: there is none."""


@inlined
def row_reference(row: Any) -> Any:
    """Refer to a row alone: twice its number. Files have references in this form. For numbers and for arrays."""
    return 2 * row


@inlined
def list_reference(row: Any) -> Any:
    """Refer to the list of a row: twice its number, plus 1."""
    return 2 * row + 1


@inlined
def referred_row(reference: Any) -> Any:
    """Give the row of a reference, whether that means the row alone or its list."""
    return reference // 2


@inlined
def refers_to_list(reference: Any) -> Any:
    """Tell whether a reference means the list of its row."""
    return reference % 2 == 1


@dataclass(frozen=True, slots=True, eq=False)
class LineRows:
    """The rows of a segment in history order, with their lines. The same line in two processes has two numbers."""

    line: Longs
    """By row: the number of its line."""
    parent: Longs
    """By row: the line of the same process that started its line, or that its line ends into; `NONE` without one."""
    starts: Flags
    """By row: whether it begins its line."""
    ends: Flags
    """By row: whether it ends its line."""
    join_offsets: Longs
    joins: Longs
    """Row i waited for the lines ``joins[join_offsets[i]:join_offsets[i + 1]]``."""
    lines: int
    """The number of lines; some may have no rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """The lists of rows that end a line into another, by row; `NONE` for all other rows."""

    rest: Longs
    """A reference to what the list holds besides the row; `NONE` if it holds nothing else."""
    first: Longs
    """The oldest row with a list of the same front. The list holds all such rows from there to this one, down to `low`."""
    low: Longs
    """The list leaves out rows below this one: they lead to the row anyway."""


@dataclass(frozen=True, slots=True, eq=False)
class Fronts:
    """What rows follow in their own process, and what later segments may follow.

    Three tables, by column: rows that continue a line from before the segment (``continued_*``); rows that are the first of
    their line in the segment and name its parent (``begun_*``); and lines that later segments may continue or wait for,
    ended ones included (``open_*``).
    """

    offsets: Longs
    follows: Longs
    """Row i follows the references ``follows[offsets[i]:offsets[i + 1]]``."""
    lists: Lists
    continued_row: Longs
    """The row, ascending."""
    continued_line: Longs
    """The line whose front before the segment the row also follows."""
    continued_parent: Flags
    """Whether that line is the parent of the row's own line."""
    begun_row: Longs
    """The row, ascending."""
    begun_line: Longs
    """Its line. If that has a front before the segment, the row follows only that front, and not the parent."""
    begun_here: Flags
    """Whether the row's first reference is the parent's front, which then does not count."""
    begun_parent: Longs
    """The parent, if it may have a front before the segment, which then does not count either; `NONE` otherwise."""
    open_line: Longs
    """The line, ascending."""
    open_front: Longs
    """A reference to its front."""
    open_extends: Flags
    """Whether its front before the segment is to be added."""


def find_fronts(rows: LineRows) -> Fronts:
    """Follow the lines through a segment.

    A row that starts a line follows the front of the parent, and nothing that its line did before. Any other first row of a
    line continues it. If the line has no front before the segment, the row follows the parent that it names.
    """
    offsets, follows, rest, first, low, continued, begun, begun_here, front, complete = _follow(
        rows.line, rows.parent, rows.starts, rows.ends, rows.join_offsets, rows.joins, rows.lines
    )
    open_lines = np.flatnonzero(front != NONE)
    return Fronts(
        offsets,
        follows,
        Lists(rest, first, low),
        continued[:, 0].copy(),
        continued[:, 1].copy(),
        continued[:, 2] > 0,
        begun[:, 0].copy(),
        begun[:, 1].copy(),
        begun_here,
        begun[:, 2].copy(),
        open_lines,
        front[open_lines],
        ~complete[open_lines],
    )


@kernel(
    "Tuple((int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[:, ::1], int64[:, ::1], boolean[::1], "
    "int64[::1], boolean[::1]))"
    "(int64[::1], int64[::1], boolean[::1], boolean[::1], int64[::1], int64[::1], int64)"
)
def _follow(
    line: Longs, parent: Longs, starts: Flags, ends: Flags, join_offsets: Longs, joins: Longs, lines: int
) -> tuple[Longs, Longs, Longs, Longs, Longs, Longs, Longs, Flags, Longs, Flags]:
    rows = len(line)
    # By line: a reference to its front; whether that is the whole front, with nothing before the segment to add; and its
    # parent and first row, if it started in the segment.
    front = np.full(lines, NONE, np.int64)
    complete = np.zeros(lines, np.bool_)
    started_from, started_by = np.full(lines, NONE, np.int64), np.full(lines, NONE, np.int64)
    rest, first, low = np.full(rows, NONE, np.int64), np.full(rows, NONE, np.int64), np.full(rows, NONE, np.int64)
    offsets, follows = np.zeros(rows + 1, np.int64), np.empty(rows + len(joins), np.int64)
    count = 0
    continued = np.empty((rows + len(joins), 3), np.int64)
    begun, begun_here = np.empty((rows, 3), np.int64), np.empty(rows, np.bool_)
    continued_count = begun_count = 0
    for row in range(rows):
        own = line[row]
        first_join, last_join = join_offsets[row], join_offsets[row + 1]
        for turn in range(1 + last_join - first_join):
            # First its own line, or the parent; then the lines it waited for.
            followed, names_parent = own, False
            if turn:
                followed = joins[first_join + turn - 1]
            elif starts[row]:
                followed = parent[row]
                started_from[own], started_by[own] = followed, row
            elif not complete[own] and front[own] == NONE and parent[row] != NONE and not ends[row]:
                followed, names_parent = parent[row], True
            if followed == NONE:
                continue
            if names_parent:
                begun[begun_count, 0], begun[begun_count, 1] = row, own
                begun[begun_count, 2] = NONE if complete[followed] else followed
                begun_here[begun_count] = front[followed] != NONE
                begun_count += 1
            elif not complete[followed]:
                continued[continued_count, 0], continued[continued_count, 1] = row, followed
                continued[continued_count, 2] = 1 if turn == 0 and starts[row] else 0
                continued_count += 1
            if front[followed] != NONE:
                follows[count] = front[followed]
                count += 1
        offsets[row + 1] = count
        front[own], complete[own] = row_reference(row), True
        into = parent[row]
        if ends[row] and into != NONE and into != own:
            before = front[into]
            lowest = np.int64(0)
            if before != NONE and refers_to_list(before):
                lowest = low[referred_row(before)]
            if started_from[own] == into:
                # What the parent had done when it started this line leads to this line's end anyway.
                lowest = max(lowest, started_by[own])
            low[row], first[row] = lowest, row
            if before != NONE and referred_row(before) >= lowest:
                rest[row] = before
                if refers_to_list(before):
                    first[row] = first[referred_row(before)]
            front[into] = list_reference(row)
    return (
        offsets, follows[:count].copy(), rest, first, low, continued[:continued_count].copy(),
        begun[:begun_count].copy(), begun_here[:begun_count].copy(), front, complete,
    )  # fmt: skip
