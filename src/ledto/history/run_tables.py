"""Makes the tables `layout.SEGMENTS` and `layout.PROCESSES`, which describe a run. `ledto.history.tables` reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledto.causality.boundary import Boundary
from ledto.causality.order import NO_TIME
from ledto.causality.skeleton import Skeleton
from ledto.causality.taint import NEVER, spread_taint
from ledto.history import layout
from ledto.history.window.segment import Counts
from ledto.history.write import SegmentFiles

Longs = NDArray[np.int64]


FIRST_ROW = -2
"""In place of a row: the first of its process in a segment."""


@dataclass(frozen=True, slots=True, eq=False)
class Holes:
    """Where reports are missing, over segments of a computation in their order. By process, as `Totals` has them."""

    first_hole: Longs
    first_tainted: Longs
    touched: NDArray[np.bool_]
    """Whether one of its events has a cause or an effect in another process and another segment."""
    first_gone: Longs
    """The first event that may come after a report which was set aside or came late."""
    gone_why: tuple[str, ...]
    """Why it was; empty where none was."""

    @classmethod
    def none(cls, processes: int) -> Self:
        """Before the first segment."""
        never = np.full(processes, NEVER)
        return cls(never, never.copy(), np.zeros(processes, np.bool_), never.copy(), ("",) * processes)

    def widened(self, processes: int) -> Self:
        """Make room for so many processes."""
        more = processes - len(self.first_hole)
        hole, tainted, gone = (
            np.pad(each, (0, more), constant_values=NEVER)
            for each in (self.first_hole, self.first_tainted, self.first_gone)
        )
        return type(self)(hole, tainted, np.pad(self.touched, (0, more)), gone, (*self.gone_why, *[""] * more))

    def after(
        self,
        skeleton: Skeleton,
        boundary: Boundary,
        hole_row: Longs,
        more_rows: Longs,
        gone: Mapping[int, tuple[int, str]] | None = None,
    ) -> Self:
        """Go on over a segment: `hole_row` is what `Totals.hole_rows` gives for it; `more_rows` are further holes.

        `gone` are those of reports that were set aside or came late, as `ledto.history.gone.rows_after` gives them.
        """
        gone = gone or {}
        touched = self.touched.copy()
        row, sender = _from_others(skeleton, boundary)
        touched[skeleton.process[row]] = touched[sender] = True
        if (hole_row == -1).all() and not len(more_rows) and not gone and (self.first_tainted == NEVER).all():
            return replace(self, touched=touched)
        rows = hole_row.copy()
        for process in np.flatnonzero(hole_row == FIRST_ROW).tolist():
            rows[process] = np.flatnonzero(skeleton.process == process)[0]
        rows = np.unique(np.concatenate((rows[rows >= 0], more_rows, [row for row, _ in gone.values()]))).astype(
            np.int64
        )
        order = np.argsort(skeleton.process, kind="stable")
        starts = np.searchsorted(skeleton.process[order], np.arange(len(hole_row)))
        nth = np.empty(len(skeleton), np.int64)
        nth[order] = np.arange(len(order)) - starts[skeleton.process[order]] + 1
        first_hole = self.first_hole.copy()
        np.minimum.at(first_hole, skeleton.process[rows], nth[rows] + boundary.before[skeleton.process[rows]])
        first_gone, gone_why = self.first_gone.copy(), list(self.gone_why)
        for process, (at, why) in gone.items():
            number = int(nth[at] + boundary.before[process])
            if number < first_gone[process]:
                first_gone[process], gone_why[process] = number, why
        tainted = spread_taint(skeleton, boundary, rows, self.first_tainted)
        return type(self)(first_hole, tainted, touched, first_gone, tuple(gone_why))


def unanswered(counts: Counts, skeleton: Skeleton, boundary: Boundary) -> Longs:
    """Rows of a segment that waited for an answer which nobody sent in another process, in the segment or before it."""
    heard, _ = _from_others(skeleton, boundary)
    return counts.holes.unanswered[~np.isin(counts.holes.unanswered, heard)]


def _from_others(skeleton: Skeleton, boundary: Boundary) -> tuple[Longs, NDArray[np.int32]]:
    """Rows of a segment with a cause before it in another process, and that process."""
    sender = boundary.send_process[boundary.edge_send]
    other = skeleton.process[boundary.edge_row] != sender
    return boundary.edge_row[other], sender[other]


def _empty() -> Longs:
    return np.empty(0, np.int64)


@dataclass(slots=True)
class Totals:
    """What several segments come to, by process: the sums and extremes of their `Counts`."""

    events: Longs = field(default_factory=_empty)
    first_seq: Longs = field(default_factory=_empty)
    last_seq: Longs = field(default_factory=_empty)
    first_time: Longs = field(default_factory=_empty)
    last_time: Longs = field(default_factory=_empty)
    clocks: list[str | None] = field(default_factory=list)
    messages: Longs = field(default_factory=_empty)
    touched: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    """Whether something leads to it from another process, or from it to another."""
    first_hole: Longs = field(default_factory=_empty)
    """By process: the number of its first event before which a report is missing; `NEVER` for none."""
    first_tainted: Longs = field(default_factory=_empty)
    """The same for the first event with such an event in its past (`ledto.causality.taint`)."""
    first_gone: Longs = field(default_factory=_empty)
    gone_why: tuple[str, ...] = ()
    """As `Holes` has them."""

    def widened(self, processes: int) -> Self:
        """Copy the totals and make room for so many processes; those that are new have nothing."""
        more = processes - len(self.events)

        def room(values: Longs, nothing: int) -> Longs:
            return np.pad(values, (0, more), constant_values=nothing)

        return type(self)(
            room(self.events, 0),
            room(self.first_seq, 0),
            room(self.last_seq, 0),
            room(self.first_time, NO_TIME),
            room(self.last_time, NO_TIME),
            [*self.clocks, *[None] * more],
            room(self.messages, 0),
            np.pad(self.touched, (0, more)),
            room(self.first_hole, NEVER),
            room(self.first_tainted, NEVER),
            room(self.first_gone, NEVER),
            (*self.gone_why, *[""] * more),
        )

    def add(self, counts: Counts, codes: Longs) -> None:
        """Add the next segment, whose processes have these codes, each once."""
        here = counts.events > 0
        new = here & (self.events[codes] == 0)
        self.first_seq[codes[new]] = counts.first_seq[new]
        self.last_seq[codes[here]] = np.maximum(self.last_seq[codes[here]], counts.last_seq[here])
        self.events[codes] += counts.events
        self.messages[codes] += counts.holes.messages
        self.touched[codes] |= counts.holes.touched
        timed = counts.first_time != NO_TIME
        whose, first, last = codes[timed], counts.first_time[timed], counts.last_time[timed]
        known = self.first_time[whose]
        self.first_time[whose] = np.where(known == NO_TIME, first, np.minimum(known, first))
        self.last_time[whose] = np.maximum(self.last_time[whose], last)
        for code, clock in zip(codes.tolist(), counts.clocks, strict=True):
            if clock is not None and self.clocks[code] is None:
                self.clocks[code] = clock

    def plus(self, counts: Counts, holes: Holes) -> Self:
        """Give the totals with one more segment, whose processes are these and perhaps further ones, by code."""
        total = self.widened(len(counts.names))
        total.add(counts, np.arange(len(counts.names)))
        total.set_holes(holes)
        return total

    def set_holes(self, holes: Holes) -> None:
        """Take over where reports are missing."""
        self.first_hole, self.first_tainted = holes.first_hole, holes.first_tainted
        self.first_gone, self.gone_why = holes.first_gone, holes.gone_why
        self.touched |= holes.touched

    def hole_rows(self, counts: Counts, codes: Longs) -> Longs:
        """Find the rows of the next segment before which a report is missing, the first of each of its processes.

        `counts` are the segment's, whose processes have these codes; -1 where its first event says so.
        """
        unnumbered_or_stamped = (counts.first_seq == 0) | counts.holes.stamped
        jumps = ~unnumbered_or_stamped & (counts.first_seq != self.last_seq[codes] + 1) & (counts.events > 0)
        return np.where(jumps, FIRST_ROW, counts.holes.hole_row)


@dataclass(frozen=True, slots=True, eq=False)
class SegmentRow:
    """A segment as the table tells of it."""

    rows: int
    codes: Sequence[int] | Longs
    """Of its processes; the last ones may be processes that `counts` and `before` do not have yet."""
    counts: Counts
    before: Longs
    """By process: events in earlier segments."""
    first_causal_time: int
    last_causal_time: int
    files: SegmentFiles
    boundary_file: str | None


def segments_table(segments: Iterable[SegmentRow]) -> pa.Table:
    """Number the segments and their positions as they come."""
    rows: list[dict[str, object]] = []
    position = 0
    for segment in segments:
        counts, width = segment.counts, len(segment.codes)
        before = _padded(segment.before, width)
        given = np.where(counts.first_seq > 0, counts.first_seq, before[: len(counts.events)] + 1)
        rows.append(
            {
                "number": len(rows),
                "first_position": position,
                "rows": segment.rows,
                "processes": segment.codes,
                "counts": _padded(counts.events, width),
                "before": before,
                "first_seq": _padded(np.where(counts.events > 0, given, 0), width),
                "first_causal_time": segment.first_causal_time,
                "last_causal_time": segment.last_causal_time,
                "starts_computation": not before.any(),
                "events_file": segment.files.events_file,
                "skeleton_file": segment.files.skeleton_file,
                "boundary_file": segment.boundary_file,
                "ids_file": segment.files.ids_file,
                "lines_file": segment.files.lines_file,
            }
        )
        position += segment.rows
    return pa.Table.from_pylist(rows, layout.SEGMENTS)


def processes_table(parts: Iterable[tuple[Sequence[str], Sequence[str], Totals]]) -> pa.Table:
    """Number the processes as they come: parts of computations, names, and what each has in all segments."""
    tables = [_processes(*part) for part in parts]
    table = pa.concat_tables(tables) if tables else layout.PROCESSES.empty_table()
    return table.set_column(0, layout.PROCESSES.field("code"), pa.array(range(len(table)), pa.int32()))


def _processes(computations: Sequence[str], names: Sequence[str], totals: Totals) -> pa.Table:
    untimed = totals.first_time == NO_TIME
    first_hole, first_tainted = totals.first_hole.copy(), totals.first_tainted.copy()
    # A process that tells of no message may have had any.
    _, computation, counts = np.unique(np.array(computations, object), return_inverse=True, return_counts=True)
    messages = np.maximum(totals.messages, totals.touched)
    silent = (messages == 0) & (totals.events > 0) & (counts[computation] > 1)
    first_hole[silent] = first_tainted[silent] = 1
    return pa.table(
        {
            "code": np.zeros(len(names), np.int32),
            "computation": list(computations),
            "process": list(names),
            "clock_name": pa.array(totals.clocks, pa.string()),
            "events": totals.events,
            "first_time": pa.array(totals.first_time, mask=untimed),
            "last_time": pa.array(totals.last_time, mask=untimed),
            "messages": messages,
            "first_hole": pa.array(first_hole, mask=first_hole == NEVER),
            "first_tainted": pa.array(first_tainted, mask=first_tainted == NEVER),
            "first_gone": pa.array(totals.first_gone, mask=totals.first_gone == NEVER),
            "gone_why": pa.array([why or None for why in totals.gone_why], pa.string()),
            "dense_seq": (totals.first_seq == 0) | ((totals.first_seq == 1) & (totals.last_seq == totals.events)),
        },
        layout.PROCESSES,
    )


def _padded(values: Longs, width: int) -> Longs:
    return np.pad(values, (0, width - len(values)))
