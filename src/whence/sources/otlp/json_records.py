"""Spans and log records of JSON as exporters write it, decoded by msgspec; everything else is left to `exact`.

That nothing was lost in decoding is checked as `whence.sources.sure_json` says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Annotated, Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType
from msgspec.structs import astuple

from whence.sources.otlp.flat_pairs import flat_objects
from whence.sources.otlp.model import Event, LogRecord, Record, SpanRecord
from whence.sources.otlp.records import LOGS, SPANS
from whence.sources.otlp.values import SPAN_BYTES, TRACE_BYTES, json_text
from whence.sources.sure_json import (
    MOST_AT_ONCE_BYTES,
    NotSure,
    Strict,
    check_all_is_there,
    compact,
    hex_ids_or_none,
    places_in,
)
from whence.sources.times import INT64_LEAST, INT64_MOST

MOST_NESTED: Final = 8
"""Arrays and maps inside each other in one attribute; more are left."""

_Int64 = Annotated[int, msgspec.Meta(ge=INT64_LEAST, le=INT64_MOST)]
_MOST_DIGITS = 19
_MOST_NUMBERS = 10_000
_NO_SPAN = "0" * 2 * SPAN_BYTES
_NUMBER = re.compile(rb',"value":\{"(?:in(?=t)|doubl(?=e))(tValue":"-?[0-9]++"|eValue":-?[0-9][0-9.eE+-]*+)(?=\}\})')
_TEXT_OR_WORD = re.compile(rb',"value":\{"(?:stringValue":(?=")|boolValue":(?=[tf]))')
_REAL = re.compile(rb"[.eE]")


class _Strict(Strict, rename="camel"):
    """An object of OTLP's JSON mapping."""


class _AnyValue(_Strict):
    string_value: str | UnsetType = UNSET
    int_value: _Int64 | str | UnsetType = UNSET
    bool_value: bool | UnsetType = UNSET
    double_value: float | _Int64 | UnsetType = UNSET
    array_value: _Array | UnsetType = UNSET
    kvlist_value: _Pairs | UnsetType = UNSET
    bytes_value: str | UnsetType = UNSET


class _Pair(_Strict):
    key: str
    value: _AnyValue


class _Array(_Strict):
    values: list[_AnyValue] | UnsetType = UNSET


class _Pairs(_Strict):
    values: list[_Pair] | UnsetType = UNSET


class _Event(_Strict):
    time_unix_nano: _Int64 | str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    attributes: Raw | UnsetType = UNSET
    dropped_attributes_count: _Int64 | UnsetType = UNSET


class _Link(_Strict):
    trace_id: str | UnsetType = UNSET
    span_id: str | UnsetType = UNSET
    trace_state: str | UnsetType = UNSET
    attributes: list[_Pair] | UnsetType = UNSET
    dropped_attributes_count: _Int64 | UnsetType = UNSET
    flags: _Int64 | UnsetType = UNSET


class _Status(_Strict):
    message: str | UnsetType = UNSET
    code: _Int64 | UnsetType = UNSET


class _Span(_Strict):
    trace_id: str
    span_id: str
    trace_state: str | UnsetType = UNSET
    parent_span_id: str | UnsetType = UNSET
    flags: _Int64 | UnsetType = UNSET
    name: str | UnsetType = UNSET
    kind: _Int64 | UnsetType = UNSET
    start_time_unix_nano: _Int64 | str | UnsetType = UNSET
    end_time_unix_nano: _Int64 | str | UnsetType = UNSET
    attributes: Raw | UnsetType = UNSET
    dropped_attributes_count: _Int64 | UnsetType = UNSET
    events: list[_Event] | UnsetType = UNSET
    dropped_events_count: _Int64 | UnsetType = UNSET
    links: list[_Link] | UnsetType = UNSET
    dropped_links_count: _Int64 | UnsetType = UNSET
    status: _Status | UnsetType = UNSET


class _Log(_Strict):
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


class _InstrumentationScope(_Strict):
    name: str | UnsetType = UNSET
    version: str | UnsetType = UNSET
    attributes: list[_Pair] | UnsetType = UNSET
    dropped_attributes_count: _Int64 | UnsetType = UNSET


_S = TypeVar("_S")
_L = TypeVar("_L")


class _Scope(_Strict, Generic[_S, _L]):
    scope: _InstrumentationScope | UnsetType = UNSET
    spans: list[_S] | UnsetType = UNSET
    log_records: list[_L] | UnsetType = UNSET
    schema_url: str | UnsetType = UNSET


class _Resource(_Strict, Generic[_S, _L]):
    resource: Raw | UnsetType = UNSET
    scope_spans: list[_Scope[_S, _L]] | UnsetType = UNSET
    scope_logs: list[_Scope[_S, _L]] | UnsetType = UNSET
    schema_url: str | UnsetType = UNSET


class _Request(_Strict, Generic[_S, _L]):
    resource_spans: list[_Resource[_S, _L]] | UnsetType = UNSET
    resource_logs: list[_Resource[_S, _L]] | UnsetType = UNSET


_Held = TypeVar("_Held")

_ALL_SPANS, _ALL_LOGS = msgspec.json.Decoder(list[_Span]), msgspec.json.Decoder(list[_Log])
_REQUEST, _RAW_REQUEST = msgspec.json.Decoder(_Request[_Span, _Log]), msgspec.json.Decoder(_Request[Raw, Raw])
_RESOURCES = msgspec.json.Decoder(list[_Resource[_Span, _Log]])
_RAW_RESOURCES = msgspec.json.Decoder(list[_Resource[Raw, Raw]])
_PAIRS = msgspec.json.Decoder(list[_Pair])
_ARRAY_BEGINS = {name: re.compile(rb'"%b"[ \t\r\n]*:[ \t\r\n]*\[[ \t\r\n]*' % name.encode()) for name in (SPANS, LOGS)}
_NO_ATTRIBUTES = b"[]"


class Array(NamedTuple, Generic[_Held]):
    """An array of records, or of their texts."""

    resource: bytes | None
    """The text of the resource."""
    signal: str
    records: list[_Held]


def quick_request(raw: bytes) -> list[Array[Record]]:
    """The records of a request. Raises one of `NOT_TAKEN`."""
    if len(raw) > MOST_AT_ONCE_BYTES:
        raise NotSure
    raw = compact(raw)
    request = _REQUEST.decode(raw)
    check_all_is_there(raw, request)
    return _records(_either(request.resource_spans, request.resource_logs))


def texts_in_request(raw: bytes) -> list[Array[Raw]]:
    """The texts of a request's records. Raises one of `NOT_TAKEN`."""
    request = _RAW_REQUEST.decode(raw)
    check_all_is_there(raw, request)
    return [*_arrays(_either(request.resource_spans, request.resource_logs), Raw)]


def quick_resources(raw: bytes) -> tuple[list[Array[Record]], list[int]]:
    """The records in elements of a request, with commas between them, and where in the text each record begins.

    Raises one of `NOT_TAKEN`.
    """
    raw = b"[%b]" % raw
    places, at, arrays = [], 0, [*_arrays(_RAW_RESOURCES.decode(raw), Raw)]
    for array in arrays:
        begins = _ARRAY_BEGINS[array.signal].search(raw, at)
        if begins is None:
            raise NotSure
        found, at = places_in(raw, begins.end(), array.records)
        places += [place - 1 for place in found]
    if raw.count(b'"spans"') + raw.count(b'"logRecords"') != len(arrays):
        # One of the names stands elsewhere too, and may have been taken for that of an array.
        raise NotSure
    raw = compact(raw)
    resources = _RESOURCES.decode(raw)
    check_all_is_there(raw, resources)
    return _records(resources), places


def _arrays(resources: Sequence[_Resource[_S, _L]], _: type[_Held]) -> Iterator[Array[_Held]]:
    for resource in resources:
        of_resource = bytes(resource.resource) if resource.resource else None
        for scope in _either(resource.scope_spans, resource.scope_logs):
            if scope.spans is not UNSET and scope.log_records is not UNSET:
                raise NotSure
            held: Any = scope.spans or scope.log_records or []
            yield Array(of_resource, LOGS if scope.spans is UNSET else SPANS, held)


def _records(resources: Sequence[_Resource[_Span, _Log]]) -> list[Array[Record]]:
    arrays = [*_arrays(resources, _Span)]
    spans = iter(_spans([span for array in arrays if array.signal == SPANS for span in array.records]))
    return [
        Array(each.resource, each.signal, [*islice(spans, len(each.records))])
        if each.signal == SPANS
        else Array(each.resource, each.signal, [_log(log) for log in each.records])  # type: ignore[arg-type]
        for each in arrays
    ]


def _either(one: list[_Held] | UnsetType, other: list[_Held] | UnsetType) -> Sequence[_Held]:
    """The one that is there: of both, it is not known any more which came first."""
    if one and other:
        raise NotSure
    return one or other or ()


def quick_records(signal: str, raws: Sequence[Raw | bytes]) -> list[Record]:
    """These records. Raises one of `NOT_TAKEN`."""
    array = b"[%b]" % b",".join(raws)
    if len(array) > MOST_AT_ONCE_BYTES and len(raws) > 1:
        raise NotSure
    array = compact(array)
    if signal == SPANS:
        spans = _ALL_SPANS.decode(array)
        check_all_is_there(array, spans)
        return _spans(spans)
    logs = _ALL_LOGS.decode(array)
    check_all_is_there(array, logs)
    return [_log(log) for log in logs]


def _spans(spans: list[_Span]) -> list[Record]:
    events = [event for span in spans if span.events for event in span.events]
    of_events = zip(events, _flat_attributes([event.attributes for event in events]), strict=True)
    return [
        SpanRecord(
            trace,
            key,
            parent,
            span.name or "",
            span.kind or 0,
            start,
            end,
            attributes,
            [_event(*next(of_events)) for _ in span.events] if span.events else (),
            [_link(link) for link in span.links] if span.links else (),
            (status.code or 0) if (status := span.status) else 0,
            (status.message or "") if status else "",
            span.trace_state or "",
            span.dropped_attributes_count or 0,
            span.dropped_events_count or 0,
            span.dropped_links_count or 0,
            text,
        )
        for span, trace, key, parent, start, end, (text, attributes) in zip(
            spans,
            _ids([span.trace_id for span in spans], TRACE_BYTES),
            _ids([span.span_id for span in spans], SPAN_BYTES),
            _ids([span.parent_span_id or _NO_SPAN for span in spans], SPAN_BYTES),
            _times([span.start_time_unix_nano for span in spans]),
            _times([span.end_time_unix_nano for span in spans]),
            _flat_attributes([span.attributes for span in spans]),
            strict=True,
        )
    ]


def _ids(values: list[str], size_bytes: int) -> list[str] | list[str | None]:
    if not {2 * size_bytes}.issuperset(map(len, values)):
        raise NotSure
    return hex_ids_or_none(values, 2 * size_bytes)


def _flat_attributes(lists: list[Raw | UnsetType]) -> list[tuple[str | None, dict[str, Any]]]:
    """The attributes of each list, as text where it is at hand, and as values."""
    raws = [bytes(each or _NO_ATTRIBUTES) for each in lists]
    found = iter(flat_objects([raw for raw in raws if raw != _NO_ATTRIBUTES], _with_colons))
    return [(None, {}) if raw == _NO_ATTRIBUTES else next(found) or (None, _listed_attributes(raw)) for raw in raws]


def _with_colons(lists: bytes) -> bytes:
    parts = _NUMBER.split(lists)
    parts[1::2] = map(_NUMBERS.__getitem__, parts[1::2])
    return _TEXT_OR_WORD.sub(b":", b"".join(parts))


class _Numbers(dict[bytes, bytes]):
    """Numbers as OTLP spells them, from the last letter of their kind on, as they are written; raises `NotSure`."""

    def __missing__(self, given: bytes) -> bytes:
        kind, _, digits = given.partition(b":")
        if kind.startswith(b"t"):
            number: float = _integer(digits.strip(b'"').decode())
        else:
            number = float(digits if _REAL.search(digits) else _integer(digits.decode()))
            if math.isinf(number):
                raise NotSure
        if len(self) >= _MOST_NUMBERS:
            self.clear()
        found = self[given] = b":" + json_text(number).encode()
        return found


_NUMBERS = _Numbers()


def _listed_attributes(raw: bytes) -> dict[str, Any]:
    """Attributes read one by one."""
    pairs = _PAIRS.decode(raw)
    check_all_is_there(raw, pairs)
    return _attributes(pairs)


def _log(log: _Log) -> LogRecord:
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


def _event(event: _Event, flat: tuple[str | None, dict[str, Any]]) -> Event:
    text, attributes = flat
    return Event(_time(event.time_unix_nano), event.name or "", attributes, event.dropped_attributes_count or 0, text)


def _link(link: _Link) -> tuple[str | None, str | None]:
    return _id(link.trace_id or "", TRACE_BYTES), _id(link.span_id or "", SPAN_BYTES)


def _id(value: str, size_bytes: int) -> str | None:
    """The id in lower case; None for zeros."""
    if len(value) != 2 * size_bytes or len(bytes.fromhex(value)) != size_bytes:
        raise NotSure
    return value.lower() if value.strip("0") else None


def _attributes(pairs: list[_Pair], depth: int = 0) -> dict[str, Any]:
    """The values by their keys; of a key given twice, the last."""
    found: dict[str, Any] = {}
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
            # A text alone, as most are: `_value` would say the same, and a call takes longer than all of this.
            found[pair.key] = value.string_value
        else:
            found[pair.key] = _value(value, depth)
    return found


def _value(value: _AnyValue, depth: int) -> Any:
    kinds = astuple(value)
    if kinds.count(UNSET) != len(kinds) - 1:
        # None, or too many.
        raise NotSure
    text, number, word, real, array, pairs, packed = kinds
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
        raise NotSure
    if pairs is not UNSET:
        return _attributes(pairs.values or [], depth + 1)
    return [_value(each, depth + 1) for each in array.values or ()]


def _times(values: list[int | str | UnsetType]) -> list[int]:
    """As `_time`, of many."""
    if {str}.issuperset(map(type, values)) and values:
        digits = "".join(values)  # type: ignore[arg-type]
        if digits.isdigit() and digits.isascii() and max(map(len, values)) <= _MOST_DIGITS:  # type: ignore[arg-type]
            return [*map(int, values)]  # type: ignore[arg-type]
    return [_time(value) for value in values]


def _time(value: int | str | UnsetType) -> int:
    """A time, which may still be too large."""
    if isinstance(value, str):
        if not (value.isdigit() and value.isascii() and len(value) <= _MOST_DIGITS):
            raise NotSure
        return int(value)
    return value or 0


def _integer(value: int | str) -> int:
    if isinstance(value, str):
        digits = value.removeprefix("-")
        # With one digit more it may be too large.
        if not (digits.isdigit() and digits.isascii() and len(digits) < _MOST_DIGITS):
            raise NotSure
        return int(value)
    return value
