"""Report the calls of `grpc.aio` clients and servers."""

from __future__ import annotations

import functools
import inspect
from abc import ABCMeta
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AbstractContextManager
from typing import Any

import grpc  # type: ignore[import-untyped]

from ledto.reporting.grpc.calls import ClientCall, ServedCall, Serving, wrap_handler
from ledto.reporting.grpc.server import WatchedContext, wrap_function
from ledto.reporting.reporter import Reporter


def aio_client_interceptors(reporter: Reporter) -> list[Any]:
    """Make the interceptors of a `grpc.aio` channel that report its calls, of all four kinds."""
    return [kind(reporter) for kind in (_UnaryUnary, _UnaryStream, _StreamUnary, _StreamStream)]


class _Interceptor:
    """An interceptor that reports calls. gRPC runs it in its own task, whose line the code that awaits the call joins."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    async def _intercept_stream(
        self, continuation: Callable[..., Any], details: Any, request: Any
    ) -> AsyncIterator[Any]:
        with self._begin_line(details):
            reported, details = self._report_call(details)
            call = await _start(reported, continuation, details, request)
            reported.leave_line()

        async def responses() -> AsyncIterator[Any]:
            try:
                async for response in call:
                    yield response
            finally:
                await _report_end(reported, call)

        return responses()

    def _begin_line(self, details: Any) -> AbstractContextManager[None]:
        method = details.method
        return self._reporter.lines.request(
            f"call {method.decode('utf-8', 'replace') if isinstance(method, bytes) else method}"
        )

    def _report_call(self, details: Any) -> tuple[ClientCall, Any]:
        """Report the call; return it, and its details with the cause in the metadata."""
        reported = ClientCall(self._reporter, details.method, details.metadata)
        return reported, details._replace(metadata=grpc.aio.Metadata(*reported.metadata))


async def _start(reported: ClientCall, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
    """Start the call, and report its end if it is cancelled."""

    def done(finished: Any) -> None:
        # Nobody waits for a cancelled call, so nothing else would report its end.
        if finished.cancelled():
            reported.report_answer(grpc.StatusCode.CANCELLED, None, elsewhere=True)

    try:
        call = await continuation(details, request)
    except BaseException:
        reported.report_answer(grpc.StatusCode.CANCELLED, None)
        raise
    call.add_done_callback(done)
    return call


async def _report_end(reported: ClientCall, call: Any) -> None:
    """Report the reply; a cancelled call if it is not done."""
    if call.done():
        reported.report_answer(await call.code(), await call.trailing_metadata())
    else:
        reported.report_answer(grpc.StatusCode.CANCELLED, None)


class _UnaryUnary(_Interceptor, grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]
    async def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        """Make the call and wait for its end, so that the end is reported before the application continues."""
        with self._begin_line(details):
            reported, details = self._report_call(details)
            call = await _start(reported, continuation, details, request)
            try:
                await call.code()
            except BaseException:
                # Whoever cancels the call cancels only this wait.
                call.cancel()
                raise
            finally:
                await _report_end(reported, call)
            reported.leave_line()
        return _UnaryUnaryCall(call, reported)


class _StreamUnary(_Interceptor, grpc.aio.StreamUnaryClientInterceptor):  # type: ignore[misc]
    async def intercept_stream_unary(self, continuation: Callable[..., Any], details: Any, requests: Any) -> Any:
        with self._begin_line(details):
            reported, details = self._report_call(details)
            call = await _start(reported, continuation, details, requests)
            reported.leave_line()
        return _OneResponse(call, reported)


class _OneResponse:
    """A call whose end is reported when it is awaited. To wait sooner would keep its requests from being sent."""

    def __init__(self, call: Any, reported: ClientCall) -> None:
        self._call = call
        self._reported = reported

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._await_response().__await__()

    async def _await_response(self) -> Any:
        try:
            return await self._call
        finally:
            await _report_end(self._reported, self._call)


def _delegate(name: str) -> Callable[..., Any]:
    """Make a method that calls the method of the wrapped call."""

    def method(self: _OneResponse, *arguments: Any, **options: Any) -> Any:
        return getattr(self._call, name)(*arguments, **options)

    return method


_DELEGATES = {name: _delegate(name) for name in grpc.aio.UnaryUnaryCall.__abstractmethods__ - {"__await__"}}
_UnaryUnaryCall: Any = ABCMeta("_UnaryUnaryCall", (_OneResponse, grpc.aio.UnaryUnaryCall), _DELEGATES)
"""A `_OneResponse` that is a call for gRPC. It takes any other result of an interceptor as the response itself."""


class _UnaryStream(_Interceptor, grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[misc]
    async def intercept_unary_stream(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        return await self._intercept_stream(continuation, details, request)


class _StreamStream(_Interceptor, grpc.aio.StreamStreamClientInterceptor):  # type: ignore[misc]
    async def intercept_stream_stream(self, continuation: Callable[..., Any], details: Any, requests: Any) -> Any:
        return await self._intercept_stream(continuation, details, requests)


class AioServerInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """An interceptor that reports the calls of a `grpc.aio` server, by coroutines, generators or blocking functions."""

    def __init__(self, reporter: Reporter, *, accept_causes: bool = True) -> None:
        """Pass ``accept_causes=False`` to ignore the metadata where strangers can call."""
        self._reporter = reporter
        self._accept_causes = accept_causes

    async def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """Return the handler, wrapped; None if no handler serves the method."""
        handler = await continuation(details)
        if handler is None:
            return None

        call = Serving(self._reporter, details.method, details.invocation_metadata, self._accept_causes)
        return wrap_handler(handler, lambda function, streams: _wrap(function, streams, call))


class _AioContext(WatchedContext):
    async def abort(self, code: Any, details: str = "", trailing_metadata: Any = ()) -> None:
        self.answer_abort(code, trailing_metadata)
        await self._context.abort(code, details)


def _wrap(function: Callable[..., Any], streams: bool, served: Serving) -> Callable[..., Any]:
    """Return the function of a server, with its calls reported."""
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def many(request: Any, context: Any) -> AsyncIterator[Any]:
            with served.line(is_started_here=True):
                call = served.report_receive()
                watched = _AioContext(context, call)
                try:
                    async for response in function(request, watched):
                        yield response
                except BaseException as error:
                    _report_failure(call, watched, error)
                    raise
                watched.answer()

        return many

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def one(request: Any, context: Any) -> Any:
            with served.line(is_started_here=True):
                call = served.report_receive()
                watched = _AioContext(context, call)
                try:
                    response = await function(request, watched)
                except BaseException as error:
                    _report_failure(call, watched, error)
                    raise
                watched.answer()
                return response

        return one

    return wrap_function(function, streams, served)


def _report_failure(call: ServedCall, watched: WatchedContext, error: BaseException) -> None:
    if isinstance(error, Exception):
        watched.answer(error=type(error).__qualname__)
    else:
        # Cancelled, or closed from outside: nobody waits for a reply.
        call.abandon()
