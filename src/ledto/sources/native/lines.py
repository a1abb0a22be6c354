"""Read JSON lines in the format ``ledto``; see `ledto.sources.native.records` for what a line may hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

from ledto.sources.contract import FileSlice, Records
from ledto.sources.lines import BOM, LINE_LIMIT_BYTES, TOO_LONG, LinesBlock, blocks
from ledto.sources.native.records import row_from_line
from ledto.sources.rows import Row, bad_row, batches
from ledto.sources.vectors import ClockGrowth

CELL_BYTES: Final = 32 << 20
"""Vector clocks are forgotten at each multiple of this offset, so that rows do not depend on where a file is cut."""

EXACT_BYTES_A_SECOND: Final = 5e6
"""How much the exact reader reads in a second."""


@dataclass(frozen=True)
class JsonLines:
    """A source of JSON objects, one on each line. `unit` is what integer times count; ISO-8601 text is converted to it.

    A compiled scanner, which gives the same rows, reads blocks of at least `compiled_from_bytes`. By default it starts
    once reading without it has taken as long as loading it takes.
    """

    name: ClassVar[str] = "ledto"
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson", ".json")
    splittable: ClassVar[bool] = True
    records: ClassVar[Records] = "lines"

    unit: str = "ns"
    compiled_from_bytes: int | None = None

    def read(self, piece: FileSlice) -> Iterator[pa.RecordBatch]:
        def row(line: bytes, offset: int, place: int, cells: Cells) -> Row:
            return line_row(line, offset, place, piece.file, self.unit, cells)

        cells = Cells(piece, row)
        for block in blocks(piece):
            yield from self.block_batches(block, piece.file, cells)

    def block_batches(self, block: LinesBlock, file: str, cells: Cells) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a block: one for each line that is not blank, or one that says what is wrong with the block."""
        if block.problem is None and self._is_scanned(len(block.data)):
            from ledto.sources.native.scanned import scanned_batches

            yield from scanned_batches(block, file, self.unit, cells)
        else:
            yield from batches(cells.rows(block))

    def _is_scanned(self, block_bytes: int) -> bool:
        if self.compiled_from_bytes is not None:
            return block_bytes >= self.compiled_from_bytes
        from ledto.sources.json.scanner import scanning_pays

        return scanning_pays(block_bytes / EXACT_BYTES_A_SECOND)


class Cells:
    """The vector clocks since the last multiple of `CELL_BYTES`. Lines before the piece are read if a record needs them.

    `row` takes a line that is not blank, its offset, its number and this object, and returns its row.
    """

    def __init__(self, piece: FileSlice, row: Callable[[bytes, int, int, Cells], Row]) -> None:
        self._piece = piece
        self._row = row
        self._cell = -1
        self._growth = ClockGrowth()

    def growth(self, offset: int) -> ClockGrowth:
        """Return the clocks before the line at this offset. Offsets must not decrease."""
        cell = offset // CELL_BYTES
        if cell != self._cell:
            self._cell = cell
            self._growth = ClockGrowth()
            start = cell * CELL_BYTES
            if start < self._piece.start:
                self._catch_up(start)
        return self._growth

    def _catch_up(self, start: int) -> None:
        before = FileSlice(self._piece.file, self._piece.open_at, start=start, stop=self._piece.start)
        for block in blocks(before):
            for _ in self.rows(block):
                pass

    def rows(self, block: LinesBlock) -> Iterator[Row]:
        """Yield the rows of a block, one for each line that is not blank."""
        if block.problem is not None:
            yield bad_row(self._piece.file, block.first_line, block.problem, block.data)
            return
        for line, offset, place in self.lines(block):
            yield self._row(line, offset, place, self)

    def lines(self, block: LinesBlock) -> Iterator[tuple[bytes, int, int]]:
        """Yield the lines of a block that are not blank, with their offsets and numbers."""
        offset = block.offset
        for place, line in enumerate(block.data.split(b"\n"), start=block.first_line):
            if line[:1] == b"{" or not _is_blank(line, offset):
                yield line, offset, place
            offset += len(line) + 1


def line_row(line: bytes, offset: int, place: int, file: str, unit: str, cells: Cells) -> Row:
    """Make the row of a line that is not blank."""
    return bounded_row(
        line, offset, place, file, lambda bare: row_from_line(bare, file, place, unit, lambda: cells.growth(offset))
    )


def bounded_row(line: bytes, offset: int, place: int, file: str, row: Callable[[bytes], Row]) -> Row:
    """Call `row` with the line without a byte order mark; return a bad row for a line that is too long."""
    if offset == 0:
        line = line.removeprefix(BOM)
    if len(line) > LINE_LIMIT_BYTES:
        return bad_row(file, place, TOO_LONG, line)
    return row(line)


def _is_blank(line: bytes, offset: int) -> bool:
    # bytes.isspace() would also accept form feeds, which are not blank in JSON.
    return not (line.removeprefix(BOM) if offset == 0 else line).strip(b" \t\r")
