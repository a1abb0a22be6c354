"""Attributes of OTLP in JSON, at compiled speed: read, checked and written again as canonical JSON.

Every function gives -1 where it is not sure; then the exact reader must look. What is written is what `json_text` writes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

from whence.sources.json_values import BYTES
from whence.sources.otlp.emit import HEAP_BYTES, TABLE
from whence.sources.otlp.json_texts import after_space, integer, member, packed, put_text, which
from whence.sources.otlp.layout import DOUBLE_BYTES, DOUBLE_HEAP, DOUBLE_START, DOUBLE_STOP, DOUBLES
from whence.sources.otlp.records import (
    BODY,
    DROPPED_ATTRIBUTES,
    DROPPED_EVENTS,
    DROPPED_LINKS,
    EVENT_NAME,
    KEPT_OF_RESOURCE,
    SEVERITY,
    STATUS_TEXT,
    TRACE_STATE,
)

MOST_ATTRIBUTES: Final = 128
MOST_NESTED: Final = 6
"""Arrays and maps inside each other; more are left."""

_QUOTE = 34
_MOST_NUMBER_BYTES = 40

RESERVED: Final = (
    STATUS_TEXT,
    TRACE_STATE,
    DROPPED_ATTRIBUTES,
    DROPPED_EVENTS,
    DROPPED_LINKS,
    SEVERITY,
    BODY,
    EVENT_NAME,
    *KEPT_OF_RESOURCE,
    "whence.process",
)
"""Keys of attributes that mean something to the exact reader, which gets the records that have them."""


_RESERVED, _RESERVED_AT = packed(RESERVED)
_VALUE_KINDS = ("stringValue", "boolValue", "intValue", "doubleValue", "arrayValue", "kvlistValue", "bytesValue")
_KINDS, _KINDS_AT = packed(
    (
        *_VALUE_KINDS,
        "string_value",
        "bool_value",
        "int_value",
        "double_value",
        "array_value",
        "kvlist_value",
        "bytes_value",
    )
)
_KIND_COUNT = len(_VALUE_KINDS)
_STRING, _BOOL, _INT, _DOUBLE, _ARRAY, _PAIRS, _BYTES = range(_KIND_COUNT)
_WORDS, _WORDS_AT = packed(("key", "value", "values", "true", "false", "null"))
_KEY, _VALUE, _VALUES, _TRUE, _FALSE, _NULL = range(6)


@njit(f"UniTuple(int64, 2)({BYTES}, int64, int64)", cache=True, nogil=True)
def _number(data: Any, at: int, end: int) -> tuple[int, int]:
    """Where the number at `at` ends, and 1 if its text is canonical, 2 if with ``.0`` after it, 0 if that is not known."""
    start = at
    at += data[at] == 45
    first = at
    while at < end and 48 <= data[at] <= 57:
        at += 1
    whole = at - first
    if whole == 0 or (whole > 1 and data[first] == 48):
        return -1, 0
    point, decimals = at, 0
    if at < end and data[at] == 46:
        at += 1
        while at < end and 48 <= data[at] <= 57:
            at += 1
        decimals = at - point - 1
        if decimals == 0:
            return -1, 0
    if at < end and (data[at] | 32) == 101:
        at += 1
        if at < end and (data[at] == 43 or data[at] == 45):
            at += 1
        power = at
        while at < end and 48 <= data[at] <= 57:
            at += 1
        # Such as cannot be beyond a double.
        return (at, 0) if 0 < at - power < 3 and at - start < _MOST_NUMBER_BYTES else (-1, 0)
    if at - start > _MOST_NUMBER_BYTES:
        return -1, 0
    if decimals == 0:
        return (at, 2) if whole <= 15 and not (data[first] == 48 and first > start) else (-1, 0)
    if whole + decimals > 15 or (data[at - 1] == 48 and decimals > 1):
        return at, 0
    if data[first] == 48 and decimals > 4 and data[point + 1] == 48 and data[point + 2] == 48:
        return at, 0
    return at, 1


@njit(f"UniTuple(int64, 2)({BYTES}, int64, int64, {HEAP_BYTES}, int64, {TABLE}, int64[::1])", cache=True, nogil=True)
def _put_double(data: Any, at: int, end: int, heap: Any, out: int, doubles: Any, used: Any) -> tuple[int, int]:
    start = at
    at, form = _number(data, at, end)
    if at < 0:
        return -1, out
    if form:
        for i in range(start, at):
            heap[out] = data[i]
            out += 1
        if form == 2:
            heap[out], heap[out + 1] = 46, 48
            out += 2
        return at, out
    if used[DOUBLES] == len(doubles):
        return -1, out
    i = used[DOUBLES]
    doubles[i, DOUBLE_HEAP], doubles[i, DOUBLE_START], doubles[i, DOUBLE_STOP] = out, start, at
    used[DOUBLES] += 1
    heap[out : out + DOUBLE_BYTES] = 0
    return at, out + DOUBLE_BYTES


@njit(f"boolean({HEAP_BYTES}, int64, int64, {TABLE}, int64)", cache=True, nogil=True)
def is_repeated(heap: Any, start: int, stop: int, keys: Any, count: int) -> bool:
    """Whether one of these keys, in the heap, is the same as the one from start to stop."""
    for other in range(count):
        first, last = keys[other, 0], keys[other, 1]
        if last - first == stop - start:
            i = 0
            while i < stop - start and heap[first + i] == heap[start + i]:
                i += 1
            if i == stop - start:
                return True
    return False


@njit(f"boolean({HEAP_BYTES}, int64, int64)", cache=True, nogil=True)
def is_reserved(heap: Any, start: int, stop: int) -> bool:
    """Whether a key is one of `RESERVED`."""
    for name in range(len(_RESERVED_AT) - 1):
        at = _RESERVED_AT[name]
        if _RESERVED_AT[name + 1] - at == stop - start:
            i = 0
            while i < stop - start and heap[start + i] == _RESERVED[at + i]:
                i += 1
            if i == stop - start:
                return True
    return False


_SCANNER = f"UniTuple(int64, 2)({BYTES}, int64, int64, boolean, {HEAP_BYTES}, int64, {TABLE}, int64[::1], int64)"


@njit(_SCANNER, cache=True, nogil=True)
def _put_scalar(
    data: Any, at: int, end: int, utf8: bool, heap: Any, out: int, doubles: Any, used: Any, kind: int
) -> tuple[int, int]:
    """Write what is no array or map, of this kind."""
    start = at
    if kind in (_STRING, _BYTES):
        if data[at] != _QUOTE:
            return -1, out
        heap[out] = _QUOTE
        at, out = put_text(data, at + 1, end, utf8, heap, out + 1, True)
        heap[out] = _QUOTE
        return at, out + 1
    if kind == _INT:
        at, _ = integer(data, at, end)
        quoted = data[start] == _QUOTE
        for i in range(start + quoted, at - quoted):
            heap[out] = data[i]
            out += 1
        return at, out
    if kind == _BOOL:
        while at < end and at - start < 5 and 97 <= data[at] <= 122:
            heap[out] = data[at]
            out += 1
            at += 1
        word = which(data, start, at, _WORDS, _WORDS_AT)
        return (at if word in (_TRUE, _FALSE) else -1), out
    return _put_double(data, at, end, heap, out, doubles, used)


@njit(_SCANNER, cache=True, nogil=True)
def put_value(
    data: Any, at: int, end: int, utf8: bool, heap: Any, out: int, doubles: Any, used: Any, nested: int
) -> tuple[int, int]:
    """Write the ``AnyValue`` at `at`, which is `nested` deep, as a JSON value; gives where it ends, and where the next goes.

    If `nested` is negative, it is a list of pairs, written as members of an object; their values are -1 - `nested` deep.
    """
    if nested >= 0:
        if data[at] != 123 or nested > MOST_NESTED:
            return -1, out
        at, kind = member(data, after_space(data, at + 1, end), end, _KINDS, _KINDS_AT)
        if at < 0 or kind < 0:
            return -1, out
        kind %= _KIND_COUNT
        if kind != _ARRAY and kind != _PAIRS:
            at, out = _put_scalar(data, at, end, utf8, heap, out, doubles, used, kind)
        else:
            # {"values": [...]}
            if data[at] != 123:
                return -1, out
            heap[out] = 91 if kind == _ARRAY else 123
            out += 1
            at = after_space(data, at + 1, end)
            if at < end and data[at] == _QUOTE:
                at, word = member(data, at, end, _WORDS, _WORDS_AT)
                if at < 0 or word != _VALUES or data[at] != 91:
                    return -1, out
                if kind == _PAIRS:
                    at, out = put_value(data, at, end, utf8, heap, out, doubles, used, -2 - nested)
                else:
                    at = after_space(data, at + 1, end)
                    more = at < end and data[at] != 93
                    while more:
                        if at >= end:
                            return -1, out
                        at, out = put_value(data, at, end, utf8, heap, out, doubles, used, nested + 1)
                        if at < 0:
                            return -1, out
                        at = after_space(data, at, end)
                        more = at < end and data[at] == 44
                        if more:
                            heap[out] = 44
                            out += 1
                            at = after_space(data, at + 1, end)
                    if at >= end or data[at] != 93:
                        return -1, out
                    at += 1
                if at < 0:
                    return -1, out
                at = after_space(data, at, end)
            if at >= end or data[at] != 125:
                return -1, out
            at += 1
            heap[out] = 93 if kind == _ARRAY else 125
            out += 1
        if at < 0:
            return -1, out
        at = after_space(data, at, end)
        return (at + 1 if at < end and data[at] == 125 else -1), out
    if data[at] != 91:
        return -1, out
    at = after_space(data, at + 1, end)
    if at < end and data[at] == 93:
        return at + 1, out
    keys = np.empty((MOST_ATTRIBUTES, 2), np.int64)
    for count in range(MOST_ATTRIBUTES):
        if at >= end or data[at] != 123:
            return -1, out
        at, word = member(data, after_space(data, at + 1, end), end, _WORDS, _WORDS_AT)
        if at < 0 or word != _KEY or data[at] != _QUOTE:
            return -1, out
        heap[out] = _QUOTE
        start = out + 1
        at, out = put_text(data, at + 1, end, utf8, heap, start, True)
        if at < 0 or is_repeated(heap, start, out, keys, count) or (nested == -1 and is_reserved(heap, start, out)):
            return -1, out
        keys[count, 0], keys[count, 1] = start, out
        heap[out], heap[out + 1] = _QUOTE, 58
        at = after_space(data, at, end)
        if at >= end or data[at] != 44:
            return -1, out
        at, word = member(data, after_space(data, at + 1, end), end, _WORDS, _WORDS_AT)
        if at < 0 or word != _VALUE:
            return -1, out
        at, out = put_value(data, at, end, utf8, heap, out + 2, doubles, used, -1 - nested)
        if at < 0:
            return -1, out
        at = after_space(data, at, end)
        if at >= end or data[at] != 125:
            return -1, out
        at = after_space(data, at + 1, end)
        if at < end and data[at] == 93:
            return at + 1, out
        if at >= end or data[at] != 44:
            return -1, out
        heap[out] = 44
        out += 1
        at = after_space(data, at + 1, end)
    return -1, out
