"""The events of an RPC, on either side; what the four sorts of interceptors have in common."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

import grpc  # type: ignore[import-untyped]

from whence.reporting.carriers import HEADER
from whence.reporting.reporter import Reporter

Metadata = Iterable[tuple[str, Any]] | None

_NO_ANSWER = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})
"""Codes that a client gives itself when nothing came back."""


class ClientCall:
    """One call seen by the client: sent when made, answered once."""

    def __init__(self, reporter: Reporter, method: str | bytes, metadata: Metadata) -> None:
        self._reporter = reporter
        self._method = method.decode("utf-8", "replace") if isinstance(method, bytes) else method
        self._is_answered, self._lock = False, threading.Lock()
        message = reporter.sent(f"call {self._method}")
        kept = [pair for pair in metadata or () if pair[0].lower() != HEADER]
        self.metadata = kept if message is None else [*kept, (HEADER, message.to_text())]

    def answered(self, code: Any, trailing: Metadata) -> None:
        """Report how the call ended, once: whoever comes later goes on when it is reported."""
        with self._lock:
            if self._is_answered:
                return
            self._is_answered = True
            name, status = f"answered {self._method}", getattr(code, "name", str(code))
            message = self._reporter.extract(trailing)
            if message is None and code in _NO_ANSWER:
                self._reporter.unanswered(name, **{"rpc.status": status})
            else:
                self._reporter.received(message, name, **{"rpc.status": status})


class ServedCall:
    """One call seen by the server: received when made, answered once."""

    def __init__(self, reporter: Reporter, method: str, metadata: Metadata, *, accept_causes: bool) -> None:
        self._reporter = reporter
        self._method = method
        self._is_answered, self._lock = False, threading.Lock()
        reporter.received(reporter.extract(metadata) if accept_causes else None, f"serve {method}")

    def answer(self, trailing: Metadata, **attributes: Any) -> tuple[tuple[str, Any], ...] | None:
        """Report the reply, and give the trailing metadata that carries it; None if that has been done."""
        with self._lock:
            if self._is_answered:
                return None
            self._is_answered = True
            message = self._reporter.sent(f"answer {self._method}", **attributes)
        kept = tuple(pair for pair in trailing or () if pair[0].lower() != HEADER)
        return kept if message is None else (*kept, (HEADER, message.to_text()))

    def abandoned(self) -> None:
        """Report that the call ended before its reply: the client went away."""
        with self._lock:
            if not self._is_answered:
                self._is_answered = True
                self._reporter.report(f"abandoned {self._method}")


def rewrapped(handler: Any, wrap: Callable[[Callable[..., Any], bool], Callable[..., Any]]) -> Any:
    """The handler with its function wrapped; `wrap` is told whether it gives a stream."""
    make: Any
    if handler.request_streaming:
        make = grpc.stream_stream_rpc_method_handler if handler.response_streaming else None
        make = make or grpc.stream_unary_rpc_method_handler
        function = handler.stream_stream if handler.response_streaming else handler.stream_unary
    else:
        make = grpc.unary_stream_rpc_method_handler if handler.response_streaming else None
        make = make or grpc.unary_unary_rpc_method_handler
        function = handler.unary_stream if handler.response_streaming else handler.unary_unary
    return make(wrap(function, handler.response_streaming), handler.request_deserializer, handler.response_serializer)
