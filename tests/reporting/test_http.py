from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ledto.reporting import HEADER, Message, Reporter
from ledto.reporting.asgi import ReportingMiddleware
from ledto.reporting.httpx import AsyncReportingTransport, ReportingTransport
from tests.reporting.reachability import event_id, pasts
from tests.reporting.sink import Sink, serving


class Ends:
    def __init__(self, sink: Sink, client: Reporter, server: Reporter) -> None:
        self.sink, self.client, self.server = sink, client, server

    def events(self) -> dict[str, dict[str, Any]]:
        assert self.client.flush(30)
        assert self.server.flush(30)
        return {event["name"]: event for event in self.sink.events()}


@pytest.fixture
def ends() -> Iterator[Ends]:
    sink = Sink()
    with serving(sink) as url, Reporter("client", endpoint=url) as client, Reporter("server", endpoint=url) as server:
        yield Ends(sink, client, server)


def test_a_request_and_its_response_are_two_messages(ends: Ends) -> None:
    """What the application did for a request must lie between the client's request and what the client did next."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        ends.server.report("work", own=dict(scope["headers"])[b"own"].decode())
        await send({"type": "http.response.start", "status": 404, "headers": [(b"mine", b"kept")]})
        await send({"type": "http.response.body", "body": b"abc"})

    async def asking() -> httpx.Response:
        inner = httpx.ASGITransport(ReportingMiddleware(app, ends.server))
        async with httpx.AsyncClient(transport=AsyncReportingTransport(ends.client, transport=inner)) as client:
            return await client.get("http://stock/pieces?token=secret", headers={"own": "1"})

    ends.client.report("before")
    response = asyncio.run(asking())
    ends.client.report("after")
    assert (response.status_code, response.text, response.headers["mine"]) == (404, "abc", "kept")
    events = ends.events()
    kinds = {name: event["kind"] for name, event in events.items() if "GET" in name}
    assert kinds == {
        "call GET /pieces": "send",
        "serve GET /pieces": "receive",
        "answer GET /pieces": "send",
        "answered GET /pieces": "receive",
    }
    assert events["answered GET /pieces"]["attributes"] == {"http.status": 404}
    past = pasts(events.values())
    assert event_id(events["before"]) in past[event_id(events["work"])]
    assert event_id(events["work"]) in past[event_id(events["after"])]
    assert "secret" not in str(events)


def test_what_goes_wrong_with_a_request_is_reported(ends: Ends) -> None:
    """A hook that only sees responses would miss just the calls that people ask about."""

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/lost":
            raise httpx.ReadTimeout("late")
        assert Message.from_text(request.headers[HEADER]) is not None
        return httpx.Response(200, headers={HEADER: "garbage"} if request.url.path == "/garbage" else {})

    transport = ReportingTransport(ends.client, transport=httpx.MockTransport(answer))
    with httpx.Client(transport=transport) as client:
        client.get("http://stock/plain", headers={HEADER: "1;somebody-elses:1;;"})
        client.get("http://stock/garbage")
        with pytest.raises(httpx.ReadTimeout):
            client.get("http://stock/lost")
    events = ends.events()
    answered = {name: event for name, event in events.items() if name.startswith("answered")}
    assert {event["kind"] for event in answered.values()} == {"local"}
    assert [event["attributes"]["ledto.peer"] for event in answered.values()] == [
        "not taking part",
        "not taking part",
        "no answer",
    ]
    stats = ends.client.stats()
    assert (stats["unstamped"], stats["unanswered"], stats["malformed"]) == (2, 1, 1)


async def called(app: Any, scope: dict[str, Any]) -> list[Any]:
    """What an ASGI application sends."""
    sent: list[Any] = []

    async def send(event: Any) -> None:
        sent.append(event)

    async def receive() -> Any:
        raise AssertionError("nobody reads the body here")

    await app(scope, receive, send)
    return sent


def test_the_middleware_leaves_requests_as_they_are(ends: Ends) -> None:
    """Applications that fail, start up, or speak WebSocket must do so as without it."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await send({"type": "lifespan.startup.complete"})
        elif scope["type"] == "websocket":
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.send", "text": "hi"})
        elif scope["path"] == "/left":
            return
        else:
            raise RuntimeError("a fault")

    wrapped = ReportingMiddleware(app, ends.server)
    assert asyncio.run(called(wrapped, {"type": "lifespan"})) == [{"type": "lifespan.startup.complete"}]
    forged = [(b"Ledto-Cause", b"1;forged:1;;")]
    stranger = ReportingMiddleware(app, ends.server, accept_causes=False)
    accept, said = asyncio.run(called(stranger, {"type": "websocket", "path": "/feed", "headers": forged}))
    assert said == {"type": "websocket.send", "text": "hi"}
    ((name, value),) = accept["headers"]
    assert name == b"ledto-cause"
    message = Message.from_text(value)
    with pytest.raises(RuntimeError, match="a fault"):
        asyncio.run(called(wrapped, {"type": "http", "method": "GET", "path": "/x", "headers": []}))
    assert asyncio.run(called(wrapped, {"type": "http", "method": "GET", "path": "/left", "headers": []})) == []
    events = ends.events()
    assert set(events) == {
        "serve GET /left",
        "abandoned GET /left",
        "serve WEBSOCKET /feed",
        "answer WEBSOCKET /feed",
        "serve GET /x",
        "failed GET /x",
    }
    assert events["serve WEBSOCKET /feed"]["attributes"]["ledto.peer"] == "not taking part"
    assert message is not None
    assert events["answer WEBSOCKET /feed"]["sends"] == message.key
    assert events["failed GET /x"]["attributes"] == {"error": "RuntimeError"}
