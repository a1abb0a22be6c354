"""Walk requests of OTLP in JSON down to their spans and log records, in bounded memory.

A request is ``{"resourceSpans": [{"resource": ..., "scopeSpans": [{"spans": [...]}]}]}``, or the same for logs. It may be
inside of one of `ENVELOPES`. An element of ``resourceSpans`` may also be a document: reading goes on with one after damage.
A list of objects under any other name is not read, and a row says so, because a misspelt name must not lose records. The
exceptions are `OTHER_SIGNALS`, which give no rows.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any, Final, TypeAlias

from ledto.sources.contract import FileSlice
from ledto.sources.json.documents import Cursor, Damage
from ledto.sources.json.strict import value_of
from ledto.sources.json.typed import NOT_TAKEN, each_record, offsets_in
from ledto.sources.lines import LINE_LIMIT_BYTES, TOO_LONG
from ledto.sources.otlp.exact import exact_record
from ledto.sources.otlp.json_typed import RecordArray, quick_record, quick_records, quick_resource
from ledto.sources.otlp.records import (
    LOGS,
    SPANS,
    Resource,
    Resources,
    bad_record,
    check,
    convert_record,
    convert_records,
    resource_from,
    unreadable_resource,
)
from ledto.sources.rows import BadRecord, bad_row, values_of
from ledto.sources.spans.spans import SpansOrRows

RowsOf: TypeAlias = Callable[[str, bytes, Resource, str, int], SpansOrRows]
"""The type of `json_rows` and `exact_rows`."""

ENVELOPES: Final = frozenset({"result", "trace"})
"""Members around a request in the answers of Jaeger (API v3) and Tempo (API v2)."""
RESOURCES: Final = frozenset({"resourceSpans", "resource_spans", "resourceLogs", "resource_logs", "batches"})
"""Members of a request. Tempo's API calls them batches."""
SCOPES: Final = frozenset({"scopeSpans", "scope_spans", "scopeLogs", "scope_logs"})
RECORDS: Final = {"spans": SPANS, "logRecords": LOGS, "log_records": LOGS}
LEGACY: Final = frozenset(
    {
        "instrumentationLibrarySpans",
        "instrumentation_library_spans",
        "instrumentationLibraryLogs",
        "instrumentation_library_logs",
    }
)
IN_RESOURCE: Final = frozenset({"resource", *SCOPES, *LEGACY})

OTHER_SIGNALS: Final = frozenset({"resourceMetrics", "resource_metrics", "resourceProfiles", "resource_profiles"})
"""Members of a request that say nothing about causes, and give no rows."""
IN_OTHER_SIGNALS: Final = frozenset(
    {
        "scopeMetrics",
        "scope_metrics",
        "scopeProfiles",
        "scope_profiles",
        "instrumentationLibraryMetrics",
        "instrumentation_library_metrics",
        "metrics",
        "profiles",
    }
)
"""Members of an element of `OTHER_SIGNALS`. The cursor meets them if reading goes on there after damage."""

EXPECTED_IN_REQUEST: Final = "resourceSpans, resourceLogs or batches"
EXPECTED_IN_RESOURCE: Final = "scopeSpans or scopeLogs"
EXPECTED_IN_SCOPE: Final = "spans or logRecords"


_SPACES = rb"[ \t\r\n]{0,64}"
WAY_ON: Final = re.compile(
    rb'(?P<marker>\{%b"(?:resource_?(?:[sS]pans|[lL]ogs)|resource|batches)"%b:)|(?<=\n)[\[{]' % (_SPACES, _SPACES)
)
"""Where a request or an element of one begins, which can be read by itself."""
_SHOWN = 60
_HEAD_BYTES = 8 << 10


def json_resource(raw: bytes) -> Resource:
    """Read a resource; if that fails, return a resource with the problem."""
    try:
        return resource_from(fields_of(raw) or {})
    except BadRecord as error:
        return unreadable_resource(error)


def json_rows(signal: str, raw: bytes, resource: Resource, file: str, place: int) -> SpansOrRows:
    """Read one record, good or bad, by the quick reader or else by the exact one."""
    try:
        record = quick_record(signal, raw)
        check(record, resource)
        return convert_record(record, resource, file, place)
    except (*NOT_TAKEN, BadRecord):
        return exact_rows(signal, raw, resource, file, place)


def array_rows(
    array: RecordArray, resource: Resource, file: str, place: int, *, offset: int | None = None
) -> Iterator[SpansOrRows]:
    """Read each record in a valid JSON array. The place of each is `place`.

    With an `offset`, which is where the array begins in the file, the place of a record is where it begins in the file.
    """
    try:
        records = quick_records(array.signal, array.text)
        for record in records:
            check(record, resource)
    except (*NOT_TAKEN, BadRecord):
        for begins, raw in each_record(array.text):
            yield json_rows(array.signal, raw, resource, file, place if offset is None else offset + begins)
        return
    places = [place] * len(records) if offset is None else [offset + begins for begins in offsets_in(array.text)]
    yield from convert_records(records, resource, file, places)


def exact_rows(signal: str, raw: bytes, resource: Resource, file: str, place: int) -> SpansOrRows:
    """Read one record, good or bad, by the exact reader."""
    try:
        fields = fields_of(raw)
        if fields is None:
            raise BadRecord("bad-field", f"one of {signal} is null")
        record = exact_record(signal, fields)
        check(record, resource)
        return convert_record(record, resource, file, place)
    except BadRecord as error:
        return [values_of(bad_record(raw, error, resource, file, place))]


def fields_of(raw: bytes) -> dict[str, Any] | None:
    """Parse an object; None for null. Raises `BadRecord`."""
    try:
        value = value_of(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise BadRecord("not-utf8", f"byte {error.start} of the record: {error.reason}") from None
    if value is not None and not isinstance(value, dict):
        raise BadRecord("bad-field", f"a record is an object, not {raw[:20].decode()!r}")
    return value


class _EveryKey(frozenset[str]):
    """A set that contains every key, so that unknown members are visited, too."""

    def __contains__(self, key: object) -> bool:
        return True


_EVERY_KEY = _EveryKey()


class RequestCursor(Cursor):
    """A cursor that walks requests. With a `line`, the input is that line, which is then the place of all rows."""

    def __init__(self, piece: FileSlice, resources: Resources, *, rows_of: RowsOf, line: int | None = None) -> None:
        super().__init__(piece)
        self._rows_of = rows_of
        self._piece = piece
        self._resources = resources
        self._line = line

    def read(self) -> Iterator[SpansOrRows]:
        """Read all documents; yield a bad row for each damage."""
        while self.is_at_document():
            yield from self.document()
        if self.torn is not None:
            reason = f"torn-file: nothing can be read from here on: {self.torn}"
            yield self._bad(self.offset, reason, b"")

    def document(self) -> Iterator[SpansOrRows]:
        """Read the next request."""
        try:
            yield from self._request()
        except Damage as damage:
            row = self.resume(damage, WAY_ON)
            row.place = self._place(damage.offset)
            if self._line is not None and row.reason is not None:
                row.reason = row.reason.replace("; the rest is not read", "; the rest of the line is not read")
            yield [values_of(row)]

    def _place(self, offset: int) -> int:
        return offset if self._line is None else self._line

    def _bad(self, offset: int, reason: str, text: bytes) -> SpansOrRows:
        return [values_of(bad_row(self._file, self._place(offset), reason, text))]

    def _request(self) -> Iterator[SpansOrRows]:
        start, head = self.offset, self._data[self._position : self._position + _HEAD_BYTES]
        known = yield from self._in_request(may_wrap=True)
        if not known:
            reason = "not-otlp: a request has resourceSpans or resourceLogs, and this has neither"
            yield self._bad(start, reason, head[: self.offset - start])

    def _in_request(self, *, may_wrap: bool) -> Generator[SpansOrRows, None, bool]:
        """Read the members of a request. Return False if none of them is known and no row says so; True if it is empty."""
        is_empty, known = True, False
        resource: Resource | None = None
        for key in self.members(_EVERY_KEY):
            is_empty = False
            if key in RESOURCES:
                known = True
                for _ in self._maybe_elements():
                    arrays = self._quick_resource()
                    if arrays is None:
                        yield from self._in_resource(key)
                    else:
                        yield from arrays
            elif key in OTHER_SIGNALS:
                known = True
                for _ in self._maybe_elements():
                    self.take()
            elif key in IN_RESOURCE:
                known = True
                resource = yield from self._member_of_resource(key, resource)
            elif may_wrap and key in ENVELOPES and self.peek() == b"{":
                known |= yield from self._in_request(may_wrap=False)
            else:
                known |= yield from self._unknown(key, "a request", EXPECTED_IN_REQUEST)
        return is_empty or known

    def _quick_resource(self) -> Iterator[SpansOrRows] | None:
        """Read the next element of a request at once; None if it must be walked."""
        if self._rows_of is not json_rows or self._line is not None or self.peek() != b"{":
            return None
        whole = self.whole()
        if whole is None:
            return None
        try:
            arrays = quick_resource(whole.raw)
        except NOT_TAKEN:
            return None
        self.skip_run()
        return self._array_rows(arrays, whole.offset)

    def _array_rows(self, arrays: list[tuple[RecordArray, int]], offset: int) -> Iterator[SpansOrRows]:
        for array, begins in arrays:
            resource = Resource() if array.resource is None else self._resources.of(array.resource)
            yield from array_rows(array, resource, self._file, 0, offset=offset + begins)

    def _in_resource(self, holder: str) -> Iterator[SpansOrRows]:
        resource: Resource | None = None
        for key in self.members(_EVERY_KEY):
            if key in IN_RESOURCE:
                resource = yield from self._member_of_resource(key, resource)
            else:
                yield from self._unknown(key, f"an element of {holder}", EXPECTED_IN_RESOURCE)

    def _member_of_resource(self, key: str, resource: Resource | None) -> Generator[SpansOrRows, None, Resource | None]:
        if key == "resource":
            return self._resources.of(self.take().raw)
        if key in SCOPES:
            if resource is None:
                resource = self._resource_ahead()
            for _ in self._maybe_elements():
                yield from self._in_scope(key, resource)
        else:
            value = self.take()
            reason = (
                f"legacy: {key} is from before OTLP 0.15; send it through a Collector of 2022, which writes scopeSpans"
            )
            yield self._bad(value.offset, reason, value.raw)
        return resource

    def _in_scope(self, holder: str, resource: Resource) -> Iterator[SpansOrRows]:
        for key in self.members(_EVERY_KEY):
            if key in RECORDS:
                yield from self._records(RECORDS[key], resource)
            else:
                yield from self._unknown(key, f"an element of {holder}", EXPECTED_IN_SCOPE)

    def _unknown(self, key: str, where: str, expected: str) -> Generator[SpansOrRows, None, bool]:
        """Skip an unknown member. If it may hold records, yield a row that says so, and return True."""
        self.peek()
        offset = self.offset
        value = self.take_checked()
        objects = sum(isinstance(element, dict) for element in value) if isinstance(value, list) else 0
        if not objects or key in IN_OTHER_SIGNALS:
            return False
        reason = (
            f"unknown-field: at byte {offset}: {key[:_SHOWN]!r} in {where} is a list of objects ({objects}), "
            f"none of which is read; expected {expected}"
        )
        yield self._bad(offset, reason, self._data[offset - self._base : self._position])
        return True

    def _records(self, signal: str, resource: Resource) -> Iterator[SpansOrRows]:
        for _ in self._maybe_elements():
            record = self.take()
            yield self._rows_of(signal, record.raw, resource, self._file, self._place(record.offset))

    def _maybe_elements(self) -> Iterator[None]:
        """Go to each element of the next array, which may be null."""
        if self.peek() == b"n":
            self.take_checked()
        else:
            yield from self.elements()

    def _resource_ahead(self) -> Resource:
        """Find a resource that comes after its spans, by reading ahead with a second cursor."""
        with closing(_Ahead(self._piece, offset=self.offset)) as ahead:
            raw = ahead.resource()
        return Resource() if raw is None else self._resources.of(raw)


class _Ahead(Cursor):
    """A cursor that begins at the value of ``scopeSpans``, and looks for the resource after it."""

    def resource(self) -> bytes | None:
        """Return the text of the resource; None if there is none."""
        self._skip_scopes()
        while not self._is_closed_by(b"}"):
            key = self._key()
            if key == "resource":
                return self.take().raw
            if key in SCOPES:
                self._skip_scopes()
            else:
                self.take()
        return None

    def _skip_scopes(self) -> None:
        if self.peek() != b"[":
            self.take()
            return
        for _ in self.elements():
            for _ in self.members(RECORDS):
                if self.peek() != b"[":
                    self.take()
                else:
                    for _ in self.elements():
                        self.take()


def read_line(line: bytes, place: int, file: str, resources: Resources, rows_of: RowsOf) -> Iterator[SpansOrRows]:
    """Read the requests of one line."""
    if len(line) > LINE_LIMIT_BYTES:
        yield [values_of(bad_row(file, place, TOO_LONG, line))]
        return
    with closing(RequestCursor(_text_piece(file, line), resources, rows_of=rows_of, line=place)) as cursor:
        yield from cursor.read()


def _text_piece(file: str, text: bytes) -> FileSlice:
    def open_at(offset: int) -> io.BytesIO:
        return io.BytesIO(text[offset:])

    return FileSlice(file, open_at)
