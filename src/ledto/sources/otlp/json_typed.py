"""Decode usual spans and log records in JSON by msgspec; leave unusual ones to `exact`.

`ledto.sources.json.typed` says how it is checked that decoding lost nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import astuple

from ledto.sources.json.typed import MOST_AT_ONCE_BYTES, KnownObject, check_all_is_there
from ledto.sources.otlp.model import LogRecord, Record, SpanEvent, SpanRecord
from ledto.sources.otlp.records import LOGS, SPANS
from ledto.sources.otlp.values import SPAN_BYTES, TRACE_BYTES
from ledto.sources.rows import NeedsExactReader
from ledto.sources.times import INT64_LEAST, INT64_MOST

MOST_NESTED: Final = 8
"""Arrays and maps inside each other in one attribute, at most; deeper ones are left to the exact reader."""

_Int64 = Annotated[int, msgspec.Meta(ge=INT64_LEAST, le=INT64_MOST)]
_MOST_DIGITS = 19
_TRACE_DIGITS, _SPAN_DIGITS, _ID_BYTES = 2 * TRACE_BYTES, 2 * SPAN_BYTES, TRACE_BYTES + 2 * SPAN_BYTES
_NO_TRACE, _NO_SPAN = "0" * _TRACE_DIGITS, "0" * _SPAN_DIGITS


class _OtlpObject(KnownObject, rename="camel"):
    """An object of OTLP's JSON mapping."""


class _AnyValue(_OtlpObject):
    string_value: str | UnsetType = UNSET
    int_value: _Int64 | str | UnsetType = UNSET
    bool_value: bool | UnsetType = UNSET
    double_value: float | _Int64 | UnsetType = UNSET
    array_value: _Array | UnsetType = UNSET
    kvlist_value: _AttributePairs | UnsetType = UNSET
    bytes_value: str | UnsetType = UNSET


class _Pair(_OtlpObject):
    key: str
    value: _AnyValue


class _Array(_OtlpObject):
    values: list[_AnyValue] | UnsetType = UNSET


class _AttributePairs(_OtlpObject):
    values: list[_Pair] | UnsetType = UNSET


class _TypedEvent(_OtlpObject):
    time_unix_nano: _Int64 | str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    attributes: list[_Pair] | UnsetType = UNSET
    dropped_attributes_count: _Int64 | UnsetType = UNSET


class _Link(_OtlpObject):
    trace_id: str | UnsetType = UNSET
    span_id: str | UnsetType = UNSET
    trace_state: str | UnsetType = UNSET
    attributes: list[_Pair] | UnsetType = UNSET
    dropped_attributes_count: _Int64 | UnsetType = UNSET
    flags: _Int64 | UnsetType = UNSET


class _Status(_OtlpObject):
    message: str | UnsetType = UNSET
    code: _Int64 | UnsetType = UNSET


class _TypedSpan(_OtlpObject):
    trace_id: str
    span_id: str
    trace_state: str | UnsetType = UNSET
    parent_span_id: str | UnsetType = UNSET
    flags: _Int64 | UnsetType = UNSET
    name: str | UnsetType = UNSET
    kind: _Int64 | UnsetType = UNSET
    start_time_unix_nano: _Int64 | str | UnsetType = UNSET
    end_time_unix_nano: _Int64 | str | UnsetType = UNSET
    attributes: list[_Pair] | UnsetType = UNSET
    dropped_attributes_count: _Int64 | UnsetType = UNSET
    events: list[_TypedEvent] | UnsetType = UNSET
    dropped_events_count: _Int64 | UnsetType = UNSET
    links: list[_Link] | UnsetType = UNSET
    dropped_links_count: _Int64 | UnsetType = UNSET
    status: _Status | UnsetType = UNSET


class _TypedLog(_OtlpObject):
    time_unix_nano: _Int64 | str | UnsetType = UNSET
    observed_time_unix_nano: _Int64 | str | UnsetType = UNSET
    severity_number: _Int64 | UnsetType = UNSET
    severity_text: str | UnsetType = UNSET
    body: _AnyValue | UnsetType = UNSET
    attributes: list[_Pair] | UnsetType = UNSET
    dropped_attributes_count: _Int64 | UnsetType = UNSET
    flags: _Int64 | UnsetType = UNSET
    trace_id: str | UnsetType = UNSET
    span_id: str | UnsetType = UNSET
    event_name: str | UnsetType = UNSET


class _InstrumentationScope(_OtlpObject):
    name: str | UnsetType = UNSET
    version: str | UnsetType = UNSET
    attributes: list[_Pair] | UnsetType = UNSET
    dropped_attributes_count: _Int64 | UnsetType = UNSET


class _Scope(_OtlpObject):
    scope: _InstrumentationScope | UnsetType = UNSET
    spans: Raw | UnsetType = UNSET
    log_records: Raw | UnsetType = UNSET
    schema_url: str | UnsetType = UNSET


class _TypedResource(_OtlpObject):
    resource: Raw | UnsetType = UNSET
    scope_spans: list[_Scope] | UnsetType = UNSET
    scope_logs: list[_Scope] | UnsetType = UNSET
    schema_url: str | UnsetType = UNSET


class _Request(_OtlpObject):
    resource_spans: list[_TypedResource] | UnsetType = UNSET
    resource_logs: list[_TypedResource] | UnsetType = UNSET


_Element = TypeVar("_Element")

_SPAN, _LOG = msgspec.json.Decoder(_TypedSpan), msgspec.json.Decoder(_TypedLog)
_ALL_SPANS, _ALL_LOGS = msgspec.json.Decoder(list[_TypedSpan]), msgspec.json.Decoder(list[_TypedLog])
_REQUEST, _RESOURCE = msgspec.json.Decoder(_Request), msgspec.json.Decoder(_TypedResource)
_MEMBER = {name: re.compile(rb'"%b"[ \t\r\n]*:[ \t\r\n]*' % name.encode()) for name in (SPANS, LOGS)}
_EMPTY = b"[]"


class RecordArray(NamedTuple):
    """An array of records, unparsed."""

    resource: bytes | None
    """The text of their resource."""
    signal: str
    """`SPANS` or `LOGS`."""
    text: bytes


def quick_request(raw: bytes) -> list[RecordArray]:
    """Return the arrays of records in a request. Raises one of `NOT_TAKEN`."""
    request = _REQUEST.decode(raw)
    check_all_is_there(raw, request)
    resources = _either(request.resource_spans, request.resource_logs)
    return [array for resource in resources for array in _arrays(resource)]


def quick_resource(raw: bytes) -> list[tuple[RecordArray, int]]:
    """Return the arrays of records in one element of a request, and where they begin in it. Raises one of `NOT_TAKEN`."""
    resource = _RESOURCE.decode(raw)
    check_all_is_there(raw, resource)
    arrays, at = [], 0
    for array in _arrays(resource):
        if array.text == _EMPTY:
            continue
        member = _MEMBER[array.signal].search(raw, at)
        if member is None or not raw.startswith(array.text, member.end()):
            raise NeedsExactReader
        arrays.append((array, member.end()))
        at = member.end() + len(array.text)
    return arrays


def _arrays(resource: _TypedResource) -> Iterator[RecordArray]:
    of_resource = bytes(resource.resource) if resource.resource else None
    for scope in _either(resource.scope_spans, resource.scope_logs):
        if scope.spans and scope.log_records:
            raise NeedsExactReader
        text = bytes(scope.spans or scope.log_records or _EMPTY)
        if text[:1] != b"[":
            raise NeedsExactReader
        yield RecordArray(of_resource, SPANS if scope.spans else LOGS, text)


def _either(one: list[_Element] | UnsetType, other: list[_Element] | UnsetType) -> Sequence[_Element]:
    """Return the list that is given. Raises `NeedsExactReader` for both: decoding does not keep which came first."""
    if one and other:
        raise NeedsExactReader
    return one or other or ()


def quick_records(signal: str, array: bytes) -> list[Record]:
    """Decode the records of an array. Raises one of `NOT_TAKEN`."""
    if len(array) > MOST_AT_ONCE_BYTES:
        raise NeedsExactReader
    if signal == SPANS:
        spans = _ALL_SPANS.decode(array)
        check_all_is_there(array, spans)
        return [_span(span) for span in spans]
    logs = _ALL_LOGS.decode(array)
    check_all_is_there(array, logs)
    return [_log(log) for log in logs]


def quick_record(signal: str, raw: bytes) -> Record:
    """Decode one record. Raises one of `NOT_TAKEN`."""
    if signal == SPANS:
        span = _SPAN.decode(raw)
        check_all_is_there(raw, span)
        return _span(span)
    log = _LOG.decode(raw)
    check_all_is_there(raw, log)
    return _log(log)


def _span(span: _TypedSpan) -> SpanRecord:
    trace, key, parent, status = span.trace_id, span.span_id, span.parent_span_id or "", span.status
    if not (
        len(trace) == _TRACE_DIGITS
        and len(key) == _SPAN_DIGITS
        and (len(parent) == _SPAN_DIGITS or not parent)
        and len(bytes.fromhex(f"{trace}{key}{parent}")) == (_ID_BYTES if parent else TRACE_BYTES + SPAN_BYTES)
    ):
        raise NeedsExactReader
    return SpanRecord(
        trace.lower() if trace != _NO_TRACE else None,
        key.lower() if key != _NO_SPAN else None,
        parent.lower() if parent and parent != _NO_SPAN else None,
        span.name or "",
        span.kind or 0,
        _time(span.start_time_unix_nano),
        _time(span.end_time_unix_nano),
        _attributes(span.attributes) if span.attributes else {},
        [_event(event) for event in span.events] if span.events else (),
        [_link(link) for link in span.links] if span.links else (),
        (status.code or 0) if status else 0,
        (status.message or "") if status else "",
        span.trace_state or "",
        span.dropped_attributes_count or 0,
        span.dropped_events_count or 0,
        span.dropped_links_count or 0,
    )


def _log(log: _TypedLog) -> LogRecord:
    return LogRecord(
        _time(log.time_unix_nano),
        _time(log.observed_time_unix_nano),
        _id(log.trace_id, TRACE_BYTES) if log.trace_id else None,
        _id(log.span_id, SPAN_BYTES) if log.span_id else None,
        _value(log.body, 0) if log.body else None,
        _attributes(log.attributes) if log.attributes else {},
        log.severity_number or 0,
        log.severity_text or "",
        log.event_name or "",
        log.dropped_attributes_count or 0,
    )


def _event(event: _TypedEvent) -> SpanEvent:
    attributes = _attributes(event.attributes) if event.attributes else {}
    return SpanEvent(_time(event.time_unix_nano), event.name or "", attributes, event.dropped_attributes_count or 0)


def _link(link: _Link) -> tuple[str | None, str | None]:
    return _id(link.trace_id or "", TRACE_BYTES), _id(link.span_id or "", SPAN_BYTES)


def _id(value: str, size_bytes: int) -> str | None:
    """Return the id in lower case; None for zeros. Raises `NeedsExactReader`."""
    if len(value) != 2 * size_bytes or len(bytes.fromhex(value)) != size_bytes:
        raise NeedsExactReader
    return value.lower() if value.strip("0") else None


def _attributes(pairs: list[_Pair], depth: int = 0) -> dict[str, Any]:
    """Return the values by their keys; if a key occurs twice, the last value counts."""
    attributes: dict[str, Any] = {}
    for pair in pairs:
        value = pair.value
        if value.string_value is not UNSET and (
            value.int_value
            is value.bool_value
            is value.double_value
            is value.array_value
            is value.kvlist_value
            is value.bytes_value
            is UNSET
        ):
            # Most values are text. `_value` would return the same, but the call takes longer than this check.
            attributes[pair.key] = value.string_value
        else:
            attributes[pair.key] = _value(value, depth)
    return attributes


def _value(value: _AnyValue, depth: int) -> Any:
    members = astuple(value)
    if members.count(UNSET) != len(members) - 1:
        # It has no value, or several.
        raise NeedsExactReader
    text, number, word, real, array, pairs, packed = members
    if text is not UNSET:
        return text
    if number is not UNSET:
        return _integer(number)
    if word is not UNSET:
        return word
    if real is not UNSET:
        return float(real)
    if packed is not UNSET:
        return packed
    if depth == MOST_NESTED:
        raise NeedsExactReader
    if pairs is not UNSET:
        return _attributes(pairs.values or [], depth + 1)
    return [_value(element, depth + 1) for element in array.values or ()]


def _time(value: int | str | UnsetType) -> int:
    """Return a time, 0 if it is not given. It may be too large: `records.check` looks."""
    if isinstance(value, str):
        if not (value.isdigit() and value.isascii() and len(value) <= _MOST_DIGITS):
            raise NeedsExactReader
        return int(value)
    return value or 0


def _integer(value: int | str) -> int:
    if isinstance(value, str):
        digits = value.removeprefix("-")
        # A number with one more digit may be too large.
        if not (digits.isdigit() and digits.isascii() and len(digits) < _MOST_DIGITS):
            raise NeedsExactReader
        return int(value)
    return value
