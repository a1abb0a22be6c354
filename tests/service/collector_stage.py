"""A service of its own for a test: a real broker and real HTTP on loopback; and what a test does to it."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nats
import pyarrow as pa
from fastapi import APIRouter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ledto.events.payload import decode_reports
from ledto.events.schema import REPORTS
from ledto.service.broker.nats_server import STREAM, Retention, broker_url
from ledto.service.http.app import HttpSettings
from ledto.service.serve import Running, ServicePlan, serve

WAIT_S = 180.0


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@dataclass
class Stage:
    """A running service."""

    history: Path
    running: Running
    stop: Callable[[], None]
    _connections: threading.local = field(default_factory=threading.local)

    def post(self, path: str, body: bytes | Iterator[bytes], kind: str, **headers: str) -> Answer:
        """Send a request on this thread's own connection."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.request("POST", path, body, {"Content-Type": kind, **named})

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", path, None, headers)

    def request(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> Answer:
        connection = getattr(self._connections, "one", None)
        if connection is None:
            parts = urlsplit(self.running.http)
            connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=WAIT_S)
            self._connections.one = connection
        try:
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            found = Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        except Exception:
            connection.close()
            self._connections.one = None
            raise
        if found.headers.get("connection") == "close":
            self._connections.one = None
        return found

    def stored(self) -> list[pa.Table]:
        """The rows of each message that the broker holds, heartbeats left out, by sequence."""
        return asyncio.run(_stored(broker_url(self.history)))

    def rows(self) -> pa.Table:
        """All rows that the broker holds, with every column."""
        return pa.concat_tables([REPORTS.empty_table(), *(whole(table) for table in self.stored())])

    def purge(self) -> None:
        async def purge() -> None:
            client = await nats.connect(broker_url(self.history))
            await client.jetstream().purge_stream(STREAM)
            await client.close()

        asyncio.run(purge())


def spans_request(count: int, *, broken: int = 0) -> ExportTraceServiceRequest:
    """Spans of one service; the first `broken` of them have ids that cannot be."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "cart"
    spans = resource.scope_spans.add().spans
    for number in range(count):
        span = spans.add(
            name=f"GET /{number}", kind=2, start_time_unix_nano=10 + number, end_time_unix_nano=20 + number
        )
        span.trace_id = os.urandom(16)
        span.span_id = os.urandom(8 if number >= broken else 3)
        span.attributes.add(key="n").value.int_value = number
    return request


def whole(table: pa.Table) -> pa.Table:
    """The same rows with all columns of `REPORTS`."""
    columns = [
        table[each.name] if each.name in table.column_names else pa.nulls(len(table), each.type) for each in REPORTS
    ]
    return pa.table(columns, schema=REPORTS)


async def _stored(url: str) -> list[pa.Table]:
    client = await nats.connect(url)
    try:
        context = client.jetstream()
        state = (await context.stream_info(STREAM)).state
        found = []
        for sequence in range(max(state.first_seq, 1), state.last_seq + 1):
            message = await context.get_msg(STREAM, sequence, direct=True)
            if message.data:
                found.append(decode_reports(message.data))
        return found
    finally:
        await client.close()


@contextmanager
def served(
    history: Path,
    *,
    settings: HttpSettings | None = None,
    retention: Retention | None = None,
    routers: tuple[APIRouter, ...] = (),
    live: Any = None,
    broker: str | None = None,
    replace_broker_after_s: float = 60.0,
) -> Iterator[Stage]:
    """Run a service in a thread, without a stream."""
    plan = ServicePlan(
        history=history,
        settings=settings or HttpSettings(port=0, expects_stream=False),
        retention=retention or Retention(bytes=256 << 20),
        broker=broker,
        replace_broker_after_s=replace_broker_after_s,
        stream=False,
    )
    ready = threading.Event()
    state: dict[str, Any] = {}

    async def run() -> None:
        state["loop"], state["end"] = asyncio.get_running_loop(), asyncio.Event()

        def on_ready(running: Running) -> None:
            state["running"] = running
            ready.set()

        await serve(plan, live=live, routers=routers, on_ready=on_ready, end_requested=state["end"])

    def run_in_thread() -> None:
        try:
            asyncio.run(run())
        except BaseException as fault:
            state["fault"] = fault
        finally:
            ready.set()

    thread = threading.Thread(target=run_in_thread)
    thread.start()

    def stop() -> None:
        if thread.is_alive():
            state["loop"].call_soon_threadsafe(state["end"].set)
        thread.join(WAIT_S)

    try:
        assert ready.wait(WAIT_S)
        if "fault" in state:
            raise state["fault"]
        yield Stage(history, state["running"], stop)
    finally:
        stop()
    assert not thread.is_alive()
    if "fault" in state:
        raise state["fault"]


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that must come true."""
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)
