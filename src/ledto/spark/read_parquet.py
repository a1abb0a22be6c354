"""Read Parquet inputs of the format ``ledto``: tasks read row groups by the mapping of `ledto.sources.parquet`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from ledto.events.schema import REPORTS
from ledto.sources import SourceError
from ledto.sources.files import InputFile
from ledto.sources.parquet import Mapping, RowGroup, as_attributes, read_row_group
from ledto.sources.parquet.files import Footer, read_footer

_FOOTERS_AT_ONCE = 16
_LEAST_TASK_BYTES = 4 << 20
_MOST_TASK_BYTES = 64 << 20

Frames = list[tuple[DataFrame, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class _FilePart:
    """A row group of a file, with what a task needs to read it."""

    file: InputFile
    mapping: Mapping
    group: RowGroup


def read_parquet(spark: SparkSession, files: Sequence[InputFile], *, unit: str, fold: bool = False) -> Frames:
    """Make a frame of reports for each set of columns that the files have, with the names of its native columns.

    With `fold`, native columns become attributes, and there is one frame. Reads every footer first. Raises
    `SourceError` for a file that is not Parquet and for columns that do not fit; tasks raise it for damaged row groups.
    """
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        footers = list(pool.map(lambda file: read_footer(file, unit), files))
    alike: dict[pa.Schema, list[tuple[InputFile, Footer]]] = {}
    for file, footer in zip(files, footers, strict=True):
        schema = REPORTS if fold else footer.mapping.schema
        alike.setdefault(schema, []).append((file, footer))
    return [_frame(spark, schema, same_columns) for schema, same_columns in alike.items()]


def _frame(
    spark: SparkSession, schema: pa.Schema, files: Sequence[tuple[InputFile, Footer]]
) -> tuple[DataFrame, tuple[str, ...]]:
    """Make the frame of files that have the same columns."""
    native = tuple(schema.names[len(REPORTS) :])
    parts = [_FilePart(file, footer.mapping, group) for file, footer in files for group in footer.groups]
    tasks = _group_parts(parts, spark.sparkContext.defaultParallelism)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                for part in tasks[number]:
                    for rows in read_row_group(part.file, part.mapping, part.group):
                        rows = rows if native else as_attributes(rows, part.mapping)
                        yield from rows.select(schema.names).to_batches()

    numbers = spark.range(0, len(tasks), 1, max(len(tasks), 1))
    return numbers.mapInArrow(read, from_arrow_schema(schema)), native


def _group_parts(parts: Sequence[_FilePart], cores: int) -> list[list[_FilePart]]:
    """Group parts by size: enough tasks for all cores, but not one for each of a thousand small files."""
    share = sum(part.group.size_bytes for part in parts) // max(cores, 1)
    most = min(max(share, _LEAST_TASK_BYTES), _MOST_TASK_BYTES)
    tasks: list[list[_FilePart]] = []
    room = 0
    for part in parts:
        if not tasks or part.group.size_bytes > room:
            tasks.append([])
            room = most
        tasks[-1].append(part)
        room -= part.group.size_bytes
    return tasks


def union(frames: Frames) -> tuple[DataFrame, tuple[str, ...]]:
    """Join all rows, with every native column that any frame has. Raises `SourceError` if a column has two types."""
    frame, native = frames[0]
    for other, more in frames[1:]:
        for name in {*native} & {*more}:
            types = frame.schema[name].dataType, other.schema[name].dataType
            if types[0] != types[1]:
                shown = " and ".join(kind.simpleString() for kind in types)
                raise SourceError(f"the column {name} is {shown} in different inputs; write it with one type")
        try:
            frame = frame.unionByName(other, allowMissingColumns=True)
        except AnalysisException as error:
            raise SourceError(f"the inputs' columns do not go together: {str(error).partition(chr(10))[0]}") from None
        native = (*native, *(name for name in more if name not in native))
    return frame, native
