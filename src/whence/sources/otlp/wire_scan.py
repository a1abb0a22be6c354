"""Requests of OTLP in protobuf at compiled speed. A request with anything unusual around its records is left as a whole."""

from __future__ import annotations

from typing import Any, Final

from numba import njit

from whence.sources.json_values import BYTES
from whence.sources.otlp.emit import HEAP_BYTES, TABLE
from whence.sources.otlp.frames import LEGACY, RECORDS_FIELD, RESOURCE_FIELD, RESOURCES_FIELD, SCOPES_FIELD
from whence.sources.otlp.json_texts import signed
from whence.sources.otlp.layout import (
    DOUBLES,
    HEAP,
    LEFT,
    MOMENTS,
    PLACE,
    RECORDS,
    RESOURCE,
    RESOURCES,
    START,
    STATUS,
    STOP,
)
from whence.sources.otlp.wire import FIXED32, FIXED64, LENGTH, VARINT
from whence.sources.otlp.wire_records import scan_log, scan_span
from whence.sources.otlp.wire_values import field, varint

BARE: Final = 0
FOUR_BYTES: Final = 1
VARINTS: Final = 2

_AS_JSON = 6
"""Bytes that one byte of text may become: a control character is written as ``\\u0001``."""
_TEXT_BYTES_A_BYTE = 2 * _AS_JSON + 1
_TEXT_BYTES_MORE = 1 << 10
"""The most that a record is written in: the body of a log record as JSON, as it is, and as JSON again; and
the names of members beside it. A record that has less room is left."""

_TABLES = f"{TABLE}, {TABLE}, {TABLE}, {TABLE}, {HEAP_BYTES}, int64[::1]"


@njit(f"boolean({BYTES}, int64, int64)", cache=True, nogil=True)
def _is_log(data: Any, at: int, stop: int) -> bool:
    """As `signal_of`; a record that is neither is no span either."""
    while at >= 0 and at < stop:
        at, number, wire, _, _ = field(data, at, stop)
        if at < 0:
            return False
        if (
            (number == 1 and wire == FIXED64)
            or (number == 2 and wire == VARINT)
            or (number == 6 and wire == LENGTH)
            or (number == 7 and wire == VARINT)
            or (number == 8 and wire == FIXED32)
            or (number == 10 and wire == LENGTH)
            or (number == 11 and wire == FIXED64)
            or (number == 12 and wire == LENGTH)
        ):
            return True
        if (
            ((number == 1 or number == 2 or number == 4 or number == 11) and wire == LENGTH)
            or ((number == 6 or number == 10) and wire == VARINT)
            or ((number == 7 or number == 8) and wire == FIXED64)
        ):
            return False
    return False


@njit(f"boolean({BYTES}, int64, int64, int64, int64, {_TABLES})", cache=True, nogil=True)
def _scan_scope(
    data: Any, at: int, stop: int, resource: int, base: int, records: Any, moments: Any, doubles: Any, resources: Any,
    heap: Any, used: Any,
) -> bool:  # fmt: skip
    while at < stop:
        at, number, wire, start, _ = field(data, at, stop)
        if at < 0:
            return False
        if number != RECORDS_FIELD or wire != LENGTH:
            continue
        row = used[RECORDS]
        if row == len(records):
            return False
        moments_before, doubles_before, heap_before = used[MOMENTS], used[DOUBLES], used[HEAP]
        taken = _TEXT_BYTES_A_BYTE * (at - start) + _TEXT_BYTES_MORE < len(heap) - heap_before
        if taken and _is_log(data, start, at):
            taken = scan_log(data, start, at, records, moments, doubles, heap, used)
        elif taken:
            taken = scan_span(data, start, at, records, moments, doubles, heap, used)
        if not taken:
            used[MOMENTS], used[DOUBLES], used[HEAP] = moments_before, doubles_before, heap_before
            records[row, STATUS] = LEFT
        records[row, RESOURCE], records[row, PLACE] = resource, base + start
        records[row, START], records[row, STOP] = start, at
        used[RECORDS] += 1
    return True


@njit(f"boolean({BYTES}, int64, int64, int64, {_TABLES})", cache=True, nogil=True)
def _scan_resource(
    data: Any, at: int, stop: int, base: int, records: Any, moments: Any, doubles: Any, resources: Any, heap: Any,
    used: Any,
) -> bool:  # fmt: skip
    resource = used[RESOURCES]
    if resource == len(resources):
        return False
    resources[resource, 0], resources[resource, 1] = 0, 0
    used[RESOURCES] += 1
    while at < stop:
        at, number, wire, start, _ = field(data, at, stop)
        if at < 0 or number == LEGACY:
            return False
        if wire != LENGTH:
            continue
        if number == RESOURCE_FIELD:
            if resources[resource, 1]:
                return False
            resources[resource, 0], resources[resource, 1] = start, at
        elif number == SCOPES_FIELD and not _scan_scope(
            data, start, at, resource, base, records, moments, doubles, resources, heap, used
        ):
            return False
    return True


@njit(f"boolean({BYTES}, int64, int64, int64, {_TABLES})", cache=True, nogil=True)
def _scan_request(
    data: Any, at: int, stop: int, base: int, records: Any, moments: Any, doubles: Any, resources: Any, heap: Any,
    used: Any,
) -> bool:  # fmt: skip
    while at < stop:
        at, number, wire, start, _ = field(data, at, stop)
        if at < 0:
            return False
        is_resource = number == RESOURCES_FIELD and wire == LENGTH
        if is_resource and not _scan_resource(data, start, at, base, records, moments, doubles, resources, heap, used):
            return False
    return True


@njit(f"int64({BYTES}, int64, int64, int64, {_TABLES})", cache=True, nogil=True)
def scan_requests(
    data: Any, at: int, framing: int, base: int, records: Any, moments: Any, doubles: Any, resources: Any, heap: Any,
    used: Any,
) -> int:  # fmt: skip
    """Write down what the requests from `at` on hold; gives where the first begins that is left, or is not all there.

    Without frames, each field of the one request there is counts as one.
    """
    while at < len(data):
        start, stop = at, at
        if framing == BARE:
            stop, _, _, _, _ = field(data, at, len(data))
        else:
            if framing == VARINTS:
                start, length = varint(data, at, len(data))
            elif at + 4 <= len(data):
                start = at + 4
                length = (
                    signed(data[at]) << 24
                    | signed(data[at + 1]) << 16
                    | signed(data[at + 2]) << 8
                    | signed(data[at + 3])
                )
            else:
                return at
            if start < 0 or length < 0 or length > len(data) - start:
                return at
            stop = start + length
        if stop < 0:
            return at
        before = used.copy()
        if not _scan_request(data, start, stop, base, records, moments, doubles, resources, heap, used):
            used[:] = before
            return at
        at = stop
    return at
