"""Answer exporters of OpenTelemetry in the encoding that they sent: OTLP's responses and ``google.rpc.Status``."""

from __future__ import annotations

import json
from typing import Final, Literal

from starlette.responses import Response

from ledto.service.collector.parse import BodyFormat
from ledto.service.http.limits import RequestRefused

Signal = Literal["traces", "logs"]

_REJECTED: Final = {"traces": "rejectedSpans", "logs": "rejectedLogRecords"}
_CODES: Final = {400: 3, 401: 16, 403: 7, 408: 4, 413: 3, 415: 3, 429: 8, 500: 13, 503: 14}
"""By HTTP status: the code of gRPC."""
_UNKNOWN: Final = 2


def make_accepted(signal: Signal, encoding: BodyFormat, *, rejected: int, message: str) -> Response:
    """Answer that everything is stored, and that `rejected` records could not be read."""
    if encoding is BodyFormat.OTLP_PROTOBUF:
        partial = _varint_field(1, rejected) + _bytes_field(2, message.encode()) if rejected else b""
        return _protobuf(200, _bytes_field(1, partial) if rejected else b"")
    partial_json = {"partialSuccess": {_REJECTED[signal]: str(rejected), "errorMessage": message}} if rejected else {}
    return _json(200, partial_json)


def make_refused(encoding: BodyFormat, refusal: RequestRefused) -> Response:
    """Answer that the request was refused, and why."""
    code = _CODES.get(refusal.status, _UNKNOWN)
    if encoding is BodyFormat.OTLP_PROTOBUF:
        status = _varint_field(1, code) + _bytes_field(2, refusal.message.encode())
        return _protobuf(refusal.status, status)
    return _json(refusal.status, {"code": code, "message": refusal.message})


def _protobuf(status: int, content: bytes) -> Response:
    return Response(content, status, media_type=BodyFormat.OTLP_PROTOBUF.value)


def _json(status: int, content: object) -> Response:
    return Response(json.dumps(content, ensure_ascii=False).encode(), status, media_type=BodyFormat.OTLP_JSON.value)


def _varint_field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _bytes_field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
