"""Report the calls that a `grpc.server` serves."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import grpc  # type: ignore[import-untyped]

from ledto.reporting.grpc.calls import ServedCall, Serving, wrap_handler
from ledto.reporting.reporter import Reporter


class ServerInterceptor(grpc.ServerInterceptor):  # type: ignore[misc]
    """An interceptor that reports the calls of a server. Calls without a cause are served as well."""

    def __init__(self, reporter: Reporter, *, accept_causes: bool = True) -> None:
        """Pass ``accept_causes=False`` to ignore the metadata where strangers can call."""
        self._reporter = reporter
        self._accept_causes = accept_causes

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """Return the handler, wrapped; None if no handler serves the method."""
        handler = continuation(details)
        if handler is None:
            return None

        call = Serving(self._reporter, details.method, details.invocation_metadata, self._accept_causes)
        return wrap_handler(handler, lambda function, streams: wrap_function(function, streams, call))


class WatchedContext:
    """The context of a call that adds the cause to the reply's metadata.

    It keeps the metadata and code that the function sets, since not every context lets them be read. It reports the reply
    before an abort, since some contexts send it at once.
    """

    def __init__(self, context: Any, call: ServedCall) -> None:
        self._context = context
        self._call = call
        self._trailing: tuple[Any, ...] = ()
        self._code: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def set_trailing_metadata(self, trailing_metadata: Any) -> None:
        self._trailing = tuple(trailing_metadata)
        self._context.set_trailing_metadata(trailing_metadata)

    def trailing_metadata(self) -> Any:
        return self._trailing

    def set_code(self, code: Any) -> None:
        self._code = code
        self._context.set_code(code)

    def abort(self, code: Any, details: str = "", trailing_metadata: Any = ()) -> Any:
        self.answer_abort(code, trailing_metadata)
        return self._context.abort(code, details)

    def abort_with_status(self, status: Any) -> Any:
        return self.abort(status.code, status.details, status.trailing_metadata)

    def answer_abort(self, code: Any, trailing_metadata: Any) -> None:
        """Report the reply of an aborted call."""
        self._trailing = tuple(trailing_metadata or self._trailing)
        self._code = code
        self.answer()

    def answer(self, **attributes: Any) -> None:
        """Report the reply once, and add its cause to the metadata that the function set."""
        if self._code is not None:
            attributes["rpc.status"] = getattr(self._code, "name", str(self._code))
        trailing = self._call.answer(self._trailing, **attributes)
        if trailing is not None:
            self._context.set_trailing_metadata(trailing)


def wrap_function(function: Callable[..., Any], streams: bool, served: Serving) -> Callable[..., Any]:
    """Return the blocking function of a server, with its calls reported."""

    @functools.wraps(function)
    def one(request: Any, context: Any) -> Any:
        with served.line():
            call = served.report_receive()
            watched = WatchedContext(context, call)
            context.add_callback(call.abandon_elsewhere)
            try:
                response = function(request, watched)
            except BaseException as error:
                watched.answer(error=type(error).__qualname__)
                raise
            watched.answer()
            return response

    @functools.wraps(function)
    def many(request: Any, context: Any) -> Iterator[Any]:
        # One thread reads all responses, so the line ends in the thread where it began.
        with served.line():
            call = served.report_receive()
            watched = WatchedContext(context, call)
            context.add_callback(call.abandon_elsewhere)
            try:
                yield from function(request, watched)
            except GeneratorExit:
                call.abandon()
                raise
            except BaseException as error:
                watched.answer(error=type(error).__qualname__)
                raise
            watched.answer()

    return many if streams else one
