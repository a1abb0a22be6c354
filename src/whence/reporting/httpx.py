"""httpx: a transport that sends a cause with every request and receives one from every response.

::

    httpx.Client(transport=ReportingTransport(reporter))
    httpx.AsyncClient(transport=AsyncReportingTransport(reporter))

A transport, and no event hook: hooks are not called when no response comes. Redirects are requests of their own.
"""

from __future__ import annotations

import httpx

from whence.reporting.carriers import HEADER
from whence.reporting.reporter import Reporter


class ReportingTransport(httpx.BaseTransport):
    """Reports what goes through another transport, httpx's own unless given."""

    def __init__(self, reporter: Reporter, *, transport: httpx.BaseTransport | None = None) -> None:
        self._calls = _Calls(reporter)
        self._transport = transport or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send, and report what came back."""
        self._calls.sent(request)
        try:
            response = self._transport.handle_request(request)
        except BaseException as error:
            self._calls.failed(request, error)
            raise
        self._calls.answered(request, response)
        return response

    def close(self) -> None:
        """Close the transport; the reporter goes on."""
        self._transport.close()


class AsyncReportingTransport(httpx.AsyncBaseTransport):
    """The same for asynchronous clients."""

    def __init__(self, reporter: Reporter, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._calls = _Calls(reporter)
        self._transport = transport or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send, and report what came back."""
        self._calls.sent(request)
        try:
            response = await self._transport.handle_async_request(request)
        except BaseException as error:
            self._calls.failed(request, error)
            raise
        self._calls.answered(request, response)
        return response

    async def aclose(self) -> None:
        """Close the transport; the reporter goes on."""
        await self._transport.aclose()


class _Calls:
    """The events of a call, seen by the client."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def sent(self, request: httpx.Request) -> None:
        # A request that is sent again is another message: what it carried before would name another cause.
        request.headers.pop(HEADER, None)
        message = self._reporter.sent(f"call {_what(request)}", peer=request.url.netloc.decode("ascii", "replace"))
        if message is not None:
            request.headers[HEADER] = message.to_text()

    def answered(self, request: httpx.Request, response: httpx.Response) -> None:
        message = self._reporter.extract(response.headers.multi_items())
        self._reporter.received(message, f"answered {_what(request)}", **{"http.status": response.status_code})

    def failed(self, request: httpx.Request, error: BaseException) -> None:
        self._reporter.unanswered(f"answered {_what(request)}", error=type(error).__qualname__)


def _what(request: httpx.Request) -> str:
    """Without the query, which may hold what is nobody's business."""
    return f"{request.method} {request.url.path}"
