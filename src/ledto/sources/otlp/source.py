"""Read files of OpenTelemetry's traces and logs: OTLP in JSON and in protobuf, as exporters write them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from ledto.sources.contract import FileSlice, Records
from ledto.sources.json.typed import NOT_TAKEN
from ledto.sources.lines import BOM, LINE_LIMIT_BYTES, LinesBlock, blocks
from ledto.sources.otlp.framing import NO_LIMITS, WireLimits, shape_of
from ledto.sources.otlp.json_typed import RecordArray, quick_request
from ledto.sources.otlp.json_walk import RequestCursor, array_rows, exact_rows, json_resource, json_rows, read_line
from ledto.sources.otlp.records import Resource, Resources
from ledto.sources.rows import bad_row, values_of
from ledto.sources.spans.spans import SpansOrRows, span_batches


@dataclass(frozen=True)
class Otlp:
    """A source of OpenTelemetry's traces and logs. It recognises the shape of a file from its first bytes:

    - JSON, one request on each line, as the Collector's file exporter writes it: read in pieces; a row's place is the line;
    - JSON documents, pretty-printed or not, one after another: read as a whole; a row's place is the byte of its record;
    - protobuf, one request, or several with their lengths before them: likewise.

    The piece at the start of a file reads the whole of it, other pieces nothing. `exact` turns the quick readers off, for
    comparisons: all give the same rows. `limits` are for untrusted protobuf, such as the body of a request: reading raises
    `TooManyParts` beyond them.
    """

    name: ClassVar[str] = "otlp"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl", ".ndjson", ".pb", ".bin", ".otlp")
    splittable: ClassVar[bool] = True
    records: ClassVar[Records] = "in lines"

    exact: bool = False
    limits: WireLimits = NO_LIMITS

    def read(self, piece: FileSlice) -> Iterator[pa.RecordBatch]:
        shape = shape_of(piece)
        if shape == "lines":
            yield from span_batches(self._lines(piece), piece.file)
        elif piece.start == 0 and piece.stop != 0:
            if shape == "document":
                rows_of = exact_rows if self.exact else json_rows
                with closing(RequestCursor(piece, Resources(json_resource), rows_of=rows_of)) as text:
                    yield from span_batches(text.read(), piece.file)
            else:
                # JSON needs no package that decodes protobuf.
                from ledto.sources.otlp.protobuf import exact_wire_rows, wire_rows
                from ledto.sources.otlp.protobuf_walk import WireCursor

                rows_of_wire = exact_wire_rows if self.exact else wire_rows
                with closing(WireCursor(piece, rows_of=rows_of_wire, limits=self.limits)) as wire:
                    yield from span_batches(wire.read(shape), piece.file)

    def _lines(self, piece: FileSlice) -> Iterator[SpansOrRows]:
        resources = Resources(json_resource)
        for block in blocks(piece):
            if block.problem is not None:
                yield [values_of(bad_row(piece.file, block.first_line, block.problem, block.data))]
            else:
                yield from self._block(block, piece.file, resources)

    def _block(self, block: LinesBlock, file: str, resources: Resources) -> Iterator[SpansOrRows]:
        offset = block.offset
        for place, line in enumerate(block.data.split(b"\n"), start=block.first_line):
            text = line.removeprefix(BOM) if offset == 0 else line
            offset += len(line) + 1
            if not text:
                continue
            arrays = None if self.exact else _arrays(text)
            if arrays is None:
                yield from read_line(text, place, file, resources, exact_rows if self.exact else json_rows)
                continue
            for array in arrays:
                resource = Resource() if array.resource is None else resources.of(array.resource)
                yield from array_rows(array, resource, file, place)


def _arrays(line: bytes) -> list[RecordArray] | None:
    try:
        return quick_request(line) if len(line) <= LINE_LIMIT_BYTES else None
    except NOT_TAKEN:
        return None
