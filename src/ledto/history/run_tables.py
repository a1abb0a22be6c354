"""Make the tables `layout.SEGMENTS` and `layout.PROCESSES`, which describe a run. `ledto.history.tables` reads them.

`Totals` adds up the counts of segments by process; `Holes` follows where reports are missing from segment to segment.
"""

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
from ledto.history.tables import count_within_processes
from ledto.history.window.segment import Counts
from ledto.history.write import SegmentFiles

Longs = NDArray[np.int64]

NO_ROW = -1
"""Instead of the row of a hole: the process has none in the segment."""
FIRST_ROW = -2
"""Instead of the row of a hole: the first row of the process in the segment, whose number is not known yet."""


@dataclass(frozen=True, slots=True, eq=False)
class Holes:
    """Where reports are missing in the segments of a computation so far. All fields are by process.

    Numbers are those of events within their process; `NEVER` for none.
    """

    first_hole: Longs
    """The first event before which a report is missing."""
    first_tainted: Longs
    """The first event with such an event in its past (`ledto.causality.taint`)."""
    touched: NDArray[np.bool_]
    """Whether one of its events has a cause or an effect in another process and another segment."""
    first_gone: Longs
    """The first event that may come after a report which was quarantined or came late."""
    gone_why: tuple[str, ...]
    """The reason for that; empty if there is none."""

    @classmethod
    def none(cls, processes: int) -> Self:
        """Make the value before the first segment: no holes."""
        never = np.full(processes, NEVER)
        return cls(never, never.copy(), np.zeros(processes, np.bool_), never.copy(), ("",) * processes)

    def widened(self, processes: int) -> Self:
        """Copy with room for this many processes; new ones have no holes."""
        more = processes - len(self.first_hole)
        hole, tainted, gone = (
            np.pad(values, (0, more), constant_values=NEVER)
            for values in (self.first_hole, self.first_tainted, self.first_gone)
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
        """Give the holes after one more segment.

        `hole_row` is what `Totals.hole_rows` gives for the segment. `more_rows` are other rows before which a report is
        missing. `gone` has the rows after quarantined and late reports, as `ledto.history.gone.rows_after` gives them.
        """
        gone = gone or {}
        touched = self.touched.copy()
        row, sender = _from_others(skeleton, boundary)
        touched[skeleton.process[row]] = touched[sender] = True
        if (hole_row == NO_ROW).all() and not len(more_rows) and not gone and (self.first_tainted == NEVER).all():
            return replace(self, touched=touched)
        rows = hole_row.copy()
        for process in np.flatnonzero(hole_row == FIRST_ROW).tolist():
            rows[process] = np.flatnonzero(skeleton.process == process)[0]
        rows = np.unique(np.concatenate((rows[rows >= 0], more_rows, [row for row, _ in gone.values()]))).astype(
            np.int64
        )
        nth = count_within_processes(skeleton.process)
        first_hole = self.first_hole.copy()
        np.minimum.at(first_hole, skeleton.process[rows], nth[rows] + boundary.before[skeleton.process[rows]])
        first_gone, gone_why = self.first_gone.copy(), list(self.gone_why)
        for process, (gone_row, why) in gone.items():
            number = int(nth[gone_row] + boundary.before[process])
            if number < first_gone[process]:
                first_gone[process], gone_why[process] = number, why
        tainted = spread_taint(skeleton, boundary, rows, self.first_tainted)
        return type(self)(first_hole, tainted, touched, first_gone, tuple(gone_why))


def unanswered(counts: Counts, skeleton: Skeleton, boundary: Boundary) -> Longs:
    """Find the rows that waited for an answer which no other process sent, neither in the segment nor before it."""
    answered, _ = _from_others(skeleton, boundary)
    return counts.holes.unanswered[~np.isin(counts.holes.unanswered, answered)]


def _from_others(skeleton: Skeleton, boundary: Boundary) -> tuple[Longs, NDArray[np.int32]]:
    """Find the rows with a cause before the segment in another process; give the rows and these processes."""
    sender = boundary.send_process[boundary.edge_send]
    other = skeleton.process[boundary.edge_row] != sender
    return boundary.edge_row[other], sender[other]


def _empty() -> Longs:
    return np.empty(0, np.int64)


@dataclass(slots=True)
class Totals:
    """Sums and extremes of the `Counts` of several segments. All fields are by process."""

    events: Longs = field(default_factory=_empty)
    first_seq: Longs = field(default_factory=_empty)
    last_seq: Longs = field(default_factory=_empty)
    first_time: Longs = field(default_factory=_empty)
    last_time: Longs = field(default_factory=_empty)
    clocks: list[str | None] = field(default_factory=list)
    messages: Longs = field(default_factory=_empty)
    touched: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    """Whether it has a cause or an effect in another process."""
    first_hole: Longs = field(default_factory=_empty)
    first_tainted: Longs = field(default_factory=_empty)
    first_gone: Longs = field(default_factory=_empty)
    gone_why: tuple[str, ...] = ()
    """These four are those of `Holes`."""

    def widened(self, processes: int) -> Self:
        """Copy with room for this many processes; new ones have no events."""
        more = processes - len(self.events)

        def widen(values: Longs, default: int) -> Longs:
            return np.pad(values, (0, more), constant_values=default)

        return type(self)(
            widen(self.events, 0),
            widen(self.first_seq, 0),
            widen(self.last_seq, 0),
            widen(self.first_time, NO_TIME),
            widen(self.last_time, NO_TIME),
            [*self.clocks, *[None] * more],
            widen(self.messages, 0),
            np.pad(self.touched, (0, more)),
            widen(self.first_hole, NEVER),
            widen(self.first_tainted, NEVER),
            widen(self.first_gone, NEVER),
            (*self.gone_why, *[""] * more),
        )

    def add(self, counts: Counts, codes: Longs) -> None:
        """Add the counts of the next segment, in place. `codes` are those of its processes, each once."""
        present = counts.events > 0
        new = present & (self.events[codes] == 0)
        self.first_seq[codes[new]] = counts.first_seq[new]
        self.last_seq[codes[present]] = np.maximum(self.last_seq[codes[present]], counts.last_seq[present])
        self.events[codes] += counts.events
        self.messages[codes] += counts.holes.messages
        self.touched[codes] |= counts.holes.touched
        timed = counts.first_time != NO_TIME
        timed_codes, first, last = codes[timed], counts.first_time[timed], counts.last_time[timed]
        earlier = self.first_time[timed_codes]
        self.first_time[timed_codes] = np.where(earlier == NO_TIME, first, np.minimum(earlier, first))
        self.last_time[timed_codes] = np.maximum(self.last_time[timed_codes], last)
        for code, clock in zip(codes.tolist(), counts.clocks, strict=True):
            if clock is not None and self.clocks[code] is None:
                self.clocks[code] = clock

    def plus(self, counts: Counts, holes: Holes) -> Self:
        """Copy the totals and add one more segment. Its processes are by code: these, and perhaps new ones after them."""
        total = self.widened(len(counts.names))
        total.add(counts, np.arange(len(counts.names)))
        total.set_holes(holes)
        return total

    def set_holes(self, holes: Holes) -> None:
        """Take over the holes after the last segment."""
        self.first_hole, self.first_tainted = holes.first_hole, holes.first_tainted
        self.first_gone, self.gone_why = holes.first_gone, holes.gone_why
        self.touched |= holes.touched

    def hole_rows(self, counts: Counts, codes: Longs) -> Longs:
        """Find for each process of the next segment its first row before which a report is missing.

        `counts` are the segment's, and `codes` those of its processes. Gives `NO_ROW` for no such row, and `FIRST_ROW` if
        the numbers jump from the segments so far to this one.
        """
        unnumbered_or_stamped = (counts.first_seq == 0) | counts.holes.stamped
        jumps = ~unnumbered_or_stamped & (counts.first_seq != self.last_seq[codes] + 1) & (counts.events > 0)
        return np.where(jumps, FIRST_ROW, counts.holes.hole_row)


@dataclass(frozen=True, slots=True, eq=False)
class SegmentRow:
    """What `segments_table` needs of a segment."""

    rows: int
    codes: Sequence[int] | Longs
    """The codes of its processes. The last ones may be of processes that `counts` and `before` do not have yet."""
    counts: Counts
    before: Longs
    """By process: its events in earlier segments."""
    first_causal_time: int
    last_causal_time: int
    files: SegmentFiles
    boundary_file: str | None


def segments_table(segments: Iterable[SegmentRow]) -> pa.Table:
    """Make the table of segments; number them and their positions in the given order."""
    rows: list[dict[str, object]] = []
    position = 0
    for segment in segments:
        counts, width = segment.counts, len(segment.codes)
        before = _padded(segment.before, width)
        first_seq = np.where(counts.first_seq > 0, counts.first_seq, before[: len(counts.events)] + 1)
        rows.append(
            {
                "number": len(rows),
                "first_position": position,
                "rows": segment.rows,
                "processes": segment.codes,
                "counts": _padded(counts.events, width),
                "before": before,
                "first_seq": _padded(np.where(counts.events > 0, first_seq, 0), width),
                "first_causal_time": segment.first_causal_time,
                "last_causal_time": segment.last_causal_time,
                "starts_computation": not before.any(),
                "events_file": segment.files.events_file,
                "skeleton_file": segment.files.skeleton_file,
                "boundary_file": segment.boundary_file,
                "ids_file": segment.files.ids_file,
                "lines_file": segment.files.lines_file,
                "words_file": segment.files.words_file,
            }
        )
        position += segment.rows
    return pa.Table.from_pylist(rows, layout.SEGMENTS)


def processes_table(parts: Iterable[tuple[Sequence[str], Sequence[str], Totals]]) -> pa.Table:
    """Make the table of processes; number them in the given order. A part has computations, names and totals."""
    tables = [_processes(*part) for part in parts]
    table = pa.concat_tables(tables) if tables else layout.PROCESSES.empty_table()
    return table.set_column(0, layout.PROCESSES.field("code"), pa.array(range(len(table)), pa.int32()))


def _processes(computations: Sequence[str], names: Sequence[str], totals: Totals) -> pa.Table:
    untimed = totals.first_time == NO_TIME
    first_hole, first_tainted = totals.first_hole.copy(), totals.first_tainted.copy()
    # A process that reports no message may have sent and received any: what it knew is unknown from its first event on.
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
