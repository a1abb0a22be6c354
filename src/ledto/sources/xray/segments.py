"""Turn one segment of X-Ray, with the subsegments inside of it, into spans.

A segment is what a service did for one request: the span of a server. Its subsegments ran in the same process. Those whose
``namespace`` is ``remote`` or ``aws`` called another service: they are spans of clients. The segment of the service that was
called names its caller's subsegment as ``parent_id``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from msgspec import Raw

from ledto.sources.rows import BadRecord
from ledto.sources.spans.fields import (
    SPAN_DIGITS,
    TRACE_DIGITS,
    UNNAMED,
    Record,
    as_attributes,
    hex_id,
    read_object,
    read_objects,
    read_text,
    shown,
)
from ledto.sources.spans.process_names import process_name
from ledto.sources.spans.spans import CLIENT, INTERNAL, PRODUCER, SERVER, Span, check_causes
from ledto.sources.times import INT64_MOST

CALLS: Final = ("remote", "aws")
"""The namespaces of subsegments that called another service."""
HANDS_OVER: Final = frozenset(
    (
        "SendMessage",
        "SendMessageBatch",
        "Publish",
        "PublishBatch",
        "PutEvents",
        "PutRecord",
        "PutRecords",
        "InvokeAsync",
    )
)
"""Operations of AWS that hand a message over. Whoever takes it does so later, and nobody waits for that."""

_TRACE = re.compile(r"1-([0-9a-f]{8})-([0-9a-f]{24})", re.IGNORECASE)
_STRUCTURE = frozenset(
    (
        "trace_id",
        "id",
        "parent_id",
        "name",
        "start_time",
        "end_time",
        "in_progress",
        "subsegments",
        "type",
        "precursor_ids",
    )
)
"""Fields that become columns. All others are attributes."""
_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """A segment or subsegment: its fields, and its span or why it has none."""

    fields: Record
    span: Span | None
    problem: BadRecord | None


def read_segment(record: Record, place: int) -> Iterator[SegmentPart]:
    """Yield the span of a segment, then those of its subsegments, each after the one that it is in.

    A subsegment that cannot be read gives a part with its problem; those inside of it are read. Raises `BadRecord` if the
    segment itself cannot be read.
    """
    trace = read_trace(record, "trace_id")
    if trace is None:
        raise BadRecord("no-span", "a segment needs a trace_id")
    if record.get("inferred") is True:
        raise BadRecord("inferred", "X-Ray made this segment from the call that it names; no service reported it")
    if record.get("type") == "subsegment":
        raise BadRecord(
            "no-process",
            "a subsegment that was sent alone does not say in which service it ran; the answer of batch-get-traces has it "
            "inside of its segment",
        )
    process = _process(record)
    parent = hex_id(record, "parent_id", SPAN_DIGITS)
    segment = _span(record, trace, process, SERVER, parent, place)
    yield SegmentPart(record, segment, None)
    yield from _subsegments(record, trace, process, segment.key, place)


def read_trace(record: Record, field: str) -> str | None:
    """Return the id of a trace as 32 hexadecimal digits, as OpenTelemetry writes it; None if it is absent.

    Raises `BadRecord` if it is malformed.
    """
    text = read_text(record, field)
    if text is None:
        return None
    match = _TRACE.fullmatch(text)
    if match is not None:
        return (match[1] + match[2]).lower()
    if len(text) == TRACE_DIGITS and (trace := hex_id(record, field, TRACE_DIGITS)) is not None:
        return trace
    raise BadRecord("bad-field", f"{field} is 1-, 8 digits, - and 24 digits, all hexadecimal, unlike {shown(text)}")


def _subsegments(record: Record, trace: str, process: str, parent: str | None, place: int) -> Iterator[SegmentPart]:
    try:
        inner = read_objects(record, "subsegments")
    except BadRecord as error:
        yield SegmentPart(record, None, error)
        return
    for fields in inner:
        key = parent
        try:
            span = _span(fields, trace, process, _kind(fields), parent, place)
            key = span.key
            yield SegmentPart(fields, span, None)
        except BadRecord as error:
            yield SegmentPart(fields, None, error)
        yield from _subsegments(fields, trace, process, key, place)


def _span(record: Record, trace: str, process: str, kind: str, parent: str | None, place: int) -> Span:
    """Read a segment or a subsegment. Raises `BadRecord`."""
    key = hex_id(record, "id", SPAN_DIGITS)
    if key is None:
        raise BadRecord("no-span", "a segment or subsegment needs an id, which is not zero")
    start, end = read_seconds(record, "start_time"), read_seconds(record, "end_time")
    if start is None:
        raise BadRecord("no-time", "a segment needs a start_time to have a place in its process")
    if record.get("in_progress") is True:
        end = None
    parent = None if parent == key else parent
    links = [link for link in _links(record, trace) if link not in ((trace, key), (trace, parent))]
    check_causes(parent, links)
    attributes = as_attributes({name: value for name, value in record.items() if name not in _STRUCTURE})
    return Span(
        place=place,
        trace=trace,
        key=key,
        process=process,
        name=read_text(record, "name") or UNNAMED,
        start=start,
        end=end,
        kind=kind,
        parent=parent,
        failed=_has_failed(record, kind),
        links=links,
        start_attributes=attributes if end is None else None,
        end_attributes=attributes,
    )


def read_seconds(record: Record, field: str) -> int | None:
    """Return a time that counts seconds, with any fraction, in nanoseconds; None if it is absent or zero.

    Cuts off finer parts. Raises `BadRecord`.
    """
    value = record.get(field)
    if value is None:
        return None
    if type(value) is int:
        seconds = Decimal(value)
    elif isinstance(value, Raw):
        seconds = Decimal(bytes(value).decode())
    else:
        raise BadRecord("bad-field", f"{field} is a number of seconds, not {shown(value)}")
    if seconds < 0:
        raise BadRecord("bad-field", f"{field} is a number of seconds since 1970, not {shown(value)}")
    if seconds > INT64_MOST // _NANOSECONDS:
        raise BadRecord("number-out-of-range", f"{field} is beyond 64 bits of nanoseconds")
    return int(seconds * _NANOSECONDS) or None


def _kind(record: Record) -> str:
    if read_text(record, "namespace") not in CALLS:
        return INTERNAL
    return PRODUCER if read_text(read_object(record, "aws"), "operation") in HANDS_OVER else CLIENT


def _has_failed(record: Record, kind: str) -> bool | None:
    """Tell whether a segment failed: by a fault, or, if it is a subsegment, by an error of the client, too."""
    if record.get("fault") is True:
        return True
    # A service that refuses a wrong request has not failed itself; whoever made the request has.
    is_refusal = record.get("error") is True or record.get("throttle") is True
    return kind != SERVER if is_refusal else None


def _links(record: Record, trace: str) -> list[tuple[str, str]]:
    """List further causes: spans of other traces that led to this one, and siblings that had ended before it began."""
    links = []
    for link in read_objects(record, "links"):
        if read_object(link, "attributes").get("ReferenceType") != "parent":
            continue
        linked, key = read_trace(link, "trace_id"), hex_id(link, "id", SPAN_DIGITS)
        if linked is None or key is None:
            raise BadRecord("bad-field", f"a link needs trace_id and id: {shown(link)}")
        links.append((linked, key))
    precursors = record.get("precursor_ids")
    if precursors is not None:
        if not isinstance(precursors, list):
            raise BadRecord("bad-field", f"precursor_ids is a list of ids, not {shown(precursors)}")
        keys = (hex_id({"precursor_ids": key}, "precursor_ids", SPAN_DIGITS) for key in precursors)
        links += [(trace, key) for key in keys if key is not None]
    return list(dict.fromkeys(links))


def _process(record: Record) -> str:
    """Name the process of a segment: its service, and what identifies the container, pod or machine. Raises `BadRecord`."""
    service = read_text(record, "name")
    if service is None:
        raise BadRecord("no-process", "a segment needs a name, which is that of its service")
    aws = read_object(record, "aws")
    ecs, eks, ec2 = (read_object(aws, part) for part in ("ecs", "eks", "ec2"))
    identity: Mapping[str, Any] = {
        "container.id": ecs.get("container_id") or eks.get("container_id"),
        "k8s.pod.name": eks.get("pod"),
        "host.name": ecs.get("container"),
        "host.id": ec2.get("instance_id"),
    }
    return process_name(service, identity)
