r"""Read files of X-Ray's segments: one on each line, in lists, or as text inside of what its commands answer.

The answer of ``aws xray batch-get-traces`` has each segment as a text of JSON::

    {"Traces": [{"Id": "1-5f84c7a1-e7d1852db8c4fd35d88bf49a",
                 "Segments": [{"Id": "7df694142c905d8d", "Document": "{\"id\":\"7df694142c905d8d\", ...}"}]}]}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import pyarrow as pa

from ledto.sources.contract import FileSlice, Records
from ledto.sources.json.documents import Cursor, DocumentValue, document_rows
from ledto.sources.json.objects import has_large_integers, may_be_deep
from ledto.sources.json.typed import COLON_OR_NUL_ESCAPED, NOT_TAKEN, check_all_is_there, real, text_of
from ledto.sources.rows import BadRecord, NeedsExactReader, bad_row
from ledto.sources.spans.fields import Record, fields_of, shown
from ledto.sources.spans.spans import SpansOrRows, span_batches, spans_of
from ledto.sources.xray.segments import read_segment

_SPACE = rb"[ \t\r\n]{0,100}"
_SEGMENT_BEGINS = re.compile(_SPACE.join((rb"\{", rb'"[a-z]')))
_WAY_ON = _SPACE.join((rb"\{", rb'"(?:trace_id|Id|Document)"', rb":"))
_MOST_NESTED = 5
_ANSWER = ("Traces", "Segments", "TraceSegmentDocuments", "Document", "UnprocessedTraceIds")
"""Members of what X-Ray's commands answer and take. Segments have no such members: theirs begin with small letters."""
_DAEMON_HEADER = {"format", "version"}
"""The line before each segment that is sent to X-Ray's daemon."""
_decode = msgspec.json.Decoder(dict[str, Any], float_hook=real).decode


@dataclass(frozen=True)
class XRay:
    """A source of X-Ray's segments. Times become nanoseconds.

    `exact` turns the quick parser off, for comparisons: both give the same rows.
    """

    name: ClassVar[str] = "xray"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl", ".ndjson")
    splittable: ClassVar[bool] = False
    records: ClassVar[Records] = "anywhere"

    exact: bool = False

    def read(self, piece: FileSlice) -> Iterator[pa.RecordBatch]:
        read = document_rows(piece, lambda cursor: self._read(cursor, piece.file, 0), _WAY_ON)
        yield from span_batches(read, piece.file)

    def _read(self, cursor: Cursor, file: str, nested: int) -> Iterator[SpansOrRows]:
        """Read a segment, an answer, or a list of them at the cursor, which is inside of `nested` others."""
        first = cursor.peek()
        if nested > _MOST_NESTED:
            raise cursor.unexpected("a segment")
        if first == b"[":
            for _ in cursor.elements():
                yield from self._read(cursor, file, nested + 1)
        elif first == b"{" and not cursor.follows(_SEGMENT_BEGINS):
            yield from self._in_object(cursor, file, nested)
        elif first == b'"' and nested:
            yield from self._document(cursor, file)
        elif first == b"{" or nested:
            yield from self._segment(cursor.take(), file)
        else:
            raise cursor.unexpected("a segment, a list, or an answer of X-Ray")

    def _in_object(self, cursor: Cursor, file: str, nested: int) -> Iterator[SpansOrRows]:
        """Read an object that may be an answer, or one segment."""
        is_segment = True
        cursor.hold()
        for key in cursor.members(_ANSWER):
            is_segment = False
            cursor.release()
            if key == "UnprocessedTraceIds":
                yield from _read_unprocessed(cursor, file)
            elif key == "Document" and cursor.peek() == b'"':
                yield from self._document(cursor, file)
            elif key != "Document" and cursor.peek() == b"[":
                yield from self._read(cursor, file, nested + 1)
            else:
                offset, value = cursor.offset, cursor.take_checked()
                if value is not None:
                    reason = f"bad-field: {key} holds a list, or a segment as text, not {shown(value)}"
                    yield bad_row(file, offset, reason, shown(value))
        if is_segment:
            cursor.rewind()
            yield from self._segment(cursor.take(), file)

    def _document(self, cursor: Cursor, file: str) -> Iterator[SpansOrRows]:
        """Read a segment that is a text of JSON."""
        cursor.peek()
        offset = cursor.offset
        text = str(cursor.take_checked())
        yield from self._segment(DocumentValue(offset, text.encode()), file)

    def _segment(self, value: DocumentValue, file: str) -> Iterator[SpansOrRows]:
        """Read one segment. What cannot be read of it gives bad rows, after its spans."""
        try:
            record = fields_of(value.raw) if self.exact else _fields(value.raw)
            if record.keys() == _DAEMON_HEADER:
                return
            parts = list(read_segment(record, value.offset))
        except BadRecord as error:
            yield bad_row(file, value.offset, str(error), value.raw)
            return
        yield spans_of(*(part.span for part in parts if part.span is not None))
        for part in parts:
            if part.problem is not None:
                yield bad_row(file, value.offset, str(part.problem), text_of(part.fields))


def _fields(raw: bytes) -> Record:
    """Parse an object quickly, or as `fields_of` does if it is unusual. Raises `BadRecord`."""
    try:
        if may_be_deep(raw) or has_large_integers(raw):
            raise NeedsExactReader
        record = _decode(raw)
        check_all_is_there(raw, record, escapes=COLON_OR_NUL_ESCAPED)
    except NOT_TAKEN:
        return fields_of(raw)
    return record


def _read_unprocessed(cursor: Cursor, file: str) -> Iterator[SpansOrRows]:
    """Yield a bad row for each trace that X-Ray was asked for and did not give."""
    cursor.peek()
    offset, traces = cursor.offset, cursor.take_checked()
    for trace in traces if isinstance(traces, list) else []:
        yield bad_row(file, offset, f"no-trace: X-Ray was asked for this trace and did not give it: {shown(trace)}", "")
