"""Whether the service is well: health, readiness, metrics."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from whence.clocks.errors import WhenceError
from whence.history.manifest import Stream
from whence.service.access import Access
from whence.service.limits import InFlight
from whence.service.metrics import CONTENT_TYPE, Labels, Metrics, gauge, stream_lines
from whence.service.publishing import Publisher

log = logging.getLogger("whence.service")

STALLED_S: Final = 120.0
"""A stream that has committed nothing for so long, while heartbeats come, does not advance. Before its first report there is
nothing to commit."""


class Stated(Protocol):
    """A live history, as far as this module looks at it."""

    def state(self) -> Stream | None:
        """What the stream says of itself; none before its first commit."""
        ...


class Watch:
    """Looks at the broker and the stream when asked. `expects_stream`: whether somebody reads the broker."""

    def __init__(
        self,
        publisher: Publisher,
        metrics: Metrics,
        in_flight: InFlight,
        live: Stated | None,
        *,
        expects_stream: bool,
        stream_problem: Callable[[], str | None] = lambda: None,
        elapsed_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._publisher = publisher
        self._metrics = metrics
        self._in_flight = in_flight
        self._live = live
        self._expects_stream = expects_stream
        # Not the loop's own threads: names of webhooks are looked up there, which may hang.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="watching")
        self._looking: asyncio.Task[tuple[bool, dict[str, str]]] | None = None
        self._stream_problem = stream_problem
        self._elapsed_s = elapsed_s
        self._first_version: int | None = None
        self._version: int | None = None
        self._advanced_s = elapsed_s()
        """When the stream was last seen to have committed, or could not have."""

    async def state(self) -> Stream | None:
        """The stream's state, or none where there is none or it cannot be read now."""
        if self._live is None:
            return None
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._live.state)
        except (WhenceError, OSError, ValueError) as fault:
            log.warning("the state of the stream cannot be read: %s", type(fault).__name__)
            return None

    async def readiness(self) -> tuple[bool, dict[str, str]]:
        """Whether reports are stored and read on, and what is so or not. That none come is no fault.

        Anybody may ask, so those who ask at the same time are told of one look.
        """
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())
        return await asyncio.shield(self._looking)

    async def _look(self) -> tuple[bool, dict[str, str]]:
        reached = await self._publisher.info() is not None
        found = {"broker": "ready" if reached else "unreachable"}
        room = self._publisher.has_room
        if not room:
            found["disk"] = "full"
        alive = True
        if self._expects_stream:
            found["stream"] = await self._stream(can_advance=reached and room)
            alive = found["stream"] not in ("stalled", "failing")
            if (problem := self._stream_problem()) is not None:
                found["reason"] = problem
        return reached and room and alive, found

    async def _stream(self, *, can_advance: bool) -> str:
        """How it does: idle before the first report, starting, advancing, stalled or failing."""
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

    async def metrics_text(self) -> str:
        """All that is counted."""
        lines = [*self._metrics.lines()]
        held: list[tuple[float, Labels]] = [(self._in_flight.requests, ())]
        lines += gauge("whence_collector_in_flight", "Requests that are being read, parsed or stored.", held)
        info = await self._publisher.info()
        lines += gauge("whence_broker_connected", "Whether the broker answers.", [(info is not None, ())])
        if info is not None:
            lines += gauge("whence_broker_messages", "Messages that the broker holds.", [(info.state.messages, ())])
            lines += gauge("whence_broker_bytes", "Bytes that the broker holds.", [(info.state.bytes, ())])
        lines += stream_lines(await self.state())
        return "\n".join(lines) + "\n"


def watching_router(watch: Watch, access: Access) -> APIRouter:
    """Health and readiness for everybody, metrics for readers."""
    router = APIRouter(tags=["health"])

    @router.get("/healthz", summary="Whether the process is alive")
    async def healthz() -> Response:
        return _json(200, {"status": "alive"})

    @router.get("/readyz", summary="Whether reports are stored and read on")
    async def readyz() -> Response:
        ready, found = await watch.readiness()
        return _json(200 if ready else 503, found)

    @router.get("/metrics", summary="Counts, for Prometheus")
    async def metrics(request: Request) -> Response:
        access.reader(request)
        return Response(await watch.metrics_text(), headers={"content-type": CONTENT_TYPE})

    return router


def _json(status: int, content: object) -> Response:
    return Response(json.dumps(content).encode(), status, media_type="application/json")
