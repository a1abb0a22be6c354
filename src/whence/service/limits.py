"""What the collector takes at once, and how it says no."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

RETRY_AFTER_S: Final = 1
"""What a sender is asked to wait when the reason may be gone soon."""


class Refused(Exception):
    """A request that is not taken: nothing of it is stored, or the sender cannot rely on it.

    `reason` is a stable word for metrics; `message` is for the sender, and holds no path, no token and no trace-back.
    With `retry_after_s`, the same request may succeed later, and must be sent again or its reports are lost.
    """

    def __init__(self, status: int, reason: str, message: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one request and of all together; none of them can be switched off."""

    body_bytes: int = 16 << 20
    """Of a body, as it comes and as it is after decompression."""
    gzip_members: int = 1_000
    """Of a compressed body: each costs time of its own, however little it holds."""
    reports: int = 100_000
    """Rows of one request; a body of lines has no more lines than that, blank ones included."""
    report_bytes: int = 1 << 20
    """Of one report, as it is written and as it is decoded."""
    objects: int = 1_000_000
    """Of a body in JSON. Each costs some microseconds and hundreds of bytes, empty ones too."""
    decoded_bytes: int = 64 << 20
    """Of the rows that one request gives: a short body can repeat the same text in every row."""
    header_bytes: int = 32 << 10
    read_s: float = 30.0
    """For a body to come."""
    discard_s: float = 5.0
    """For the rest of a refused body to come, so that its sender sees the answer."""
    requests_in_flight: int = 128
    bytes_in_flight: int = 128 << 20
    """What is held for requests: their bodies as they came, decompressed, and as messages, added up."""
    connections: int = 2_000
    connections_of_address: int = 1_000
    """Of one client's address, which is that of all of them where a proxy stands before the service."""
    header_s: float = 10.0
    """For a request's headers to come, from the connection or from their first byte on."""
    stall_s: float = 30.0
    """In which a reader takes some of its answer, or is let go."""
    publish_s: float = 10.0
    """For the broker to acknowledge all of a request."""


class InFlight:
    """Counts what is being worked on, from any thread."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self.requests = 0
        self.bytes = 0
        self.ending = False
        """Whether the service ends: threads at work stop at their next `Held.check`."""

    @contextmanager
    def request(self) -> Iterator[Held]:
        """Room for one request, given back at the end. Raises `Refused`."""
        with self._lock:
            if self.requests >= self._limits.requests_in_flight:
                raise _busy()
            self.requests += 1
        held = Held(self)
        try:
            yield held
        finally:
            # A thread may still be at work for a caller that has gone.
            held.abandoned = True
            with self._lock:
                self.requests -= 1
                self.bytes -= held.bytes

    def take(self, size_bytes: int) -> None:
        """Count these bytes, unless they are too many. Raises `Refused`."""
        with self._lock:
            if self.bytes + size_bytes > self._limits.bytes_in_flight:
                raise _busy()
            self.bytes += size_bytes


@dataclass(slots=True)
class Held:
    """The bytes of one request that count."""

    _all: InFlight
    bytes: int = 0
    abandoned: bool = False
    """Whether nobody waits for the request any more."""

    def check(self) -> None:
        """Raise `Refused` if the work is for nothing. Called now and then by whatever takes long in a thread."""
        if self.abandoned or self._all.ending:
            raise Refused(503, "ending", "the service ends; send this again later", retry_after_s=RETRY_AFTER_S)

    def grow(self, size_bytes: int) -> None:
        """Hold so many more. Raises `Refused`."""
        self._all.take(size_bytes)
        self.bytes += size_bytes


def _busy() -> Refused:
    return Refused(429, "busy", "too many requests at once; send this one again later", retry_after_s=RETRY_AFTER_S)


def too_large(what: str, limit: int) -> Refused:
    """The refusal of a request beyond a limit; sending it again does not help."""
    return Refused(413, "too-large", f"{what}: the limit is {limit:,}; send less at a time")
