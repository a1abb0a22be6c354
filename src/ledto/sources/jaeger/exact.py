"""Read one span of Jaeger into a `ledto.sources.spans.spans.Span`: the exact reader, which decides what is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from ledto.sources.rows import BadRecord
from ledto.sources.spans.fields import (
    SPAN_DIGITS,
    TRACE_DIGITS,
    UNNAMED,
    Record,
    as_attributes,
    checked_time,
    hex_id,
    read_nanoseconds,
    read_object,
    read_objects,
    read_text,
    shown,
)
from ledto.sources.spans.process_names import process_name
from ledto.sources.spans.spans import INTERNAL, SPAN_KINDS, Moment, Span

CHILD_OF: Final = "CHILD_OF"
FOLLOWS_FROM: Final = "FOLLOWS_FROM"

_NAMES_OF_LOGS = ("event", "message")


ProcessNames = Mapping[str, str | BadRecord]
"""The names of a trace's processes by their ids, or why they have no name."""


def process_names(processes: Record) -> ProcessNames:
    """Name the processes of a trace: by service, and instance if that is known."""
    names: dict[str, str | BadRecord] = {}
    for key in processes:
        try:
            names[key] = name_of_process(read_object(processes, key))
        except BadRecord as error:
            names[key] = error
    return names


def span_of(record: Record, place: int, processes: ProcessNames | None) -> Span:
    """Read a span. `processes` are those of its trace. Raises `BadRecord`."""
    trace, key = hex_id(record, "traceID", TRACE_DIGITS), hex_id(record, "spanID", SPAN_DIGITS)
    if trace is None or key is None:
        raise BadRecord("no-span", "a span needs traceID and spanID, which are not zero")
    start, duration = read_nanoseconds(record, "startTime"), read_nanoseconds(record, "duration")
    if start is None:
        raise BadRecord("no-time", "a span needs a startTime to have a place in its process")
    parent, awaited, links = causes_of(_references(record, trace), trace, key)
    tags = _tags(record)
    attributes = as_attributes({"warnings": record["warnings"], **tags} if record.get("warnings") else tags)
    return Span(
        place=place,
        trace=trace,
        key=key,
        process=_process(record, processes),
        name=read_text(record, "operationName") or UNNAMED,
        start=start,
        end=None if duration is None else checked_time(start + duration, "startTime + duration"),
        kind=kind_of(tags),
        parent=parent,
        awaited=awaited,
        failed=has_failed(tags) or None,
        links=links,
        moments=[_moment(log) for log in read_objects(record, "logs")],
        start_attributes=attributes if duration is None else None,
        end_attributes=attributes,
    )


def causes_of(
    references: list[tuple[str, str, str]], trace: str, key: str
) -> tuple[str | None, bool, list[tuple[str, str]]]:
    """Return a span's parent, whether that waits, and the further causes, each once. A reference is type, trace and span."""
    # A reference of a span to itself means nothing.
    references = [reference for reference in references if reference[1:] != (trace, key)]
    within = [reference for reference in references if reference[1] == trace]
    parent = next((reference for reference in within if reference[0] == CHILD_OF), None) or next(iter(within), None)
    if parent is None:
        return None, True, list(dict.fromkeys((reference[1], reference[2]) for reference in references))
    links = dict.fromkeys((reference[1], reference[2]) for reference in references if reference[1:] != parent[1:])
    return parent[2], parent[0] == CHILD_OF, list(links)


def _references(record: Record, trace: str) -> list[tuple[str, str, str]]:
    references = [_reference(reference) for reference in read_objects(record, "references")]
    older = hex_id(record, "parentSpanID", SPAN_DIGITS)
    return references if older is None else [*references, (CHILD_OF, trace, older)]


def _reference(reference: Record) -> tuple[str, str, str]:
    kind = reference.get("refType")
    if kind not in (CHILD_OF, FOLLOWS_FROM):
        raise BadRecord("bad-field", f"refType is {CHILD_OF} or {FOLLOWS_FROM}, not {shown(kind)}")
    trace, key = hex_id(reference, "traceID", TRACE_DIGITS), hex_id(reference, "spanID", SPAN_DIGITS)
    if trace is None or key is None:
        raise BadRecord("bad-field", "a reference needs traceID and spanID, which are not zero")
    return kind, trace, key


def _tags(holder: Record) -> dict[str, Any]:
    """Return the tags of a span or a process.

    In Elasticsearch some may be in ``tag``, an object whose keys have ``@`` instead of dots.
    """
    pairs = [(read_text(pair, "key") or "", pair.get("value")) for pair in read_objects(holder, "tags")]
    return merged([*pairs, *((key.replace("@", "."), value) for key, value in read_object(holder, "tag").items())])


def merged(tags: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return tags by their keys. The values of a tag that occurs several times become a list."""
    values: dict[str, list[Any]] = {}
    for key, value in tags:
        values.setdefault(key, []).append(value)
    return {key: of_key[0] if len(of_key) == 1 else of_key for key, of_key in values.items()}


def kind_of(tags: Record) -> str:
    """Return the kind of a span with these tags."""
    kind = tags.get("span.kind")
    lowered = kind.lower() if isinstance(kind, str) else INTERNAL
    return lowered if lowered in SPAN_KINDS else INTERNAL


def has_failed(tags: Record) -> bool:
    """Return whether these tags say that a span failed."""
    return _says(tags, "error", "true") or _says(tags, "otel.status_code", "error")


def _says(tags: Record, tag: str, wanted: str) -> bool:
    value = tags.get(tag)
    return any(str(one).lower() == wanted for one in (value if isinstance(value, list) else [value]))


def _process(record: Record, processes: ProcessNames | None) -> str:
    process = read_object(record, "process")
    if process:
        return name_of_process(process)
    key = read_text(record, "processID")
    if key is None:
        raise BadRecord("no-process", "a span needs a processID, or a process of its own")
    if processes is None:
        raise BadRecord("no-process", f"its trace has no processes, so processID {shown(key)} has no name")
    if key not in processes:
        raise BadRecord("no-process", f"processID {shown(key)} is not among the trace's processes")
    name = processes[key]
    if isinstance(name, BadRecord):
        raise BadRecord(name.code, name.detail)
    return name


def name_of_process(process: Record) -> str:
    """Name a process by its service, and its instance if that is known. Raises `BadRecord`."""
    service = read_text(process, "serviceName")
    if service is None:
        raise BadRecord("no-process", f"the process has no serviceName: {shown(process)}")
    return process_name(service, _tags(process))


def _moment(log: Record) -> Moment:
    time = read_nanoseconds(log, "timestamp")
    if time is None:
        raise BadRecord("no-time", f"a log needs a timestamp: {shown(log)}")
    return named_moment(time, _tags({"tags": log.get("fields")}))


def named_moment(time: int, fields: dict[str, Any]) -> Moment:
    """Make the moment of a log with these fields. One of them may be its name, which is removed."""
    for field in _NAMES_OF_LOGS:
        name = fields.get(field)
        if isinstance(name, str) and name and "\0" not in name:
            del fields[field]
            return time, name, as_attributes(fields)
    return time, "log", as_attributes(fields)
