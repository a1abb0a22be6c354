"""Answer and log what goes wrong. Neither answers nor the log have paths, tokens or tracebacks."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ledto.errors import is_full
from ledto.service.http.limits import RETRY_AFTER_S, RequestRefused
from ledto.service.metrics import Metrics

log = logging.getLogger("ledto.service")


def refusal_headers(refusal: RequestRefused) -> dict[str, str]:
    """Make the headers that say when to try again and that a token is needed."""
    headers = {}
    if refusal.retry_after_s is not None:
        headers["Retry-After"] = str(refusal.retry_after_s)
    if refusal.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return headers


async def answer_refusal(request: Request, refusal: Exception) -> Response:
    """Answer a request that a router refused by raising `RequestRefused`. A FastAPI exception handler."""
    if not isinstance(refusal, RequestRefused):
        raise refusal
    content = {"reason": refusal.reason, "message": refusal.message}
    return Response(
        json.dumps(content).encode(), refusal.status, refusal_headers(refusal), media_type="application/json"
    )


def unexpected_failure(fault: Exception, metrics: Metrics) -> RequestRefused:
    """Count and log an exception that nobody expected; return the answer, with an id that the log has, too."""
    error_id = uuid.uuid4().hex[:12]
    metrics.count("errors")
    log.error("unexpected %s while answering, id %s", type(fault).__name__, error_id)
    return RequestRefused(500, "error", f"the service failed; its log says more under the id {error_id}")


class Guard:
    """ASGI middleware that refuses unknown hosts and answers exceptions.

    The answer is 503 if the disk is full, and else 500 with an id that the log has, too.

    `hosts` are the allowed values of the header Host, without a port; None allows all. A web page can make a browser call
    loopback under the page's own host name, but it cannot change the header that shows this name.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics, hosts: Sequence[str] | None = None) -> None:
        self._app = app
        self._metrics = metrics
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on; answer if that fails."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._hosts is not None and _host(scope) not in self._hosts:
            refusal = RequestRefused(403, "host", "this service is called by another name")
            await (await answer_refusal(Request(scope), refusal))(scope, receive, send)
            return
        started = False

        async def send_noting_start(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, send_noting_start)
        except Exception as fault:
            if is_full(fault):
                self._metrics.count("refused", reason="disk-full")
                log.warning("the disk is full")
                refusal = RequestRefused(
                    503, "disk-full", "the disk is full; send this again later", retry_after_s=RETRY_AFTER_S
                )
            else:
                refusal = unexpected_failure(fault, self._metrics)
            if not started:
                await (await answer_refusal(Request(scope), refusal))(scope, receive, send)


def _host(scope: Scope) -> str:
    """Return the header Host in lower case, without the port; empty if there is none."""
    for name, value in scope["headers"]:
        if name == b"host":
            host: str = value.decode("latin-1").lower()
            return host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    return ""
