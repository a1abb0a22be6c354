"""The server's interceptor for `grpc.server`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import grpc  # type: ignore[import-untyped]

from whence.reporting.grpc.calls import ServedCall, Serving, rewrapped
from whence.reporting.reporter import Reporter


class ServerInterceptor(grpc.ServerInterceptor):  # type: ignore[misc]
    """Reports the calls that a server serves. Calls without a cause are served alike, and reported as such."""

    def __init__(self, reporter: Reporter, *, accept_causes: bool = True) -> None:
        """`accept_causes`: whether to believe the metadata; not where strangers can call."""
        self._reporter = reporter
        self._accept_causes = accept_causes

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """The handler, wrapped; None where there is none."""
        handler = continuation(details)
        if handler is None:
            return None

        call = Serving(self._reporter, details.method, details.invocation_metadata, self._accept_causes)
        return rewrapped(handler, lambda function, streams: serving(function, streams, call))


class WatchedContext:
    """A call's context that knows what the reply will carry, and adds its cause.

    It keeps what the function sets, because contexts of blocking functions cannot all be asked; and it answers before an
    abort, because some contexts send the reply at once.
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
        """Report the reply of an abort."""
        self._trailing = tuple(trailing_metadata or self._trailing)
        self._code = code
        self.answer()

    def answer(self, **attributes: Any) -> None:
        """Report the reply, once, and let it carry its cause beside what the function set itself."""
        if self._code is not None:
            attributes["rpc.status"] = getattr(self._code, "name", str(self._code))
        trailing = self._call.answer(self._trailing, **attributes)
        if trailing is not None:
            self._context.set_trailing_metadata(trailing)


def serving(function: Callable[..., Any], streams: bool, served: Serving) -> Callable[..., Any]:
    """A blocking function of a server, which reports what it serves."""

    @functools.wraps(function)
    def one(request: Any, context: Any) -> Any:
        with served.line():
            call = served.received()
            watched = WatchedContext(context, call)
            context.add_callback(call.abandoned_elsewhere)
            try:
                response = function(request, watched)
            except BaseException as error:
                watched.answer(error=type(error).__qualname__)
                raise
            watched.answer()
            return response

    @functools.wraps(function)
    def many(request: Any, context: Any) -> Iterator[Any]:
        # One thread takes all responses, so the line is left where it was begun.
        with served.line():
            call = served.received()
            watched = WatchedContext(context, call)
            context.add_callback(call.abandoned_elsewhere)
            try:
                yield from function(request, watched)
            except GeneratorExit:
                call.abandoned()
                raise
            except BaseException as error:
                watched.answer(error=type(error).__qualname__)
                raise
            watched.answer()

    return many if streams else one
