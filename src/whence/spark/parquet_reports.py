"""Parquet inputs of the format ``whence`` as reports: SQL expressions map the columns, no row passes through Python."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr
from pyspark.sql.types import LongType, StructField, StructType

from whence.events.schema import COLUMNS
from whence.sources import SourceError
from whence.sources.files import InputFile
from whence.sources.parquet_columns import Mapping, map_columns

PARQUET_SUFFIXES: Final = (".parquet", ".pq")

_FOOTERS_AT_ONCE = 16
_PLAIN = re.compile(r"/[A-Za-z0-9/._=-]+")
_GLOB_SIGNS = frozenset("*?[]{}\\")

Frames = list[tuple[DataFrame, tuple[str, ...]]]


def read_parquet(spark: SparkSession, files: Sequence[InputFile], *, unit: str) -> Frames:
    """A frame of reports, and the names of its native columns, for each set of columns that the files have.

    Reads every footer first. Raises `SourceError` for a file that is no Parquet, and for columns that do not fit.
    """
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        schemas = list(pool.map(_schema, files))
    alike: dict[tuple[object, ...], list[InputFile]] = {}
    mappings: dict[tuple[object, ...], Mapping] = {}
    for file, (schema, int96) in zip(files, schemas, strict=True):
        columns = tuple((field.name, str(field.type), field.name in int96) for field in schema)
        if columns not in alike:
            mappings[columns] = map_columns(schema, file.name, unit, int96=int96)
        alike.setdefault(columns, []).append(file)
    return [_frame(spark, alike[columns], mapping) for columns, mapping in mappings.items()]


def _schema(file: InputFile) -> tuple[pa.Schema, frozenset[str]]:
    """The columns, and which of them are timestamps of 96 bits."""
    try:
        with closing(file.piece().open_at(0)) as stream:
            read = pyarrow.parquet.ParquetFile(stream)
            stored = [read.schema.column(number) for number in range(len(read.schema.names))]
            return read.schema_arrow, frozenset(c.path for c in stored if c.physical_type == "INT96")
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(file, error) from None


def _unreadable(file: InputFile, error: Exception) -> SourceError:
    cause = str(error).partition("\n")[0]
    return SourceError(f"{file.name} cannot be read as Parquet: {cause}. Write it again, or leave it out of the inputs")


def _frame(spark: SparkSession, files: Sequence[InputFile], mapping: Mapping) -> tuple[DataFrame, tuple[str, ...]]:
    if mapping.has_nanoseconds:
        # Spark has no type for them and refuses the file otherwise; as integers nothing is lost.
        spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    locations = [_spark_path(file.location) for file in files]
    try:
        given = spark.read.parquet(locations[0]).schema
    except (PySparkException, Py4JError) as error:
        raise _unreadable(files[0], error) from None
    # The raw count, whatever the session's time zone and finer than Spark's own timestamps.
    schema = StructType(
        [StructField(f.name, LongType() if f.name in mapping.raw_times else f.dataType, True) for f in given]
    )
    frame = spark.read.schema(schema).parquet(*locations)
    frame = frame.select("*", expr(_file_name(files)).alias("__file"), expr("_metadata.row_index").alias("__row"))
    for prepared in mapping.steps:
        frame = frame.select("*", *(expr(sql).alias(name) for name, sql in prepared.items()))
    reports = [expr(mapping.columns[name]).alias(name) for name in COLUMNS]
    native = [col(f"`{name}`").alias(alias) for name, alias in mapping.native.items()]
    return frame.select(*reports, *native), tuple(mapping.native.values())


def _file_name(files: Sequence[InputFile]) -> str:
    """The file's name as `InputFile` has it: relative below the current folder."""
    here = Path.cwd()
    folder = Path(os.path.commonpath([Path(file.location).parent for file in files]))
    path = "_metadata.file_path"
    if len(folder.parts) > 1 and not here.is_relative_to(folder) and all(map(_PLAIN.fullmatch, _locations(files))):
        # Evaluated for each row, so the less the better.
        skipped = len(f"{here}/") if folder.is_relative_to(here) else 0
        return f"substr({path}, locate({sql_text(str(folder))}, {path}) + {skipped})"
    # A path comes as a URI; URLDecoder would also turn plus signs into blanks.
    local = f"regexp_replace(url_decode(replace({path}, '+', '%2B')), '^file:/+', '/')"
    below = f"startswith({local}, {sql_text(f'{here}/')})"
    return f"CASE WHEN {below} THEN substr({local}, {len(f'{here}/') + 1}) ELSE {local} END"


def _locations(files: Sequence[InputFile]) -> list[str]:
    return [file.location for file in files]


def sql_text(text: str) -> str:
    """The text as a literal of Spark's SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _spark_path(location: str) -> str:
    escaped = "".join(f"\\{sign}" if sign in _GLOB_SIGNS else sign for sign in location)
    return escaped if "://" in location else f"file://{escaped}"


def union(frames: Frames) -> tuple[DataFrame, tuple[str, ...]]:
    """All rows, with every native column that any frame has; raises `SourceError` where two types do not go together."""
    frame, native = frames[0]
    for other, more in frames[1:]:
        for name in {*native} & {*more}:
            kinds = frame.schema[name].dataType, other.schema[name].dataType
            if kinds[0] != kinds[1]:
                shown = " and ".join(kind.simpleString() for kind in kinds)
                raise SourceError(f"the column {name} is {shown} in different inputs; write it with one type")
        try:
            frame = frame.unionByName(other, allowMissingColumns=True)
        except AnalysisException as error:
            raise SourceError(f"the inputs' columns do not go together: {str(error).partition(chr(10))[0]}") from None
        native = (*native, *(name for name in more if name not in native))
    return frame, native
