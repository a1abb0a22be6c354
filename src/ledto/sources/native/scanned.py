"""Make batches of the lines that the compiled scanner takes and of those that it leaves to the exact reader, in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledto.clocks.any_stamp import stamp_from_json
from ledto.errors import StampError
from ledto.events.schema import KINDS, REPORTS
from ledto.sources.error_column import with_errors
from ledto.sources.json import scanner as scan
from ledto.sources.json.strict import value_of
from ledto.sources.lines import BOM, LINE_LIMIT_BYTES, LinesBlock
from ledto.sources.native.lines import Cells, line_row
from ledto.sources.rows import BATCH_ROWS, BadRecord, Rows
from ledto.sources.times import NANOSECONDS_IN

_Rows = np.ndarray[Any, np.dtype[np.int64]]


def scanned_batches(block: LinesBlock, file: str, unit: str, cells: Cells) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a block, the same as without the scanner."""
    scanned = _Scanned(block, unit)
    if not scanned.row_count:
        return
    quick = np.flatnonzero(scanned.status == scan.TAKEN)
    slow = np.flatnonzero(scanned.status == scan.LEFT)
    batch = _read_exactly(scanned, slow, block, file, unit, cells) if len(slow) else None
    if batch is None:
        batch = scanned.batch(quick, file)
    elif len(quick):
        position = np.empty(scanned.row_count, np.int64)
        position[quick] = np.arange(len(quick))
        position[slow] = len(quick) + np.arange(len(slow))
        both = pa.Table.from_batches([scanned.batch(quick, file), batch], schema=REPORTS)
        batch = both.take(pa.array(position)).combine_chunks().to_batches()[0]
    for start in range(0, scanned.row_count, BATCH_ROWS):
        yield batch.slice(start, BATCH_ROWS)


def _read_exactly(
    scanned: _Scanned, slow: _Rows, block: LinesBlock, file: str, unit: str, cells: Cells
) -> pa.RecordBatch:
    """Read the rows that the scanner left, by the exact reader."""
    rows = Rows()
    for row in slow.tolist():
        number, start, stop = scanned.lines[row].tolist()
        line = block.data[start:stop]
        rows.add(line_row(line, block.offset + start, block.first_line + number, file, unit, cells))
    return rows.batch()


class _Scanned:
    """A block, and the tables that the scanner filled for it (see `ledto.sources.json.scanner.scan`)."""

    def __init__(self, block: LinesBlock, unit: str) -> None:
        self._block = block
        data = np.frombuffer(block.data, np.uint8)
        start = len(BOM) if block.offset == 0 and block.data.startswith(BOM) else 0
        capacity = block.data.count(b"\n") + 1
        lines = np.empty((capacity, 3), np.int64)
        status = np.empty(capacity, np.uint8)
        self._spans = np.empty((len(scan.TEXT_COLUMNS), capacity, 3), np.int32)
        self._integers = np.empty((len(scan.INTEGER_COLUMNS), capacity), np.int64)
        self._integer_known = np.empty((len(scan.INTEGER_COLUMNS), capacity), np.uint8)
        self._kinds = np.empty(capacity, np.uint8)
        self._attribute_ends = np.empty(capacity, np.int64)
        self._attributes = np.empty(len(data), np.uint8)
        self.row_count = scan.scan(
            data,
            start,
            len(data),
            NANOSECONDS_IN.get(unit, 0),
            _is_utf8(block.data),
            LINE_LIMIT_BYTES,
            lines,
            status,
            self._spans,
            self._integers,
            self._integer_known,
            self._kinds,
            self._attribute_ends,
            self._attributes,
        )
        self._data = data
        self.lines = lines[: self.row_count]
        self.status = status[: self.row_count]
        self._leave_bad_stamps()

    def batch(self, rows: _Rows, file: str) -> pa.RecordBatch:
        """Make a batch of these rows, which the scanner took."""
        count = len(rows)
        place = self.lines[rows, 0] + self._block.first_line
        columns: dict[str, pa.Array] = {
            name: self._texts(number, rows, missing_is_empty=name == "computation")
            for number, name in enumerate(scan.TEXT_COLUMNS)
        }
        for number, name in enumerate(scan.INTEGER_COLUMNS):
            columns[name] = pa.array(self._integers[number, rows], mask=self._integer_known[number, rows] == 0)
        columns |= {
            "line": _join_span(columns["line"], columns["line_span"]),
            "attributes": self._attribute_texts(rows),
            "kind": pa.array(KINDS).take(pa.array(self._kinds[rows])),
            "file": pa.repeat(pa.scalar(file, pa.string()), count),
            "place": pa.array(place),
        }
        arrays = [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in REPORTS]
        return with_errors(pa.RecordBatch.from_arrays(arrays, schema=REPORTS))

    def _texts(self, span: int, rows: _Rows, *, missing_is_empty: bool = False) -> pa.StringArray:
        if not missing_is_empty and not (self._spans[span, : self.row_count, 1] >= 0).any():
            return pa.nulls(len(rows), pa.string())
        return _string_array(self._data, self._spans[span], rows, missing_is_empty=missing_is_empty)

    def _attribute_texts(self, rows: _Rows) -> pa.StringArray:
        ends = self._attribute_ends[: self.row_count]
        spans = np.zeros((self.row_count, 3), np.int32)
        spans[1:, 0] = ends[:-1]
        length = ends - spans[:, 0]
        spans[:, 1] = np.where(length, length, -1)
        return _string_array(self._attributes, spans, rows)

    def _leave_bad_stamps(self) -> None:
        """Leave rows to the exact reader if their stamp does not decode: the scanner does not look into stamps."""
        stamps = self._spans[scan.STAMP, : self.row_count]
        for row in np.flatnonzero((self.status == scan.TAKEN) & (stamps[:, 1] >= 0)).tolist():
            start, length, _ = stamps[row].tolist()
            try:
                stamp_from_json(value_of(self._block.data[start : start + length].decode()))
            except (BadRecord, StampError):
                self.status[row] = scan.LEFT


def _join_span(lines: pa.Array, spans: pa.Array) -> pa.Array:
    """Join traces and spans to lines ``TRACE/SPAN``; a line without a span stays as it is."""
    if spans.null_count == len(spans):
        return lines
    return pc.coalesce(pc.binary_join_element_wise(lines, spans, "/"), lines)


def _string_array(
    data: np.ndarray[Any, np.dtype[np.uint8]],
    spans: np.ndarray[Any, np.dtype[np.int32]],
    rows: _Rows,
    *,
    missing_is_empty: bool = False,
) -> pa.StringArray:
    """Return the texts of these rows. A length of -1 gives null, or empty text with `missing_is_empty`."""
    length = spans[rows, 1]
    known = length >= 0
    with_text = rows[known]
    out = np.empty(int(length[known].sum()), np.uint8)
    ends = np.empty(len(with_text) + 1, np.int32)
    scan.copy_texts(data, spans, with_text, ends, out)
    offsets = np.zeros(len(rows) + 1, np.int32)
    # A row without text takes no space: it ends where the text before it ends.
    offsets[1:] = ends[np.cumsum(known)]
    valid = None if missing_is_empty else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.StringArray.from_buffers(len(rows), pa.py_buffer(offsets), pa.py_buffer(out), valid)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
