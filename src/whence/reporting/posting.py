"""One request to the service: the bytes of a batch, and what became of them."""

from __future__ import annotations

import contextlib
import ssl
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

CONTENT_TYPE = "application/x-ndjson"
MOST_WAIT_S = 600.0
"""A service may ask for this much patience, and no more."""

_ANSWER_BYTES = 64 << 10
_NEVER = frozenset({400, 415, 422})
"""What these bytes will be answered however often they are sent. A wrong token or path can be put right."""


class Verdict(Enum):
    """What became of a batch."""

    ACCEPTED = "accepted"
    RETRY = "retry"
    SPLIT = "too large"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Answer:
    """The verdict, how long the service asked to wait, and a few words for the log."""

    verdict: Verdict
    retry_after_s: float = 0.0
    reason: str = ""


class Poster:
    """Posts to one service over one connection at a time. Used by one thread."""

    def __init__(self, endpoint: str, *, token: str | None, timeout_s: float, tls: ssl.SSLContext | None) -> None:
        """Raises ValueError for an endpoint that is no HTTP address."""
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"an endpoint is http://host:port or https://host:port, not {endpoint!r:.100}")
        if parts.username or parts.password:
            raise ValueError("an endpoint holds no password; pass token=")
        self._host, self._port, self._secure = parts.hostname, parts.port, parts.scheme == "https"
        self._path = parts.path.rstrip("/") + "/v1/reports"
        self._headers = {"Content-Type": CONTENT_TYPE}
        if token is not None:
            if not token.isascii() or not token.isprintable():
                raise ValueError("a token is printable ASCII text")
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout_s = timeout_s
        self._tls = tls
        self._connection: HTTPConnection | None = None

    def post(self, body: bytes, batch_id: str, *, within_s: float | None = None) -> Answer:
        """Send a batch; never raises. Sending the same bytes under the same id again is safe."""
        timeout_s = self._timeout_s if within_s is None else min(self._timeout_s, max(within_s, 0.05))
        was_open = self._connection is not None
        answer = self._try(body, batch_id, timeout_s)
        if answer is None and was_open:
            # A connection that stood idle may have been closed by the other end: that says nothing of the service.
            answer = self._try(body, batch_id, timeout_s)
        return answer or Answer(Verdict.RETRY, reason="the connection was lost")

    def close(self) -> None:
        """Drop the connection."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None

    def _try(self, body: bytes, batch_id: str, timeout_s: float) -> Answer | None:
        """None when the connection broke before there was an answer."""
        try:
            connection = self._connection or self._connect(timeout_s)
            self._connection = connection
            if connection.sock is not None:
                connection.sock.settimeout(timeout_s)
            connection.request("POST", self._path, body, {**self._headers, "Whence-Batch": batch_id})
            response = connection.getresponse()
            answer = _answer(response.status, response.getheader("Retry-After"))
            if len(response.read(_ANSWER_BYTES)) == _ANSWER_BYTES or response.will_close:
                self.close()
        except TimeoutError:
            self.close()
            return Answer(Verdict.RETRY, reason="no answer in time")
        except ConnectionRefusedError:
            self.close()
            return Answer(Verdict.RETRY, reason="nobody listens there")
        except (OSError, HTTPException, ValueError):
            self.close()
            return None
        return answer

    def _connect(self, timeout_s: float) -> HTTPConnection:
        if self._secure:
            return HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._tls)
        return HTTPConnection(self._host, self._port, timeout=timeout_s)


def _answer(status: int, retry_after: str | None) -> Answer:
    if 200 <= status < 300:
        return Answer(Verdict.ACCEPTED)
    reason = f"status {status}"
    if status == 413:
        return Answer(Verdict.SPLIT, reason=reason)
    if status in _NEVER:
        return Answer(Verdict.REFUSED, reason=reason)
    return Answer(Verdict.RETRY, retry_after_s=_seconds(retry_after), reason=reason)


def _seconds(retry_after: str | None) -> float:
    """What the header asks for, in seconds from now; 0 for a header that cannot be read."""
    if not retry_after:
        return 0.0
    try:
        wait_s = float(retry_after)
    except ValueError:
        try:
            wait_s = parsedate_to_datetime(retry_after).timestamp() - time.time()
        except (ValueError, OverflowError, TypeError):
            return 0.0
    # The comparison is also what a NaN fails.
    return min(wait_s, MOST_WAIT_S) if wait_s > 0 else 0.0
