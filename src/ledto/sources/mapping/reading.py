"""Cut one file into records, in chunks of some hundreds, with what is written around them by Kubernetes or Docker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ledto.sources.contract import FileSlice, TornStream
from ledto.sources.json.objects import Texts, objects, parts
from ledto.sources.json.strict import members
from ledto.sources.lines import LINE_LIMIT_BYTES, TOO_LONG, blocks
from ledto.sources.mapping.rules import CONTAINER, FILE
from ledto.sources.mapping.values import Record
from ledto.sources.records.containers import Unwrapper, container_of, file_stem, wrapper_of
from ledto.sources.records.contract import Fields, Options, RecordDecoder, RecordFormat
from ledto.sources.records.formats import HEAD_BYTES
from ledto.sources.records.typed_text import as_json
from ledto.sources.rows import BadRecord

OWN_CONTAINER: Final = f"record.{CONTAINER}"
"""What the field `CONTAINER` of a record is called if its line is of a container."""

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class RecordsChunk:
    """Some records of a file. All lists have one element for each record."""

    records: list[Any]
    """Decoded records; None for those that only the exact reader can read."""
    texts: list[Texts] | None
    """The texts of their members; None if values are text."""
    fields: Sequence[Fields | None]
    """Records of text, all of them; empty if they are JSON."""
    raws: Sequence[bytes]
    places: Sequence[int]
    problems: Mapping[int, str] = field(default_factory=dict)
    added: Mapping[int, Fields] = field(default_factory=dict)
    """By place: fields that are not in the text of a JSON record, or of any that cannot be read."""

    def exact(self, number: int) -> Record:
        """Return a record with the texts of its members. Raises `BadRecord`."""
        if number in self.problems:
            code, _, detail = self.problems[number].partition(": ")
            raise BadRecord(code, detail)
        own = self.fields[number] if self.fields else None
        if own is not None:
            return self.as_record(own)
        record = members(self.raws[number])
        added = self.added.get(self.places[number], {})
        if CONTAINER in added and CONTAINER in record:
            value, text, _ = record.pop(CONTAINER)
            record[OWN_CONTAINER] = value, text, _written(OWN_CONTAINER)
        record.update(self.as_record(added))
        return record

    def known(self, number: int) -> Record:
        """Return what is known of a record that cannot be read: its file and its container, or nothing."""
        return self.as_record(self.added.get(self.places[number], {}))

    @staticmethod
    def as_record(fields: Fields) -> Record:
        """Return fields with their texts in JSON."""
        return {name: (value, _written(value), _written(name)) for name, value in fields.items()}


def _written(value: Any) -> str:
    return _encode(as_json(value) if isinstance(value, str) else value).decode()


def read_head(piece: FileSlice) -> bytes:
    """Read the first bytes of the file of which this is a piece."""
    head = b""
    with closing(piece.open_at(0)) as stream:
        try:
            while len(head) < HEAD_BYTES and (more := stream.read(HEAD_BYTES - len(head))):
                head += more
        except TornStream:
            pass
    return head


class FileLayout:
    """How a file is read: what is written around its lines, and its beginning without that."""

    def __init__(self, file: str, head: bytes) -> None:
        self.file = file
        self.wrapper = wrapper_of(head)
        self.head = head
        if self.wrapper is not None:
            lines = head.split(b"\n")[:-1]
            unwrapped = Unwrapper(self.wrapper, file).unwrap(lines, range(len(lines)), is_last=True)
            wrapped = zip(unwrapped.lines, unwrapped.places, strict=True)
            self.head = b"".join(line + b"\n" for line, place in wrapped if place in unwrapped.containers)

    @property
    def names_container(self) -> bool:
        """Return whether the path of the file says which container wrote it."""
        return self.wrapper is not None and bool(container_of(self.file))

    def is_whole(self, form: RecordFormat, options: Options) -> bool:
        """Return whether the file must be read in one piece."""
        return self.wrapper is not None or form.joins_lines(options, self.head)

    def chunks(
        self, piece: FileSlice, form: RecordFormat, options: Options, *, names_file: bool
    ) -> Iterator[RecordsChunk]:
        """Yield the records of a piece. With `names_file`, each has the field `FILE`."""
        reader = _ChunkReader(self, form.decoder(options, self.head), form, names_file=names_file)
        for block in blocks(piece):
            if block.problem is not None:
                yield bad_chunk(block.first_line, block.problem, block.data)
                continue
            for first_line, data in parts(block):
                yield from reader.read(data.removesuffix(b"\n").split(b"\n"), first_line)
        yield from reader.finish()


class _ChunkReader:
    def __init__(self, layout: FileLayout, decoder: RecordDecoder, form: RecordFormat, *, names_file: bool) -> None:
        self._decoder = decoder
        self._is_text = form.name != "json"
        self._unwrapper = None
        if layout.wrapper is not None:
            self._unwrapper = Unwrapper(layout.wrapper, layout.file, joins_traces=form.name == "text")
        self._common: Fields = {FILE: file_stem(layout.file)} if names_file else {}
        self._containers: dict[int, Fields] = {}
        self._outside: Fields = {**self._common, CONTAINER: container_of(layout.file)}
        """What is known of a line of a container's file that is not wrapped."""

    def read(self, lines: list[bytes], first_line: int) -> Iterator[RecordsChunk]:
        """Yield the records of the next lines."""
        places: Sequence[int] = range(first_line, first_line + len(lines))
        if sum(map(len, lines)) > LINE_LIMIT_BYTES:
            for line, place in zip(lines, places, strict=True):
                if len(line) > LINE_LIMIT_BYTES:
                    yield bad_chunk(place, TOO_LONG, line)
            kept = [(line, place) for line, place in zip(lines, places, strict=True) if len(line) <= LINE_LIMIT_BYTES]
            lines, places = [line for line, _ in kept], [place for _, place in kept]
        yield from self._unwrapped(lines, places, is_last=False)

    def finish(self) -> Iterator[RecordsChunk]:
        """Yield what was kept because more lines could have followed."""
        yield from self._unwrapped([], [], is_last=True)

    def _unwrapped(self, lines: list[bytes], places: Sequence[int], *, is_last: bool) -> Iterator[RecordsChunk]:
        if self._unwrapper is not None:
            kept = [(line, place) for line, place in zip(lines, places, strict=True) if line.strip(b" \t\r")]
            unwrapped = self._unwrapper.unwrap(
                [line for line, _ in kept], [place for _, place in kept], is_last=is_last
            )
            self._containers |= unwrapped.containers
            bad = [n for n, place in enumerate(unwrapped.places) if place not in unwrapped.containers]
            start = 0
            for number in bad:
                # Rows are in the order in which lines end, so that it does not matter which are read at once.
                yield from self._decoded(unwrapped.lines[start:number], unwrapped.places[start:number], is_last=False)
                chunk = bad_chunk(unwrapped.places[number], self._unwrapper.problem, unwrapped.lines[number])
                chunk.added = {unwrapped.places[number]: self._outside}
                yield chunk
                start = number + 1
            lines, places = unwrapped.lines[start:], unwrapped.places[start:]
        yield from self._decoded(lines, places, is_last=is_last)

    def _decoded(self, lines: list[bytes], places: Sequence[int], *, is_last: bool) -> Iterator[RecordsChunk]:
        if not self._decoder.takes_blank_lines:
            # Not bytes.isspace(): it accepts form feeds, which are no blanks in JSON.
            kept_places = [place for line, place in zip(lines, places, strict=True) if line.strip(b" \t\r")]
            if len(kept_places) < len(lines):
                lines, places = [line for line in lines if line.strip(b" \t\r")], kept_places
        if not lines and not is_last:
            return
        chunk = self._text_chunk(lines, places, is_last=is_last) if self._is_text else self._json_chunk(lines, places)
        if chunk.records:
            yield chunk

    def _json_chunk(self, lines: list[bytes], places: Sequence[int]) -> RecordsChunk:
        records, texts = objects(lines, b"\n".join(lines))
        added = {}
        if self._common or self._containers:
            added = {place: self._fields_at(place) for place in places}
            for record, text, place in zip(records, texts, places, strict=True):
                if record is not None:
                    _add_fields(record, added[place])
                    _add_fields(text, {name: value for name, value in added[place].items() if name != FILE})
        return RecordsChunk(records, texts, (), lines, places, added=added)

    def _text_chunk(self, lines: list[bytes], places: Sequence[int], *, is_last: bool) -> RecordsChunk:
        decoded = self._decoder.decode(lines, places, is_last=is_last)
        fields = decoded.records
        added: dict[int, Fields] = {}
        if self._common or self._containers:
            for record, place in zip(fields, decoded.places, strict=True):
                if record is not None:
                    _add_fields(record, self._fields_at(place))
                else:
                    added[place] = self._fields_at(place)
        records: list[Any] = fields
        if b"\0" in b"".join(decoded.raws):
            # Few columns may hold a NUL character: the exact reader looks.
            pairs = zip(fields, decoded.raws, strict=True)
            records = [None if b"\0" in raw else record for record, raw in pairs]
        return RecordsChunk(records, None, fields, decoded.raws, decoded.places, decoded.problems, added)

    def _fields_at(self, place: int) -> Fields:
        """Return the fields that are added to the record that begins in this line."""
        container = self._containers.pop(place, None)
        return self._common if container is None else {**self._common, CONTAINER: container}


def _add_fields(record: Fields, added: Fields) -> None:
    if CONTAINER in added and CONTAINER in record:
        record[OWN_CONTAINER] = record.pop(CONTAINER)
    record.update(added)


def bad_chunk(place: int, problem: str, raw: bytes) -> RecordsChunk:
    """Make a chunk of one record that cannot be read."""
    return RecordsChunk([None], None, (), [raw], [place], {0: problem})
