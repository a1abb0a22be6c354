"""Segments get their numbers and positions, and each its boundary: the last step before a run is committed.

The boundaries come from one scan over all skeletons, in order, on the driver: some bytes an event, at tens of millions
of events a second, and the only sequential pass of a run over all events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from whence.causality.clocks import Scan, TooManyEntries
from whence.causality.skeleton import Skeleton
from whence.history import layout
from whence.history.joining import Crossings
from whence.history.plan import Plan, TooLarge
from whence.history.reading import skeleton_from
from whence.history.run_tables import SegmentRow, Totals, processes_table, segments_table
from whence.history.segmenting import Made, Target
from whence.history.writing import write_boundary

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Tables:
    """The small tables of a run."""

    segments: pa.Table
    processes: pa.Table


def number_segments(
    made: Sequence[Made],
    plan: Plan,
    target: Target,
    crossings: Crossings,
    *,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Tables:
    """Scan the segments, write their boundaries, and give the tables that describe them."""
    segments = sorted((each for each in made if each.rows), key=lambda each: each.window)
    starts = accumulate((each.rows for each in segments), initial=0)
    first_position = {each.window: start for each, start in zip(segments, starts, strict=False)}
    edges = _by_window(crossings)
    boundaries = _boundaries(segments, plan, target, first_position, edges, on_progress)
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
    processes = ([computation for computation, _ in keys], [name for _, name in keys], totals)
    return Tables(segments_table(rows), processes_table([processes]))


Edges = tuple[list[tuple[int, int, int]], set[int]]
"""Of a window: effects (place, cause's window, cause's place), and its own places that are causes elsewhere."""


def _by_window(crossings: Crossings) -> dict[int, Edges]:
    found: dict[int, Edges] = {}
    for effect_window, effect_place, cause_window, cause_place in zip(
        crossings.effect_window, crossings.effect_place, crossings.cause_window, crossings.cause_place, strict=True
    ):
        found.setdefault(effect_window, ([], set()))[0].append((effect_place, cause_window, cause_place))
        found.setdefault(cause_window, ([], set()))[1].add(cause_place)
    return found


def _boundaries(
    segments: Sequence[Made],
    plan: Plan,
    target: Target,
    first_position: dict[int, int],
    edges: dict[int, Edges],
    on_progress: Callable[[int], None],
) -> dict[int, str]:
    """The boundary files of the segments of large computations, by window; the first of each needs none."""
    names: dict[int, str] = {}
    numbers = {each.window: number for number, each in enumerate(segments)}
    attempt = uuid4().hex[:12]
    done = 0
    for epochs in plan.large:
        first = plan.first_window(epochs)
        mine = [each for each in segments if first <= each.window < first + len(epochs.first_bins)]
        if len(mine) < 2:
            continue
        scan = Scan(len(epochs.names))
        ended = _ended(mine)
        last_use = {
            (window, place): each.window for each in mine for _, window, place in edges.get(each.window, ([], set()))[0]
        }
        positions: dict[tuple[int, int], int] = {}
        needed_until: dict[int, int] = {}
        for each in mine:
            assert each.files is not None
            skeleton = _read_skeleton(target, each.files.skeleton_file)
            effects, asked = edges.get(each.window, ([], set()))
            base = first_position[each.window] - first_position[mine[0].window]
            for place in asked:
                position = base + (place if place >= 0 else int(_rows_of(skeleton, -1 - place)[-1]))
                positions[each.window, place] = position
                needed_until[position] = max(needed_until.get(position, 0), last_use[each.window, place])
            pairs = np.array(
                sorted(
                    {
                        (place if place >= 0 else _rows_of(skeleton, -1 - place)[0], positions[window, cause])
                        for place, window, cause in effects
                    }
                ),
                np.int64,
            ).reshape(-1, 2)
            needed = sorted({positions[each.window, place] for place in asked})
            try:
                boundary = scan.segment(skeleton, base, pairs[:, 0], pairs[:, 1], needed, ended[each.window])
            except TooManyEntries as many:
                raise TooLarge(
                    f"computation {epochs.computation!r} has {len(epochs.names):,} processes, which know too much of each "
                    f"other to be followed from epoch to epoch: {many}. Give --epoch-rows more than {epochs.rows:,}, so "
                    "that it is one epoch, or give processes names that come again, such as that of their service"
                ) from None
            if each is not mine[0]:
                number = numbers[each.window]
                names[each.window] = write_boundary(target.store, target.run, number, boundary, attempt=attempt)
            over = {positions[window, cause] for _, window, cause in effects}
            scan.release([position for position in over if needed_until[position] == each.window])
            done += each.rows
            on_progress(done)
    return names


def _read_skeleton(target: Target, name: str) -> Skeleton:
    with target.store.open(f"{layout.run_folder(target.run)}/{name}") as file:
        return skeleton_from(pq.ParquetFile(file).read(use_threads=False))


def _ended(segments: Sequence[Made]) -> dict[int, Longs]:
    """By window of segments in order: the processes that have their last events in it."""
    last = np.full(max(len(each.counts.events) for each in segments), -1, np.int64)
    for each in segments:
        last[np.flatnonzero(each.counts.events)] = each.window
    return {each.window: np.flatnonzero(last == each.window) for each in segments}


def _rows_of(skeleton: Skeleton, process: int) -> Longs:
    return np.flatnonzero(skeleton.process == process)
