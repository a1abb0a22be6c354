"""Make the answers that exporters of OpenTelemetry expect: OTLP's responses and ``google.rpc.Status``, for HTTP and gRPC."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final, Literal

from google.protobuf.json_format import MessageToDict
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from starlette.responses import Response

from ledto.service.collector.parse import BodyFormat
from ledto.service.http.limits import RequestRefused

Signal = Literal["traces", "logs", "metrics"]

_RESPONSES: Final[dict[Signal, tuple[Any, str]]] = {
    "traces": (ExportTraceServiceResponse, "rejected_spans"),
    "logs": (ExportLogsServiceResponse, "rejected_log_records"),
    "metrics": (ExportMetricsServiceResponse, "rejected_data_points"),
}
"""By signal: the response, and the field of its partial success that counts records."""
_CODES: Final = {400: 3, 401: 16, 403: 7, 408: 4, 413: 3, 415: 3, 429: 8, 500: 13, 503: 14}
"""By HTTP status: the code of gRPC."""
_UNKNOWN: Final = 2


@dataclass(frozen=True, slots=True)
class StoredRecords:
    """What to tell the sender of a request that was taken: how many of its records cannot be read, and a message."""

    rejected: int
    message: str


def export_response(signal: Signal, stored: StoredRecords) -> bytes:
    """Write the response to an export in protobuf; empty if there is nothing to say."""
    content: bytes = _response(signal, stored).SerializeToString()
    return content


def refusal_status(refusal: RequestRefused) -> Status:
    """Make the status of a refused request. It has a ``RetryInfo`` if the same request may succeed later."""
    status = Status(code=grpc_code(refusal.status), message=refusal.message)
    if (retry := retry_info(refusal)) is not None:
        status.details.add().Pack(retry)
    return status


def retry_info(refusal: RequestRefused) -> RetryInfo | None:
    """Say when to send a refused request again; None if that does not help."""
    if refusal.retry_after_s is None:
        return None
    info = RetryInfo()
    info.retry_delay.FromSeconds(refusal.retry_after_s)
    return info


def grpc_code(http_status: int) -> int:
    """Return the number of gRPC's code for an HTTP status."""
    return _CODES.get(http_status, _UNKNOWN)


def make_accepted(signal: Signal, encoding: BodyFormat, stored: StoredRecords) -> Response:
    """Answer that everything is stored, and what cannot be read."""
    if encoding is BodyFormat.OTLP_PROTOBUF:
        return _protobuf(200, export_response(signal, stored))
    return _json(200, MessageToDict(_response(signal, stored)))


def make_refused(encoding: BodyFormat, refusal: RequestRefused) -> Response:
    """Answer that the request was refused, and why. When to try again is in the header ``Retry-After``."""
    status = Status(code=grpc_code(refusal.status), message=refusal.message)
    if encoding is BodyFormat.OTLP_PROTOBUF:
        return _protobuf(refusal.status, status.SerializeToString())
    return _json(refusal.status, MessageToDict(status))


def _response(signal: Signal, stored: StoredRecords) -> Any:
    make, counted = _RESPONSES[signal]
    response = make()
    if stored.rejected or stored.message:
        setattr(response.partial_success, counted, stored.rejected)
        response.partial_success.error_message = stored.message
    return response


def _protobuf(status: int, content: bytes) -> Response:
    return Response(content, status, media_type=BodyFormat.OTLP_PROTOBUF.value)


def _json(status: int, content: object) -> Response:
    return Response(json.dumps(content, ensure_ascii=False).encode(), status, media_type=BodyFormat.OTLP_JSON.value)
