"""Columns of rows from the table of scanned records, at compiled speed: what `span_rows` gives, span by span."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

from whence.sources.otlp.layout import (
    ATTRIBUTES,
    ATTRIBUTES_BYTES,
    DOUBLE_COUNT,
    END,
    FAILED,
    FIRST_MOMENT,
    KIND,
    LINK_HIGH,
    LINK_LOW,
    LINK_SPAN,
    LINKS,
    MOMENT_ATTRIBUTES,
    MOMENT_ATTRIBUTES_BYTES,
    MOMENT_COUNT,
    MOMENT_NAME,
    MOMENT_NAME_BYTES,
    MOMENT_TIME,
    MORE,
    MORE_BYTES,
    NAME,
    NAME_BYTES,
    PARENT,
    PLACE,
    RESOURCE,
    SPAN,
    STATUS,
    TAKEN_LOG,
    TAKEN_SPAN,
    TIME,
    TRACE_HIGH,
    TRACE_LOW,
)
from whence.sources.otlp.records import KINDS as KINDS_OF_SPANS
from whence.sources.otlp.records import UNNAMED_MOMENT, kind_attributes
from whence.sources.spans import CLIENT, CONSUMER, PRODUCER, SERVER

HEAP_BYTES: Final = "uint8[::1]"
TABLE: Final = "int64[:, ::1]"

# Columns of text, each with a buffer of its own.
COMPUTATION, SENDS, RECEIVES, ID, KEY, PARENT_KEY, ROW_NAME, ROW_ATTRIBUTES, TEXTS = range(9)
# Columns of numbers.
ROW_TIME, ROW_PLACE, ROW_RESOURCE, ROW_KIND, ROW_PHASE, ROW_NAMED, NUMBERS = range(7)
# As in KINDS and PHASES of the schema, and none.
_LOCAL, _SEND, _RECEIVE = range(3)
_START, _END, _ANSWERS, _AWAITS, _BETWEEN = range(5)

_SPAN_PREFIX = np.frombuffer(b"span ", np.uint8)
_STARTS = np.frombuffer(b" starts", np.uint8)
_ENDS = np.frombuffer(b" ends", np.uint8)
_FAILS = np.frombuffer(b" fails", np.uint8)
_UNNAMED = np.frombuffer(UNNAMED_MOMENT.encode(), np.uint8)
_SLASH_START = np.frombuffer(b"/start", np.uint8)
_KIND_TEXTS = [kind_attributes(kind).encode() for kind in KINDS_OF_SPANS]
_KIND_TEXT = np.frombuffer(b"".join(_KIND_TEXTS), np.uint8)
_KIND_AT = np.cumsum([0, *map(len, _KIND_TEXTS)]).astype(np.int64)
_SERVER, _CLIENT, _PRODUCER, _CONSUMER = (KINDS_OF_SPANS.index(kind) for kind in (SERVER, CLIENT, PRODUCER, CONSUMER))

FIXED_BYTES: Final = 54
"""The longest text of a column other than name and attributes: ``span``, a trace, a slash, a span."""
ADDED_BYTES: Final = 64
"""What a row's name or attributes may have beyond the texts of its record."""


@njit(f"void({TABLE}, {TABLE}, int64, int64[::1], int64[::1], int64[::1])", cache=True, nogil=True)
def measure(records: Any, moments: Any, count: int, kept_at: Any, rows_of: Any, totals: Any) -> None:
    """How many rows each record has; all rows, bytes of names and bytes of attributes, at most, in `totals`."""
    rows, names, attributes = 0, 0, 0
    for i in range(count):
        rows_of[i] = 0
        if records[i, STATUS] != TAKEN_SPAN and records[i, STATUS] != TAKEN_LOG:
            continue
        own = 1
        if records[i, STATUS] == TAKEN_SPAN:
            own += records[i, MOMENT_COUNT] + (records[i, END] != 0)
            for j in range(records[i, FIRST_MOMENT], records[i, FIRST_MOMENT] + records[i, MOMENT_COUNT]):
                names += moments[j, MOMENT_NAME_BYTES]
                attributes += moments[j, MOMENT_ATTRIBUTES_BYTES]
        resource = records[i, RESOURCE]
        rows_of[i] = own
        rows += own
        names += 2 * max(records[i, NAME_BYTES], 0)
        attributes += records[i, ATTRIBUTES_BYTES] + records[i, MORE_BYTES] + kept_at[resource + 1] - kept_at[resource]
    totals[0], totals[1], totals[2] = rows, names + rows * ADDED_BYTES, attributes + rows * ADDED_BYTES


@njit(f"int64({HEAP_BYTES}, int64, int64)", cache=True, nogil=True)
def _put_hex(out: Any, at: int, value: int) -> int:
    for shift in range(60, -1, -4):
        digit = (value >> shift) & 15
        out[at] = 48 + digit if digit < 10 else 87 + digit
        at += 1
    return at


@njit(f"int64({HEAP_BYTES}, int64, Array(uint8, 1, 'C', True), int64, int64)", cache=True, nogil=True)
def _put_constant(out: Any, at: int, text: Any, start: int, stop: int) -> int:
    for i in range(start, stop):
        out[at] = text[i]
        at += 1
    return at


@njit(f"int64({HEAP_BYTES}, int64, {HEAP_BYTES}, int64, int64)", cache=True, nogil=True)
def _put(out: Any, at: int, heap: Any, start: int, length: int) -> int:
    for i in range(length):
        out[at + i] = heap[start + i]
    return at + length


@njit(f"int64({HEAP_BYTES}, int64, {HEAP_BYTES}, int64, int64)", cache=True, nogil=True)
def _put_without_zeros(out: Any, at: int, heap: Any, start: int, length: int) -> int:
    for i in range(start, start + length):
        if heap[i]:
            out[at] = heap[i]
            at += 1
    return at


@njit(f"int64({HEAP_BYTES}, int64, {HEAP_BYTES}, int64, int64, boolean)", cache=True, nogil=True)
def _put_members(out: Any, at: int, heap: Any, start: int, length: int, zeros: bool) -> int:
    """Members of an object, after a comma unless they are its first."""
    if length <= 0:
        return at
    if out[at - 1] != 123:
        out[at] = 44
        at += 1
    return _put_without_zeros(out, at, heap, start, length) if zeros else _put(out, at, heap, start, length)


@njit(
    f"int64({TABLE}, {TABLE}, int64, {HEAP_BYTES}, {HEAP_BYTES}, int64[::1], {TABLE}, int32[:, ::1], "
    f"{HEAP_BYTES}, {HEAP_BYTES}, {HEAP_BYTES}, {HEAP_BYTES}, {HEAP_BYTES}, {HEAP_BYTES}, {HEAP_BYTES}, {HEAP_BYTES})",
    cache=True,
    nogil=True,
)
def put_rows(
    records: Any,
    moments: Any,
    count: int,
    heap: Any,
    kept: Any,
    kept_at: Any,
    numbers: Any,
    ends: Any,
    computation: Any,
    sends: Any,
    receives: Any,
    ids: Any,
    keys: Any,
    parents: Any,
    names: Any,
    attributes: Any,
) -> int:
    """Write the rows of the records that were taken; ``ends[column, row + 1]`` is where a text ends. Gives their count."""
    row = 0
    at_computation, at_sends, at_receives, at_id, at_key, at_parent, at_name, at_attributes = 0, 0, 0, 0, 0, 0, 0, 0
    for i in range(count):
        status = records[i, STATUS]
        if status != TAKEN_SPAN and status != TAKEN_LOG:
            continue
        is_span = status == TAKEN_SPAN
        high, low, span, kind = records[i, TRACE_HIGH], records[i, TRACE_LOW], records[i, SPAN], records[i, KIND]
        has_trace = high != 0 or low != 0
        resource = records[i, RESOURCE]
        zeros = records[i, DOUBLE_COUNT] > 0
        between = records[i, MOMENT_COUNT] if is_span else 0
        own = 1 + between + (records[i, END] != 0) if is_span else 1
        for k in range(own):
            is_start = is_span and k == 0
            is_moment = is_span and 0 < k <= between
            numbers[ROW_PLACE, row], numbers[ROW_RESOURCE, row] = records[i, PLACE], resource
            numbers[ROW_NAMED, row] = 1
            numbers[ROW_KIND, row], numbers[ROW_PHASE, row] = _LOCAL, _BETWEEN
            if has_trace:
                at_computation = _put_hex(computation, at_computation, high)
                at_computation = _put_hex(computation, at_computation, low)
                if span:
                    at_key = _put_hex(keys, at_key, span)
            if is_start:
                numbers[ROW_TIME, row], numbers[ROW_PHASE, row] = records[i, TIME], _START
                if kind in (_SERVER, _CONSUMER):
                    numbers[ROW_KIND, row] = _RECEIVE
                elif kind in (_CLIENT, _PRODUCER):
                    numbers[ROW_KIND, row] = _SEND
                at_sends = _put_constant(sends, at_sends, _SPAN_PREFIX, 0, len(_SPAN_PREFIX))
                at_sends = _put_hex(sends, at_sends, high)
                at_sends = _put_hex(sends, at_sends, low)
                sends[at_sends] = 47
                at_sends = _put_hex(sends, at_sends + 1, span)
                if records[i, LINKS]:
                    at_receives = _put_constant(receives, at_receives, _SPAN_PREFIX, 0, len(_SPAN_PREFIX))
                    at_receives = _put_hex(receives, at_receives, records[i, LINK_HIGH])
                    at_receives = _put_hex(receives, at_receives, records[i, LINK_LOW])
                    receives[at_receives] = 47
                    at_receives = _put_hex(receives, at_receives + 1, records[i, LINK_SPAN])
                at_id = _put_hex(ids, at_id, span)
                at_id = _put_constant(ids, at_id, _SLASH_START, 0, len(_SLASH_START))
                if records[i, PARENT]:
                    at_parent = _put_hex(parents, at_parent, records[i, PARENT])
                at_name = _put(names, at_name, heap, records[i, NAME], records[i, NAME_BYTES])
                at_name = _put_constant(names, at_name, _STARTS, 0, len(_STARTS))
                at_attributes = _put_constant(attributes, at_attributes, _KIND_TEXT, _KIND_AT[kind], _KIND_AT[kind + 1])
            elif is_moment:
                j = records[i, FIRST_MOMENT] + k - 1
                numbers[ROW_TIME, row] = moments[j, MOMENT_TIME]
                if moments[j, MOMENT_NAME_BYTES]:
                    at_name = _put(names, at_name, heap, moments[j, MOMENT_NAME], moments[j, MOMENT_NAME_BYTES])
                else:
                    at_name = _put_constant(names, at_name, _UNNAMED, 0, len(_UNNAMED))
                if moments[j, MOMENT_ATTRIBUTES_BYTES]:
                    attributes[at_attributes] = 123
                    at_attributes = _put_members(
                        attributes, at_attributes + 1, heap, moments[j, MOMENT_ATTRIBUTES],
                        moments[j, MOMENT_ATTRIBUTES_BYTES], zeros,
                    )  # fmt: skip
                    attributes[at_attributes] = 125
                    at_attributes += 1
            else:
                if is_span:
                    numbers[ROW_TIME, row] = records[i, END]
                    numbers[ROW_PHASE, row] = _ANSWERS if kind == _SERVER else (_AWAITS if kind == _CLIENT else _END)
                    if kind == _SERVER:
                        numbers[ROW_KIND, row] = _SEND
                    elif kind == _CLIENT:
                        numbers[ROW_KIND, row] = _RECEIVE
                    at_id = _put_hex(ids, at_id, span)
                else:
                    numbers[ROW_TIME, row] = records[i, TIME]
                    numbers[ROW_NAMED, row] = records[i, NAME_BYTES] >= 0
                at_name = _put(names, at_name, heap, records[i, NAME], max(records[i, NAME_BYTES], 0))
                if is_span:
                    ending = _FAILS if records[i, FAILED] else _ENDS
                    at_name = _put_constant(names, at_name, ending, 0, len(ending))
                attributes[at_attributes] = 123
                at_first = at_attributes + 1
                at = _put_members(
                    attributes, at_first, heap, records[i, ATTRIBUTES], records[i, ATTRIBUTES_BYTES], zeros
                )
                at = _put_members(attributes, at, heap, records[i, MORE], records[i, MORE_BYTES], zeros)
                at = _put_members(
                    attributes, at, kept, kept_at[resource], kept_at[resource + 1] - kept_at[resource], False
                )
                if at > at_first:
                    attributes[at] = 125
                    at_attributes = at + 1
            row += 1
            ends[COMPUTATION, row], ends[SENDS, row], ends[RECEIVES, row] = at_computation, at_sends, at_receives
            ends[ID, row], ends[KEY, row], ends[PARENT_KEY, row] = at_id, at_key, at_parent
            ends[ROW_NAME, row], ends[ROW_ATTRIBUTES, row] = at_name, at_attributes
    return row
