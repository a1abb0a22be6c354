"""Batches from what the compiled scanners of OTLP wrote down, and from the records that they left, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from whence.events.schema import KINDS, PHASES, REPORTS
from whence.sources.otlp import emit
from whence.sources.otlp.layout import (
    DOUBLE_COLUMNS,
    DOUBLES,
    HEAP,
    LEFT,
    MOMENT_COLUMNS,
    MOMENTS,
    RECORD_COLUMNS,
    RECORDS,
    RESOURCE,
    STATUS,
    USED,
)
from whence.sources.otlp.records import Resource
from whence.sources.otlp.values import object_text
from whence.sources.rows import BATCH_ROWS, Row, Rows

_BYTES_A_RECORD: Final = 64
"""A table has room for a record for so many bytes; files with smaller ones are read the slow way."""

Left = Callable[[Sequence[int], Resource], list[Row]]
"""The rows of a record that was left, from its row in the table."""


class Table:
    """Room for the records of `size_bytes` of input, and for `texts_bytes` of texts."""

    def __init__(self, size_bytes: int, *, texts_bytes: int, more_records: int = 0) -> None:
        room = size_bytes // _BYTES_A_RECORD + more_records + 16
        self.records = np.empty((room, RECORD_COLUMNS), np.int64)
        self.moments = np.empty((room, MOMENT_COLUMNS), np.int64)
        self.doubles = np.empty((room, DOUBLE_COLUMNS), np.int64)
        self.resources = np.empty((room, 2), np.int64)
        self.heap = np.empty(texts_bytes, np.uint8)
        self.used = np.zeros(USED, np.int64)

    @property
    def is_half_full(self) -> bool:
        """Whether it is time to make batches of what is there."""
        records, moments, heap = (int(self.used[part]) for part in (RECORDS, MOMENTS, HEAP))
        return 2 * max(records, moments) > len(self.records) or 2 * heap > len(self.heap)

    def clear(self) -> None:
        """Forget all that was written."""
        self.used[:] = 0

    def write_doubles(self, value_of: Callable[[int, int], float]) -> None:
        """Write the numbers whose text is the business of Python; `value_of` gives one by where it was read."""
        for at, start, stop in self.doubles[: self.used[DOUBLES]].tolist():
            text = repr(value_of(start, stop)).encode()
            self.heap[at : at + len(text)] = np.frombuffer(text, np.uint8)
        self.used[DOUBLES] = 0

    def batches(
        self, first: int, stop: int, resources: Sequence[Resource], file: str, left: Left
    ) -> Iterator[pa.RecordBatch]:
        """The rows of these records."""
        records = self.records[first:stop]
        bad = [number for number, resource in enumerate(resources) if resource.problem is not None]
        if bad:
            records[np.isin(records[:, RESOURCE], bad), STATUS] = LEFT
        rows_of = np.empty(len(records), np.int64)
        whole = self._taken(records, resources, rows_of, file)
        left_at = np.flatnonzero(records[:, STATUS] == LEFT)
        if len(left_at):
            whole = _merged(whole, records, rows_of, left_at, resources, left)
        for start in range(0, whole.num_rows, BATCH_ROWS):
            yield whole.slice(start, BATCH_ROWS)

    def _taken(
        self, records: np.ndarray[Any, Any], resources: Sequence[Resource], rows_of: np.ndarray[Any, Any], file: str
    ) -> pa.RecordBatch:
        kept_texts = [(object_text(resource.kept) or "{}")[1:-1].encode() for resource in resources]
        kept_at = np.cumsum([0, *map(len, kept_texts)]).astype(np.int64)
        kept = np.frombuffer(bytearray(b"".join(kept_texts)), np.uint8)
        totals = np.empty(3, np.int64)
        emit.measure(records, self.moments, len(records), kept_at, rows_of, totals)
        rows, name_bytes, attribute_bytes = totals.tolist()
        numbers = np.empty((emit.NUMBERS, rows), np.int64)
        ends = np.empty((emit.TEXTS, rows + 1), np.int32)
        ends[:, 0] = 0
        sizes = [rows * emit.FIXED_BYTES] * (emit.TEXTS - 2) + [name_bytes, attribute_bytes]
        texts = [np.empty(size, np.uint8) for size in sizes]
        emit.put_rows(records, self.moments, len(records), self.heap, kept, kept_at, numbers, ends, *texts)

        def column(number: int, *, known: np.ndarray[Any, Any] | None = None) -> pa.Array:
            return _strings(texts[number], ends[number], known)

        def told(number: int) -> pa.Array:
            return _strings(texts[number], ends[number], ends[number, 1:] > ends[number, :-1])

        processes = pa.array([resource.process for resource in resources], pa.string())
        phases = numbers[emit.ROW_PHASE]
        columns = {
            "computation": column(emit.COMPUTATION),
            "process": processes.take(pa.array(numbers[emit.ROW_RESOURCE])),
            "time": pa.array(numbers[emit.ROW_TIME]),
            "kind": pa.array(KINDS).take(pa.array(numbers[emit.ROW_KIND])),
            "sends": told(emit.SENDS),
            "receives": told(emit.RECEIVES),
            "id": told(emit.ID),
            "name": column(emit.ROW_NAME, known=numbers[emit.ROW_NAMED] != 0),
            "attributes": told(emit.ROW_ATTRIBUTES),
            "instance_key": told(emit.KEY),
            "instance_parent": told(emit.PARENT_KEY),
            "instance_phase": pa.array(PHASES).take(pa.array(phases, mask=phases >= len(PHASES))),
            "file": pa.repeat(pa.scalar(file, pa.string()), rows),
            "place": pa.array(numbers[emit.ROW_PLACE]),
        }
        arrays = [columns[each.name] if each.name in columns else pa.nulls(rows, each.type) for each in REPORTS]
        return pa.RecordBatch.from_arrays(arrays, schema=REPORTS)


def _merged(
    taken: pa.RecordBatch,
    records: np.ndarray[Any, Any],
    rows_of: np.ndarray[Any, Any],
    left_at: np.ndarray[Any, Any],
    resources: Sequence[Resource],
    left: Left,
) -> pa.RecordBatch:
    """The rows that were taken and those of records that were left, in the order of the records."""
    rows = Rows()
    left_rows = np.zeros(len(records), np.int64)
    for record in left_at.tolist():
        values = records[record].tolist()
        made = left(values, resources[values[RESOURCE]])
        left_rows[record] = len(made)
        for row in made:
            rows.add(row)
    order = np.argsort(
        np.concatenate([np.repeat(np.arange(len(records)), rows_of), np.repeat(np.arange(len(records)), left_rows)]),
        kind="stable",
    )
    both = pa.Table.from_batches([taken, rows.batch()], schema=REPORTS)
    return both.take(pa.array(order)).combine_chunks().to_batches()[0]


def _strings(
    text: np.ndarray[Any, Any], ends: np.ndarray[Any, Any], known: np.ndarray[Any, Any] | None
) -> pa.StringArray:
    rows = len(ends) - 1
    valid = None if known is None else pa.py_buffer(np.packbits(known, bitorder="little"))
    return pa.StringArray.from_buffers(rows, pa.py_buffer(ends), pa.py_buffer(text[: ends[-1]]), valid)
