"""Log records of OTLP in JSON, at compiled speed: each as a row of the table, or left to the exact reader.

Every function gives where it ends, or -1 where it is not sure; what it has written by then is void.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from whence.sources.otlp.json_attributes import put_value
from whence.sources.otlp.json_fields import MOST_COUNT, RECORD, identifier, next_member, spellings
from whence.sources.otlp.json_texts import after_space, integer, member, put_text
from whence.sources.otlp.layout import (
    ATTRIBUTES,
    ATTRIBUTES_BYTES,
    DOUBLE_COUNT,
    DOUBLES,
    HEAP,
    MORE,
    MORE_BYTES,
    NAME,
    NAME_BYTES,
    RECORD_COLUMNS,
    RECORDS,
    SPAN,
    STATUS,
    TAKEN_LOG,
    TIME,
    TRACE_HIGH,
    TRACE_LOW,
)
from whence.sources.otlp.more import (
    ADD_BODY,
    ADD_DROPPED_ATTRIBUTES,
    ADD_EVENT_NAME,
    ADD_SEVERITY,
    put_count,
    put_key,
    put_severity,
    same_texts,
    shown_bytes,
)

_QUOTE = 34
_LOG_NAMES, _LOG_AT, _LOG_COUNT = spellings(
    "timeUnixNano observedTimeUnixNano severityNumber severityText body attributes flags traceId spanId "
    "droppedAttributesCount eventName"
)
(
    _L_TIME, _L_OBSERVED, _L_SEVERITY, _L_SEVERITY_TEXT, _L_BODY, _L_ATTRIBUTES, _L_FLAGS, _L_TRACE, _L_SPAN,
    _L_DROPPED, _L_EVENT_NAME,
) = range(11)  # fmt: skip


@njit(f"int64({RECORD})", cache=True, nogil=True)
def scan_log(
    data: Any, at: int, end: int, utf8: bool, records: Any, moments: Any, doubles: Any, heap: Any, used: Any
) -> int:
    """Write down the log record at `at`."""
    row = used[RECORDS]
    for column in range(RECORD_COLUMNS):
        records[row, column] = 0
    doubles_before = used[DOUBLES]
    seen, time, observed, severity, dropped = 0, 0, 0, 0, 0
    severity_text, body, event, event_at, event_bytes = -1, -1, -1, 0, 0
    if data[at] != 123:
        return -1
    at = after_space(data, at + 1, end)
    while at < end and data[at] != 125:
        at, field = member(data, at, end, _LOG_NAMES, _LOG_AT)
        if at < 0 or field < 0:
            return -1
        field %= _LOG_COUNT
        if seen >> field & 1:
            return -1
        seen |= 1 << field
        if field == _L_TIME:
            at, time = integer(data, at, end)
        elif field == _L_OBSERVED:
            at, observed = integer(data, at, end)
        elif field == _L_SEVERITY:
            at, severity = integer(data, at, end)
        elif field == _L_DROPPED:
            at, dropped = integer(data, at, end)
        elif field == _L_FLAGS:
            at, _ = integer(data, at, end)
        elif field == _L_TRACE:
            at, records[row, TRACE_HIGH], records[row, TRACE_LOW] = identifier(data, at, end, 32)
        elif field == _L_SPAN:
            at, _, records[row, SPAN] = identifier(data, at, end, 16)
        elif field == _L_SEVERITY_TEXT:
            if data[at] != _QUOTE:
                return -1
            severity_text = at + 1
            at, _ = put_text(data, severity_text, end, utf8, heap, used[HEAP], False)
        elif field == _L_EVENT_NAME:
            if data[at] != _QUOTE:
                return -1
            event, event_at = at + 1, used[HEAP]
            at, used[HEAP] = put_text(data, event, end, utf8, heap, event_at, False)
            event_bytes = used[HEAP] - event_at
        elif field == _L_ATTRIBUTES:
            records[row, ATTRIBUTES] = used[HEAP]
            at, used[HEAP] = put_value(data, at, end, utf8, heap, used[HEAP], doubles, used, -1)
            records[row, ATTRIBUTES_BYTES] = used[HEAP] - records[row, ATTRIBUTES]
        else:
            body = at
            before = used[DOUBLES]
            at, _ = put_value(data, at, end, utf8, heap, used[HEAP], doubles, used, 0)
            if used[DOUBLES] != before:
                return -1
        at = next_member(data, at, end)
        if at < 0:
            return -1
    if at >= end or time < 0 or observed < 0 or (time == 0 and observed == 0):
        return -1
    if not 0 <= severity <= 24 or not 0 <= dropped <= MOST_COUNT:
        return -1
    records[row, TIME] = time if time else observed
    # The body as JSON, which for a text is itself with quotes and escapes.
    body_at = used[HEAP]
    body_bytes = 0
    is_text = False
    if body >= 0:
        _, used[HEAP] = put_value(data, body, end, utf8, heap, body_at, doubles, used, 0)
        body_bytes = used[HEAP] - body_at
        is_text = heap[body_at] == _QUOTE
        if is_text and body_bytes == 2:
            body_bytes = 0
    told = True
    records[row, NAME], records[row, NAME_BYTES] = event_at, event_bytes if event_bytes else -1
    if body_bytes and (is_text or event_bytes == 0):
        name_at, name_stop = body_at, body_at + body_bytes
        if is_text:
            # As it is, without escapes.
            name_at = used[HEAP]
            first, _ = member(data, after_space(data, body + 1, end), end, _LOG_NAMES, _LOG_AT)
            at_text, used[HEAP] = put_text(data, first + 1, end, utf8, heap, name_at, False)
            if at_text < 0:
                return -1
            name_stop = used[HEAP]
        length = shown_bytes(heap, name_at, name_stop)
        if length <= 0:
            return -1
        told = length == name_stop - name_at
        records[row, NAME], records[row, NAME_BYTES] = name_at, length
    elif body_bytes:
        told = False
    start = used[HEAP]
    out = start
    if severity_text >= 0 and data[severity_text] != _QUOTE:
        out = put_key(heap, start, out, ADD_SEVERITY)
        heap[out] = _QUOTE
        _, out = put_text(data, severity_text, end, utf8, heap, out + 1, True)
        heap[out] = _QUOTE
        out += 1
    elif severity:
        out = put_severity(heap, put_key(heap, start, out, ADD_SEVERITY), severity)
    if not told:
        out = put_key(heap, start, out, ADD_BODY)
        for i in range(body_at, body_at + body_bytes):
            heap[out] = heap[i]
            out += 1
    if event_bytes and not same_texts(heap, event_at, event_bytes, records[row, NAME], records[row, NAME_BYTES]):
        out = put_key(heap, start, out, ADD_EVENT_NAME)
        heap[out] = _QUOTE
        _, out = put_text(data, event, end, utf8, heap, out + 1, True)
        heap[out] = _QUOTE
        out += 1
    out = put_count(heap, start, out, ADD_DROPPED_ATTRIBUTES, dropped)
    used[HEAP] = out
    records[row, MORE], records[row, MORE_BYTES] = start, out - start
    records[row, DOUBLE_COUNT] = used[DOUBLES] - doubles_before
    records[row, STATUS] = TAKEN_LOG
    return at + 1
