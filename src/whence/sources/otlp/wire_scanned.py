"""OTLP in protobuf through the compiled scanner; the same rows as without it."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import numpy as np

from whence.sources.contract import Piece
from whence.sources.lines import LINE_LIMIT_BYTES
from whence.sources.otlp import wire_scan as scan
from whence.sources.otlp.frames import BLOCK_BYTES, Framing, WireCursor, wire_resource, wire_rows
from whence.sources.otlp.layout import PLACE, RECORDS, RESOURCES, START, STOP
from whence.sources.otlp.records import Resource
from whence.sources.otlp.table import Table
from whence.sources.otlp.walk import Found
from whence.sources.rows import Row

_FRAMINGS: dict[Framing, int] = {"bare": scan.BARE, "4 bytes": scan.FOUR_BYTES, "varint": scan.VARINTS}
_TEXT_BYTES_A_BYTE = 4
_MOST_KNOWN_RESOURCES = 4_096
_DOUBLE = struct.Struct("<d")


class ScanningWireCursor(WireCursor):
    """A cursor that takes all requests that are at hand at once."""

    def __init__(self, piece: Piece) -> None:
        super().__init__(piece)
        self._table = Table(BLOCK_BYTES, texts_bytes=_TEXT_BYTES_A_BYTE * BLOCK_BYTES)
        self._known: dict[bytes, Resource] = {}

    def _unit(self, framing: Framing) -> Iterator[Found]:
        at = self._scanned_to(framing)
        if at == self._position and not self._ended and len(self._data) - at < LINE_LIMIT_BYTES:
            # The request may only be cut by the end of what is at hand.
            self._has(min(2 * (len(self._data) - at) + 1, LINE_LIMIT_BYTES))
            at = self._scanned_to(framing)
        if at == self._position:
            yield from super()._unit(framing)
            return
        yield from self._batches()
        self._position = at

    def _scanned_to(self, framing: Framing) -> int:
        table = self._table
        table.clear()
        data = np.frombuffer(self._data, np.uint8)
        at = scan.scan_requests(
            data, self._position, _FRAMINGS[framing], self._base, table.records, table.moments, table.doubles,
            table.resources, table.heap, table.used,
        )  # fmt: skip
        return int(at)

    def _batches(self) -> Iterator[Found]:
        table, data, file = self._table, self._data, self._piece.file
        table.write_doubles(lambda start, _: _DOUBLE.unpack_from(data, start)[0])
        named = [self._resource(data[start:stop]) for start, stop in table.resources[: table.used[RESOURCES]].tolist()]

        def left(values: Sequence[int], resource: Resource) -> list[Row]:
            return wire_rows(data[values[START] : values[STOP]], resource, file, values[PLACE])

        if table.used[RECORDS]:
            yield from table.batches(0, int(table.used[RECORDS]), named, file, left)

    def _resource(self, raw: bytes) -> Resource:
        found = self._known.get(raw)
        if found is None:
            if len(self._known) >= _MOST_KNOWN_RESOURCES:
                self._known.clear()
            found = self._known[raw] = wire_resource(raw)
        return found
