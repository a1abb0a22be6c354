"""What a record's attributes get beyond its own, written at compiled speed; both scanners of OTLP share it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from whence.sources.otlp.emit import HEAP_BYTES
from whence.sources.otlp.records import (
    BODY,
    DROPPED_ATTRIBUTES,
    DROPPED_EVENTS,
    DROPPED_LINKS,
    EVENT_NAME,
    NAME_LIMIT_CHARACTERS,
    SEVERITIES,
    SEVERITY,
    STATUS_TEXT,
    TRACE_STATE,
)

_KEYS = [
    f'"{name}":'.encode()
    for name in (
        TRACE_STATE,
        DROPPED_ATTRIBUTES,
        DROPPED_EVENTS,
        DROPPED_LINKS,
        STATUS_TEXT,
        SEVERITY,
        BODY,
        EVENT_NAME,
    )
]
(
    ADD_TRACE_STATE,
    ADD_DROPPED_ATTRIBUTES,
    ADD_DROPPED_EVENTS,
    ADD_DROPPED_LINKS,
    ADD_STATUS_TEXT,
    ADD_SEVERITY,
    ADD_BODY,
    ADD_EVENT_NAME,
) = range(8)
_KEY_TEXT = np.frombuffer(b"".join(_KEYS), np.uint8)
_KEY_AT = np.cumsum([0, *map(len, _KEYS)]).astype(np.int64)
_SEVERITIES = [f'"{name}"'.encode() for name in SEVERITIES]
_SEVERITY_TEXT = np.frombuffer(b"".join(_SEVERITIES), np.uint8)
_SEVERITY_AT = np.cumsum([0, *map(len, _SEVERITIES)]).astype(np.int64)


@njit(f"int64({HEAP_BYTES}, int64, int64, int64)", cache=True, nogil=True)
def put_key(heap: Any, start: int, out: int, key: int) -> int:
    """Write a key and its colon, after a comma unless it is the first since `start`."""
    if out > start:
        heap[out] = 44
        out += 1
    for i in range(_KEY_AT[key], _KEY_AT[key + 1]):
        heap[out] = _KEY_TEXT[i]
        out += 1
    return out


@njit(f"int64({HEAP_BYTES}, int64, int64)", cache=True, nogil=True)
def put_integer(heap: Any, out: int, value: int) -> int:
    """Write an integer in decimal; not the least of 64 bits, whose negative is none."""
    if value < 0:
        heap[out] = 45
        out += 1
    first, rest = out, abs(value)
    while rest >= 10:
        heap[out] = 48 + rest % 10
        rest //= 10
        out += 1
    heap[out] = 48 + rest
    last = out
    while first < last:
        heap[first], heap[last] = heap[last], heap[first]
        first += 1
        last -= 1
    return out + 1


@njit(f"int64({HEAP_BYTES}, int64, int64, int64, int64)", cache=True, nogil=True)
def put_count(heap: Any, start: int, out: int, key: int, count: int) -> int:
    """Write a count that is not 0."""
    return put_integer(heap, put_key(heap, start, out, key), count) if count else out


@njit(f"int64({HEAP_BYTES}, int64, int64)", cache=True, nogil=True)
def put_severity(heap: Any, out: int, number: int) -> int:
    """Write the name of a severity, quoted."""
    for i in range(_SEVERITY_AT[number], _SEVERITY_AT[number + 1]):
        heap[out] = _SEVERITY_TEXT[i]
        out += 1
    return out


@njit(f"boolean({HEAP_BYTES}, int64, int64, int64, int64)", cache=True, nogil=True)
def same_texts(heap: Any, a: int, a_bytes: int, b: int, b_bytes: int) -> bool:
    """Whether two texts in the heap are the same."""
    if a_bytes != b_bytes:
        return False
    i = 0
    while i < a_bytes and heap[a + i] == heap[b + i]:
        i += 1
    return i == a_bytes


@njit(f"int64({HEAP_BYTES}, int64, int64)", cache=True, nogil=True)
def shown_bytes(heap: Any, start: int, stop: int) -> int:
    """How much of a text is its first line, cut at the limit of a name; -1 where that is not so simple."""
    characters, at = 0, start
    is_blank = True
    while at < stop and heap[at] != 10:
        if heap[at] == 13:
            return -1
        if heap[at] & 0xC0 != 0x80:
            if characters == NAME_LIMIT_CHARACTERS:
                break
            characters += 1
        if 32 < heap[at] < 127:
            is_blank = False
        at += 1
    # Whether the rest of the line ends with a return does not matter: it is cut off.
    return -1 if is_blank else at - start
