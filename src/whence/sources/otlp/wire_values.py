"""Fields, texts and attributes of OTLP in protobuf, at compiled speed: read, checked and written as canonical JSON.

Every function gives -1 where it is not sure; then the exact reader must look. What is written is what `json_text` writes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from whence.sources.json_values import BYTES
from whence.sources.otlp.emit import HEAP_BYTES, TABLE
from whence.sources.otlp.json_attributes import MOST_ATTRIBUTES, MOST_NESTED, is_repeated, is_reserved
from whence.sources.otlp.json_texts import put_character, signed
from whence.sources.otlp.layout import DOUBLE_BYTES, DOUBLE_HEAP, DOUBLE_START, DOUBLE_STOP, DOUBLES
from whence.sources.otlp.more import put_integer
from whence.sources.otlp.wire import FIXED32, FIXED64, LENGTH, VARINT

_QUOTE, _BACKSLASH = 34, 92
_LEAST = -(1 << 63)
_STRING, _BOOL, _INT, _DOUBLE, _ARRAY, _PAIRS = range(1, 7)
_TRUE = np.frombuffer(b"true", np.uint8)
_FALSE = np.frombuffer(b"false", np.uint8)


@njit(f"UniTuple(int64, 2)({BYTES}, int64, int64)", cache=True, nogil=True)
def varint(data: Any, at: int, end: int) -> tuple[int, int]:
    """The position after the number, and the number, cut to 64 bits."""
    value, shift = 0, 0
    while at < end and shift < 70:
        byte = signed(data[at])
        at += 1
        if shift < 64:
            value |= (byte & 127) << shift
        if byte < 128:
            return at, value
        shift += 7
    return -1, 0


@njit(f"UniTuple(int64, 5)({BYTES}, int64, int64)", cache=True, nogil=True)
def field(data: Any, at: int, end: int) -> tuple[int, int, int, int, int]:
    """The position after the field at `at`; its number, wire type, where its value begins, and the value of a varint."""
    at, tag = varint(data, at, end)
    if at < 0 or tag < 8:
        return -1, 0, 0, 0, 0
    number, wire = tag >> 3, tag & 7
    value = 0
    start = at
    if wire == LENGTH:
        start, length = varint(data, at, end)
        if start < 0 or length < 0 or length > end - start:
            return -1, 0, 0, 0, 0
        at = start + length
    elif wire == VARINT:
        at, value = varint(data, at, end)
    elif wire in (FIXED64, FIXED32):
        at += 8 if wire == FIXED64 else 4
    else:
        return -1, 0, 0, 0, 0
    if at < 0 or at > end:
        return -1, 0, 0, 0, 0
    return at, number, wire, start, value


@njit(f"int64({BYTES}, int64)", cache=True, nogil=True)
def fixed64(data: Any, at: int) -> int:
    """The number in the 8 bytes at `at`, the lowest first."""
    value = 0
    for i in range(7, -1, -1):
        value = (value << 8) | signed(data[at + i])
    return value


@njit(f"int64({BYTES}, int64)", cache=True, nogil=True)
def id64(data: Any, at: int) -> int:
    """The id in the 8 bytes at `at`, the highest first."""
    value = 0
    for i in range(8):
        value = (value << 8) | signed(data[at + i])
    return value


@njit(f"int64({BYTES}, int64, int64)", cache=True, nogil=True)
def _character_bytes(data: Any, at: int, stop: int) -> int:
    """How many bytes the character at `at` has, which is beyond ASCII; -1 where it is none."""
    lead = data[at]
    if 0xC2 <= lead <= 0xDF:
        size = 2
    elif 0xE0 <= lead <= 0xEF:
        size = 3
    elif 0xF0 <= lead <= 0xF4:
        size = 4
    else:
        return -1
    if at + size > stop:
        return -1
    for i in range(at + 1, at + size):
        if data[i] & 0xC0 != 0x80:
            return -1
    second = data[at + 1]
    if (lead == 0xE0 and second < 0xA0) or (lead == 0xED and second > 0x9F):
        return -1
    if (lead == 0xF0 and second < 0x90) or (lead == 0xF4 and second > 0x8F):
        return -1
    return size


@njit(f"int64({BYTES}, int64, int64, {HEAP_BYTES}, int64, boolean)", cache=True, nogil=True)
def put_text(data: Any, at: int, stop: int, heap: Any, out: int, escaped: bool) -> int:
    """Write a text; gives where the next one goes. As JSON, `escaped`, with its quotes; or as it is, when NUL is left."""
    if escaped:
        heap[out] = _QUOTE
        out += 1
    while at < stop:
        byte = data[at]
        if byte > 127:
            size = _character_bytes(data, at, stop)
            if size < 0:
                return -1
            for i in range(at, at + size):
                heap[out] = data[i]
                out += 1
            at += size
            continue
        if byte < 32 or byte in (_QUOTE, _BACKSLASH):
            if byte == 0 and not escaped:
                return -1
            out = put_character(heap, out, signed(byte), escaped)
        else:
            heap[out] = byte
            out += 1
        at += 1
    if escaped:
        heap[out] = _QUOTE
        out += 1
    return out


@njit(
    f"UniTuple(int64, 2)({BYTES}, int64, int64, {HEAP_BYTES}, int64, {TABLE}, int64[::1], int64)",
    cache=True,
    nogil=True,
)
def put_value(
    data: Any, at: int, stop: int, heap: Any, out: int, doubles: Any, used: Any, nested: int
) -> tuple[int, int]:
    """Write the ``AnyValue`` that fills these bytes, which is `nested` deep, as a JSON value; gives where the next goes.

    If `nested` is negative, it is a pair, written as a member of an object, whose value is -1 - `nested` deep; then where
    the key ends is given too.
    """
    if nested < 0:
        at, number, wire, start, _ = field(data, at, stop)
        if at < 0 or number != 1 or wire != LENGTH:
            return -1, 0
        out = put_text(data, start, at, heap, out, True)
        if out < 0:
            return -1, 0
        key_stop = out - 1
        heap[out] = 58
        at, number, wire, start, _ = field(data, at, stop)
        if at != stop or number != 2 or wire != LENGTH:
            return -1, 0
        out, _ = put_value(data, start, stop, heap, out + 1, doubles, used, -1 - nested)
        return out, key_stop
    after, kind, wire, start, value = field(data, at, stop)
    if after != stop or nested > MOST_NESTED:
        return -1, 0
    if kind == _STRING and wire == LENGTH:
        return put_text(data, start, stop, heap, out, True), 0
    if kind == _INT and wire == VARINT and value != _LEAST:
        return put_integer(heap, out, value), 0
    if kind == _BOOL and wire == VARINT:
        word = _TRUE if value else _FALSE
        for i in range(len(word)):
            heap[out + i] = word[i]
        return out + len(word), 0
    if kind == _DOUBLE and wire == FIXED64:
        is_finite = (fixed64(data, start) >> 52) & 0x7FF != 0x7FF
        if not is_finite or used[DOUBLES] == len(doubles):
            return -1, 0
        i = used[DOUBLES]
        doubles[i, DOUBLE_HEAP], doubles[i, DOUBLE_START], doubles[i, DOUBLE_STOP] = out, start, stop
        used[DOUBLES] += 1
        heap[out : out + DOUBLE_BYTES] = 0
        return out + DOUBLE_BYTES, 0
    if (kind != _ARRAY and kind != _PAIRS) or wire != LENGTH:
        return -1, 0
    heap[out] = 91 if kind == _ARRAY else 123
    out += 1
    keys = np.empty((MOST_ATTRIBUTES, 2), np.int64)
    count = 0
    at = start
    while at < stop:
        at, number, wire, start, _ = field(data, at, stop)
        if at < 0 or number != 1 or wire != LENGTH:
            return -1, 0
        if count:
            heap[out] = 44
            out += 1
        before = out
        out, key_stop = put_value(
            data, start, at, heap, out, doubles, used, nested + 1 if kind == _ARRAY else -2 - nested
        )
        if out < 0:
            return -1, 0
        if kind == _PAIRS:
            if count == MOST_ATTRIBUTES or is_repeated(heap, before + 1, key_stop, keys, count):
                return -1, 0
            keys[count, 0], keys[count, 1] = before + 1, key_stop
        count += 1
    heap[out] = 93 if kind == _ARRAY else 125
    return out + 1, 0


@njit(
    f"int64({BYTES}, int64, int64, {HEAP_BYTES}, int64, int64, {TABLE}, int64[::1], {TABLE}, int64)",
    cache=True,
    nogil=True,
)
def put_attribute(
    data: Any, at: int, stop: int, heap: Any, first: int, out: int, doubles: Any, used: Any, keys: Any, count: int
) -> int:
    """Write the attribute that fills these bytes, after `count` others that begin at `first`; gives where the next goes."""
    if count == len(keys):
        return -1
    if out > first:
        heap[out] = 44
        out += 1
    start = out + 1
    out, key_stop = put_value(data, at, stop, heap, out, doubles, used, -1)
    if out < 0 or is_repeated(heap, start, key_stop, keys, count) or is_reserved(heap, start, key_stop):
        return -1
    keys[count, 0], keys[count, 1] = start, key_stop
    return out
