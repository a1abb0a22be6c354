"""Messages of OTLP in protobuf as the fields that the JSON mapping has; the exact, slow way.

Only what OTLP's own messages say is known here (opentelemetry/proto/trace/v1, logs/v1, common/v1). Unknown fields, and
fields of another wire type than theirs, are left out, as protobuf wants it. Raises `BadRecord`.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterator
from typing import Any, Final

from whence.sources.otlp.records import LOGS, SPANS
from whence.sources.otlp.values import MOST_DEPTH
from whence.sources.rows import BadRecord

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5

_Schema = dict[int, tuple[str, int, str]]
"""By the number of a field: its name, its wire type, and how its value is read."""

_ANY_VALUE: Final[_Schema] = {
    1: ("stringValue", LENGTH, "text"),
    2: ("boolValue", VARINT, "bool"),
    3: ("intValue", VARINT, "int64"),
    4: ("doubleValue", FIXED64, "double"),
    5: ("arrayValue", LENGTH, "array"),
    6: ("kvlistValue", LENGTH, "pairs"),
    7: ("bytesValue", LENGTH, "base64"),
}
_PAIR: Final[_Schema] = {1: ("key", LENGTH, "text"), 2: ("value", LENGTH, "any")}
_MESSAGES: Final[dict[str, _Schema]] = {
    "any": _ANY_VALUE,
    "pair": _PAIR,
    "array": {1: ("values", LENGTH, "any*")},
    "pairs": {1: ("values", LENGTH, "pair*")},
    "status": {2: ("message", LENGTH, "text"), 3: ("code", VARINT, "uint64")},
    "event": {
        1: ("timeUnixNano", FIXED64, "fixed64"),
        2: ("name", LENGTH, "text"),
        3: ("attributes", LENGTH, "pair*"),
        4: ("droppedAttributesCount", VARINT, "uint64"),
    },
    "link": {1: ("traceId", LENGTH, "hex"), 2: ("spanId", LENGTH, "hex")},
    "resource": {1: ("attributes", LENGTH, "pair*")},
    SPANS: {
        1: ("traceId", LENGTH, "hex"),
        2: ("spanId", LENGTH, "hex"),
        3: ("traceState", LENGTH, "text"),
        4: ("parentSpanId", LENGTH, "hex"),
        5: ("name", LENGTH, "text"),
        6: ("kind", VARINT, "uint64"),
        7: ("startTimeUnixNano", FIXED64, "fixed64"),
        8: ("endTimeUnixNano", FIXED64, "fixed64"),
        9: ("attributes", LENGTH, "pair*"),
        10: ("droppedAttributesCount", VARINT, "uint64"),
        11: ("events", LENGTH, "event*"),
        12: ("droppedEventsCount", VARINT, "uint64"),
        13: ("links", LENGTH, "link*"),
        14: ("droppedLinksCount", VARINT, "uint64"),
        15: ("status", LENGTH, "status"),
    },
    LOGS: {
        1: ("timeUnixNano", FIXED64, "fixed64"),
        2: ("severityNumber", VARINT, "uint64"),
        3: ("severityText", LENGTH, "text"),
        5: ("body", LENGTH, "any"),
        6: ("attributes", LENGTH, "pair*"),
        7: ("droppedAttributesCount", VARINT, "uint64"),
        9: ("traceId", LENGTH, "hex"),
        10: ("spanId", LENGTH, "hex"),
        11: ("observedTimeUnixNano", FIXED64, "fixed64"),
        12: ("eventName", LENGTH, "text"),
    },
}

TELLING_LOGS: Final = frozenset(
    {(1, FIXED64), (2, VARINT), (6, LENGTH), (7, VARINT), (8, FIXED32), (10, LENGTH), (11, FIXED64), (12, LENGTH)}
)
TELLING_SPANS: Final = frozenset(
    {(1, LENGTH), (2, LENGTH), (4, LENGTH), (6, VARINT), (7, FIXED64), (8, FIXED64), (10, VARINT), (11, LENGTH)}
)
"""Fields, with their wire types, that only one of the two kinds of records has; all before is the same in both."""

_BITS_64 = (1 << 64) - 1


def signal_of(raw: bytes) -> str:
    """Whether this is a span or a log record, which the wire does not say."""
    for number, wire, _, _ in fields(raw):
        if (number, wire) in TELLING_LOGS:
            return LOGS
        if (number, wire) in TELLING_SPANS:
            return SPANS
    raise BadRecord("no-time", "a span or log record needs a time, and this has neither that nor an id")


def decoded(message: str, raw: bytes, *, depth: int = 0) -> dict[str, Any]:
    """The fields of a message, as JSON would have them."""
    if depth > 2 * MOST_DEPTH + 8:
        raise BadRecord("too-deep", f"more than {depth - 1} messages inside each other")
    schema = _MESSAGES[message]
    found: dict[str, Any] = {}
    for number, wire, start, stop in fields(raw):
        name, expected, kind = schema.get(number, ("", -1, ""))
        if wire != expected:
            continue
        if message == "any":
            # One of several: the last one counts.
            found.clear()
        if kind.endswith("*"):
            found.setdefault(name, []).append(decoded(kind[:-1], raw[start:stop], depth=depth + 1))
        elif kind in _MESSAGES:
            if name in found:
                raise BadRecord("duplicate-key", f"{name!r} is given twice")
            found[name] = decoded(kind, raw[start:stop], depth=depth + 1)
        else:
            found[name] = _value(kind, raw, start, stop)
    return found


def _value(kind: str, raw: bytes, start: int, stop: int) -> Any:
    if kind == "text":
        try:
            return raw[start:stop].decode("utf-8")
        except UnicodeDecodeError as error:
            raise BadRecord("not-utf8", f"byte {start + error.start} of the record: {error.reason}") from None
    if kind == "hex":
        return raw[start:stop].hex()
    if kind == "base64":
        return base64.b64encode(raw[start:stop]).decode()
    if kind == "fixed64":
        return int.from_bytes(raw[start:stop], "little")
    if kind == "double":
        value: float = struct.unpack_from("<d", raw, start)[0]
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    number, _ = varint(raw, start)
    if kind == "bool":
        return number != 0
    return number - (1 << 64) if kind == "int64" and number >> 63 else number


def fields(raw: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Number, wire type, start and stop of each field's value."""
    at = 0
    while at < len(raw):
        start = at
        tag, at = varint(raw, at)
        number, wire = tag >> 3, tag & 7
        if wire == LENGTH:
            length, at = varint(raw, at)
            stop = at + length
        elif wire == VARINT:
            _, stop = varint(raw, at)
        elif wire in (FIXED64, FIXED32):
            stop = at + (8 if wire == FIXED64 else 4)
        else:
            raise BadRecord("not-protobuf", f"at byte {start} of the message: a wire type {wire}, which OTLP has not")
        if not number:
            raise BadRecord("not-protobuf", f"at byte {start} of the message: a field of number 0")
        if stop > len(raw):
            raise BadRecord(
                "not-protobuf", f"at byte {start} of the message: a field of {stop - at} bytes, and it ends"
            )
        yield number, wire, at, stop
        at = stop


def varint(raw: bytes, at: int) -> tuple[int, int]:
    """The number at a position, cut to 64 bits, and the position after it."""
    value, shift, start = 0, 0, at
    while at < len(raw) and shift < 70:
        byte = raw[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & _BITS_64, at
        shift += 7
    what = "a number of more than 10 bytes" if shift >= 70 else "it ends inside a number"
    raise BadRecord("not-protobuf", f"at byte {start} of the message: {what}")
