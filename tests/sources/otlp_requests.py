"""Requests of OTLP for the tests: small ones, random ones, and the same in protobuf by OpenTelemetry's own classes."""

from __future__ import annotations

import base64
import json
from typing import Any

from google.protobuf.json_format import ParseDict
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ledto.sources.otlp import Otlp

EXACT = Otlp(exact=True)
QUICK = Otlp()

TRACE = "5b8efff798038103d269b633813fc60c"
SPAN = "00f067aa0ba902b7"
NOON_NS = 1_714_564_800_000_000_000

Json = dict[str, Any]


def attributes(**values: Any) -> list[Json]:
    """Attributes, with ``__`` in names for dots."""
    return [{"key": key.replace("__", "."), "value": any_value(value)} for key, value in values.items()]


def any_value(value: Any) -> Json:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, bytes):
        return {"bytesValue": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(each) for each in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": any_value(each)} for key, each in value.items()]}}
    return {"stringValue": value}


def span(**fields: Any) -> Json:
    """A good span, but for these fields; one that is ``...`` is left out."""
    whole = {"traceId": TRACE, "spanId": SPAN, "name": "work", "startTimeUnixNano": str(NOON_NS)}
    whole |= {"endTimeUnixNano": str(NOON_NS + 10)} | fields
    return {name: value for name, value in whole.items() if value is not ...}


def log(**fields: Any) -> Json:
    """A good log record, but for these fields; one that is ``...`` is left out."""
    whole = {"timeUnixNano": str(NOON_NS), "body": {"stringValue": "said"}} | fields
    return {name: value for name, value in whole.items() if value is not ...}


def of_spans(*spans: Any, resource: Any = None) -> Json:
    return {"resourceSpans": [{"resource": resource or {}, "scopeSpans": [{"spans": [*spans]}]}]}


def of_logs(*logs: Any, resource: Any = None) -> Json:
    return {"resourceLogs": [{"resource": resource or {}, "scopeLogs": [{"logRecords": [*logs]}]}]}


def lines(*requests: Any) -> bytes:
    return b"".join(json.dumps(request, separators=(",", ":")).encode() + b"\n" for request in requests)


def message(request: Json) -> bytes:
    """The request as OpenTelemetry's own classes write it."""
    kind = ExportLogsServiceRequest if "resourceLogs" in request else ExportTraceServiceRequest
    written: bytes = ParseDict(_base64_ids(request), kind()).SerializeToString()
    return written


def with_lengths(*messages: bytes) -> bytes:
    return b"".join(len(each).to_bytes(4, "big") + each for each in messages)


def varint(number: int) -> bytes:
    found = b""
    while number > 127:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


def _base64_ids(value: Any) -> Any:
    """Protobuf's own JSON mapping wants ids as base64, from which OTLP's departs."""
    if isinstance(value, dict):
        return {
            key: base64.b64encode(bytes.fromhex(inner)).decode()
            if key in ("traceId", "spanId", "parentSpanId")
            else _base64_ids(inner)
            for key, inner in value.items()
        }
    return [_base64_ids(inner) for inner in value] if isinstance(value, list) else value


_TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12) | st.sampled_from(
    [
        "",
        "a",
        "zurück",
        "line\nline",
        'said "x"',
        "back\\slash",
        "\x00",
        "\x1f",
        "€" * 201,
        "b" * 250,
        "\r\n",
        "😀",
        "</a>",
    ]
)
_IDS_OF_TRACES = st.sampled_from([TRACE, "0" * 31 + "1", "f" * 32])
_IDS_OF_SPANS = st.sampled_from([SPAN, "00f067aa0ba902b8", "f" * 16])
_INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-10, 10)
_DOUBLES = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, 0.5, 1.0, 637.704, 1e-4, 1e-5, 1e16, 123456789012345.0, 0.1 + 0.2, 5e-324, 1e300]
)
_VALUES = st.recursive(
    _TEXTS | st.booleans() | _INTEGERS | _DOUBLES | st.binary(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)
_KEYS = _TEXTS | st.sampled_from(
    ["http.route", "otel.status_description", "severity", "body", "service.version", "event.name", "w3c.tracestate"]
)
_PAIRS = st.builds(lambda key, value: {"key": key, "value": any_value(value)}, _KEYS, _VALUES)
_ATTRIBUTES = st.lists(_PAIRS, max_size=4)
_TIMES = st.sampled_from([str(NOON_NS), str(NOON_NS + 5), "1", str(2**63 - 1)])
_COUNTS = st.sampled_from([0, 1, 7, 2**32 - 1])


def _some(needed: dict[str, Any], optional: dict[str, Any]) -> st.SearchStrategy[Json]:
    return st.fixed_dictionaries(needed, optional=optional)


_EVENTS = _some(
    {"timeUnixNano": _TIMES}, {"name": _TEXTS, "attributes": _ATTRIBUTES, "droppedAttributesCount": _COUNTS}
)
_LINKS = _some({"traceId": _IDS_OF_TRACES, "spanId": _IDS_OF_SPANS}, {"attributes": _ATTRIBUTES, "traceState": _TEXTS})
SPANS = _some(
    {"traceId": _IDS_OF_TRACES, "spanId": _IDS_OF_SPANS, "name": _TEXTS, "startTimeUnixNano": _TIMES},
    {
        "endTimeUnixNano": _TIMES | st.just("0"),
        "parentSpanId": _IDS_OF_SPANS | st.just(""),
        "kind": st.integers(0, 5),
        "attributes": _ATTRIBUTES,
        "events": st.lists(_EVENTS, max_size=2),
        "links": st.lists(_LINKS, max_size=2),
        "status": _some({}, {"code": st.integers(0, 2), "message": _TEXTS}),
        "traceState": _TEXTS,
        "flags": _COUNTS,
        "droppedAttributesCount": _COUNTS,
        "droppedEventsCount": _COUNTS,
        "droppedLinksCount": _COUNTS,
    },
)
LOGS = _some(
    {"timeUnixNano": _TIMES | st.just("0"), "observedTimeUnixNano": _TIMES},
    {
        "severityNumber": st.integers(0, 24),
        "severityText": _TEXTS,
        "body": _VALUES.map(any_value),
        "attributes": _ATTRIBUTES,
        "droppedAttributesCount": _COUNTS,
        "flags": _COUNTS,
        "traceId": _IDS_OF_TRACES,
        "spanId": _IDS_OF_SPANS,
        "eventName": _TEXTS,
    },
)
RESOURCES = st.builds(
    lambda values: {"attributes": attributes(**values)},
    st.dictionaries(
        st.sampled_from(["service__name", "service__instance__id", "host__name", "service__version", "other"]),
        _TEXTS | st.integers(0, 9),
        max_size=4,
    ),
)
REQUESTS = st.builds(
    lambda spans, resource: of_spans(*spans, resource=resource), st.lists(SPANS, max_size=3), RESOURCES
) | st.builds(lambda logs, resource: of_logs(*logs, resource=resource), st.lists(LOGS, max_size=3), RESOURCES)
"""Requests as good exporters write them, with values that are hard."""
