"""Answer whether the service is alive and ready, and show its metrics."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from ledto.errors import LedtoError
from ledto.history.manifest import Stream
from ledto.service.broker.publisher import Publisher
from ledto.service.http.limits import InFlight
from ledto.service.http.tokens import Access
from ledto.service.metrics import CONTENT_TYPE, Metrics, gauge, stream_metrics

log = logging.getLogger("ledto.service")

STALLED_S: Final = 120.0
"""Seconds without a commit after which a stream counts as stalled. It commits heartbeats, too, but nothing before the first
report."""


class StreamStatus(Protocol):
    """What health checks need of `ledto.live.LiveHistory`."""

    def state(self) -> Stream | None:
        """Return the stream's state as it was committed last; None before its first commit."""
        ...


class HealthWatch:
    """Checks the broker and the stream on request. Belongs to one event loop.

    `expects_stream` says whether a stream reads the broker; `grpc_is_up` is None if there is no gRPC.
    """

    def __init__(
        self,
        publisher: Publisher,
        metrics: Metrics,
        in_flight: InFlight,
        live: StreamStatus | None,
        *,
        expects_stream: bool,
        stream_problem: Callable[[], str | None] = lambda: None,
        grpc_is_up: Callable[[], Awaitable[bool]] | None = None,
        elapsed_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._publisher = publisher
        self._metrics = metrics
        self._in_flight = in_flight
        self._live = live
        self._expects_stream = expects_stream
        # Not the event loop's own threads: they resolve the host names of webhooks, which may hang.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="watching")
        self._checking: asyncio.Task[tuple[bool, dict[str, str]]] | None = None
        self._stream_problem = stream_problem
        self._grpc_is_up = grpc_is_up
        self._elapsed_s = elapsed_s
        self._first_version: int | None = None
        self._version: int | None = None
        self._advanced_s = elapsed_s()
        """When a check last found a new commit, or found that no commit was possible."""

    async def state(self) -> Stream | None:
        """Read the stream's state; None if there is none, or if it cannot be read now."""
        if self._live is None:
            return None
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._live.state)
        except (LedtoError, OSError, ValueError) as fault:
            log.warning("the state of the stream cannot be read: %s", type(fault).__name__)
            return None

    async def readiness(self) -> tuple[bool, dict[str, str]]:
        """Check whether reports are stored and processed; return that, and the state of each part.

        Nothing is wrong if no reports come. Anybody may ask, so callers at the same time share one check.
        """
        if self._checking is None or self._checking.done():
            self._checking = asyncio.create_task(self._check())
        return await asyncio.shield(self._checking)

    async def _check(self) -> tuple[bool, dict[str, str]]:
        reached = await self._publisher.info() is not None
        states = {"broker": "ready" if reached else "unreachable"}
        room = self._publisher.has_room
        if not room:
            states["disk"] = "full"
        alive = True
        if self._grpc_is_up is not None:
            alive = await self._grpc_is_up()
            states["grpc"] = "ready" if alive else "down"
        if self._expects_stream:
            states["stream"] = await self._check_stream(can_advance=reached and room)
            alive = alive and states["stream"] not in ("stalled", "failing")
            if (problem := self._stream_problem()) is not None:
                states["reason"] = problem
        return reached and room and alive, states

    async def _check_stream(self, *, can_advance: bool) -> str:
        """Return the stream's state: idle before the first report, starting, advancing, stalled or failing."""
        version = 0 if (state := await self.state()) is None else state.version
        now_s = self._elapsed_s()
        if version != self._version or not can_advance:
            self._advanced_s = now_s
        if self._first_version is None:
            self._first_version = version
        self._version = version
        if self._stream_problem() is not None:
            return "failing"
        if not version:
            first_s = self._publisher.first_report_s
            if first_s is None:
                return "idle"
            return "stalled" if now_s - max(first_s, self._advanced_s) > STALLED_S else "starting"
        if now_s - self._advanced_s > STALLED_S:
            return "stalled"
        return "starting" if version == self._first_version else "advancing"

    async def metrics_text(self) -> bytes:
        """Write all metrics in Prometheus's text format."""
        in_flight = self._in_flight.requests
        more = [gauge("ledto_collector_in_flight", "Requests that are being read, parsed or stored.", in_flight)]
        info = await self._publisher.info()
        more.append(gauge("ledto_broker_connected", "Whether the broker answers.", info is not None))
        if info is not None:
            more.append(gauge("ledto_broker_messages", "Messages in the broker.", info.state.messages))
            more.append(gauge("ledto_broker_bytes", "Bytes in the broker.", info.state.bytes))
        more += stream_metrics(await self.state())
        return self._metrics.write(more)


def watching_router(watch: HealthWatch, access: Access) -> APIRouter:
    """Make the routes of health and readiness, which need no token, and of metrics, for readers."""
    router = APIRouter(tags=["health"])

    @router.get("/healthz", summary="Whether the process is alive")
    async def healthz() -> Response:
        return _json(200, {"status": "alive"})

    @router.get("/readyz", summary="Whether reports are stored and processed")
    async def readyz() -> Response:
        ready, states = await watch.readiness()
        return _json(200 if ready else 503, states)

    @router.get("/metrics", summary="Counts, for Prometheus")
    async def metrics(request: Request) -> Response:
        access.reader(request)
        return Response(await watch.metrics_text(), headers={"content-type": CONTENT_TYPE})

    return router


def _json(status: int, content: object) -> Response:
    return Response(json.dumps(content).encode(), status, media_type="application/json")
