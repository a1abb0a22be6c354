"""Requests of OTLP in JSON at compiled speed: whole lines, and runs of records within a document.

In a line, everything must be as exporters write it, down to the records, or the whole line is left to the exact reader; a
record that is not sure is left alone, if its end is found.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numba import njit

from whence.sources.json_values import BYTES, MOST_KEYS, container_end, string_end
from whence.sources.lines import LINE_LIMIT_BYTES
from whence.sources.otlp.emit import HEAP_BYTES, TABLE
from whence.sources.otlp.json_fields import next_member
from whence.sources.otlp.json_logs import scan_log
from whence.sources.otlp.json_spans import scan_span
from whence.sources.otlp.json_texts import after_space, member, packed
from whence.sources.otlp.layout import (
    DOUBLES,
    HEAP,
    LEFT,
    LEFT_LINE,
    MOMENTS,
    PLACE,
    RECORDS,
    RESOURCE,
    RESOURCES,
    SIGNAL,
    SIGNAL_LOGS,
    SIGNAL_SPANS,
    START,
    STATUS,
    STOP,
)
from whence.sources.strict_json import MOST_DEPTH

_QUOTE = 34
_NAMES = (
    "resourceSpans", "resourceLogs", "resource", "scopeSpans", "scopeLogs", "schemaUrl", "scope", "spans", "logRecords",
    "resource_spans", "resource_logs", "scope_spans", "scope_logs", "schema_url", "log_records",
)  # fmt: skip
_TEXT, _TEXT_AT = packed(_NAMES)
_RESOURCE_SPANS, _RESOURCE_LOGS, _THE_RESOURCE, _SCOPE_SPANS, _SCOPE_LOGS, _SCHEMA, _SCOPE, _SPANS, _LOGS = range(9)
_MEANT = (_RESOURCE_SPANS, _RESOURCE_LOGS, _SCOPE_SPANS, _SCOPE_LOGS, _SCHEMA, _LOGS)

_TABLES = f"{TABLE}, {TABLE}, {TABLE}, {TABLE}, {HEAP_BYTES}, int64[::1]"

CLOSED: Final = 0
"""A run of records ended with its list."""
AFTER: Final = 1
"""It ended after a record, before whatever comes next."""
BEFORE: Final = 2
"""It ended before a record that is not taken."""


@njit(f"int64({BYTES}, int64, int64)", cache=True, nogil=True)
def _value_end(data: Any, at: int, end: int) -> int:
    """Where the array or object at `at` ends, by its brackets and quotes alone; -1 if it does not."""
    depth = 0
    while at < end:
        byte = data[at]
        if byte == _QUOTE:
            at += 1
            while at < end and data[at] != _QUOTE:
                at += 2 if data[at] == 92 else 1
        elif byte == 123 or byte == 91:
            depth += 1
        elif byte == 125 or byte == 93:
            depth -= 1
            if depth <= 0:
                return at + 1
        at += 1
    return -1


@njit(f"UniTuple(int64, 2)({BYTES}, int64, int64)", cache=True, nogil=True)
def _member(data: Any, at: int, end: int) -> tuple[int, int]:
    """As `member`, both spellings of a name being one."""
    at, name = member(data, at, end, _TEXT, _TEXT_AT)
    return at, name if name < 9 else _MEANT[name - 9]


@njit(f"int64({BYTES}, int64, int64)", cache=True, nogil=True)
def _next_object(data: Any, at: int, end: int) -> int:
    """After an element: where the next one begins, or the closing bracket is; -1 for anything else."""
    at = after_space(data, at, end)
    if at < end and data[at] == 44:
        at = after_space(data, at + 1, end)
        return at if at < end and data[at] == 123 else -1
    return at if at < end and data[at] == 93 else -1


@njit(
    f"int64({BYTES}, int64, int64, boolean, {TABLE}, {TABLE}, {TABLE}, {HEAP_BYTES}, int64[::1], int64)",
    cache=True,
    nogil=True,
)
def _scan_record(
    data: Any, at: int, end: int, utf8: bool, records: Any, moments: Any, doubles: Any, heap: Any, used: Any,
    signal: int,
) -> int:  # fmt: skip
    """Write down one record, without counting it; -1 if it is not taken, with nothing written."""
    moments_before, doubles_before, heap_before = used[MOMENTS], used[DOUBLES], used[HEAP]
    if signal == SIGNAL_SPANS:
        stop = scan_span(data, at, end, utf8, records, moments, doubles, heap, used)
    else:
        stop = scan_log(data, at, end, utf8, records, moments, doubles, heap, used)
    if stop < 0:
        used[MOMENTS], used[DOUBLES], used[HEAP] = moments_before, doubles_before, heap_before
    return stop


@njit(f"UniTuple(int64, 2)({BYTES}, int64, int64, boolean, int64, int64, int64, {_TABLES})", cache=True, nogil=True)
def scan_run(
    data: Any, at: int, end: int, utf8: bool, signal: int, resource: int, base: int, records: Any, moments: Any,
    doubles: Any, resources: Any, heap: Any, used: Any,
) -> tuple[int, int]:  # fmt: skip
    """Take records of a list from the one at `at` on, while sure of them; gives where that ended, and how.

    Their places are bytes from `base` on.
    """
    while at < end and used[RECORDS] < len(records) and data[at] == 123:
        row = used[RECORDS]
        stop = _scan_record(data, at, end, utf8, records, moments, doubles, heap, used, signal)
        if stop < 0:
            break
        records[row, SIGNAL], records[row, RESOURCE], records[row, PLACE] = signal, resource, base + at
        used[RECORDS] += 1
        following = after_space(data, stop, end)
        if following < end and data[following] == 93:
            return following + 1, CLOSED
        if following >= end or data[following] != 44:
            return stop, AFTER
        after = after_space(data, following + 1, end)
        if after >= end:
            return stop, AFTER
        at = after
    return at, BEFORE


@njit(f"int64({BYTES}, int64, int64, boolean)", cache=True, nogil=True)
def _ignored_end(data: Any, at: int, end: int, utf8: bool) -> int:
    """Where a text or an object ends that must be right and is not kept."""
    if data[at] == _QUOTE:
        at, _ = string_end(data, at + 1, end, utf8)
    elif data[at] == 123:
        frames, keys = np.empty((MOST_DEPTH, 2), np.int64), np.empty((MOST_KEYS, 2), np.int64)
        at, _ = container_end(data, at, end, utf8, frames, keys)
    else:
        at = -1
    return at


_INSIDE = f"int64({BYTES}, int64, int64, boolean, int64, int64, int64, int64, {_TABLES})"


@njit(_INSIDE, cache=True, nogil=True)
def _scan_scope(
    data: Any, at: int, end: int, utf8: bool, signal: int, resource: int, place: int, room: int, records: Any,
    moments: Any, doubles: Any, resources: Any, heap: Any, used: Any,
) -> int:  # fmt: skip
    """One element of ``scopeSpans`` or ``scopeLogs``."""
    wanted = _SPANS if signal == SIGNAL_SPANS else _LOGS
    seen = 0
    at = after_space(data, at + 1, end)
    while at < end and data[at] != 125:
        at, name = _member(data, at, end)
        if at < 0 or name < 0 or seen >> name & 1:
            return -1
        seen |= 1 << name
        if name == wanted and data[at] == 91:
            at = after_space(data, at + 1, end)
            while at < end and data[at] == 123:
                row = used[RECORDS]
                if row >= room:
                    return -1
                stop = _scan_record(data, at, end, utf8, records, moments, doubles, heap, used, signal)
                if stop < 0:
                    stop = _value_end(data, at, end)
                    if stop < 0:
                        return -1
                    records[row, STATUS] = LEFT
                records[row, SIGNAL], records[row, RESOURCE], records[row, PLACE] = signal, resource, place
                records[row, START], records[row, STOP] = at, stop
                used[RECORDS] += 1
                at = _next_object(data, stop, end)
            if at < 0 or at >= end or data[at] != 93:
                return -1
            at += 1
        elif name in (_SCOPE, _SCHEMA):
            at = _ignored_end(data, at, end, utf8)
        else:
            return -1
        at = next_member(data, at, end)
        if at < 0:
            return -1
    return at + 1 if at < end else -1


@njit(_INSIDE, cache=True, nogil=True)
def _scan_resource(
    data: Any, at: int, end: int, utf8: bool, signal: int, resource: int, place: int, room: int, records: Any,
    moments: Any, doubles: Any, resources: Any, heap: Any, used: Any,
) -> int:  # fmt: skip
    """One element of ``resourceSpans`` or ``resourceLogs``."""
    wanted = _SCOPE_SPANS if signal == SIGNAL_SPANS else _SCOPE_LOGS
    seen = 0
    at = after_space(data, at + 1, end)
    while at < end and data[at] != 125:
        at, name = _member(data, at, end)
        if at < 0 or name < 0 or seen >> name & 1:
            return -1
        seen |= 1 << name
        if name == wanted and data[at] == 91:
            at = after_space(data, at + 1, end)
            while at >= 0 and at < end and data[at] == 123:
                at = _scan_scope(
                    data, at, end, utf8, signal, resource, place, room, records, moments, doubles, resources, heap, used
                )
                if at >= 0:
                    at = _next_object(data, at, end)
            if at < 0 or at >= end or data[at] != 93:
                return -1
            at += 1
        elif name == _THE_RESOURCE and data[at] == 123:
            resources[resource, 0] = at
            at = _value_end(data, at, end)
            resources[resource, 1] = at
        elif name == _SCHEMA:
            at = _ignored_end(data, at, end, utf8)
        else:
            return -1
        at = next_member(data, at, end)
        if at < 0:
            return -1
    return at + 1 if at < end else -1


@njit(f"int64({BYTES}, int64, int64, boolean, int64, int64, {_TABLES})", cache=True, nogil=True)
def _scan_request(
    data: Any, at: int, end: int, utf8: bool, place: int, room: int, records: Any, moments: Any, doubles: Any,
    resources: Any, heap: Any, used: Any,
) -> int:  # fmt: skip
    """The request at `at`."""
    if data[at] != 123:
        return -1
    seen = 0
    at = after_space(data, at + 1, end)
    while at < end and data[at] != 125:
        at, name = _member(data, at, end)
        if at < 0 or (name != _RESOURCE_SPANS and name != _RESOURCE_LOGS) or data[at] != 91 or seen >> name & 1:
            return -1
        seen |= 1 << name
        signal = SIGNAL_SPANS if name == _RESOURCE_SPANS else SIGNAL_LOGS
        at = after_space(data, at + 1, end)
        while at >= 0 and at < end and data[at] == 123:
            resource = used[RESOURCES]
            if resource == len(resources):
                return -1
            resources[resource, 0], resources[resource, 1] = 0, 0
            used[RESOURCES] += 1
            at = _scan_resource(
                data, at, end, utf8, signal, resource, place, room, records, moments, doubles, resources, heap, used
            )
            if at >= 0:
                at = _next_object(data, at, end)
        if at < 0 or at >= end or data[at] != 93:
            return -1
        at = next_member(data, at + 1, end)
        if at < 0:
            return -1
    return at + 1 if at < end else -1


@njit(f"void({BYTES}, int64, boolean, int64, int64, {_TABLES})", cache=True, nogil=True)
def scan_lines(
    data: Any, start: int, utf8: bool, first_line: int, lines: int, records: Any, moments: Any, doubles: Any,
    resources: Any, heap: Any, used: Any,
) -> None:  # fmt: skip
    """Write down what the lines of ``data[start:]`` hold, `lines` at most; a line that is left has a row to itself."""
    place = first_line
    while start < len(data):
        end = start
        while end < len(data) and data[end] != 10:
            end += 1
        at = after_space(data, start, end)
        if at < end:
            before = used.copy()
            # The lines to come may each need a row.
            room = len(records) - lines + (place - first_line)
            if end - start > LINE_LIMIT_BYTES:
                at = -1
            else:
                at = _scan_request(data, at, end, utf8, place, room, records, moments, doubles, resources, heap, used)
            if at < 0 or after_space(data, at, end) < end:
                used[:] = before
                row = used[RECORDS]
                records[row, STATUS], records[row, RESOURCE], records[row, PLACE] = LEFT_LINE, 0, place
                records[row, START], records[row, STOP] = start, end
                used[RECORDS] += 1
        start = end + 1
        place += 1
