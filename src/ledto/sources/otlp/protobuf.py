"""Decode spans and log records in protobuf by OpenTelemetry's own classes.

They follow protobuf's rules: if a field occurs twice, the last value counts or both are merged; unknown fields are skipped.
An unusual message that they decode goes to `exact`, by protobuf's own JSON mapping. If they refuse a message, they do not
say why: `_explain_refusal` finds out.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from opentelemetry.proto.trace.v1 import trace_pb2

from ledto.sources.otlp.exact import exact_record
from ledto.sources.otlp.model import LogRecord, Record, SpanEvent, SpanRecord
from ledto.sources.otlp.records import (
    LOGS,
    SPANS,
    Resource,
    bad_record,
    check,
    convert_record,
    resource_from,
    unreadable_resource,
)
from ledto.sources.otlp.values import SPAN_BYTES, TRACE_BYTES
from ledto.sources.rows import BadRecord, NeedsExactReader, values_of
from ledto.sources.spans.spans import SpansOrRows

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Wire types of protobuf."""

WireRowsOf: TypeAlias = Callable[[bytes, Resource, str, int], SpansOrRows]
"""The type of `wire_rows` and `exact_wire_rows`."""

MOST_NESTED: Final = 8
"""Arrays and maps inside each other in one attribute, at most; deeper ones are left to the exact reader."""
MOST_CHECKED: Final = 200
"""Messages inside each other that `_explain_refusal` looks into, at most."""

_ONLY_IN_LOGS = frozenset(
    {(1, FIXED64), (2, VARINT), (6, LENGTH), (7, VARINT), (8, FIXED32), (10, LENGTH), (11, FIXED64), (12, LENGTH)}
)
_ONLY_IN_SPANS = frozenset(
    {(1, LENGTH), (2, LENGTH), (4, LENGTH), (6, VARINT), (7, FIXED64), (8, FIXED64), (10, VARINT), (11, LENGTH)}
)
"""Fields, with their wire types, that only one of the two kinds of records has."""
_FIRST_BYTE_OF_SPANS, _FIRST_BYTE_OF_LOGS = 0x0A, 0x09
_NO_IDS = (bytes(TRACE_BYTES), bytes(SPAN_BYTES), b"")
_IDS = {"traceId": "trace_id", "spanId": "span_id", "parentSpanId": "parent_span_id"}
_BITS_64 = (1 << 64) - 1
_SHOWN_BYTES = 400
_MESSAGES: dict[str, type[Message]] = {SPANS: trace_pb2.Span, LOGS: logs_pb2.LogRecord}


def wire_resource(raw: bytes) -> Resource:
    """Read a resource; if that fails, return a resource with the problem."""
    try:
        return resource_from(MessageToDict(_decode(resource_pb2.Resource, raw)))
    except BadRecord as error:
        return unreadable_resource(error)


def wire_rows(raw: bytes, resource: Resource, file: str, place: int) -> SpansOrRows:
    """Read one record, good or bad, by the quick reader or else by the exact one."""
    return _rows(raw, resource, file, place, _quick_record)


def exact_wire_rows(raw: bytes, resource: Resource, file: str, place: int) -> SpansOrRows:
    """Read one record, good or bad, by protobuf's JSON mapping and the exact reader."""
    return _rows(raw, resource, file, place, _exact_record)


def _rows(
    raw: bytes, resource: Resource, file: str, place: int, record_of: Callable[[str, Any], Record]
) -> SpansOrRows:
    try:
        signal = signal_of(raw)
        record = record_of(signal, _decode(_MESSAGES[signal], raw))
        check(record, resource)
        return convert_record(record, resource, file, place)
    except BadRecord as error:
        return [values_of(bad_record(raw[:_SHOWN_BYTES], error, resource, file, place))]


def _quick_record(signal: str, message: Any) -> Record:
    try:
        return _span(message) if signal == SPANS else _log(message)
    except NeedsExactReader:
        return _exact_record(signal, message)


def _exact_record(signal: str, message: Any) -> Record:
    fields = MessageToDict(message)
    _write_ids_in_hex(fields, message)
    for link_fields, link in zip(fields.get("links", ()), message.links if signal == SPANS else (), strict=True):
        _write_ids_in_hex(link_fields, link)
    return exact_record(signal, fields)


def _write_ids_in_hex(fields: dict[str, Any], message: Any) -> None:
    """Replace base64 of protobuf's JSON mapping by hex of OTLP's."""
    for name, attribute in _IDS.items():
        if name in fields:
            fields[name] = getattr(message, attribute).hex()


def signal_of(raw: bytes) -> str:
    """Find out from its fields whether a message is a span or a log record. Raises `BadRecord` if it could be both."""
    first = raw[0] if raw else 0
    if first == _FIRST_BYTE_OF_SPANS:
        return SPANS
    if first == _FIRST_BYTE_OF_LOGS:
        return LOGS
    for number, wire, _, _ in _fields(raw):
        if (number, wire) in _ONLY_IN_LOGS:
            return LOGS
        if (number, wire) in _ONLY_IN_SPANS:
            return SPANS
    raise BadRecord("no-time", "a span or log record needs a time, and this has neither that nor an id")


def _decode(kind: type[Message], raw: bytes) -> Any:
    try:
        return kind.FromString(raw)
    except DecodeError:
        pass
    raise _explain_refusal(raw, kind.DESCRIPTOR)


def _span(span: Any) -> SpanRecord:
    status = span.status
    return SpanRecord(
        _id(span.trace_id, TRACE_BYTES),
        _id(span.span_id, SPAN_BYTES),
        _id(span.parent_span_id, SPAN_BYTES),
        span.name,
        span.kind,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _attributes(span.attributes),
        [
            SpanEvent(event.time_unix_nano, event.name, _attributes(event.attributes), event.dropped_attributes_count)
            for event in span.events
        ],
        [(_id(link.trace_id, TRACE_BYTES), _id(link.span_id, SPAN_BYTES)) for link in span.links],
        status.code,
        status.message,
        span.trace_state,
        span.dropped_attributes_count,
        span.dropped_events_count,
        span.dropped_links_count,
    )


def _log(log: Any) -> LogRecord:
    return LogRecord(
        log.time_unix_nano,
        log.observed_time_unix_nano,
        _id(log.trace_id, TRACE_BYTES),
        _id(log.span_id, SPAN_BYTES),
        _value(log.body, 0),
        _attributes(log.attributes),
        log.severity_number,
        log.severity_text,
        log.event_name,
        log.dropped_attributes_count,
    )


def _id(value: bytes, size_bytes: int) -> str | None:
    if value in _NO_IDS:
        return None
    if len(value) != size_bytes:
        raise NeedsExactReader
    return value.hex()


def _attributes(pairs: Any, depth: int = 0) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    pair: KeyValue
    for pair in pairs:
        value = pair.value
        # Most values are text, and to get the text is quicker than to get the type.
        attributes[pair.key] = value.string_value or _value(value, depth)
    return attributes


def _value(value: AnyValue, depth: int) -> Any:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind in ("string_value", "int_value", "bool_value"):
        return getattr(value, kind)
    if kind == "double_value":
        real = value.double_value
        return real if math.isfinite(real) else "NaN" if math.isnan(real) else "Infinity" if real > 0 else "-Infinity"
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode()
    if depth >= MOST_NESTED:
        raise NeedsExactReader
    if kind == "array_value":
        return [_value(element, depth + 1) for element in value.array_value.values]
    if kind == "kvlist_value":
        return _attributes(value.kvlist_value.values, depth + 1)
    raise NeedsExactReader


def _explain_refusal(raw: bytes, message: Descriptor) -> BadRecord:
    """Find out why OpenTelemetry's classes refuse this message."""
    try:
        _check(raw, 0, message, 0)
    except BadRecord as error:
        return error
    return BadRecord("not-protobuf", f"no {message.name} of OpenTelemetry, though its fields are whole")


def _check(raw: bytes, base: int, message: Descriptor, depth: int) -> None:
    if depth > MOST_CHECKED:
        raise BadRecord("too-deep", f"byte {base} of the record is more than {MOST_CHECKED} messages deep")
    for number, wire, start, stop in _fields(raw):
        field = message.fields_by_number.get(number)
        if field is None or wire != LENGTH:
            continue
        if field.type == FieldDescriptor.TYPE_STRING:
            try:
                raw[start:stop].decode("utf-8")
            except UnicodeDecodeError as error:
                where = base + start + error.start
                raise BadRecord("not-utf8", f"byte {where} of the record: {error.reason}") from None
        elif field.message_type is not None:
            _check(raw[start:stop], base + start, field.message_type, depth + 1)


def _fields(raw: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield the number and wire type of each field, and the start and stop of its value. Raises `BadRecord`."""
    at = 0
    while at < len(raw):
        start = at
        tag, at = _varint(raw, at)
        number, wire = tag >> 3, tag & 7
        if wire == LENGTH:
            length, at = _varint(raw, at)
            stop = at + length
        elif wire == VARINT:
            _, stop = _varint(raw, at)
        elif wire in (FIXED64, FIXED32):
            stop = at + (8 if wire == FIXED64 else 4)
        else:
            raise BadRecord(
                "not-protobuf", f"at byte {start} of the message: a wire type {wire}, which OTLP does not use"
            )
        if not number:
            raise BadRecord("not-protobuf", f"at byte {start} of the message: a field of number 0")
        if stop > len(raw):
            raise BadRecord(
                "not-protobuf", f"at byte {start} of the message: a field of {stop - at} bytes, and it ends"
            )
        yield number, wire, at, stop
        at = stop


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position, cut to 64 bits, and the position after it. Raises `BadRecord`."""
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
