"""Read spans and log records from fields of OTLP's JSON mapping, written in any way that it allows.

This is the exact reader, which decides what is wrong: the quick ones (`json_typed`, `protobuf`) leave unusual records to it.
Raises `BadRecord`.
"""

from __future__ import annotations

from ledto.sources.otlp.model import LogRecord, Record, SpanEvent, SpanRecord
from ledto.sources.otlp.records import KIND_NAMES, SEVERITY_NAMES, SPANS, STATUS_NAMES
from ledto.sources.otlp.values import (
    SPAN_BYTES,
    TRACE_BYTES,
    Fields,
    any_value,
    attributes_of,
    enum_field,
    field_of,
    id_field,
    integer_field,
    list_field,
    object_field,
    text_field,
)


def exact_record(signal: str, fields: Fields) -> Record:
    """Read a span or log record from these fields. Raises `BadRecord`."""
    return _span(fields) if signal == SPANS else _log(fields)


def _span(fields: Fields) -> SpanRecord:
    status = object_field(fields, "status")
    return SpanRecord(
        trace=id_field(fields, "traceId", TRACE_BYTES),
        key=id_field(fields, "spanId", SPAN_BYTES),
        parent=id_field(fields, "parentSpanId", SPAN_BYTES),
        name=text_field(fields, "name"),
        kind=enum_field(fields, "kind", "SPAN_KIND_", KIND_NAMES),
        start=integer_field(fields, "startTimeUnixNano"),
        end=integer_field(fields, "endTimeUnixNano"),
        attributes=attributes_of(fields),
        events=[
            SpanEvent(
                integer_field(event, "timeUnixNano"),
                text_field(event, "name"),
                attributes_of(event),
                integer_field(event, "droppedAttributesCount"),
            )
            for event in list_field(fields, "events")
        ],
        links=[
            (id_field(link, "traceId", TRACE_BYTES), id_field(link, "spanId", SPAN_BYTES))
            for link in list_field(fields, "links")
        ],
        status=enum_field(status, "code", "STATUS_CODE_", STATUS_NAMES),
        status_text=text_field(status, "message"),
        trace_state=text_field(fields, "traceState"),
        dropped_attributes=integer_field(fields, "droppedAttributesCount"),
        dropped_events=integer_field(fields, "droppedEventsCount"),
        dropped_links=integer_field(fields, "droppedLinksCount"),
    )


def _log(fields: Fields) -> LogRecord:
    return LogRecord(
        time=integer_field(fields, "timeUnixNano"),
        observed=integer_field(fields, "observedTimeUnixNano"),
        trace=id_field(fields, "traceId", TRACE_BYTES),
        span=id_field(fields, "spanId", SPAN_BYTES),
        body=any_value(field_of(fields, "body"), "body"),
        attributes=attributes_of(fields),
        severity=enum_field(fields, "severityNumber", "SEVERITY_NUMBER_", SEVERITY_NAMES),
        severity_text=text_field(fields, "severityText"),
        event_name=text_field(fields, "eventName"),
        dropped_attributes=integer_field(fields, "droppedAttributesCount"),
    )
