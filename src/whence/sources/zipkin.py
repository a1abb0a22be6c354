"""The source of Zipkin's JSON, version 2: spans in lists, in lists of traces, or one a line.

One literal record::

    {"traceId": "5af7183fb1d4cf5f", "id": "352bff9a74ca9ad2", "parentId": "5af7183fb1d4cf5f", "kind": "SERVER",
     "name": "get /stock", "timestamp": 1700000000000000, "duration": 150000, "shared": true,
     "localEndpoint": {"serviceName": "stock"}, "annotations": [{"timestamp": 1700000000040000, "value": "cache miss"}],
     "tags": {"error": "none left"}}

The two sides of a call may share one id (``shared``): the server's side is then the instance ``<id>/server``, started
from the client's, ``<id>``. A child names its parent by the id alone; which of the two sides that is shows where all
spans of a trace are at hand. A time or a duration of zero is one that is not known, as in Zipkin itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

from whence.sources.contract import Piece, Records
from whence.sources.json_documents import Cursor, document_rows
from whence.sources.process_names import IDENTIFYING, process_name
from whence.sources.rows import BadRecord, Row, batches
from whence.sources.span_fields import (
    SPAN_DIGITS,
    TRACE_DIGITS,
    UNNAMED,
    Record,
    an_object,
    as_attributes,
    checked_time,
    hex_id,
    nanoseconds,
    objects,
    rows_of_span,
    shown,
    text,
)
from whence.sources.spans import CLIENT, CONSUMER, INTERNAL, PRODUCER, SERVER, Moment, Span

SHARED_SUFFIX: Final = "/server"
"""What the key of a server's side has after the id that it shares with the client's."""

_KINDS = {kind.upper(): kind for kind in (CLIENT, SERVER, PRODUCER, CONSUMER)}
_SPAN_BEGINS = rb'\{[ \t\r\n]{0,100}"traceId"[ \t\r\n]{0,100}:'
_MOST_LISTS = 2


@dataclass(frozen=True)
class Zipkin:
    """Spans of Zipkin's second format; times become nanoseconds."""

    name: ClassVar[str] = "zipkin"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl", ".ndjson")
    splittable: ClassVar[bool] = False
    records: ClassVar[Records] = "anywhere"

    def read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        yield from batches(document_rows(piece, lambda cursor: _rows(cursor, piece.file, 0), _SPAN_BEGINS))


def _rows(cursor: Cursor, file: str, lists: int) -> Iterator[Row]:
    first = cursor.peek()
    if first == b"[" and lists < _MOST_LISTS:
        for _ in cursor.elements():
            yield from _rows(cursor, file, lists + 1)
    elif first == b"{" or lists:
        yield from rows_of_span(cursor.take(), file, _span)
    else:
        raise cursor.unexpected("a span or a list of spans")


def _span(record: Record) -> Span:
    trace, key = hex_id(record, "traceId", TRACE_DIGITS), hex_id(record, "id", SPAN_DIGITS)
    if trace is None or key is None:
        raise BadRecord("no-span", "a span needs traceId and id, which are not zero")
    start, duration = nanoseconds(record, "timestamp"), nanoseconds(record, "duration")
    if not start:
        raise BadRecord("no-time", "a span needs a timestamp to have a place in its process")
    parent: str | None = hex_id(record, "parentId", SPAN_DIGITS)
    kind = _kind(record)
    if _is_shared(record) and kind in (SERVER, INTERNAL):
        key, parent = key + SHARED_SUFFIX, key
    tags = an_object(record, "tags")
    remote = an_object(record, "remoteEndpoint")
    attributes = as_attributes({"remoteEndpoint": remote, **tags} if remote else tags)
    return Span(
        trace=trace,
        key=key,
        process=_process(record, tags),
        name=text(record, "name") or UNNAMED,
        start=start,
        end=checked_time(start + duration, "timestamp + duration") if duration else None,
        kind=kind,
        # Zipkin itself takes a span that names itself for a root.
        parent=None if parent == key else parent,
        failed="error" in tags,
        moments=[_moment(annotation) for annotation in objects(record, "annotations")],
        start_attributes=None if duration else attributes,
        end_attributes=attributes,
    )


def _kind(record: Record) -> str:
    kind = text(record, "kind")
    if kind is not None and kind not in _KINDS:
        raise BadRecord("bad-kind", f"kind is {', '.join(_KINDS)} or absent, not {shown(kind)}")
    return INTERNAL if kind is None else _KINDS[kind]


def _is_shared(record: Record) -> bool:
    shared = record.get("shared")
    if shared is not None and not isinstance(shared, bool):
        raise BadRecord("bad-field", f"shared is true or false, not {shown(shared)}")
    return bool(shared)


def _process(record: Record, tags: Record) -> str:
    """Its service and where that ran: the address, and what OpenTelemetry's exporters tell of their resource in tags."""
    endpoint = an_object(record, "localEndpoint")
    service = text(endpoint, "serviceName")
    ipv4, ipv6, port = text(endpoint, "ipv4"), text(endpoint, "ipv6"), endpoint.get("port")
    if port is not None and type(port) is not int:
        raise BadRecord("bad-field", f"port is an integer, not {shown(port)}")
    behind = f":{port}" if port else ""
    addresses = [f"{each}{behind}" for each in (ipv4, f"[{ipv6}]" if ipv6 else None) if each]
    if service is not None:
        told = {name: tags[name] for name in IDENTIFYING if name in tags}
        return process_name(service, {**told, "ip": addresses or behind})
    if not addresses:
        raise BadRecord("no-process", "localEndpoint gives neither serviceName nor an address")
    return addresses[0]


def _moment(annotation: Record) -> Moment:
    time = nanoseconds(annotation, "timestamp")
    if time is None:
        raise BadRecord("no-time", f"an annotation needs a timestamp: {shown(annotation)}")
    return Moment(time, text(annotation, "value") or "annotation")
