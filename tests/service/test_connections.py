"""Connections that say nothing, say it slowly, or never read what they are told."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi import APIRouter
from starlette.responses import Response

from ledto.service.http.app import HttpSettings
from ledto.service.http.connections import SPARE
from ledto.service.http.limits import Limits
from tests.service.collector_stage import Stage, served, until

LINES = "application/x-ndjson"
REPORT = b'{"process":"p","seq":1}\n'
GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"


@contextmanager
def running(folder: Path, limits: Limits, *routers: APIRouter) -> Iterator[Stage]:
    settings = HttpSettings(port=0, expects_stream=False, limits=limits)
    with served(folder / "h", settings=settings, routers=routers) as stage:
        yield stage


def connected(stage: Stage, said: bytes = b"") -> socket.socket:
    parts = urlsplit(stage.running.http)
    connection = socket.create_connection((str(parts.hostname), parts.port or 0), timeout=30)
    connection.sendall(said)
    return connection


def is_closed(connection: socket.socket) -> bool:
    try:
        return connection.recv(1_000) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize(("connections", "of_address"), [(20, 1_000), (1_000, 20)])
def test_connections_that_say_nothing_make_room(tmp_path: Path, connections: int, of_address: int) -> None:
    """Whoever opens enough connections, without a token, would shut out every sender and every probe."""
    limits = Limits(connections=connections, connections_of_address=of_address, header_s=600.0)
    with running(tmp_path, limits) as stage, ExitStack() as held:
        silent = [held.enter_context(connected(stage)) for _ in range(150)]
        halfway = [held.enter_context(connected(stage, b"POST /v1/reports HTT")) for _ in range(150)]
        assert stage.get("/healthz").status == 200
        # Those that have just come are given a moment, in which only health is answered.
        until(lambda: stage.post("/v1/reports", REPORT, LINES).status == 200)
        for _ in range(5):
            assert stage.get("/healthz").status == stage.get("/readyz").status == 200
            assert stage.post("/v1/reports", REPORT, LINES).status == 200
        assert all(is_closed(each) for each in silent)
        assert sum(1 for each in halfway if not _is_open(each)) >= 150 - 20 - SPARE


def _is_open(connection: socket.socket) -> bool:
    connection.settimeout(0.0)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def test_health_is_answered_while_everything_else_is_at_work(tmp_path: Path) -> None:
    """A probe that gets 503 because senders are many has the service killed when it is needed most."""
    head = f"POST /v1/reports HTTP/1.1\r\nHost: localhost\r\nContent-Type: {LINES}\r\nContent-Length: {len(REPORT)}\r\n\r\n"
    with running(tmp_path, Limits(connections=4)) as stage, ExitStack() as held:
        working = [held.enter_context(connected(stage, head.encode())) for _ in range(4)]
        until(lambda: stage.get("/metrics").status == 503)
        assert stage.get("/healthz").status == stage.get("/readyz").status == 200
        refused = stage.post("/v1/reports", REPORT, LINES)
        assert (refused.status, refused.document["reason"]) == (503, "busy")
        assert refused.headers["retry-after"]
        for each in working:
            each.sendall(REPORT)
            assert each.recv(100).startswith(b"HTTP/1.1 200")
        until(lambda: stage.post("/v1/reports", REPORT, LINES).status == 200)


@pytest.mark.parametrize(
    "said",
    [
        b"",
        b"GET /healthz HTTP/1.1\r\nHost: loc",
        GET % b"/healthz" + b"GET /he",
        # Answered before its body has come, which then never ends.
        b"POST /v1/reports HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 999999\r\n\r\nx",
    ],
    ids=["nothing", "half a request", "half a second request", "a body that was refused"],
)
def test_a_request_that_does_not_come_is_not_waited_for(tmp_path: Path, said: bytes) -> None:
    """Connections that send a byte now and then would be kept for ever."""
    with running(tmp_path, Limits(header_s=0.3, discard_s=0.1)) as stage, connected(stage, said) as connection:
        until(lambda: _sent_in_vain(connection))
        assert stage.get("/healthz").status == 200


def _sent_in_vain(connection: socket.socket) -> bool:
    """Whether the connection is closed, although something is sent all the time."""
    try:
        connection.sendall(b"x")
    except ConnectionError:
        return True
    return not _is_open_after_reading(connection)


def _is_open_after_reading(connection: socket.socket) -> bool:
    connection.settimeout(0.01)
    try:
        return connection.recv(10_000) != b""
    except TimeoutError:
        return True
    except ConnectionError:
        return False


def test_a_reader_that_takes_nothing_is_let_go(tmp_path: Path) -> None:
    """Readers that ask for much and never read would hold it in memory for as long as they like."""
    router = APIRouter()

    @router.get("/large")
    async def large() -> Response:
        return Response(bytes(32 << 20))

    with running(tmp_path, Limits(stall_s=0.2), router) as stage, connected(stage, GET % b"/large") as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        until(lambda: b"ledto_collector_connections 1.0\n" in stage.get("/metrics").body)
        assert _received(connection) < 32 << 20


def _received(connection: socket.socket) -> int:
    """How many bytes come until the connection ends."""
    found = 0
    with suppress(ConnectionError):
        while part := connection.recv(1 << 20):
            found += len(part)
    return found


def test_what_is_no_request_leaves_nothing_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Anybody who reaches the port could fill the disk with lines of the log."""
    with running(tmp_path, Limits()) as stage:
        caplog.clear()
        for said in (
            b"no request\r\n\r\n",
            GET.replace(b"\r\n\r\n", b"\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n") % b"/",
        ):
            with connected(stage, said) as connection:
                assert connection.recv(100).startswith(b"HTTP/1.1 4")
        assert [record.getMessage() for record in caplog.records] == []
