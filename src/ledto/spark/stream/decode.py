"""Decode frames of a source into rows of reports, in Spark's tasks. What cannot be read becomes a row that says why."""

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
from ledto.events.sizes import quarantine_large
from ledto.sources.contract import FileSlice, Source, SourceError
from ledto.sources.inputs import PARQUET
from ledto.sources.parquet import as_attributes, read_piece
from ledto.sources.registry import format_options, source
from ledto.spark.stream import ROWS, open_piece

DECODED_DDL = "partition string, first long, last long, now long, rows long, payload binary, unread boolean"
"""What a task gives: the first and last frame of a partition that it read, the latest arrival among them, and their
reports. If `unread` is true, `first` is the first frame of a partition that it did not read because there was too
much."""
_DECODED = pa.schema(
    [
        ("partition", pa.string()),
        *((name, pa.int64()) for name in ("first", "last", "now", "rows")),
        ("payload", pa.binary()),
        ("unread", pa.bool_()),
    ]
)
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="lz4")
BATCH_BYTES = 256 << 20
"""Most bytes that the tasks of a micro-batch decode together before the writer takes them; at least one message in each
task."""
PIECE_BYTES = 1 << 30
"""Most bytes that one message, file or piece of a file decodes to; the rest of a larger one is quarantined unread."""
FLUSH_ROWS = 250_000
"""A task yields what it has once it has this many reports."""


@dataclass(slots=True)
class _Gathered:
    """What a task has decoded of one partition."""

    first: int = -1
    last: int = -1
    now: int = 0
    rows: int = 0
    bytes: int = 0
    """The size of all its reports in memory."""
    tables: list[pa.Table] = field(default_factory=list)
    messages: list[tuple[pa.Table, int, str]] = field(default_factory=list)
    """Rows of messages that are not checked yet, with arrival and origin. Checking them together costs a tenth."""

    def check_messages(self) -> None:
        """Check the messages, and keep their rows in order."""
        if not self.messages:
            return
        tables, arrivals, _ = zip(*self.messages, strict=True)
        try:
            rows = pa.concat_tables(tables, promote_options="default")
            rows = check_reports(rows)
        except (pa.ArrowException, BadPayload):
            for table, arrival, origin in self.messages:
                self.tables.append(_with_arrivals(_check_or_quarantine(table, origin), arrival))
        else:
            self.tables.append(_with_arrivals(rows, np.repeat(arrivals, [len(table) for table in tables])))
        self.messages = []

    def as_row(self, partition: str) -> pa.RecordBatch:
        """Make a row of `DECODED_DDL`."""
        self.check_messages()
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
                "unread": pa.array([False]),
            }
        )


class Decoder:
    """Decodes the frames after the committed positions. Pickles; `options` are those of formats.

    With `names_files`, payloads name pieces of files. HAZARD: only for sources whose payloads are our own. If a message
    could name a file, its sender could make the stream read any file.
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
        """Decode frames until their reports have `most_bytes`.

        The first frame left is reported as unread, and read the next time.
        """
        gathered: dict[str, _Gathered] = {}
        first_unread: dict[str, int] = {}
        decoded_bytes = 0
        for batch in batches:
            columns = [
                batch.column(name) for name in ("partition", "sequence", "arrival", "format", "origin", "payload")
            ]
            for partition, sequence, arrival, form, origin, payload in zip(*columns, strict=True):
                name, number = partition.as_py(), sequence.as_py()
                if number <= self._positions.get(name, -1):
                    continue
                if decoded_bytes >= self._most_bytes:
                    first_unread.setdefault(name, number)
                    continue
                part = gathered.setdefault(name, _Gathered())
                before = part.bytes
                part.first = number if part.first < 0 else part.first
                part.last, part.now = number, max(part.now, arrival.as_py())
                self._decode(part, form.as_py(), origin.as_py(), payload.as_buffer(), arrival.as_py())
                decoded_bytes += part.bytes - before
                if part.rows >= FLUSH_ROWS:
                    yield gathered.pop(name).as_row(name)
        for name, part in gathered.items():
            yield part.as_row(name)
        for name, number in first_unread.items():
            yield _unread_row(name, number)

    def _decode(self, part: _Gathered, form: str | None, origin: str, payload: pa.Buffer | None, arrival: int) -> None:
        """Decode one frame and add its reports to the partition's; a payload that is empty has none."""
        if payload is None or not payload.size:
            return
        if form == ROWS:
            try:
                rows = read_reports(payload)
            except BadPayload as fault:
                rows = _bad_row(origin, f"bad-payload: {fault}")
            part.messages.append((rows, arrival, origin))
            part.rows += len(rows)
            part.bytes += rows.nbytes
            return
        part.check_messages()
        for rows in self._read_frame(form, origin, payload, arrival):
            part.tables.append(rows)
            part.rows += len(rows)
            part.bytes += rows.nbytes

    def _read_frame(self, form: str | None, origin: str, payload: pa.Buffer, arrival: int) -> Iterator[pa.Table]:
        """Read the reports of a frame that holds a file, or names one."""
        if not self._names_files:
            for rows in self._read(form, _as_slice(origin, bytes(payload))):
                yield _with_arrivals(rows, arrival)
            return
        for rows in self._read(form, open_piece(bytes(payload))):
            arrivals = pc.fill_null(rows["arrival"], arrival).to_numpy()
            order = np.argsort(arrivals, kind="stable")
            yield _with_arrivals(rows.take(pa.array(order)), arrivals[order])

    def _read(self, form: str | None, piece: FileSlice) -> Iterator[pa.Table]:
        """Read a piece of a file in a format; an unknown format gives a row that says so."""
        if form is None:
            yield _bad_row(piece.file, "unknown-format: it begins like none of the formats there are")
            return
        if form == PARQUET:
            yield from self._parquet(piece)
            return
        batches = self._source(form).read(piece)
        tables = list(self._bounded((pa.Table.from_batches([batch]) for batch in batches), piece.file))
        if tables:
            yield pa.concat_tables(tables, promote_options="default")

    def _bounded(self, tables: Iterable[pa.Table], origin: str) -> Iterator[pa.Table]:
        """Pass on what fits in `piece_bytes`; if there is more, add a row that says that it was not read."""
        total = 0
        for table in tables:
            total += table.nbytes
            if total > self._piece_bytes:
                limit = f"{self._piece_bytes >> 20:,} MiB of reports"
                yield _bad_row(
                    origin, f"too-large: it has more than {limit}; from here on it was not read. Cut it in parts"
                )
                return
            yield table

    def _parquet(self, piece: FileSlice) -> Iterator[pa.Table]:
        """Read a Parquet file, with further columns as attributes; a damaged part becomes a row that says why."""
        try:
            parts = read_piece(piece, self._options.get("unit") or "ns")
            yield from self._bounded((as_attributes(rows, mapping) for rows, mapping in parts), piece.file)
        except SourceError as fault:
            yield _bad_row(piece.file, f"not-parquet: {fault}")

    def _source(self, form: str) -> Source:
        known = format_options(form)
        return source(form, {name: value for name, value in self._options.items() if name in known})


def join_payloads(payloads: Iterable[bytes]) -> pa.Table:
    """Join the reports that tasks gave; the table has all columns of `REPORTS`."""
    tables = [pa.ipc.open_stream(payload).read_all() for payload in payloads]
    if not tables:
        return REPORTS.empty_table()
    rows = pa.concat_tables(tables, promote_options="default")
    columns = {
        column.name: rows[column.name] if column.name in rows.column_names else pa.nulls(len(rows), column.type)
        for column in REPORTS
    }
    return pa.table(columns, REPORTS)


def _with_arrivals(rows: pa.Table, arrival: Any) -> pa.Table:
    """Set the arrivals and drop columns without values, which would be most of what a task sends."""
    rows = quarantine_large(rows)
    kept = [name for name in REPORTS.names if name in rows.column_names and name != "arrival"]
    schema = pa.schema([REPORTS.field(name).with_nullable(True) for name in kept if rows[name].null_count < len(rows)])
    if "computation" not in schema.names:
        rows = rows.append_column("computation", pa.repeat("", len(rows)))
        schema = schema.insert(0, pa.field("computation", pa.string()))
    arrivals = np.full(len(rows), arrival) if isinstance(arrival, int) else arrival
    return rows.select(schema.names).cast(schema).append_column("arrival", pa.array(arrivals, pa.int64()))


def _unread_row(partition: str, first: int) -> pa.RecordBatch:
    """Make a row saying that the frames of a partition are not decoded from this one on."""
    row = {"partition": partition, "first": first, "last": -1, "now": 0, "rows": 0, "payload": None, "unread": True}
    return pa.RecordBatch.from_pylist([row], _DECODED)


def _check_or_quarantine(rows: pa.Table, origin: str) -> pa.Table:
    try:
        return check_reports(rows)
    except BadPayload as fault:
        return _bad_row(origin, f"bad-payload: {fault}")


def _bad_row(origin: str, reason: str) -> pa.Table:
    return pa.Table.from_pylist(
        [{"computation": "", "file": origin, "place": 0, "reason": reason[:TEXT_LIMIT_CHARACTERS], "text": ""}], REPORTS
    )


def _as_slice(name: str, content: bytes) -> FileSlice:
    """Wrap bytes in memory as a piece of a file."""

    def open_at(offset: int) -> BytesIO:
        file = BytesIO(content)
        file.seek(offset)
        return file

    return FileSlice(name, open_at)
