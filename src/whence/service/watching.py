"""Whether the service is well: health, readiness, metrics."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from typing import Any, Final, Protocol

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from whence.clocks.errors import WhenceError
from whence.service.access import Access
from whence.service.limits import InFlight
from whence.service.metrics import CONTENT_TYPE, Labels, Metrics, gauge, stream_lines
from whence.service.publishing import Publisher

log = logging.getLogger("whence.service")

STALLED_S: Final = 120.0
"""A stream that has committed nothing for so long, while heartbeats come, does not advance."""


class Stated(Protocol):
    """A live history, as far as this module looks at it."""

    def state(self) -> dict[str, Any] | None:
        """What the stream says of itself; none before its first commit."""
        ...


class Watch:
    """Looks at the broker and the stream when asked. `expects_stream`: whether somebody reads the broker."""

    def __init__(
        self, publisher: Publisher, metrics: Metrics, in_flight: InFlight, live: Stated | None, *, expects_stream: bool
    ) -> None:
        self._publisher = publisher
        self._metrics = metrics
        self._in_flight = in_flight
        self._live = live
        self._expects_stream = expects_stream
        self._started = time.time()

    async def state(self) -> dict[str, Any] | None:
        """The stream's state, or none where there is none or it cannot be read now."""
        if self._live is None:
            return None
        try:
            return await asyncio.to_thread(self._live.state)
        except (WhenceError, OSError, ValueError) as fault:
            log.warning("the state of the stream cannot be read: %s", type(fault).__name__)
            return None

    async def readiness(self) -> tuple[bool, dict[str, str]]:
        """Whether reports are taken and read, and what is so or not."""
        reached = await self._publisher.info() is not None
        found = {"broker": "ready" if reached else "unreachable"}
        stalled = False
        if self._expects_stream:
            state = await self.state()
            updated = (state or {}).get("updated")
            last = updated / 1e9 if isinstance(updated, int | float) else 0.0
            stalled = time.time() - max(last, self._started) > STALLED_S
            found["stream"] = "stalled" if stalled else "advancing" if last > self._started else "starting"
        return reached and not stalled, found

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

    @router.get("/readyz", summary="Whether reports are taken and read on")
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
