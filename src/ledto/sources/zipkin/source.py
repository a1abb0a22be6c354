"""The source of Zipkin's JSON, version 2: spans in lists, in lists of traces, or one a line.

One literal record::

    {"traceId": "5af7183fb1d4cf5f", "id": "352bff9a74ca9ad2", "parentId": "5af7183fb1d4cf5f", "kind": "SERVER",
     "name": "get /stock", "timestamp": 1700000000000000, "duration": 150000, "shared": true,
     "localEndpoint": {"serviceName": "stock"}, "annotations": [{"timestamp": 1700000000040000, "value": "cache miss"}],
     "tags": {"error": "none left"}}

The two sides of a call may share one id (``shared``): the server's side is then the line ``<trace>/<id>/server``, started
from the client's, ``<id>``. A child names its parent by the id alone, and follows the client's side. A time or a duration
of zero is one that is not known, as in Zipkin itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from ledto.sources.contract import FileSlice, Records
from ledto.sources.json.documents import Cursor, document_rows
from ledto.sources.spans.fields import exact_found
from ledto.sources.spans.spans import Found, span_batches
from ledto.sources.zipkin.exact import span_of
from ledto.sources.zipkin.typed import TypedZipkin

_SPAN_BEGINS = rb'\{[ \t\r\n]{0,100}"traceId"[ \t\r\n]{0,100}:'
_MOST_LISTS = 2


@dataclass(frozen=True)
class Zipkin:
    """Spans of Zipkin's second format; times become nanoseconds.

    `exact` leaves out the quick reader, which gives the same rows: for comparisons.
    """

    name: ClassVar[str] = "zipkin"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl", ".ndjson")
    splittable: ClassVar[bool] = False
    records: ClassVar[Records] = "anywhere"

    exact: bool = False

    def read(self, piece: FileSlice) -> Iterator[pa.RecordBatch]:
        typed = None if self.exact else TypedZipkin()
        found = document_rows(piece, lambda cursor: _found(cursor, piece.file, typed, 0), _SPAN_BEGINS)
        yield from span_batches(found, piece.file)


def _found(cursor: Cursor, file: str, typed: TypedZipkin | None, lists: int) -> Iterator[Found]:
    first = cursor.peek()
    if first == b"[" and lists < _MOST_LISTS:
        for _ in cursor.elements():
            yield from _found(cursor, file, typed, lists + 1)
    elif first == b"{" or lists:
        yield _spans(cursor, file, typed, in_list=lists > 0)
    else:
        raise cursor.unexpected("a span or a list of spans")


def _spans(cursor: Cursor, file: str, typed: TypedZipkin | None, *, in_list: bool) -> Found:
    """The next span, or all that the typed reader takes at once."""
    if typed is not None:
        cursor.peek()
        run = cursor.run(in_list=in_list)
        if run is not None and (spans := typed.spans(run, in_list=in_list)) is not None:
            cursor.skip_run()
            return spans
    taken = cursor.take()
    if typed is not None and (spans := typed.spans(taken, in_list=False)) is not None:
        return spans
    return exact_found(taken, file, span_of)
