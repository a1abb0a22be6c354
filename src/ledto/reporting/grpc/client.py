"""Report the calls of a `grpc.Channel`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import grpc  # type: ignore[import-untyped]

from ledto.reporting.grpc.calls import ClientCall
from ledto.reporting.reporter import Reporter


class _Details(NamedTuple):
    method: Any
    timeout: Any
    metadata: Any
    credentials: Any
    wait_for_ready: Any
    compression: Any


class ClientInterceptor(
    grpc.UnaryUnaryClientInterceptor,  # type: ignore[misc]
    grpc.UnaryStreamClientInterceptor,  # type: ignore[misc]
    grpc.StreamUnaryClientInterceptor,  # type: ignore[misc]
    grpc.StreamStreamClientInterceptor,  # type: ignore[misc]
):
    """An interceptor that reports the calls of a channel, of all four kinds, blocking or not."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        return self._intercept(continuation, details, request)

    def intercept_unary_stream(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        return self._intercept(continuation, details, request)

    def intercept_stream_unary(self, continuation: Callable[..., Any], details: Any, requests: Any) -> Any:
        return self._intercept(continuation, details, requests)

    def intercept_stream_stream(self, continuation: Callable[..., Any], details: Any, requests: Any) -> Any:
        return self._intercept(continuation, details, requests)

    def _intercept(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        reported = ClientCall(self._reporter, details.method, details.metadata)
        with_cause = _Details(
            details.method,
            details.timeout,
            reported.metadata,
            details.credentials,
            getattr(details, "wait_for_ready", None),
            getattr(details, "compression", None),
        )
        try:
            call = continuation(with_cause, request)
        except BaseException:
            reported.report_answer(grpc.StatusCode.CANCELLED, None)
            raise
        if _is_over(call):
            reported.report_answer(call.code(), call.trailing_metadata())
            return call
        return _Call(call, reported)


class _Call:
    """A call whose end is reported before the application sees it."""

    def __init__(self, call: Any, reported: ClientCall) -> None:
        self._call = call
        self._reported = reported
        # Applications do not look at the end of a call that they cancel, or of a stream that they leave.
        if not call.add_callback(lambda: self._report_end(elsewhere=True)):
            self._report_end()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._report_after(self._call.__next__)

    def result(self, timeout: float | None = None) -> Any:
        return self._report_after(lambda: self._call.result(timeout))

    def exception(self, timeout: float | None = None) -> Any:
        return self._report_after(lambda: self._call.exception(timeout))

    def code(self) -> Any:
        return self._report_after(self._call.code)

    def add_done_callback(self, callback: Callable[[Any], Any]) -> None:
        def done(_: Any) -> None:
            self._report_end()
            callback(self)

        self._call.add_done_callback(done)

    def _report_after(self, act: Callable[[], Any]) -> Any:
        try:
            return act()
        finally:
            if _is_over(self._call):
                self._report_end()

    def _report_end(self, *, elsewhere: bool = False) -> None:
        self._reported.report_answer(self._call.code(), self._call.trailing_metadata(), elsewhere=elsewhere)


def _is_over(call: Any) -> bool:
    """Return whether the call has ended. Streams that are read in the caller's thread have no `done`."""
    return bool(call.done()) if hasattr(call, "done") else not call.is_active()
