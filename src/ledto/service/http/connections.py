"""Bound the number of connections, in all and per address; close idle and stalled ones; always answer health checks.

Uvicorn alone refuses every request once there are too many connections, ``/healthz`` included, while connections that
never send anything stay open. Here waiting connections make room: if there are too many, the one that has waited longest
is closed, preferably one that has never sent a request. A request must arrive within `header_s`, and a client must read
its answer at a minimum rate.
"""

from __future__ import annotations

import resource
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.requests import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from ledto.service.http.limits import RETRY_AFTER_S, Limits, RequestRefused
from ledto.service.http.problems import answer_refusal

HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz"})
SPARE: Final = 64
"""Connections beyond the limit, on which only health checks are answered."""
OTHER_FILES: Final = 256
"""Open files that are reserved for everything else: the broker, the history, webhooks, the log."""
GRACE_S: Final = 0.1
"""Seconds in which a new connection is not closed to make room, unless all spare ones are in use: its request may come."""
LEAST_READ_BYTES: Final = 16 << 10
"""The least that a client must read of an answer in `Limits.stall_s`."""
MOST_FILES: Final = 65_536


@dataclass(eq=False)
class OpenConnections:
    """All connections of a server. Belongs to one event loop.

    The dicts are ordered sets: the connection that has waited longest comes first.
    """

    limits: Limits
    most: int
    by_address: Counter[str] = field(default_factory=Counter)
    count: int = 0
    silent: dict[HttpConnection, None] = field(default_factory=dict)
    """Connections that have not sent a whole request yet."""
    idle: dict[HttpConnection, None] = field(default_factory=dict)
    """Connections that have been answered and may send another request."""

    def add(self, connection: HttpConnection, address: str) -> bool:
        """Count a new connection and make room for it; return whether it may stay."""
        self.count += 1
        self.by_address[address] += 1
        self.silent[connection] = None
        if self.by_address[address] > self.limits.connections_of_address:
            return self._evict(connection, address, grace_s=0.0)
        if self.count <= self.most:
            return True
        within_spare = self.count <= self.most + SPARE
        if self._evict(connection, None, grace_s=GRACE_S if within_spare else 0.0):
            return True
        connection.spare = True
        return within_spare

    def make_room(self, connection: HttpConnection) -> bool:
        """Return whether a spare connection may count as any other, because one was closed, or one that waits can be."""
        return self.count <= self.most or self._evict(connection, None, grace_s=GRACE_S)

    def remove(self, connection: HttpConnection, address: str) -> None:
        """Forget a connection that was closed."""
        self.count -= 1
        self.by_address[address] -= 1
        if not self.by_address[address]:
            del self.by_address[address]
        self.silent.pop(connection, None)
        self.idle.pop(connection, None)

    def _evict(self, new: HttpConnection, address: str | None, *, grace_s: float) -> bool:
        """Close the connection other than `new` that has waited longest, of `address` if given; return whether one was."""
        latest = new.loop.time() - grace_s
        for waiting in (self.silent, self.idle):
            for connection in waiting:
                matches = connection is not new and address in (None, connection.address)
                if matches and connection.waits_since <= latest:
                    del waiting[connection]
                    connection.end()
                    return True
        return False


def most_connections(limits: Limits, *, servers: int = 1) -> int:
    """Return how many connections each of the servers may keep: the limit, or fewer if open files do not allow it.

    Sets this process's soft limit of open files as high as the system allows.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < possible:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))
            soft = possible
    if soft == resource.RLIM_INFINITY:
        return limits.connections
    return max(1, min(limits.connections, (soft - SPARE - OTHER_FILES) // servers))


class HealthOnly:
    """ASGI middleware that passes health checks on, refuses all other requests, and closes the connection."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the call on, or refuse it."""
        if scope["path"] in HEALTH_PATHS:
            await self._app(scope, receive, send)
            return
        refusal = RequestRefused(
            503, "busy", "too many connections at once; try again later", retry_after_s=RETRY_AFTER_S
        )
        response = await answer_refusal(Request(scope), refusal)
        response.headers["HttpConnection"] = "close"
        await response(scope, receive, send)


class HttpConnection(H11Protocol):
    """One connection. Uvicorn creates it without arguments of ours, so a subclass sets `connections_of_server`."""

    connections_of_server: OpenConnections
    address = ""
    waits_since = 0.0
    """When it began to wait, by the event loop's clock."""
    spare = False
    """Whether only health checks are answered on it, until there is room."""

    def connection_made(self, transport: Any) -> None:
        """Count the connection, and start the time limit of its first request."""
        super().connection_made(transport)
        self.waits_since = self.loop.time()
        self._stalled: Any = None
        self._unsent_bytes = 0
        self._waiting: Any = None
        self.address = self.client[0] if self.client is not None else ""
        if not self.connections_of_server.add(self, self.address):
            self.end()
            return
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers, and count the connection no longer."""
        self._cancel_timers()
        self.connections_of_server.remove(self, self.address)
        super().connection_lost(exc)
        # Uvicorn does this only if the client closed the connection properly.
        self._unset_keepalive_if_required()

    def handle_events(self) -> None:
        """Handle what was received. A connection that is being answered does not count as waiting."""
        before = self.cycle
        self.spare = self.spare and not self.connections_of_server.make_room(self)
        self.app = HealthOnly(self.config.loaded_app) if self.spare else self.config.loaded_app
        super().handle_events()
        if self.cycle is not before and not self.cycle.response_complete:
            self._cancel_waiting()
            self.connections_of_server.silent.pop(self, None)
            self.connections_of_server.idle.pop(self, None)

    def on_response_complete(self) -> None:
        """Count the connection as waiting for the next request."""
        self.waits_since = self.loop.time()
        self.connections_of_server.idle[self] = None
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        """Handle bytes. The first ones of a further request start its time limit."""
        if self.cycle is not None and self.cycle.response_complete and self._waiting is None:
            self._await_request()
        super().data_received(data)

    def pause_writing(self) -> None:
        """Begin to watch a client that reads more slowly than we write."""
        super().pause_writing()
        self._unsent_bytes = self.transport.get_write_buffer_size()
        self._watch_reader()

    def resume_writing(self) -> None:
        """Stop watching: the client has caught up."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def end(self) -> None:
        """Close at once; drop what is not sent yet."""
        self._cancel_timers()
        self.transport.abort()

    def _await_request(self) -> None:
        self._waiting = self.loop.call_later(self.connections_of_server.limits.header_s, self._request_is_late)

    def _request_is_late(self) -> None:
        self._waiting = None
        # A client that was answered before its body was complete, and sends no new request, also waits too long.
        if not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
            self.end()

    def _watch_reader(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
        self._stalled = self.loop.call_later(self.connections_of_server.limits.stall_s, self._check_reader)

    def _check_reader(self) -> None:
        self._stalled = None
        unsent_bytes = self.transport.get_write_buffer_size()
        if unsent_bytes and self._unsent_bytes - unsent_bytes < LEAST_READ_BYTES:
            self.end()
            return
        self._unsent_bytes = unsent_bytes
        self._watch_reader()

    def _cancel_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _cancel_timers(self) -> None:
        self._cancel_waiting()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
