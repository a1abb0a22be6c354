"""Report requests and responses of an ASGI application; read and write the cause in their headers.

    >>> from fastapi import FastAPI
    >>> app = ReportingMiddleware(FastAPI(), reporter)

A call has four events: the client's ``call``, ``serve`` and ``answer`` here, and the client's ``answered``. Each request is
a line of its own, such as ``GET /orders #k2m7xe-17``. The middleware works with any ASGI application and imports none. Put
it outermost, so that answers of other middleware carry a cause as well.

HAZARDS:

- the response's header leaves before its body. Events reported while a body is streamed are no causes of the client's
  ``answered``;
- work for a request in another task or thread is on a line of its own. FastAPI runs functions that are not ``async`` in
  such a thread. ``answer`` follows that line only if it was joined (`Reporter.join`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from ledto.reporting.headers import HEADER
from ledto.reporting.reporter import Reporter

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_STARTS = ("http.response.start", "websocket.accept", "websocket.http.response.start")
_HEADER = HEADER.encode()


class ReportingMiddleware:
    """An ASGI application that reports the requests of another one. Requests without a cause are served as well."""

    def __init__(self, app: App, reporter: Reporter, *, accept_causes: bool = True) -> None:
        """Wrap `app`. Pass ``accept_causes=False`` to ignore the header where strangers can send requests."""
        self._app = app
        self._reporter = reporter
        self._accept_causes = accept_causes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Pass other scopes, such as ``lifespan``, on unchanged."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        request = f"{scope.get('method', 'WEBSOCKET')} {scope.get('path', '')}"
        with self._reporter.lines.request(request):
            await self._serve(request, scope, receive, send)

    async def _serve(self, request: str, scope: Scope, receive: Receive, send: Send) -> None:
        reporter = self._reporter
        message = reporter.extract(scope.get("headers")) if self._accept_causes else None
        reporter.received(message, f"serve {request}")
        has_answered = False

        async def answer(event: MutableMapping[str, Any]) -> None:
            nonlocal has_answered
            if event["type"] in _STARTS and not has_answered:
                has_answered = True
                attributes = {"http.status": event["status"]} if "status" in event else {}
                sent = reporter.sent(f"answer {request}", **attributes)
                if sent is not None:
                    headers = [pair for pair in event.get("headers", ()) if bytes(pair[0]).lower() != _HEADER]
                    event = {**event, "headers": [*headers, (_HEADER, sent.to_text().encode())]}
            await send(event)

        try:
            await self._app(scope, receive, answer)
        except BaseException as error:
            if not has_answered:
                reporter.report(f"failed {request}", error=type(error).__qualname__)
            raise
        if not has_answered:
            reporter.report(f"abandoned {request}")
