"""Read Parquet files row group by row group, with bounded memory, from any location that `ledto.sources.files` opens."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ledto.sources.contract import FileSlice, SourceError
from ledto.sources.files import InputFile
from ledto.sources.parquet.columns import Mapping, map_schema
from ledto.sources.parquet.reports import reports_of

PARQUET_SUFFIXES: Final = (".parquet", ".pq")

PART_ROWS: Final = 131_072
"""Rows in memory at most."""
PART_BYTES: Final = 64 << 20
"""Bytes of rows in memory at most; a single row may have more."""
_LEAST_ROWS = 256
"""Rows that are read at once however large their values may be."""
READABLE_CODECS: Final = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4"})
"""Codecs that pyarrow reads. The ``lz4`` of Spark and Hadoop is another codec."""
_BUFFER_BYTES = 1 << 20
"""How much is read at once of each column."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A part of a file that can be read by itself."""

    number: int
    first_row: int
    rows: int
    size_bytes: int
    """Its size in the file, compressed."""


@dataclass(frozen=True, slots=True)
class Footer:
    """The meaning of a file's columns, and its row groups."""

    mapping: Mapping
    groups: tuple[RowGroup, ...]


def read_footer(file: InputFile, unit: str) -> Footer:
    """Read a file's columns and row groups. Raises `SourceError`, which names the file."""
    with _opened(file.piece()) as parquet:
        return _footer(parquet, file.name, unit)


def parquet_schema(file: InputFile, unit: str) -> Mapping:
    """Find out what the columns of a file mean. Raises `SourceError`, which names the file."""
    return read_footer(file, unit).mapping


def row_groups(file: InputFile) -> tuple[RowGroup, ...]:
    """List the row groups of a file that have rows. Raises `SourceError`, which names the file."""
    with _opened(file.piece()) as parquet:
        return _row_groups(parquet.metadata)


def read_parquet_rows(file: InputFile, mapping: Mapping) -> Iterator[pa.Table]:
    """Yield the reports of a file, in order, at most `PART_ROWS` at a time. Raises `SourceError` at damage."""
    with _opened(file.piece(), mapping) as parquet:
        for group in _row_groups(parquet.metadata):
            yield from _read(parquet, group, mapping, file.name)


def read_row_group(file: InputFile, mapping: Mapping, group: RowGroup) -> Iterator[pa.Table]:
    """Yield the reports of one row group of a file, as `read_parquet_rows` does."""
    with _opened(file.piece(), mapping) as parquet:
        yield from _read(parquet, group, mapping, file.name)


def read_piece(piece: FileSlice, unit: str) -> Iterator[tuple[pa.Table, Mapping]]:
    """Yield the reports of a whole file that is given as a piece, with its mapping. Raises `SourceError`."""
    with _opened(piece) as parquet:
        mapping = _footer(parquet, piece.file, unit).mapping
    with _opened(piece, mapping) as parquet:
        for group in _row_groups(parquet.metadata):
            for rows in _read(parquet, group, mapping, piece.file):
                yield rows, mapping


def _check_codecs(metadata: pq.FileMetaData, file: str) -> None:
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for column in map(group.column, range(group.num_columns)):
            if column.compression not in READABLE_CODECS:
                raise SourceError(
                    f"{file} is compressed with {column.compression}, the lz4 of Spark and Hadoop, which no other reader "
                    "reads; write it again with zstd or lz4_raw"
                )


def _footer(parquet: pq.ParquetFile, file: str, unit: str) -> Footer:
    _check_codecs(parquet.metadata, file)
    return Footer(map_schema(parquet.schema_arrow, file, unit), _row_groups(parquet.metadata))


def _row_groups(metadata: pq.FileMetaData) -> tuple[RowGroup, ...]:
    groups, first_row = [], 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if group.num_rows:
            size_bytes = sum(group.column(column).total_compressed_size for column in range(group.num_columns))
            groups.append(RowGroup(number, first_row, group.num_rows, size_bytes))
        first_row += group.num_rows
    return tuple(groups)


def _read(parquet: pq.ParquetFile, group: RowGroup, mapping: Mapping, file: str) -> Iterator[pa.Table]:
    first_row = group.first_row
    rows_at_once = _rows_at_once(parquet.metadata.row_group(group.number), _texts(parquet.schema_arrow))
    for batch in parquet.iter_batches(rows_at_once, row_groups=[group.number], use_threads=False):
        for part in _small_parts(batch):
            yield reports_of(part, mapping, file, first_row)
            first_row += part.num_rows


def _rows_at_once(group: pq.RowGroupMetaData, texts: Sequence[str]) -> int:
    """Choose how many rows of a row group to read at once. The columns `texts` are read as dictionaries.

    Nested and binary columns may be stored as dictionaries, too, but are read without them. One entry may be the value of
    every row, so each of their values counts as if it had the size of the whole column.
    """
    columns = [group.column(number) for number in range(group.num_columns)]
    row_bytes = group.total_byte_size // max(1, group.num_rows)
    row_bytes += sum(
        column.total_uncompressed_size
        for column in columns
        if column.has_dictionary_page and column.physical_type == "BYTE_ARRAY" and column.path_in_schema not in texts
    )
    return int(min(PART_ROWS, max(_LEAST_ROWS, PART_BYTES // max(1, row_bytes))))


def _texts(schema: pa.Schema) -> list[str]:
    """List the columns to read as dictionaries: each value is then in memory once, however often it occurs."""
    return [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_dictionary(field.type)]


def _small_parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch so that no part has much more than `PART_BYTES` once its dictionaries are decoded."""
    sizes = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) and len(column.dictionary):
            lengths = pc.binary_length(column.dictionary).fill_null(0).to_numpy(zero_copy_only=False)
            sizes += lengths[column.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    if sizes.sum() <= PART_BYTES:
        yield batch
        return
    # A part ends with the row that fills it.
    parts = (np.cumsum(sizes) - sizes) // PART_BYTES
    starts = np.flatnonzero(np.diff(parts, prepend=-1)).tolist()
    for start, stop in itertools.pairwise([*starts, batch.num_rows]):
        yield batch.slice(start, stop - start)


@contextmanager
def _opened(piece: FileSlice, mapping: Mapping | None = None) -> Iterator[pq.ParquetFile]:
    try:
        with closing(piece.open_at(0)) as stream:
            parquet = parquet_file(stream, read_dictionary=[])
            if mapping is not None:
                parquet = parquet_file(stream, read_dictionary=_texts(parquet.schema_arrow))
            yield parquet
    except (OSError, pa.ArrowException) as error:
        cause = str(error).partition("\n")[0].rstrip(".")
        raise SourceError(
            f"{piece.file} cannot be read as Parquet: {cause}. Write it again, or leave it out of the inputs"
        ) from None


def parquet_file(stream: Any, *, read_dictionary: Sequence[str]) -> pq.ParquetFile:
    """Open a Parquet file. Timestamps of 96 bits become microseconds: nanoseconds only reach from 1677 to 2262."""
    return pq.ParquetFile(
        stream,
        read_dictionary=[*read_dictionary],
        coerce_int96_timestamp_unit="us",
        pre_buffer=False,
        buffer_size=_BUFFER_BYTES,
    )
