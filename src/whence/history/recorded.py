"""The recorded past of an event, over all segments of a run, the newest first.

A row group is looked at only if it holds an event of that past. What a line was before a segment is looked up in the
segments before it, nearest first (`whence.history.segment_lines`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from whence.causality.skeleton import Longs
from whence.history import layout
from whence.history.reading import Run
from whence.history.segment_lines import mark_of


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
    return np.unique(np.concatenate((position - back, before)))


def is_recorded_before(run: Run, earlier: int, later: int, *, answered: bool = False) -> bool:
    """Tell whether what is recorded leads from one event to another, which stands after it."""
    for found in recorded_past(run, np.array([later], np.int64), earlier, answered=answered):
        if found[0] <= earlier:
            return bool((found == earlier).any())
    return False


def recorded_crossings(run: Run, number: int) -> tuple[Longs, Longs]:
    """What rows of a segment follow before it along their lines: rows, ascending, and positions. Found once, and kept."""

    def find() -> tuple[Longs, Longs]:
        search = _Search(run, np.empty(0, np.int64))
        fronts = {mark: np.unique(search.front(number, mark)) for _, mark in search.continued(number)}
        pairs = [(row, position) for row, mark in search.continued(number) for position in fronts[mark].tolist()]
        found = np.array(pairs, np.int64).reshape(-1, 2)
        return np.ascontiguousarray(found[:, 0]), np.ascontiguousarray(found[:, 1])

    return run.kept(("recorded crossings", number), find, lambda found: 2 * found[0].nbytes)


@dataclass(slots=True)
class _Search:
    run: Run
    waiting: list[int]
    """Positions, negative, the newest first."""
    answered: bool
    """Whether answers that are only assumed count."""

    def __init__(self, run: Run, positions: Longs, answered: bool = False) -> None:
        self.run, self.answered = run, answered
        self.waiting = (-np.unique(positions)).tolist()
        heapify(self.waiting)

    def waits_at_or_after(self, position: int) -> bool:
        return bool(self.waiting) and -self.waiting[0] >= position

    def step(self, down_to: int = 0) -> Longs:
        """Go through the row group of the newest position; what stands before `down_to` may be left out."""
        segments = self.run.segments
        number = segments.segment_of(-self.waiting[0])
        first = int(segments.first_position[number])
        group = (-self.waiting[0] - first) // layout.SKELETON_ROWS
        start = first + group * layout.SKELETON_ROWS
        rows: set[int] = set()
        while self.waiting and -self.waiting[0] >= start:
            rows.add(-heappop(self.waiting) - start)
        causes = self.run.recorded_group(number, group, answered=self.answered)
        found, leaving = causes.past_of(np.array(sorted(rows), np.int64), max(0, down_to - start))
        for position in (
            *np.unique(leaving + start).tolist(),
            *self.from_before(number, found + start - first).tolist(),
        ):
            heappush(self.waiting, -position)
        return found + start

    def from_before(self, number: int, rows: Longs) -> Longs:
        """Positions before a segment that some of its rows, which ascend, follow."""
        crossing = self.run.messages_into(number)
        found = [np.empty(0, np.int64)]
        if len(crossing.row):
            counts = np.isin(crossing.row, rows) & (~crossing.assumed | self.answered)
            found.append(crossing.position[counts])
        lines = self.run.line_ends(number)
        if lines is None:
            if self.run.segments.before_of(number).any():
                found.append(self._before_in_process(number, rows))
        elif len(lines.continued_row):
            marks = np.unique(lines.continued_mark[np.isin(lines.continued_row, rows)]).tolist()
            found += [self.front(number, mark) for mark in marks]
        return np.unique(np.concatenate(found))

    def continued(self, number: int) -> list[tuple[int, int]]:
        """Rows of a segment, ascending, that go on with lines from before it, and the marks of these."""
        lines = self.run.line_ends(number)
        if lines is not None:
            return list(zip(lines.continued_row.tolist(), lines.continued_mark.tolist(), strict=True))
        if not self.run.segments.before_of(number).any():
            return []
        rows = np.flatnonzero(self.run.previous_rows(number) < 0)
        codes = self.run.segments.codes_of(number)[self.run.process_column(number)[rows]]
        return [(row, self._main_mark(code)) for row, code in zip(rows.tolist(), codes.tolist(), strict=True)]

    def _before_in_process(self, number: int, rows: Longs) -> Longs:
        """For a segment without lines: what its rows follow that are the first of their processes."""
        process = self.run.process_column(number)[rows]
        first_rows = np.flatnonzero(self.run.previous_rows(number)[rows] < 0)
        names = self.run.segments.codes_of(number)
        found = [self.front(number, self._main_mark(int(names[process[row]]))) for row in first_rows.tolist()]
        return np.concatenate([np.empty(0, np.int64), *found])

    def _main_mark(self, code: int) -> int:
        processes = self.run.processes
        return mark_of(f"{processes.computation_of(code)}\0{processes.name(code)}", None)

    def front(self, number: int, mark: int) -> Longs:
        """Positions that the next event of a line follows which comes after the segments before this one."""
        found: list[NDArray[np.int64]] = [np.empty(0, np.int64)]
        base = self.run.segments.base_of(number)
        while number > 0 and self.run.segments.first_position[number] > base:
            number -= 1
            first = int(self.run.segments.first_position[number])
            lines = self.run.line_ends(number)
            if lines is None:
                last = self._last_of_main(number, mark)
                if last >= 0:
                    return np.concatenate((*found, [first + last]))
                continue
            at = int(np.searchsorted(lines.open_mark, np.uint64(mark)))
            if at < len(lines.open_mark) and int(lines.open_mark[at]) == mark:
                found.append(first + lines.open_row[lines.open_offsets[at] : lines.open_offsets[at + 1]])
                if not lines.open_extends[at]:
                    break
        return np.concatenate(found)

    def _last_of_main(self, number: int, mark: int) -> int:
        """The last row of a process in a segment without lines, by the mark of what it does on no line; -1 for none."""
        codes, counts = self.run.segments.codes_of(number), self.run.segments.counts_of(number)
        for local in np.flatnonzero(counts).tolist():
            if self._main_mark(int(codes[local])) == mark:
                return int(np.flatnonzero(self.run.process_column(number) == local)[-1])
        return -1
