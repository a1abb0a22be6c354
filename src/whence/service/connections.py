"""Connections, bounded: so many in all and for one address, none that only waits, and health always answered.

Uvicorn counts connections, and once there are too many it refuses every request, that for ``/healthz`` included, while
connections that never say anything stay. Here the connections that wait make room instead: when there are too many, the
one that has waited longest is closed, first of those that have never sent a request. A request has `header_s` to come,
and an answer must be taken at some pace.
"""

from __future__ import annotations

import resource
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from starlette.requests import Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from whence.service.failures import answer_refusal
from whence.service.limits import RETRY_AFTER_S, Limits, Refused

HEALTH_PATHS: Final = frozenset({"/healthz", "/readyz"})
SPARE: Final = 64
"""Connections beyond the limit, on which nothing but health is answered."""
OTHER_FILES: Final = 256
"""Open files that are left to everything else: the broker, the history, webhooks, the log."""
GRACE_S: Final = 0.1
"""In which a connection is not closed to make room, unless the spare ones are used up: its request may be on its way."""
LEAST_TAKEN_BYTES: Final = 16 << 10
"""What a reader takes of an answer in `Limits.stall_s`, at least."""
MOST_FILES: Final = 65_536


@dataclass(eq=False)
class Connections:
    """All connections of a server, those that wait in the order in which they began to. Belongs to one event loop."""

    limits: Limits
    most: int
    of_address: Counter[str] = field(default_factory=Counter)
    all: int = 0
    silent: dict[Connection, None] = field(default_factory=dict)
    """Have not sent a whole request yet."""
    idle: dict[Connection, None] = field(default_factory=dict)
    """Have been answered, and may ask again."""

    def made(self, connection: Connection, address: str) -> bool:
        """Count a new connection, and make room for it; whether it may stay."""
        self.all += 1
        self.of_address[address] += 1
        self.silent[connection] = None
        if self.of_address[address] > self.limits.connections_of_address:
            return self._evict(connection, address, grace_s=0.0)
        if self.all <= self.most:
            return True
        within_spare = self.all <= self.most + SPARE
        if self._evict(connection, None, grace_s=GRACE_S if within_spare else 0.0):
            return True
        connection.spare = True
        return within_spare

    def lost(self, connection: Connection, address: str) -> None:
        """Forget a connection."""
        self.all -= 1
        self.of_address[address] -= 1
        if not self.of_address[address]:
            del self.of_address[address]
        self.silent.pop(connection, None)
        self.idle.pop(connection, None)

    def _evict(self, new: Connection, address: str | None, *, grace_s: float) -> bool:
        """Close the one that has waited longest, of this address if one is named; whether there was one."""
        latest = new.loop.time() - grace_s
        for waiting in (self.silent, self.idle):
            for each in waiting:
                if each is not new and address in (None, each.address) and each.waits_since <= latest:
                    del waiting[each]
                    each.end()
                    return True
        return False


def most_connections(limits: Limits) -> int:
    """How many connections are kept: what the limits say, or what open files allow. Raises the latter as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < possible:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (possible, hard))
            soft = possible
    if soft == resource.RLIM_INFINITY:
        return limits.connections
    return max(1, min(limits.connections, soft - SPARE - OTHER_FILES))


class HealthOnly:
    """ASGI middleware: answers for health are the application's; everything else is refused, and the connection closed."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the call on, or refuse it."""
        if scope["path"] in HEALTH_PATHS:
            await self._app(scope, receive, send)
            return
        refusal = Refused(503, "busy", "too many connections at once; come again later", retry_after_s=RETRY_AFTER_S)
        response = await answer_refusal(Request(scope), refusal)
        response.headers["Connection"] = "close"
        await response(scope, receive, send)


class Connection(H11Protocol):
    """One connection. A subclass names what `connections` it is one of, because Uvicorn makes it."""

    connections_of_server: Connections
    address = ""
    waits_since = 0.0
    """By the loop's clock."""
    spare = False
    """Whether nothing but health is answered on it, until there is room."""

    def connection_made(self, transport: Any) -> None:
        """Count the connection, and give its request some time to come."""
        super().connection_made(transport)
        self.waits_since = self.loop.time()
        self._stalled: Any = None
        self._left_bytes = 0
        self._waiting: Any = None
        self.address = self.client[0] if self.client is not None else ""
        if not self.connections_of_server.made(self, self.address):
            self.end()
            return
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._cancel_timers()
        self.connections_of_server.lost(self, self.address)
        super().connection_lost(exc)
        # Uvicorn does this only where the other side ended in peace.
        self._unset_keepalive_if_required()

    def handle_events(self) -> None:
        """Take requests; a connection that is being answered does not wait."""
        before = self.cycle
        self.spare = self.spare and self.connections_of_server.all > self.connections_of_server.most
        self.app = HealthOnly(self.config.loaded_app) if self.spare else self.config.loaded_app
        super().handle_events()
        if self.cycle is not before and not self.cycle.response_complete:
            self._cancel_waiting()
            self.connections_of_server.silent.pop(self, None)
            self.connections_of_server.idle.pop(self, None)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self.waits_since = self.loop.time()
        self.connections_of_server.idle[self] = None
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        """Take data. The first of a further request begins its time."""
        if self.cycle is not None and self.cycle.response_complete and self._waiting is None:
            self._await_request()
        super().data_received(data)

    def pause_writing(self) -> None:
        """Begin to watch a reader that takes less than it is given."""
        super().pause_writing()
        self._left_bytes = self.transport.get_write_buffer_size()
        self._watch_reader()

    def resume_writing(self) -> None:
        """The reader has caught up."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def end(self) -> None:
        """Close at once, whatever is still to be sent."""
        self._cancel_timers()
        self.transport.abort()

    def _await_request(self) -> None:
        self._waiting = self.loop.call_later(self.connections_of_server.limits.header_s, self._request_is_late)

    def _request_is_late(self) -> None:
        self._waiting = None
        # One that was answered before it had sent all of its body is no better than one that sends nothing.
        if not self.transport.is_closing() and (self.cycle is None or self.cycle.response_complete):
            self.end()

    def _watch_reader(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
        self._stalled = self.loop.call_later(self.connections_of_server.limits.stall_s, self._check_reader)

    def _check_reader(self) -> None:
        self._stalled = None
        left = self.transport.get_write_buffer_size()
        if left and self._left_bytes - left < LEAST_TAKEN_BYTES:
            self.end()
            return
        self._left_bytes = left
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
