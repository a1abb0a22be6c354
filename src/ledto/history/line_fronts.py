"""Find what the first events of a segment follow on lines that began earlier: the fronts of these lines.

Earlier segments are searched only when a question needs it. `ledto.history.window.lines` has the marks of lines.
References (`ledto.causality.lines`) count positions of the whole history.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ledto.causality.lines import row_reference
from ledto.causality.skeleton import Longs
from ledto.causality.taint import NEVER
from ledto.history.tables import count_within_processes
from ledto.history.window.lines import AS_PARENT, LineEnds, Marks, mark_of

if TYPE_CHECKING:
    from ledto.history.run import Run

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class LineIndex:
    """The first segment of each line of a run."""

    mark: Marks
    """The lines, ascending."""
    segment: NDArray[np.int32]
    """By line: the number of the first segment that has events of it."""

    def began_before(self, number: int, marks: Marks) -> Flags:
        """Tell for each mark whether the line has events before a segment."""
        if not len(self.mark):
            return np.zeros(len(marks), np.bool_)
        at = np.minimum(np.searchsorted(self.mark, marks), len(self.mark) - 1)
        flags: Flags = (self.mark[at] == marks) & (self.segment[at] < number)
        return flags


def index_lines(run: Run) -> LineIndex:
    """Go through the lines of all segments; the index is cached. Takes 12 bytes for each line of each segment.

    Only needed for rows that name what their line was started from, and do not say that they are the first of the line.
    """

    def find() -> LineIndex:
        marks_by_segment = [run.line_marks(number) for number in range(len(run.segments))]
        lengths = [len(marks) for marks in marks_by_segment]
        numbers = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        mark, first = np.unique(np.concatenate([np.empty(0, np.uint64), *marks_by_segment]), return_index=True)
        return LineIndex(mark, numbers[first])

    return run.cached(("line index", 0), find, lambda index: index.mark.nbytes + index.segment.nbytes)


def which_continue(run: Run, number: int) -> Flags:
    """Tell for each row of `LineEnds.begun_row` whether it continues its line, although it names what started the line.

    Also true after a report that is missing from the process: that may have been the first of the line.
    """
    ends = run.line_ends(number)
    if ends is None or not len(ends.begun_row):
        return np.zeros(0, np.bool_)

    def find() -> Flags:
        after_missing = _after_missing(run, number, ends.begun_row)
        return after_missing | index_lines(run).began_before(number, ends.begun_mark) if number else after_missing

    return run.cached(("continue", number), find, lambda flags: flags.nbytes)


def _after_missing(run: Run, number: int, rows: Longs) -> Flags:
    """Tell for each row whether a report is missing before it in its process: a skipped number, or a gone report."""
    codes, process = run.segments.codes_of(number), run.process_column(number)
    first_gone = run.processes.table["first_gone"].fill_null(NEVER).to_numpy()[codes]
    lacks = ~run.processes.dense_seq[codes] | (first_gone != NEVER)
    if not lacks[process[rows]].any():
        return np.zeros(len(rows), np.bool_)
    seq = run.events(number, ["seq"], 0, len(process))["seq"].fill_null(0).to_numpy()[rows]
    index = count_within_processes(process)[rows] + run.segments.before_of(number)[process[rows]]
    flags: Flags = (seq > index) | (index >= first_gone[process[rows]])
    return flags


def rows_not_started(run: Run, number: int) -> Longs:
    """Find the rows of a segment whose first stored reference does not count: their lines began earlier. Ascending."""
    ends = run.line_ends(number)
    if ends is None:
        return np.empty(0, np.int64)
    return ends.begun_row[which_continue(run, number) & ends.begun_here]


def lines_before(run: Run, number: int) -> tuple[Longs, Marks]:
    """Find the rows of a segment that follow a front before it, ascending, and the lines of these fronts."""
    ends = run.line_ends(number)
    if ends is None:
        return _first_of_processes(run, number)
    continues = which_continue(run, number)
    started = ~continues & ends.begun_before
    row = np.concatenate((ends.continued_row, ends.begun_row[continues], ends.begun_row[started]))
    mark = np.concatenate((ends.continued_mark, ends.begun_mark[continues], ends.begun_parent[started]))
    order = np.argsort(row, kind="stable")
    return row[order], mark[order]


def _first_of_processes(run: Run, number: int) -> tuple[Longs, Marks]:
    """Do the same for a segment without lines: give the first rows of processes that have events before it."""
    if not run.segments.before_of(number).any():
        return np.empty(0, np.int64), np.empty(0, np.uint64)
    rows = np.flatnonzero(run.previous_rows(number) < 0)
    codes = run.segments.codes_of(number)[run.process_column(number)[rows]]
    return rows, np.array([_main_mark(run, code) for code in codes.tolist()], np.uint64)


def fronts(run: Run, number: int, marks: Marks) -> tuple[Longs, Longs]:
    """Find the fronts that lines have where a segment begins. Searches earlier segments, nearest first.

    Gives an entry for each part of a front: which of the lines it belongs to, and a reference. If a line is named as a
    parent and a server of the same process shares its id, the front of the server counts instead. What ended into that id
    while the server did nothing else ended into the server.
    """
    search = _LineSearch(marks)
    search.use_servers_of(run.line_ends(number))
    waiting = np.arange(len(marks))
    which, references = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    base = run.segments.base_of(number)
    while len(waiting) and number > 0 and run.segments.first_position[number] > base:
        number -= 1
        first = int(run.segments.first_position[number])
        ends = run.line_ends(number)
        if ends is None:
            mark, front, extends = _last_of_processes(run, number)
        else:
            mark, front, extends = ends.open_mark, ends.open_front, ends.open_extends
        if not len(mark):
            continue
        search.use_servers_of(ends)
        at, is_open = _look_up(mark, search.mark[waiting])
        shared_at, is_shared_open = _look_up(mark, search.shared[waiting])
        is_shared_open &= ~is_open & search.is_server[waiting] & extends[shared_at]
        for places, chosen in ((at, is_open), (shared_at, is_shared_open)):
            which.append(waiting[chosen])
            references.append(row_reference(first) + front[places[chosen]])
        # A front that extends an earlier one has more parts in earlier segments.
        waiting = waiting[~(is_open & ~extends[at])]
    return np.concatenate(which), np.concatenate(references)


class _LineSearch:
    """Lines whose fronts are wanted. A server that shares the id of another line is looked for together with that line."""

    def __init__(self, marks: Marks) -> None:
        self.mark: Marks = marks & ~AS_PARENT
        self.shared: Marks = np.zeros(len(marks), np.uint64)
        self.is_server: Flags = np.zeros(len(marks), np.bool_)
        self._parents = np.flatnonzero((marks & AS_PARENT) != 0)

    def use_servers_of(self, ends: LineEnds | None) -> None:
        """Look for the servers of a segment instead of the parents whose ids they share."""
        if ends is None or not len(ends.server_mark):
            return
        by_client = np.argsort(ends.client_mark)
        at, has_server = _look_up(ends.client_mark[by_client], self.mark[self._parents])
        self.mark[self._parents[has_server]] = ends.server_mark[by_client][at[has_server]]
        at, is_server = _look_up(ends.server_mark, self.mark)
        self.shared[is_server], self.is_server[is_server] = ends.client_mark[at[is_server]], True


def _look_up(ascending: Marks, marks: Marks) -> tuple[Longs, Flags]:
    """Look marks up among others, at least one: by mark, its place, and whether it is there."""
    at = np.minimum(np.searchsorted(ascending, marks), len(ascending) - 1)
    return at, ascending[at] == marks


def _last_of_processes(run: Run, number: int) -> tuple[Marks, Longs, Flags]:
    """Give the open fronts of a segment without lines: by process its main mark, its last row, and False ("extends")."""
    local = np.flatnonzero(run.segments.counts_of(number))
    codes = run.segments.codes_of(number)[local]
    marks = np.array([_main_mark(run, code) for code in codes.tolist()], np.uint64)
    process = run.process_column(number)
    present, last = np.unique(process[::-1], return_index=True)
    order = np.argsort(marks)
    rows = len(process) - 1 - last[np.searchsorted(present, local)]
    return marks[order], row_reference(rows[order].astype(np.int64)), np.zeros(len(marks), np.bool_)


def _main_mark(run: Run, code: int) -> int:
    """Give the mark of what a process does on no line."""
    processes = run.processes
    return mark_of(f"{processes.computation_of(code)}\0{processes.name(code)}", None)
