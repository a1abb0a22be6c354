"""Rows of reports as the bytes of one message: what stands in a broker between the collector and the stream.

An Arrow stream that holds the columns with a value in them, in the order of `REPORTS`, compressed. Most reports have
values in few columns, and a message holds a hundred reports: columns that are empty would be most of its bytes.
"""

from __future__ import annotations

import pyarrow as pa

from whence.clocks.errors import WhenceError
from whence.events.schema import REPORTS

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class BadPayload(WhenceError):
    """Bytes that are not rows of reports."""


def encode_reports(rows: pa.Table) -> bytes:
    """The bytes of these rows, which have columns of `REPORTS`."""
    kept = [each for each in REPORTS if each.name in rows.column_names and rows[each.name].null_count < len(rows)]
    schema = pa.schema([each.with_nullable(True) for each in kept])
    # Column by column: taking and casting whole tables costs twice as much for a hundred rows.
    columns = [_one(rows[each.name], each.type) for each in kept]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_OPTIONS) as writer:
        writer.write_batch(pa.record_batch(columns, schema))
    return bytes(sink.getvalue())


def _one(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return whole if whole.type == kind else whole.cast(kind)


def decode_reports(payload: bytes) -> pa.Table:
    """The rows that bytes hold, with the columns that have values. Raises `BadPayload`."""
    return check_reports(read_reports(payload))


def read_reports(payload: bytes) -> pa.Table:
    """The rows that bytes hold, which are still to be checked. Raises `BadPayload`."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
            return reader.read_all()
    except (pa.ArrowException, OSError, ValueError) as fault:
        raise BadPayload(f"not rows of reports: {fault}") from None


def check_reports(rows: pa.Table) -> pa.Table:
    """These rows, if their columns are those of reports and whole. Raises `BadPayload`."""
    try:
        wanted = pa.schema([REPORTS.field(name).with_nullable(True) for name in rows.column_names])
        rows.validate(full=True)
    except (pa.ArrowException, KeyError, ValueError) as fault:
        raise BadPayload(f"not rows of reports: {fault}") from None
    if rows.schema != wanted:
        raise BadPayload("the columns are not those of reports")
    return rows
