"""Reports become segments: cut into windows, solved, joined, mended, numbered. Nothing is committed here."""

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
    JoinedCrossings,
    Unbalanced,
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
"""A computation that cannot be cut and has more rows than this is refused: it would not fit in a task's memory."""
SAMPLE_ROWS = 100_000
"""Rows of each slice from which eps is guessed where none is given."""


@dataclass(frozen=True, slots=True)
class Segmented:
    """The segments of a run, written and numbered."""

    made: tuple[SegmentResult, ...]
    tables: Tables
    eps: int
    """The bound that the run used: the one given or, where none was, `lag`."""
    lag: int
    """The largest excess of an event's causal time over its wall time: the smallest eps that would do. Causes that are only
    assumed do not count."""
    aside_files: tuple[str, ...]


class Planner(Protocol):
    """Decides how the reports of a run are cut into windows."""

    def plan(self, eps: int) -> WindowPlan:
        """Choose the windows for a bound on how far clocks differ. Raises `TooLarge`."""
        ...

    def guess_eps(self) -> int:
        """Guess a bound from the data."""
        ...


class EvenPlanner:
    """Cuts the reports into windows of about as many rows each."""

    def __init__(self, reports: RunReports, survey: Survey, *, epoch_rows: int) -> None:
        self._reports, self._survey, self._epoch_rows = reports, survey, epoch_rows

    @cached_property
    def _bins(self) -> dict[str, tuple[TimeBins, dict[int, int]]]:
        return {each.name: self._count(each) for each in self._survey.large if each.timed}

    def _count(self, computation: Computation) -> tuple[TimeBins, dict[int, int]]:
        return spread_bins(
            TimeBins.over(computation.first_time or 0, computation.last_time or 0),
            lambda bins: self._reports.histogram(computation, bins),
            epoch_rows=self._epoch_rows,
        )

    def plan(self, eps: int) -> WindowPlan:
        large = []
        for each in self._survey.large:
            bins, counts = self._bins.get(each.name, (TimeBins(0, 1), {}))
            firsts = cut_into_epochs(counts, bin_width=bins.width, eps=eps, epoch_rows=self._epoch_rows)
            if len(firsts) == 1 and each.rows > LARGEST_WINDOW_ROWS:
                why = "clocks differ too much" if each.timed else "some of its events have no time"
                advice = "Give every event a time, or take out the process whose clock is far off"
                raise TooLarge(
                    f"computation {each.name!r} has {each.rows:,} reports and cannot be cut into epochs: {why}. {advice}"
                )
            large.append(Epochs(each.name, each.processes, bins, firsts, each.rows))
        shared = -(-self._survey.small_rows // self._epoch_rows)
        return WindowPlan(max(shared, 0 if large else 1), tuple(large), eps)

    def guess_eps(self) -> int:
        """Take twice the largest lag in slices of the data; 0 where nothing is cut."""
        lag = 0
        for each in self._survey.large:
            for share in (0.25, 0.75) if each.timed else ():
                lag = max(lag, self._lag_around(each, share))
        return 2 * lag

    def _lag_around(self, computation: Computation, share: float) -> int:
        bins, counts = self._bins[computation.name]
        held = sorted(counts)
        rows = np.cumsum([counts[each] for each in held])
        at = int(np.searchsorted(rows, share * rows[-1]))
        to = min(int(np.searchsorted(rows, rows[at] + SAMPLE_ROWS)), len(held) - 1)
        start, stop = (bins.start + place * bins.width for place in (held[at], held[to] + 1))
        table = self._reports.sample(computation, start, stop, self._survey.present)
        return solve(table, computation.processes, SegmentWindow(start, stop)).lag


def make_segments(
    engine: Engine, reports: RunReports, survey: Survey, planner: Planner, target: SegmentTarget, *, eps: int | None,
    on_stage: OnStage = ignore_stages,
) -> Segmented:  # fmt: skip
    """Make the segments of a run; where no `eps` is given, find one that does.

    Raises `EpsTooSmall`, with the value that would do, if one was given and is too small.
    """
    bound = planner.guess_eps() if eps is None else eps
    refused: EpsTooSmall | None = None
    while True:
        plan = planner.plan(bound)
        try:
            made = reports.make_segments(
                plan, survey.present, target, lambda done, total: on_stage("causality", done, total)
            )
            if eps is not None and refused is None and any(each.clock_lag > eps for each in made):
                check_lags(made, eps)
            joined = join_segments(engine, made, plan, target, reports=survey.reports, on_stage=on_stage)
            break
        except EpsTooSmall as small:
            refused = refused or small
            bound = max(4 * bound, 2 * (small.least or 0), 1)
    # Answers that are only assumed may ask for wider windows. They say nothing of clocks.
    lag = max((each.clock_lag for each in made), default=0)
    if eps is not None and refused is not None and lag > eps:
        raise EpsTooSmall(eps, lag, refused.where)
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
    """Settle what crosses the ends of segments. Raises `EpsTooSmall` where clocks differ by more than the plan's bound."""
    if not any(len(each.first_bins) > 1 for each in plan.large):
        return Joined(JoinedCrossings(), {})
    check_lags(made, plan.eps)
    check_sequences(made, plan)
    try:
        check_ledger(made, reports)
    except Unbalanced as unbalanced:
        raise EpsTooSmall(plan.eps, None, f"epochs overlap: {unbalanced}") from None
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
        lacking = [at for at, each in enumerate(segments) if each.window in joined.missing]
        tasks = [partial(mark_missing, made[at], joined.missing[made[at].window], target) for at in lacking]
        for at, marked in zip(lacking, engine.run_tasks(tasks, "mark missing causes"), strict=True):
            segments[at] = marked
    on_stage("boundaries", 0, 0)
    total = sum(each.rows for each in segments)
    tables = number_segments(
        segments, plan, target, joined, on_progress=lambda done: on_stage("boundaries", done, total)
    )
    aside = tuple(each.aside_file for each in segments if each.aside_file)
    return Segmented(tuple(segments), tables, eps, max((each.clock_lag for each in segments), default=0), aside)


def _senders_finder(engine: Engine, target: SegmentTarget, made: Sequence[SegmentResult]) -> FindSenders:
    """Make the look-up of message keys among the events that were written, as `join` takes it."""
    files = {each.window: (each.files.events_file, each.counts.names) for each in made if each.files is not None}

    def find(windows: Sequence[int], keys: pa.Array) -> pa.Table:
        wanted = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
        tasks = [partial(_look_for_senders, target, window, *files[window], wanted) for window in windows]
        return pa.concat_tables(engine.run_tasks(tasks, "look for senders"))

    return find


def _look_for_senders(
    target: SegmentTarget, window: int, events_file: str, names: Sequence[str], wanted: pa.Array
) -> pa.Table:
    with target.store.open(f"{layout.run_folder(target.run)}/{events_file}") as file:
        events = pq.ParquetFile(file).read(columns=["sends", "process", "kind"], use_threads=False)
    places = pa.array(rows_that_send(events["sends"], wanted))
    found = events.take(places)
    process = pc.index_in(found["process"].cast(pa.string()), value_set=pa.array(names, pa.string()))
    within = pc.if_else(is_within(found["sends"], found["kind"]), process, pa.scalar(None, pa.int32()))
    windows = pa.repeat(pa.scalar(window, pa.int64()), len(places))
    return pa.table({"key": found["sends"], "window": windows, "place": places, "within": within})
