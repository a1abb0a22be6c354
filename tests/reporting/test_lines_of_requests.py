from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import httpx
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from ledto.reporting import Reporter, ReportingHandler
from ledto.reporting.asgi import ReportingMiddleware
from ledto.reporting.grpc import AioServerInterceptor, ClientInterceptor, ServerInterceptor, aio_client_interceptors
from ledto.reporting.httpx import AsyncReportingTransport
from ledto.reporting.opentelemetry import CausePropagator, StampingSpanProcessor
from tests.reporting.lines_truth import recorded
from tests.reporting.sink import Sink, serving
from tests.reporting.test_grpc import KINDS, METHOD, Calls, aio_service, ask, service


@pytest.fixture
def calls() -> Iterator[Calls]:
    sink = Sink()
    with serving(sink) as url, Reporter("client", endpoint=url) as client, Reporter("server", endpoint=url) as server:
        yield Calls(sink, client, server)


def on_lines(events: list[dict[str, Any]], process: str) -> list[list[str]]:
    """The names of a process's events, line by line."""
    lines: dict[str, list[str]] = {}
    for event in events:
        if event["process"].startswith(f"{process}@"):
            lines.setdefault(event["line"], []).append(event["name"])
    return sorted(lines.values())


def test_requests_that_are_served_at_once_are_not_each_others_causes(calls: Calls) -> None:
    """In a busy service everything earlier would be a cause of a failure: the answer would be of no use."""
    logger = logging.getLogger("tests.reporting.lines")
    logger.addHandler(ReportingHandler(calls.server))
    background: list[asyncio.Task[None]] = []

    async def mail(path: str, may: asyncio.Event) -> None:
        await may.wait()
        calls.server.report(f"mail {path}")

    async def main() -> None:
        both, answered = asyncio.Barrier(2), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            path = scope["path"]
            async with both:
                logger.warning(f"check {path}")
            background.append(asyncio.create_task(mail(path, answered)))
            await calls.server.join(asyncio.create_task(reserve(path)))
            async with both:
                await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        async def reserve(path: str) -> None:
            calls.server.report(f"reserve {path}")

        calls.server.report("ready")
        inner = httpx.ASGITransport(ReportingMiddleware(app, calls.server))
        async with httpx.AsyncClient(transport=AsyncReportingTransport(calls.client, transport=inner)) as client:
            tasks = [asyncio.create_task(client.get(f"http://shop/{name}")) for name in "ab"]
            await calls.client.gather(*tasks)
        calls.client.report("both are answered")
        answered.set()
        await asyncio.gather(*background)
        calls.server.report("idle")

    try:
        asyncio.run(main())
    finally:
        logger.handlers.clear()
    events = calls.events()
    past = recorded(events)
    for name in "ab":
        before = {"ready", f"call GET /{name}", f"serve GET /{name}", f"check /{name}"}
        assert past[f"check /{name}"] == before - {f"check /{name}"}
        assert past[f"reserve /{name}"] == before
        assert past[f"mail /{name}"] == before, "not the answer: nothing tells that it was waited for"
        assert past[f"answer GET /{name}"] == before | {f"reserve /{name}"}
        assert past[f"answered GET /{name}"] == before | {f"reserve /{name}", f"answer GET /{name}"}
    assert past["idle"] == {"ready"}
    assert past["both are answered"] == {name for name in past if not name.startswith(("mail", "idle", "both"))}
    assert {event["line"].partition(" #")[0] for event in events if event["name"].startswith("serve")} == {
        "GET /a",
        "GET /b",
    }


def assert_a_line_each(events: list[dict[str, Any]]) -> None:
    """Six calls of a method, whose orders know of their own call and of no other."""
    assert on_lines(events, "server") == [[f"serve {METHOD}", "work", f"answer {METHOD}"]] * 6
    assert {event["line"].partition(" #")[0] for event in events if event["name"] == "work"} == {METHOD}
    for event in events:
        event["name"] = (
            event["name"] if event["name"].startswith(("order", "done")) else f"{event['name']} {event['seq']}"
        )
    past = recorded(events)
    for number in range(6):
        known = sorted(name.rpartition(" ")[0] for name in past[f"done {number}"])
        assert known == ["answer " + METHOD, "answered " + METHOD, "call " + METHOD, "order", "serve " + METHOD, "work"]
        assert f"order {number}" in past[f"done {number}"]


async def serve_blocking(handler: grpc.GenericRpcHandler, calls: Calls, by: str, act: Callable[[str], None]) -> None:
    """Act with the address of a server that has two threads for its functions."""
    with ThreadPoolExecutor(2) as pool:
        server: Any
        if by == "threads":
            server = grpc.server(pool, interceptors=[ServerInterceptor(calls.server)])
        else:
            server = grpc.aio.server(pool, interceptors=[AioServerInterceptor(calls.server)])
        server.add_generic_rpc_handlers((handler,))
        target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        started = server.start()
        if by == "asyncio":
            await started
        await asyncio.to_thread(act, target)
        stopped = server.stop(0)
        if by == "asyncio":
            await stopped
        else:
            stopped.wait()


@pytest.mark.parametrize(
    ("kind", "by", "use_future"),
    [(kind, by, False) for kind in KINDS for by in ("threads", "asyncio")]
    # A stream is no future.
    + [(kind, "threads", True) for kind in ("unary_unary", "stream_unary")],
)
def test_each_call_of_a_grpc_server_is_a_line(calls: Calls, kind: str, by: str, use_future: bool) -> None:
    """Two threads serve all calls: what a thread did before must not count as a cause of the next call."""
    both = threading.Barrier(2)

    def act(context: Any) -> None:
        both.wait(30)
        calls.server.report("work")
        both.wait(30)

    def call_often(target: str) -> None:
        with grpc.insecure_channel(target) as plain, ThreadPoolExecutor(2) as clients:
            channel = grpc.intercept_channel(plain, ClientInterceptor(calls.client))

            def call(number: int) -> None:
                with calls.client.line("order", apart=True):
                    calls.client.report(f"order {number}")
                    ask(channel, kind, use_future=use_future)
                    calls.client.report(f"done {number}")

            list(clients.map(call, range(6)))

    asyncio.run(serve_blocking(service(kind, act), calls, by, call_often))
    assert_a_line_each(calls.events())


@pytest.mark.parametrize("kind", KINDS)
def test_each_call_of_a_grpc_server_of_asyncio_is_a_line(calls: Calls, kind: str) -> None:
    """As with threads."""

    async def main() -> None:
        both = asyncio.Barrier(2)

        async def act(context: Any) -> None:
            async with both:
                calls.server.report("work")

        server = grpc.aio.server(interceptors=[AioServerInterceptor(calls.server)])
        server.add_generic_rpc_handlers((aio_service(kind, act),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        interceptors = aio_client_interceptors(calls.client)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", interceptors=interceptors) as channel:

            async def call(number: int) -> None:
                calls.client.report(f"order {number}")
                request: Any = iter([b"a", b"b"]) if kind.startswith("stream") else b"ab"
                made = getattr(channel, kind)(METHOD)(request)
                if kind.endswith("stream"):
                    assert b"".join([part async for part in made]) == b"ab"
                else:
                    assert await made == b"ab"
                calls.client.report(f"done {number}")

            await asyncio.gather(*(call(number) for number in range(6)))
        await server.stop(None)

    asyncio.run(main())
    assert_a_line_each(calls.events())


def test_events_in_a_span_are_on_the_line_of_the_span() -> None:
    """What an application reports must meet its traces; otherwise there are two histories of one thing."""
    sink = Sink()
    with serving(sink) as url, Reporter("app", endpoint=url) as reporter:
        provider = TracerProvider()
        provider.add_span_processor(StampingSpanProcessor(reporter))
        tracer, propagator = provider.get_tracer("t"), CausePropagator(reporter)
        reporter.report("outside")
        with tracer.start_as_current_span("ask") as span:
            reporter.report("inside")
            later = tracer.start_span("later")
            propagator.inject({}, trace.set_span_in_context(later))
        with TracerProvider(sampler=ALWAYS_OFF).get_tracer("t").start_as_current_span("nobody records it"):
            reporter.report("not recorded")
        assert reporter.flush(30)
    rows = {event["name"]: event for event in sink.events()}

    def line(of: trace.Span) -> tuple[str, str]:
        ids = of.get_span_context()
        name = f"{trace.format_trace_id(ids.trace_id)}/{trace.format_span_id(ids.span_id)}"
        return name, name

    told = {name: (row["line"], row.get("line_parent")) for name, row in rows.items()}
    assert told["ask"] == told["inside"] == line(span)
    assert told["later"] == told["call from later"] == line(later)
    assert told["outside"] == told["not recorded"]
    assert told["outside"][0].startswith("main #")
