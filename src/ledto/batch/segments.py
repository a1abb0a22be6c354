"""Make the segments of a run: cut reports into windows, solve these, join, mark missing causes, number. Commits nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ledto.batch.engine import Engine, OnStage, RunReports, ignore_stages
from ledto.batch.join import (
    EpsTooSmall,
    FindSenders,
    Joined,
    Unbalanced,
    WindowsTooNarrow,
    check_lags,
    check_ledger,
    check_sequences,
    join,
)
from ledto.batch.number import Tables, number_segments
from ledto.batch.survey import Computation, Survey
from ledto.history import layout
from ledto.history.mark_missing import mark_missing
from ledto.history.open_ends import is_within, rows_that_send
from ledto.history.window.plan import Epochs, TimeBins, TooLarge, WindowPlan, cut_into_epochs, spread_bins
from ledto.history.window.segment import SegmentResult, SegmentTarget
from ledto.history.window.solve import SegmentWindow, solve

LARGEST_WINDOW_ROWS = 20_000_000
"""The most rows of a computation that cannot be cut. More would not fit in a task's memory."""
SAMPLE_ROWS = 100_000
"""Rows of each slice of the data from which eps is guessed, if none is given."""


@dataclass(frozen=True, slots=True)
class Segmented:
    """The segments of a run, written and numbered."""

    made: tuple[SegmentResult, ...]
    tables: Tables
    eps: int
    """The eps of the run: the given one, or else `lag`."""
    lag: int
    """The most by which an event's time is before one of its causes: the smallest eps that would be enough. Causes that are
    only assumed do not count."""
    quarantine_files: tuple[str, ...]


class Planner(Protocol):
    """Decides how to cut the reports of a run into windows."""

    def plan(self, eps: int) -> WindowPlan:
        """Choose the windows, if clocks differ by at most eps. Raises `TooLarge`."""
        ...

    def guess_eps(self) -> int:
        """Guess eps from the data."""
        ...


class EvenPlanner:
    """A planner that gives all windows about the same number of rows."""

    def __init__(self, reports: RunReports, survey: Survey, *, epoch_rows: int) -> None:
        self._reports, self._survey, self._epoch_rows = reports, survey, epoch_rows

    @cached_property
    def _bins(self) -> dict[str, tuple[TimeBins, dict[int, int]]]:
        """For each large computation that can be cut: bins of time, and the rows in each."""
        return {computation.name: self._count(computation) for computation in self._survey.large if computation.timed}

    def _count(self, computation: Computation) -> tuple[TimeBins, dict[int, int]]:
        return spread_bins(
            TimeBins.over(computation.first_time or 0, computation.last_time or 0),
            lambda bins: self._reports.histogram(computation, bins),
            epoch_rows=self._epoch_rows,
        )

    def plan(self, eps: int) -> WindowPlan:
        large = []
        for computation in self._survey.large:
            name, rows = computation.name, computation.rows
            bins, counts = self._bins.get(name, (TimeBins(0, 1), {}))
            first_bins = cut_into_epochs(counts, bin_width=bins.width, eps=eps, epoch_rows=self._epoch_rows)
            if len(first_bins) == 1 and rows > LARGEST_WINDOW_ROWS:
                why = "clocks differ too much" if computation.timed else "some of its events have no time"
                advice = "Give every event a time, or leave out the process whose clock is far off"
                raise TooLarge(
                    f"computation {name!r} has {rows:,} reports and cannot be cut into epochs: {why}. {advice}"
                )
            large.append(Epochs(name, computation.processes, bins, first_bins, rows))
        shared = -(-self._survey.small_rows // self._epoch_rows)
        return WindowPlan(max(shared, 0 if large else 1), tuple(large), eps)

    def guess_eps(self) -> int:
        """Give twice the largest lag in two slices of each large computation; 0 if nothing is cut."""
        lag = 0
        for computation in self._survey.large:
            for share in (0.25, 0.75) if computation.timed else ():
                lag = max(lag, self._lag_around(computation, share))
        return 2 * lag

    def _lag_around(self, computation: Computation, share: float) -> int:
        """Solve about `SAMPLE_ROWS` rows of a computation after this share of its rows; give their lag."""
        bins, counts = self._bins[computation.name]
        occupied = sorted(counts)
        rows = np.cumsum([counts[place] for place in occupied])
        first = int(np.searchsorted(rows, share * rows[-1]))
        last = min(int(np.searchsorted(rows, rows[first] + SAMPLE_ROWS)), len(occupied) - 1)
        start, stop = (bins.start + place * bins.width for place in (occupied[first], occupied[last] + 1))
        table = self._reports.sample(computation, start, stop, self._survey.present)
        return solve(table, computation.processes, SegmentWindow(start, stop)).lag


def make_segments(
    engine: Engine, reports: RunReports, survey: Survey, planner: Planner, target: SegmentTarget, *, eps: int | None,
    unit: str, on_stage: OnStage = ignore_stages,
) -> Segmented:  # fmt: skip
    """Make the segments of a run. Without `eps`, find one that is enough.

    Raises `EpsTooSmall`, with the smallest eps that is enough, if the given one is too small.
    """
    bound = planner.guess_eps() if eps is None else eps
    was_refused = False
    while True:
        plan = planner.plan(bound)
        try:
            made = reports.make_segments(
                plan, survey.present, target, lambda done, total: on_stage("causality", done, total)
            )
            if eps is not None and not was_refused and any(segment.clock_lag > eps for segment in made):
                check_lags(made, eps)
            joined = join_segments(engine, made, plan, target, reports=survey.reports, on_stage=on_stage)
            break
        except WindowsTooNarrow as refused:
            was_refused = True
            bound = max(4 * bound, 2 * refused.least, 1)
    # Answers that are only assumed may need wider windows. They say nothing about clocks.
    worst = max(made, key=lambda segment: segment.clock_lag, default=None)
    lag = 0 if worst is None else worst.clock_lag
    if worst is not None and eps is not None and was_refused and lag > eps:
        # If an assumed cause is later still, the event that is known is of that one.
        known = worst.lag_event if worst.lag == lag else None
        raise EpsTooSmall(eps, lag, "an event" if known is None else known.describe(unit), unit)
    return number_joined(
        engine, made, joined, plan, target, reports=survey.reports, eps=lag if eps is None else eps, on_stage=on_stage
    )


def join_segments(
    engine: Engine,
    made: Sequence[SegmentResult],
    plan: WindowPlan,
    target: SegmentTarget,
    *,
    reports: int,
    on_stage: OnStage = ignore_stages,
) -> Joined:
    """Find the causes that lie in other segments. Raises `WindowsTooNarrow` if clocks differ by more than its eps."""
    if not any(len(epochs.first_bins) > 1 for epochs in plan.large):
        return Joined([], {})
    check_lags(made, plan.eps)
    check_sequences(made, plan)
    try:
        check_ledger(made, reports)
    except Unbalanced as unbalanced:
        raise WindowsTooNarrow(f"epochs overlap: {unbalanced}") from None
    on_stage("joining", 0, 0)
    return join(made, plan, target, _senders_finder(engine, target, made))


def number_joined(
    engine: Engine,
    made: Sequence[SegmentResult],
    joined: Joined,
    plan: WindowPlan,
    target: SegmentTarget,
    *,
    reports: int,
    eps: int,
    on_stage: OnStage = ignore_stages,
) -> Segmented:
    """Mark events whose cause nobody reported, and number all events.

    Raises `Unbalanced` unless all `reports` are accounted for.
    """
    check_ledger(made, reports)
    segments = list(made)
    if joined.missing:
        on_stage("mending", 0, 0)
        incomplete = [at for at, segment in enumerate(segments) if segment.window in joined.missing]
        tasks = [partial(mark_missing, made[at], joined.missing[made[at].window], target) for at in incomplete]
        for at, marked in zip(incomplete, engine.run_tasks(tasks, "mark missing causes"), strict=True):
            segments[at] = marked
    on_stage("boundaries", 0, 0)
    total = sum(segment.rows for segment in segments)
    tables = number_segments(
        segments, plan, target, joined, on_progress=lambda done: on_stage("boundaries", done, total)
    )
    quarantine_files = tuple(segment.quarantine_file for segment in segments if segment.quarantine_file)
    lag = max((segment.clock_lag for segment in segments), default=0)
    return Segmented(tuple(segments), tables, eps, lag, quarantine_files)


def _senders_finder(engine: Engine, target: SegmentTarget, made: Sequence[SegmentResult]) -> FindSenders:
    """Make the function by which `join` finds keys among the events that were written."""
    files = {
        segment.window: (segment.files.events_file, segment.counts.names)
        for segment in made
        if segment.files is not None
    }

    def find(windows: Sequence[int], keys: pa.Array) -> pa.Table:
        wanted = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
        tasks = [partial(_look_for_senders, target, window, *files[window], wanted) for window in windows]
        return pa.concat_tables(engine.run_tasks(tasks, "look for senders"))

    return find


def _look_for_senders(
    target: SegmentTarget, window: int, events_file: str, names: Sequence[str], wanted: pa.Array
) -> pa.Table:
    """Find the events of one window that send these keys."""
    with target.store.open(f"{layout.run_folder(target.run)}/{events_file}") as file:
        events = pq.ParquetFile(file).read(columns=["sends", "process", "kind"], use_threads=False)
    places = pa.array(rows_that_send(events["sends"], wanted))
    senders = events.take(places)
    process = pc.index_in(senders["process"].cast(pa.string()), value_set=pa.array(names, pa.string()))
    within = pc.if_else(is_within(senders["sends"], senders["kind"]), process, pa.scalar(None, pa.int32()))
    windows = pa.repeat(pa.scalar(window, pa.int64()), len(places))
    return pa.table({"key": senders["sends"], "window": windows, "place": places, "within": within})
