"""Read files of Jaeger's JSON: answers of ``/api/traces``, downloads of its page, and spans from Elasticsearch.

One literal trace::

    {"traceID": "5af7183fb1d4cf5f",
     "spans": [{"traceID": "5af7183fb1d4cf5f", "spanID": "352bff9a74ca9ad2", "operationName": "GET /stock",
                "references": [{"refType": "CHILD_OF", "traceID": "5af7183fb1d4cf5f", "spanID": "8de3a1f5d9f0a1b2"}],
                "startTime": 1700000000000000, "duration": 150000, "processID": "p1",
                "tags": [{"key": "span.kind", "type": "string", "value": "server"}],
                "logs": [{"timestamp": 1700000000040000, "fields": [{"key": "event", "value": "cache miss"}]}]}],
     "processes": {"p1": {"serviceName": "stock", "tags": [{"key": "hostname", "value": "pod-7"}]}}}

Traces may be in ``data``, in a list, one after another or one on each line. The processes of a trace usually come after its
spans: up to `HELD_BYTES` of spans wait in memory for them, and the spans of a larger trace are read a second time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

import pyarrow as pa

from ledto.sources.contract import FileSlice, Records
from ledto.sources.jaeger.exact import ProcessNames, process_names, span_of
from ledto.sources.jaeger.typed import TypedJaeger
from ledto.sources.json.documents import Cursor, Damage, DocumentValue, document_rows
from ledto.sources.rows import Row, bad_row
from ledto.sources.spans.fields import read_exactly, shown
from ledto.sources.spans.spans import SpansOrRows, span_batches

HELD_BYTES: Final = 32 << 20

_SPACE = rb"[ \t\r\n]{0,100}"
_TRACE_BEGINS = _SPACE.join((rb"\{", rb'"traceID"', rb":", rb'"[0-9A-Fa-f]{0,64}"', rb",", rb'"spans"'))
_TRACE_OF_SPAN = re.compile(_SPACE.join((rb"\{", rb'"traceID"', rb":", rb'"([0-9A-Fa-f]{1,64})"')))
_SPAN_BEGINS = re.compile(_SPACE.join((rb"\{", rb'"traceID"', rb":", rb'"[0-9A-Fa-f]{1,64}"', rb",", rb'"spanID"')))
_IN_TRACE = re.compile(_SPACE.join((rb"\{", rb'"(?:traceID|spans|processes)"')))
_KNOWN = ("data", "_source", "spans", "processes", "spanID", "errors")
_MOST_NESTED = 4
_HOLDS = {"data": "traces", "_source": "a span", "spans": "a list of spans", "processes": "an object of processes"}


@dataclass(frozen=True)
class Jaeger:
    """A source of Jaeger's traces and spans. Times become nanoseconds.

    `exact` turns the quick reader off, for comparisons: both give the same rows.
    """

    name: ClassVar[str] = "jaeger"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl", ".ndjson")
    splittable: ClassVar[bool] = False
    records: ClassVar[Records] = "anywhere"

    exact: bool = False

    def read(self, piece: FileSlice) -> Iterator[pa.RecordBatch]:
        reader = _JaegerReader(piece, None if self.exact else TypedJaeger())
        yield from span_batches(document_rows(piece, partial(reader.read, nested=0), _TRACE_BEGINS), piece.file)


class _JaegerReader:
    """A reader of one file: it finds spans, and reads them quickly or exactly."""

    def __init__(self, piece: FileSlice, typed: TypedJaeger | None) -> None:
        self.piece = piece
        self._typed = typed

    def read(self, cursor: Cursor, nested: int) -> Iterator[SpansOrRows]:
        """Read a trace, a span, or a list of them at the cursor."""
        first = cursor.peek()
        if nested > _MOST_NESTED:
            raise cursor.unexpected("a trace or a span")
        if first == b"[":
            for _ in cursor.elements():
                yield from self.read(cursor, nested + 1)
        elif first == b"{":
            spans = self._read_quickly(cursor, in_list=nested > 0)
            if spans is None:
                yield from self._in_object(cursor, nested)
            else:
                yield spans
        elif nested:
            yield self.span(cursor.take(), None)
        else:
            raise cursor.unexpected("a trace, a span or a list")

    def span(self, value: DocumentValue, processes: ProcessNames | None) -> SpansOrRows:
        """Read one span."""
        if self._typed is not None and (spans := self._typed.spans(value, processes or {}, in_list=False)) is not None:
            return spans
        return read_exactly(value, self.piece.file, partial(span_of, processes=processes))

    def _read_quickly(self, cursor: Cursor, *, in_list: bool) -> SpansOrRows | None:
        """Read the next trace, or a run of spans; None if the exact reader must read it."""
        if self._typed is None:
            return None
        if cursor.follows(_SPAN_BEGINS):
            run = cursor.run(in_list=in_list)
            spans = None if run is None else self._typed.spans(run, {}, in_list=in_list)
        elif cursor.follows(_IN_TRACE):
            whole = cursor.whole()
            spans = None if whole is None else self._typed.trace(whole)
        else:
            return None
        if spans is not None:
            cursor.skip_run()
        return spans

    def _in_object(self, cursor: Cursor, nested: int) -> Iterator[SpansOrRows]:
        """Read an object that may be an answer with traces, a trace with spans, or one span."""
        trace = _WaitingTrace(self)
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
                    yield from self.read(cursor, nested + 1)
                else:
                    yield from _read_misfit(cursor, key, self.piece.file)
        except Damage:
            yield from trace.waiting_spans()
            raise
        if is_span:
            cursor.rewind()
            yield self.span(cursor.take(), None)
        else:
            yield from trace.waiting_spans()


def _read_misfit(cursor: Cursor, key: str, file: str) -> Iterator[SpansOrRows]:
    """Consume a member of an unexpected type. Yield a bad row, unless it is null or an empty list of errors."""
    cursor.peek()
    offset, value = cursor.offset, cursor.take_checked()
    if value and key == "errors":
        reason = f"no-traces: the answer holds errors: {shown(value)}"
    elif value is not None and key in _HOLDS:
        reason = f"bad-field: {key} holds {_HOLDS[key]}, not {shown(value)}"
    else:
        return
    yield bad_row(file, offset, reason, shown(value))


class _WaitingTrace:
    """One trace, whose spans wait until its processes are read."""

    def __init__(self, reader: _JaegerReader) -> None:
        self._reader = reader
        self._piece = reader.piece
        self._processes: ProcessNames | None = None
        self._held: list[DocumentValue] = []
        self._held_bytes = 0
        self._read_again_at: int | None = None
        """The offset of the list of spans, if they were too large to wait in memory."""

    def take_processes(self, cursor: Cursor) -> Iterator[SpansOrRows]:
        """Read the processes at the cursor; yield a bad row if they have another type."""
        if cursor.peek() != b"{":
            yield from _read_misfit(cursor, "processes", self._piece.file)
            return
        processes = cursor.take_checked()
        assert isinstance(processes, dict)
        self._processes = process_names(processes)

    def take_spans(self, cursor: Cursor) -> Iterator[SpansOrRows]:
        """Read the list of spans at the cursor. Yield them if the processes are known, and bad rows at once."""
        if cursor.peek() != b"[":
            yield from _read_misfit(cursor, "spans", self._piece.file)
            return
        offset = cursor.offset
        for span in _spans(cursor):
            if isinstance(span, Row):
                yield span
            elif self._processes is not None:
                yield self._reader.span(span, self._processes)
            elif self._read_again_at is None:
                self._held.append(span)
                self._held_bytes += len(span.raw)
                if self._held_bytes > HELD_BYTES:
                    self._held.clear()
                    self._read_again_at = offset

    def waiting_spans(self) -> Iterator[SpansOrRows]:
        """Yield the spans that waited, with the processes that were read."""
        for span in self._held if self._read_again_at is None else self._read_again(self._read_again_at):
            yield self._reader.span(span, self._processes)

    def _read_again(self, offset: int) -> Iterator[DocumentValue]:
        # The first reading has yielded rows for damage already.
        with closing(Cursor(self._piece, offset=offset)) as cursor, suppress(Damage):
            yield from (span for span in _spans(cursor) if isinstance(span, DocumentValue))


def _spans(cursor: Cursor) -> Iterator[DocumentValue | Row]:
    """Yield the elements of a trace's list. After damage, yield a row and go on if a span of the same trace is near.

    An id of a process is only valid in its trace, so reading must not go on with a span of another trace. Raises `Damage`.
    """
    elements, trace = cursor.elements(), None
    while True:
        try:
            for _ in elements:
                span = cursor.take()
                trace = trace or _TRACE_OF_SPAN.match(span.raw)
                yield span
            return
        except Damage as damage:
            row = cursor.resume_near(damage, _next_span(trace[1])) if trace is not None else None
            if row is None:
                raise
            yield row
            elements = cursor.further_elements()


def _next_span(trace: bytes) -> re.Pattern[bytes]:
    """Build an expression for the beginning of a span of this trace (``marker``), or for the end of its spans."""
    begins = _SPACE.join((rb"\{", rb'"traceID"', rb":", b'"' + trace + b'"', rb",", rb'"spanID"'))
    return re.compile(rb"(?P<marker>" + begins + rb')|"(?:spans|processes)"')
