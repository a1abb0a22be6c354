"""Walk requests of OTLP in protobuf down to their spans and log records, in bounded memory.

Requests of traces and of logs have the same structure: field 1 has resources; field 1 of those is the resource itself, and
field 2 its scopes, whose field 2 has the records. The length of every part is written before it, so that parts after a
damaged one can be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final, Literal

from ledto.sources.contract import ByteStream, FileSlice, TornStream
from ledto.sources.lines import LINE_LIMIT_BYTES
from ledto.sources.otlp.framing import NO_LIMITS, WireLimits
from ledto.sources.otlp.protobuf import FIXED32, FIXED64, LENGTH, VARINT, WireRowsOf, wire_resource
from ledto.sources.otlp.records import Resource, Resources
from ledto.sources.rows import bad_row, values_of
from ledto.sources.spans.spans import SpansOrRows

Framing = Literal["bare", "4 bytes", "varint"]
"""How a file holds requests: one alone, or several, each with its length before it, in 4 bytes or as a varint."""

BLOCK_BYTES: Final = 4 << 20
RESOURCES_FIELD: Final = 1
"""In a request."""
RESOURCE_FIELD, SCOPES_FIELD, LEGACY_SCOPES_FIELD = 1, 2, 1000
"""In an element of the resources. The last one has the scopes before OTLP 0.15."""
RECORDS_FIELD: Final = 2
"""In a scope."""

_SHOWN_BYTES = 400


class WireDamage(Exception):
    """The bytes at `offset` are no message."""

    def __init__(self, code: str, detail: str, offset: int) -> None:
        super().__init__(f"{code}: at byte {offset}: {detail}")
        self.offset = offset


class TooManyParts(Exception):
    """A request has more parts than its limits allow. Use none of its rows."""


class WireCursor:
    """A position in a file of protobuf, which moves forward. Not safe for threads."""

    def __init__(
        self, piece: FileSlice, *, rows_of: WireRowsOf, offset: int = 0, limits: WireLimits = NO_LIMITS
    ) -> None:
        self._limits = limits
        self._parts = 0
        self.torn: str | None = None
        self._rows_of = rows_of
        self._resources = Resources(wire_resource)
        self._piece = piece
        self._stream: ByteStream = piece.open_at(offset)
        self._data = b""
        self._position = 0
        self._base = offset
        self._ended = False

    @property
    def offset(self) -> int:
        """Return the position in the file."""
        return self._base + self._position

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def read(self, framing: Framing) -> Iterator[SpansOrRows]:
        """Read all requests; yield a bad row for each damage."""
        while self._has(1):
            yield from self._framed_request(framing)
        if self.torn is not None:
            yield self._bad(self.offset, f"torn-file: nothing can be read from here on: {self.torn}", b"")

    def _bad(self, place: int, reason: str, text: bytes) -> SpansOrRows:
        return [values_of(bad_row(self._piece.file, place, reason, text))]

    def _framed_request(self, framing: Framing) -> Iterator[SpansOrRows]:
        """Read the next request."""
        end: int | None = None
        try:
            if framing != "bare":
                end = self._frame_end(framing)
            yield from self._request(end)
        except WireDamage as damage:
            yield self._skip_damage(damage, end)

    def _frame_end(self, framing: Framing) -> int:
        start = self.offset
        length = self._varint() if framing == "varint" else int.from_bytes(self.take(4), "big")
        if length > 1 << 40:
            raise WireDamage("not-protobuf", f"a message of {length} bytes", start)
        return self.offset + length

    def _request(self, end: int | None) -> Iterator[SpansOrRows]:
        for number, wire, stop in self._fields(end):
            if number == RESOURCES_FIELD and wire == LENGTH:
                try:
                    yield from self.resource_rows(stop)
                except WireDamage as damage:
                    yield self._skip_damage(damage, stop)

    def resource_rows(self, stop: int) -> Iterator[SpansOrRows]:
        """Read the records of the resource from here to `stop`. Raises `WireDamage`."""
        resource: Resource | None = None
        is_given = False
        for number, wire, inner in self._fields(stop):
            if wire != LENGTH:
                continue
            if number == RESOURCE_FIELD:
                if is_given:
                    raise WireDamage("duplicate-key", "the resource of these records is given twice", self.offset)
                is_given = True
                resource = self._resources.of(self._take_record(inner))
            elif number == SCOPES_FIELD:
                resource = resource or self._resource_ahead(inner, stop)
                for field, kind, end in self._fields(inner):
                    if field != RECORDS_FIELD or kind != LENGTH:
                        continue
                    place = self.offset
                    if end - place > self._limits.record_bytes:
                        most = f"a record has {self._limits.record_bytes} at most"
                        yield self._bad(place, f"too-large: it has {end - place} bytes; {most}", self._peek(end))
                        continue
                    yield self._rows_of(self._take_record(end), resource, self._piece.file, place)
            elif number == LEGACY_SCOPES_FIELD:
                reason = "legacy: these spans are from before OTLP 0.15; send them through a Collector of 2022"
                yield self._bad(self.offset, reason, self._peek(inner))

    def _resource_ahead(self, start: int, stop: int) -> Resource:
        """Find a resource that comes after its scopes, by reading ahead with a second cursor."""
        with closing(WireCursor(self._piece, rows_of=self._rows_of, offset=start, limits=self._limits)) as ahead:
            for number, wire, inner in ahead._fields(stop):
                if number == RESOURCE_FIELD and wire == LENGTH:
                    return self._resources.of(ahead._take_record(inner))
        return Resource()

    def _fields(self, end: int | None) -> Iterator[tuple[int, int, int]]:
        """Go to the value of each field; yield its number, its wire type, and where it ends. Raises `WireDamage`."""
        while self.offset < end if end is not None else self._has(1):
            start = self.offset
            tag = self._varint()
            number, wire = tag >> 3, tag & 7
            if wire == LENGTH:
                length = self._varint()
            elif wire == VARINT:
                self._varint()
                length = 0
            elif wire in (FIXED64, FIXED32):
                length = 8 if wire == FIXED64 else 4
            else:
                raise WireDamage("not-protobuf", f"expected a field, found a wire type {wire}", start)
            stop = self.offset + length
            if not number:
                raise WireDamage("not-protobuf", "expected a field, found the number 0", start)
            if end is not None and stop > end:
                raise WireDamage(
                    "not-protobuf", f"field {number} ends at byte {stop}, after the end of its message at {end}", start
                )
            self._parts += 1
            if self._parts > self._limits.parts:
                raise TooManyParts(f"more than {self._limits.parts} parts")
            yield number, wire, stop
            if self._skip(stop):
                raise WireDamage("not-protobuf", f"the file ends inside of field {number}, which ends at {stop}", start)

    def _take_record(self, stop: int) -> bytes:
        size_bytes = stop - self.offset
        if size_bytes > LINE_LIMIT_BYTES:
            raise WireDamage("record-too-long", f"more than {LINE_LIMIT_BYTES} bytes", self.offset)
        return self.take(size_bytes)

    def take(self, size_bytes: int) -> bytes:
        """Consume exactly so many bytes. Raises `WireDamage` if there are fewer."""
        if not self._has(size_bytes):
            raise WireDamage("not-protobuf", f"the file ends inside of {size_bytes} bytes that begin here", self.offset)
        data = self._data[self._position : self._position + size_bytes]
        self._position += size_bytes
        return data

    def _varint(self) -> int:
        if self._position < len(self._data) and (byte := self._data[self._position]) < 128:
            self._position += 1
            return byte
        start, value = self.offset, 0
        for shift in range(0, 70, 7):
            if not self._has(1):
                raise WireDamage("not-protobuf", "the file ends inside of a number", start)
            byte = self._data[self._position]
            self._position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value & ((1 << 64) - 1)
        raise WireDamage("not-protobuf", "a number of more than 10 bytes", start)

    def _peek(self, stop: int) -> bytes:
        self._has(min(stop - self.offset, _SHOWN_BYTES))
        return self._data[self._position : self._position + min(stop - self.offset, _SHOWN_BYTES)]

    def _skip(self, stop: int) -> int:
        """Go to `stop`; return how many bytes the file lacks for that."""
        while self.offset < stop:
            step = min(stop - self.offset, len(self._data) - self._position)
            self._position += step
            if not step and not self._has(1):
                return stop - self.offset
        return 0

    def _skip_damage(self, damage: WireDamage, end: int | None) -> SpansOrRows:
        """Go to the end of the damaged part, or of the file; return the row that says so."""
        text = self._peek(self.offset + _SHOWN_BYTES)
        missing = self._skip(1 << 62 if end is None else end)
        after = "the rest is not read" if missing else f"reading goes on at byte {end}"
        return self._bad(damage.offset, f"{damage}; {after}", text)

    def _has(self, size_bytes: int) -> bool:
        """Read until so many bytes are in memory; False if the file ends first."""
        if len(self._data) - self._position >= size_bytes:
            return True
        if not self._ended:
            parts = [self._data[self._position :]]
            self._base += self._position
            self._position = 0
            wanted = max(size_bytes, BLOCK_BYTES) - len(parts[0])
            while wanted > 0 and not self._ended:
                try:
                    part = self._stream.read(wanted)
                except TornStream as error:
                    part, self.torn = b"", str(error)
                self._ended = not part
                parts.append(part)
                wanted -= len(part)
            self._data = b"".join(parts)
        return len(self._data) - self._position >= size_bytes
