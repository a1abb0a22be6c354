"""Post a batch of reports to the service, and read what the service did with it."""

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
"""The longest pause that a service can ask for. Longer ones are cut to it."""

_ANSWER_BYTES = 64 << 10
_FINAL_STATUSES = frozenset({400, 415, 422})
"""Statuses that the same bytes get each time. Others, as for a wrong token or path, may change when it is put right."""


class PostVerdict(Enum):
    """What the sender must do with a batch after an attempt."""

    ACCEPTED = "accepted"
    RETRY = "retry"
    SPLIT = "too large"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class PostResult:
    """The result of an attempt: its verdict, the pause that the service asked for, and the reason for the log."""

    verdict: PostVerdict
    retry_after_s: float = 0.0
    reason: str = ""


class Poster:
    """A client of one service with one open connection. Not thread-safe."""

    def __init__(self, endpoint: str, *, token: str | None, timeout_s: float, tls: ssl.SSLContext | None) -> None:
        """Check the endpoint and the token; raise ValueError if one cannot work. Connects at the first post."""
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"an endpoint is http://host:port or https://host:port, not {endpoint!r:.100}")
        if parts.username or parts.password:
            raise ValueError("an endpoint holds no password; pass token=")
        self._host, self._port, self._secure = parts.hostname, parts.port, parts.scheme == "https"
        self._address = f"{self._host}:{self._port or (443 if self._secure else 80)}"
        self._path = parts.path.rstrip("/") + "/v1/reports"
        self._headers = {"Content-Type": CONTENT_TYPE}
        if token is not None:
            if not token.isascii() or not token.isprintable():
                raise ValueError("a token is printable ASCII text")
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout_s = timeout_s
        self._tls = tls
        self._connection: HTTPConnection | None = None

    def post(self, body: bytes, batch_id: str, *, within_s: float | None = None) -> PostResult:
        """Send a batch, and wait for the answer. Never raises. It is safe to send the same bytes under the same id again."""
        timeout_s = self._timeout_s if within_s is None else min(self._timeout_s, max(within_s, 0.05))
        was_open = self._connection is not None
        answer = self._try(body, batch_id, timeout_s)
        if answer is None and was_open:
            # The other end may have closed an idle connection. That is no failure of the service.
            answer = self._try(body, batch_id, timeout_s)
        return answer or PostResult(PostVerdict.RETRY, reason="the connection was lost")

    def close(self) -> None:
        """Close the connection. The next post opens a new one."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None

    def _try(self, body: bytes, batch_id: str, timeout_s: float) -> PostResult | None:
        """Send a batch once; None if the connection broke before an answer came."""
        try:
            connection = self._connection or self._connect(timeout_s)
            self._connection = connection
            if connection.sock is not None:
                connection.sock.settimeout(timeout_s)
            connection.request("POST", self._path, body, {**self._headers, "Ledto-Batch": batch_id})
            response = connection.getresponse()
            answer = _read_answer(response.status, response.getheader("Retry-After"))
            if len(response.read(_ANSWER_BYTES)) == _ANSWER_BYTES or response.will_close:
                self.close()
        except TimeoutError:
            self.close()
            return PostResult(PostVerdict.RETRY, reason="no answer in time")
        except ConnectionRefusedError:
            self.close()
            return PostResult(
                PostVerdict.RETRY, reason=f"connection refused by {self._address}: is the service running?"
            )
        except (OSError, HTTPException, ValueError):
            self.close()
            return None
        return answer

    def _connect(self, timeout_s: float) -> HTTPConnection:
        if self._secure:
            return HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._tls)
        return HTTPConnection(self._host, self._port, timeout=timeout_s)


def _read_answer(status: int, retry_after: str | None) -> PostResult:
    if 200 <= status < 300:
        return PostResult(PostVerdict.ACCEPTED)
    reason = f"status {status}"
    if status == 413:
        return PostResult(PostVerdict.SPLIT, reason=reason)
    if status in _FINAL_STATUSES:
        return PostResult(PostVerdict.REFUSED, reason=reason)
    return PostResult(PostVerdict.RETRY, retry_after_s=_wait_seconds(retry_after), reason=reason)


def _wait_seconds(retry_after: str | None) -> float:
    """Parse a ``Retry-After`` header into seconds from now; 0 if it is malformed."""
    if not retry_after:
        return 0.0
    try:
        wait_s = float(retry_after)
    except ValueError:
        try:
            wait_s = parsedate_to_datetime(retry_after).timestamp() - time.time()
        except (ValueError, OverflowError, TypeError):
            return 0.0
    # A NaN is not > 0 either.
    return min(wait_s, MOST_WAIT_S) if wait_s > 0 else 0.0
