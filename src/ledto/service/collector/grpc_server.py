"""Collect OTLP over gRPC, with the limits, tokens and answers of HTTP.

The bytes of a message go to the same `Collector` as the body of an HTTP request. gRPC does the framing, and nothing else:

- a call is read by us, although it has one message: the token is checked, and the request counted, before its body is read;
- gRPC does not decompress, because many versions do so without a limit. A message then begins as gzip does, and as no OTLP
  request can;
- gRPC gives a message as a whole, so its bytes cannot be counted as they come: few are read at once (`ReadingSlots`).

HAZARD: a read that has begun must not be cancelled while its call lives, because gRPC still writes to its memory. End the
call instead.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from ledto.service.collector.collector import BATCH_HEADER, Collector, SentBody, check_batch
from ledto.service.collector.otlp_responses import Signal, export_response, refusal_status, retry_info
from ledto.service.collector.parse import BodyFormat
from ledto.service.http.app import DRAIN_S, HttpSettings, cannot_listen, free_address, show_address
from ledto.service.http.connections import most_connections
from ledto.service.http.limits import RETRY_AFTER_S, HeldBytes, Limits, RequestRefused
from ledto.service.http.problems import unexpected_failure

# Read at the import. gRPC's own log has lines for wrong requests, with which anybody could fill the disk. And gRPC need not
# stop its threads whenever the service starts a child: the child does not use it.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc  # type: ignore[import-untyped]

METHODS: Final[dict[str, Signal]] = {
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export": "traces",
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export": "logs",
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": "metrics",
}
GZIP_MAGIC: Final = b"\x1f\x8b"
"""How gzip begins. An OTLP request cannot: its first byte would be a field of a type that protobuf has not."""
STREAMS_OF_CONNECTION: Final = 100
"""The most calls at once on one connection. Others wait at the client, or are refused as UNAVAILABLE and sent again."""
IDLE_S: Final = 300
"""Seconds after which a connection without calls is closed."""
PROBE_S: Final = 2.0
_IDENTITY_AND_GZIP: Final = 0b101
"""The compressions that are announced, as gRPC numbers them."""
_STATUS_DETAILS: Final = "grpc-status-details-bin"
_RETRY_INFO: Final = "google.rpc.retryinfo-bin"
"""The same as in the status details; the exporters of Python look here."""
_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


class ReadingSlots:
    """Lets a bounded number of bodies be read at once. Belongs to one event loop.

    If all are in use, the one that is being read longest is given up once it has had `give_way_s`: senders that stop
    half-way cannot keep others out.
    """

    def __init__(self, most: int, give_way_s: float) -> None:
        self._most = most
        self._give_way_s = give_way_s
        self._reading: dict[asyncio.Future[None], float] = {}
        """By the future that is done when a body has to give way: when its reading began. The oldest comes first."""
        self._freed = asyncio.Event()

    async def read(self, begin: Callable[[], Awaitable[Any]], timeout_s: float) -> Any:
        """Wait for a slot, then for what `begin` returns. Raises `RequestRefused` if that takes too long.

        What `begin` returns is never cancelled.
        """
        give_way = await self._enter()
        reading = asyncio.ensure_future(begin())
        # Nobody looks at a read that was given up.
        reading.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            await asyncio.wait([reading, give_way], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                return reading.result()
            if give_way.done():
                raise RequestRefused(
                    429, "busy", "too many bodies at once, and this one came slowly", retry_after_s=RETRY_AFTER_S
                )
            raise RequestRefused(408, "slow", f"the body did not come within {timeout_s:g} s")
        finally:
            self._leave(give_way)

    async def _enter(self) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        while len(self._reading) >= self._most:
            oldest, since = next(iter(self._reading.items()))
            wait_s = since + self._give_way_s - loop.time()
            if wait_s <= 0:
                self._leave(oldest)
                oldest.set_result(None)
                break
            self._freed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._freed.wait()
        give_way: asyncio.Future[None] = loop.create_future()
        self._reading[give_way] = loop.time()
        return give_way

    def _leave(self, give_way: asyncio.Future[None]) -> None:
        if self._reading.pop(give_way, None) is not None:
            self._freed.set()


class GrpcServer:
    """Serves `METHODS`. Belongs to one event loop. Making it binds the port; `start` begins to accept."""

    def __init__(self, collector: Collector, settings: HttpSettings, port: int) -> None:
        """Bind the port; 0 takes a free one. Raises `ServiceError` if that is not possible."""
        self._collector = collector
        self._access = settings.access
        limits = collector.limits
        self._limits = limits
        self._slots = ReadingSlots(max(1, limits.bytes_in_flight // limits.body_bytes), limits.give_way_s)
        self._server = grpc.aio.server(handlers=[_Methods(self._export)], options=_options(limits))
        self._is_secure = settings.certificate is not None
        self.host, self.port = self._bind(settings, port)

    @property
    def url(self) -> str:
        """The address that it listens on, as exporters take it."""
        return f"{'https' if self._is_secure else 'http'}://{show_address(self.host)}:{self.port}"

    async def start(self) -> None:
        """Begin to accept calls."""
        await self._server.start()

    async def stop(self) -> None:
        """Accept nothing more, and wait for calls that came before, at most `DRAIN_S`."""
        await self._server.stop(DRAIN_S)

    async def is_up(self) -> bool:
        """Return whether the port still accepts connections."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        try:
            async with asyncio.timeout(PROBE_S):
                _, writer = await asyncio.open_connection(host, self.port)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    def _bind(self, settings: HttpSettings, port: int) -> tuple[str, int]:
        # gRPC does not say why it cannot bind, so the socket module has to try first.
        host = free_address(settings.host, port, option="--grpc-port, or --no-grpc")
        address = f"{show_address(host)}:{port}"
        try:
            if settings.certificate is None or settings.key is None:
                return host, self._server.add_insecure_port(address)
            pair = (settings.key.read_bytes(), settings.certificate.read_bytes())
            return host, self._server.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        except (OSError, RuntimeError):
            raise cannot_listen(settings.host, port, "gRPC refuses", option="--grpc-port, or --no-grpc") from None

    async def _export(self, method: str, context: Any) -> bytes:
        """Handle one call. Ends it with an error by `context.abort`, which raises."""
        code = grpc.StatusCode.CANCELLED
        try:
            signal = METHODS[method]
            try:
                stored = await self._collector.export(signal, self._sent_body(context))
                code = grpc.StatusCode.OK
                return export_response(signal, stored)
            except RequestRefused as refused:
                refusal = refused
                self._collector.metrics.count("refused", reason=refusal.reason)
            except Exception as fault:
                refusal = unexpected_failure(fault, self._collector.metrics)
            status = refusal_status(refusal)
            code = _CODES[status.code]
            details = [(_STATUS_DETAILS, status.SerializeToString())]
            if (retry := retry_info(refusal)) is not None:
                details.append((_RETRY_INFO, retry.SerializeToString()))
            await context.abort(code, refusal.message, tuple(details))
            raise AssertionError("gRPC goes on after the end of a call")
        finally:
            if code is grpc.StatusCode.CANCELLED:
                # The sender went away or gave up, or gRPC found its message too large.
                self._collector.metrics.count("refused", reason="gone")
            self._collector.metrics.count("requests", path=method, status=code.name)

    def _sent_body(self, context: Any) -> SentBody:
        """Check what a call says of itself. Raises `RequestRefused`."""
        # Of two with one name the first counts, as over HTTP.
        pairs = reversed(tuple(context.invocation_metadata()))
        metadata = {key: value for key, value in pairs if isinstance(value, str)}
        writer = self._access.writer_with(metadata.get("authorization", ""))

        async def read(held: HeldBytes) -> tuple[bytes, bool]:
            body = await self._slots.read(lambda: _read_only_message(context), self._limits.read_s)
            held.grow(len(body))
            return body, body.startswith(GZIP_MAGIC)

        return SentBody(writer, BodyFormat.OTLP_PROTOBUF, check_batch(metadata.get(BATCH_HEADER)), read)


class _Methods(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Finds the handler of a call; gRPC refuses calls of other methods as UNIMPLEMENTED."""

    def __init__(self, export: Callable[[str, Any], Awaitable[bytes]]) -> None:
        self._handlers = {method: _handler(method, export) for method in METHODS}

    def service(self, handler_call_details: Any) -> Any:
        return self._handlers.get(handler_call_details.method)


def _handler(method: str, export: Callable[[str, Any], Awaitable[bytes]]) -> Any:
    """Make a handler that reads the message itself. To the client, a call with one message is the same."""

    async def handle(_: Any, context: Any) -> bytes:
        return await export(method, context)

    return grpc.stream_unary_rpc_method_handler(handle)


async def _read_only_message(context: Any) -> bytes:
    """Read the one message of a call. Raises `RequestRefused` if there is none, or more than one."""
    try:
        body = await context.read()
        has_more = body is not grpc.aio.EOF and await context.read() is not grpc.aio.EOF
    except grpc.aio.BaseError:
        raise RequestRefused(400, "gone", "the sender went away") from None
    if body is grpc.aio.EOF:
        raise RequestRefused(400, "no-message", "the call has no message")
    if has_more:
        raise RequestRefused(400, "more-messages", "the call has more than one message; send a call for each")
    message: bytes = body
    return message


def _options(limits: Limits) -> list[tuple[str, int]]:
    """Make gRPC's settings: see its ``grpc_types.h``."""
    return [
        ("grpc.max_receive_message_length", limits.body_bytes),
        ("grpc.per_message_decompression", 0),
        ("grpc.compression_enabled_algorithms_bitset", _IDENTITY_AND_GZIP),
        ("grpc.absolute_max_metadata_size", limits.header_bytes),
        ("grpc.max_metadata_size", limits.header_bytes // 2),
        ("grpc.max_concurrent_streams", STREAMS_OF_CONNECTION),
        ("grpc.max_allowed_incoming_connections", most_connections(limits, servers=2)),
        ("grpc.max_connection_idle_ms", IDLE_S * 1000),
        ("grpc.server_handshake_timeout_ms", int(limits.header_s * 1000)),
        # Without this, a second server may listen on the same port, and each gets some of the calls.
        ("grpc.so_reuseport", 0),
        # It would let every call that nobody reads yet send megabytes ahead.
        ("grpc.http2.bdp_probe", 0),
    ]
