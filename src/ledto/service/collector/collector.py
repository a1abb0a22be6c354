"""Read, parse and store the reports of a request, however it was sent. Nothing here knows HTTP or gRPC.

A request that is answered without `RequestRefused` is stored: every record of it, those that cannot be read with the reason.
After a refusal, records may be stored or not, and the sender may send the same request again. If both have the same batch
id, no record is stored twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import threading
import uuid
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow.compute as pc

from ledto.events.sizes import quarantine_large
from ledto.service.broker.messages import BrokerMessage, cut_into_messages
from ledto.service.broker.publisher import Publisher
from ledto.service.collector.otlp_responses import Signal, StoredRecords
from ledto.service.collector.parse import BodyFormat, Parser
from ledto.service.http.bodies import check_lines, gunzip
from ledto.service.http.limits import HeldBytes, InFlight, Limits, RequestRefused
from ledto.service.metrics import Metrics

BATCH_HEADER: Final = "ledto-batch"
"""The header, or the gRPC metadata, with the batch id."""
METRICS_NOT_KEPT: Final = "metrics are not kept: ledto keeps traces and logs"

_BATCH: Final = re.compile(r"[\x21-\x7e]{1,128}")
_SHOWN: Final = 10
_SHOWN_CHARACTERS: Final = 200


@dataclass(frozen=True, slots=True)
class SentBody:
    """A body that is not read yet, and what its sender says of it."""

    writer: str
    """The name of the sender, by its token."""
    format: BodyFormat
    batch: str | None
    """The batch id; None if the sender gave none."""
    read: Callable[[HeldBytes], Awaitable[tuple[bytes, bool]]]
    """Read the body, and count its bytes. Returns it, and whether it is compressed by gzip. Raises `RequestRefused`."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request's reports as messages, ready to be stored."""

    messages: list[BrokerMessage]
    reports: int
    quarantined: int
    """How many of the reports cannot be read."""
    first_quarantined: list[dict[str, Any]]
    """Place and reason of the first of those."""


class Collector:
    """Stores the reports of requests. Belongs to one event loop."""

    def __init__(self, publisher: Publisher, limits: Limits, metrics: Metrics) -> None:
        self._publisher = publisher
        self.limits = limits
        self.metrics = metrics
        self._parser = Parser(limits)
        self.in_flight = InFlight(limits)
        # More threads than cores would only compete for the interpreter's lock.
        self._threads = ThreadPoolExecutor(max(2, min(os.cpu_count() or 2, 8)), thread_name_prefix="parsing")

    def load_compiled(self) -> None:
        """Start to load the compiled reader in a thread; the service can end without waiting for it."""
        threading.Thread(target=self._parser.load_compiled, name="loading readers", daemon=True).start()

    def close(self) -> None:
        """Release the threads without waiting; their work stops at its next `HeldBytes.check`."""
        self.in_flight.ending = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def export(self, signal: Signal, sent: SentBody) -> StoredRecords:
        """Store a request of OpenTelemetry, and return what to tell its sender. Raises `RequestRefused`.

        Metrics are read and dropped: a sender of all three signals gets no errors, and is told that they are not kept.
        """
        if signal == "metrics":
            await self._drop(sent)
            return StoredRecords(0, METRICS_NOT_KEPT)
        prepared = await self.store(sent)
        if not prepared.quarantined:
            return StoredRecords(0, "")
        first = prepared.first_quarantined[0]["reason"]
        return StoredRecords(
            prepared.quarantined,
            f"{prepared.quarantined} records cannot be read and are quarantined, the first because of {first}",
        )

    async def store(self, sent: SentBody) -> Prepared:
        """Read, parse and store the reports of a request. Raises `RequestRefused`."""
        with self.in_flight.request() as held:
            body, is_gzip = await sent.read(held)
            self.metrics.count("body_bytes", len(body))
            prepare = partial(self._prepare, body, is_gzip, sent, held)
            # `prepare` is the only one to hold the body, so that memory is free once it is parsed.
            del body
            prepared = await asyncio.get_running_loop().run_in_executor(self._threads, prepare)
            del prepare
            if prepared.messages:
                await self._publisher.publish(prepared.messages)
        self.metrics.count("reports", prepared.reports)
        self.metrics.count("quarantined", prepared.quarantined)
        return prepared

    async def _drop(self, sent: SentBody) -> None:
        """Read a body and drop it, so that its sender can use the connection again."""
        with self.in_flight.request() as held:
            body, _ = await sent.read(held)
        self.metrics.count("body_bytes", len(body))
        self.metrics.count("metrics_requests_dropped")

    def _prepare(self, body: bytes, is_gzip: bool, sent: SentBody, held: HeldBytes) -> Prepared:
        """Decompress and parse a body, and cut its rows into messages. Runs in a thread."""
        if is_gzip:
            body = gunzip(body, self.limits, held)
        if sent.format is BodyFormat.LINES:
            check_lines(body, self.limits)
        held.check()
        rows = self._parser.parse(body, sent.format, f"http:{sent.writer}")
        if not len(rows):
            return Prepared([], 0, 0, [])
        rows = quarantine_large(rows, self.limits.report_bytes)
        batch_id = _batch_id(sent.writer, sent.batch, body)
        messages = cut_into_messages(rows, batch_id, most_bytes=self._publisher.most_bytes)
        held.grow(sum(len(message.payload) for message in messages))
        bad = len(rows) - rows["reason"].null_count
        first_bad: list[dict[str, Any]] = []
        if bad:
            first_rows = rows.select(["place", "reason"]).filter(pc.is_valid(rows["reason"])).slice(0, _SHOWN)
            first_bad = [{**row, "reason": row["reason"][:_SHOWN_CHARACTERS]} for row in first_rows.to_pylist()]
        return Prepared(messages, len(rows), bad, first_bad)


def check_batch(batch: str | None) -> str | None:
    """Return the batch id that a sender gave. Raises `RequestRefused` if it is no plain text."""
    if batch is not None and _BATCH.fullmatch(batch) is None:
        raise RequestRefused(400, "batch", "Ledto-Batch is up to 128 plain characters")
    return batch


def _batch_id(writer: str, batch: str | None, body: bytes) -> str:
    """Return an id that only retries of the same request share.

    It contains the body's hash: a sender that restarts and numbers its batches from 1 again loses nothing.
    """
    if batch is None:
        return uuid.uuid4().hex
    return f"{writer}:{batch}:{hashlib.blake2b(body, digest_size=12).hexdigest()}"
