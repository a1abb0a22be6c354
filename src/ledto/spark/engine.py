"""Run the pipeline on Spark: on this machine by default, and on a cluster unchanged."""

from __future__ import annotations

import os
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (Spark's own name for it)

from ledto.batch.engine import OnStage
from ledto.batch.parquet_windows import Clustered, File, find_clusters
from ledto.batch.survey import Computation, Survey, add_counts, counted_columns, survey_clusters, survey_from
from ledto.events.schema import COLUMNS
from ledto.history import layout
from ledto.history.window.plan import TimeBins, WindowPlan
from ledto.history.window.segment import SegmentResult, SegmentTarget, make_segment
from ledto.history.window.solve import SegmentWindow
from ledto.sources.files import open_at
from ledto.sources.inputs import Inputs
from ledto.spark.channels import match_channels
from ledto.spark.jobs import explain_failures, run_job
from ledto.spark.read import CODEC, REPORTS_DDL, Reading, read_frame, stage, text_tasks
from ledto.spark.sweep import sweep
from ledto.spark.windows import histogram, place_by_window, survey

R = TypeVar("R")
Batches = Iterator[pa.RecordBatch]

AT_ONCE_BYTES = 24 << 20
"""Up to this much text, one task reads, orders and delivers everything sooner than Spark starts a second job."""
BRIEF_BYTES = 128 << 20
"""Up to this much text, Java spends more on its second compiler than that saves: of 58 MB, 18 of 40 CPU seconds."""
MOST_READ = 6
"""Reading a row with pyarrow costs about a sixth of sending it through Spark's shuffle and on to Python."""
SAMPLE_LIMIT_ROWS = 800_000
WINDOWS_A_TASK = 4
MADE = "made binary"
"""The columns of results: pickled, one for each window. They are small, our own, and never stored."""


def is_brief(inputs: Inputs) -> bool:
    """Tell whether a run is over before Java's second compiler pays."""
    return inputs.text_bytes <= BRIEF_BYTES


class SparkEngine:
    """The engine of a run on Spark (`ledto.batch.engine`).

    A context is enough. A session is made from it when SQL is needed; small inputs need none.
    """

    def __init__(self, spark: SparkSession | SparkContext, *, at_once_bytes: int = AT_ONCE_BYTES) -> None:
        if isinstance(spark, SparkSession):
            self.session, self.context = spark, spark.sparkContext
        else:
            self.context = spark
        self._at_once_bytes = at_once_bytes

    @cached_property
    def session(self) -> SparkSession:
        """The given session, or one made from the context."""
        return SparkSession.builder.getOrCreate()

    @explain_failures()
    def run_tasks(
        self,
        tasks: Sequence[Callable[[], R]],
        description: str,
        *,
        on_progress: Callable[[int], None] = lambda done: None,
    ) -> list[R]:
        return sweep(self.context, tasks, description=description, on_progress=on_progress)

    @explain_failures()
    def read(self, inputs: Inputs, target: SegmentTarget | None, on_stage: OnStage) -> SparkReports:
        only_text = not inputs.parquet and not inputs.has_channels
        if inputs.text and only_text and target is not None:
            return self._stage_text(inputs, target, on_stage)
        reading = read_frame(self.session, inputs)
        frame, channels = reading.frame, None
        if inputs.has_channels:
            frame, channels = match_channels(frame)
        places = None
        if reading.needs_staging and target is not None:
            folder = _make_staging(target)
            write = frame.write.mode("overwrite").option("compression", CODEC)
            place = target.store.place(folder)
            run_job(
                self.context,
                lambda: write.parquet(place),
                "read text",
                on_progress=lambda done, total: on_stage("reading", done, total),
            )
            frame = self.session.read.parquet(place)
            places = [f"{place}/{name}" for name in target.store.names(folder) if name.endswith(".parquet")]
        counts = channels.get() if channels is not None and places is not None else {}
        return SparkReports(self, frame, reading, _clusters(inputs, reading, target, places), counts)

    def _stage_text(self, inputs: Inputs, target: SegmentTarget, on_stage: OnStage) -> SparkReports:
        """Let tasks read the text, count it, and write it to Parquet files."""
        folder = _make_staging(target)
        parts = text_tasks(self.session, inputs.text)
        tasks = [partial(stage, part, number, target.store, folder) for number, part in enumerate(parts)]
        results = self.run_tasks(tasks, "read text", on_progress=lambda done: on_stage("reading", done, len(tasks)))
        staged = [file for file in results if file is not None]
        if not staged:
            # No report in any file: nothing to keep. The steps that follow say so.
            reading = read_frame(self.session, inputs)
            return SparkReports(self, reading.frame, reading, None)
        places = [target.store.place(f"{folder}/{file.name}") for file in staged]
        reading = Reading(self.session.read.schema(REPORTS_DDL).parquet(*places), (), needs_staging=True)
        counts = add_counts([file.counts for file in staged])
        return SparkReports(self, reading.frame, reading, _clusters(inputs, reading, target, places), {}, counts)

    def takes_at_once(self, inputs: Inputs) -> bool:
        return inputs.text_bytes <= self._at_once_bytes


def _make_staging(target: SegmentTarget) -> str:
    """Make a private folder for what a run keeps until it ends; return the folder for Spark's files in it."""
    staging = f"{layout.run_folder(target.run)}/{layout.STAGING}"
    if target.store.is_local:
        os.makedirs(target.store.place(staging), mode=0o700)
    return f"{staging}/reports"


def _clusters(
    inputs: Inputs, reading: Reading, target: SegmentTarget | None, staged: Sequence[str] | None
) -> Clustered | None:
    """List the row groups that tasks can read by themselves; None if rows need more than reading."""
    opener = partial(open_at, compression=None, offset=0)
    if staged is not None:
        assert target is not None
        files = [File(place, place.rpartition("/")[2], target.run) for place in staged]
        return find_clusters(files, opener, staged=True, unit=inputs.unit)
    if reading.needs_staging:
        return None
    run = "" if target is None else target.run
    files = [File(file.location, file.name, run) for file in inputs.files]
    return find_clusters(files, opener, staged=False, unit=inputs.unit)


@dataclass(slots=True)
class SparkReports:
    """Reports as a DataFrame and, if their row groups follow the time, as row groups that tasks read by themselves."""

    engine: SparkEngine
    frame: DataFrame
    reading: Reading
    clustered: Clustered | None
    channels: Mapping[str, int] = field(default_factory=dict)
    counts: pa.Table | None = None
    """Counts of all reports by process, if tasks counted what they read."""

    @property
    def native_columns(self) -> tuple[str, ...]:
        return self.reading.native_columns

    @explain_failures()
    def survey(self, *, window_rows: int) -> Survey:
        quick = None
        if self.counts is not None:
            quick = survey_from(self.counts, counted_columns(COLUMNS), window_rows=window_rows)
        elif self.clustered is not None:
            quick = survey_clusters(self.engine, self.clustered, window_rows=window_rows)
        counted = quick or run_job(self.engine.context, lambda: survey(self.frame, window_rows=window_rows), "survey")
        cut_alone = counted.computations == 1 and all(computation.timed for computation in counted.large)
        if not counted.large or not cut_alone or (counted.bad and not self.reading.needs_staging):
            self.clustered = None
        return counted

    @explain_failures()
    def histogram(self, computation: Computation, bins: TimeBins) -> dict[int, int]:
        if self.clustered is not None:
            tasks = [partial(self.clustered.count_times, groups, bins) for groups in self.clustered.shares()]
            counts: Counter[int] = Counter()
            for task_counts in self.engine.run_tasks(tasks, "count times"):
                counts.update(task_counts)
            return dict(counts)
        return histogram(self.frame, computation, bins)

    @explain_failures()
    def sample(self, computation: Computation, start: int, stop: int, columns: Sequence[str]) -> pa.Table:
        if self.clustered is not None:
            table = self.clustered.rows(SegmentWindow(start, stop), 0)
            if "reason" in table.column_names:
                table = table.filter(pc.is_null(table["reason"]))
            return table
        in_computation = (F.col("computation") == computation.name) & F.col("reason").isNull()
        inside = self.frame.where(in_computation & (F.col("time") >= start) & (F.col("time") < stop))
        return inside.limit(SAMPLE_LIMIT_ROWS).select(*columns).toArrow()

    @explain_failures()
    def make_segments(
        self, plan: WindowPlan, columns: Sequence[str], target: SegmentTarget, on_progress: Callable[[int, int], None]
    ) -> list[SegmentResult]:
        answers = self._describe_solving(plan, columns, target)
        rows = run_job(self.engine.context, answers.collect, "causality by epochs", on_progress=on_progress)
        return [pickle.loads(row["made"]) for row in rows]

    @explain_failures()
    def explain(self, plan: WindowPlan, columns: Sequence[str], target: SegmentTarget) -> str:
        context = self.engine.context
        execution = self._describe_solving(plan, columns, target)._jdf.queryExecution()
        return str(context._jvm.PythonSQLUtils.explainString(execution, "formatted")).strip()  # type: ignore[union-attr]

    def _describe_solving(self, plan: WindowPlan, columns: Sequence[str], target: SegmentTarget) -> DataFrame:
        """Describe the job that solves all windows: for each window a row with the result of `make_segment`.

        If the row groups of the input follow the time, tasks read their own rows; else each row is sent to its window.
        """
        clustered = self.clustered
        if clustered is not None and clustered.rows_read(plan) <= MOST_READ * sum(g.rows for g in clustered.groups):
            return _read_windows(self.engine.session, clustered, plan, target)
        return _solve_windows(place_by_window(self.frame, plan, columns), plan, target)


def _solve_windows(placed: DataFrame, plan: WindowPlan, target: SegmentTarget) -> DataFrame:
    """Solve windows whose rows were sent to partitions of their own."""

    def solve(batches: Batches) -> Batches:
        rows = list(batches)
        if not rows:
            return
        table = pa.Table.from_batches(rows)
        for window in pc.unique(table["window"]).to_pylist():
            in_window = table.filter(pc.equal(table["window"], window)).drop_columns(["window"])
            yield _as_row(make_segment(in_window, window, plan, target))

    return placed.mapInArrow(solve, MADE)


def _read_windows(session: SparkSession, clustered: Clustered, plan: WindowPlan, target: SegmentTarget) -> DataFrame:
    """Solve windows of inputs that follow the time: each task reads its own rows."""

    def solve(batches: Batches) -> Batches:
        for batch in batches:
            for window in batch["id"].to_pylist():
                chosen = plan.solves(window)
                assert chosen is not None
                yield _as_row(make_segment(clustered.rows(chosen[1], plan.eps), window, plan, target))

    # Neighbouring windows share row groups; a task that solves several windows reads them once.
    cores = session.sparkContext.defaultParallelism
    tasks = min(plan.windows, max(3 * cores, -(-plan.windows // WINDOWS_A_TASK)))
    return session.range(0, plan.windows, 1, tasks).mapInArrow(solve, MADE)


def _as_row(made: SegmentResult) -> pa.RecordBatch:
    """Pickle a result into a row of `MADE`."""
    return pa.record_batch({"made": pa.array([pickle.dumps(made)], pa.binary())})
