"""Read one span of Zipkin into a `ledto.sources.spans.spans.Span`: the exact reader, which decides what is wrong."""

from __future__ import annotations

from typing import Final

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
from ledto.sources.spans.process_names import IDENTIFYING, process_name
from ledto.sources.spans.spans import CLIENT, CONSUMER, INTERNAL, PRODUCER, SERVER, Moment, Span

SHARED_SUFFIX: Final = "/server"
"""The end of the key of a server's side, after the id that it shares with the client's side."""
UNNAMED_MOMENT: Final = "annotation"

KINDS: Final = {kind.upper(): kind for kind in (CLIENT, SERVER, PRODUCER, CONSUMER)}


def span_of(record: Record, place: int) -> Span:
    """Read a span. Raises `BadRecord`."""
    trace, key = hex_id(record, "traceId", TRACE_DIGITS), hex_id(record, "id", SPAN_DIGITS)
    if trace is None or key is None:
        raise BadRecord("no-span", "a span needs traceId and id, which are not zero")
    start, duration = read_nanoseconds(record, "timestamp"), read_nanoseconds(record, "duration")
    if not start:
        raise BadRecord("no-time", "a span needs a timestamp to have a place in its process")
    parent: str | None = hex_id(record, "parentId", SPAN_DIGITS)
    kind = _kind(record)
    if _is_shared(record) and kind in (SERVER, INTERNAL):
        key, parent = key + SHARED_SUFFIX, key
    tags = read_object(record, "tags")
    remote = read_object(record, "remoteEndpoint")
    attributes = as_attributes({"remoteEndpoint": remote, **tags} if remote else tags)
    return Span(
        place=place,
        trace=trace,
        key=key,
        process=process_of(read_object(record, "localEndpoint"), tags),
        name=read_text(record, "name") or UNNAMED,
        start=start,
        end=checked_time(start + duration, "timestamp + duration") if duration else None,
        kind=kind,
        # A span that is its own parent is a root, as in Zipkin itself.
        parent=None if parent == key else parent,
        failed=True if "error" in tags else None,
        moments=[_moment(annotation) for annotation in read_objects(record, "annotations")],
        start_attributes=None if duration else attributes,
        end_attributes=attributes,
    )


def _kind(record: Record) -> str:
    kind = read_text(record, "kind")
    if kind is not None and kind not in KINDS:
        raise BadRecord("bad-kind", f"kind is {', '.join(KINDS)} or absent, not {shown(kind)}")
    return INTERNAL if kind is None else KINDS[kind]


def _is_shared(record: Record) -> bool:
    shared = record.get("shared")
    if shared is not None and not isinstance(shared, bool):
        raise BadRecord("bad-field", f"shared is true or false, not {shown(shared)}")
    return bool(shared)


def process_of(endpoint: Record, tags: Record) -> str:
    """Name a process by its service, its address, and the tags that OpenTelemetry's exporters make of their resource.

    Raises `BadRecord`.
    """
    service = read_text(endpoint, "serviceName")
    ipv4, ipv6, port = read_text(endpoint, "ipv4"), read_text(endpoint, "ipv6"), endpoint.get("port")
    if port is not None and type(port) is not int:
        raise BadRecord("bad-field", f"port is an integer, not {shown(port)}")
    port_text = f":{port}" if port else ""
    addresses = [f"{address}{port_text}" for address in (ipv4, f"[{ipv6}]" if ipv6 else None) if address]
    if service is not None:
        identifying = {name: tags[name] for name in IDENTIFYING if name in tags}
        return process_name(service, {**identifying, "ip": addresses or port_text})
    if not addresses:
        raise BadRecord("no-process", "localEndpoint gives neither serviceName nor an address")
    return addresses[0]


def _moment(annotation: Record) -> Moment:
    time = read_nanoseconds(annotation, "timestamp")
    if time is None:
        raise BadRecord("no-time", f"an annotation needs a timestamp: {shown(annotation)}")
    return time, read_text(annotation, "value") or UNNAMED_MOMENT, None
