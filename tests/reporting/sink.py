"""A service that only collects: real HTTP on loopback, with faults on request."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Fault = Callable[[], str]
"""What to do with the next request: "" takes it; see `Sink.answer` for the others."""


class Sink:
    """Keeps what it acknowledged: once a batch id, like the service's broker."""

    def __init__(self, fault: Fault = lambda: "") -> None:
        self.fault = fault
        self.bodies: dict[str, bytes] = {}
        """The batches that were kept, in order; some of them were never acknowledged."""
        self.tries: list[tuple[str, bytes]] = []
        self.headers: list[dict[str, str]] = []
        self.retry_after = "0"
        self.most_bytes = 1 << 30
        self._lock = threading.Lock()

    def events(self) -> list[dict[str, Any]]:
        """All events kept, in the order of their arrival."""
        with self._lock:
            return [json.loads(line) for body in self.bodies.values() for line in body.splitlines()]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        batch = handler.headers["Ledto-Batch"]
        with self._lock:
            self.tries.append((batch, body))
            self.headers.append(dict(handler.headers.items()))
            fault = self.fault()
            if len(body) > self.most_bytes:
                fault = "413"
            if fault in ("", "lost answer", "slow"):
                assert self.bodies.setdefault(batch, body) == body, "a retry must carry the same bytes"
        if fault in ("reset", "lost answer"):
            # Closing with unsent data thrown away gives the client a reset.
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.connection.close()
            return
        if fault == "slow":
            time.sleep(0.3)
        handler.send_response(int(fault) if fault.isdigit() else 202)
        if fault == "503":
            handler.send_header("Retry-After", self.retry_after)
        handler.send_header("Content-Length", "0")
        handler.end_headers()


@contextmanager
def serving(sink: Sink, *, port: int = 0) -> Iterator[str]:
    """The sink's address, while it is up."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            assert self.path == "/v1/reports"
            try:
                sink.answer(self)
            except OSError:
                self.close_connection = True

        def finish(self) -> None:
            try:
                super().finish()
            except (OSError, ValueError):
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass

    server = Server(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def free_port() -> int:
    """A port on which nobody listens for now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
