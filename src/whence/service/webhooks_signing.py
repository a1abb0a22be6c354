"""Signatures of webhooks, for both ends. Needs the standard library only.

A request to a webhook carries three headers::

    Whence-Delivery: 5f0c...e1/42                  the subscription and the number: the same for every attempt
    Whence-Timestamp: 1767225600                   seconds since 1970, when this attempt was made
    Whence-Signature: v1=<hexadecimal HMAC-SHA256 of the time stamp, a full stop, and the body>

Deliveries come at least once and in order. A receiver that remembers the last `Whence-Delivery` it has dealt with can tell
a repetition from news.
"""

from __future__ import annotations

import hashlib
import hmac
import time

DELIVERY_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER = "Whence-Delivery", "Whence-Timestamp", "Whence-Signature"
SCHEME = "v1="


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """What stands in the header `Whence-Signature`."""
    signed = b"%d." % timestamp + body
    return SCHEME + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def verify_signature(
    secret: str,
    body: bytes,
    timestamp: str,
    signature_given: str,
    *,
    tolerance_s: float = 300.0,
    now_s: float | None = None,
) -> bool:
    """Whether a request with these headers was signed with the secret, less than `tolerance_s` ago. Takes constant time.

    `body` is the body as it came, byte for byte. HAZARD: a body that was parsed and written again is another one.
    """
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 12 and signature_given.isascii()):
        return False
    now_s = time.time() if now_s is None else now_s
    genuine = hmac.compare_digest(signature(secret, int(timestamp), body), signature_given)
    return genuine and abs(now_s - int(timestamp)) <= tolerance_s
