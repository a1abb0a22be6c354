"""Collect reports over HTTP; answer once the broker has stored them.

Status 200 says that every record of the request is stored; those that cannot be read are stored with the reason. After any
other status, records may be stored or not, and the sender may send the same request again. If both have the same header
``Ledto-Batch``, no record is stored twice.
"""

from __future__ import annotations

import json
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ledto.service.collector import otlp_responses
from ledto.service.collector.collector import BATCH_HEADER, Collector, SentBody, check_batch
from ledto.service.collector.otlp_responses import Signal
from ledto.service.collector.parse import BodyFormat
from ledto.service.http.bodies import SENDER_STOPPED, content_encoding, discard_body, read_body
from ledto.service.http.limits import HeldBytes, RequestRefused
from ledto.service.http.problems import refusal_headers
from ledto.service.http.tokens import Access

_OTLP_TYPES: Final = {
    "application/json": BodyFormat.OTLP_JSON,
    "application/x-protobuf": BodyFormat.OTLP_PROTOBUF,
    "application/protobuf": BodyFormat.OTLP_PROTOBUF,
}
_REPORT_TYPES: Final = {
    "application/x-ndjson": BodyFormat.LINES,
    "application/jsonl": BodyFormat.LINES,
    "application/json": BodyFormat.LINES,
}


class HttpCollector:
    """Answers HTTP requests with reports. Belongs to one event loop."""

    def __init__(self, collector: Collector, access: Access) -> None:
        self._collector = collector
        self._access = access
        self._limits = collector.limits
        self._metrics = collector.metrics

    async def otlp(self, request: Request, signal: Signal) -> Response:
        """Handle a request of OpenTelemetry."""
        encoding = _OTLP_TYPES.get(_media_type(request), BodyFormat.OTLP_JSON)
        try:
            stored = await self._collector.export(signal, self._sent_body(request, _OTLP_TYPES))
        except RequestRefused as refusal:
            response = otlp_responses.make_refused(encoding, refusal)
            return await self._refuse(request, refusal, response)
        self._count_answer(request, 200)
        return otlp_responses.make_accepted(signal, encoding, stored)

    async def reports(self, request: Request) -> Response:
        """Handle a request with reports as JSON lines."""
        try:
            prepared = await self._collector.store(self._sent_body(request, _REPORT_TYPES))
        except RequestRefused as refusal:
            content = {"reason": refusal.reason, "message": refusal.message}
            return await self._refuse(request, refusal, _json(refusal.status, content))
        self._count_answer(request, 200)
        content = {name: getattr(prepared, name) for name in ("reports", "quarantined", "first_quarantined")}
        return _json(200, content)

    def _sent_body(self, request: Request, types: dict[str, BodyFormat]) -> SentBody:
        """Check what a request says of itself. Raises `RequestRefused`."""
        writer = self._access.writer(request)
        body_format = types.get(_media_type(request))
        if body_format is None:
            raise RequestRefused(415, "content-type", f"Content-Type is one of {', '.join(types)}")
        is_gzip = content_encoding(request) == "gzip"

        async def read(held: HeldBytes) -> tuple[bytes, bool]:
            return await read_body(request, self._limits, held), is_gzip

        return SentBody(writer, body_format, check_batch(request.headers.get(BATCH_HEADER)), read)

    async def _refuse(self, request: Request, refusal: RequestRefused, response: Response) -> Response:
        if refusal.reason not in SENDER_STOPPED:
            await discard_body(request, self._limits)
        self._metrics.count("refused", reason=refusal.reason)
        self._count_answer(request, refusal.status)
        response.headers.update(refusal_headers(refusal))
        return response

    def _count_answer(self, request: Request, status: int) -> None:
        self._metrics.count("requests", path=request.url.path, status=str(status))


def collector_router(collector: Collector, access: Access) -> APIRouter:
    """Make the routes that reports are sent to."""
    router = APIRouter(tags=["collector"])
    http = HttpCollector(collector, access)

    @router.post("/v1/traces", summary="Spans, as OTLP/HTTP")
    async def traces(request: Request) -> Response:
        return await http.otlp(request, "traces")

    @router.post("/v1/logs", summary="Log records, as OTLP/HTTP")
    async def logs(request: Request) -> Response:
        return await http.otlp(request, "logs")

    @router.post("/v1/metrics", summary="Metrics, as OTLP/HTTP: answered, counted and not kept")
    async def metrics(request: Request) -> Response:
        return await http.otlp(request, "metrics")

    @router.post("/v1/reports", summary="Reports as JSON lines")
    async def reports(request: Request) -> Response:
        return await http.reports(request)

    return router


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _json(status: int, content: object) -> Response:
    return Response(json.dumps(content, ensure_ascii=False).encode(), status, media_type="application/json")
