"""How much memory an Arrow stream asks for, seen before any of it is taken.

Buffers of a stream may be compressed one by one, each with its size after decompression before it: a few bytes can ask for
gigabytes. The place of the buffers is in a flatbuffer whose layout is given by Arrow's ``Message.fbs``; only the fields
that lead to them are read here.
"""

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa

from whence.service.limits import Limits, Refused, too_large

MOST_BATCHES: Final = 1_000

_MESSAGE_HEADER: Final = 2
_BATCH_BUFFERS: Final = 2
_BATCH_COMPRESSION: Final = 3
_BUFFER_BYTES: Final = 16


def check_sizes(body: bytes, limits: Limits) -> None:
    """Raise `Refused` for what is no Arrow stream, has dictionaries, or would need more than the limit."""
    needed_bytes = batches = 0
    try:
        for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(body)):
            if message.type == "dictionary":
                raise Refused(400, "not-arrow", "columns with dictionaries are not taken: cast them to text")
            if message.type != "record batch":
                continue
            batches += 1
            if batches > MOST_BATCHES:
                raise too_large("record batches of a body", MOST_BATCHES)
            needed_bytes += _decompressed_bytes(bytes(message.metadata), memoryview(message.body or b""))
            if needed_bytes > limits.body_bytes:
                raise too_large("bytes of a body after decompression", limits.body_bytes)
    except (pa.ArrowException, OSError, ValueError, struct.error):
        raise not_arrow() from None


def not_arrow() -> Refused:
    """The refusal of bytes that are no Arrow stream."""
    return Refused(400, "not-arrow", "the body is no Arrow IPC stream, or is torn")


def _decompressed_bytes(metadata: bytes, body: memoryview) -> int:
    header = _followed(metadata, _field(metadata, _number("<I", metadata, 0), _MESSAGE_HEADER))
    if _field(metadata, header, _BATCH_COMPRESSION) is None:
        return 0
    buffers = _followed(metadata, _field(metadata, header, _BATCH_BUFFERS))
    total = 0
    for number in range(_number("<I", metadata, buffers)):
        at = buffers + 4 + number * _BUFFER_BYTES
        offset, length = _number("<q", metadata, at), _number("<q", metadata, at + 8)
        if length:
            total += max(_number("<q", body, offset), 0)
    return total


def _field(data: bytes, table: int, number: int) -> int | None:
    """Where a field of a table stands, or none if it is left out."""
    directory = table - _number("<i", data, table)
    entry = 4 + 2 * number
    if entry >= _number("<H", data, directory):
        return None
    offset = _number("<H", data, directory + entry)
    return table + offset if offset else None


def _followed(data: bytes, at: int | None) -> int:
    if at is None:
        raise ValueError("a message without what it must have")
    return at + _number("<I", data, at)


def _number(form: str, data: bytes | memoryview, at: int) -> int:
    # A negative place would count from the end.
    if at < 0:
        raise ValueError("a place before the beginning")
    return int(struct.unpack_from(form, data, at)[0])
