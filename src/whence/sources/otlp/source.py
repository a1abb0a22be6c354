"""The source of OpenTelemetry's traces and logs: OTLP in JSON and in protobuf, as exporters write it to files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa

from whence.sources.contract import Piece, Records, TornStream
from whence.sources.lines import BLOCK_BYTES, Block, blocks
from whence.sources.otlp.frames import Framing, WireCursor
from whence.sources.otlp.shape import BOM, shape_of
from whence.sources.otlp.walk import Found, RequestCursor, Resources, line_found
from whence.sources.rows import BATCH_ROWS, Row, Rows, bad_row


@dataclass(frozen=True)
class Otlp:
    """Traces and logs of OpenTelemetry. The shape of a file is recognised from its first bytes:

    - JSON, one request a line, as the Collector's file exporter writes it: read in pieces, and `place` is the line;
    - JSON documents, pretty-printed or not, one or several in a row: read by the piece that begins the file;
    - protobuf, one request or several with their lengths before them: the same. `place` is the byte of the record.

    From `compiled_from_bytes` on, by default 2 MiB, compiled scanners do the work, which give the same rows. Loading them
    takes 10 to 30 s the first time on a machine, when they are compiled: more than a small file takes without them.
    """

    name: ClassVar[str] = "otlp"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl", ".ndjson", ".pb", ".bin", ".otlp")
    splittable: ClassVar[bool] = True
    records: ClassVar[Records] = "in lines"

    compiled_from_bytes: int = 2 << 20

    def read(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        shape = shape_of(piece)
        if shape == "lines":
            yield from _batches(self._lines(piece))
        elif piece.start == 0 and piece.stop != 0:
            yield from _batches(self._whole(piece, shape))

    def _lines(self, piece: Piece) -> Iterator[Found]:
        resources = Resources({})
        seen_bytes = 0
        for block in blocks(piece):
            scanned = None
            # All that was seen, not the block: those of compressed files may all be small.
            seen_bytes += len(block.data)
            if block.problem is None and seen_bytes >= self.compiled_from_bytes:
                from whence.sources.otlp.json_scanned import scanned_lines

                scanned = scanned_lines(block, piece.file, resources)
            yield from _block(block, piece.file, resources) if scanned is None else scanned

    def _whole(self, piece: Piece, shape: Framing | Literal["document"]) -> Iterator[Found]:
        compiled = _is_at_least(piece, self.compiled_from_bytes)
        if shape == "document":
            with closing(_text_cursor(piece, compiled=compiled)) as text:
                yield from text.found()
        else:
            with closing(_wire_cursor(piece, compiled=compiled)) as wire:
                yield from wire.found(shape)


def _text_cursor(piece: Piece, *, compiled: bool) -> RequestCursor:
    if not compiled:
        return RequestCursor(piece, Resources({}))
    from whence.sources.otlp.json_scanned import ScanningCursor

    return ScanningCursor(piece, Resources({}))


def _wire_cursor(piece: Piece, *, compiled: bool) -> WireCursor:
    if not compiled:
        return WireCursor(piece)
    from whence.sources.otlp.wire_scanned import ScanningWireCursor

    return ScanningWireCursor(piece)


def _is_at_least(piece: Piece, size_bytes: int) -> bool:
    with closing(piece.open_at(0)) as stream:
        try:
            while size_bytes > 0 and (part := stream.read(min(size_bytes, BLOCK_BYTES))):
                size_bytes -= len(part)
        except TornStream:
            pass
    return size_bytes <= 0


def _block(block: Block, file: str, resources: Resources) -> Iterator[Found]:
    if block.problem is not None:
        yield bad_row(file, block.first_line, block.problem, block.data)
        return
    offset = block.offset
    for place, line in enumerate(block.data.split(b"\n"), start=block.first_line):
        yield from line_found(line.removeprefix(BOM) if offset == 0 else line, place, file, resources)
        offset += len(line) + 1


def _batches(found: Iterator[Found]) -> Iterator[pa.RecordBatch]:
    held = Rows()
    for each in found:
        if isinstance(each, Row):
            held.add(each)
        if len(held) == BATCH_ROWS or (len(held) and not isinstance(each, Row)):
            yield held.batch()
            held = Rows()
        if not isinstance(each, Row):
            yield each
    if len(held):
        yield held.batch()
