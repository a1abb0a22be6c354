"""The tasks of a run: windows are solved, segments mended, and senders looked up, each where Spark puts it."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from whence.history import layout
from whence.history.clustered import Clustered
from whence.history.mending import Damage, Mended, mend
from whence.history.plan import Plan
from whence.history.segmenting import Made, Target, make_segment
from whence.spark.jobs import run_job
from whence.spark.sweep import sweep

Batches = Iterator[pa.RecordBatch]

WINDOWS_A_TASK = 4
ANSWER = "answer binary"
"""Results of tasks come back pickled, one a row: they are small, and our own."""


def solve_windows(placed: DataFrame, plan: Plan, target: Target) -> DataFrame:
    """One row a window: its `Made`, pickled. `placed` has one partition a window (`place_by_window`)."""

    def solve(batches: Batches) -> Batches:
        rows = list(batches)
        if not rows:
            return
        table = pa.Table.from_batches(rows)
        for window in pc.unique(table["window"]).to_pylist():
            made = make_segment(table.filter(pc.equal(table["window"], window)), window, plan, target)
            yield _answer(made)

    return placed.mapInArrow(solve, ANSWER)


def read_windows(session: SparkSession, clustered: Clustered, plan: Plan, target: Target) -> DataFrame:
    """As `solve_windows`, for inputs in order of time: each task reads its own rows."""

    def solve(batches: Batches) -> Batches:
        for batch in batches:
            for window in batch["id"].to_pylist():
                chosen = plan.solves(window)
                assert chosen is not None
                yield _answer(make_segment(clustered.rows(chosen[1], plan.eps), window, plan, target))

    # Neighbouring windows share row groups, which a task that solves several reads once.
    cores = session.sparkContext.defaultParallelism
    tasks = min(plan.windows, max(3 * cores, -(-plan.windows // WINDOWS_A_TASK)))
    return session.range(0, plan.windows, 1, tasks).mapInArrow(solve, ANSWER)


def collect(
    session: SparkSession,
    answers: DataFrame,
    description: str,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Made]:
    """Run the tasks, and gather what they made."""
    rows = run_job(session, answers.collect, description, on_progress=on_progress)
    return [pickle.loads(row["answer"]) for row in rows]


def mend_segments(session: SparkSession, damages: Sequence[Damage], target: Target) -> list[Mended]:
    """Write the damaged segments again, one task each."""
    return sweep(session, [partial(mend, damage, target) for damage in damages])


def senders_finder(
    session: SparkSession, target: Target, made: Sequence[Made]
) -> Callable[[Sequence[int], pa.Array], pa.Table]:
    """A look-up of message keys among the events that were written, as `whence.history.joining.join` takes it."""
    files = {each.window: each.files.events_file for each in made if each.files is not None}

    def find(windows: Sequence[int], keys: pa.Array) -> pa.Table:
        wanted = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys

        def look(window: int) -> pa.Table:
            with target.store.open(f"{layout.run_folder(target.run)}/{files[window]}") as file:
                sends = pq.ParquetFile(file).read(columns=["sends"], use_threads=False)["sends"]
            places = pc.indices_nonzero(pc.fill_null(pc.is_in(sends, value_set=wanted), False))
            return pa.table(
                {
                    "key": sends.take(places),
                    "window": pa.repeat(pa.scalar(window, pa.int64()), len(places)),
                    "place": places.cast(pa.int64()),
                }
            )

        return pa.concat_tables(sweep(session, [partial(look, window) for window in windows]))

    return find


def _answer(value: object) -> pa.RecordBatch:
    return pa.record_batch({"answer": pa.array([pickle.dumps(value)], pa.binary())})
