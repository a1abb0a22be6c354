"""Bodies as rows of reports, by the same sources that read files.

The compiled readers are quicker from the first report on (0.6 ms instead of 7 for a hundred spans), and take a while to
load: until they are there, the exact ones are used, which give the same rows.
"""

from __future__ import annotations

import io
import logging
from enum import Enum
from typing import Final

import pyarrow as pa

from whence.events.schema import REPORTS
from whence.service.limits import Limits, Refused, too_large
from whence.sources.contract import Piece, Source
from whence.sources.json_lines import BOM, JsonLines
from whence.sources.otlp import Otlp
from whence.sources.otlp.shape import shape_of

log = logging.getLogger("whence.service")

_NEVER: Final = 1 << 62
_SAMPLE_JSON: Final = (
    b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0102030405060708090a0b0c0d0e0f10",'
    b'"spanId":"0102030405060708","startTimeUnixNano":"1","endTimeUnixNano":"2"}]}]}]}'
)
_SAMPLE_PROTOBUF: Final = (
    b"\x0a\x29\x12\x27\x12\x25\x0a\x10" + bytes(range(1, 17)) + b"\x12\x08" + bytes(range(1, 9)) + b"\x39" + bytes(8)
)
_SAMPLE_LINE: Final = b'{"process":"p","seq":1}\n'


class BodyFormat(Enum):
    """What a body is written in."""

    OTLP_JSON = "application/json"
    OTLP_PROTOBUF = "application/x-protobuf"
    LINES = "application/x-ndjson"


class Parser:
    """Reads bodies. May be used from several threads."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lines: Source = JsonLines(compiled_from_bytes=_NEVER)
        self._otlp: Source = Otlp(compiled_from_bytes=_NEVER)

    def load_compiled(self) -> None:
        """Load the compiled readers, which takes seconds, or a minute where they were never compiled; then use them."""
        lines, otlp = JsonLines(compiled_from_bytes=0), Otlp(compiled_from_bytes=0)
        try:
            for source, sample in ((lines, _SAMPLE_LINE), (otlp, _SAMPLE_JSON), (otlp, _SAMPLE_PROTOBUF)):
                for _ in source.read(_piece(sample, "")):
                    pass
        except Exception as fault:
            log.warning("the compiled readers cannot be used (%s): reports are read more slowly", type(fault).__name__)
            return
        self._lines, self._otlp = lines, otlp

    def rows(self, body: bytes, written_in: BodyFormat, file: str) -> pa.Table:
        """One row a record, the bad ones with a reason. Raises `Refused` for a body that is not of its format at all."""
        try:
            return self._rows(body, written_in, file)
        except MemoryError:
            raise Refused(413, "too-large", "the reports take more memory than there is; send less at a time") from None

    def _rows(self, body: bytes, written_in: BodyFormat, file: str) -> pa.Table:
        piece = _piece(body, file)
        if written_in is BodyFormat.LINES:
            return self._read(self._lines, piece)
        if written_in is BodyFormat.OTLP_PROTOBUF and body and shape_of(piece) != "bare":
            raise Refused(400, "not-otlp", "the body is no request of OTLP in protobuf")
        if written_in is BodyFormat.OTLP_JSON and not body.removeprefix(BOM).lstrip(b" \t\r\n").startswith(b"{"):
            raise Refused(400, "not-otlp", "the body is no request of OTLP in JSON")
        return self._read(self._otlp, piece)

    def _read(self, source: Source, piece: Piece) -> pa.Table:
        batches: list[pa.RecordBatch] = []
        rows = 0
        for batch in source.read(piece):
            rows += batch.num_rows
            if rows > self._limits.reports:
                raise too_large("reports of a body", self._limits.reports)
            batches.append(batch)
        return pa.Table.from_batches(batches, schema=REPORTS)


def _piece(body: bytes, file: str) -> Piece:
    return Piece(file, lambda at: io.BytesIO(body[at:] if at else body))
