"""Read any log of JSON lines as a mapping says; see `ledto.sources.mapping.file`."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import pyarrow as pa

from ledto.sources.contract import FileSlice, Records, SourceError
from ledto.sources.json.objects import parts
from ledto.sources.json.strict import members
from ledto.sources.lines import LINE_LIMIT_BYTES, TOO_LONG, blocks
from ledto.sources.mapping.columns import QuickMapping
from ledto.sources.mapping.file import load_mapping
from ledto.sources.mapping.rules import LogMapping, MappingRule
from ledto.sources.mapping.values import UNITS, Record
from ledto.sources.rows import BATCH_ROWS, BadRecord, Row, RowColumns, bad_row, batches


@dataclass(frozen=True)
class Mapped:
    """A source of JSON objects, one on each line. `mapping` is a file, or the name of a mapping that comes with ledto.

    The mapping is read when the source is made, and pickles with it. Rows have times in `unit`, whatever unit the log has.
    Raises `SourceError` for a mapping that cannot be used.
    """

    name: ClassVar[str] = "mapped"
    suffixes: ClassVar[tuple[str, ...]] = (".log", ".jsonl", ".ndjson", ".json")
    splittable: ClassVar[bool] = True
    records: ClassVar[Records] = "lines"

    mapping: str
    unit: str = "ns"
    rules: LogMapping = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rules = load_mapping(self.mapping)
        if self.unit not in UNITS:
            raise SourceError(f"the unit is one of {', '.join(UNITS)}, not {self.unit!r}")
        if not rules.fits_unit(self.unit):
            units = ", ".join(sorted(rules.units))
            raise SourceError(
                f"the mapping {self.mapping} has times in {units}, which cannot be converted to {self.unit}; "
                "choose another --unit"
            )
        object.__setattr__(self, "rules", rules)

    @property
    def has_channels(self) -> bool:
        """Return whether some rows have no keys, and must be matched by their channel."""
        return self.rules.has_channels

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @cached_property
    def _quick(self) -> QuickMapping:
        return QuickMapping(self.rules, self.unit)

    def read(self, piece: FileSlice) -> Iterator[pa.RecordBatch]:
        for block in blocks(piece):
            if block.problem is not None:
                yield from batches([bad_row(piece.file, block.first_line, block.problem, block.data)])
                continue
            columns, order = RowColumns(piece.file), array("i")
            for first_line, data in parts(block):
                order.extend(self._add_rows(data, first_line, piece.file, columns))
                if len(columns) >= BATCH_ROWS:
                    yield columns.batch(order)
                    columns, order = RowColumns(piece.file), array("i")
            if order:
                yield columns.batch(order)

    def _add_rows(self, data: bytes, first_line: int, file: str, columns: RowColumns) -> list[int]:
        """Add the rows of some lines; return their numbers in the order of the lines."""
        # Not bytes.isspace(): it accepts form feeds, which are no blanks in JSON.
        lines = data.split(b"\n")
        places = [place for place, line in enumerate(lines, start=first_line) if line.strip(b" \t\r")]
        if len(places) < len(lines):
            lines = [lines[place - first_line] for place in places]
        numbers = self._quick.add(lines, places, data, columns)
        unread = [line for line, number in enumerate(numbers) if number is None]
        exact = iter(columns.add_rows([self.exact_row(lines[line], file, places[line]) for line in unread]))
        return [next(exact) if number is None else number for number in numbers]

    def exact_row(self, line: bytes, file: str, place: int) -> Row:
        """Read a line that is not blank in every case, and say what is wrong with it."""
        if len(line) > LINE_LIMIT_BYTES:
            return bad_row(file, place, TOO_LONG, line)
        record: Record = {}
        rule: MappingRule | None = None
        try:
            record = members(line)
            rule = self.rules.rule_for(record)
            row = rule.row(record, self.unit)
        except BadRecord as error:
            return bad_row(
                file,
                place,
                str(error),
                line,
                computation=_read_legible(rule, "computation", record) or "",
                process=_read_legible(rule, "process", record),
            )
        row.file, row.place = file, place
        return row


def _read_legible(rule: MappingRule | None, column: str, record: Record) -> str | None:
    """Return a column of a bad record, if at least that can be read; else None."""
    try:
        text = None if rule is None else rule.text(column, record)
    except BadRecord:
        return None
    return text if text and text.isprintable() else None
