"""Read inputs: describe them as a DataFrame of reports, or stage text as Parquet files that a run reads again.

Tasks read in Arrow: text by its source, Parquet by its one mapping. When text is staged, each task writes and counts
what it reads. Its rows do not go through Java: writing them there took as long as reading them, and here a tenth of
that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from ledto.batch.parquet_windows import DICTIONARIES
from ledto.batch.survey import add_counts, count_by_process
from ledto.events.schema import COLUMNS, REPORTS
from ledto.history.store import Store
from ledto.sources import Source, SourceError
from ledto.sources.files import InputFile
from ledto.sources.inputs import Inputs
from ledto.sources.lines import count_line_ends
from ledto.sources.native.lines import CELL_BYTES
from ledto.spark.read_parquet import read_parquet, union

SPLIT_BYTES: Final = CELL_BYTES
"""How much of a file one task reads: a whole number of cells, so that no task reads what comes before its part."""

REPORTS_DDL: Final = (
    "computation string, process string, seq long, time long, arrival long, kind string, sends string, receives string, "
    "receives_more array<string>, id string, name string, stamp string, attributes string, "
    "error boolean, clock_name string, line string, line_parent string, line_phase string, line_joins array<string>, "
    "line_since long, channel_key string, channel_bytes long, file string, place long, reason string, text string"
)
"""The columns of `REPORTS` as Spark spells them."""

GROUP_ROWS: Final = 1 << 16
GROUP_BYTES: Final = 64 << 20
"""A row group is written once it has so many rows, or bytes in memory."""
CODEC: Final = "zstd"
"""Measured on 200 MB of text: half of lz4's size in 5% more time."""
_REPEATING = [*DICTIONARIES, "clock_name", "line_phase", "error"]

_FAILED_OPEN = re.compile(r"Failed to open local file '([^']+)'")
_FAILED_SOURCE = re.compile(r"SourceError: ([^\n]+)")
_FAILED_FILE = re.compile(r"\[FAILED_READ_FILE[^\]]*\][^\n]*?reading file (?:file:/+(?=/)|file:)?(\S+?)\.(?=\s|$)")


@dataclass(frozen=True, slots=True)
class Reading:
    """A frame of reports that is described but not read yet."""

    frame: DataFrame
    """The columns of `REPORTS`, then `native_columns`; one row for each record, in no particular order."""
    native_columns: tuple[str, ...]
    """Columns of Parquet inputs that mean nothing to ledto and keep their types; if text is read too, they are
    attributes instead."""
    needs_staging: bool
    """Whether reading is expensive, as for text: a frame that is read twice should be written to Parquet first."""


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a text file, with the source that reads it. Pickles."""

    file: InputFile
    source: Source
    start: int
    stop: int | None
    """None for the end of the file."""
    lines_before: int = 0

    def read(self) -> Iterator[pa.RecordBatch]:
        """Read the reports of the part."""
        piece = self.file.piece(start=self.start, stop=self.stop, lines_before=self.lines_before)
        return self.source.read(piece)


def read_frame(spark: SparkSession, inputs: Inputs) -> Reading:
    """Describe the reports of the inputs as a frame. Large text files cost one job here, which counts lines.

    Raises `SourceError` for Parquet files that cannot be opened, or whose columns do not fit.
    """
    frames: list[tuple[DataFrame, tuple[str, ...]]] = []
    if text := inputs.text:
        frames.append((_text_frame(spark, text), ()))
    if parquet := inputs.parquet:
        frames.extend(read_parquet(spark, parquet, unit=inputs.unit, fold=bool(text)))
    frame, native = union(frames)
    return Reading(frame, native, bool(text))


def _text_frame(spark: SparkSession, files: Sequence[tuple[InputFile, Source]]) -> DataFrame:
    """Describe the reports of text files as a frame."""
    tasks = text_tasks(spark, files)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                for split in tasks[number]:
                    yield from split.read()

    numbers = spark.range(0, len(tasks), 1, len(tasks))
    return numbers.mapInArrow(read, REPORTS_DDL).select(*COLUMNS)


def text_tasks(spark: SparkSession, files: Sequence[tuple[InputFile, Source]]) -> list[list[Split]]:
    """Cut text files into the parts that each task reads. Large files cost one job here, which counts lines."""
    return _group_splits(_with_lines_before(spark, _cut(files)))


def _cut(files: Sequence[tuple[InputFile, Source]]) -> list[Split]:
    """Cut files that can be cut into parts of `SPLIT_BYTES`."""
    splits = []
    for file, source in files:
        if not source.splittable or file.compression is not None or file.size_bytes <= SPLIT_BYTES:
            splits.append(Split(file, source, 0, None))
        else:
            starts = range(0, file.size_bytes, SPLIT_BYTES)
            splits.extend(Split(file, source, start, start + SPLIT_BYTES) for start in starts)
    return splits


def _with_lines_before(spark: SparkSession, splits: list[Split]) -> list[Split]:
    """Set how many lines come before each part; one job counts them if a file has several parts."""
    cut = [split for split in splits if split.stop is not None]
    if not cut:
        return splits

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch["id"].to_pylist()
            ends = [count_line_ends(cut[n].file.piece(start=cut[n].start, stop=cut[n].stop)) for n in numbers]
            yield pa.RecordBatch.from_pydict(
                {"number": pa.array(numbers, pa.int64()), "ends": pa.array(ends, pa.int64())}
            )

    counted = spark.range(0, len(cut), 1, len(cut)).mapInArrow(count, "number long, ends long").collect()
    ends = {row.number: row.ends for row in counted}
    placed, before, file = [], 0, None
    whole = [split for split in splits if split.stop is None]
    for number, split in enumerate(cut):
        before = before if split.file is file else 0
        placed.append(replace(split, lines_before=before))
        before, file = before + ends[number], split.file
    return placed + whole


def _group_splits(splits: Sequence[Split]) -> list[list[Split]]:
    """Group parts to about `SPLIT_BYTES`, so that thousands of small files do not make thousands of tasks."""
    tasks: list[list[Split]] = []
    room = 0
    for split in splits:
        size = min(split.file.size_bytes, SPLIT_BYTES) if split.stop is None else SPLIT_BYTES
        if not tasks or size > room:
            tasks.append([])
            room = SPLIT_BYTES
        tasks[-1].append(split)
        room -= size
    return tasks


@dataclass(frozen=True, slots=True)
class Staged:
    """A file that a task wrote. Pickles."""

    name: str
    counts: pa.Table
    """Counts of its reports by process (`ledto.batch.survey.survey_from`)."""


def stage(splits: Sequence[Split], number: int, store: Store, folder: str) -> Staged | None:
    """Read parts of text files and write their reports to one file in `folder`; None if there are no reports.

    May run twice for one number: each run writes a file of its own.
    """
    batches = (batch for split in splits for batch in split.read())
    first = next(batches, None)
    if first is None:
        return None
    name = f"part-{number:05d}-{uuid4().hex[:12]}.parquet"
    counts: list[pa.Table] = []
    with (
        store.writing(f"{folder}/{name}") as file,
        pq.ParquetWriter(
            file, REPORTS, compression=CODEC, use_dictionary=_REPEATING, write_statistics=["time"]
        ) as writer,
    ):
        for table in _join_batches(first, batches):
            writer.write_table(table, row_group_size=len(table))
            counts.append(count_by_process(table))
    return Staged(name, add_counts(counts))


def _join_batches(first: pa.RecordBatch, rest: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join the batches to tables of about `GROUP_ROWS` rows or `GROUP_BYTES` bytes."""
    held, rows, size = [first], first.num_rows, first.nbytes
    for batch in rest:
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.Table.from_batches(held, REPORTS)
            held, rows, size = [], 0, 0
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    yield pa.Table.from_batches(held, REPORTS)


def find_input_error(error: BaseException) -> SourceError | None:
    """Find out whether a job failed because of its inputs, and say so in one sentence; None if not.

    Files are checked before the job but read in it: a Parquet page may be damaged, and a file may disappear.
    """
    message = str(error)
    if (source_error := _FAILED_SOURCE.search(message)) is not None:
        return SourceError(source_error[1])
    file = _FAILED_FILE.search(message) or _FAILED_OPEN.search(message)
    if file is None:
        return None
    name = unquote(file[1])
    return SourceError(f"{name} cannot be read: it is damaged or gone. Write it again, or leave it out of the inputs")
