"""Cut rows of reports into messages for the broker, and create the JetStream stream that stores them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import nats.js.errors
import pyarrow as pa
from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig

from ledto.events.payload import encode_reports
from ledto.service.broker.nats_server import STREAM, SUBJECT, BrokerError, Retention
from ledto.service.http.limits import too_large

MESSAGE_BYTES: Final = 1 << 20
"""The most bytes of a message, unless one row has more."""


@dataclass(frozen=True, slots=True)
class BrokerMessage:
    """One message for the broker."""

    payload: bytes
    id: str | None = None
    """The broker stores messages with the same id once, and messages without one every time."""


def cut_into_messages(rows: pa.Table, batch: str, *, most_bytes: int) -> list[BrokerMessage]:
    """Cut rows into messages of up to `MESSAGE_BYTES`; a larger row is one message. Raises `Refused` beyond `most_bytes`.

    The same rows and `batch` give the same ids.
    """
    payloads: list[bytes] = []
    waiting = [rows]
    while waiting:
        part = waiting.pop()
        payload = encode_reports(part)
        if len(payload) > MESSAGE_BYTES and len(part) > 1:
            half = len(part) // 2
            waiting += [part.slice(half), part.slice(0, half)]
        elif len(payload) > most_bytes:
            raise too_large("bytes of one report", most_bytes)
        else:
            payloads.append(payload)
    return [BrokerMessage(payload, f"{batch}/{number}") for number, payload in enumerate(payloads)]


async def ensure_stream(
    context: JetStreamContext, retention: Retention, *, stream: str = STREAM, subject: str = SUBJECT
) -> None:
    """Create the stream, or check that an existing one is suitable and set its bounds. Raises `BrokerError`."""
    wanted = StreamConfig(
        name=stream,
        subjects=[subject],
        retention=RetentionPolicy.LIMITS,
        max_bytes=retention.bytes,
        max_age=retention.age_s,
        discard=DiscardPolicy.NEW,
        storage=StorageType.FILE,
        num_replicas=1,
        duplicate_window=_window_s(retention),
        allow_direct=True,
    )
    try:
        existing = (await context.stream_info(stream)).config
    except nats.js.errors.NotFoundError:
        await context.add_stream(wanted)
        return
    for name in ("subjects", "retention", "storage"):
        if getattr(existing, name) != getattr(wanted, name):
            raise BrokerError(f"the stream {stream} of the broker has other {name} than reports need: name another one")
    bounds = ("max_bytes", "max_age", "discard", "duplicate_window", "allow_direct")
    if any((getattr(existing, name) or 0) != (getattr(wanted, name) or 0) for name in bounds):
        await context.update_stream(existing.evolve(**{name: getattr(wanted, name) for name in bounds}))


def _window_s(retention: Retention) -> float:
    # JetStream refuses a window that is longer than the age limit of messages.
    return min(retention.duplicates_s, retention.age_s) if retention.age_s else retention.duplicates_s
