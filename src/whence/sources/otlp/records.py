"""Spans and log records of OpenTelemetry as rows of `REPORTS`: the exact, slow way, from the JSON mapping's fields."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from whence.sources.otlp.own import is_own, own_row
from whence.sources.otlp.values import (
    SPAN_BYTES,
    TRACE_BYTES,
    Fields,
    any_value,
    attributes_of,
    enum_field,
    field_of,
    id_field,
    integer_field,
    json_text,
    list_field,
    needed_id,
    object_field,
    object_text,
    text_field,
)
from whence.sources.process_names import attribute_text, check_length, process_name
from whence.sources.rows import BadRecord, Row, bad_row
from whence.sources.spans import CLIENT, CONSUMER, INTERNAL, PRODUCER, SERVER, Moment, Span, span_rows

SPANS: Final = "spans"
LOGS: Final = "logRecords"

UNKNOWN_SERVICE: Final = "unknown_service"

KEPT_OF_RESOURCE: Final = (
    "service.namespace",
    "service.version",
    "deployment.environment",
    "deployment.environment.name",
)
"""Attributes of a resource that its spans' ends and its log records keep, besides those that name the process."""

STATUS_TEXT: Final = "otel.status_description"
TRACE_STATE: Final = "w3c.tracestate"
DROPPED_ATTRIBUTES: Final = "otel.dropped_attributes_count"
DROPPED_EVENTS: Final = "otel.dropped_events_count"
DROPPED_LINKS: Final = "otel.dropped_links_count"
SEVERITY: Final = "severity"
BODY: Final = "body"
EVENT_NAME: Final = "event.name"

NAME_LIMIT_CHARACTERS: Final = 200
UNNAMED_MOMENT: Final = "event"
"""The name of a span's event that has none."""

KINDS: Final = (INTERNAL, INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER)
"""The kind of a span by its number in OTLP."""
_KIND_NAMES = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_STATUS_NAMES = ("UNSET", "OK", "ERROR")
_ERROR = 2
SEVERITIES: Final = (
    "",
    *(
        f"{name}{number}" if number > 1 else name
        for name in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
        for number in range(1, 5)
    ),
)
"""The severity of a log record by its number, where it has no text of its own."""
_SEVERITY_NAMES = ("UNSPECIFIED", *SEVERITIES[1:])
_MOST_COUNT = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Resource:
    """What records share that come from one process."""

    process: str = UNKNOWN_SERVICE
    kept: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None
    """Why it cannot be read, which is then the reason of all its records."""


def resource_from(fields: Fields) -> Resource:
    """What the records of a resource share; the process is named as `whence.sources.process_names` says."""
    try:
        attributes = attributes_of(fields)
        process = process_name(attribute_text(attributes, "service.name") or UNKNOWN_SERVICE, attributes)
        kept = {name: attributes[name] for name in KEPT_OF_RESOURCE if attributes.get(name) is not None}
        for name, value in kept.items():
            check_length(name, value if isinstance(value, str) else json.dumps(value))
    except BadRecord as error:
        return unreadable_resource(error)
    return Resource(process, kept)


def unreadable_resource(error: BadRecord) -> Resource:
    """A resource whose records are all set aside, because nobody knows whose they are."""
    return Resource(problem=f"bad-resource: {error}")


def record_rows(signal: str, record: Fields, resource: Resource, file: str, place: int) -> list[Row]:
    """The rows of one span or log record. Raises `BadRecord`."""
    if resource.problem is not None:
        raise BadRecord(*resource.problem.split(": ", 1))
    attributes = attributes_of(record)
    if is_own(attributes):
        return [own_row(attributes, _time_of(signal, record), file, place)]
    if signal == SPANS:
        return list(span_rows(_span(record, attributes, resource), file, place))
    return [_log_row(record, attributes, resource, file, place)]


def bad_record(raw: bytes, error: BadRecord, resource: Resource, file: str, place: int) -> Row:
    """The row of a record that cannot be read."""
    process = resource.process if resource.problem is None else None
    return bad_row(file, place, str(error), raw, process=process)


def _time_of(signal: str, record: Fields) -> int:
    if signal == SPANS:
        return integer_field(record, "startTimeUnixNano")
    return integer_field(record, "timeUnixNano") or integer_field(record, "observedTimeUnixNano")


def _span(record: Fields, attributes: dict[str, Any], resource: Resource) -> Span:
    start = integer_field(record, "startTimeUnixNano")
    if not start:
        raise BadRecord("no-time", "a span needs startTimeUnixNano")
    status = object_field(record, "status")
    _add(
        attributes,
        (
            (TRACE_STATE, text_field(record, "traceState") or None),
            (DROPPED_ATTRIBUTES, _dropped(record, "droppedAttributesCount")),
            (DROPPED_EVENTS, _dropped(record, "droppedEventsCount")),
            (DROPPED_LINKS, _dropped(record, "droppedLinksCount")),
            (STATUS_TEXT, text_field(status, "message") or None),
            *resource.kept.items(),
        ),
    )
    kind = KINDS[enum_field(record, "kind", "SPAN_KIND_", _KIND_NAMES)]
    return Span(
        trace=needed_id(record, "traceId", TRACE_BYTES),
        key=needed_id(record, "spanId", SPAN_BYTES),
        process=resource.process,
        name=text_field(record, "name"),
        start=start,
        end=integer_field(record, "endTimeUnixNano") or None,
        kind=kind,
        parent=id_field(record, "parentSpanId", SPAN_BYTES),
        failed=enum_field(status, "code", "STATUS_CODE_", _STATUS_NAMES) == _ERROR,
        links=[
            (needed_id(link, "traceId", TRACE_BYTES), needed_id(link, "spanId", SPAN_BYTES))
            for link in list_field(record, "links")
        ],
        moments=[_moment(event) for event in list_field(record, "events")],
        start_attributes=kind_attributes(kind),
        end_attributes=object_text(attributes),
    )


def kind_attributes(kind: str) -> str:
    """The attributes of a span's start."""
    return json_text({"span.kind": kind})


def _moment(event: Fields) -> Moment:
    time = integer_field(event, "timeUnixNano")
    if not time:
        raise BadRecord("no-time", "an event of a span needs timeUnixNano")
    attributes = attributes_of(event)
    _add(attributes, ((DROPPED_ATTRIBUTES, _dropped(event, "droppedAttributesCount")),))
    return Moment(time, text_field(event, "name") or UNNAMED_MOMENT, object_text(attributes))


def _log_row(record: Fields, attributes: dict[str, Any], resource: Resource, file: str, place: int) -> Row:
    time = _time_of(LOGS, record)
    if not time:
        raise BadRecord("no-time", "a log record needs timeUnixNano or observedTimeUnixNano")
    body = any_value(field_of(record, "body"), "body")
    event_name = text_field(record, "eventName")
    number = enum_field(record, "severityNumber", "SEVERITY_NUMBER_", _SEVERITY_NAMES)
    name, rest = event_name or None, body if body != "" else None
    if isinstance(body, str) and body:
        name = _first_line(body)
        rest = body if name != body else None
    elif not event_name and rest is not None:
        whole = json_text(body)
        name = whole[:NAME_LIMIT_CHARACTERS]
        rest = body if name != whole else None
    if name is not None and "\0" in name:
        raise BadRecord("bad-field", "the body holds a NUL character")
    _add(
        attributes,
        (
            (SEVERITY, text_field(record, "severityText") or SEVERITIES[number] or None),
            (BODY, rest),
            (EVENT_NAME, None if name == event_name else event_name or None),
            (DROPPED_ATTRIBUTES, _dropped(record, "droppedAttributesCount")),
            *resource.kept.items(),
        ),
    )
    trace, span = id_field(record, "traceId", TRACE_BYTES), id_field(record, "spanId", SPAN_BYTES)
    return Row(
        computation=trace or "",
        process=resource.process,
        time=time,
        name=name,
        attributes=object_text(attributes),
        # A span id names nothing without its trace.
        instance_key=span if trace else None,
        file=file,
        place=place,
    )


def _first_line(text: str) -> str:
    line = next((line for line in text.split("\n") if line.strip()), "")
    return line.rstrip("\r")[:NAME_LIMIT_CHARACTERS]


def _dropped(record: Fields, name: str) -> int | None:
    return integer_field(record, name, most=_MOST_COUNT) or None


def _add(attributes: dict[str, Any], more: Iterable[tuple[str, Any]]) -> None:
    """Add what is given, where the record has no attribute of that name."""
    for name, value in more:
        if value is not None:
            attributes.setdefault(name, value)
