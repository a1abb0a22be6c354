"""The recorded past of an event, over all segments of a run, the newest first.

A row group is looked at only if it holds an event of that past. What a line was before a segment is looked up in the
segments before it, nearest first (`whence.history.line_fronts`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from whence.causality.recorded import members
from whence.causality.skeleton import Longs
from whence.history import layout
from whence.history.line_fronts import fronts, lines_before
from whence.history.reading import Run


def recorded_past(run: Run, positions: Longs, down_to: int = 0, *, answered: bool = False) -> Iterator[Longs]:
    """Positions of all that led to these events, and their own: ascending pieces, the newest first.

    What stands before `down_to` may be left out. `answered`: answers that are only assumed count as recorded.
    """
    search = _Search(run, positions, answered)
    while search.waits_at_or_after(down_to):
        yield search.step(down_to)


def past_by_groups(run: Run, position: int, *, answered: bool = False) -> Iterator[tuple[int, int, Longs]]:
    """The same for one event, row group by row group: the segment, the group, and positions, which may be none.

    `answered`: with what is led to by answers that are only assumed.
    """
    search = _Search(run, np.array([position], np.int64), answered)
    segments = run.segments
    number = segments.segment_of(position)
    base, above = segments.base_of(number), position
    while number >= 0 and int(segments.first_position[number]) >= base:
        first = int(segments.first_position[number])
        for group in range((above - first) // layout.SKELETON_ROWS, -1, -1):
            start = first + group * layout.SKELETON_ROWS
            found = search.step() if search.waits_at_or_after(start) else np.empty(0, np.int64)
            yield number, group, found
        above, number = first - 1, number - 1


def recorded_causes(run: Run, position: int) -> Longs:
    """Positions of what an event follows directly, by what is recorded; ascending."""
    search = _Search(run, np.array([position], np.int64))
    number = run.segments.segment_of(position)
    first = int(run.segments.first_position[number])
    group, row = divmod(position - first, layout.SKELETON_ROWS)
    causes = run.recorded_group(number, group)
    back = causes.back[causes.offsets[row] : causes.offsets[row + 1]]
    before = search.from_before(number, np.array([position - first], np.int64))
    return np.unique(_positions(run, np.concatenate((2 * position - back, before)))[0])


def is_recorded_before(run: Run, earlier: int, later: int, *, answered: bool = False) -> bool:
    """Tell whether what is recorded leads from one event to another, which stands after it."""
    for found in recorded_past(run, np.array([later], np.int64), earlier, answered=answered):
        if found[0] <= earlier:
            return bool((found == earlier).any())
    return False


def line_crossings(run: Run, number: int) -> tuple[Longs, Longs]:
    """What rows of a segment follow before it along their lines: rows, ascending, and references. Found once, and kept."""

    def find() -> tuple[Longs, Longs]:
        rows, marks = lines_before(run, number)
        mark, of_row = np.unique(marks, return_inverse=True)
        which, references = fronts(run, number, mark)
        by_mark = np.argsort(which, kind="stable")
        counts = np.bincount(which, minlength=len(mark))
        starts = np.cumsum(counts) - counts
        lengths = counts[of_row]
        at = np.repeat(starts[of_row] - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))
        return np.repeat(rows, lengths), references[by_mark][at]

    return run.kept(("line crossings", number), find, lambda found: 2 * found[0].nbytes)


def recorded_crossings(run: Run, number: int) -> tuple[Longs, Longs]:
    """The same, with the positions of all events that the references stand for: may be very many."""
    rows, references = line_crossings(run, number)
    positions, which = _positions(run, references)
    order = np.argsort(which, kind="stable")
    return rows[which[order]], positions[order]


def recorded_within(run: Run, number: int) -> tuple[Longs, Longs]:
    """Rows of a segment, ascending, and the rows of the same segment that they follow directly: may be very many."""
    effects, references = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for group in range(-(-int(run.segments.rows[number]) // layout.SKELETON_ROWS)):
        recorded = run.recorded_group(number, group)
        rows = np.repeat(np.arange(len(recorded)), np.diff(recorded.offsets)) + group * layout.SKELETON_ROWS
        effects.append(rows)
        references.append(2 * rows - recorded.back)
    found, which = members(np.concatenate(references), *run.line_lists(number))
    return np.concatenate(effects)[which], found


def _positions(run: Run, references: Longs) -> tuple[Longs, Longs]:
    """The events that references stand for, and for each which of the references that was."""
    segments = run.segments
    numbers = np.searchsorted(segments.first_position, references // 2, side="right") - 1
    found, which = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number in np.unique(numbers).tolist():
        mine = np.flatnonzero(numbers == number)
        first = int(segments.first_position[number])
        rows, of = members(references[mine] - 2 * first, *run.line_lists(number))
        found.append(rows + first)
        which.append(mine[of])
    return np.concatenate(found), np.concatenate(which)


@dataclass(slots=True)
class _Search:
    run: Run
    waiting: list[int]
    """References, negative, the newest first."""
    answered: bool
    """Whether answers that are only assumed count."""

    def __init__(self, run: Run, positions: Longs, answered: bool = False) -> None:
        self.run, self.answered = run, answered
        self.waiting = (-2 * np.unique(positions)).tolist()
        heapify(self.waiting)

    def waits_at_or_after(self, position: int) -> bool:
        return bool(self.waiting) and -self.waiting[0] >= 2 * position

    def step(self, down_to: int = 0) -> Longs:
        """Go through the row group of the newest reference; what stands before `down_to` may be left out."""
        segments = self.run.segments
        newest = -self.waiting[0] // 2
        number = segments.segment_of(newest)
        first = int(segments.first_position[number])
        group = (newest - first) // layout.SKELETON_ROWS
        start = first + group * layout.SKELETON_ROWS
        chosen: set[int] = set()
        while self.waits_at_or_after(start):
            chosen.add(-heappop(self.waiting) - 2 * start)
        causes = self.run.recorded_group(number, group, answered=self.answered)
        found, leaving = causes.past_of(np.array(sorted(chosen), np.int64), max(0, down_to - start))
        for reference in (
            *np.unique(leaving + 2 * start).tolist(),
            *self.from_before(number, found + start - first).tolist(),
        ):
            heappush(self.waiting, -reference)
        return found + start

    def from_before(self, number: int, rows: Longs) -> Longs:
        """References before a segment that some of its rows, which ascend, follow."""
        crossing = self.run.messages_into(number)
        found = [np.empty(0, np.int64)]
        if len(crossing.row):
            counts = np.isin(crossing.row, rows) & (~crossing.assumed | self.answered)
            found.append(2 * crossing.position[counts])
        row, mark = lines_before(self.run, number)
        if len(row):
            found.append(fronts(self.run, number, np.unique(mark[np.isin(row, rows)]))[1])
        return np.unique(np.concatenate(found))
