"""Reports become segments: cut into windows, solved in parallel, joined, mended, numbered. Nothing is committed here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own name for it)

from whence.history.clustered import Clustered
from whence.history.joining import (
    Crossings,
    EpsTooSmall,
    Joined,
    Unbalanced,
    check_lags,
    check_ledger,
    check_sequences,
    join,
)
from whence.history.mending import find_damage, follow
from whence.history.numbering import Tables, number_segments
from whence.history.plan import Bins, Epochs, Plan, TooLarge, cut_into_epochs, spread_bins
from whence.history.segmenting import Made, Target
from whence.history.solving import Window, solve
from whence.spark.placing import place_by_window
from whence.spark.segments import collect, mend_segments, read_windows, senders_finder, solve_windows
from whence.spark.survey import Computation, Survey, histogram

OnStage = Callable[[str, int, int], None]
"""Hears what is being done, and how much of how much is done; a total of 0 is not known."""

LARGEST_WINDOW_ROWS = 20_000_000
"""A computation that cannot be cut and has more rows than this is refused: it would not fit in a task's memory."""
MOST_READ = 6
"""Reading a row with pyarrow costs about a sixth of sending it through Spark's shuffle and on to Python."""
SAMPLE_ROWS = 100_000
"""Rows of each slice from which eps is guessed where none is given."""


@dataclass(frozen=True, slots=True)
class Segmented:
    """The segments of a run, written and numbered."""

    made: tuple[Made, ...]
    tables: Tables
    eps: int
    """The bound that the run used: the one given or, where none was, `lag`."""
    lag: int
    """The largest excess of an event's causal time over its wall time: the smallest eps that would do."""
    aside_files: tuple[str, ...]


class Segmenter:
    """Makes the segments of a run from its reports."""

    def __init__(
        self,
        session: SparkSession,
        reports: DataFrame,
        found: Survey,
        target: Target,
        *,
        clustered: Clustered | None,
        epoch_rows: int,
        on_stage: OnStage,
    ) -> None:
        self._session, self._reports, self._found, self._target = session, reports, found, target
        self._epoch_rows, self._on_stage = epoch_rows, on_stage
        cut_alone = found.computations == 1 and all(each.timed for each in found.large)
        self._clustered = clustered if found.large and cut_alone else None
        self._bins = {each.name: self._count(each) for each in found.large if each.timed}

    def _count(self, computation: Computation) -> tuple[Bins, dict[int, int]]:
        clustered = self._clustered
        return spread_bins(
            Bins.over(computation.first_time or 0, computation.last_time or 0),
            lambda bins: (
                histogram(self._reports, computation, bins) if clustered is None else clustered.histogram(bins)
            ),
            epoch_rows=self._epoch_rows,
        )

    def plan(self, eps: int) -> Plan:
        """The windows for a bound on how far clocks differ."""
        large = []
        for each in self._found.large:
            bins, counts = self._bins.get(each.name, (Bins(0, 1), {}))
            firsts = cut_into_epochs(counts, bin_width=bins.width, eps=eps, epoch_rows=self._epoch_rows)
            if len(firsts) == 1 and each.rows > LARGEST_WINDOW_ROWS:
                why = "clocks differ too much" if each.timed else "some of its events have no time"
                raise TooLarge(
                    f"computation {each.name!r} has {each.rows:,} reports and cannot be cut into epochs: {why}. Give every "
                    "event a time, or take out the process whose clock is far off"
                )
            large.append(Epochs(each.name, each.processes, bins, firsts, each.rows))
        shared = -(-self._found.small_rows // self._epoch_rows)
        return Plan(max(shared, 0 if large else 1), tuple(large), eps)

    def frame(self, plan: Plan) -> DataFrame:
        """The DataFrame whose rows are the segments made.

        Where the row groups of the input follow the time, tasks read their own; else each row is sent to its window.
        """
        clustered = self._clustered
        if clustered is not None and clustered.rows_read(plan) <= MOST_READ * self._found.reports:
            return read_windows(self._session, clustered, plan, self._target)
        placed = place_by_window(self._reports, plan, self._found.present)
        return solve_windows(placed, plan, self._target)

    def guess_eps(self) -> int:
        """Twice the largest lag in slices of the data; 0 where nothing is cut."""
        lag = 0
        for each in self._found.large:
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
        window = Window(start, stop)
        if self._clustered is not None:
            table = self._clustered.rows(window, 0)
        else:
            mine = (F.col("computation") == computation.name) & F.col("reason").isNull()
            chosen = self._reports.where(mine & (F.col("time") >= start) & (F.col("time") < stop))
            table = chosen.limit(8 * SAMPLE_ROWS).select(*self._found.present).toArrow()
        if "reason" in table.column_names:
            table = table.filter(pc.is_null(table["reason"]))
        return solve(table, computation.processes, window).lag

    def segments(self, eps: int | None) -> Segmented:
        """Make the segments. Raises `EpsTooSmall`, with the value that would do, if one was given and is too small."""
        bound = self.guess_eps() if eps is None else eps
        refused: EpsTooSmall | None = None
        while True:
            plan = self.plan(bound)
            try:
                made, joined = self._attempt(plan, bound if refused is None and eps is not None else None)
                break
            except EpsTooSmall as small:
                refused = refused or small
                bound = max(4 * bound, 2 * (small.least or 0), 1)
        lag = max((each.lag for each in made), default=0)
        if eps is not None and refused is not None:
            raise EpsTooSmall(eps, lag, refused.where)
        made, crossings, more_aside = self._mend(made, joined)
        check_ledger(made, self._found.reports)
        self._on_stage("boundaries", 0, 0)
        total = sum(each.rows for each in made)
        tables = number_segments(
            made,
            plan,
            self._target,
            crossings,
            on_progress=lambda done: self._on_stage("boundaries", done, total),
        )
        aside = tuple(each.aside_file for each in made if each.aside_file) + tuple(more_aside)
        return Segmented(tuple(made), tables, lag if eps is None else eps, lag, aside)

    def _attempt(self, plan: Plan, given: int | None) -> tuple[list[Made], Joined]:
        self._on_stage("causality", 0, 0)
        made = collect(
            self._session,
            self.frame(plan),
            "causality by epochs",
            lambda done, total: self._on_stage("causality", done, total),
        )
        cut = any(len(each.first_bins) > 1 for each in plan.large)
        if given is not None:
            check_lags(made, given)
        if not cut:
            return made, Joined(Crossings(), {}, {})
        check_lags(made, plan.eps)
        check_sequences(made, plan)
        try:
            check_ledger(made, self._found.reports)
        except Unbalanced as unbalanced:
            raise EpsTooSmall(plan.eps, None, f"epochs overlap: {unbalanced}") from None
        self._on_stage("joining", 0, 0)
        return made, join(made, plan, self._target, senders_finder(self._session, self._target, made))

    def _mend(self, made: list[Made], joined: Joined) -> tuple[list[Made], Crossings, list[str]]:
        """Take orphans out of their segments, and let the crossings follow."""
        if not joined.orphans and not joined.missing:
            return made, joined.crossings, []
        self._on_stage("mending", 0, 0)
        repairs = mend_segments(self._session, find_damage(made, joined), self._target)
        replaced, crossings = follow(joined.crossings, repairs, made)
        return replaced, crossings, [each.orphan_aside_file for each in repairs if each.orphan_aside_file]
