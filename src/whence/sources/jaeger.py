"""The source of Jaeger's JSON: what ``/api/traces`` answers and the page downloads, and spans as Elasticsearch holds them.

One literal trace::

    {"traceID": "5af7183fb1d4cf5f",
     "spans": [{"traceID": "5af7183fb1d4cf5f", "spanID": "352bff9a74ca9ad2", "operationName": "GET /stock",
                "references": [{"refType": "CHILD_OF", "traceID": "5af7183fb1d4cf5f", "spanID": "8de3a1f5d9f0a1b2"}],
                "startTime": 1700000000000000, "duration": 150000, "processID": "p1",
                "tags": [{"key": "span.kind", "type": "string", "value": "server"}],
                "logs": [{"timestamp": 1700000000040000, "fields": [{"key": "event", "value": "cache miss"}]}]}],
     "processes": {"p1": {"serviceName": "stock", "tags": [{"key": "hostname", "value": "pod-7"}]}}}

Traces may stand in ``data``, in a list, one after another or one a line. The processes of a trace usually come after its
spans: up to `HELD_BYTES` of spans are held until they come, and those of a larger trace are read a second time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

import pyarrow as pa

from whence.sources.contract import Piece, Records
from whence.sources.jaeger_spans import ProcessNames, process_names, span_of
from whence.sources.json_documents import Cursor, Damage, Taken, document_rows
from whence.sources.rows import Row, bad_row, batches
from whence.sources.span_fields import rows_of_span, shown

HELD_BYTES: Final = 32 << 20

_SPACE = rb"[ \t\r\n]{0,100}"
_TRACE_BEGINS = _SPACE.join((rb"\{", rb'"traceID"', rb":", rb'"[0-9A-Fa-f]{0,64}"', rb",", rb'"spans"'))
_TRACE_OF_SPAN = re.compile(_SPACE.join((rb"\{", rb'"traceID"', rb":", rb'"([0-9A-Fa-f]{1,64})"')))
_KNOWN = ("data", "_source", "spans", "processes", "spanID", "errors")
_MOST_NESTED = 4


@dataclass(frozen=True)
class Jaeger:
    """Spans of Jaeger's traces; times become nanoseconds."""

    name: ClassVar[str] = "jaeger"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl", ".ndjson")
    splittable: ClassVar[bool] = False
    records: ClassVar[Records] = "anywhere"

    def read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        yield from batches(document_rows(piece, partial(_rows, piece=piece, nested=0), _TRACE_BEGINS))


def _rows(cursor: Cursor, piece: Piece, nested: int) -> Iterator[Row]:
    first = cursor.peek()
    if nested > _MOST_NESTED:
        raise cursor.unexpected("a trace or a span")
    if first == b"[":
        for _ in cursor.elements():
            yield from _rows(cursor, piece, nested + 1)
    elif first == b"{":
        yield from _object_rows(cursor, piece, nested)
    elif nested:
        yield from _span_rows(cursor.take(), piece.file, None)
    else:
        raise cursor.unexpected("a trace, a span or a list")


def _object_rows(cursor: Cursor, piece: Piece, nested: int) -> Iterator[Row]:
    """An answer with traces, a trace with spans, or one span."""
    trace = _Trace(piece)
    is_span = True
    cursor.hold()
    try:
        for key in cursor.members(_KNOWN):
            if key == "spanID" and is_span:
                break
            if key in ("data", "_source", "spans"):
                is_span = False
                cursor.release()
            if key == "spans":
                yield from trace.take_spans(cursor)
            elif key == "processes":
                yield from trace.take_processes(cursor)
            elif key in ("data", "_source") and cursor.peek() in (b"[", b"{"):
                yield from _rows(cursor, piece, nested + 1)
            else:
                yield from _complaint(cursor, key, piece.file)
    except Damage:
        yield from trace.rows()
        raise
    if is_span:
        cursor.rewind()
        yield from _span_rows(cursor.take(), piece.file, None)
    else:
        yield from trace.rows()


def _complaint(cursor: Cursor, key: str, file: str) -> Iterator[Row]:
    """A row for a member that holds no traces where it should, or errors where it should not."""
    cursor.peek()
    offset, value = cursor.offset, cursor.take_checked()
    if value and key == "errors":
        yield bad_row(file, offset, f"no-traces: the answer holds errors: {shown(value)}", shown(value))
    elif value is not None and key in ("data", "_source", "spans", "processes"):
        yield bad_row(file, offset, f"bad-field: {key} holds {_HOLDS[key]}, not {shown(value)}", shown(value))


_HOLDS = {"data": "traces", "_source": "a span", "spans": "a list of spans", "processes": "an object of processes"}


def _span_rows(taken: Taken, file: str, processes: ProcessNames | None) -> list[Row]:
    return rows_of_span(taken, file, lambda record: span_of(record, processes))


class _Trace:
    """One trace, whose spans wait until its processes are known."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._processes: ProcessNames | None = None
        self._held: list[Taken] = []
        self._held_bytes = 0
        self._read_again_at: int | None = None

    def take_processes(self, cursor: Cursor) -> Iterator[Row]:
        if cursor.peek() != b"{":
            yield from _complaint(cursor, "processes", self._piece.file)
            return
        found = cursor.take_checked()
        assert isinstance(found, dict)
        self._processes = process_names(found)

    def take_spans(self, cursor: Cursor) -> Iterator[Row]:
        if cursor.peek() != b"[":
            yield from _complaint(cursor, "spans", self._piece.file)
            return
        offset = cursor.offset
        for found in _spans(cursor):
            if isinstance(found, Row):
                yield found
            elif self._processes is not None:
                yield from _span_rows(found, self._piece.file, self._processes)
            elif self._read_again_at is None:
                self._held.append(found)
                self._held_bytes += len(found.raw)
                if self._held_bytes > HELD_BYTES:
                    self._held.clear()
                    self._read_again_at = offset

    def rows(self) -> Iterator[Row]:
        """The rows of the spans that waited, with what is known of their processes by now."""
        for taken in self._held if self._read_again_at is None else self._again(self._read_again_at):
            yield from _span_rows(taken, self._piece.file, self._processes)

    def _again(self, offset: int) -> Iterator[Taken]:
        # Damage was told when it was met first.
        with closing(Cursor(self._piece, offset=offset)) as cursor, suppress(Damage):
            yield from (found for found in _spans(cursor) if isinstance(found, Taken))


def _spans(cursor: Cursor) -> Iterator[Taken | Row]:
    """The elements of a trace's list; a row for a damaged one after which another of the same trace is found.

    Ids of processes mean something in their trace only, so that nothing of another trace may be taken for one of this.
    """
    elements, trace = cursor.elements(), None
    while True:
        try:
            for _ in elements:
                taken = cursor.take()
                trace = trace or _TRACE_OF_SPAN.match(taken.raw)
                yield taken
            return
        except Damage as damage:
            row = cursor.resume_near(damage, _further_span(trace[1])) if trace is not None else None
            if row is None:
                raise
            yield row
            elements = cursor.further_elements()


def _further_span(trace: bytes) -> re.Pattern[bytes]:
    begins = _SPACE.join((rb"\{", rb'"traceID"', rb":", b'"' + trace + b'"', rb",", rb'"spanID"'))
    return re.compile(rb"(?P<marker>" + begins + rb')|"(?:spans|processes)"')
