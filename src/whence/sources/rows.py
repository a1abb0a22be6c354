"""Rows of `REPORTS` while they are put together, one record at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa

from whence.events.schema import COLUMNS, LOCAL, REPORTS, TEXT_LIMIT_CHARACTERS

BATCH_ROWS: Final = 16_384
BATCH_BYTES: Final = 16 << 20
"""Of attributes in a batch, about."""

MOST_CAUSES: Final = 65_536
"""A record that names more messages than this is set aside: it would cost more than it can tell."""


_VALUES = attrgetter(*COLUMNS)


class BadRecord(Exception):
    """A record that must be set aside; `code` is stable, `detail` is for the reader."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


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
    clock_name: str | None = None
    instance_key: str | None = None
    instance_parent: str | None = None
    instance_phase: str | None = None
    channel_key: str | None = None
    channel_bytes: int | None = None
    file: str = ""
    place: int = 0
    reason: str | None = None
    text: str | None = None

    def receive(self, keys: list[str]) -> None:
        """Take these keys as what the event received."""
        if len(keys) > MOST_CAUSES:
            raise BadRecord("too-many-causes", f"{len(keys)} messages received at once; the limit is {MOST_CAUSES}")
        self.receives = keys[0] if keys else None
        self.receives_more = keys[1:] if len(keys) > 1 else None


def bad_row(
    file: str, place: int, reason: str, text: str | bytes, *, computation: str = "", process: str | None = None
) -> Row:
    """The row of a record that is set aside."""
    return Row(
        computation=computation,
        process=process,
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

    _rows: list[tuple[Any, ...]] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, row: Row) -> None:
        """Append one row."""
        self._rows.append(_VALUES(row))

    def batch(self) -> pa.RecordBatch:
        """What was added, as a batch."""
        columns = zip(*self._rows, strict=True) if self._rows else ((),) * len(REPORTS)
        arrays = [pa.array(column, kind.type) for column, kind in zip(columns, REPORTS, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=REPORTS)


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
