"""Carry out a run in this process alone: for small logs, notebooks, tests, and machines without Java.

Holds all reports in memory as one table, a few hundred bytes each.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.batch.engine import OnStage
from ledto.batch.survey import Computation, Survey, count_by_process, counted_columns, survey_from
from ledto.causality.channel_tables import count_outcomes, match_channels_in
from ledto.events.schema import REPORTS
from ledto.history.window.plan import Epochs, TimeBins, WindowPlan
from ledto.history.window.segment import SegmentResult, SegmentTarget, make_segment
from ledto.sources.contract import SourceError
from ledto.sources.inputs import Inputs
from ledto.sources.parquet import as_attributes, parquet_schema, read_parquet_rows

R = TypeVar("R")
Longs = NDArray[np.int64]
Ints = NDArray[np.int32]

INLINE_BYTES = 1 << 30
"""The most bytes of reports in memory. A run needs about four times as much."""


class InlineEngine:
    """An engine that carries out a run in this process, one step after the other.

    While it reads, it refuses inputs of more than `most_bytes` with `SourceError`, before they fill the memory: a small
    compressed file can hold very much.
    """

    def __init__(self, *, most_bytes: int = INLINE_BYTES) -> None:
        self._most_bytes = most_bytes

    def run_tasks(
        self,
        tasks: Sequence[Callable[[], R]],
        description: str,
        *,
        on_progress: Callable[[int], None] = lambda done: None,
    ) -> list[R]:
        results = []
        for task in tasks:
            results.append(task())
            on_progress(len(results))
        return results

    def read(self, inputs: Inputs, target: SegmentTarget | None, on_stage: OnStage) -> InlineReports:
        def read_all() -> Iterator[pa.Table]:
            for done, (file, source) in enumerate(inputs.text):
                on_stage("reading", done, len(inputs.files))
                for batch in source.read(file.piece()):
                    yield pa.Table.from_batches([batch], schema=REPORTS)
            yield from _read_parquet(inputs)

        table = _union(self._collect(read_all()))
        channels: dict[str, int] = {}
        if inputs.has_channels:
            table, outcomes = match_channels_in(table)
            channels = count_outcomes(outcomes)
        return InlineReports(table.combine_chunks(), tuple(table.column_names[len(REPORTS) :]), channels)

    def _collect(self, tables: Iterable[pa.Table]) -> list[pa.Table]:
        """Collect tables. Raises `SourceError` as soon as they take more than `most_bytes`."""
        collected, total_bytes = [], 0
        for table in tables:
            total_bytes += table.nbytes
            if total_bytes > self._most_bytes:
                raise SourceError(
                    f"these inputs hold more than {self._most_bytes >> 20:,} MiB of reports, too much for --engine inline, "
                    "which keeps them all in memory; observe them with --engine spark"
                )
            collected.append(table)
        return collected

    def takes_at_once(self, inputs: Inputs) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class InlineReports:
    """The reports as one table in memory."""

    table: pa.Table
    native_columns: tuple[str, ...] = ()
    channels: Mapping[str, int] = field(default_factory=dict)

    def survey(self, *, window_rows: int) -> Survey:
        counted = counted_columns(self.table.column_names)
        return survey_from(count_by_process(self.table), counted, window_rows=window_rows)

    def histogram(self, computation: Computation, bins: TimeBins) -> dict[int, int]:
        return bins.count_rows(self._usable(computation)["time"].drop_null().to_numpy())

    def sample(self, computation: Computation, start: int, stop: int, columns: Sequence[str]) -> pa.Table:
        rows = self._usable(computation)
        inside = pc.and_(pc.greater_equal(rows["time"], start), pc.less(rows["time"], stop))
        return rows.filter(inside).select(list(columns))

    def _usable(self, computation: Computation) -> pa.Table:
        good = pc.is_null(self.table["reason"])
        return self.table.filter(pc.and_(good, pc.equal(self.table["computation"], computation.name)))

    def make_segments(
        self, plan: WindowPlan, columns: Sequence[str], target: SegmentTarget, on_progress: Callable[[int, int], None]
    ) -> list[SegmentResult]:
        first, own, last = self._windows(plan)
        chosen = self.table.select(list(columns))
        made = []
        for window in range(plan.windows):
            on_progress(window, plan.windows)
            rows = np.flatnonzero((first <= window) & (window <= last))
            if not len(rows):
                continue
            table = chosen.take(pa.array(rows))
            if plan.large:
                table = table.append_column("own", pa.array(own[rows] == window))
            made.append(make_segment(table, window, plan, target))
        return made

    def explain(self, plan: WindowPlan, columns: Sequence[str], target: SegmentTarget) -> str:
        return f"{self.table.num_rows:,} reports in memory, solved window by window in this process"

    def _windows(self, plan: WindowPlan) -> tuple[Ints, Ints, Ints]:
        """Give for each row the first window that needs it, its own window, and the last that needs it."""
        own = self._shared_windows(plan)
        first, last = own.copy(), own.copy()
        good = pc.is_null(self.table["reason"]).to_numpy(zero_copy_only=False)
        for epochs in plan.large:
            chosen = good & pc.equal(self.table["computation"], epochs.computation).to_numpy(zero_copy_only=False)
            time = self.table["time"].fill_null(0).to_numpy()[chosen]
            for windows, shift in ((first, -plan.eps), (own, 0), (last, plan.eps)):
                windows[chosen] = _windows_of(plan, epochs, time, shift)
        return first, own, last

    def _shared_windows(self, plan: WindowPlan) -> Ints:
        """Spread whole computations over windows by name, and rows that their source quarantined by file and place."""
        shared = max(1, plan.shared)
        names = self.table["computation"].combine_chunks().dictionary_encode()
        by_name = np.array([window_of(name or "", shared) for name in names.dictionary.to_pylist()], np.int32)
        codes = names.indices.fill_null(0).to_numpy(zero_copy_only=False)
        windows = by_name[codes] if len(by_name) else np.zeros(len(codes), np.int32)
        bad = np.flatnonzero(pc.is_valid(self.table["reason"]).to_numpy(zero_copy_only=False))
        if len(bad):
            files, places = (self.table[name].take(pa.array(bad)).to_pylist() for name in ("file", "place"))
            pairs = zip(files, places, strict=True)
            windows[bad] = [window_of(f"{file}:{place}", plan.windows) for file, place in pairs]
        return windows


def window_of(name: str, windows: int) -> int:
    """Choose one of the windows by name. Spark's ``crc32`` chooses the same."""
    return zlib.crc32(name.encode()) % windows


def _windows_of(plan: WindowPlan, epochs: Epochs, time: Longs, shift: int) -> Ints:
    """Give for each row of a computation that is cut the window of its time, moved by `shift`."""
    first = plan.first_window(epochs)
    if len(epochs.first_bins) == 1:
        return np.full(len(time), first, np.int32)
    return first + np.array(epochs.epoch_of_bins(), np.int32)[epochs.bins.places(time, shift=shift)]


def _read_parquet(inputs: Inputs) -> Iterator[pa.Table]:
    """Read the Parquet files. If there are text files as well, columns that mean nothing to ledto become attributes."""
    for file in inputs.parquet:
        mapping = parquet_schema(file, inputs.unit)
        for rows in read_parquet_rows(file, mapping):
            yield as_attributes(rows, mapping) if inputs.text else rows


def _union(tables: Sequence[pa.Table]) -> pa.Table:
    """Put all rows under one schema. Raises `SourceError` if a column has different types."""
    kinds: dict[str, pa.DataType] = {column.name: column.type for column in REPORTS}
    for table in tables:
        for column in table.schema:
            if kinds.setdefault(column.name, column.type) != column.type:
                shown = f"{kinds[column.name]} and {column.type}"
                raise SourceError(f"the column {column.name} is {shown} in different inputs; write it with one type")
    schema = pa.schema(list(kinds.items()))
    return pa.concat_tables([schema.empty_table(), *tables], promote_options="default")
