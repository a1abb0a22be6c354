"""Read any log of text as a mapping says (`ledto.sources.mapping.file`), or without one by the usual names of fields."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Final

import pyarrow as pa

from ledto.sources.contract import FileSlice, Records, SourceError
from ledto.sources.mapping.documents import document_chunks, holds_documents
from ledto.sources.mapping.file import DEFAULT_FORMAT, load_mapping, read_mapping
from ledto.sources.mapping.moments import read_zone
from ledto.sources.mapping.quick import QuickMapping, QuickRecords
from ledto.sources.mapping.reading import FileLayout, RecordsChunk, read_head
from ledto.sources.mapping.rules import LogMapping, MappingRule
from ledto.sources.mapping.unread import plain_row, unread_row
from ledto.sources.mapping.usual import draft_usual
from ledto.sources.mapping.values import UNITS, Record
from ledto.sources.native.converted import NativeRecords
from ledto.sources.records.contract import Options, RecordFormat
from ledto.sources.records.formats import decode_head, record_format
from ledto.sources.records.pattern import PATTERN
from ledto.sources.records.syslog import LATEST_NS, YEAR
from ledto.sources.rows import BATCH_ROWS, BadRecord, Row, RowColumns, values_of
from ledto.sources.spans.spans import Spans, SpansOrRows, span_batches, spans_of

DEFAULT_MAPPINGS: Final = ("syslog", "journald", "text")
"""The formats that have a mapping of their own name, which comes with ledto."""
_NO_FIELDS: Final = 'process = "@file"\ntime = { from = "time", unit = "auto" }\n'
"""The mapping of files whose fields have no usual names: it says in each bad row that the time is missing."""


@dataclass(frozen=True)
class Mapped:
    """A source of records in the format that its mapping names: a file, or the name of one that comes with ledto.

    The mapping is read when the source is made, and pickles with it. Rows have times in `unit`, whatever unit the log has.
    `zone` is the time zone of times without an offset, unless the mapping names one, and `year` the year of times
    without one. `exact` turns the quick reader off, for comparisons: both give the same rows. Raises `SourceError` for a
    mapping that cannot be used.

    A file whose records may have several lines, or that Kubernetes or Docker wrote, is not cut: its first piece has
    all rows.
    """

    name: ClassVar[str] = "mapped"
    suffixes: ClassVar[tuple[str, ...]] = (".log", ".jsonl", ".ndjson", ".json")
    form: ClassVar[str | None] = None
    """The record format of the class; None if the mapping says it."""

    mapping: str | None
    unit: str = "ns"
    zone: str | None = None
    year: int | None = None
    exact: bool = False
    rules: LogMapping | None = field(init=False, repr=False, compare=False)
    """The mapping of the user; None if there is none."""
    made_ns: int = field(init=False, repr=False, compare=False)
    """When the source was made: lines without a year are not later."""

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise SourceError(f"the unit is one of {', '.join(UNITS)}, not {self.unit!r}")
        object.__setattr__(self, "made_ns", time.time_ns())
        try:
            if self.zone is not None:
                read_zone(self.zone)
        except ValueError as error:
            raise SourceError(f"--zone {error}") from None
        rules = None if self.mapping is None else self._load(self.mapping)
        object.__setattr__(self, "rules", rules)
        self.record_format.decoder(self.format_options(None), b"")

    def _load(self, mapping: str) -> LogMapping:
        rules = load_mapping(mapping, format=self.form, zone=self.zone)
        if self.form is not None and rules.format not in (None, self.form):
            raise SourceError(
                f"the mapping {mapping} is for the format {rules.format}, not for {self.form}; leave out --format"
            )
        if not rules.fits_unit(self.unit):
            units = ", ".join(sorted(rules.units))
            raise SourceError(
                f"the mapping {mapping} has times in {units}, which cannot be converted to {self.unit}; "
                "choose another --unit"
            )
        return rules

    @property
    def record_format(self) -> RecordFormat:
        """Return the format of its records."""
        named = None if self.rules is None else self.rules.format
        return record_format(self.form or named or DEFAULT_FORMAT)

    @property
    def splittable(self) -> bool:
        """Return whether files may be read in several pieces."""
        return not self.record_format.joins_lines(self.format_options(None), b"{")

    @property
    def records(self) -> Records:
        """Return whether each line is one record with one row."""
        if self.rules is not None and self.rules.holder is not None:
            return "anywhere"
        has_one_row = self.rules is not None and self.rules.has_one_row_a_record
        return "lines" if self.form is None and self.splittable and has_one_row else "in lines"

    @property
    def has_channels(self) -> bool:
        """Return whether some rows have no keys, and must be matched by their channel."""
        return self.rules is not None and self.rules.has_channels

    @property
    def note(self) -> str | None:
        """Say which mapping reads files for which the user gave none, and what is assumed about their times."""
        form = self.record_format.name
        said = []
        if self.rules is None and form in DEFAULT_MAPPINGS:
            said.append(f"{form} is read by the mapping {form} that comes with ledto")
        if form == "syslog":
            year = "the last year before the file was written" if self.year is None else str(self.year)
            # A mapping of the user may name a zone of its own.
            offset = f", and without an offset as {self.zone or 'UTC'}" if self.rules is None else ""
            said.append(f"lines without a year are taken as of {year}{offset}")
        return "; ".join(said) or None

    def __getstate__(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    def format_options(self, modified_ns: int | None) -> dict[str, Any]:
        """Return the options of the record format, for a file that was modified then."""
        own = {} if self.rules is None else dict(self.rules.options)
        own |= {option: given for option, given in self._given_options().items() if given is not None}
        if YEAR not in self.record_format.options:
            return own
        year = self.year if self.year is not None else own.get(YEAR)
        return {**own, YEAR: year, LATEST_NS: modified_ns if modified_ns is not None else self.made_ns}

    def _given_options(self) -> dict[str, Any]:
        """Return the options of the record format that the source itself has."""
        return {}

    def read(self, piece: FileSlice) -> Iterator[pa.RecordBatch]:
        layout = FileLayout(piece.file, read_head(piece))
        form, options = self.record_format, self.format_options(piece.modified_ns)
        holder = None if self.rules is None or layout.wrapper is not None else self.rules.holder
        in_documents = holder is not None and holds_documents(layout.head, holder)
        native = None if self.rules is not None else NativeRecords.of(form, options, layout.head, self.unit)
        if in_documents or native is not None or layout.is_whole(form, options):
            if piece.start or piece.stop == 0:
                return
            piece = replace(piece, stop=None)
        if native is not None:
            chunks = layout.chunks(piece, form, options, names_file=False)
            yield from native.batches(chunks, piece.file, layout.wrapper is not None)
            return
        applied = self._applied(layout, form, options)
        if in_documents:
            chunks = document_chunks(piece, str(holder), layout.head)
        else:
            chunks = layout.chunks(piece, form, options, names_file=applied.mapping.uses_file)
        yield from applied.batches(chunks, piece.file)

    def drafted(self, head: bytes, file: str = "") -> str | None:
        """Return the mapping that is drafted for a file that begins like this; None if it is read in another way."""
        layout, form, options = FileLayout(file, head), self.record_format, self.format_options(None)
        if self.rules is not None or form.name in DEFAULT_MAPPINGS:
            return None
        if NativeRecords.of(form, options, layout.head, self.unit) is not None:
            return None
        return _draft(layout, form, options)

    def _applied(self, layout: FileLayout, form: RecordFormat, options: Options) -> _AppliedMapping:
        """Return the mapping that is applied to a file."""
        is_container = layout.wrapper is not None
        drafted = None
        if self.rules is None and form.name not in DEFAULT_MAPPINGS:
            drafted = _draft(layout, form, options) or _NO_FIELDS
        key = drafted, is_container
        cached: dict[tuple[str | None, bool], _AppliedMapping] = self._cached
        if key not in cached:
            if drafted is not None:
                rules = read_mapping(drafted.encode(), "that was drafted", format=form.name, zone=self.zone)
            else:
                rules = self.rules or self._load(form.name)
            cached[key] = _AppliedMapping(
                rules.for_containers() if is_container else rules, self.unit, exact=self.exact
            )
        return cached[key]

    @cached_property
    def _cached(self) -> dict[tuple[str | None, bool], _AppliedMapping]:
        return {}


def _draft(layout: FileLayout, form: RecordFormat, options: Options) -> str | None:
    records = decode_head(form.name, layout.head, options)
    return draft_usual(
        records, form.name, in_container=layout.wrapper is not None, names_container=layout.names_container
    )


class _AppliedMapping:
    """A mapping that makes batches of records."""

    def __init__(self, mapping: LogMapping, unit: str, *, exact: bool) -> None:
        self.mapping = mapping
        self._unit = unit
        self._quick = None if exact else QuickMapping(mapping, unit)

    def batches(self, chunks: Iterator[RecordsChunk], file: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of records."""
        if self.mapping.has_spans:
            yield from span_batches(self._spans_and_rows(chunks, file), file)
            return
        columns, order = RowColumns(file), array("i")
        for chunk in chunks:
            order.extend(self._add_rows(chunk, file, columns))
            if len(columns) >= BATCH_ROWS:
                yield columns.batch(order)
                columns, order = RowColumns(file), array("i")
        if order:
            yield columns.batch(order)

    def _add_rows(self, chunk: RecordsChunk, file: str, columns: RowColumns) -> Iterator[int]:
        """Add the rows of some records; return their numbers in the order of the records."""
        numbers: list[tuple[int, ...] | None] = [None] * len(chunk.records)
        if self._quick is not None:
            numbers = self._quick.add(QuickRecords(chunk.records, chunk.texts, chunk.places), columns)
        unread = [number for number, rows in enumerate(numbers) if rows is None]
        made = [self.exact_rows(chunk, number, file) for number in unread]
        added = iter(columns.add_rows([row for rows in made for row in rows]))
        for number, rows in zip(unread, made, strict=True):
            numbers[number] = tuple(next(added) for _ in rows)
        return chain.from_iterable(rows for rows in numbers if rows is not None)

    def _spans_and_rows(self, chunks: Iterator[RecordsChunk], file: str) -> Iterator[SpansOrRows]:
        """Yield the spans of records that are spans, and the rows of others, in order."""
        for chunk in chunks:
            found: list[tuple[Any, ...] | None] = [None] * len(chunk.records)
            if self._quick is not None:
                found = self._quick.spans(QuickRecords(chunk.records, chunk.texts, chunk.places))
            values: list[Any] = []
            size_bytes = 0
            for number, span in enumerate(found):
                if span is not None:
                    values += span
                    size_bytes += len(span[-2] or "") + 2 * len(span[2])
                    continue
                if values:
                    yield Spans(values, size_bytes)
                    values, size_bytes = [], 0
                yield self._exact_span_or_rows(chunk, number, file)
            if values:
                yield Spans(values, size_bytes)

    def _exact_span_or_rows(self, chunk: RecordsChunk, number: int, file: str) -> SpansOrRows:
        record: Record = {}
        rule: MappingRule | None = None
        try:
            record = chunk.exact(number)
            rule = self.mapping.rule_for(record)
            if rule.span is not None:
                attributes = rule.write_attributes(record)
                return spans_of(rule.span.span_of(record, self._unit, attributes, chunk.places[number]))
        except BadRecord as error:
            return self._unread(error, chunk, number, file, rule, record)
        return [values_of(row) for row in self.exact_rows(chunk, number, file)]

    def exact_rows(self, chunk: RecordsChunk, number: int, file: str) -> list[Row]:
        """Read a record in every case, and say what is wrong with it."""
        record: Record = {}
        rule: MappingRule | None = None
        try:
            record = chunk.exact(number)
            rule = self.mapping.rule_for(record)
            rows = rule.rows(record, self._unit)
        except BadRecord as error:
            return [self._unread(error, chunk, number, file, rule, record)]
        for row in rows:
            row.file, row.place = file, chunk.places[number]
        return rows

    def _unread(
        self, error: BadRecord, chunk: RecordsChunk, number: int, file: str, rule: MappingRule | None, record: Record
    ) -> Row:
        """Make the row of what cannot be read by the rule, or not at all."""
        plain = None if record else plain_row(error, chunk, number, file, self.mapping, self._unit)
        return plain or unread_row(error, chunk, number, file, self.mapping, self._unit, rule, record)


@dataclass(frozen=True)
class JsonLog(Mapped):
    """A source of JSON lines in nobody's format."""

    name: ClassVar[str] = "json"
    suffixes: ClassVar[tuple[str, ...]] = (".log", ".jsonl", ".ndjson", ".json")
    form: ClassVar[str | None] = "json"

    mapping: str | None = None


@dataclass(frozen=True)
class CsvTable(Mapped):
    """A source of tables with a header and commas, or another `delimiter`."""

    name: ClassVar[str] = "csv"
    suffixes: ClassVar[tuple[str, ...]] = (".csv",)
    form: ClassVar[str | None] = "csv"

    mapping: str | None = None
    delimiter: str | None = None

    def _given_options(self) -> dict[str, Any]:
        return {"delimiter": self.delimiter}


@dataclass(frozen=True)
class TsvTable(Mapped):
    """A source of tables with a header and tabs."""

    name: ClassVar[str] = "tsv"
    suffixes: ClassVar[tuple[str, ...]] = (".tsv", ".tab")
    form: ClassVar[str | None] = "tsv"

    mapping: str | None = None


@dataclass(frozen=True)
class LogfmtLog(Mapped):
    """A source of lines of ``key=value``."""

    name: ClassVar[str] = "logfmt"
    suffixes: ClassVar[tuple[str, ...]] = (".log", ".logfmt")
    form: ClassVar[str | None] = "logfmt"

    mapping: str | None = None


@dataclass(frozen=True)
class SyslogLog(Mapped):
    """A source of lines of syslog."""

    name: ClassVar[str] = "syslog"
    suffixes: ClassVar[tuple[str, ...]] = (".log", ".syslog")
    form: ClassVar[str | None] = "syslog"

    mapping: str | None = None


@dataclass(frozen=True)
class JournaldLog(Mapped):
    """A source of entries of systemd's journal."""

    name: ClassVar[str] = "journald"
    suffixes: ClassVar[tuple[str, ...]] = (".json", ".jsonl", ".export")
    form: ClassVar[str | None] = "journald"

    mapping: str | None = None


@dataclass(frozen=True)
class RegexLog(Mapped):
    """A source of lines that match an expression with named groups, `regex`, or the ``pattern`` of the mapping."""

    name: ClassVar[str] = "regex"
    suffixes: ClassVar[tuple[str, ...]] = (".log", ".txt")
    form: ClassVar[str | None] = "regex"

    mapping: str | None = None
    regex: str | None = None

    def _given_options(self) -> dict[str, Any]:
        return {PATTERN: self.regex}


@dataclass(frozen=True)
class PlainLog(Mapped):
    """A source of plain lines of containers, or of any others that a mapping describes."""

    name: ClassVar[str] = "text"
    suffixes: ClassVar[tuple[str, ...]] = (".log", ".txt")
    form: ClassVar[str | None] = "text"

    mapping: str | None = None
