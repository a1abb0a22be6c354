"""Frames of a source become rows of reports, where Spark puts the task; what cannot be read is a row that says why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledto.events.payload import BadPayload, check_reports, read_reports
from ledto.events.schema import REPORTS, TEXT_LIMIT_CHARACTERS
from ledto.events.sizes import without_large
from ledto.sources.contract import FileSlice, Source, SourceError
from ledto.sources.inputs import PARQUET
from ledto.sources.parquet import as_attributes, read_piece
from ledto.sources.registry import format_options, source
from ledto.spark.stream import ROWS, opened_piece

TAKEN = "partition string, first long, last long, now long, rows long, payload binary, left boolean"
"""What a task gives: the frames of a partition it has read, the last arrival among them, and their reports. Or, where `left`
says so, the first frame of a partition that it has not read, because there was too much."""
_TAKEN = pa.schema(
    [
        ("partition", pa.string()),
        *((name, pa.int64()) for name in ("first", "last", "now", "rows")),
        ("payload", pa.binary()),
        ("left", pa.bool_()),
    ]
)
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
BATCH_BYTES = 256 << 20
"""Most bytes that the tasks of a micro-batch decode together before the writer takes them: one message a task at least."""
PIECE_BYTES = 1 << 30
"""Most bytes that one message, file or piece of a file decodes to; the rest of a larger one is set aside unread."""
FLUSH_ROWS = 250_000
"""Reports after which a task gives what it has."""


@dataclass(slots=True)
class _Gathered:
    """What a task has of one partition."""

    first: int = -1
    last: int = -1
    now: int = 0
    rows: int = 0
    bytes: int = 0
    """Of all the reports, in memory."""
    tables: list[pa.Table] = field(default_factory=list)
    messages: list[tuple[pa.Table, int, str]] = field(default_factory=list)
    """Rows of messages that are still to be checked, with arrival and origin: together that costs a tenth."""

    def checked(self) -> None:
        """Check the messages, and keep their rows in order."""
        if not self.messages:
            return
        tables, arrivals, _ = zip(*self.messages, strict=True)
        try:
            rows = pa.concat_tables(tables, promote_options="default")
            rows = check_reports(rows)
        except (pa.ArrowException, BadPayload):
            for table, arrival, origin in self.messages:
                self.tables.append(_arrived(_checked(table, origin), arrival))
        else:
            self.tables.append(_arrived(rows, np.repeat(arrivals, [len(table) for table in tables])))
        self.messages = []

    def flushed(self, partition: str) -> pa.RecordBatch:
        self.checked()
        payload = None
        if self.tables:
            sink = pa.BufferOutputStream()
            whole = pa.concat_tables(self.tables, promote_options="default").combine_chunks()
            with pa.ipc.new_stream(sink, whole.schema, options=_COMPRESSED) as writer:
                writer.write_table(whole)
            payload = sink.getvalue().to_pybytes()
        return pa.record_batch(
            {
                "partition": pa.array([partition]),
                "first": pa.array([self.first], pa.int64()),
                "last": pa.array([self.last], pa.int64()),
                "now": pa.array([self.now], pa.int64()),
                "rows": pa.array([self.rows], pa.int64()),
                "payload": pa.array([payload], pa.binary()),
                "left": pa.array([False]),
            }
        )


class Decoder:
    """Decodes the frames after the positions that are committed. Pickles; `options` are those of formats.

    With `names_files`, payloads name pieces of files. HAZARD: that is for sources whose payloads are our own. A message
    that could name a file would have the stream read whatever its sender likes.
    """

    def __init__(
        self,
        positions: Mapping[str, int],
        options: Mapping[str, Any],
        *,
        names_files: bool,
        most_bytes: int = BATCH_BYTES,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        self._positions, self._options, self._names_files = dict(positions), dict(options), names_files
        self._most_bytes, self._piece_bytes = most_bytes, piece_bytes

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode frames until their reports have `most_bytes`; what is left after that is told, and read the next time."""
        gathered: dict[str, _Gathered] = {}
        left: dict[str, int] = {}
        taken = 0
        for batch in batches:
            columns = [
                batch.column(name) for name in ("partition", "sequence", "arrival", "format", "origin", "payload")
            ]
            for partition, sequence, arrival, form, origin, payload in zip(*columns, strict=True):
                name, number = partition.as_py(), sequence.as_py()
                if number <= self._positions.get(name, -1):
                    continue
                if taken >= self._most_bytes:
                    left.setdefault(name, number)
                    continue
                mine = gathered.setdefault(name, _Gathered())
                before = mine.bytes
                mine.first = number if mine.first < 0 else mine.first
                mine.last, mine.now = number, max(mine.now, arrival.as_py())
                self._take(mine, form.as_py(), origin.as_py(), payload.as_buffer(), arrival.as_py())
                taken += mine.bytes - before
                if mine.rows >= FLUSH_ROWS:
                    yield gathered.pop(name).flushed(name)
        for name, mine in gathered.items():
            yield mine.flushed(name)
        for name, number in left.items():
            yield _left(name, number)

    def _take(self, mine: _Gathered, form: str | None, origin: str, payload: pa.Buffer | None, arrival: int) -> None:
        if payload is None or not payload.size:
            return
        if form == ROWS:
            try:
                rows = read_reports(payload)
            except BadPayload as fault:
                rows = _bad(origin, f"bad-payload: {fault}")
            mine.messages.append((rows, arrival, origin))
            mine.rows += len(rows)
            mine.bytes += rows.nbytes
            return
        mine.checked()
        for rows in self._other(form, origin, payload, arrival):
            mine.tables.append(rows)
            mine.rows += len(rows)
            mine.bytes += rows.nbytes

    def _other(self, form: str | None, origin: str, payload: pa.Buffer, arrival: int) -> Iterator[pa.Table]:
        if not self._names_files:
            for rows in self._read(form, _held(origin, bytes(payload))):
                yield _arrived(rows, arrival)
            return
        for rows in self._read(form, opened_piece(bytes(payload))):
            given = pc.fill_null(rows["arrival"], arrival).to_numpy()
            order = np.argsort(given, kind="stable")
            yield _arrived(rows.take(pa.array(order)), given[order])

    def _read(self, form: str | None, piece: FileSlice) -> Iterator[pa.Table]:
        if form is None:
            yield _bad(piece.file, "unknown-format: it begins like none of the formats there are")
            return
        if form == PARQUET:
            yield from self._parquet(piece)
            return
        batches = self._source(form).read(piece)
        tables = list(self._bounded((pa.Table.from_batches([batch]) for batch in batches), piece.file))
        if tables:
            yield pa.concat_tables(tables, promote_options="default")

    def _bounded(self, tables: Iterable[pa.Table], origin: str) -> Iterator[pa.Table]:
        """Pass on what fits in `piece_bytes`; where there is more, a row says that it was not read."""
        taken = 0
        for table in tables:
            taken += table.nbytes
            if taken > self._piece_bytes:
                limit = f"{self._piece_bytes >> 20:,} MiB of reports"
                yield _bad(
                    origin, f"too-large: it has more than {limit}; from here on it was not read. Cut it in parts"
                )
                return
            yield table

    def _parquet(self, piece: FileSlice) -> Iterator[pa.Table]:
        """The rows of a file, with further columns as attributes; what cannot be read on is a row that says why."""
        try:
            parts = read_piece(piece, self._options.get("unit") or "ns")
            yield from self._bounded((as_attributes(rows, mapping) for rows, mapping in parts), piece.file)
        except SourceError as fault:
            yield _bad(piece.file, f"not-parquet: {fault}")

    def _source(self, form: str) -> Source:
        known = format_options(form)
        return source(form, {name: value for name, value in self._options.items() if name in known})


def rows_of(payloads: Iterable[bytes]) -> pa.Table:
    """The reports that tasks gave, with all columns of `REPORTS`."""
    tables = [pa.ipc.open_stream(each).read_all() for each in payloads]
    if not tables:
        return REPORTS.empty_table()
    rows = pa.concat_tables(tables, promote_options="default")
    columns = {
        each.name: rows[each.name] if each.name in rows.column_names else pa.nulls(len(rows), each.type)
        for each in REPORTS
    }
    return pa.table(columns, REPORTS)


def _arrived(rows: pa.Table, arrival: Any) -> pa.Table:
    """The columns that have values, and these arrivals; columns without are most of what a task would have to send."""
    rows = without_large(rows)
    kept = [each.name for each in REPORTS if each.name in rows.column_names and each.name != "arrival"]
    schema = pa.schema([REPORTS.field(name).with_nullable(True) for name in kept if rows[name].null_count < len(rows)])
    if "computation" not in schema.names:
        rows = rows.append_column("computation", pa.repeat("", len(rows)))
        schema = schema.insert(0, pa.field("computation", pa.string()))
    arrivals = np.full(len(rows), arrival) if isinstance(arrival, int) else arrival
    return rows.select(schema.names).cast(schema).append_column("arrival", pa.array(arrivals, pa.int64()))


def _left(partition: str, first: int) -> pa.RecordBatch:
    """Tells that the frames of a partition from this one on are not decoded."""
    told = {"partition": partition, "first": first, "last": -1, "now": 0, "rows": 0, "payload": None, "left": True}
    return pa.RecordBatch.from_pylist([told], _TAKEN)


def _checked(rows: pa.Table, origin: str) -> pa.Table:
    try:
        return check_reports(rows)
    except BadPayload as fault:
        return _bad(origin, f"bad-payload: {fault}")


def _bad(origin: str, reason: str) -> pa.Table:
    return pa.Table.from_pylist(
        [{"computation": "", "file": origin, "place": 0, "reason": reason[:TEXT_LIMIT_CHARACTERS], "text": ""}], REPORTS
    )


def _held(file: str, content: bytes) -> FileSlice:
    """Bytes in memory as a piece of a file."""

    def opened(offset: int) -> BytesIO:
        found = BytesIO(content)
        found.seek(offset)
        return found

    return FileSlice(file, opened)
