"""Read files of Zipkin's JSON, version 2: spans in lists, in lists of traces, or one on each line.

One literal record::

    {"traceId": "5af7183fb1d4cf5f", "id": "352bff9a74ca9ad2", "parentId": "5af7183fb1d4cf5f", "kind": "SERVER",
     "name": "get /stock", "timestamp": 1700000000000000, "duration": 150000, "shared": true,
     "localEndpoint": {"serviceName": "stock"}, "annotations": [{"timestamp": 1700000000040000, "value": "cache miss"}],
     "tags": {"error": "none left"}}

The two sides of a call may share one id (``shared``). The server's side is then the line ``<trace>/<id>/server``, and its
parent is the client's side, ``<trace>/<id>``. A child names its parent by the id alone, and follows the client's side. A
time or a duration of zero means that it is not known, as in Zipkin itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from ledto.sources.contract import FileSlice, Records
from ledto.sources.json.documents import Cursor, document_rows
from ledto.sources.spans.fields import read_exactly
from ledto.sources.spans.spans import SpansOrRows, span_batches
from ledto.sources.zipkin.exact import span_of
from ledto.sources.zipkin.typed import TypedZipkin

_SPAN_BEGINS = rb'\{[ \t\r\n]{0,100}"traceId"[ \t\r\n]{0,100}:'
_MOST_LISTS = 2


@dataclass(frozen=True)
class Zipkin:
    """A source of Zipkin's spans, version 2. Times become nanoseconds.

    `exact` turns the quick reader off, for comparisons: both give the same rows.
    """

    name: ClassVar[str] = "zipkin"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl", ".ndjson")
    splittable: ClassVar[bool] = False
    records: ClassVar[Records] = "anywhere"

    exact: bool = False

    def read(self, piece: FileSlice) -> Iterator[pa.RecordBatch]:
        typed = None if self.exact else TypedZipkin()
        read = document_rows(piece, lambda cursor: _read(cursor, piece.file, typed, 0), _SPAN_BEGINS)
        yield from span_batches(read, piece.file)


def _read(cursor: Cursor, file: str, typed: TypedZipkin | None, lists: int) -> Iterator[SpansOrRows]:
    """Read a span or a list at the cursor, which is inside of so many `lists`."""
    first = cursor.peek()
    if first == b"[" and lists < _MOST_LISTS:
        for _ in cursor.elements():
            yield from _read(cursor, file, typed, lists + 1)
    elif first == b"{" or lists:
        yield _spans(cursor, file, typed, in_list=lists > 0)
    else:
        raise cursor.unexpected("a span or a list of spans")


def _spans(cursor: Cursor, file: str, typed: TypedZipkin | None, *, in_list: bool) -> SpansOrRows:
    """Read the next span, or as many as the typed reader takes at once."""
    if typed is not None:
        cursor.peek()
        run = cursor.run(in_list=in_list)
        if run is not None and (spans := typed.spans(run, in_list=in_list)) is not None:
            cursor.skip_run()
            return spans
    value = cursor.take()
    if typed is not None and (spans := typed.spans(value, in_list=False)) is not None:
        return spans
    return read_exactly(value, file, span_of)
