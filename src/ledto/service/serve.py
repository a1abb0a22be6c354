"""Run ``ledto serve``: start broker, collector (HTTP and gRPC) and stream in order, and end them in order."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter

from ledto.errors import LedtoError
from ledto.service.broker.nats_server import (
    FOLDER,
    STREAM,
    TOKEN_VARIABLE,
    OwnBroker,
    Retention,
    read_token,
    without_secrets,
)
from ledto.service.broker.publisher import Publisher
from ledto.service.collector.collector import Collector
from ledto.service.health import StreamStatus
from ledto.service.http.app import HttpServer, HttpSettings, ServiceError, make_app
from ledto.service.metrics import Metrics
from ledto.service.supervisor import Command, Supervised

if TYPE_CHECKING:
    from ledto.service.collector.grpc_server import GrpcServer

log = logging.getLogger("ledto.service")

READY_S: Final = 30.0
"""The longest time for the broker to start and read its files."""
STREAM_GRACE_S: Final = 60.0
"""The longest time for the stream to finish its micro-batch at the end."""
STREAM_MASTER: Final = "local[*,4]"
"""Spark's master URL: a task is tried four times, so a worker that dies does not end the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServicePlan:
    """What to run."""

    history: Path
    settings: HttpSettings
    retention: Retention = field(default_factory=Retention)
    broker: str | None = None
    """The URL of an existing broker; None to start our own."""
    stream_name: str = STREAM
    """The name of the stream in JetStream."""
    broker_port: int | None = None
    replace_broker_after_s: float = 15.0
    """Seconds after which our own broker is replaced if it could store nothing and the disk is not full."""
    stream: bool = True
    """Whether to run the stream."""
    stream_options: Sequence[str] = ()
    """Arguments of ``ledto observe``, besides the source and the target."""


@dataclass(frozen=True, slots=True)
class Running:
    """The addresses and process ids of a running service. Nothing here is secret."""

    http: str
    grpc: str | None
    """None without gRPC."""
    broker: str
    broker_pid: int | None
    stream_pid: int | None


async def serve(
    plan: ServicePlan,
    *,
    live: StreamStatus | None = None,
    routers: Sequence[APIRouter] = (),
    on_ready: Callable[[Running], None] = lambda running: None,
    on_ending: Callable[[], None] = lambda: None,
    end_requested: asyncio.Event | None = None,
) -> None:
    """Run until SIGINT or SIGTERM; or until `end_requested` is set, if it is given, and then ignore signals.

    At the end, `on_ending` is called first, to end answers that never end by themselves. Then requests that came are
    answered, the stream finishes its micro-batch, and the broker ends last. Raises `ServiceError` or `BrokerError` if it
    cannot start.
    """
    plan.settings.check()
    async with AsyncExitStack() as ending:
        if end_requested is None:
            end_requested = asyncio.Event()
            _set_by_signals(end_requested, ending)
        own_broker = _make_own_broker(plan) if plan.broker is None else None

        def url() -> str:
            return own_broker.url if own_broker is not None else str(plan.broker)

        metrics = Metrics()
        publisher = Publisher(
            url,
            retention=plan.retention,
            limits=plan.settings.limits,
            stream=plan.stream_name,
            subject=f"{plan.stream_name}.reports",
            has_room=own_broker.has_room if own_broker is not None else lambda: True,
            on_published=metrics.published,
            any_waits=lambda: live is not None and _any_waits(live, publisher),
        )
        stream: Supervised | None = None
        collector = Collector(publisher, plan.settings.limits, metrics)
        grpc_server: GrpcServer | None = None

        async def grpc_is_up() -> bool:
            return grpc_server is not None and await grpc_server.is_up()

        app = make_app(
            plan.settings,
            publisher=publisher,
            collector=collector,
            metrics=metrics,
            live=live,
            routers=routers,
            stream_problem=lambda: stream.problem if stream is not None else None,
            grpc_is_up=None if plan.settings.grpc_port is None else grpc_is_up,
        )
        # Listen first: a port that is in use should fail before anything runs.
        server = HttpServer(app, plan.settings)
        metrics.add_gauge("ledto_collector_connections", "Connections that are open.", lambda: server.connections.count)
        ending.callback(server.close)
        grpc_server = _make_grpc_server(plan.settings, collector)
        if own_broker is not None:
            await own_broker.start()
            ending.push_async_callback(own_broker.stop)
        await publisher.start()
        ending.push_async_callback(publisher.close)
        await publisher.wait_ready(READY_S)
        if own_broker is not None:
            replacing = asyncio.create_task(_replace_failing_broker(own_broker, publisher, plan.replace_broker_after_s))
            ending.callback(replacing.cancel)
        if plan.stream:
            stream = stream_child(plan, url)
            ending.push_async_callback(stream.stop)
        collector.load_compiled()
        ending.callback(collector.close)
        if grpc_server is not None:
            await grpc_server.start()
            ending.push_async_callback(grpc_server.stop)

        async def begin() -> None:
            # Reports are accepted meanwhile: a stream that an earlier service left may take a while to end.
            if stream is not None:
                await stream.start()
            pids = (own_broker.pid if own_broker is not None else None, stream.pid if stream is not None else None)
            grpc_url = grpc_server.url if grpc_server is not None else None
            on_ready(Running(server.url, grpc_url, f"{without_secrets(url())}/{plan.stream_name}", *pids))

        await _run(server, begin, on_ending, end_requested)


def _make_grpc_server(settings: HttpSettings, collector: Collector) -> GrpcServer | None:
    """Bind the port of gRPC; None if it is turned off. Raises `ServiceError`."""
    if settings.grpc_port is None:
        return None
    # Without gRPC, nothing of it is loaded.
    from ledto.service.collector.grpc_server import GrpcServer

    return GrpcServer(collector, settings, settings.grpc_port)


def _any_waits(live: StreamStatus, publisher: Publisher) -> bool:
    """Return whether the stream has reports that wait for delivery; if that cannot be known, whether any came."""
    try:
        state = live.state()
    except (LedtoError, OSError, ValueError):
        state = None
    return publisher.first_report_s is not None if state is None else state.counts.waiting > 0


def _make_own_broker(plan: ServicePlan) -> OwnBroker:
    return OwnBroker(
        plan.history,
        port=plan.broker_port,
        retention=plan.retention,
        # A report alone in its message may be as large as the body it came in.
        max_payload_bytes=min(plan.settings.limits.body_bytes + (2 << 20), 64 << 20),
    )


async def _replace_failing_broker(own_broker: OwnBroker, publisher: Publisher, after_s: float) -> None:
    """Replace a server that hangs, or that once found its disk full. Heartbeats fail even if nobody sends reports."""
    while True:
        await asyncio.sleep(after_s / 10)
        if publisher.failing_s > after_s and own_broker.has_room():
            log.warning("the broker has stored nothing for %.0f s and is replaced", publisher.failing_s)
            own_broker.replace()
            publisher.reset_failing()


def _set_by_signals(end_requested: asyncio.Event, ending: AsyncExitStack) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end_requested.set)
        ending.callback(loop.remove_signal_handler, number)


async def _run(
    server: HttpServer,
    begin: Callable[[], Awaitable[None]],
    on_ending: Callable[[], None],
    end_requested: asyncio.Event,
) -> None:
    serving = asyncio.create_task(server.serve_until_exit())
    waiting = asyncio.create_task(end_requested.wait())
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    if not server.started:
        waiting.cancel()
        await serving
        raise ServiceError("the HTTP server did not start; the log says why")
    try:
        await begin()
        await asyncio.wait([serving, waiting], return_when=asyncio.FIRST_COMPLETED)
    finally:
        on_ending()
        server.should_exit = True
        waiting.cancel()
        await serving


def stream_child(plan: ServicePlan, url: Callable[[], str]) -> Supervised:
    """Prepare the process that reads the broker and writes the history; it is not started yet."""
    folder = plan.history / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Supervised(
        "the stream",
        lambda: stream_command(plan, url()),
        pid_file=folder / "stream.pid",
        marker=f"--to {plan.history}",
        grace_s=STREAM_GRACE_S,
    )


def stream_command(plan: ServicePlan, url: str) -> Command:
    """Make the command that starts the stream. Its environment has the broker's token. Raises `BrokerError`."""
    follow = f"{without_secrets(url)}/{plan.stream_name}"
    arguments = [sys.executable, "-m", "ledto.cli", "observe", "--follow", follow, "--to", str(plan.history)]
    arguments += ["--master", STREAM_MASTER]
    token = read_token(url)
    return Command([*arguments, *plan.stream_options], {} if token is None else {TOKEN_VARIABLE: token})
