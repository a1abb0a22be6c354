"""Reading bytes as a source would read a file, for the tests."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa

from ledto.events.schema import REPORTS
from ledto.sources import FileSlice, Source

SAMPLES = Path(__file__).with_name("samples")


def piece(data: bytes, *, start: int = 0, stop: int | None = None, file: str = "sample") -> FileSlice:
    def open_at(offset: int) -> io.BytesIO:
        stream = io.BytesIO(data)
        stream.seek(offset)
        return stream

    return FileSlice(file, open_at, start, stop, data.count(b"\n", 0, start))


def table(source: Source, data: bytes | str, **where: Any) -> pa.Table:
    raw = data.encode() if isinstance(data, str) else data
    return pa.Table.from_batches(source.read(piece(raw, **where)), schema=REPORTS)


def rows(source: Source, data: bytes | str, **where: Any) -> list[dict[str, Any]]:
    """The rows, without their columns that are null."""
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in table(source, data, **where).to_pylist()
    ]
