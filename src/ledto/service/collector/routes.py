"""Collect reports over HTTP; answer once the broker has stored them.

Status 200 says that every record of the request is stored; those that cannot be read are stored with the reason. After any
other status, records may be stored or not, and the sender may send the same request again. If both have the same header
``Ledto-Batch``, no record is stored twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow.compute as pc
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ledto.events.sizes import quarantine_large
from ledto.service.broker.messages import BrokerMessage, cut_into_messages
from ledto.service.broker.publisher import Publisher
from ledto.service.collector import otlp_responses
from ledto.service.collector.otlp_responses import Signal
from ledto.service.collector.parse import BodyFormat, Parser
from ledto.service.http.bodies import SENDER_STOPPED, check_lines, content_encoding, discard_body, gunzip, read_body
from ledto.service.http.limits import HeldBytes, InFlight, Limits, RequestRefused
from ledto.service.http.problems import refusal_headers
from ledto.service.http.tokens import Access
from ledto.service.metrics import Metrics

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
_BATCH: Final = re.compile(r"[\x21-\x7e]{1,128}")
_SHOWN: Final = 10
_SHOWN_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request's reports as messages, ready to be stored."""

    messages: list[BrokerMessage]
    reports: int
    quarantined: int
    """How many of the reports cannot be read."""
    first_quarantined: list[dict[str, Any]]
    """Place and reason of the first of those."""


class Collector:
    """Handles requests with reports. Belongs to one event loop."""

    def __init__(self, publisher: Publisher, access: Access, limits: Limits, metrics: Metrics) -> None:
        self._publisher = publisher
        self._access = access
        self._limits = limits
        self._metrics = metrics
        self._parser = Parser(limits)
        self.in_flight = InFlight(limits)
        # More threads than cores would only compete for the interpreter's lock.
        self._threads = ThreadPoolExecutor(max(2, min(os.cpu_count() or 2, 8)), thread_name_prefix="parsing")

    def load_compiled(self) -> None:
        """Start to load the compiled reader in a thread; the service can end without waiting for it."""
        threading.Thread(target=self._parser.load_compiled, name="loading readers", daemon=True).start()

    def close(self) -> None:
        """Release the threads without waiting; their work stops at its next `HeldBytes.check`."""
        self.in_flight.ending = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def otlp(self, request: Request, signal: Signal) -> Response:
        """Handle a request of OpenTelemetry."""
        encoding = _OTLP_TYPES.get(_media_type(request), BodyFormat.OTLP_JSON)
        try:
            prepared = await self._collect(request, _OTLP_TYPES)
        except RequestRefused as refusal:
            response = otlp_responses.make_refused(encoding, refusal)
            return await self._refuse(request, refusal, response)
        message = ""
        if prepared.quarantined:
            first = prepared.first_quarantined[0]["reason"]
            message = f"{prepared.quarantined} records cannot be read and are quarantined, the first because of {first}"
        self._count_answer(request, 200)
        return otlp_responses.make_accepted(signal, encoding, rejected=prepared.quarantined, message=message)

    async def reports(self, request: Request) -> Response:
        """Handle a request with reports as JSON lines."""
        try:
            prepared = await self._collect(request, _REPORT_TYPES)
        except RequestRefused as refusal:
            content = {"reason": refusal.reason, "message": refusal.message}
            return await self._refuse(request, refusal, _json(refusal.status, content))
        self._count_answer(request, 200)
        content = {name: getattr(prepared, name) for name in ("reports", "quarantined", "first_quarantined")}
        return _json(200, content)

    async def _collect(self, request: Request, types: dict[str, BodyFormat]) -> Prepared:
        """Read, parse and store the reports of a request. Raises `RequestRefused`."""
        writer = self._access.writer(request)
        body_format = types.get(_media_type(request))
        if body_format is None:
            raise RequestRefused(415, "content-type", f"Content-Type is one of {', '.join(types)}")
        compression = content_encoding(request)
        batch = request.headers.get("ledto-batch")
        if batch is not None and _BATCH.fullmatch(batch) is None:
            raise RequestRefused(400, "batch", "Ledto-Batch is up to 128 plain characters")
        with self.in_flight.request() as held:
            body = await read_body(request, self._limits, held)
            self._metrics.count("body_bytes", len(body))
            prepare = partial(self._prepare, body, compression, body_format, writer, batch, held)
            # `prepare` is the only one to hold the body, so that memory is free once it is parsed.
            del body
            prepared = await asyncio.get_running_loop().run_in_executor(self._threads, prepare)
            del prepare
            if prepared.messages:
                await self._publisher.publish(prepared.messages)
        self._metrics.count("reports", prepared.reports)
        self._metrics.count("quarantined", prepared.quarantined)
        return prepared

    def _prepare(
        self,
        body: bytes,
        compression: str | None,
        body_format: BodyFormat,
        writer: str,
        batch: str | None,
        held: HeldBytes,
    ) -> Prepared:
        """Decompress and parse a body, and cut its rows into messages. Runs in a thread."""
        if compression == "gzip":
            body = gunzip(body, self._limits, held)
        if body_format is BodyFormat.LINES:
            check_lines(body, self._limits)
        held.check()
        rows = self._parser.parse(body, body_format, f"http:{writer}")
        if not len(rows):
            return Prepared([], 0, 0, [])
        rows = quarantine_large(rows, self._limits.report_bytes)
        messages = cut_into_messages(rows, _batch_id(writer, batch, body), most_bytes=self._publisher.most_bytes)
        held.grow(sum(len(message.payload) for message in messages))
        bad = len(rows) - rows["reason"].null_count
        first_bad: list[dict[str, Any]] = []
        if bad:
            first_rows = rows.select(["place", "reason"]).filter(pc.is_valid(rows["reason"])).slice(0, _SHOWN)
            first_bad = [{**row, "reason": row["reason"][:_SHOWN_CHARACTERS]} for row in first_rows.to_pylist()]
        return Prepared(messages, len(rows), bad, first_bad)

    async def _refuse(self, request: Request, refusal: RequestRefused, response: Response) -> Response:
        if refusal.reason not in SENDER_STOPPED:
            await discard_body(request, self._limits)
        self._metrics.count("refused", reason=refusal.reason)
        self._count_answer(request, refusal.status)
        response.headers.update(refusal_headers(refusal))
        return response

    def _count_answer(self, request: Request, status: int) -> None:
        self._metrics.count("requests", path=request.url.path, status=str(status))


def collector_router(collector: Collector) -> APIRouter:
    """Make the routes that reports are sent to."""
    router = APIRouter(tags=["collector"])

    @router.post("/v1/traces", summary="Spans, as OTLP/HTTP")
    async def traces(request: Request) -> Response:
        return await collector.otlp(request, "traces")

    @router.post("/v1/logs", summary="Log records, as OTLP/HTTP")
    async def logs(request: Request) -> Response:
        return await collector.otlp(request, "logs")

    @router.post("/v1/reports", summary="Reports as JSON lines")
    async def reports(request: Request) -> Response:
        return await collector.reports(request)

    return router


def _batch_id(writer: str, batch: str | None, body: bytes) -> str:
    """Return an id that only retries of the same request share.

    It contains the body's hash: a sender that restarts and numbers its batches from 1 again loses nothing.
    """
    if batch is None:
        return uuid.uuid4().hex
    return f"{writer}:{batch}:{hashlib.blake2b(body, digest_size=12).hexdigest()}"


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _json(status: int, content: object) -> Response:
    return Response(json.dumps(content, ensure_ascii=False).encode(), status, media_type="application/json")
