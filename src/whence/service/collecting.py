"""The collector: reports over HTTP, answered when the broker has stored them.

An answer with status 200 says that every record of the request is stored, those that cannot be read as well, with the
reason. With any other status the sender must not rely on anything, and may send the same again: the header ``Whence-Batch``
keeps what was stored the first time from being stored twice.
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

from whence.events.sizes import without_large
from whence.service import otlp_answers
from whence.service.access import Access
from whence.service.bodies import SENDER_STOPPED, check_lines, content_encoding, discard_body, gunzip, read_body
from whence.service.failures import refusal_headers
from whence.service.limits import Held, InFlight, Limits, Refused
from whence.service.messages import Message, messages_of
from whence.service.metrics import Metrics
from whence.service.otlp_answers import Signal
from whence.service.parsing import BodyFormat, Parser
from whence.service.publishing import Publisher

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
    """A request's reports, ready to be stored."""

    messages: list[Message]
    reports: int
    set_aside: int
    first_set_aside: list[dict[str, Any]]
    """Place and reason of the first ones."""


class Collector:
    """Takes requests with reports. Belongs to one event loop."""

    def __init__(self, publisher: Publisher, access: Access, limits: Limits, metrics: Metrics) -> None:
        self._publisher = publisher
        self._access = access
        self._limits = limits
        self._metrics = metrics
        self._parser = Parser(limits)
        self.in_flight = InFlight(limits)
        # More threads than cores would only take the interpreter's lock from each other.
        self._threads = ThreadPoolExecutor(max(2, min(os.cpu_count() or 2, 8)), thread_name_prefix="parsing")

    def load_compiled(self) -> None:
        """Load the quick readers beside the work; an end of the service does not wait for that."""
        threading.Thread(target=self._parser.load_compiled, name="loading readers", daemon=True).start()

    def close(self) -> None:
        """Free the threads; what they are at ends soon, and nobody waits for it."""
        self.in_flight.ending = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def otlp(self, request: Request, signal: Signal) -> Response:
        """Take a request of OpenTelemetry."""
        encoding = _OTLP_TYPES.get(_media_type(request), BodyFormat.OTLP_JSON)
        try:
            prepared = await self._collect(request, _OTLP_TYPES)
        except Refused as refusal:
            response = otlp_answers.refused(encoding, refusal)
            return await self._refuse(request, refusal, response)
        message = ""
        if prepared.set_aside:
            first = prepared.first_set_aside[0]["reason"]
            message = f"{prepared.set_aside} records cannot be read and are set aside, the first because of {first}"
        self._answered(request, 200)
        return otlp_answers.accepted(signal, encoding, rejected=prepared.set_aside, message=message)

    async def reports(self, request: Request) -> Response:
        """Take a request in one of our own formats."""
        try:
            prepared = await self._collect(request, _REPORT_TYPES)
        except Refused as refusal:
            content = {"reason": refusal.reason, "message": refusal.message}
            return await self._refuse(request, refusal, _json(refusal.status, content))
        self._answered(request, 200)
        shown = {name: getattr(prepared, name) for name in ("reports", "set_aside", "first_set_aside")}
        return _json(200, shown)

    async def _collect(self, request: Request, types: dict[str, BodyFormat]) -> Prepared:
        writer = self._access.writer(request)
        written_in = types.get(_media_type(request))
        if written_in is None:
            raise Refused(415, "content-type", f"Content-Type is one of {', '.join(types)}")
        packing = content_encoding(request)
        batch = request.headers.get("whence-batch")
        if batch is not None and _BATCH.fullmatch(batch) is None:
            raise Refused(400, "batch", "Whence-Batch is up to 128 plain characters")
        with self.in_flight.request() as held:
            body = await read_body(request, self._limits, held)
            self._metrics.count("body_bytes", len(body))
            prepare = partial(self._prepare, body, packing, written_in, writer, batch, held)
            del body
            prepared = await asyncio.get_running_loop().run_in_executor(self._threads, prepare)
            del prepare
            if prepared.messages:
                await self._publisher.publish(prepared.messages)
        self._metrics.count("reports", prepared.reports)
        self._metrics.count("set_aside", prepared.set_aside)
        return prepared

    def _prepare(
        self, body: bytes, packing: str | None, written_in: BodyFormat, writer: str, batch: str | None, held: Held
    ) -> Prepared:
        if packing == "gzip":
            body = gunzip(body, self._limits, held)
        if written_in is BodyFormat.LINES:
            check_lines(body, self._limits)
        held.check()
        rows = self._parser.rows(body, written_in, f"http:{writer}")
        if not len(rows):
            return Prepared([], 0, 0, [])
        rows = without_large(rows, self._limits.report_bytes)
        messages = messages_of(rows, _batch_id(writer, batch, body), most_bytes=self._publisher.most_bytes)
        held.grow(sum(len(message.payload) for message in messages))
        bad = len(rows) - rows["reason"].null_count
        shown: list[dict[str, Any]] = []
        if bad:
            first = rows.select(["place", "reason"]).filter(pc.is_valid(rows["reason"])).slice(0, _SHOWN)
            shown = [{**each, "reason": each["reason"][:_SHOWN_CHARACTERS]} for each in first.to_pylist()]
        return Prepared(messages, len(rows), bad, shown)

    async def _refuse(self, request: Request, refusal: Refused, response: Response) -> Response:
        if refusal.reason not in SENDER_STOPPED:
            await discard_body(request, self._limits)
        self._metrics.count("refused", reason=refusal.reason)
        self._answered(request, refusal.status)
        response.headers.update(refusal_headers(refusal))
        return response

    def _answered(self, request: Request, status: int) -> None:
        self._metrics.count("requests", path=request.url.path, status=str(status))


def collector_router(collector: Collector) -> APIRouter:
    """The addresses that reports are sent to."""
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
    """What a retry has in common with the first attempt, and nothing else has.

    The body's hash is part of it: a sender that counts its batches from one again after a restart loses nothing.
    """
    if batch is None:
        return uuid.uuid4().hex
    return f"{writer}:{batch}:{hashlib.blake2b(body, digest_size=12).hexdigest()}"


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _json(status: int, content: object) -> Response:
    return Response(json.dumps(content, ensure_ascii=False).encode(), status, media_type="application/json")
