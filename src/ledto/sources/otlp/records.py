"""Check spans and log records of OpenTelemetry, and turn them into rows of `REPORTS`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from ledto.events.schema import LOCAL
from ledto.sources.otlp.exported import exported_row, is_exported
from ledto.sources.otlp.model import LogRecord, Record, SpanEvent, SpanRecord
from ledto.sources.otlp.values import Fields, attributes_of, json_text, not_enum, object_text
from ledto.sources.rows import BadRecord, Row, Values, bad_row, values_of
from ledto.sources.spans.process_names import attribute_text, check_length, process_name
from ledto.sources.spans.spans import (
    CLIENT,
    CONSUMER,
    INTERNAL,
    PRODUCER,
    SERVER,
    Moment,
    Spans,
    SpansOrRows,
    check_causes,
)
from ledto.sources.times import INT64_MOST

SPANS: Final = "spans"
LOGS: Final = "logRecords"

UNKNOWN_SERVICE: Final = "unknown_service"

KEPT_OF_RESOURCE: Final = (
    "service.namespace",
    "service.version",
    "deployment.environment",
    "deployment.environment.name",
)
"""Attributes of a resource that become attributes of its spans' ends and its log records."""

KEPT_CHARACTERS: Final = 200
"""The length of each such attribute, at most. A longer one is cut, and ends with `CUT`."""
CUT: Final = "…"

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
"""The name of a span's event without a name."""

KIND_NAMES: Final = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
STATUS_NAMES: Final = ("UNSET", "OK", "ERROR")
_FAILED: Final = (None, False, True)
"""Whether a span failed, by the number of its status."""
_LEAST_ERROR = 17
"""The least severity number that is an error."""
SEVERITIES: Final = (
    "",
    *(
        f"{name}{number}" if number > 1 else name
        for name in ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")
        for number in range(1, 5)
    ),
)
"""The text for each severity number, for log records without a text for it."""
SEVERITY_NAMES: Final = ("UNSPECIFIED", *SEVERITIES[1:])

_MOST_COUNT = (1 << 32) - 1
_MOST_KNOWN_RESOURCES = 4_096
_MOST_SPANS = 1_024
"""Spans that are given at once, at most: a batch may exceed its limit by so many."""

_KINDS = (INTERNAL, INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER)
"""The kind of a span by OTLP's number."""
_START_ATTRIBUTES = tuple(json_text({"span.kind": kind}) for kind in _KINDS)


@dataclass(frozen=True, slots=True)
class Resource:
    """A process that records come from."""

    process: str = UNKNOWN_SERVICE
    kept: dict[str, Any] = field(default_factory=dict)
    """The attributes of `KEPT_OF_RESOURCE` that it has."""
    problem: str | None = None
    """Why it cannot be read. It is then the reason of all its records."""


def resource_from(fields: Fields) -> Resource:
    """Make a resource from its fields; `ledto.sources.spans.process_names` names its process. Never raises `BadRecord`."""
    try:
        attributes = attributes_of(fields)
        process = process_name(attribute_text(attributes, "service.name") or UNKNOWN_SERVICE, attributes)
        kept = {name: attributes[name] for name in KEPT_OF_RESOURCE if attributes.get(name) is not None}
        for name, value in kept.items():
            check_length(name, value if isinstance(value, str) else json.dumps(value))
    except BadRecord as error:
        return unreadable_resource(error)
    return Resource(process, kept)


class Resources:
    """A cache of resources by their bytes."""

    def __init__(self, read: Callable[[bytes], Resource]) -> None:
        self._read = read
        self._known: dict[bytes, Resource] = {}

    def of(self, raw: bytes) -> Resource:
        """Return the resource of these bytes."""
        resource = self._known.get(raw)
        if resource is None:
            if len(self._known) >= _MOST_KNOWN_RESOURCES:
                self._known.clear()
            resource = self._known[raw] = _with_short_values(self._read(raw))
        return resource


def _with_short_values(resource: Resource) -> Resource:
    """Cut the long values that a resource keeps: they are copied into every row of its records."""
    kept = {name: _cut(value) for name, value in resource.kept.items()}
    return replace(resource, kept=kept)


def _cut(value: Any) -> Any:
    text = value if isinstance(value, str) else json_text(value)
    return value if len(text) <= KEPT_CHARACTERS else text[:KEPT_CHARACTERS] + CUT


def unreadable_resource(error: BadRecord) -> Resource:
    """Make a resource whose records are all quarantined, because their process is unknown."""
    return Resource(problem=f"bad-resource: {error}")


def check(record: Record, resource: Resource) -> None:
    """Raise `BadRecord` if the record or its resource cannot be used."""
    if resource.problem is not None:
        raise BadRecord(*resource.problem.split(": ", 1))
    if is_exported(record.attributes):
        _exported_row(record, "", 0)
    elif isinstance(record, SpanRecord):
        _check_span(record)
    else:
        _check_log(record)


def convert_record(record: Record, resource: Resource, file: str, place: int) -> SpansOrRows:
    """Convert a record that passed `check` to a span or a row."""
    if is_exported(record.attributes):
        return [values_of(_exported_row(record, file, place))]
    if isinstance(record, SpanRecord):
        return _convert_spans([record], resource, [place])
    return [_log_row(record, resource, file, place)]


def convert_records(
    records: Sequence[Record], resource: Resource, file: str, places: Sequence[int]
) -> Iterator[SpansOrRows]:
    """Convert several records of one resource that passed `check`."""
    if any(is_exported(record.attributes) or isinstance(record, LogRecord) for record in records):
        for record, place in zip(records, places, strict=True):
            yield convert_record(record, resource, file, place)
        return
    for start in range(0, len(records), _MOST_SPANS):
        spans = cast(Sequence[SpanRecord], records[start : start + _MOST_SPANS])
        yield _convert_spans(spans, resource, places[start : start + _MOST_SPANS])


def _convert_spans(spans: Sequence[SpanRecord], resource: Resource, places: Sequence[int]) -> Spans:
    """Convert spans of one resource, none of which is an exported event."""
    process, kept = resource.process, resource.kept
    values: list[Any] = []
    size_bytes = 2 * len(process) * len(spans)
    for span, place in zip(spans, places, strict=True):
        attributes = object_text(_end_attributes(span, kept)) if span.end else None
        size_bytes += len(attributes or "")
        # A span that is its own parent is a root: it cannot wait for its own start.
        parent = span.parent if span.parent != span.key else None
        values += (
            span.trace, span.key, process, span.name, span.start, span.end or None, _KINDS[span.kind], parent,
            True, _FAILED[span.status], span.links, [_moment(event) for event in span.events] if span.events else (),
            _START_ATTRIBUTES[span.kind], attributes, place,
        )  # fmt: skip
    return Spans(values, size_bytes)


def _exported_row(record: Record, file: str, place: int) -> Row:
    time = record.start if isinstance(record, SpanRecord) else record.time or record.observed
    _check_time("the time of the record", time)
    return exported_row(record.attributes, time, file, place)


def bad_record(raw: bytes, error: BadRecord, resource: Resource, file: str, place: int) -> Row:
    """Make the row of a record that cannot be read."""
    process = resource.process if resource.problem is None else None
    return bad_row(file, place, str(error), raw, process=process)


def _check_span(span: SpanRecord) -> None:
    if not span.start:
        raise BadRecord("no-time", "a span needs startTimeUnixNano")
    _check_time("startTimeUnixNano", span.start)
    _check_time("endTimeUnixNano", span.end)
    _check_enum("kind", span.kind, "SPAN_KIND_", KIND_NAMES)
    _check_enum("code", span.status, "STATUS_CODE_", STATUS_NAMES)
    _check_text("name", span.name)
    _check_text("traceState", span.trace_state)
    _check_text("message", span.status_text)
    if span.dropped_attributes or span.dropped_events or span.dropped_links:
        _check_count("droppedAttributesCount", span.dropped_attributes)
        _check_count("droppedEventsCount", span.dropped_events)
        _check_count("droppedLinksCount", span.dropped_links)
    for trace, key in ((span.trace, span.key), *span.links):
        if trace is None or key is None:
            raise BadRecord("bad-id", f"{'traceId' if trace is None else 'spanId'} is missing or all zeros")
    check_causes(span.parent, span.links)
    for event in span.events:
        if not event.time:
            raise BadRecord("no-time", "an event of a span needs timeUnixNano")
        _check_time("timeUnixNano", event.time)
        _check_text("name", event.name)
        _check_count("droppedAttributesCount", event.dropped_attributes)


def _check_log(log: LogRecord) -> None:
    if not log.time and not log.observed:
        raise BadRecord("no-time", "a log record needs timeUnixNano or observedTimeUnixNano")
    _check_time("timeUnixNano", log.time)
    _check_time("observedTimeUnixNano", log.observed)
    _check_enum("severityNumber", log.severity, "SEVERITY_NUMBER_", SEVERITY_NAMES)
    _check_text("severityText", log.severity_text)
    _check_text("eventName", log.event_name)
    if isinstance(log.body, str):
        _check_text("the body", _first_line(log.body))
    _check_count("droppedAttributesCount", log.dropped_attributes)


def _check_time(name: str, time: int) -> None:
    if not 0 <= time <= INT64_MOST:
        raise BadRecord("number-out-of-range", f"{name} is 0 to {INT64_MOST}, not {time}")


def _check_count(name: str, count: int) -> None:
    if not 0 <= count <= _MOST_COUNT:
        raise BadRecord("number-out-of-range", f"{name} is 0 to {_MOST_COUNT}, not {count}")


def _check_enum(name: str, number: int, prefix: str, names: tuple[str, ...]) -> None:
    if not 0 <= number < len(names):
        raise not_enum(name, number, prefix, names)


def _check_text(name: str, text: str) -> None:
    if "\0" in text:
        raise BadRecord("bad-field", f"{name} holds a NUL character")


def _end_attributes(span: SpanRecord, kept: dict[str, Any]) -> dict[str, Any]:
    attributes = span.attributes
    if span.trace_state:
        attributes.setdefault(TRACE_STATE, span.trace_state)
    if span.dropped_attributes:
        attributes.setdefault(DROPPED_ATTRIBUTES, span.dropped_attributes)
    if span.dropped_events:
        attributes.setdefault(DROPPED_EVENTS, span.dropped_events)
    if span.dropped_links:
        attributes.setdefault(DROPPED_LINKS, span.dropped_links)
    if span.status_text:
        attributes.setdefault(STATUS_TEXT, span.status_text)
    for name, value in kept.items():
        attributes.setdefault(name, value)
    return attributes


def _moment(event: SpanEvent) -> Moment:
    if event.dropped_attributes:
        event.attributes.setdefault(DROPPED_ATTRIBUTES, event.dropped_attributes)
    return event.time, event.name or UNNAMED_MOMENT, object_text(event.attributes)


def _log_row(log: LogRecord, resource: Resource, file: str, place: int) -> Values:
    body, event_name, attributes = log.body, log.event_name, log.attributes
    name, rest = event_name or None, body if body != "" else None
    if isinstance(body, str) and body:
        name = _first_line(body)
        rest = body if name != body else None
    elif not event_name and rest is not None:
        whole = json_text(body)
        name = whole[:NAME_LIMIT_CHARACTERS]
        rest = body if name != whole else None
    if severity := log.severity_text or SEVERITIES[log.severity]:
        attributes.setdefault(SEVERITY, severity)
    if rest is not None:
        attributes.setdefault(BODY, rest)
    if event_name and name != event_name:
        attributes.setdefault(EVENT_NAME, event_name)
    if log.dropped_attributes:
        attributes.setdefault(DROPPED_ATTRIBUTES, log.dropped_attributes)
    for kept, value in resource.kept.items():
        attributes.setdefault(kept, value)
    # A span id means nothing without its trace. The parent says that another record is the start of the span.
    span = f"{log.trace}/{log.span}" if log.trace and log.span else None
    # The values in the order of `COLUMNS`. To make a `Row` of each record would take a tenth of the whole time.
    return (
        "", resource.process, None, log.time or log.observed, None, LOCAL, None, None, None, None, name, None,
        object_text(attributes), True if log.severity >= _LEAST_ERROR else None, None, span or log.trace, span, None, None,
        None, None, None, file, place, None, None,
    )  # fmt: skip


def _first_line(text: str) -> str:
    """Return the first line that is not blank, cut."""
    line = next((line for line in text.split("\n") if line.strip()), "")
    return line.rstrip("\r")[:NAME_LIMIT_CHARACTERS]
