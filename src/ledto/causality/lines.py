"""What each event follows in its own process: the lines of a segment, where they part and where they meet again.

A *line* is one thing that a process does: a request, a task, a span. Its *front* is what its next event follows: its last
event, and the ends of lines that went back into it since. All of this is settled in one pass over the events in
history order, in which each process's own order is kept.

A front may hold many ends, and many events may follow it. So it is stored once: the last end has a *list*, which holds this
end and goes on with what the front was before. A *reference* is twice the number of a row, and one more if the list of that
row is meant, not the row alone. Rows and lists take memory in proportion to the rows.

A line that began before the segment has a front there. Its first event here *continues* it: the front is looked for in
earlier segments when somebody asks (`ledto.history.recorded`). So no segment has to wait for another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.causality.skeleton import Longs
from ledto.kernels import kernel

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
class Lists:
    """The lists of rows that end a line into another: by row, -1 where a row has none."""

    rest: Longs
    """The reference of what the list holds besides the row; -1 where that is nothing."""
    first: Longs
    """The oldest row that has a list of the same front: all those between belong to this list, from `low` on."""
    low: Longs
    """What the list holds of rows before this one leads to the row anyway, and need not be told."""


@dataclass(frozen=True, slots=True, eq=False)
class Fronts:
    """What rows follow in their own process, and what later segments may follow."""

    offsets: Longs
    follows: Longs
    """Row i follows what ``follows[offsets[i]:offsets[i + 1]]`` refer to."""
    lists: Lists
    continued_row: Longs
    """Rows, ascending, that also follow a front before the segment ..."""
    continued_line: Longs
    """... which is that of this line ..."""
    continued_parent: Flags
    """... and whether that is the line which theirs was started from."""
    begun_row: Longs
    """Rows, ascending, that are the first of their line here and name the line that it was started from ..."""
    begun_line: Longs
    """... their line: if that has a front before the segment, they only continue it ..."""
    begun_here: Flags
    """... and then their first reference, where this is true, does not count ..."""
    begun_parent: Longs
    """... nor does the front before the segment of this line; -1 for none."""
    open_line: Longs
    """Lines, ascending, that later segments may go on with or wait for, those that have ended included ..."""
    open_front: Longs
    """... references to their fronts ..."""
    open_extends: Flags
    """... to which a front before the segment is to be added."""


def find_fronts(rows: LineRows) -> Fronts:
    """Follow the lines through a segment.

    A row that starts a line follows the front of the parent, and nothing that its line did before. Any other first row of a
    line continues it, but follows the parent that it names if the line has no front before.
    """
    offsets, follows, rest, first, low, continued, begun, begun_here, head, settled = _follow(
        rows.line, rows.parent, rows.starts, rows.ends, rows.join_offsets, rows.joins, rows.lines
    )
    found = np.flatnonzero(head >= 0)
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
        found,
        head[found],
        ~settled[found],
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
    # By line: a reference to its front; whether that is all known here; and the row that started it, if one did.
    head = np.full(lines, -1, np.int64)
    settled = np.zeros(lines, np.bool_)
    started_from, started_by = np.full(lines, -1, np.int64), np.full(lines, -1, np.int64)
    rest, first, low = np.full(rows, -1, np.int64), np.full(rows, -1, np.int64), np.full(rows, -1, np.int64)
    offsets, follows = np.zeros(rows + 1, np.int64), np.empty(rows + len(joins), np.int64)
    count = 0
    continued = np.empty((rows + len(joins), 3), np.int64)
    begun, begun_here = np.empty((rows, 3), np.int64), np.empty(rows, np.bool_)
    went_on = begins = 0
    for row in range(rows):
        own = line[row]
        first_join, last_join = join_offsets[row], join_offsets[row + 1]
        for turn in range(1 + last_join - first_join):
            # First its own line, or the one it was started from; then those it waited for.
            followed, conditional = own, False
            if turn:
                followed = joins[first_join + turn - 1]
            elif starts[row]:
                followed = parent[row]
                started_from[own], started_by[own] = followed, row
            elif not settled[own] and head[own] < 0 and parent[row] >= 0 and not ends[row]:
                followed, conditional = parent[row], True
            if followed < 0:
                continue
            if conditional:
                begun[begins, 0], begun[begins, 1] = row, own
                begun[begins, 2] = -1 if settled[followed] else followed
                begun_here[begins] = head[followed] >= 0
                begins += 1
            elif not settled[followed]:
                continued[went_on, 0], continued[went_on, 1] = row, followed
                continued[went_on, 2] = 1 if turn == 0 and starts[row] else 0
                went_on += 1
            if head[followed] >= 0:
                follows[count] = head[followed]
                count += 1
        offsets[row + 1] = count
        head[own], settled[own] = 2 * row, True
        into = parent[row]
        if ends[row] and into >= 0 and into != own:
            before = head[into]
            lowest = low[before // 2] if before >= 0 and before % 2 else np.int64(0)
            if started_from[own] == into:
                # What the line had done when it started this one is before its end: only what came since is told.
                lowest = max(lowest, started_by[own])
            low[row], first[row] = lowest, row
            if before // 2 >= lowest and before >= 0:
                rest[row] = before
                if before % 2:
                    first[row] = first[before // 2]
            head[into] = 2 * row + 1
    return (
        offsets, follows[:count].copy(), rest, first, low, continued[:went_on].copy(), begun[:begins].copy(),
        begun_here[:begins].copy(), head, settled,
    )  # fmt: skip
