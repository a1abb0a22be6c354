"""Report the requests of httpx clients: send a cause with each request, and read one from each response.

    >>> client = httpx.Client(transport=ReportingTransport(reporter))
    >>> async_client = httpx.AsyncClient(transport=AsyncReportingTransport(reporter))

These are transports, not event hooks: httpx calls no hook when no response comes. A redirect is a request of its own.
"""

from __future__ import annotations

import httpx

from ledto.reporting.headers import HEADER
from ledto.reporting.reporter import Reporter


class ReportingTransport(httpx.BaseTransport):
    """A transport that reports the requests of another one, by default of httpx's own."""

    def __init__(self, reporter: Reporter, *, transport: httpx.BaseTransport | None = None) -> None:
        self._calls = _Calls(reporter)
        self._transport = transport or httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; report it and its response or failure."""
        self._calls.report_request(request)
        try:
            response = self._transport.handle_request(request)
        except BaseException as error:
            self._calls.report_failure(request, error)
            raise
        self._calls.report_response(request, response)
        return response

    def close(self) -> None:
        """Close the wrapped transport. The reporter stays open."""
        self._transport.close()


class AsyncReportingTransport(httpx.AsyncBaseTransport):
    """A `ReportingTransport` for asynchronous clients."""

    def __init__(self, reporter: Reporter, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._calls = _Calls(reporter)
        self._transport = transport or httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; report it and its response or failure."""
        self._calls.report_request(request)
        try:
            response = await self._transport.handle_async_request(request)
        except BaseException as error:
            self._calls.report_failure(request, error)
            raise
        self._calls.report_response(request, response)
        return response

    async def aclose(self) -> None:
        """Close the wrapped transport. The reporter stays open."""
        await self._transport.aclose()


class _Calls:
    """The events that a client reports of its calls."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def report_request(self, request: httpx.Request) -> None:
        # A request that is sent again is another message, and its old header would name the wrong cause.
        request.headers.pop(HEADER, None)
        message = self._reporter.sent(
            f"call {_method_and_path(request)}", peer=request.url.netloc.decode("ascii", "replace")
        )
        if message is not None:
            request.headers[HEADER] = message.to_text()

    def report_response(self, request: httpx.Request, response: httpx.Response) -> None:
        message = self._reporter.extract(response.headers.multi_items())
        self._reporter.received(
            message, f"answered {_method_and_path(request)}", **{"http.status": response.status_code}
        )

    def report_failure(self, request: httpx.Request, error: BaseException) -> None:
        self._reporter.unanswered(f"answered {_method_and_path(request)}", error=type(error).__qualname__)


def _method_and_path(request: httpx.Request) -> str:
    """Describe the request without its query, which may hold secrets."""
    return f"{request.method} {request.url.path}"
