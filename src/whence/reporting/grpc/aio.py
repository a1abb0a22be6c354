"""Interceptors for `grpc.aio`, on both sides."""

from __future__ import annotations

import functools
import inspect
from abc import ABCMeta
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AbstractContextManager
from typing import Any

import grpc  # type: ignore[import-untyped]

from whence.reporting.grpc.calls import ClientCall, ServedCall, Serving, rewrapped
from whence.reporting.grpc.server import WatchedContext, serving
from whence.reporting.reporter import Reporter


def aio_client_interceptors(reporter: Reporter) -> list[Any]:
    """What a `grpc.aio` channel is made with, to have its calls of all four kinds reported."""
    return [kind(reporter) for kind in (_UnaryUnary, _UnaryStream, _StreamUnary, _StreamStream)]


class _Interceptor:
    """Reports calls. gRPC runs it in a task of its own, which is a line: whoever awaits the call joins that."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    async def _many(self, continuation: Callable[..., Any], details: Any, request: Any) -> AsyncIterator[Any]:
        with self._line(details):
            reported, details = self._begun(details)
            call = await _started(reported, continuation, details, request)
            reported.leave_line()

        async def responses() -> AsyncIterator[Any]:
            try:
                async for response in call:
                    yield response
            finally:
                await _ended(reported, call)

        return responses()

    def _line(self, details: Any) -> AbstractContextManager[None]:
        method = details.method
        return self._reporter.lines.request(
            f"call {method.decode('utf-8', 'replace') if isinstance(method, bytes) else method}"
        )

    def _begun(self, details: Any) -> tuple[ClientCall, Any]:
        reported = ClientCall(self._reporter, details.method, details.metadata)
        return reported, details._replace(metadata=grpc.aio.Metadata(*reported.metadata))


async def _started(reported: ClientCall, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
    def done(ended: Any) -> None:
        # A call that nobody waits for any more.
        if ended.cancelled():
            reported.answered(grpc.StatusCode.CANCELLED, None, elsewhere=True)

    try:
        call = await continuation(details, request)
    except BaseException:
        reported.answered(grpc.StatusCode.CANCELLED, None)
        raise
    call.add_done_callback(done)
    return call


async def _ended(reported: ClientCall, call: Any) -> None:
    if call.done():
        reported.answered(await call.code(), await call.trailing_metadata())
    else:
        reported.answered(grpc.StatusCode.CANCELLED, None)


class _UnaryUnary(_Interceptor, grpc.aio.UnaryUnaryClientInterceptor):  # type: ignore[misc]
    async def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        """Waits for the end of the call, so that it is reported before the application goes on."""
        with self._line(details):
            reported, details = self._begun(details)
            call = await _started(reported, continuation, details, request)
            try:
                await call.code()
            except BaseException:
                # What cancels the call cancels this wait instead.
                call.cancel()
                raise
            finally:
                await _ended(reported, call)
            reported.leave_line()
        return _UnaryUnaryCall(call, reported)


class _StreamUnary(_Interceptor, grpc.aio.StreamUnaryClientInterceptor):  # type: ignore[misc]
    async def intercept_stream_unary(self, continuation: Callable[..., Any], details: Any, requests: Any) -> Any:
        with self._line(details):
            reported, details = self._begun(details)
            call = await _started(reported, continuation, details, requests)
            reported.leave_line()
        return _OneResponse(call, reported)


class _OneResponse:
    """A call whose end is reported before who awaits it goes on. Waiting sooner would keep its requests from leaving."""

    def __init__(self, call: Any, reported: ClientCall) -> None:
        self._call = call
        self._reported = reported

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._response().__await__()

    async def _response(self) -> Any:
        try:
            return await self._call
        finally:
            await _ended(self._reported, self._call)


def _passed_on(name: str) -> Callable[..., Any]:
    def method(self: _OneResponse, *arguments: Any, **options: Any) -> Any:
        return getattr(self._call, name)(*arguments, **options)

    return method


_PASSED_ON = {name: _passed_on(name) for name in grpc.aio.UnaryUnaryCall.__abstractmethods__ - {"__await__"}}
_UnaryUnaryCall: Any = ABCMeta("_UnaryUnaryCall", (_OneResponse, grpc.aio.UnaryUnaryCall), _PASSED_ON)
"""A `_OneResponse` that gRPC takes for a call: anything else that an interceptor gives would be the response itself."""


class _UnaryStream(_Interceptor, grpc.aio.UnaryStreamClientInterceptor):  # type: ignore[misc]
    async def intercept_unary_stream(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        return await self._many(continuation, details, request)


class _StreamStream(_Interceptor, grpc.aio.StreamStreamClientInterceptor):  # type: ignore[misc]
    async def intercept_stream_stream(self, continuation: Callable[..., Any], details: Any, requests: Any) -> Any:
        return await self._many(continuation, details, requests)


class AioServerInterceptor(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Reports the calls that a `grpc.aio` server serves, by coroutines, generators or blocking functions."""

    def __init__(self, reporter: Reporter, *, accept_causes: bool = True) -> None:
        """`accept_causes`: whether to believe the metadata; not where strangers can call."""
        self._reporter = reporter
        self._accept_causes = accept_causes

    async def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        """The handler, wrapped; None where there is none."""
        handler = await continuation(details)
        if handler is None:
            return None

        call = Serving(self._reporter, details.method, details.invocation_metadata, self._accept_causes)
        return rewrapped(handler, lambda function, streams: _serving(function, streams, call))


class _AioContext(WatchedContext):
    async def abort(self, code: Any, details: str = "", trailing_metadata: Any = ()) -> None:
        self.answer_abort(code, trailing_metadata)
        await self._context.abort(code, details)


def _serving(function: Callable[..., Any], streams: bool, served: Serving) -> Callable[..., Any]:
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        async def many(request: Any, context: Any) -> AsyncIterator[Any]:
            with served.line(is_started_here=True):
                call = served.received()
                watched = _AioContext(context, call)
                try:
                    async for response in function(request, watched):
                        yield response
                except BaseException as error:
                    _failed(call, watched, error)
                    raise
                watched.answer()

        return many

    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def one(request: Any, context: Any) -> Any:
            with served.line(is_started_here=True):
                call = served.received()
                watched = _AioContext(context, call)
                try:
                    response = await function(request, watched)
                except BaseException as error:
                    _failed(call, watched, error)
                    raise
                watched.answer()
                return response

        return one

    return serving(function, streams, served)


def _failed(call: ServedCall, watched: WatchedContext, error: BaseException) -> None:
    if isinstance(error, Exception):
        watched.answer(error=type(error).__qualname__)
    else:
        # Cancelled, or closed from outside: nobody waits for a reply.
        call.abandoned()
