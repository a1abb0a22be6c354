"""Read records of any text format whose fields have ledto's own names, by way of JSON lines.

One literal line of a table with the columns ``process,seq,kind,message,amount``, and the JSON line that it is read as::

    shop,2,send,m1,1.50

    {"process":"shop","seq":2,"kind":"send","message":"m1","amount":1.50}

So a field means the same in all formats. Bad rows show the text of the file, not the JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa
from msgspec import Raw

from ledto.events.schema import REPORTS
from ledto.sources.contract import FileSlice
from ledto.sources.lines import LinesBlock
from ledto.sources.native.lines import Cells, JsonLines, line_row
from ledto.sources.record_fields import FIELD_TYPES, FieldType
from ledto.sources.records.contract import Options, RecordFormat
from ledto.sources.records.formats import field_names
from ledto.sources.records.typed_text import FIRST_OF_TYPED, as_json
from ledto.sources.rows import excerpt

if TYPE_CHECKING:
    from ledto.sources.mapping.reading import RecordsChunk

_AS_TEXT: Final = frozenset(
    name
    for name, type_ in FIELD_TYPES.items()
    if type_ in (FieldType.TEXT, FieldType.TEXT_OR_ATTRIBUTE, FieldType.KEY, FieldType.KEYS, FieldType.TEXTS)
)
_MAY_BE_JSON: Final = frozenset(
    name
    for name, type_ in FIELD_TYPES.items()
    if type_ in (FieldType.KEYS, FieldType.TEXTS, FieldType.STAMP, FieldType.ATTRIBUTES)
)
"""Fields whose text may be a list or an object of JSON."""
_IDS: Final = ("trace_id", "traceId", "trace.id", "span_id", "spanId", "span.id", "request_id", "requestId")
_TEXT_FIELDS: Final = _AS_TEXT | {*_IDS}
_FIRST: Final = FIRST_OF_TYPED | {"[", "{"}
_encoder = msgspec.json.Encoder()
_check_json = msgspec.json.Decoder(Raw).decode
_NOT_READ = b"0"
"""In place of a record that could not be decoded: a line that gives a bad row."""


def has_native_fields(names: set[str]) -> bool:
    """Return whether records with these fields are ledto's own."""
    return "process" in names and bool({"time", "seq", "stamp"} & names)


@dataclass(frozen=True, slots=True)
class NativeRecords:
    """A reader of such records, with times in `unit`.

    What a vector stamp means depends on the records before it. HAZARD: give it a whole file, not a piece of one.
    """

    unit: str

    @staticmethod
    def of(form: RecordFormat, options: Options, head: bytes, unit: str) -> NativeRecords | None:
        """Make a reader for files that begin like this; None if their fields have other names."""
        if form.name not in ("csv", "tsv", "json", "logfmt"):
            return None
        return NativeRecords(unit) if has_native_fields(field_names(form.name, head, options)) else None

    def batches(self, chunks: Iterator[RecordsChunk], file: str, is_container: bool) -> Iterator[pa.RecordBatch]:
        """Yield the rows of records. Lines of a container may lack a process and a time: it has both."""
        source, offset = JsonLines(self.unit), 0
        cells = Cells(
            FileSlice(file, _no_file),
            lambda line, offset, place, cells: line_row(line, offset, place, file, self.unit, cells),
        )
        for chunk in chunks:
            data = b"\n".join(self._json_lines(chunk, is_container))
            block = LinesBlock(offset, 0, data)
            offset += len(data) + 1
            yield from _with_places(source.block_batches(block, file, cells), chunk)

    def _json_lines(self, chunk: RecordsChunk, is_container: bool) -> list[bytes]:
        """Return each record as a JSON object on a line."""
        if chunk.texts is not None:
            lines = [raw if record is None else b"" for record, raw in zip(chunk.records, chunk.raws, strict=True)]
            values: list[dict[str, Any]] = [dict(text) for text in chunk.texts]
        else:
            values = [{} if fields is None else _as_values(fields) for fields in chunk.fields] or [{}]
            lines = [b""] * len(values)
        plain = _plain_lines(chunk) if is_container else {}
        for number, event in plain.items():
            values[number], lines[number] = event, b""
        if is_container:
            for value in values:
                _add_container(value)
        written = _encoder.encode_lines(values).split(b"\n")[:-1]
        return [
            _NOT_READ if number in chunk.problems and number not in plain else line or text
            for number, (line, text) in enumerate(zip(lines, written, strict=True))
        ]


def _plain_lines(chunk: RecordsChunk) -> dict[int, dict[str, Any]]:
    """Return the events of plain lines between the records of a container, by number: their name is the line.

    A line that begins like an object of JSON is a damaged record.
    """
    events = {}
    for number, (record, raw) in enumerate(zip(chunk.records, chunk.raws, strict=True)):
        container = chunk.added.get(chunk.places[number], {}).get("container", {})
        if record is None and "time" in container and not raw.lstrip().startswith(b"{"):
            try:
                events[number] = {"name": raw.decode("utf-8").rstrip("\r"), "container": container}
            except UnicodeDecodeError:
                continue
    return events


def _as_values(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value if type(value) is not str or value[:1] not in _FIRST else _as_value(name, value)
        for name, value in fields.items()
    }


def _as_value(name: str, text: str) -> Any:
    if name in _MAY_BE_JSON and text[:1] in ("[", "{"):
        try:
            return _check_json(text)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return text
    return text if name in _TEXT_FIELDS else as_json(text)


def _add_container(record: dict[str, Any]) -> None:
    """Name the process and the time of a record by its container, if it does not."""
    container = record.get("container")
    if isinstance(container, dict):
        if "process" not in record:
            names = [container.get(name) for name in ("namespace", "pod", "name")]
            record["process"] = "/".join(filter(None, names)) or container.get("id") or "container"
        if "time" not in record and "seq" not in record:
            record["time"] = container.get("time")


def _with_places(batches: Iterator[pa.RecordBatch], chunk: RecordsChunk) -> Iterator[pa.RecordBatch]:
    """Give each row the place of its record, and bad ones the text of their record."""
    at_place, at_reason, at_text = (REPORTS.get_field_index(name) for name in ("place", "reason", "text"))
    for batch in batches:
        numbers = batch["place"].to_pylist()
        places = pa.array([chunk.places[number] for number in numbers], pa.int64())
        batch = batch.set_column(at_place, REPORTS.field(at_place), places)
        if batch["reason"].null_count < len(batch):
            reasons = batch["reason"].to_pylist()
            said = [
                None if reason is None else chunk.problems.get(number, reason)
                for number, reason in zip(numbers, reasons, strict=True)
            ]
            texts = [
                None if reason is None else excerpt(chunk.raws[number])
                for number, reason in zip(numbers, reasons, strict=True)
            ]
            batch = batch.set_column(at_reason, REPORTS.field(at_reason), pa.array(said, pa.string()))
            batch = batch.set_column(at_text, REPORTS.field(at_text), pa.array(texts, pa.string()))
        yield batch


def _no_file(offset: int) -> Any:
    raise AssertionError("the clocks before a record are those of the records before it")
