"""Parse bodies into rows of reports, with the same sources that read files.

The compiled reader of JSON lines is faster, but takes a while to load. Until then the exact reader is used, which gives
the same rows.
"""

from __future__ import annotations

import io
import logging
from enum import Enum
from typing import Final

import pyarrow as pa

from ledto.events.schema import REPORTS
from ledto.service.http.limits import Limits, RequestRefused, too_large
from ledto.sources.contract import FileSlice, Source
from ledto.sources.lines import BOM
from ledto.sources.native.lines import JsonLines
from ledto.sources.otlp import Otlp
from ledto.sources.otlp.framing import WireLimits, shape_of
from ledto.sources.otlp.protobuf_walk import TooManyParts

log = logging.getLogger("ledto.service")

_NEVER: Final = 1 << 62
_SAMPLE_LINE: Final = b'{"process":"p","seq":1}\n'


class BodyFormat(Enum):
    """The format of a body."""

    OTLP_JSON = "application/json"
    OTLP_PROTOBUF = "application/x-protobuf"
    LINES = "application/x-ndjson"


class Parser:
    """Parses bodies. May be used from several threads."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lines: Source = JsonLines(compiled_from_bytes=_NEVER)
        # A record has up to `report_bytes` of text, and about as much for tags and lengths.
        self._otlp: Source = Otlp(limits=WireLimits(2 * limits.report_bytes, 4 * limits.reports))

    def load_compiled(self) -> None:
        """Load the compiled reader of lines and use it from then on. Takes seconds, or a minute if it must be compiled."""
        lines = JsonLines(compiled_from_bytes=0)
        try:
            for _ in lines.read(_piece(_SAMPLE_LINE, "")):
                pass
        except Exception as fault:
            log.warning("the compiled reader cannot be used (%s): lines are read more slowly", type(fault).__name__)
            return
        self._lines = lines

    def parse(self, body: bytes, body_format: BodyFormat, file: str) -> pa.Table:
        """Parse a body into one row per record; bad ones have a reason.

        Raises `RequestRefused` for another format or too much.
        """
        try:
            return self._parse(body, body_format, file)
        except MemoryError:
            raise RequestRefused(
                413, "too-large", "the reports take more memory than there is; send less at a time"
            ) from None
        except TooManyParts:
            raise too_large("resources, scopes and records of a body", 4 * self._limits.reports) from None
        except RecursionError:
            raise RequestRefused(400, "too-deep", "the body is nested too deeply") from None

    def _parse(self, body: bytes, body_format: BodyFormat, file: str) -> pa.Table:
        piece = _piece(body, file)
        if body_format is BodyFormat.LINES:
            return self._read(self._lines, piece)
        if body_format is BodyFormat.OTLP_PROTOBUF and body and shape_of(piece) != "bare":
            raise RequestRefused(400, "not-otlp", "the body is not an OTLP request in protobuf")
        if body_format is BodyFormat.OTLP_JSON and not body.removeprefix(BOM).lstrip(b" \t\r\n").startswith(b"{"):
            raise RequestRefused(400, "not-otlp", "the body is not an OTLP request in JSON")
        if body_format is BodyFormat.OTLP_JSON and body.count(b"{") > self._limits.objects:
            raise too_large("objects of a body", self._limits.objects)
        return self._read(self._otlp, piece)

    def _read(self, source: Source, piece: FileSlice) -> pa.Table:
        # Sources give batches of bounded size, so the limits are checked before much memory is used.
        batches: list[pa.RecordBatch] = []
        rows, size_bytes = 0, 0
        for batch in source.read(piece):
            rows += batch.num_rows
            size_bytes += batch.nbytes
            if rows > self._limits.reports:
                raise too_large("reports of a body", self._limits.reports)
            if size_bytes > self._limits.decoded_bytes:
                raise too_large("bytes of a request's reports, decoded", self._limits.decoded_bytes)
            batches.append(batch)
        return pa.Table.from_batches(batches, schema=REPORTS)


def _piece(body: bytes, file: str) -> FileSlice:
    return FileSlice(file, lambda at: io.BytesIO(body[at:] if at else body))
