"""Rows of `REPORTS` while they are put together, one record at a time."""

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
"""Of attributes in a batch, about."""

MOST_CAUSES: Final = 65_536
"""A record that names more messages than this is set aside: it would cost more than it can tell."""


Values: TypeAlias = tuple[Any, ...]
"""One row as its values, in the order of `COLUMNS`."""

values_of: Final[Callable[[Row], Values]] = attrgetter(*COLUMNS)
"""The values of a row."""


class BadRecord(Exception):
    """A record that must be set aside; `code` is stable, `detail` is for the reader."""

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
        """Take these keys as what the event received. Raises `BadRecord` for too many."""
        if len(keys) > MOST_CAUSES:
            raise too_many_causes(len(keys))
        self.receives, self.receives_more = received(keys)


def received(keys: list[str]) -> tuple[str | None, list[str] | None]:
    """The columns ``receives`` and ``receives_more`` for these keys."""
    return keys[0] if keys else None, keys[1:] if len(keys) > 1 else None


def too_many_causes(count: int) -> BadRecord:
    """What to raise for a record with more than `MOST_CAUSES`."""
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
    """The row of a record that is set aside, with what is known of where it belongs."""
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
    r"""The beginning of a bad record; bytes that are not UTF-8 are shown as ``\xNN``."""
    if isinstance(text, bytes):
        text = text[: 4 * TEXT_LIMIT_CHARACTERS].decode("utf-8", errors="backslashreplace")
    return _encodable(text[:TEXT_LIMIT_CHARACTERS])[:TEXT_LIMIT_CHARACTERS]


def _encodable(text: str) -> str:
    return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


@dataclass(slots=True)
class Rows:
    """Rows that become a batch."""

    # One list of all values: with a tuple a row, a third of the time would go to the garbage collector.
    _values: list[Any] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._values) // len(COLUMNS)

    def add(self, row: Row) -> None:
        """Append one row."""
        self._values += values_of(row)

    def batch(self) -> pa.RecordBatch:
        """What was added, as a batch."""
        arrays = [_array(self._values[number :: len(COLUMNS)], kind.type) for number, kind in enumerate(REPORTS)]
        return with_errors(pa.RecordBatch.from_arrays(arrays, schema=REPORTS))


class RowColumns:
    """Rows of one file that become a batch, put together by columns, in any order; what is not given is null."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._values: dict[str, list[Any]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, columns: Mapping[str, Sequence[Any]], count: int) -> range:
        """Append rows, given as some of their columns; gives their numbers."""
        for name, values in columns.items():
            self._column(name).extend(values)
        self._count += count
        return range(self._count - count, self._count)

    def add_rows(self, rows: Sequence[Row]) -> range:
        """Append rows; gives their numbers."""
        given = zip(COLUMNS, zip(*map(values_of, rows), strict=True), strict=True) if rows else ()
        return self.add({name: values for name, values in given if values.count(None) < len(rows)}, len(rows))

    def batch(self, order: Sequence[int]) -> pa.RecordBatch:
        """The rows of these numbers, in this order."""
        arrays = []
        for each in REPORTS:
            if each.name == "file":
                arrays.append(pa.repeat(pa.scalar(self._file, each.type), self._count))
            elif each.name in self._values:
                arrays.append(pa.array(self._column(each.name), each.type))
            else:
                arrays.append(pa.nulls(self._count, each.type))
        whole = pa.RecordBatch.from_arrays(arrays, schema=REPORTS)
        is_in_order = len(order) == self._count and all(map(eq, order, range(self._count)))
        return with_errors(whole if is_in_order else whole.take(pa.array(order, pa.int32())))

    def _column(self, name: str) -> list[Any]:
        """The values of a column, of all rows so far."""
        column = self._values.setdefault(name, [])
        column.extend(repeat(None, self._count - len(column)))
        return column


class Batches:
    """Rows of one file, given as columns or one by one, that become batches; they keep the order in which they are added."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._columns, self._order = RowColumns(file), array("i")
        self._characters = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing was added."""
        return not self._order

    @property
    def is_full(self) -> bool:
        """Whether what was added should be taken."""
        return len(self._order) >= BATCH_ROWS or self._characters > BATCH_BYTES

    def add_rows(self, rows: Sequence[Row]) -> None:
        """Append these rows."""
        self._order.extend(self._columns.add_rows(rows))

    def add(self, columns: Mapping[str, Sequence[Any]], others: Mapping[int, Row]) -> None:
        """Append rows that are given as columns, and put others among them, each as what number of them all."""
        numbers: Sequence[int] = self._columns.add(columns, len(columns["computation"]))
        if others:
            instead = dict(zip(others, self._columns.add_rows(list(others.values())), strict=True))
            rest = iter(numbers)
            numbers = [instead[at] if at in instead else next(rest) for at in range(len(numbers) + len(others))]
        self._order.extend(numbers)
        self._characters += sum(map(len, filter(None, columns.get("attributes", ()))))

    def taken(self) -> pa.RecordBatch:
        """A batch of what was added, which is forgotten."""
        batch = self._columns.batch(self._order)
        self._columns, self._order, self._characters = RowColumns(self.file), array("i"), 0
        return batch


def _array(column: list[Any], kind: pa.DataType) -> pa.Array:
    # Most sources leave many columns empty, and looking at each value takes longer than counting them.
    return pa.nulls(len(column), kind) if column.count(None) == len(column) else pa.array(column, kind)


def batches(found: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """The rows in batches of at most `BATCH_ROWS` and about `BATCH_BYTES`."""
    rows, size_bytes = Rows(), 0
    for row in found:
        rows.add(row)
        size_bytes += len(row.attributes or "")
        if len(rows) == BATCH_ROWS or size_bytes > BATCH_BYTES:
            yield rows.batch()
            rows, size_bytes = Rows(), 0
    if len(rows):
        yield rows.batch()
