"""Publish messages to the broker, and wait until it has stored them.

`Publisher.publish` returns once the broker has acknowledged every message. In all other cases it raises `RequestRefused`,
and the sender must send again. Messages that were stored the first time are not stored twice if they have the same ids.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import nats
import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import StreamInfo

from ledto.service.broker.messages import BrokerMessage, ensure_stream
from ledto.service.broker.nats_server import STREAM, SUBJECT, BrokerError, Retention
from ledto.service.http.limits import RETRY_AFTER_S, Limits, RequestRefused, too_large

log = logging.getLogger("ledto.service")

HEARTBEAT_S: Final = 1.0
"""Seconds between heartbeats while reports wait in the stream: it then learns in time that time has passed."""
QUIET_HEARTBEAT_S: Final = 60.0
"""Seconds between heartbeats while nothing waits. Each is work for the stream, but they find a broker that hangs."""
QUIET_AFTER_S: Final = 15.0
"""Seconds after the last report before the stream is asked whether anything waits."""
_HEADERS_BYTES: Final = 4 << 10
_MOST_BYTES: Final = 64 << 20
"""The largest payload that NATS allows; a broker may allow less."""
_CONNECT_S: Final = 2.0
_FIRST_WAIT_S: Final = 0.05
_LONGEST_WAIT_S: Final = 2.0
_FULL: Final = 10077
"""JetStream's code for a message that could not be stored, for example because the stream is full."""


class Publisher:
    """The collector's connection to the broker. It is renewed whenever it is lost. Belongs to one event loop.

    `url` is called at each attempt, because a broker may restart at another address.
    """

    def __init__(
        self,
        url: Callable[[], str],
        *,
        retention: Retention,
        limits: Limits,
        stream: str = STREAM,
        subject: str = SUBJECT,
        has_room: Callable[[], bool] = lambda: True,
        on_published: Callable[[float], None] = lambda seconds: None,
        any_waits: Callable[[], bool] = lambda: False,
    ) -> None:
        """`any_waits` says whether the stream has reports that wait for time to pass; a thread calls it."""
        self._url = url
        self._retention = retention
        self._limits = limits
        self._stream = stream
        self._subject = subject
        self._has_room = has_room
        self._on_published = on_published
        self._any_waits = any_waits
        self._context: JetStreamContext | None = None
        self._client: Client | None = None
        self._lost = asyncio.Event()
        self._ready = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._last_publish_s = 0.0
        self._last_report_s = 0.0
        self._failing_since_s: float | None = None
        self.first_report_s: float | None = None
        """When the first report since the start was stored, by the monotonic clock; None before."""
        self.most_bytes = _MOST_BYTES
        """The largest payload of a message that the broker accepts."""
        self.problem: str | None = "the broker has not been reached yet"
        """Why there is no connection; None while there is one."""

    @property
    def has_room(self) -> bool:
        """Whether our own broker's disk has room for reports; True for an external broker."""
        return self._has_room()

    @property
    def failing_s(self) -> float:
        """For how many seconds nothing could be stored, though the broker was not full and the disk had room."""
        since = self._failing_since_s
        return 0.0 if since is None else time.monotonic() - since

    def reset_failing(self) -> None:
        """Count `failing_s` from 0 again."""
        self._failing_since_s = None

    async def start(self) -> None:
        """Start to connect and to send heartbeats; do not wait for the connection."""
        self._tasks = [asyncio.create_task(self._keep_connected()), asyncio.create_task(self._beat())]

    async def wait_ready(self, timeout_s: float) -> None:
        """Wait until the broker is connected and has its stream. Raises `BrokerError` with the reason after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._ready.wait()
        except TimeoutError:
            raise BrokerError(self.problem or "the broker cannot be reached") from None

    async def close(self) -> None:
        """Disconnect; refuse messages that are not acknowledged yet."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        await self._disconnect()

    async def publish(self, messages: Sequence[BrokerMessage]) -> None:
        """Store the messages; return once all are stored. Raises `RequestRefused`."""
        started = time.monotonic()
        await self._publish_timed(messages)
        if self.first_report_s is None:
            self.first_report_s = started
        self._last_report_s = time.monotonic()
        self._on_published(self._last_report_s - started)

    async def _publish_timed(self, messages: Sequence[BrokerMessage]) -> None:
        """Publish, and note when that last succeeded or began to fail."""
        if not self._has_room():
            raise _unavailable("disk-full", "the disk is full")
        started = time.monotonic()
        try:
            await self._publish(messages)
        except RequestRefused as refusal:
            if refusal.status == 503 and self._failing_since_s is None:
                self._failing_since_s = started
            raise
        self._failing_since_s = None
        self._last_publish_s = time.monotonic()

    async def _publish(self, messages: Sequence[BrokerMessage]) -> None:
        context = self._context
        if context is None:
            raise _unavailable("broker-down", "the broker cannot be reached")
        lost = self._lost
        storing = asyncio.ensure_future(self._store_all(context, messages))
        losing = asyncio.ensure_future(lost.wait())
        try:
            await asyncio.wait([storing, losing], return_when=asyncio.FIRST_COMPLETED)
            if not storing.done():
                raise _unavailable("broker-down", "the connection to the broker was lost before it had stored all")
            storing.result()
        except nats.js.errors.APIError as fault:
            raise _not_stored(fault) from None
        except nats.js.errors.NoStreamResponseError:
            # The stream was removed, or the server has just started: connect again, and make the stream.
            lost.set()
            raise _unavailable("no-stream", "the broker does not accept reports now") from None
        except nats.errors.MaxPayloadError:
            raise too_large("bytes of one report", self.most_bytes) from None
        except (nats.errors.Error, TimeoutError, OSError, ValueError):
            if self._client is None or self._client.is_closed:
                # The client does not call back if it fails while it writes its last bytes.
                lost.set()
            raise _unavailable("broker-slow", "the broker did not answer in time") from None
        finally:
            losing.cancel()
            storing.cancel()
            with suppress(Exception, asyncio.CancelledError):
                await storing

    async def info(self) -> StreamInfo | None:
        """Ask the broker about the stream; None if it does not answer."""
        context = self._context
        if context is None:
            return None
        try:
            async with asyncio.timeout(_CONNECT_S):
                return await context.stream_info(self._stream)
        except (nats.errors.Error, TimeoutError, OSError, ValueError):
            return None

    async def _store_all(self, context: JetStreamContext, messages: Sequence[BrokerMessage]) -> bool:
        await asyncio.gather(*(self._store(context, message) for message in messages))
        return True

    async def _store(self, context: JetStreamContext, message: BrokerMessage) -> None:
        headers = {"Nats-Msg-Id": message.id} if message.id is not None else None
        await context.publish(
            self._subject, message.payload, timeout=self._limits.publish_s, stream=self._stream, headers=headers
        )

    async def _keep_connected(self) -> None:
        wait_s = _FIRST_WAIT_S
        while True:
            lost = asyncio.Event()
            try:
                await self._connect(lost)
                self._ready.set()
                wait_s = _FIRST_WAIT_S
                await lost.wait()
                self.problem = "the connection to the broker was lost"
                log.warning("the connection to the broker was lost")
            except BrokerError as fault:
                self.problem = str(fault)
            except nats.js.errors.APIError as fault:
                self.problem = f"the broker refuses the stream {self._stream}: {fault.description}"
            except (nats.errors.Error, OSError, TimeoutError, ValueError) as fault:
                self.problem = f"the broker cannot be reached ({type(fault).__name__})"
            finally:
                lost.set()
                self._ready.clear()
                self._context = None
            await self._disconnect()
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_WAIT_S)

    async def _connect(self, lost: asyncio.Event) -> None:
        async def on_lost() -> None:
            lost.set()

        self._client = client = Client()
        await client.connect(
            self._url(),
            name="ledto collector",
            # We reconnect ourselves: the client would wait for seconds between attempts.
            allow_reconnect=False,
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=int(_CONNECT_S),
            ping_interval=10,
            max_outstanding_pings=2,
            closed_cb=on_lost,
            disconnected_cb=on_lost,
            error_cb=_ignore,
            # The limits on requests bound the messages that wait in the client.
            pending_size=2 * self._limits.bytes_in_flight,
        )
        context = client.jetstream(timeout=_CONNECT_S)
        await ensure_stream(context, self._retention, stream=self._stream, subject=self._subject)
        self.most_bytes = client.max_payload - _HEADERS_BYTES
        self._lost = lost
        self._context = context
        self.problem = None

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        if client is not None and not client.is_closed:
            with suppress(Exception):
                async with asyncio.timeout(_CONNECT_S):
                    await client.close()

    async def _beat(self) -> None:
        """Send an empty message while no reports come: the stream learns from it that time has passed.

        The first is sent at once. The stream then loads what it needs before the first report comes.
        """
        while True:
            pause_s = HEARTBEAT_S if await self._time_matters() else QUIET_HEARTBEAT_S
            idle_s = time.monotonic() - self._last_publish_s
            if idle_s >= pause_s and self._context is not None:
                # If the broker is full or down, the next heartbeat is soon enough.
                with suppress(RequestRefused):
                    await self._publish_timed([BrokerMessage(b"")])
                idle_s = 0.0
            # A report may come at any moment, and time matters then.
            await asyncio.sleep(min(max(pause_s - idle_s, 0.05), HEARTBEAT_S))

    async def _time_matters(self) -> bool:
        """Return whether a report may wait for time to pass, or the broker may have to be replaced."""
        if self._failing_since_s is not None:
            return True
        if self.first_report_s is not None and time.monotonic() - self._last_report_s < QUIET_AFTER_S:
            return True
        return await asyncio.to_thread(self._any_waits)


def _not_stored(fault: nats.js.errors.APIError) -> RequestRefused:
    if fault.err_code == _FULL and "maximum" in (fault.description or ""):
        return RequestRefused(429, "full", "the broker is full; send this again later", retry_after_s=5)
    return _unavailable("not-stored", "the broker could not store the reports")


def _unavailable(reason: str, message: str) -> RequestRefused:
    return RequestRefused(503, reason, f"{message}; send this again later", retry_after_s=RETRY_AFTER_S)


async def _ignore(fault: Exception) -> None:
    """Ignore an error of the connection: calls that use it fail, too. By default the client prints a traceback."""
