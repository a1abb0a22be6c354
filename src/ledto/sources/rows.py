"""Put rows of `REPORTS` together, one record or many columns at a time, and make batches of them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from operator import attrgetter, eq
from typing import Any, Final, TypeAlias

import pyarrow as pa

from ledto.events.schema import COLUMNS, LOCAL, REPORTS, TEXT_LIMIT_CHARACTERS
from ledto.sources.error_column import with_errors

BATCH_ROWS: Final = 16_384
BATCH_BYTES: Final = 16 << 20
"""The size of a batch's attributes, about, at which it ends."""

MOST_CAUSES: Final = 65_536
"""Messages that a record may receive. One with more is quarantined, because it would cost too much memory."""


Values: TypeAlias = tuple[Any, ...]
"""One row as its values, in the order of `COLUMNS`."""

values_of: Final[Callable[[Row], Values]] = attrgetter(*COLUMNS)
"""Return the values of a row."""


class BadRecord(Exception):
    """A record that must be quarantined. `code` is stable; `detail` tells the reader what is wrong."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class NeedsExactReader(ValueError):
    """A quick reader leaves this record to the exact reader of its format. The record may be good or bad."""


@dataclass(slots=True)
class Row:
    """One row of `REPORTS`; the fields are its columns."""

    computation: str = ""
    process: str | None = None
    seq: int | None = None
    time: int | None = None
    arrival: int | None = None
    kind: str | None = LOCAL
    sends: str | None = None
    receives: str | None = None
    receives_more: list[str] | None = None
    id: str | None = None
    name: str | None = None
    stamp: str | None = None
    attributes: str | None = None
    error: bool | None = None
    clock_name: str | None = None
    line: str | None = None
    line_parent: str | None = None
    line_phase: str | None = None
    line_joins: list[str] | None = None
    line_since: int | None = None
    channel_key: str | None = None
    channel_bytes: int | None = None
    file: str = ""
    place: int = 0
    reason: str | None = None
    text: str | None = None

    def receive(self, keys: list[str]) -> None:
        """Set the columns of what the event received. Raises `BadRecord` for too many keys."""
        if len(keys) > MOST_CAUSES:
            raise too_many_causes(len(keys))
        self.receives, self.receives_more = received(keys)


def received(keys: list[str]) -> tuple[str | None, list[str] | None]:
    """Return the columns ``receives`` and ``receives_more`` for these keys."""
    return keys[0] if keys else None, keys[1:] if len(keys) > 1 else None


def too_many_causes(count: int) -> BadRecord:
    """Make the error for a record with more than `MOST_CAUSES`."""
    return BadRecord("too-many-causes", f"{count} messages received at once; the limit is {MOST_CAUSES}")


def bad_row(
    file: str,
    place: int,
    reason: str,
    text: str | bytes,
    *,
    computation: str = "",
    process: str | None = None,
    seq: int | None = None,
    time: int | None = None,
) -> Row:
    """Make the row of a quarantined record, with what is known of its place in its process."""
    return Row(
        computation=computation,
        process=process,
        seq=seq,
        time=time,
        kind=None,
        file=file,
        place=place,
        reason=_encodable(reason),
        text=excerpt(text),
    )


def excerpt(text: str | bytes) -> str:
    r"""Return the beginning of a bad record. Bytes that are not UTF-8 become ``\xNN``."""
    if isinstance(text, bytes):
        text = text[: 4 * TEXT_LIMIT_CHARACTERS].decode("utf-8", errors="backslashreplace")
    return _encodable(text[:TEXT_LIMIT_CHARACTERS])[:TEXT_LIMIT_CHARACTERS]


def _encodable(text: str) -> str:
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


@dataclass(slots=True)
class Rows:
    """Rows that become a batch."""

    # One list of all values. With a tuple for each row, a third of the time would go to the garbage collector.
    _values: list[Any] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._values) // len(COLUMNS)

    def add(self, row: Row) -> None:
        """Append one row."""
        self._values += values_of(row)

    def batch(self) -> pa.RecordBatch:
        """Make a batch of all rows."""
        arrays = [_array(self._values[number :: len(COLUMNS)], column.type) for number, column in enumerate(REPORTS)]
        return with_errors(pa.RecordBatch.from_arrays(arrays, schema=REPORTS))


class RowColumns:
    """Rows of one file that become a batch, put together by columns, in any order. Columns that are not given are null."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._values: dict[str, list[Any]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, columns: Mapping[str, Sequence[Any]], count: int) -> range:
        """Append rows, given as some of their columns; return their numbers."""
        for name, values in columns.items():
            self._column(name).extend(values)
        self._count += count
        return range(self._count - count, self._count)

    def add_rows(self, rows: Sequence[Row]) -> range:
        """Append rows; return their numbers."""
        columns = zip(COLUMNS, zip(*map(values_of, rows), strict=True), strict=True) if rows else ()
        return self.add({name: values for name, values in columns if values.count(None) < len(rows)}, len(rows))

    def batch(self, order: Sequence[int]) -> pa.RecordBatch:
        """Make a batch of the rows with these numbers, in this order."""
        arrays = []
        for column in REPORTS:
            if column.name == "file":
                arrays.append(pa.repeat(pa.scalar(self._file, column.type), self._count))
            elif column.name in self._values:
                arrays.append(pa.array(self._column(column.name), column.type))
            else:
                arrays.append(pa.nulls(self._count, column.type))
        whole = pa.RecordBatch.from_arrays(arrays, schema=REPORTS)
        is_in_order = len(order) == self._count and all(map(eq, order, range(self._count)))
        return with_errors(whole if is_in_order else whole.take(pa.array(order, pa.int32())))

    def _column(self, name: str) -> list[Any]:
        """Return the values of a column, filled up with None for all rows so far."""
        column = self._values.setdefault(name, [])
        column.extend(repeat(None, self._count - len(column)))
        return column


class Batches:
    """Rows of one file, given as columns or one by one, that become batches. They keep the order in which they are added."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._columns, self._order = RowColumns(file), array("i")
        self._characters = 0

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was added since the last batch."""
        return not self._order

    @property
    def is_full(self) -> bool:
        """Return whether there are enough rows for a batch."""
        return len(self._order) >= BATCH_ROWS or self._characters > BATCH_BYTES

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Append these rows."""
        self._order.extend(self._columns.add_rows(rows))

    def add(self, columns: Mapping[str, Sequence[Any]], others: Mapping[int, Row]) -> None:
        """Append rows that are given as columns, and `others` among them. A key of `others` is a position in the result."""
        numbers: Sequence[int] = self._columns.add(columns, len(columns["computation"]))
        if others:
            number_at = dict(zip(others, self._columns.add_rows(list(others.values())), strict=True))
            rest = iter(numbers)
            numbers = [number_at[at] if at in number_at else next(rest) for at in range(len(numbers) + len(others))]
        self._order.extend(numbers)
        self._characters += sum(map(len, filter(None, columns.get("attributes", ()))))

    def take_batch(self) -> pa.RecordBatch:
        """Make a batch of what was added, and begin anew."""
        batch = self._columns.batch(self._order)
        self._columns, self._order, self._characters = RowColumns(self.file), array("i"), 0
        return batch


def _array(column: list[Any], kind: pa.DataType) -> pa.Array:
    # Most sources leave many columns empty. To count the nulls is quicker than to convert each value.
    return pa.nulls(len(column), kind) if column.count(None) == len(column) else pa.array(column, kind)


def batches(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of at most `BATCH_ROWS` and about `BATCH_BYTES`."""
    pending, size_bytes = Rows(), 0
    for row in rows:
        pending.add(row)
        size_bytes += len(row.attributes or "")
        if len(pending) == BATCH_ROWS or size_bytes > BATCH_BYTES:
            yield pending.batch()
            pending, size_bytes = Rows(), 0
    if len(pending):
        yield pending.batch()
