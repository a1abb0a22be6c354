"""What lines were before a segment, looked up in the segments before it when somebody asks.

Marks of lines are those of `ledto.history.window.lines`, references those of `ledto.causality.lines`, counted over
the whole history: twice a position, and one more for the list of the event there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ledto.causality.skeleton import Longs
from ledto.causality.taint import NEVER
from ledto.history.window.lines import AS_PARENT, LineEnds, Marks, mark_of

if TYPE_CHECKING:
    from ledto.history.run import Run

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class LineIndex:
    """Where each line of a run has its first events."""

    mark: Marks
    """Ascending."""
    segment: NDArray[np.int32]

    def known_before(self, number: int, marks: Marks) -> Flags:
        """By mark: whether the line has a front before a segment."""
        if not len(self.mark):
            return np.zeros(len(marks), np.bool_)
        at = np.minimum(np.searchsorted(self.mark, marks), len(self.mark) - 1)
        found: Flags = (self.mark[at] == marks) & (self.segment[at] < number)
        return found


def index_of_lines(run: Run) -> LineIndex:
    """Look through the lines of all segments, once. Takes 12 bytes for each line of each segment.

    Only rows that name what their line was started from, and do not say that they are its first, ask for this.
    """

    def find() -> LineIndex:
        there = [run.line_marks(number) for number in range(len(run.segments))]
        numbers = np.repeat(np.arange(len(there), dtype=np.int32), [len(marks) for marks in there])
        mark, first = np.unique(np.concatenate([np.empty(0, np.uint64), *there]), return_index=True)
        return LineIndex(mark, numbers[first])

    return run.kept(("line index", 0), find, lambda found: found.mark.nbytes + found.segment.nbytes)


def went_on(run: Run, number: int) -> Flags:
    """By row of `LineEnds.begun_row`, which name what their line was started from: whether it only goes on with its line.

    So may a row after a report that is missing from its process: that may have been the first of the line.
    """
    ends = run.line_ends(number)
    if ends is None or not len(ends.begun_row):
        return np.zeros(0, np.bool_)

    def find() -> Flags:
        found = _after_missing(run, number, ends.begun_row)
        return found | index_of_lines(run).known_before(number, ends.begun_mark) if number else found

    return run.kept(("went on", number), find, lambda found: found.nbytes)


def _after_missing(run: Run, number: int, rows: Longs) -> Flags:
    """By row of a segment: whether a number is left out before it in its process, or a report is gone that belongs there."""
    codes, process = run.segments.codes_of(number), run.process_column(number)
    first_gone = run.processes.table["first_gone"].fill_null(NEVER).to_numpy()[codes]
    lacks = ~run.processes.dense_seq[codes] | (first_gone != NEVER)
    found = np.zeros(len(rows), np.bool_)
    if not lacks[process[rows]].any():
        return found
    seq = run.events(number, ["seq"], 0, len(process))["seq"].fill_null(0).to_numpy()[rows]
    order = np.argsort(process, kind="stable")
    starts = np.searchsorted(process[order], np.arange(len(codes)))
    nth = np.empty(len(process), np.int64)
    nth[order] = np.arange(len(order)) - starts[process[order]] + 1
    index = nth[rows] + run.segments.before_of(number)[process[rows]]
    found[:] = (seq > index) | (index >= first_gone[process[rows]])
    return found


def rows_not_started(run: Run, number: int) -> Longs:
    """Rows of a segment, ascending, whose first stored reference does not count: their lines had begun before."""
    ends = run.line_ends(number)
    if ends is None:
        return np.empty(0, np.int64)
    return ends.begun_row[went_on(run, number) & ends.begun_here]


def lines_before(run: Run, number: int) -> tuple[Longs, Marks]:
    """Rows of a segment, ascending, and the lines whose fronts before the segment they follow."""
    ends = run.line_ends(number)
    if ends is None:
        return _first_of_processes(run, number)
    continues = went_on(run, number)
    started = ~continues & ends.begun_before
    row = np.concatenate((ends.continued_row, ends.begun_row[continues], ends.begun_row[started]))
    mark = np.concatenate((ends.continued_mark, ends.begun_mark[continues], ends.begun_parent[started]))
    order = np.argsort(row, kind="stable")
    return row[order], mark[order]


def _first_of_processes(run: Run, number: int) -> tuple[Longs, Marks]:
    """For a segment without lines: the first rows of its processes, if these have events before."""
    if not run.segments.before_of(number).any():
        return np.empty(0, np.int64), np.empty(0, np.uint64)
    rows = np.flatnonzero(run.previous_rows(number) < 0)
    codes = run.segments.codes_of(number)[run.process_column(number)[rows]]
    return rows, np.array([_main_mark(run, code) for code in codes.tolist()], np.uint64)


def fronts(run: Run, number: int, marks: Marks) -> tuple[Longs, Longs]:
    """What the next events of lines follow that come after the segments before this one.

    Gives, for each such thing, which of the lines it is of, and a reference. In place of a line that others name as parent,
    a server of the same process that shares its id counts. What ended into that id while the server did nothing else ended
    into the server.
    """
    search = _Servers(marks)
    search.meet(run.line_ends(number))
    waiting = np.arange(len(marks))
    which, found = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    base = run.segments.base_of(number)
    while len(waiting) and number > 0 and run.segments.first_position[number] > base:
        number -= 1
        first = int(run.segments.first_position[number])
        ends = run.line_ends(number)
        mark, front, extends = _last_of_processes(run, number) if ends is None else _open(ends)
        if not len(mark):
            continue
        search.meet(ends)
        at, there = _places(mark, search.mark[waiting])
        shared, there_shared = _places(mark, search.shared[waiting])
        there_shared &= ~there & search.is_server[waiting] & extends[shared]
        for places, chosen in ((at, there), (shared, there_shared)):
            which.append(waiting[chosen])
            found.append(2 * first + front[places[chosen]])
        waiting = waiting[~(there & ~extends[at])]
    return np.concatenate(which), np.concatenate(found)


class _Servers:
    """Lines that are looked for, those of servers that share an id together with the line of that id."""

    def __init__(self, marks: Marks) -> None:
        self.mark: Marks = marks & ~AS_PARENT
        self.shared: Marks = np.zeros(len(marks), np.uint64)
        self.is_server: Flags = np.zeros(len(marks), np.bool_)
        self._parents = np.flatnonzero((marks & AS_PARENT) != 0)

    def meet(self, ends: LineEnds | None) -> None:
        """Take the servers of a segment in place of lines that others were started from."""
        if ends is None or not len(ends.server_mark):
            return
        by_client = np.argsort(ends.client_mark)
        at, there = _places(ends.client_mark[by_client], self.mark[self._parents])
        self.mark[self._parents[there]] = ends.server_mark[by_client][at[there]]
        at, there = _places(ends.server_mark, self.mark)
        self.shared[there], self.is_server[there] = ends.client_mark[at[there]], True


def _places(ascending: Marks, marks: Marks) -> tuple[Longs, Flags]:
    """Where marks stand among others, of which there are some, and whether they do."""
    at = np.minimum(np.searchsorted(ascending, marks), len(ascending) - 1)
    return at, ascending[at] == marks


def _open(ends: LineEnds) -> tuple[Marks, Longs, Flags]:
    return ends.open_mark, ends.open_front, ends.open_extends


def _last_of_processes(run: Run, number: int) -> tuple[Marks, Longs, Flags]:
    """For a segment without lines: its processes, by the mark of what they do on no line, and their last rows."""
    local = np.flatnonzero(run.segments.counts_of(number))
    codes = run.segments.codes_of(number)[local]
    marks = np.array([_main_mark(run, code) for code in codes.tolist()], np.uint64)
    process = run.process_column(number)
    present, last = np.unique(process[::-1], return_index=True)
    order = np.argsort(marks)
    rows = len(process) - 1 - last[np.searchsorted(present, local)]
    return marks[order], 2 * rows[order].astype(np.int64), np.zeros(len(marks), np.bool_)


def _main_mark(run: Run, code: int) -> int:
    processes = run.processes
    return mark_of(f"{processes.computation_of(code)}\0{processes.name(code)}", None)
