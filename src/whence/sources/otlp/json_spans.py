"""Spans of OTLP in JSON, at compiled speed: each as a row of the table, or left to the exact reader.

Every function gives where it ends, or -1 where it is not sure; what it has written by then is void.
"""

from __future__ import annotations

from typing import Any

from numba import njit

from whence.sources.otlp.json_attributes import put_value
from whence.sources.otlp.json_fields import MOST_COUNT, RECORD, choice, identifier, next_member, spellings
from whence.sources.otlp.json_texts import after_space, integer, member, packed, put_text
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
    TAKEN_SPAN,
    TIME,
    TRACE_HIGH,
    TRACE_LOW,
)
from whence.sources.otlp.more import (
    ADD_DROPPED_ATTRIBUTES,
    ADD_DROPPED_EVENTS,
    ADD_DROPPED_LINKS,
    ADD_STATUS_TEXT,
    ADD_TRACE_STATE,
    put_count,
    put_key,
)

_QUOTE = 34
_SPAN_NAMES, _SPAN_AT, _SPAN_COUNT = spellings(
    "traceId spanId parentSpanId flags name kind startTimeUnixNano endTimeUnixNano attributes status events links "
    "droppedAttributesCount droppedEventsCount droppedLinksCount traceState"
)
(
    _S_TRACE, _S_SPAN, _S_PARENT, _S_FLAGS, _S_NAME, _S_KIND, _S_START, _S_END, _S_ATTRIBUTES, _S_STATUS, _S_EVENTS,
    _S_LINKS, _S_DROPPED, _S_DROPPED_EVENTS, _S_DROPPED_LINKS, _S_STATE,
) = range(16)  # fmt: skip
_EVENT_NAMES, _EVENT_AT, _EVENT_COUNT = spellings("timeUnixNano name attributes")
_E_TIME, _E_NAME, _E_ATTRIBUTES = range(3)
_LINK_NAMES, _LINK_AT, _LINK_COUNT = spellings("traceId spanId flags traceState attributes")
_K_TRACE, _K_SPAN, _K_FLAGS, _K_STATE, _K_ATTRIBUTES = range(5)
_STATUS_NAMES, _STATUS_AT = packed(("code", "message"))
_KIND_NAMES, _KIND_AT = packed(
    tuple(f"SPAN_KIND_{kind}" for kind in ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"))
)
_CODE_NAMES, _CODE_AT = packed(("STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"))


@njit(f"int64({RECORD})", cache=True, nogil=True)
def _events(
    data: Any, at: int, end: int, utf8: bool, records: Any, moments: Any, doubles: Any, heap: Any, used: Any
) -> int:
    out = used[HEAP]
    if data[at] != 91:
        return -1
    at = after_space(data, at + 1, end)
    more = at < end and data[at] != 93
    while more:
        if at >= end or data[at] != 123 or used[MOMENTS] == len(moments):
            return -1
        i = used[MOMENTS]
        moments[i, MOMENT_NAME], moments[i, MOMENT_NAME_BYTES], moments[i, MOMENT_ATTRIBUTES_BYTES] = out, 0, 0
        time, seen = 0, 0
        at = after_space(data, at + 1, end)
        while at < end and data[at] != 125:
            at, field = member(data, at, end, _EVENT_NAMES, _EVENT_AT)
            if at < 0 or field < 0:
                return -1
            field %= _EVENT_COUNT
            if seen >> field & 1:
                return -1
            seen |= 1 << field
            if field == _E_TIME:
                at, time = integer(data, at, end)
            elif field == _E_NAME:
                if data[at] != _QUOTE:
                    return -1
                start = out
                at, out = put_text(data, at + 1, end, utf8, heap, out, False)
                moments[i, MOMENT_NAME], moments[i, MOMENT_NAME_BYTES] = start, out - start
            else:
                start = out
                at, out = put_value(data, at, end, utf8, heap, out, doubles, used, -1)
                moments[i, MOMENT_ATTRIBUTES], moments[i, MOMENT_ATTRIBUTES_BYTES] = start, out - start
            at = next_member(data, at, end)
            if at < 0:
                return -1
        if at >= end or time <= 0:
            return -1
        moments[i, MOMENT_TIME] = time
        used[MOMENTS] += 1
        at = after_space(data, at + 1, end)
        more = at < end and data[at] == 44
        if more:
            at = after_space(data, at + 1, end)
    used[HEAP] = out
    return at + 1 if at < end and data[at] == 93 else -1


@njit(f"int64({RECORD})", cache=True, nogil=True)
def _links(
    data: Any, at: int, end: int, utf8: bool, records: Any, moments: Any, doubles: Any, heap: Any, used: Any
) -> int:
    """At most one link; more are left."""
    row = used[RECORDS]
    if data[at] != 91:
        return -1
    at = after_space(data, at + 1, end)
    if at < end and data[at] == 93:
        return at + 1
    if at >= end or data[at] != 123:
        return -1
    seen = 0
    at = after_space(data, at + 1, end)
    while at < end and data[at] != 125:
        at, field = member(data, at, end, _LINK_NAMES, _LINK_AT)
        if at < 0 or field < 0:
            return -1
        field %= _LINK_COUNT
        if seen >> field & 1:
            return -1
        seen |= 1 << field
        if field == _K_TRACE:
            at, records[row, LINK_HIGH], records[row, LINK_LOW] = identifier(data, at, end, 32)
        elif field == _K_SPAN:
            at, _, records[row, LINK_SPAN] = identifier(data, at, end, 16)
        elif field == _K_FLAGS:
            at, _ = integer(data, at, end)
        elif field == _K_STATE:
            if data[at] != _QUOTE:
                return -1
            at, _ = put_text(data, at + 1, end, utf8, heap, used[HEAP], False)
        else:
            # Checked as others are, and not kept.
            doubles_before = used[DOUBLES]
            at, _ = put_value(data, at, end, utf8, heap, used[HEAP], doubles, used, -1)
            if used[DOUBLES] != doubles_before:
                return -1
        at = next_member(data, at, end)
        if at < 0:
            return -1
    if at >= end or records[row, LINK_SPAN] == 0 or (records[row, LINK_HIGH] == 0 and records[row, LINK_LOW] == 0):
        return -1
    records[row, LINKS] = 1
    at = after_space(data, at + 1, end)
    return at + 1 if at < end and data[at] == 93 else -1


@njit(f"int64({RECORD})", cache=True, nogil=True)
def scan_span(
    data: Any, at: int, end: int, utf8: bool, records: Any, moments: Any, doubles: Any, heap: Any, used: Any
) -> int:
    """Write down the span at `at`."""
    row = used[RECORDS]
    for column in range(RECORD_COLUMNS):
        records[row, column] = 0
    records[row, FIRST_MOMENT] = used[MOMENTS]
    doubles_before = used[DOUBLES]
    seen, state, message = 0, -1, -1
    dropped, dropped_events, dropped_links = 0, 0, 0
    if data[at] != 123:
        return -1
    at = after_space(data, at + 1, end)
    while at < end and data[at] != 125:
        at, field = member(data, at, end, _SPAN_NAMES, _SPAN_AT)
        if at < 0 or field < 0:
            return -1
        field %= _SPAN_COUNT
        if seen >> field & 1:
            return -1
        seen |= 1 << field
        if field == _S_TRACE:
            at, records[row, TRACE_HIGH], records[row, TRACE_LOW] = identifier(data, at, end, 32)
        elif field == _S_SPAN:
            at, _, records[row, SPAN] = identifier(data, at, end, 16)
        elif field == _S_PARENT:
            at, _, records[row, PARENT] = identifier(data, at, end, 16)
        elif field == _S_NAME:
            if data[at] != _QUOTE:
                return -1
            records[row, NAME] = used[HEAP]
            at, used[HEAP] = put_text(data, at + 1, end, utf8, heap, used[HEAP], False)
            records[row, NAME_BYTES] = used[HEAP] - records[row, NAME]
        elif field == _S_KIND:
            at, records[row, KIND] = choice(data, at, end, _KIND_NAMES, _KIND_AT)
        elif field == _S_START:
            at, records[row, TIME] = integer(data, at, end)
        elif field == _S_END:
            at, records[row, END] = integer(data, at, end)
        elif field == _S_ATTRIBUTES:
            records[row, ATTRIBUTES] = used[HEAP]
            at, used[HEAP] = put_value(data, at, end, utf8, heap, used[HEAP], doubles, used, -1)
            records[row, ATTRIBUTES_BYTES] = used[HEAP] - records[row, ATTRIBUTES]
        elif field == _S_EVENTS:
            at = _events(data, at, end, utf8, records, moments, doubles, heap, used)
        elif field == _S_LINKS:
            at = _links(data, at, end, utf8, records, moments, doubles, heap, used)
        elif field == _S_STATUS:
            if data[at] != 123:
                return -1
            inner = 0
            at = after_space(data, at + 1, end)
            while at < end and data[at] != 125:
                at, field = member(data, at, end, _STATUS_NAMES, _STATUS_AT)
                if at < 0 or field < 0 or inner >> field & 1:
                    return -1
                inner |= 1 << field
                if field == 0:
                    at, code = choice(data, at, end, _CODE_NAMES, _CODE_AT)
                    records[row, FAILED] = code == 2
                else:
                    if data[at] != _QUOTE:
                        return -1
                    message = at + 1
                    at, _ = put_text(data, message, end, utf8, heap, used[HEAP], False)
                at = next_member(data, at, end)
                if at < 0:
                    return -1
            at += 1
        elif field == _S_STATE:
            if data[at] != _QUOTE:
                return -1
            state = at + 1
            at, _ = put_text(data, state, end, utf8, heap, used[HEAP], False)
        elif field == _S_DROPPED:
            at, dropped = integer(data, at, end)
        elif field == _S_DROPPED_EVENTS:
            at, dropped_events = integer(data, at, end)
        elif field == _S_DROPPED_LINKS:
            at, dropped_links = integer(data, at, end)
        else:
            at, _ = integer(data, at, end)
        at = next_member(data, at, end)
        if at < 0:
            return -1
    if at >= end or records[row, SPAN] == 0 or (records[row, TRACE_HIGH] == 0 and records[row, TRACE_LOW] == 0):
        return -1
    if records[row, TIME] <= 0 or records[row, END] < 0:
        return -1
    if min(dropped, dropped_events, dropped_links) < 0 or max(dropped, dropped_events, dropped_links) > MOST_COUNT:
        return -1
    start = used[HEAP]
    out = start
    if state >= 0 and data[state] != _QUOTE:
        out = put_key(heap, start, out, ADD_TRACE_STATE)
        heap[out] = _QUOTE
        _, out = put_text(data, state, end, utf8, heap, out + 1, True)
        heap[out] = _QUOTE
        out += 1
    out = put_count(heap, start, out, ADD_DROPPED_ATTRIBUTES, dropped)
    out = put_count(heap, start, out, ADD_DROPPED_EVENTS, dropped_events)
    out = put_count(heap, start, out, ADD_DROPPED_LINKS, dropped_links)
    if message >= 0 and data[message] != _QUOTE:
        out = put_key(heap, start, out, ADD_STATUS_TEXT)
        heap[out] = _QUOTE
        _, out = put_text(data, message, end, utf8, heap, out + 1, True)
        heap[out] = _QUOTE
        out += 1
    used[HEAP] = out
    records[row, MORE], records[row, MORE_BYTES] = start, out - start
    records[row, MOMENT_COUNT] = used[MOMENTS] - records[row, FIRST_MOMENT]
    records[row, DOUBLE_COUNT] = used[DOUBLES] - doubles_before
    records[row, STATUS] = TAKEN_SPAN
    return at + 1
