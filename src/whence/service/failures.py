"""What a caller is told when something goes wrong, and what the log keeps: neither has paths, tokens or trace-backs."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whence.service.limits import Refused
from whence.service.metrics import Metrics

log = logging.getLogger("whence.service")


def refusal_headers(refusal: Refused) -> dict[str, str]:
    """When to come again, and how to say who one is."""
    headers = {}
    if refusal.retry_after_s is not None:
        headers["Retry-After"] = str(refusal.retry_after_s)
    if refusal.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return headers


async def answer_refusal(request: Request, refusal: Exception) -> Response:
    """The answer to a request that a router refused by raising `Refused`."""
    if not isinstance(refusal, Refused):
        raise refusal
    content = {"reason": refusal.reason, "message": refusal.message}
    return Response(
        json.dumps(content).encode(), refusal.status, refusal_headers(refusal), media_type="application/json"
    )


class Guard:
    """ASGI middleware: refuses strange hosts, and turns what no handler expected into an answer with an id.

    `hosts` are the names under which the service may be called, without a port; none is any. A page in a browser can reach
    loopback by a name of its own, but cannot hide that name.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics, hosts: Sequence[str] | None = None) -> None:
        self._app = app
        self._metrics = metrics
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the call on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if self._hosts is not None and _host(scope) not in self._hosts:
            refusal = Refused(403, "host", "this service is called by another name")
            await (await answer_refusal(Request(scope), refusal))(scope, receive, send)
            return
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except Exception as fault:
            number = uuid.uuid4().hex[:12]
            self._metrics.count("errors")
            log.error("unexpected %s while answering, id %s", type(fault).__name__, number)
            if not started:
                content = {"reason": "error", "message": f"something went wrong here; the log has it as {number}"}
                response = Response(json.dumps(content).encode(), 500, media_type="application/json")
                await response(scope, receive, send)


def _host(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"host":
            host: str = value.decode("latin-1").lower()
            return host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    return ""
