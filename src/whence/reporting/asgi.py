"""ASGI middleware: a request is received from its headers, the response is sent in its own.

::

    app = ReportingMiddleware(app, reporter)

Four events make a call: the client's ``call``, here ``serve`` and ``answer``, the client's ``answered``. Each request is a
line of its own, such as ``GET /orders #k2m7xe-17``. It works with any ASGI application and imports none. Put it outermost,
so that answers of other middleware carry a cause as well.

HAZARDS:

- the response's header leaves before its body. What the application reports while it streams a body is not known to the
  client's ``answered``;
- what the application does for a request in another task or thread, as FastAPI does with functions that are not ``async``,
  is on a line of its own. ``answer`` is told to come after it only where it was joined (`Reporter.join`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from whence.reporting.carriers import HEADER
from whence.reporting.reporter import Reporter

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_STARTS = ("http.response.start", "websocket.accept", "websocket.http.response.start")
_HEADER = HEADER.encode()


class ReportingMiddleware:
    """Wraps an ASGI application. Requests that carry no cause are served alike, and reported as such."""

    def __init__(self, app: App, reporter: Reporter, *, accept_causes: bool = True) -> None:
        """`accept_causes`: whether to believe the header; not where strangers can send requests."""
        self._app = app
        self._reporter = reporter
        self._accept_causes = accept_causes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or whatever else the server asks for."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        what = f"{scope.get('method', 'WEBSOCKET')} {scope.get('path', '')}"
        with self._reporter.lines.request(what):
            await self._serve(what, scope, receive, send)

    async def _serve(self, what: str, scope: Scope, receive: Receive, send: Send) -> None:
        reporter = self._reporter
        message = reporter.extract(scope.get("headers")) if self._accept_causes else None
        reporter.received(message, f"serve {what}")
        has_answered = False

        async def answer(event: MutableMapping[str, Any]) -> None:
            nonlocal has_answered
            if event["type"] in _STARTS and not has_answered:
                has_answered = True
                attributes = {"http.status": event["status"]} if "status" in event else {}
                sent = reporter.sent(f"answer {what}", **attributes)
                if sent is not None:
                    headers = [pair for pair in event.get("headers", ()) if bytes(pair[0]).lower() != _HEADER]
                    event = {**event, "headers": [*headers, (_HEADER, sent.to_text().encode())]}
            await send(event)

        try:
            await self._app(scope, receive, answer)
        except BaseException as error:
            if not has_answered:
                reporter.report(f"failed {what}", error=type(error).__qualname__)
            raise
        if not has_answered:
            reporter.report(f"abandoned {what}")
