"""From files to a DataFrame of reports: text through sources in Arrow, Parquet through Spark's own reader."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from whence.events.schema import COLUMNS
from whence.sources import Source, SourceError, source
from whence.sources.files import InputFile, find_files
from whence.sources.json_lines import CELL_BYTES
from whence.sources.lines import count_line_ends
from whence.spark.parquet_reports import PARQUET_SUFFIXES, read_parquet, union

SPLIT_BYTES: Final = CELL_BYTES
"""How much of a file one task reads; a whole number of cells, so that no task reads what comes before its part."""

REPORTS_DDL: Final = (
    "computation string, process string, seq long, time long, arrival long, kind string, sends string, receives string, "
    "receives_more array<string>, id string, name string, stamp string, attributes string, "
    "clock_name string, instance_key string, instance_parent string, instance_phase string, channel_key string, "
    "channel_bytes long, file string, place long, reason string, text string"
)
"""The columns of `REPORTS` as Spark spells them."""

_PARQUET_MAGIC = b"PAR1"
_OPENED_AT_ONCE = 16
_FAILED_OPEN = re.compile(r"Failed to open local file '([^']+)'")
_FAILED_FILE = re.compile(r"\[FAILED_READ_FILE[^\]]*\][^\n]*?reading file (?:file:/+(?=/)|file:)?(\S+?)\.(?=\s|$)")


@dataclass(frozen=True, slots=True)
class Reading:
    """Reports that are described and not yet read."""

    frame: DataFrame
    """The columns of `REPORTS`, then `native_columns`; one row a record, in no order that may be relied on."""
    native_columns: tuple[str, ...]
    """Columns of Parquet inputs that mean nothing to whence and are kept with their own types."""
    needs_staging: bool
    """Whether reading is dear, as text is: who reads the frame twice should write it to Parquet first."""
    inputs: tuple[InputFile, ...]


@dataclass(frozen=True, slots=True)
class _Split:
    file: InputFile
    start: int
    stop: int | None
    lines_before: int = 0


def read_reports(
    spark: SparkSession, inputs: Sequence[str], *, format: str | None = None, options: Mapping[str, Any] | None = None
) -> Reading:
    """The reports in files, folders and patterns, as `whence.sources.files.find_files` takes them.

    `format` is a name of `whence.sources.SOURCES`, ``whence`` if not given, which reads JSON lines and Parquet, mixed
    as they come; `options` are the format's own. Files and columns are looked at before this returns; the rows are
    read when the frame is. Large text files cost one job here, which counts lines. Raises `SourceError` for inputs that
    do not exist, cannot be opened, or whose columns do not fit.
    """
    text_source = source(format or "whence", options or {})
    takes_parquet = text_source.name == "whence"
    suffixes = (*text_source.suffixes, *(PARQUET_SUFFIXES if takes_parquet else ()))
    files = find_files(inputs, suffixes)
    parquet: list[InputFile] = []
    text: list[InputFile] = []
    with ThreadPoolExecutor(_OPENED_AT_ONCE) as pool:
        heads = list(pool.map(lambda file: file.head(4), files))
    for file, head in zip(files, heads, strict=True):
        is_parquet = head == _PARQUET_MAGIC or (takes_parquet and file.suffix in PARQUET_SUFFIXES)
        if is_parquet and not takes_parquet:
            raise SourceError(
                f"{file.name} is Parquet, which the format {text_source.name} does not read; leave out --format"
            )
        (parquet if is_parquet else text).append(file)
    if text and text_source.name == "shiviz" and len(text) > 1:
        text_source = source("shiviz", {**(options or {}), "complete": False})
    frames: list[tuple[DataFrame, tuple[str, ...]]] = []
    if text:
        frames.append((_text_frame(spark, text_source, text), ()))
    if parquet:
        frames.extend(read_parquet(spark, parquet, unit=getattr(text_source, "unit", "ns")))
    frame, native = union(frames)
    return Reading(frame, native, bool(text), tuple(files))


def _text_frame(spark: SparkSession, text_source: Source, files: Sequence[InputFile]) -> DataFrame:
    tasks = _tasks(_with_lines_before(spark, _splits(text_source, files)))

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                for split in tasks[number]:
                    piece = split.file.piece(start=split.start, stop=split.stop, lines_before=split.lines_before)
                    yield from text_source.read(piece)

    numbers = spark.range(0, len(tasks), 1, len(tasks))
    return numbers.mapInArrow(read, REPORTS_DDL).select(*COLUMNS)


def _splits(text_source: Source, files: Sequence[InputFile]) -> list[_Split]:
    splits = []
    for file in files:
        if not text_source.splittable or file.compression is not None or file.size_bytes <= SPLIT_BYTES:
            splits.append(_Split(file, 0, None))
        else:
            starts = range(0, file.size_bytes, SPLIT_BYTES)
            splits.extend(_Split(file, start, start + SPLIT_BYTES) for start in starts)
    return splits


def _with_lines_before(spark: SparkSession, splits: list[_Split]) -> list[_Split]:
    """The same splits with their place in the count of lines, which one job finds where a file has several."""
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
        placed.append(_Split(split.file, split.start, split.stop, before))
        before, file = before + ends[number], split.file
    return placed + whole


def _tasks(splits: Sequence[_Split]) -> list[list[_Split]]:
    """Splits in groups of about `SPLIT_BYTES`, so that thousands of small files are not thousands of tasks."""
    tasks: list[list[_Split]] = []
    room = 0
    for split in splits:
        size = min(split.file.size_bytes, SPLIT_BYTES) if split.stop is None else SPLIT_BYTES
        if not tasks or size > room:
            tasks.append([])
            room = SPLIT_BYTES
        tasks[-1].append(split)
        room -= size
    return tasks


def explained(error: BaseException) -> SourceError | None:
    """What a job's failure says about its inputs, in one sentence; ``None`` if it is about something else.

    Files are looked at before the job, but their insides are read in it: a Parquet page may be damaged, a file may go.
    """
    message = str(error)
    found = _FAILED_FILE.search(message) or _FAILED_OPEN.search(message)
    if found is None:
        return None
    name = unquote(found[1])
    return SourceError(f"{name} cannot be read: it is damaged or gone. Write it again, or leave it out of the inputs")
