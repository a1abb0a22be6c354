"""Report the events of a gRPC call at the client and at the server. All interceptors use this."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from contextvars import Context
from dataclasses import dataclass
from typing import Any

import grpc  # type: ignore[import-untyped]

from ledto.reporting.headers import HEADER
from ledto.reporting.reporter import Reporter

Metadata = Iterable[tuple[str, Any]] | None

_NO_ANSWER = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED})
"""Codes that a client sets itself when no answer came."""


class ClientCall:
    """A call at the client. Making it reports the send; its end is reported once."""

    def __init__(self, reporter: Reporter, method: str | bytes, metadata: Metadata) -> None:
        self._reporter = reporter
        self._method = method.decode("utf-8", "replace") if isinstance(method, bytes) else method
        self._is_answered, self._lock = False, threading.Lock()
        self._ended_lines: list[str] = []
        message = reporter.sent(f"call {self._method}")
        others = [pair for pair in metadata or () if pair[0].lower() != HEADER]
        self.metadata = others if message is None else [*others, (HEADER, message.to_text())]

    def report_answer(self, code: Any, trailing: Metadata, *, elsewhere: bool = False) -> None:
        """Report how the call ended, if no other caller has. Return when it is reported.

        `elsewhere`: a callback of gRPC calls this, not the code that waited for the call. The event is then on a line of
        its own, which the waiting code joins when it calls this.
        """
        with self._lock:
            is_first, self._is_answered = not self._is_answered, True
            if elsewhere:
                if is_first:
                    Context().run(self._report_elsewhere, code, trailing)
                return
            if self._ended_lines:
                self._reporter.lines.join(self._ended_lines)
                self._ended_lines = []
            if is_first:
                self._report(code, trailing)

    def leave_line(self) -> None:
        """End the line of the calling code here. The code that waits for the call joins it."""
        self._ended_lines.append(self._reporter.lines.ensure_place().line.name)

    def _report_elsewhere(self, code: Any, trailing: Metadata) -> None:
        with self._reporter.lines.request(f"answered {self._method}"):
            self._report(code, trailing)
            self.leave_line()

    def _report(self, code: Any, trailing: Metadata) -> None:
        name, status = f"answered {self._method}", getattr(code, "name", str(code))
        message = self._reporter.extract(trailing)
        if message is None and code in _NO_ANSWER:
            self._reporter.unanswered(name, **{"rpc.status": status})
        else:
            self._reporter.received(message, name, **{"rpc.status": status})


@dataclass(frozen=True, slots=True)
class Serving:
    """A call that a server will serve."""

    reporter: Reporter
    method: str
    metadata: Metadata
    accept_causes: bool

    def line(self, *, is_started_here: bool = False) -> AbstractContextManager[None]:
        """Begin the line of the call; see `ledto.reporting.lines.ProcessLines.request`."""
        return self.reporter.lines.request(self.method, is_started_here=is_started_here)

    def report_receive(self) -> ServedCall:
        """Report that the call was received."""
        return ServedCall(self.reporter, self.method, self.metadata, accept_causes=self.accept_causes)


class ServedCall:
    """A call at the server. Making it reports the receive; its end is reported once."""

    def __init__(self, reporter: Reporter, method: str, metadata: Metadata, *, accept_causes: bool) -> None:
        self._reporter = reporter
        self._method = method
        self._is_answered, self._lock = False, threading.Lock()
        reporter.received(reporter.extract(metadata) if accept_causes else None, f"serve {method}")

    def answer(self, trailing: Metadata, **attributes: Any) -> tuple[tuple[str, Any], ...] | None:
        """Report the reply; return the trailing metadata with its cause. None if the end was reported before."""
        with self._lock:
            if self._is_answered:
                return None
            self._is_answered = True
            message = self._reporter.sent(f"answer {self._method}", **attributes)
        others = tuple(pair for pair in trailing or () if pair[0].lower() != HEADER)
        return others if message is None else (*others, (HEADER, message.to_text()))

    def abandon(self) -> None:
        """Report that the client went away before the reply, unless the end was reported before."""
        with self._lock:
            if not self._is_answered:
                self._is_answered = True
                self._reporter.report(f"abandoned {self._method}")

    def abandon_elsewhere(self) -> None:
        """Do as `abandon` on a line of its own, for a thread of gRPC that does not run the call."""
        Context().run(self._abandon_on_new_line)

    def _abandon_on_new_line(self) -> None:
        with self._reporter.lines.request(f"abandoned {self._method}"):
            self.abandon()


def wrap_handler(handler: Any, wrap: Callable[[Callable[..., Any], bool], Callable[..., Any]]) -> Any:
    """Return the handler with its function wrapped. `wrap` gets the function, and whether it returns a stream."""
    request, response = (
        "stream" if streams else "unary" for streams in (handler.request_streaming, handler.response_streaming)
    )
    make = getattr(grpc, f"{request}_{response}_rpc_method_handler")
    function = getattr(handler, f"{request}_{response}")
    return make(wrap(function, handler.response_streaming), handler.request_deserializer, handler.response_serializer)
