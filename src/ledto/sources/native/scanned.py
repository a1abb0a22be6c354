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
from ledto.sources.lines import LINE_LIMIT_BYTES, LinesBlock
from ledto.sources.native.lines import BOM, Cells, line_row
from ledto.sources.rows import BATCH_ROWS, BadRecord, Rows
from ledto.sources.times import NANOSECONDS_IN

_Rows = np.ndarray[Any, np.dtype[np.int64]]


def scanned_batches(block: LinesBlock, file: str, unit: str, cells: Cells) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a block, the same as without the scanner."""
    scanned = _Scanned(block, unit)
    if not scanned.rows:
        return
    quick = np.flatnonzero(scanned.status == scan.TAKEN)
    slow = np.flatnonzero(scanned.status == scan.LEFT)
    batch = _read_exactly(scanned, slow, block, file, unit, cells) if len(slow) else None
    if batch is None:
        batch = scanned.batch(quick, file)
    elif len(quick):
        position = np.empty(scanned.rows, np.int64)
        position[quick] = np.arange(len(quick))
        position[slow] = len(quick) + np.arange(len(slow))
        both = pa.Table.from_batches([scanned.batch(quick, file), batch], schema=REPORTS)
        batch = both.take(pa.array(position)).combine_chunks().to_batches()[0]
    for start in range(0, scanned.rows, BATCH_ROWS):
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
        self._spans = np.empty((scan.SPANS, capacity, 3), np.int32)
        self._integers = np.empty((scan.INTEGERS, capacity), np.int64)
        self._integer_known = np.empty((scan.INTEGERS, capacity), np.uint8)
        self._kinds = np.empty(capacity, np.uint8)
        self._attribute_ends = np.empty(capacity, np.int64)
        self._attributes = np.empty(len(data), np.uint8)
        self.rows = scan.scan(
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
        self.lines = lines[: self.rows]
        self.status = status[: self.rows]
        self._leave_bad_stamps()

    def batch(self, taken: _Rows, file: str) -> pa.RecordBatch:
        """Make a batch of these rows, which the scanner took."""
        count = len(taken)
        place = self.lines[taken, 0] + self._block.first_line
        columns: dict[str, pa.Array] = {
            "computation": self._texts(scan.COMPUTATION, taken, missing_is_empty=True),
            "process": self._texts(scan.PROCESS, taken),
            "sends": self._texts(scan.SENDS, taken),
            "receives": self._texts(scan.RECEIVES, taken),
            "id": self._texts(scan.ID, taken),
            "name": self._texts(scan.NAME, taken),
            "stamp": self._texts(scan.STAMP, taken),
            "attributes": self._attribute_texts(taken),
            "line": self._lines(taken),
            "line_parent": self._texts(scan.LINE_PARENT, taken),
            "line_phase": self._texts(scan.LINE_PHASE, taken),
            "kind": pa.array(KINDS).take(pa.array(self._kinds[taken])),
            "file": pa.repeat(pa.scalar(file, pa.string()), count),
            "place": pa.array(place),
        }
        for name, row in (("seq", scan.SEQ), ("time", scan.TIME), ("arrival", scan.ARRIVAL)):
            columns[name] = pa.array(self._integers[row, taken], mask=self._integer_known[row, taken] == 0)
        arrays = [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in REPORTS]
        return with_errors(pa.RecordBatch.from_arrays(arrays, schema=REPORTS))

    def _texts(self, span: int, taken: _Rows, *, missing_is_empty: bool = False) -> pa.StringArray:
        if not missing_is_empty and not (self._spans[span, : self.rows, 1] >= 0).any():
            return pa.nulls(len(taken), pa.string())
        return _string_array(self._data, self._spans[span], taken, missing_is_empty=missing_is_empty)

    def _lines(self, taken: _Rows) -> pa.Array:
        """Return the lines of these rows; those that a trace and a span name are ``TRACE/SPAN``."""
        lines = self._texts(scan.LINE, taken)
        spans = self._texts(scan.LINE_SPAN, taken)
        if spans.null_count == len(spans):
            return lines
        return pc.coalesce(pc.binary_join_element_wise(lines, spans, "/"), lines)

    def _attribute_texts(self, taken: _Rows) -> pa.StringArray:
        ends = self._attribute_ends[: self.rows]
        spans = np.zeros((self.rows, 3), np.int32)
        spans[1:, 0] = ends[:-1]
        length = ends - spans[:, 0]
        spans[:, 1] = np.where(length, length, -1)
        return _string_array(self._attributes, spans, taken)

    def _leave_bad_stamps(self) -> None:
        """Leave rows to the exact reader if their stamp does not decode: the scanner does not look into stamps."""
        stamps = self._spans[scan.STAMP, : self.rows]
        for row in np.flatnonzero((self.status == scan.TAKEN) & (stamps[:, 1] >= 0)).tolist():
            start, length, _ = stamps[row].tolist()
            try:
                stamp_from_json(value_of(self._block.data[start : start + length].decode()))
            except (BadRecord, StampError):
                self.status[row] = scan.LEFT


def _string_array(
    data: np.ndarray[Any, np.dtype[np.uint8]],
    spans: np.ndarray[Any, np.dtype[np.int32]],
    taken: _Rows,
    *,
    missing_is_empty: bool = False,
) -> pa.StringArray:
    """Return the texts of these rows. A length of -1 gives null, or empty text with `missing_is_empty`."""
    length = spans[taken, 1]
    known = length >= 0
    rows = taken[known]
    out = np.empty(int(length[known].sum()), np.uint8)
    ends = np.empty(len(rows) + 1, np.int32)
    scan.copy_texts(data, spans, rows, ends, out)
    offsets = np.zeros(len(taken) + 1, np.int32)
    # A row without text takes no space: it ends where the text before it ends.
    offsets[1:] = ends[np.cumsum(known)]
    valid = None if missing_is_empty else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.StringArray.from_buffers(len(taken), pa.py_buffer(offsets), pa.py_buffer(out), valid)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
