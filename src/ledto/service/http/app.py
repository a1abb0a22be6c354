"""Make the HTTP application, and run it in a server."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import APIRouter, FastAPI

from ledto.errors import LedtoError
from ledto.service.broker.publisher import Publisher
from ledto.service.collector.collector import Collector
from ledto.service.collector.routes import collector_router
from ledto.service.health import HealthWatch, StreamStatus, watching_router
from ledto.service.http.connections import HttpConnection, OpenConnections, most_connections
from ledto.service.http.limits import Limits, RequestRefused
from ledto.service.http.problems import Guard, answer_refusal
from ledto.service.http.tokens import Access
from ledto.service.metrics import Metrics

DRAIN_S = 10
"""Seconds that running requests get to finish when the server ends."""


class ServiceError(LedtoError):
    """The service cannot be started with these settings; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """How to serve HTTP."""

    host: str = "127.0.0.1"
    port: int = 4318
    grpc_port: int | None = None
    """The port for OTLP over gRPC, on the same host; 0 takes a free one, None offers no gRPC."""
    access: Access = field(default_factory=Access)
    limits: Limits = field(default_factory=Limits)
    certificate: Path | None = None
    key: Path | None = None
    open_to_all: bool = False
    """Whether to listen beyond loopback without tokens."""
    expects_stream: bool = True
    """Whether a stream reads the broker; readiness then depends on it."""

    def check(self) -> None:
        """Raise `ServiceError` if TLS is half configured, or if others could use the service without tokens by mistake."""
        if self.access.is_open and not self.open_to_all and not is_loopback(self.host):
            raise ServiceError(
                f"{self.host} can be reached by others, and there are no tokens: give --tokens or --open-to-all"
            )
        if (self.certificate is None) != (self.key is None):
            raise ServiceError("TLS needs both a certificate and its key: give --tls-cert and --tls-key")


def make_app(
    settings: HttpSettings,
    *,
    publisher: Publisher,
    collector: Collector,
    metrics: Metrics,
    live: StreamStatus | None = None,
    routers: Sequence[APIRouter] = (),
    stream_problem: Callable[[], str | None] = lambda: None,
    grpc_is_up: Callable[[], Awaitable[bool]] | None = None,
) -> FastAPI:
    """Make the application: collector, health, metrics, and the `routers` of questions and subscriptions.

    Routers raise `RequestRefused` to refuse a request, and check tokens with `settings.access`. The caller starts and
    closes the publisher and the collector. `grpc_is_up` is None if there is no gRPC.
    """
    app = FastAPI(title="ledto", docs_url=None, redoc_url=None)
    app.add_exception_handler(RequestRefused, answer_refusal)
    # On loopback without tokens, only the header Host distinguishes an application from a web page in a browser.
    hosts = _LOOPBACK_NAMES if settings.access.is_open and not settings.open_to_all else None
    app.add_middleware(Guard, metrics=metrics, hosts=hosts)
    app.include_router(collector_router(collector, settings.access))
    watch = HealthWatch(
        publisher,
        metrics,
        collector.in_flight,
        live,
        expects_stream=settings.expects_stream,
        stream_problem=stream_problem,
        grpc_is_up=grpc_is_up,
    )
    app.include_router(watching_router(watch, settings.access))
    for router in routers:
        app.include_router(router)
    return app


_BACKLOG = 2_048
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


class HttpServer(uvicorn.Server):
    """Uvicorn with our own socket and connections, and without its signal handlers."""

    def __init__(self, app: FastAPI, settings: HttpSettings) -> None:
        self._socket = _listen(settings)
        self.settings = settings
        servers = 1 if settings.grpc_port is None else 2
        self.connections = OpenConnections(settings.limits, most_connections(settings.limits, servers=servers))
        connections = self.connections

        class ServerConnection(HttpConnection):
            connections_of_server = connections

        try:
            super().__init__(self._config(app, ServerConnection, settings))
            self.config.load()
        except (OSError, ValueError) as fault:
            self._socket.close()
            raise ServiceError(f"the certificate or its key cannot be used: {type(fault).__name__}") from None

    @staticmethod
    def _config(app: FastAPI, connection: type[HttpConnection], settings: HttpSettings) -> uvicorn.Config:
        return uvicorn.Config(
            app,
            http=connection,
            ws="none",
            lifespan="on",
            log_config=None,
            # It warns of every malformed request, with which anybody could fill the disk.
            log_level="error",
            access_log=False,
            server_header=False,
            date_header=True,
            proxy_headers=False,
            h11_max_incomplete_event_size=settings.limits.header_bytes,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=DRAIN_S,
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.key,
        )

    @property
    def url(self) -> str:
        """The address that it listens on."""
        host, port = self._socket.getsockname()[:2]
        return f"{'https' if self.settings.certificate else 'http'}://{show_address(host)}:{port}"

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the caller; Uvicorn would handle them."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, with `Limits.header_s` as time limit of TLS handshakes."""
        loop = asyncio.get_running_loop()
        create_server = loop.create_server

        async def create(*arguments: Any, **options: Any) -> Any:
            if options.get("ssl") is not None:
                # Uvicorn leaves this at a minute, and connections are not counted before the handshake ends.
                options["ssl_handshake_timeout"] = self.settings.limits.header_s
            return await create_server(*arguments, **options)

        setattr(loop, "create_server", create)  # noqa: B010
        try:
            await super().startup(sockets)
        finally:
            delattr(loop, "create_server")

    def close(self) -> None:
        """Close the socket of a server that never ran."""
        self._socket.close()

    async def serve_until_exit(self) -> None:
        """Serve until `should_exit` is set; answer requests that came before."""
        await self.serve(sockets=[self._socket])


def is_loopback(host: str) -> bool:
    """Whether all addresses of the host are loopback; False if it has none."""
    try:
        addresses = {str(info[4][0]).partition("%")[0] for info in socket.getaddrinfo(host, None)}
    except OSError:
        return False
    return bool(addresses) and all(ipaddress.ip_address(address).is_loopback for address in addresses)


def _listen(settings: HttpSettings) -> socket.socket:
    """Open a listening socket. Raises `ServiceError`."""
    settings.check()
    listening = _bind(settings.host, settings.port, option="--port")
    listening.listen(_BACKLOG)
    return listening


def free_address(host: str, port: int, *, option: str) -> str:
    """Return the address of a host on which the port is free. Raises `ServiceError`, which names the `option`."""
    with contextlib.closing(_bind(host, port, option=option)) as bound:
        return str(bound.getsockname()[0])


def _bind(host: str, port: int, *, option: str) -> socket.socket:
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # Asyncio sets TCP_NODELAY only on sockets that name their protocol; without it, each answer takes 40 ms more.
        bound = socket.socket(family, kind, socket.IPPROTO_TCP)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
        except OSError:
            bound.close()
            raise
    except (OSError, OverflowError) as fault:
        why = getattr(fault, "strerror", None) or type(fault).__name__
        raise cannot_listen(host, port, why, option=option) from None
    return bound


def cannot_listen(host: str, port: int, why: str, *, option: str) -> ServiceError:
    """Make the error for a port that cannot be used; `option` is what chooses another one."""
    return ServiceError(f"cannot listen on {host}:{port}: {why}; choose another {option}")


def show_address(host: str) -> str:
    """Write an address as URLs have it."""
    return f"[{host}]" if ":" in host else host
