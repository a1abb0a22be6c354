"""Sign and verify requests to webhooks. For sender and receiver; needs only the standard library.

A request to a webhook has three headers::

    Ledto-Delivery: 5f0c...e1/42                  the subscription and the delivery's number, the same for every attempt
    Ledto-Timestamp: 1767225600                   when this attempt was made, in seconds since 1970
    Ledto-Signature: v1=<hexadecimal HMAC-SHA256 of the timestamp, a full stop, and the body>

Deliveries come at least once and in order. A receiver that remembers the last `Ledto-Delivery` that it has handled can
recognise repetitions.
"""

from __future__ import annotations

import hashlib
import hmac
import time

DELIVERY_HEADER, TIMESTAMP_HEADER, SIGNATURE_HEADER = "Ledto-Delivery", "Ledto-Timestamp", "Ledto-Signature"
SCHEME = "v1="


def sign_body(secret: str, timestamp: int, body: bytes) -> str:
    """Return the value of the header `Ledto-Signature`."""
    signed = b"%d." % timestamp + body
    return SCHEME + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def verify_signature(
    secret: str,
    body: bytes,
    timestamp: str,
    signature: str,
    *,
    tolerance_s: float = 300.0,
    now_s: float | None = None,
) -> bool:
    """Check that a request with these headers was signed with the secret, less than `tolerance_s` ago, in constant time.

    HAZARD: `body` must be the received bytes. A body that was parsed and encoded again has another signature.
    """
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 12 and signature.isascii()):
        return False
    now_s = time.time() if now_s is None else now_s
    genuine = hmac.compare_digest(sign_body(secret, int(timestamp), body), signature)
    return genuine and abs(now_s - int(timestamp)) <= tolerance_s
