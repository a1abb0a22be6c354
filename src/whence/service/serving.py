"""All that ``whence serve`` runs, started in order and ended in order: broker, collector, stream."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fastapi import APIRouter

from whence.service.broker import FOLDER, STREAM, TOKEN_VARIABLE, OwnBroker, Retention, token_of, without_secrets
from whence.service.metrics import Metrics
from whence.service.publishing import Publisher
from whence.service.server import HttpServer, ServiceError, Settings, make_app
from whence.service.supervising import Command, Supervised
from whence.service.watching import Stated

log = logging.getLogger("whence.service")

READY_S: Final = 30.0
"""For the broker to come up, its files read."""
STREAM_GRACE_S: Final = 60.0
"""For the stream to finish its micro-batch."""
STREAM_MASTER: Final = "local[*,4]"
"""Spark's master: a task is tried four times, so that a worker that dies does not end the stream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to run."""

    history: Path
    settings: Settings
    retention: Retention = field(default_factory=Retention)
    broker: str | None = None
    """The URL of an existing broker; without one, our own is started."""
    stream_name: str = STREAM
    """Of JetStream's stream."""
    broker_port: int | None = None
    mend_after_s: float = 15.0
    """Our own broker is replaced when it has stored nothing for so long, and the disk is not full."""
    stream: bool = True
    stream_options: Sequence[str] = ()
    """Arguments of ``whence observe``, added to those that say from where to where."""


@dataclass(frozen=True, slots=True)
class Running:
    """What runs where; nothing here is secret."""

    http: str
    broker: str
    broker_pid: int | None
    stream_pid: int | None


async def serve(
    plan: Plan,
    *,
    live: Stated | None = None,
    routers: Sequence[APIRouter] = (),
    on_ready: Callable[[Running], None] = lambda running: None,
    on_ending: Callable[[], None] = lambda: None,
    told_to_end: asyncio.Event | None = None,
) -> None:
    """Run until SIGINT or SIGTERM or, where it is given, until `told_to_end` is set and not by signals.

    At the end, requests that came are answered first; then the stream ends with a whole micro-batch, and the broker last.
    `on_ending` is called before that, to end answers that would never end by themselves. Raises `ServiceError` or
    `BrokerError` where it cannot start.
    """
    plan.settings.check()
    async with AsyncExitStack() as ending:
        if told_to_end is None:
            told_to_end = asyncio.Event()
            _set_by_signals(told_to_end, ending)
        own = _own_broker(plan) if plan.broker is None else None

        def url() -> str:
            return own.url if own is not None else str(plan.broker)

        metrics = Metrics()
        publisher = Publisher(
            url,
            retention=plan.retention,
            limits=plan.settings.limits,
            stream=plan.stream_name,
            subject=f"{plan.stream_name}.reports",
            has_room=own.has_room if own is not None else lambda: True,
            on_published=metrics.published,
        )
        stream: Supervised | None = None
        app = make_app(
            plan.settings,
            publisher=publisher,
            metrics=metrics,
            live=live,
            routers=routers,
            stream_problem=lambda: stream.problem if stream is not None else None,
        )
        # A port that is taken shows before anything runs.
        server = HttpServer(app, plan.settings)
        metrics.gauges["whence_collector_connections"] = ("Connections that are open.", lambda: server.kept.all)
        ending.callback(server.close)
        if own is not None:
            await own.start()
            ending.push_async_callback(own.stop)
        await publisher.start()
        ending.push_async_callback(publisher.close)
        await publisher.wait_ready(READY_S)
        if own is not None:
            mending = asyncio.create_task(_mend(own, publisher, plan.mend_after_s))
            ending.callback(mending.cancel)
        if plan.stream:
            stream = stream_child(plan, url)
            ending.push_async_callback(stream.stop)

        async def begin() -> None:
            # Reports are taken meanwhile: a stream that an earlier service left may need a while to end.
            if stream is not None:
                await stream.start()
            pids = (own.pid if own is not None else None, stream.pid if stream is not None else None)
            on_ready(Running(server.url, f"{without_secrets(url())}/{plan.stream_name}", *pids))

        await _run(server, begin, on_ending, told_to_end)


def _own_broker(plan: Plan) -> OwnBroker:
    return OwnBroker(
        plan.history,
        port=plan.broker_port,
        retention=plan.retention,
        # A report alone in its message may be as large as the body it came in.
        max_payload_bytes=min(plan.settings.limits.body_bytes + (2 << 20), 64 << 20),
    )


async def _mend(own: OwnBroker, publisher: Publisher, after_s: float) -> None:
    """Replace a server that hangs, or that once found its disk full; heartbeats show it when nobody sends."""
    while True:
        await asyncio.sleep(after_s / 10)
        if publisher.failing_s > after_s and own.has_room():
            log.warning("the broker has stored nothing for %.0f s and is replaced", publisher.failing_s)
            own.replace()
            publisher.forgive()


def _set_by_signals(told_to_end: asyncio.Event, ending: AsyncExitStack) -> None:
    loop = asyncio.get_running_loop()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, told_to_end.set)
        ending.callback(loop.remove_signal_handler, each)


async def _run(
    server: HttpServer,
    begin: Callable[[], Awaitable[None]],
    on_ending: Callable[[], None],
    told_to_end: asyncio.Event,
) -> None:
    serving = asyncio.create_task(server.run_until_told())
    told = asyncio.create_task(told_to_end.wait())
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    if not server.started:
        told.cancel()
        await serving
        raise ServiceError("the HTTP server did not start; the log says why")
    try:
        await begin()
        await asyncio.wait([serving, told], return_when=asyncio.FIRST_COMPLETED)
    finally:
        on_ending()
        server.should_exit = True
        told.cancel()
        await serving


def stream_child(plan: Plan, url: Callable[[], str]) -> Supervised:
    """The process that reads the broker and writes the history."""
    folder = plan.history / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Supervised(
        "the stream",
        lambda: stream_command(plan, url()),
        pid_file=folder / "stream.pid",
        marker=f"--to {plan.history}",
        grace_s=STREAM_GRACE_S,
    )


def stream_command(plan: Plan, url: str) -> Command:
    """How the stream is started. The broker's token reaches it by its environment. Raises `BrokerError`."""
    follow = f"{without_secrets(url)}/{plan.stream_name}"
    arguments = [sys.executable, "-m", "whence.cli", "observe", "--follow", follow, "--to", str(plan.history)]
    arguments += ["--master", STREAM_MASTER]
    token = token_of(url)
    return Command([*arguments, *plan.stream_options], {} if token is None else {TOKEN_VARIABLE: token})
