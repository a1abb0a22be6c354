"""Segments get their numbers and positions, and each its boundary: the last step before a run is committed.

The boundaries come from one scan over all skeletons, in order, on the driver: some bytes an event, at tens of millions
of events a second, and the only sequential pass of a run over all events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ledto.batch.join import Joined, JoinedCrossings
from ledto.causality.boundary import Boundary
from ledto.causality.order import NO_TIME
from ledto.causality.skeleton import Skeleton
from ledto.causality.taint import NEVER
from ledto.causality.vector_clocks import Scan, TooManyEntries
from ledto.history import layout
from ledto.history.column_files import skeleton_from
from ledto.history.gone import Gone, may_belong, rows_after
from ledto.history.run_tables import Holes, SegmentRow, Totals, processes_table, segments_table, unanswered
from ledto.history.window.plan import Epochs, TooLarge, WindowPlan
from ledto.history.window.segment import Counts, SegmentResult, SegmentTarget
from ledto.history.write import write_boundary

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tables:
    """The small tables of a run."""

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
    """Scan the segments, write their boundaries, and give the tables that describe them."""
    segments = sorted((each for each in made if each.rows), key=lambda each: each.window)
    starts = accumulate((each.rows for each in segments), initial=0)
    first_position = {each.window: start for each, start in zip(segments, starts, strict=False)}
    scanning = _Scanning(target, first_position, {each.window: number for number, each in enumerate(segments)}, joined)
    scanning.miss(each for made_one in made for each in made_one.gone)
    alone = {each.window: each for each in segments}
    done = 0
    for epochs in plan.large:
        first = plan.first_window(epochs)
        mine = [each for each in segments if first <= each.window < first + len(epochs.first_bins)]
        if len(mine) > 1:
            for each in mine:
                del alone[each.window]
            scanning.scan(epochs, mine, partial(_on, on_progress, done))
            done += sum(each.rows for each in mine)
    for each in alone.values():
        scanning.look_at(each)
    boundaries = scanning.boundary_files
    keys = sorted({key for each in segments for key in each.counts.processes()})
    codes = {key: code for code, key in enumerate(keys)}
    totals = Totals().widened(len(keys))
    rows = []
    for each in segments:
        assert each.files is not None
        own = np.array([codes[key] for key in each.counts.processes()], np.int64)
        rows.append(
            SegmentRow(
                each.rows,
                own,
                each.counts,
                totals.events[own],
                each.first_causal_time,
                each.last_causal_time,
                each.files,
                boundaries.get(each.window),
            )
        )
        totals.add(each.counts, own)
    holes = Holes.none(len(keys))
    why = list(holes.gone_why)
    for key, found in scanning.holes.items():
        code = codes[key]
        holes.first_hole[code], holes.first_tainted[code], holes.first_gone[code], why[code] = found
    holes.touched[[codes[key] for key in scanning.touched]] = True
    totals.set_holes(replace(holes, gone_why=tuple(why)))
    processes = ([computation for computation, _ in keys], [name for _, name in keys], totals)
    return Tables(segments_table(rows), processes_table([processes]))


def _on(on_progress: Callable[[int], None], before: int, rows: int) -> None:
    on_progress(before + rows)


Effect = tuple[int, int, int, int]
"""Its place, its cause's window and place, and how sure the cause is, as `doubt_of` tells it."""
Edges = tuple[list[Effect], set[int]]
"""Of a window: what has causes elsewhere, and its own places that are causes elsewhere."""


def _by_window(crossings: JoinedCrossings) -> dict[int, Edges]:
    found: dict[int, Edges] = {}
    for effect_window, effect_place, cause_window, cause_place, doubt in zip(
        crossings.effect_window,
        crossings.effect_place,
        crossings.cause_window,
        crossings.cause_place,
        crossings.doubt,
        strict=True,
    ):
        found.setdefault(effect_window, ([], set()))[0].append((effect_place, cause_window, cause_place, doubt))
        found.setdefault(cause_window, ([], set()))[1].add(cause_place)
    return found


class _Scanning:
    """Goes over the segments: writes the boundaries of those that are parts of a computation, and looks for holes."""

    def __init__(
        self, target: SegmentTarget, first_position: dict[int, int], numbers: dict[int, int], joined: Joined
    ) -> None:
        self._target, self._first_position, self._numbers = target, first_position, numbers
        self._edges, self._missing = _by_window(joined.crossings), joined.missing
        self._attempt = uuid4().hex[:12]
        self.boundary_files: dict[int, str] = {}
        """By window; the first of each computation needs none."""
        self.holes: dict[tuple[str, str], tuple[int, int, int, str]] = {}
        """By process that has any: what `Holes` tells of it."""
        self.touched: set[tuple[str, str]] = set()
        """Processes that something leads to, or from, in another segment and another process."""
        self._gone: dict[tuple[str, str], list[Gone]] = {}

    def miss(self, gone: Iterable[Gone]) -> None:
        """Look for the places of these reports, too."""
        for each in gone:
            self._gone.setdefault((each.computation, each.process), []).append(each)

    def _gone_rows(self, made: SegmentResult, skeleton: Skeleton) -> dict[int, tuple[int, str]]:
        """Find rows of a segment that may come after reports that are gone; later ones of a process say no more."""
        counts, wanted = made.counts, {}
        for code, key in enumerate(counts.processes() if self._gone else ()):
            last = int(counts.last_seq[code]), int(counts.last_time[code])
            if counts.events[code] and any(may_belong(each, *last) for each in self._gone.get(key, ())):
                wanted[code] = self._gone.pop(key)
        if not wanted:
            return {}
        assert made.files is not None
        with self._target.store.open(f"{layout.run_folder(self._target.run)}/{made.files.events_file}") as file:
            told = pq.ParquetFile(file).read(columns=["seq", "time"], use_threads=False)
        seq, time = told["seq"].fill_null(0).to_numpy(), told["time"].fill_null(NO_TIME).to_numpy()
        return rows_after(wanted, skeleton.process, seq, time)

    def look_at(self, made: SegmentResult) -> None:
        """Take note of the holes in a segment of whole computations."""
        counts, processes = made.counts, len(made.counts.names)
        rows = Totals().widened(processes).hole_rows(counts, np.arange(processes))
        more = counts.holes.first_of_time(np.union1d(self._more(made.window), counts.holes.unanswered))
        if (rows == -1).all() and not len(more) and self._gone.keys().isdisjoint(counts.processes()):
            return
        assert made.files is not None
        skeleton = _read_skeleton(self._target, made.files.skeleton_file)
        gone = self._gone_rows(made, skeleton)
        found = Holes.none(processes).after(skeleton, Boundary.empty(processes), rows, more, gone)
        self._note(counts, found)

    def _more(self, window: int) -> Longs:
        return np.array(sorted({place for place, _ in self._missing.get(window, ()) if place >= 0}), np.int64)

    def _note(self, counts: Counts, found: Holes) -> None:
        numbers = (each.tolist() for each in (found.first_hole, found.first_tainted, found.first_gone))
        for key, *first in zip(counts.processes(), *numbers, found.gone_why, strict=True):
            if first[1] != NEVER:
                self.holes[key] = (first[0], first[1], first[2], first[3])
        self.touched.update(
            key for key, touched in zip(counts.processes(), found.touched.tolist(), strict=True) if touched
        )

    def scan(self, epochs: Epochs, segments: Sequence[SegmentResult], on_progress: Callable[[int], None]) -> None:
        """Go over the segments of one computation, in order."""
        scan = Scan(len(epochs.names))
        ended = _ended(segments)
        edges = {each.window: self._edges.get(each.window, ([], set())) for each in segments}
        last_use = {(window, place): each.window for each in segments for _, window, place, _ in edges[each.window][0]}
        positions: dict[tuple[int, int], int] = {}
        needed_until: dict[int, int] = {}
        totals, holes = Totals().widened(len(epochs.names)), Holes.none(len(epochs.names))
        everybody = np.arange(len(epochs.names))
        done = 0
        for each in segments:
            assert each.files is not None
            skeleton = _read_skeleton(self._target, each.files.skeleton_file)
            effects, asked = edges[each.window]
            base = self._first_position[each.window] - self._first_position[segments[0].window]
            for place in asked:
                position = base + (place if place >= 0 else int(_rows_of(skeleton, -1 - place)[-1]))
                positions[each.window, place] = position
                needed_until[position] = max(needed_until.get(position, 0), last_use[each.window, place])
            crossing: dict[tuple[int, int], int] = {}
            for place, window, cause, doubt in effects:
                row = place if place >= 0 else int(_rows_of(skeleton, -1 - place)[0])
                pair = (row, positions[window, cause])
                crossing[pair] = min(crossing.get(pair, doubt), doubt)
            ordered = sorted(crossing)
            pairs = np.array(ordered, np.int64).reshape(-1, 2)
            needed = sorted({positions[each.window, place] for place in asked})
            try:
                boundary = scan.segment(skeleton, base, pairs[:, 0], pairs[:, 1], needed, ended[each.window])
            except TooManyEntries as many:
                raise TooLarge(
                    f"computation {epochs.computation!r} has {len(epochs.names):,} processes, which know too much of each "
                    f"other to be followed from epoch to epoch: {many}. Give --epoch-rows more than {epochs.rows:,}, so "
                    "that it is one epoch, or give processes names that come again, such as that of their service"
                ) from None
            holes = holes.after(
                skeleton,
                boundary,
                totals.hole_rows(each.counts, everybody),
                each.counts.holes.first_of_time(
                    np.union1d(self._more(each.window), unanswered(each.counts, skeleton, boundary))
                ),
                self._gone_rows(each, skeleton),
            )
            totals.add(each.counts, everybody)
            if each is not segments[0]:
                self.boundary_files[each.window] = write_boundary(
                    self._target.store,
                    self._target.run,
                    self._numbers[each.window],
                    boundary,
                    np.array([crossing[pair] for pair in ordered], np.uint8),
                    attempt=self._attempt,
                )
            over = {positions[window, cause] for _, window, cause, _ in effects}
            scan.release([position for position in over if needed_until[position] == each.window])
            done += each.rows
            on_progress(done)
        self._note(segments[0].counts, holes)


def _read_skeleton(target: SegmentTarget, name: str) -> Skeleton:
    with target.store.open(f"{layout.run_folder(target.run)}/{name}") as file:
        return skeleton_from(pq.ParquetFile(file).read(use_threads=False))


def _ended(segments: Sequence[SegmentResult]) -> dict[int, Longs]:
    """By window of segments in order: the processes that have their last events in it."""
    last = np.full(max(len(each.counts.events) for each in segments), -1, np.int64)
    for each in segments:
        last[np.flatnonzero(each.counts.events)] = each.window
    return {each.window: np.flatnonzero(last == each.window) for each in segments}


def _rows_of(skeleton: Skeleton, process: int) -> Longs:
    return np.flatnonzero(skeleton.process == process)
