from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from ledto.reporting import HEADER, Reporter
from ledto.reporting.grpc import AioServerInterceptor, ClientInterceptor, ServerInterceptor, aio_client_interceptors
from tests.reporting.reachability import event_id, pasts
from tests.reporting.sink import Sink, serving

KINDS = ["unary_unary", "unary_stream", "stream_unary", "stream_stream"]
METHOD = "/shop.Stock/Ask"


class Calls:
    """A client and a server that report to one sink; what they did is told by `events`."""

    def __init__(self, sink: Sink, client: Reporter, server: Reporter) -> None:
        self.sink, self.client, self.server = sink, client, server

    def events(self) -> list[dict[str, Any]]:
        assert self.client.flush(30)
        assert self.server.flush(30)
        return self.sink.events()


@pytest.fixture
def calls() -> Iterator[Calls]:
    sink = Sink()
    with serving(sink) as url, Reporter("client", endpoint=url) as client, Reporter("server", endpoint=url) as server:
        yield Calls(sink, client, server)


def service(kind: str, act: Callable[[Any], None]) -> grpc.GenericRpcHandler:
    """A service of one method that answers with what it was sent, after `act(context)`."""
    take = iter if kind.startswith("stream") else (lambda request: iter([request]))

    def one(request: Any, context: Any) -> bytes:
        received = b"".join(take(request))
        act(context)
        return received

    def many(request: Any, context: Any) -> Iterator[bytes]:
        received = b"".join(take(request))
        yield received[:1]
        act(context)
        yield received[1:]

    make = getattr(grpc, f"{kind}_rpc_method_handler")
    return grpc.method_handlers_generic_handler("shop.Stock", {"Ask": make(many if kind.endswith("stream") else one)})


def aio_service(kind: str, act: Callable[[Any], Any]) -> grpc.GenericRpcHandler:
    async def taken(request: Any) -> bytes:
        if kind.startswith("unary"):
            return bytes(request)
        return b"".join([part async for part in request])

    async def one(request: Any, context: Any) -> bytes:
        received = await taken(request)
        await act(context)
        return received

    async def many(request: Any, context: Any) -> AsyncIterator[bytes]:
        received = await taken(request)
        yield received[:1]
        await act(context)
        yield received[1:]

    make = getattr(grpc, f"{kind}_rpc_method_handler")
    return grpc.method_handlers_generic_handler("shop.Stock", {"Ask": make(many if kind.endswith("stream") else one)})


@contextmanager
def running(handler: grpc.GenericRpcHandler, interceptors: list[Any]) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(4), interceptors=interceptors)
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(0).wait()


def ask(channel: Any, kind: str, *, use_future: bool = False, **options: Any) -> bytes:
    request: Any = iter([b"a", b"bc"]) if kind.startswith("stream") else b"abc"
    stub = getattr(channel, kind)(METHOD)
    if kind.endswith("stream"):
        return b"".join(stub(request, **options))
    return bytes(stub.future(request, **options).result() if use_future else stub(request, **options))


def assert_two_messages(events: list[dict[str, Any]], *, status: str) -> None:
    """What the client did before is before the server's work, and that is before what the client did after."""
    by_name = {event["name"]: event for event in events}
    ids = {name: event_id(event) for name, event in by_name.items()}
    past = pasts(events)
    assert {name: by_name[name]["kind"] for name in by_name if METHOD in name} == {
        f"call {METHOD}": "send",
        f"serve {METHOD}": "receive",
        f"answer {METHOD}": "send",
        f"answered {METHOD}": "receive",
    }
    assert by_name[f"answered {METHOD}"]["attributes"]["rpc.status"] == status
    assert ids["before"] in past[ids["work"]]
    assert ids["work"] in past[ids["after"]]
    assert by_name["after"]["seq"] == by_name[f"answered {METHOD}"]["seq"] + 1
    assert len(events) == 7


@pytest.mark.parametrize("use_future", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_call_is_two_messages(calls: Calls, kind: str, use_future: bool) -> None:
    """Without the reply's message, what the server did would not explain what the client did next."""

    def act(context: Any) -> None:
        assert dict(context.invocation_metadata())["own"] == "1"
        calls.server.report("work")
        context.set_trailing_metadata((("mine", "kept"),))

    with running(service(kind, act), [ServerInterceptor(calls.server)]) as target, grpc.insecure_channel(target) as raw:
        channel = grpc.intercept_channel(raw, ClientInterceptor(calls.client))
        calls.client.report("before")
        assert ask(channel, kind, use_future=use_future, metadata=(("own", "1"),)) == b"abc"
        calls.client.report("after")
        assert_two_messages(calls.events(), status="OK")
        if kind == "unary_unary":
            _, call = channel.unary_unary(METHOD).with_call(b"abc", metadata=(("own", "1"),))
            assert dict(call.trailing_metadata())["mine"] == "kept"


@pytest.mark.parametrize("how", ["abort", "raise"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_a_reply_too(calls: Calls, kind: str, how: str) -> None:
    """A failure is the event that people ask about; it must lead back to what the server did."""

    def act(context: Any) -> None:
        calls.server.report("work")
        if how == "abort":
            context.abort(grpc.StatusCode.NOT_FOUND, "none left")
        raise RuntimeError("a fault")

    with running(service(kind, act), [ServerInterceptor(calls.server)]) as target, grpc.insecure_channel(target) as raw:
        calls.client.report("before")
        with pytest.raises(grpc.RpcError):
            ask(grpc.intercept_channel(raw, ClientInterceptor(calls.client)), kind)
        calls.client.report("after")
        assert_two_messages(calls.events(), status="NOT_FOUND" if how == "abort" else "UNKNOWN")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["return", "abort", "raise"])
@pytest.mark.parametrize("by_writing", [False, True])
def test_a_call_of_asyncio_is_two_messages(calls: Calls, kind: str, how: str, by_writing: bool) -> None:
    """The same of asynchronous clients and servers, errors included."""
    by_writing = by_writing and kind.startswith("stream")

    def requests() -> list[Any]:
        return [] if by_writing else [iter([b"a", b"bc"])] if kind.startswith("stream") else [b"abc"]

    async def act(context: Any) -> None:
        calls.server.report("work")
        context.set_trailing_metadata((("mine", "kept"),))
        if how == "abort":
            await context.abort(grpc.StatusCode.NOT_FOUND, "none left")
        if how == "raise":
            raise RuntimeError("a fault")

    async def asking() -> None:
        server = grpc.aio.server(interceptors=[AioServerInterceptor(calls.server)])
        server.add_generic_rpc_handlers((aio_service(kind, act),))
        target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        async with grpc.aio.insecure_channel(target, interceptors=aio_client_interceptors(calls.client)) as channel:
            stub = getattr(channel, kind)(METHOD)
            calls.client.report("before")
            call = stub(*requests(), metadata=(("own", "1"),))
            try:
                if by_writing:
                    await call.write(b"a")
                    await call.write(b"bc")
                    await call.done_writing()
                if kind.endswith("stream"):
                    assert b"".join([part async for part in call]) == b"abc"
                else:
                    assert await call == b"abc"
                assert how == "return"
            except grpc.RpcError:
                assert how != "return"
            calls.client.report("after")
            assert dict(await call.trailing_metadata())["mine"] == "kept"
        await server.stop(0)

    asyncio.run(asking())
    assert_two_messages(calls.events(), status={"return": "OK", "abort": "NOT_FOUND", "raise": "UNKNOWN"}[how])


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_does_not_take_part_is_said_and_causes_nothing(calls: Calls, kind: str) -> None:
    """Its reply tells nothing of what it did (Berry, 3.5); a history that claimed more would be wrong."""
    with running(service(kind, lambda _: None), []) as target, grpc.insecure_channel(target) as raw:
        assert ask(grpc.intercept_channel(raw, ClientInterceptor(calls.client)), kind) == b"abc"
    _, answered = calls.events()
    assert (answered["kind"], answered["attributes"]["ledto.peer"]) == ("local", "not taking part")
    assert (calls.client.stats()["unstamped"], calls.client.stats()["unanswered"]) == (1, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_no_answer_in_time_is_no_answer(calls: Calls, kind: str) -> None:
    """A time-out is known to the client alone: what the server did or not stays open."""

    def act(context: Any) -> None:
        # The server works until the client has gone.
        gone = threading.Event()
        if context.add_callback(gone.set):
            gone.wait(30)

    with running(service(kind, act), [ServerInterceptor(calls.server)]) as target, grpc.insecure_channel(target) as raw:
        channel = grpc.intercept_channel(raw, ClientInterceptor(calls.client))
        with pytest.raises(grpc.RpcError):
            ask(channel, kind, timeout=0.1)
    answered = next(event for event in calls.events() if event["name"] == f"answered {METHOD}")
    assert (answered["kind"], answered["attributes"]["ledto.peer"]) == ("local", "no answer")
    assert answered["attributes"]["rpc.status"] == "DEADLINE_EXCEEDED"
    assert calls.client.stats()["unanswered"] == 1


def test_clients_that_do_not_take_part_are_served(calls: Calls) -> None:
    """Any client may call; neither nothing nor garbage in the metadata may disturb it, and a stranger is not believed."""
    for accept_causes, headers in ((True, (None, "garbage")), (False, ("1;forged:1;;",))):
        interceptor = ServerInterceptor(calls.server, accept_causes=accept_causes)
        with (
            running(service("unary_unary", lambda _: None), [interceptor]) as target,
            grpc.insecure_channel(target) as raw,
        ):
            for header in headers:
                assert ask(raw, "unary_unary", metadata=((HEADER, header),) if header else None) == b"abc"
    served = [event for event in calls.events() if event["name"].startswith("serve")]
    assert [event["attributes"]["ledto.peer"] for event in served] == ["not taking part"] * 3
    assert (calls.server.stats()["unstamped"], calls.server.stats()["malformed"]) == (3, 1)


def test_cancelling_reaches_the_server(calls: Calls) -> None:
    """An interceptor that swallowed a cancellation would leave the server at work for nobody."""

    async def asking() -> None:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def act(context: Any) -> None:
            try:
                begun.set()
                await asyncio.Event().wait()
            finally:
                ended.set()

        server = grpc.aio.server(interceptors=[AioServerInterceptor(calls.server)])
        server.add_generic_rpc_handlers((aio_service("unary_unary", act),))
        target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        async with grpc.aio.insecure_channel(target, interceptors=aio_client_interceptors(calls.client)) as channel:
            call = channel.unary_unary(METHOD)(b"abc")
            await asyncio.wait_for(begun.wait(), 30)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await asyncio.wait_for(ended.wait(), 30)
        await server.stop(0)

    asyncio.run(asking())
    events = {event["name"]: event for event in calls.events()}
    assert events[f"answered {METHOD}"]["attributes"]["ledto.peer"] == "no answer"
    assert f"abandoned {METHOD}" in events


@pytest.mark.parametrize(
    ("kind", "how"),
    # gRPC itself never answers a blocking stream that fails in an asyncio server.
    [(kind, "return") for kind in KINDS]
    + [(kind, how) for kind in ("unary_unary", "stream_unary") for how in ("abort", "raise")],
)
def test_blocking_functions_of_an_asyncio_server_are_reported_alike(calls: Calls, kind: str, how: str) -> None:
    """Servers that move to asyncio keep some blocking functions, which are given another sort of context."""

    def act(context: Any) -> None:
        calls.server.report("work")
        if how == "abort":
            context.abort(grpc.StatusCode.NOT_FOUND, "none left")
        if how == "raise":
            raise RuntimeError("a fault")

    async def asking() -> None:
        server = grpc.aio.server(ThreadPoolExecutor(2), interceptors=[AioServerInterceptor(calls.server)])
        server.add_generic_rpc_handlers((service(kind, act),))
        target = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        try:
            await asyncio.to_thread(ask_blocking, target)
        finally:
            await server.stop(0)

    def ask_blocking(target: str) -> None:
        with grpc.insecure_channel(target) as raw:
            calls.client.report("before")
            try:
                assert ask(grpc.intercept_channel(raw, ClientInterceptor(calls.client)), kind) == b"abc"
                assert how == "return"
            except grpc.RpcError:
                assert how != "return"
            calls.client.report("after")

    asyncio.run(asking())
    assert_two_messages(calls.events(), status={"return": "OK", "abort": "NOT_FOUND", "raise": "UNKNOWN"}[how])
