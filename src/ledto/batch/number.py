"""Number the segments of a run and their events, and write the boundary of each segment: the last step of its making.

The boundaries come from one scan over all skeletons, in order, on the driver. It reads a few bytes for each event, tens of
millions of events a second. It is the only sequential pass of a run over all events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ledto.batch.join import Cause, EventIn, FirstOf, Joined, JoinedCrossing, LastOf
from ledto.causality.boundary import Boundary
from ledto.causality.order import NO_TIME
from ledto.causality.skeleton import Skeleton
from ledto.causality.taint import NEVER
from ledto.causality.vector_clocks import Scan, TooManyEntries
from ledto.history import layout
from ledto.history.column_files import skeleton_from
from ledto.history.gone import Gone, may_belong, rows_after
from ledto.history.run_tables import NO_ROW, Holes, SegmentRow, Totals, processes_table, segments_table, unanswered
from ledto.history.window.plan import Epochs, TooLarge, WindowPlan
from ledto.history.window.segment import Counts, SegmentResult, SegmentTarget
from ledto.history.write import write_boundary

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables that describe a run: `layout.SEGMENTS` and `layout.PROCESSES`."""

    segments: pa.Table
    processes: pa.Table


def number_segments(
    made: Sequence[SegmentResult],
    plan: WindowPlan,
    target: SegmentTarget,
    joined: Joined,
    *,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Tables:
    """Scan the segments, write their boundaries, and make the tables that describe them."""
    segments = sorted((segment for segment in made if segment.rows), key=lambda segment: segment.window)
    starts = accumulate((segment.rows for segment in segments), initial=0)
    first_position = {segment.window: start for segment, start in zip(segments, starts, strict=False)}
    numbers = {segment.window: number for number, segment in enumerate(segments)}
    scan = _SegmentScan(target, first_position, numbers, joined)
    scan.look_for(report for segment in made for report in segment.gone)
    whole = {segment.window: segment for segment in segments}
    done = 0
    for epochs in plan.large:
        first = plan.first_window(epochs)
        parts = [segment for segment in segments if first <= segment.window < first + len(epochs.first_bins)]
        if len(parts) > 1:
            for segment in parts:
                del whole[segment.window]
            scan.scan_parts(epochs, parts, partial(_report_sum, on_progress, done))
            done += sum(segment.rows for segment in parts)
    for segment in whole.values():
        scan.find_holes(segment)
    keys = sorted({key for segment in segments for key in segment.counts.processes()})
    codes = {key: code for code, key in enumerate(keys)}
    totals = Totals().widened(len(keys))
    rows = []
    for segment in segments:
        assert segment.files is not None
        segment_codes = np.array([codes[key] for key in segment.counts.processes()], np.int64)
        rows.append(
            SegmentRow(
                segment.rows,
                segment_codes,
                segment.counts,
                totals.events[segment_codes],
                segment.first_causal_time,
                segment.last_causal_time,
                segment.files,
                scan.boundary_files.get(segment.window),
            )
        )
        totals.add(segment.counts, segment_codes)
    holes = Holes.none(len(keys))
    why = list(holes.gone_why)
    for key, values in scan.holes.items():
        code = codes[key]
        holes.first_hole[code], holes.first_tainted[code], holes.first_gone[code], why[code] = values
    holes.touched[[codes[key] for key in scan.touched]] = True
    totals.set_holes(replace(holes, gone_why=tuple(why)))
    processes = ([computation for computation, _ in keys], [name for _, name in keys], totals)
    return Tables(segments_table(rows), processes_table([processes]))


def _report_sum(on_progress: Callable[[int], None], before: int, rows: int) -> None:
    on_progress(before + rows)


@dataclass(frozen=True, slots=True)
class _WindowCrossings:
    """The crossings of one window."""

    into: list[JoinedCrossing] = field(default_factory=list)
    """Those whose effect is in the window."""
    causes: set[Cause] = field(default_factory=set)
    """Events of the window that are causes in later ones."""


def _by_window(crossings: Iterable[JoinedCrossing]) -> dict[int, _WindowCrossings]:
    windows: dict[int, _WindowCrossings] = {}
    for crossing in crossings:
        windows.setdefault(crossing.effect.window, _WindowCrossings()).into.append(crossing)
        windows.setdefault(crossing.cause.window, _WindowCrossings()).causes.add(crossing.cause)
    return windows


class _SegmentScan:
    """A pass over the segments. It writes the boundaries of parts of a computation, and finds holes."""

    def __init__(
        self, target: SegmentTarget, first_position: dict[int, int], numbers: dict[int, int], joined: Joined
    ) -> None:
        self._target, self._first_position, self._numbers = target, first_position, numbers
        self._crossings, self._missing = _by_window(joined.crossings), joined.missing
        self._attempt = uuid4().hex[:12]
        self.boundary_files: dict[int, str] = {}
        """By window. The first of each computation needs none."""
        self.holes: dict[tuple[str, str], tuple[int, int, int, str]] = {}
        """By process with holes: first_hole, first_tainted, first_gone and gone_why of `Holes`."""
        self.touched: set[tuple[str, str]] = set()
        """Processes with a cause or an effect in another segment and another process."""
        self._gone: dict[tuple[str, str], list[Gone]] = {}

    def look_for(self, gone: Iterable[Gone]) -> None:
        """Look for the places of these gone reports during the scan."""
        for report in gone:
            self._gone.setdefault((report.computation, report.process), []).append(report)

    def _gone_rows(self, made: SegmentResult, skeleton: Skeleton) -> dict[int, tuple[int, str]]:
        """Find the first row of each process that may come after a gone report. Looks once for each process."""
        counts, wanted = made.counts, {}
        for code, key in enumerate(counts.processes() if self._gone else ()):
            last = int(counts.last_seq[code]), int(counts.last_time[code])
            if counts.events[code] and any(may_belong(report, *last) for report in self._gone.get(key, ())):
                wanted[code] = self._gone.pop(key)
        if not wanted:
            return {}
        assert made.files is not None
        with self._target.store.open(f"{layout.run_folder(self._target.run)}/{made.files.events_file}") as file:
            table = pq.ParquetFile(file).read(columns=["seq", "time"], use_threads=False)
        seq, time = table["seq"].fill_null(0).to_numpy(), table["time"].fill_null(NO_TIME).to_numpy()
        return rows_after(wanted, skeleton.process, seq, time)

    def find_holes(self, made: SegmentResult) -> None:
        """Note the holes of a segment of whole computations."""
        counts, processes = made.counts, len(made.counts.names)
        rows = Totals().widened(processes).hole_rows(counts, np.arange(processes))
        more = counts.holes.first_of_time(np.union1d(self._missing_rows(made.window), counts.holes.unanswered))
        if (rows == NO_ROW).all() and not len(more) and self._gone.keys().isdisjoint(counts.processes()):
            return
        assert made.files is not None
        skeleton = _read_skeleton(self._target, made.files.skeleton_file)
        gone = self._gone_rows(made, skeleton)
        holes = Holes.none(processes).after(skeleton, Boundary.empty(processes), rows, more, gone)
        self._note(counts, holes)

    def _missing_rows(self, window: int) -> Longs:
        """Give the rows of a window that name a cause which nobody reported; ascending."""
        return np.array(sorted({place for place, _ in self._missing.get(window, ()) if place >= 0}), np.int64)

    def _note(self, counts: Counts, holes: Holes) -> None:
        columns = (column.tolist() for column in (holes.first_hole, holes.first_tainted, holes.first_gone))
        for key, hole, tainted, gone, why in zip(counts.processes(), *columns, holes.gone_why, strict=True):
            if tainted != NEVER:
                self.holes[key] = (hole, tainted, gone, why)
        self.touched.update(
            key for key, touched in zip(counts.processes(), holes.touched.tolist(), strict=True) if touched
        )

    def scan_parts(self, epochs: Epochs, segments: Sequence[SegmentResult], on_progress: Callable[[int], None]) -> None:
        """Scan the segments of one computation, in order: write their boundaries, and note its holes."""
        scan = Scan(len(epochs.names))
        ended = _ended(segments)
        crossings = {segment.window: self._crossings.get(segment.window, _WindowCrossings()) for segment in segments}
        last_use = {
            crossing.cause: segment.window for segment in segments for crossing in crossings[segment.window].into
        }
        positions: dict[Cause, int] = {}
        needed_until: dict[int, int] = {}
        totals, holes = Totals().widened(len(epochs.names)), Holes.none(len(epochs.names))
        all_codes = np.arange(len(epochs.names))
        done = 0
        for segment in segments:
            assert segment.files is not None
            skeleton = _read_skeleton(self._target, segment.files.skeleton_file)
            into, causes = crossings[segment.window].into, crossings[segment.window].causes
            base = self._first_position[segment.window] - self._first_position[segments[0].window]
            for cause in causes:
                position = positions[cause] = base + _row_in(skeleton, cause)
                needed_until[position] = max(needed_until.get(position, 0), last_use[cause])
            doubts: dict[tuple[int, int], int] = {}
            for crossing in into:
                pair = (_row_in(skeleton, crossing.effect), positions[crossing.cause])
                doubts[pair] = min(doubts.get(pair, crossing.doubt), crossing.doubt)
            ordered = sorted(doubts)
            pairs = np.array(ordered, np.int64).reshape(-1, 2)
            needed = sorted({positions[cause] for cause in causes})
            try:
                boundary = scan.segment(skeleton, base, pairs[:, 0], pairs[:, 1], needed, ended[segment.window])
            except TooManyEntries as many:
                raise TooLarge(
                    f"computation {epochs.computation!r} has {len(epochs.names):,} processes, and what they know of each "
                    f"other is too much to be kept from epoch to epoch: {many}. Use --epoch-rows with more than "
                    f"{epochs.rows:,}, so that it is one epoch, or give processes names that repeat, such as their service's"
                ) from None
            holes = holes.after(
                skeleton,
                boundary,
                totals.hole_rows(segment.counts, all_codes),
                segment.counts.holes.first_of_time(
                    np.union1d(self._missing_rows(segment.window), unanswered(segment.counts, skeleton, boundary))
                ),
                self._gone_rows(segment, skeleton),
            )
            totals.add(segment.counts, all_codes)
            if segment is not segments[0]:
                self.boundary_files[segment.window] = write_boundary(
                    self._target.store,
                    self._target.run,
                    self._numbers[segment.window],
                    boundary,
                    np.array([doubts[pair] for pair in ordered], np.uint8),
                    attempt=self._attempt,
                )
            used = {positions[crossing.cause] for crossing in into}
            scan.release([position for position in used if needed_until[position] == segment.window])
            done += segment.rows
            on_progress(done)
        self._note(segments[0].counts, holes)


def _read_skeleton(target: SegmentTarget, name: str) -> Skeleton:
    with target.store.open(f"{layout.run_folder(target.run)}/{name}") as file:
        return skeleton_from(pq.ParquetFile(file).read(use_threads=False))


def _ended(segments: Sequence[SegmentResult]) -> dict[int, Longs]:
    """Find for each window the processes whose last events are in it. `segments` must be in order."""
    last = np.full(max(len(segment.counts.events) for segment in segments), -1, np.int64)
    for segment in segments:
        last[np.flatnonzero(segment.counts.events)] = segment.window
    return {segment.window: np.flatnonzero(last == segment.window) for segment in segments}


def _row_in(skeleton: Skeleton, event: EventIn | FirstOf | LastOf) -> int:
    """Find the row of an event in the skeleton of its window."""
    if isinstance(event, EventIn):
        return event.row
    rows = np.flatnonzero(skeleton.process == event.process)
    return int(rows[0] if isinstance(event, FirstOf) else rows[-1])
