"""Define the collector's limits, count what is in flight, and refuse requests beyond the limits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

RETRY_AFTER_S: Final = 1
"""Seconds that a sender is asked to wait if the same request may soon succeed."""


class RequestRefused(Exception):
    """A request is refused. The sender must not rely on any of it being stored.

    `reason` is a stable word for metrics. `message` is for the sender, and has no paths, tokens or tracebacks. With
    `retry_after_s`, the same request may succeed later; reports that are not sent again are lost.
    """

    def __init__(self, status: int, reason: str, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one request and of all together. None can be switched off."""

    body_bytes: int = 16 << 20
    """The most bytes of a body, both compressed and decompressed."""
    gzip_members: int = 1_000
    """The most gzip members of a body: even an empty one takes time."""
    reports: int = 100_000
    """The most rows of one request; also the most lines of a body, blank ones included."""
    report_bytes: int = 1 << 20
    """The most bytes of one report, both as sent and decoded."""
    objects: int = 1_000_000
    """The most objects of a JSON body. Each takes microseconds and hundreds of bytes, even if empty."""
    decoded_bytes: int = 64 << 20
    """The most bytes of the rows of one request: a short body can repeat the same text in every row."""
    header_bytes: int = 32 << 10
    read_s: float = 30.0
    """The longest time in which a body must arrive."""
    give_way_s: float = 2.0
    """How long a body may come by gRPC, if all slots for reading are in use and others wait."""
    discard_s: float = 5.0
    """The longest time to read the rest of a refused body, so that its sender sees the answer."""
    requests_in_flight: int = 128
    bytes_in_flight: int = 128 << 20
    """The most memory for requests: the sum of their bodies as received, decompressed, and as messages."""
    connections: int = 2_000
    connections_of_address: int = 1_000
    """The most connections of one client address. Behind a proxy, all clients have the proxy's address."""
    header_s: float = 10.0
    """The longest time in which a request's headers must arrive, from the connection or from their first byte on."""
    stall_s: float = 30.0
    """The longest time in which a client may read nothing of its answer before it is disconnected."""
    publish_s: float = 10.0
    """The longest time in which the broker must acknowledge all of a request."""


class InFlight:
    """Counts requests in flight and their bytes. May be used from several threads."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self.requests = 0
        self.bytes = 0
        self.ending = False
        """Whether the service is ending; threads at work stop at their next `HeldBytes.check`."""

    @contextmanager
    def request(self) -> Iterator[HeldBytes]:
        """Count one request until the end of the block. Raises `RequestRefused` if there are too many."""
        with self._lock:
            if self.requests >= self._limits.requests_in_flight:
                raise _busy()
            self.requests += 1
        held = HeldBytes(self)
        try:
            yield held
        finally:
            # A thread may still work for a caller that has disconnected.
            held.abandoned = True
            with self._lock:
                self.requests -= 1
                self.bytes -= held.bytes

    def add_bytes(self, size_bytes: int) -> None:
        """Count more bytes. Raises `RequestRefused`, and counts nothing, if they are too many."""
        with self._lock:
            if self.bytes + size_bytes > self._limits.bytes_in_flight:
                raise _busy()
            self.bytes += size_bytes


@dataclass(slots=True)
class HeldBytes:
    """The bytes that are counted for one request."""

    _all: InFlight
    bytes: int = 0
    abandoned: bool = False
    """Whether nobody waits for the answer any more."""

    def check(self) -> None:
        """Raise `RequestRefused` if nobody needs the result. Long work in a thread calls this now and then."""
        if self.abandoned or self._all.ending:
            raise RequestRefused(
                503, "ending", "the service is ending; send this again later", retry_after_s=RETRY_AFTER_S
            )

    def grow(self, size_bytes: int) -> None:
        """Count more bytes for this request. Raises `RequestRefused`."""
        self._all.add_bytes(size_bytes)
        self.bytes += size_bytes


def _busy() -> RequestRefused:
    return RequestRefused(
        429, "busy", "too many requests at once; send this one again later", retry_after_s=RETRY_AFTER_S
    )


def too_large(what: str, limit: int) -> RequestRefused:
    """Make the refusal of a request beyond a limit. Sending it again does not help."""
    return RequestRefused(413, "too-large", f"{what}: the limit is {limit:,}; send less at a time")
