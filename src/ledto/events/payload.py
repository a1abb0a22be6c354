"""Encode rows of reports as the bytes of one broker message, from the collector to the stream.

A compressed Arrow stream with only those columns that have a value, in the order of `REPORTS`. Most reports have values
in few columns, and a message has a hundred reports: empty columns would be most of its bytes.
"""

from __future__ import annotations

import pyarrow as pa

from ledto.errors import LedtoError
from ledto.events.schema import REPORTS

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class BadPayload(LedtoError):
    """Bytes that are not rows of reports."""


def encode_reports(rows: pa.Table) -> bytes:
    """Encode these rows, which have columns of `REPORTS`."""
    kept = [field for field in REPORTS if field.name in rows.column_names and rows[field.name].null_count < len(rows)]
    schema = pa.schema([field.with_nullable(True) for field in kept])
    # Column by column: taking and casting whole tables costs twice as much for a hundred rows.
    columns = [_to_array(rows[field.name], field.type) for field in kept]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=_OPTIONS) as writer:
        writer.write_batch(pa.record_batch(columns, schema))
    return bytes(sink.getvalue())


def _to_array(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    whole = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return whole if whole.type == kind else whole.cast(kind)


def decode_reports(payload: bytes) -> pa.Table:
    """Read rows, with the columns that have values, and check them. Raises `BadPayload`."""
    return check_reports(read_reports(payload))


def read_reports(payload: bytes) -> pa.Table:
    """Read rows without checking them; call `check_reports` next. Raises `BadPayload`."""
    try:
        with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
            return reader.read_all()
    except (pa.ArrowException, OSError, ValueError) as fault:
        raise _bad_payload(str(fault)) from None


def check_reports(rows: pa.Table) -> pa.Table:
    """Return the rows if their columns are those of reports and intact. Raises `BadPayload`."""
    try:
        wanted = pa.schema([REPORTS.field(name).with_nullable(True) for name in rows.column_names])
        rows.validate(full=True)
    except (pa.ArrowException, KeyError, ValueError) as fault:
        raise _bad_payload(str(fault)) from None
    if rows.schema != wanted:
        # By place: a sender may have named two columns alike.
        field, expected = next(pair for pair in zip(rows.schema, wanted, strict=True) if pair[0] != pair[1])
        kind = f"{field.type}{'' if field.nullable else ' not null'}"
        raise _bad_payload(f"column {field.name} is {kind}, not {expected.type}")
    return rows


def _bad_payload(what: str) -> BadPayload:
    return BadPayload(f"a broker message is not Arrow rows of reports ({what}): was it published by another version?")
