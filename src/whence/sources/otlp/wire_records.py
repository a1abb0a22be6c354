"""Spans and log records of OTLP in protobuf, at compiled speed: each as a row of the table, or left to the exact reader.

Every function gives False where it is not sure; what it has written by then is void.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from whence.sources.json_values import BYTES
from whence.sources.otlp.emit import HEAP_BYTES, TABLE
from whence.sources.otlp.json_attributes import MOST_ATTRIBUTES
from whence.sources.otlp.layout import (
    ATTRIBUTES,
    ATTRIBUTES_BYTES,
    DOUBLE_COUNT,
    DOUBLES,
    END,
    FAILED,
    FIRST_MOMENT,
    HEAP,
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
    MOMENTS,
    MORE,
    MORE_BYTES,
    NAME,
    NAME_BYTES,
    PARENT,
    RECORD_COLUMNS,
    RECORDS,
    SPAN,
    STATUS,
    TAKEN_LOG,
    TAKEN_SPAN,
    TIME,
    TRACE_HIGH,
    TRACE_LOW,
)
from whence.sources.otlp.more import (
    ADD_BODY,
    ADD_DROPPED_ATTRIBUTES,
    ADD_DROPPED_EVENTS,
    ADD_DROPPED_LINKS,
    ADD_EVENT_NAME,
    ADD_SEVERITY,
    ADD_STATUS_TEXT,
    ADD_TRACE_STATE,
    put_count,
    put_key,
    put_severity,
    same_texts,
    shown_bytes,
)
from whence.sources.otlp.wire import FIXED64, LENGTH, VARINT
from whence.sources.otlp.wire_values import field, fixed64, id64, put_attribute, put_text, put_value

_QUOTE = 34
_MOST_COUNT = (1 << 32) - 1
_RECORD = f"boolean({BYTES}, int64, int64, {TABLE}, {TABLE}, {TABLE}, {HEAP_BYTES}, int64[::1])"

# Wire types of the fields of a span and of a log record, by their numbers; -1 for a number they do not have.
_SPAN_WIRE = np.array([-1, 2, 2, 2, 2, 2, 0, 1, 1, 2, 0, 2, 0, 2, 0, 2], np.int64)
_LOG_WIRE = np.array([-1, 1, 0, 2, -1, 2, 2, 0, -1, 2, 2, 1, 2], np.int64)
_REPEATED_OF_SPAN = 1 << 9 | 1 << 11 | 1 << 13
_REPEATED_OF_LOG = 1 << 6


@njit(_RECORD, cache=True, nogil=True)
def _event(data: Any, at: int, stop: int, records: Any, moments: Any, doubles: Any, heap: Any, used: Any) -> bool:
    if used[MOMENTS] == len(moments):
        return False
    row, seen, count = used[MOMENTS], 0, 0
    keys = np.empty((MOST_ATTRIBUTES, 2), np.int64)
    moments[row, MOMENT_NAME], moments[row, MOMENT_NAME_BYTES], moments[row, MOMENT_TIME] = used[HEAP], 0, 0
    moments[row, MOMENT_ATTRIBUTES], moments[row, MOMENT_ATTRIBUTES_BYTES] = used[HEAP], 0
    while at < stop:
        at, number, wire, start, value = field(data, at, stop)
        if at < 0:
            return False
        if number == 3 and wire == LENGTH:
            if count == 0:
                moments[row, MOMENT_ATTRIBUTES] = used[HEAP]
            first = moments[row, MOMENT_ATTRIBUTES]
            if first + moments[row, MOMENT_ATTRIBUTES_BYTES] != used[HEAP]:
                return False
            out = put_attribute(data, start, at, heap, first, used[HEAP], doubles, used, keys, count)
            if out < 0:
                return False
            used[HEAP], moments[row, MOMENT_ATTRIBUTES_BYTES] = out, out - first
            count += 1
        elif number <= 4:
            if seen >> number & 1:
                return False
            seen |= 1 << number
            if number == 1 and wire == FIXED64:
                moments[row, MOMENT_TIME] = fixed64(data, start)
            elif number == 2 and wire == LENGTH:
                out = put_text(data, start, at, heap, used[HEAP], False)
                if out < 0:
                    return False
                moments[row, MOMENT_NAME], moments[row, MOMENT_NAME_BYTES] = used[HEAP], out - used[HEAP]
                used[HEAP] = out
            elif number != 4 or wire != VARINT or value != 0:
                return False
    used[MOMENTS] += 1
    return bool(moments[row, MOMENT_TIME] > 0)


@njit(_RECORD, cache=True, nogil=True)
def _link(data: Any, at: int, stop: int, records: Any, moments: Any, doubles: Any, heap: Any, used: Any) -> bool:
    """A first link; more are left."""
    row = used[RECORDS]
    if records[row, LINKS]:
        return False
    records[row, LINKS] = 1
    while at < stop:
        at, number, wire, start, _ = field(data, at, stop)
        if at < 0:
            return False
        if number == 1:
            if wire != LENGTH or at - start != 16:
                return False
            records[row, LINK_HIGH], records[row, LINK_LOW] = id64(data, start), id64(data, start + 8)
        elif number == 2:
            if wire != LENGTH or at - start != 8:
                return False
            records[row, LINK_SPAN] = id64(data, start)
    return bool(records[row, LINK_SPAN] != 0 and (records[row, LINK_HIGH] != 0 or records[row, LINK_LOW] != 0))


@njit(_RECORD, cache=True, nogil=True)
def scan_span(data: Any, at: int, stop: int, records: Any, moments: Any, doubles: Any, heap: Any, used: Any) -> bool:
    """Write down the span that fills these bytes."""
    row = used[RECORDS]
    for column in range(RECORD_COLUMNS):
        records[row, column] = 0
    records[row, FIRST_MOMENT] = used[MOMENTS]
    doubles_before = used[DOUBLES]
    keys = np.empty((MOST_ATTRIBUTES, 2), np.int64)
    seen, count = 0, 0
    state, state_stop, message, message_stop = 0, 0, 0, 0
    dropped, dropped_events, dropped_links = 0, 0, 0
    while at < stop:
        at, number, wire, start, value = field(data, at, stop)
        if at < 0:
            return False
        if number >= len(_SPAN_WIRE):
            continue
        if wire != _SPAN_WIRE[number] or (seen >> number & 1 and not _REPEATED_OF_SPAN >> number & 1):
            return False
        seen |= 1 << number
        size = at - start
        if number == 9:
            if count == 0:
                records[row, ATTRIBUTES] = used[HEAP]
            first = records[row, ATTRIBUTES]
            if first + records[row, ATTRIBUTES_BYTES] != used[HEAP]:
                return False
            out = put_attribute(data, start, at, heap, first, used[HEAP], doubles, used, keys, count)
            if out < 0:
                return False
            used[HEAP], records[row, ATTRIBUTES_BYTES] = out, out - first
            count += 1
        elif number == 1:
            if size != 16:
                return False
            records[row, TRACE_HIGH], records[row, TRACE_LOW] = id64(data, start), id64(data, start + 8)
        elif number == 2:
            if size != 8:
                return False
            records[row, SPAN] = id64(data, start)
        elif number == 3:
            state, state_stop = start, at
        elif number == 4:
            if size != 8 and size != 0:
                return False
            records[row, PARENT] = id64(data, start) if size else 0
        elif number == 5:
            out = put_text(data, start, at, heap, used[HEAP], False)
            if out < 0:
                return False
            records[row, NAME], records[row, NAME_BYTES] = used[HEAP], out - used[HEAP]
            used[HEAP] = out
        elif number == 6:
            if not 0 <= value <= 5:
                return False
            records[row, KIND] = value
        elif number == 7:
            records[row, TIME] = fixed64(data, start)
        elif number == 8:
            records[row, END] = fixed64(data, start)
        elif number == 10:
            dropped = value
        elif number == 11:
            if not _event(data, start, at, records, moments, doubles, heap, used):
                return False
        elif number == 12:
            dropped_events = value
        elif number == 13:
            if not _link(data, start, at, records, moments, doubles, heap, used):
                return False
        elif number == 14:
            dropped_links = value
        else:
            inner = start
            while inner < at:
                inner, part, wire, first, value = field(data, inner, at)
                if inner < 0:
                    return False
                if part == 2:
                    if wire != LENGTH:
                        return False
                    message, message_stop = first, inner
                elif part == 3:
                    if wire != VARINT or not 0 <= value <= 2:
                        return False
                    records[row, FAILED] = value == 2
    if records[row, SPAN] == 0 or (records[row, TRACE_HIGH] == 0 and records[row, TRACE_LOW] == 0):
        return False
    if records[row, TIME] <= 0 or records[row, END] < 0:
        return False
    if min(dropped, dropped_events, dropped_links) < 0 or max(dropped, dropped_events, dropped_links) > _MOST_COUNT:
        return False
    start = used[HEAP]
    # Written once as they are: what is wrong in names is wrong here too.
    if put_text(data, state, state_stop, heap, start, False) < 0:
        return False
    if put_text(data, message, message_stop, heap, start, False) < 0:
        return False
    out = start
    if state_stop > state:
        out = put_text(data, state, state_stop, heap, put_key(heap, start, out, ADD_TRACE_STATE), True)
    out = put_count(heap, start, out, ADD_DROPPED_ATTRIBUTES, dropped)
    out = put_count(heap, start, out, ADD_DROPPED_EVENTS, dropped_events)
    out = put_count(heap, start, out, ADD_DROPPED_LINKS, dropped_links)
    if message_stop > message:
        out = put_text(data, message, message_stop, heap, put_key(heap, start, out, ADD_STATUS_TEXT), True)
    used[HEAP] = out
    records[row, MORE], records[row, MORE_BYTES] = start, out - start
    records[row, MOMENT_COUNT] = used[MOMENTS] - records[row, FIRST_MOMENT]
    records[row, DOUBLE_COUNT] = used[DOUBLES] - doubles_before
    records[row, STATUS] = TAKEN_SPAN
    return True


@njit(_RECORD, cache=True, nogil=True)
def scan_log(data: Any, at: int, stop: int, records: Any, moments: Any, doubles: Any, heap: Any, used: Any) -> bool:
    """Write down the log record that fills these bytes."""
    row = used[RECORDS]
    for column in range(RECORD_COLUMNS):
        records[row, column] = 0
    doubles_before = used[DOUBLES]
    keys = np.empty((MOST_ATTRIBUTES, 2), np.int64)
    seen, count = 0, 0
    time, observed, severity, dropped = 0, 0, 0, 0
    text, text_stop, body, body_stop, event, event_stop = 0, 0, 0, 0, 0, 0
    while at < stop:
        at, number, wire, start, value = field(data, at, stop)
        if at < 0:
            return False
        if number >= len(_LOG_WIRE) or _LOG_WIRE[number] < 0:
            continue
        if wire != _LOG_WIRE[number] or (seen >> number & 1 and not _REPEATED_OF_LOG >> number & 1):
            return False
        seen |= 1 << number
        size = at - start
        if number == 6:
            if count == 0:
                records[row, ATTRIBUTES] = used[HEAP]
            first = records[row, ATTRIBUTES]
            out = put_attribute(data, start, at, heap, first, used[HEAP], doubles, used, keys, count)
            if out < 0:
                return False
            used[HEAP], records[row, ATTRIBUTES_BYTES] = out, out - first
            count += 1
        elif number == 1:
            time = fixed64(data, start)
        elif number == 2:
            severity = value
        elif number == 3:
            text, text_stop = start, at
        elif number == 5:
            body, body_stop = start, at
        elif number == 7:
            dropped = value
        elif number == 9:
            if size != 16 and size != 0:
                return False
            if size:
                records[row, TRACE_HIGH], records[row, TRACE_LOW] = id64(data, start), id64(data, start + 8)
        elif number == 10:
            if size != 8 and size != 0:
                return False
            records[row, SPAN] = id64(data, start) if size else 0
        elif number == 11:
            observed = fixed64(data, start)
        else:
            event, event_stop = start, at
    if time < 0 or observed < 0 or (time == 0 and observed == 0):
        return False
    if not 0 <= severity <= 24 or not 0 <= dropped <= _MOST_COUNT:
        return False
    records[row, TIME] = time if time else observed
    event_at = used[HEAP]
    out = put_text(data, event, event_stop, heap, event_at, False)
    if out < 0 or put_text(data, text, text_stop, heap, out, False) < 0:
        return False
    event_bytes = out - event_at
    # The body as JSON, which for a text is itself with quotes and escapes.
    body_at, body_bytes, is_text, told = out, 0, False, True
    if body_stop > body:
        before = used[DOUBLES]
        out, _ = put_value(data, body, body_stop, heap, body_at, doubles, used, 0)
        if out < 0 or used[DOUBLES] != before:
            return False
        is_text = heap[body_at] == _QUOTE
        body_bytes = out - body_at
        if is_text and body_bytes == 2:
            body_bytes = 0
    elif seen >> 5 & 1:
        return False
    records[row, NAME], records[row, NAME_BYTES] = event_at, event_bytes if event_bytes else -1
    if body_bytes and (is_text or event_bytes == 0):
        name_at, name_stop = body_at, out
        if is_text:
            # As it is, without escapes.
            _, _, _, start, _ = field(data, body, body_stop)
            name_at = out
            out = put_text(data, start, body_stop, heap, out, False)
            if out < 0:
                return False
            name_stop = out
        length = shown_bytes(heap, name_at, name_stop)
        if length <= 0:
            return False
        told = length == name_stop - name_at
        records[row, NAME], records[row, NAME_BYTES] = name_at, length
    elif body_bytes:
        told = False
    start = out
    if text_stop > text:
        out = put_text(data, text, text_stop, heap, put_key(heap, start, out, ADD_SEVERITY), True)
    elif severity:
        out = put_severity(heap, put_key(heap, start, out, ADD_SEVERITY), severity)
    if not told:
        out = put_key(heap, start, out, ADD_BODY)
        for i in range(body_at, body_at + body_bytes):
            heap[out] = heap[i]
            out += 1
    if event_bytes and not same_texts(heap, event_at, event_bytes, records[row, NAME], records[row, NAME_BYTES]):
        out = put_text(data, event, event_stop, heap, put_key(heap, start, out, ADD_EVENT_NAME), True)
    out = put_count(heap, start, out, ADD_DROPPED_ATTRIBUTES, dropped)
    used[HEAP] = out
    records[row, MORE], records[row, MORE_BYTES] = start, out - start
    records[row, DOUBLE_COUNT] = used[DOUBLES] - doubles_before
    records[row, STATUS] = TAKEN_LOG
    return True
