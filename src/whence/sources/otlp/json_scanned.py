"""OTLP in JSON through the compiled scanner; the same rows as without it."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from whence.sources.contract import Piece
from whence.sources.lines import Block
from whence.sources.otlp import json_scan as scan
from whence.sources.otlp.layout import (
    HEAP,
    LEFT,
    LEFT_LINE,
    PLACE,
    RECORDS,
    RESOURCE,
    RESOURCES,
    SIGNAL,
    SIGNAL_LOGS,
    SIGNAL_SPANS,
    START,
    STATUS,
    STOP,
)
from whence.sources.otlp.records import LOGS, SPANS, Resource
from whence.sources.otlp.shape import BOM
from whence.sources.otlp.table import Table
from whence.sources.otlp.walk import Found, RequestCursor, Resources, fields_of, fields_rows, json_rows, line_found
from whence.sources.rows import BadRecord, Row

_SIGNALS = {SIGNAL_SPANS: SPANS, SIGNAL_LOGS: LOGS}
_TEXT_BYTES_A_BYTE = 4
"""More than anything can be written again for each byte that is read."""
_WINDOW_BYTES = 4 << 20


def scanned_lines(block: Block, file: str, resources: Resources) -> Iterator[Found] | None:
    """What a block of lines holds; None where the exact reader must look at the whole of it."""
    data = np.frombuffer(block.data, np.uint8)
    lines = block.data.count(b"\n") + 1
    texts_bytes = _TEXT_BYTES_A_BYTE * len(data) + 16
    table = Table(len(data), texts_bytes=texts_bytes, more_records=lines)
    start = len(BOM) if block.offset == 0 and block.data.startswith(BOM) else 0
    scan.scan_lines(
        data, start, _is_utf8(block.data), block.first_line, lines, table.records, table.moments, table.doubles,
        table.resources, table.heap, table.used,
    )  # fmt: skip
    table.write_doubles(lambda start, stop: float(block.data[start:stop]))
    named = [
        resources.of(block.data[start:stop]) if stop else Resource()
        for start, stop in table.resources[: table.used[RESOURCES]].tolist()
    ] or [Resource()]
    # What is no good JSON may end elsewhere than its brackets say.
    if any(resource.problem is not None for resource in named):
        return None
    left: dict[int, list[Row]] = {}
    records = table.records[: table.used[RECORDS]]
    for number in np.flatnonzero(records[:, STATUS] == LEFT).tolist():
        signal, start, stop, place, resource = records[number, [SIGNAL, START, STOP, PLACE, RESOURCE]].tolist()
        raw = block.data[start:stop]
        try:
            fields = fields_of(raw)
        except BadRecord:
            _leave_line(records, place, block.data, start)
        else:
            left[start] = fields_rows(_SIGNALS[signal], fields, raw, named[resource], file, place)

    def rows_of(values: Sequence[int], resource: Resource) -> list[Row]:
        return left[values[START]]

    def found() -> Iterator[Found]:
        first = 0
        for number in [*np.flatnonzero(records[:, STATUS] == LEFT_LINE).tolist(), len(records)]:
            if number > first:
                yield from table.batches(first, number, named, file, rows_of)
            if number < len(records):
                start, stop, place = records[number, [START, STOP, PLACE]].tolist()
                yield from line_found(block.data[start:stop], place, file, resources)
            first = number + 1

    return found()


def _leave_line(records: Any, place: int, data: bytes, inside: int) -> None:
    """Leave the whole line to the exact reader that has this place and goes through this byte."""
    rows = np.flatnonzero(records[:, PLACE] == place)
    records[rows, STATUS] = 0
    end = data.find(b"\n", inside)
    records[rows[0], [STATUS, START, STOP]] = LEFT_LINE, data.rfind(b"\n", 0, inside) + 1, len(data) if end < 0 else end


def _is_utf8(data: bytes) -> bool:
    try:
        codecs.utf_8_decode(data, "strict", False)
    except UnicodeDecodeError:
        return False
    return True


def _nothing_left(values: Sequence[int], resource: Resource) -> list[Row]:
    raise AssertionError(f"a run has only records that were taken: {values}, {resource}")


class ScanningCursor(RequestCursor):
    """A cursor over documents that takes runs of records at once."""

    def __init__(self, piece: Piece, resources: Resources) -> None:
        self._table = Table(_WINDOW_BYTES, texts_bytes=_TEXT_BYTES_A_BYTE * _WINDOW_BYTES)
        self._named: list[Resource] = []
        self._seen = b""
        self._array = np.frombuffer(self._seen, np.uint8)
        self._utf8 = True
        super().__init__(piece, resources)

    def found(self) -> Iterator[Found]:
        for each in super().found():
            if isinstance(each, Row):
                yield from self._flushed()
            yield each
        yield from self._flushed()

    def _records(self, signal: str, resource: Resource) -> Iterator[Found]:
        if resource.problem is not None or self.peek() != b"[":
            yield from super()._records(signal, resource)
            return
        self._position += 1
        if self.peek() == b"]":
            self._position += 1
            return
        while True:
            how = self._take_run(SIGNAL_SPANS if signal == SPANS else SIGNAL_LOGS, resource)
            if self._table.is_half_full:
                yield from self._flushed()
            if how == scan.CLOSED:
                return
            if how == scan.BEFORE:
                taken = self.take()
                yield from json_rows(signal, taken.raw, resource, self._file, self._place(taken.offset))
            if self._is_closed_by(b"]"):
                return
            self.peek()

    def _take_run(self, signal: int, resource: Resource) -> int:
        if self._data is not self._seen:
            self._seen, self._array = self._data, np.frombuffer(self._data, np.uint8)
            self._utf8 = _is_utf8(self._data)
        if not self._named or self._named[-1] is not resource:
            self._named.append(resource)
        table = self._table
        end = min(len(self._data), self._position + (len(table.heap) - int(table.used[HEAP])) // _TEXT_BYTES_A_BYTE)
        at, how = scan.scan_run(
            self._array, self._position, end, self._utf8, signal, len(self._named) - 1, self._base, table.records,
            table.moments, table.doubles, table.resources, table.heap, table.used,
        )  # fmt: skip
        self._position = at
        table.write_doubles(lambda start, stop: float(self._data[start:stop]))
        return int(how)

    def _flushed(self) -> Iterator[Found]:
        """The records that were taken since the last time."""
        table = self._table
        if table.used[RECORDS]:
            yield from table.batches(0, int(table.used[RECORDS]), self._named, self._file, _nothing_left)
            table.clear()
            self._named = []
