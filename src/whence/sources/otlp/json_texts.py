"""Texts, names and integers in JSON, at compiled speed, for the scanner of OTLP.

Every function gives -1 where it is not sure; then the exact reader must look. What is written is what `json_text` writes.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

from whence.sources.json_values import BYTES
from whence.sources.otlp.emit import HEAP_BYTES

PLACES: Final = "Array(int64, 1, 'C', True)"
"""Integers that are not written to, as numba spells it."""

signed: Any = np.int64
"""For bytes that are calculated with: numba's ``int`` of one has no sign, and with signed integers gives a float."""

_QUOTE, _BACKSLASH = 34, 92


def packed(names: tuple[str, ...]) -> tuple[Any, Any]:
    """Names one after the other, and where each ends."""
    texts = [name.encode() for name in names]
    return np.frombuffer(b"".join(texts), np.uint8), np.cumsum([0, *map(len, texts)]).astype(np.int64)


@njit(f"int64({BYTES}, int64, int64)", cache=True, nogil=True)
def after_space(data: Any, at: int, end: int) -> int:
    """The first byte from `at` on that is no blank, or `end`."""
    while at < end and (data[at] == 32 or data[at] == 10 or data[at] == 13 or data[at] == 9):
        at += 1
    return at


@njit(f"int64({BYTES}, int64, int64, {BYTES}, {PLACES})", cache=True, nogil=True)
def which(data: Any, start: int, stop: int, names: Any, names_at: Any) -> int:
    """Which of these names this is, or -1."""
    length = stop - start
    for name in range(len(names_at) - 1):
        at = names_at[name]
        if names_at[name + 1] - at == length:
            i = 0
            while i < length and data[start + i] == names[at + i]:
                i += 1
            if i == length:
                return name
    return -1


@njit(f"int64({BYTES}, int64, int64)", cache=True, nogil=True)
def key_end(data: Any, at: int, end: int) -> int:
    """Where the plain key ends whose first character is at `at`: at its quote."""
    while at < end and data[at] != _QUOTE:
        if data[at] == _BACKSLASH or data[at] < 32 or data[at] > 126:
            return -1
        at += 1
    return at if at < end else -1


@njit(f"int64({BYTES}, int64, int64)", cache=True, nogil=True)
def after_colon(data: Any, at: int, end: int) -> int:
    """Where the value begins of the key whose quote is at `at`."""
    at = after_space(data, at + 1, end)
    if at >= end or data[at] != 58:
        return -1
    at = after_space(data, at + 1, end)
    return at if at < end else -1


@njit(f"int64({BYTES}, int64, int64)", cache=True, nogil=True)
def _hex4(data: Any, at: int, end: int) -> int:
    if at + 4 > end:
        return -1
    value = 0
    for i in range(at, at + 4):
        byte = data[i]
        if 48 <= byte <= 57:
            digit = signed(byte) - 48
        elif 97 <= (byte | 32) <= 102:
            digit = signed(byte | 32) - 87
        else:
            return -1
        value = value * 16 + digit
    return value


@njit(f"int64({HEAP_BYTES}, int64, int64, boolean)", cache=True, nogil=True)
def put_character(heap: Any, out: int, code: int, escaped: bool) -> int:
    """Write one character of text, as it stands in JSON or as it is; gives where the next one goes."""
    if escaped and (code < 32 or code in (_QUOTE, _BACKSLASH)):
        heap[out] = _BACKSLASH
        if code in (_QUOTE, _BACKSLASH):
            heap[out + 1] = code
        elif code == 10:
            heap[out + 1] = 110
        elif code == 9:
            heap[out + 1] = 116
        elif code == 13:
            heap[out + 1] = 114
        elif code == 8:
            heap[out + 1] = 98
        elif code == 12:
            heap[out + 1] = 102
        else:
            heap[out + 1], heap[out + 2], heap[out + 3], heap[out + 4] = 117, 48, 48, 48 + (code >> 4)
            heap[out + 5] = 48 + (code & 15) if (code & 15) < 10 else 87 + (code & 15)
            return out + 6
        return out + 2
    if code < 0x80:
        heap[out] = code
        return out + 1
    if code < 0x800:
        heap[out] = 0xC0 | (code >> 6)
    elif code < 0x10000:
        heap[out] = 0xE0 | (code >> 12)
        out += 1
        heap[out] = 0x80 | ((code >> 6) & 63)
    else:
        heap[out], heap[out + 1] = 0xF0 | (code >> 18), 0x80 | ((code >> 12) & 63)
        out += 2
        heap[out] = 0x80 | ((code >> 6) & 63)
    heap[out + 1] = 0x80 | (code & 63)
    return out + 2


@njit(f"UniTuple(int64, 2)({BYTES}, int64, int64, boolean, {HEAP_BYTES}, int64, boolean)", cache=True, nogil=True)
def put_text(data: Any, at: int, end: int, utf8: bool, heap: Any, out: int, escaped: bool) -> tuple[int, int]:
    """Write the text whose first character is at `at`; gives where it ends, after its quote, and where the next one goes.

    As JSON, `escaped`, without its quotes; or as it is, when NUL is left.
    """
    while at < end:
        byte = data[at]
        if byte == _QUOTE:
            return at + 1, out
        if byte < 32 or (byte > 127 and not utf8):
            return -1, out
        if byte != _BACKSLASH:
            heap[out] = byte
            out += 1
            at += 1
            continue
        if at + 1 >= end:
            return -1, out
        byte = data[at + 1]
        at += 2
        code = signed(byte)
        if byte == 117:
            code = _hex4(data, at, end)
            at += 4
            if 0xD800 <= code < 0xDC00 and at + 1 < end and data[at] == _BACKSLASH and data[at + 1] == 117:
                low = _hex4(data, at + 2, end)
                if low < 0xDC00 or low > 0xDFFF:
                    return -1, out
                code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
                at += 6
            if code < 0 or 0xD800 <= code <= 0xDFFF or (code == 0 and not escaped):
                return -1, out
        elif byte == 98:
            code = 8
        elif byte == 102:
            code = 12
        elif byte == 110:
            code = 10
        elif byte == 114:
            code = 13
        elif byte == 116:
            code = 9
        elif byte not in {_QUOTE, _BACKSLASH, 47}:
            return -1, out
        out = put_character(heap, out, code, escaped)
    return -1, out


@njit(f"UniTuple(int64, 2)({BYTES}, int64, int64)", cache=True, nogil=True)
def integer(data: Any, at: int, end: int) -> tuple[int, int]:
    """Where the integer at `at` ends, a number or a text of one, and its value; canonical ones of 64 bits only."""
    quoted = data[at] == _QUOTE
    at += quoted
    negative = at < end and data[at] == 45
    at += negative
    first, value = at, 0
    while at < end and 48 <= data[at] <= 57 and at - first < 20:
        value = value * 10 + (signed(data[at]) - 48)
        at += 1
    digits = at - first
    # With 19 digits, those that begin with 9 may be beyond 64 bits.
    if digits == 0 or digits > 19 or (digits == 19 and data[first] == 57):
        return -1, 0
    if data[first] == 48 and (digits > 1 or negative):
        return -1, 0
    if at >= end:
        return -1, 0
    if quoted:
        if data[at] != _QUOTE:
            return -1, 0
        at += 1
    elif data[at] == 46 or (data[at] | 32) == 101:
        return -1, 0
    return at, -value if negative else value


@njit(f"UniTuple(int64, 2)({BYTES}, int64, int64, {BYTES}, {PLACES})", cache=True, nogil=True)
def member(data: Any, at: int, end: int, names: Any, names_at: Any) -> tuple[int, int]:
    """Where the value of the member at `at` begins, and which of these names its key is, or -1."""
    if at >= end or data[at] != _QUOTE:
        return -1, -1
    stop = key_end(data, at + 1, end)
    if stop < 0:
        return -1, -1
    return after_colon(data, stop, end), which(data, at + 1, stop, names, names_at)
