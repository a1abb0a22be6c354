"""Three services, three clocks, one failure: ``python examples/three_services.py [ENDPOINT]``.

A shop asks for payment over gRPC; payment asks the stock over HTTP. The stock has one piece left, so the second order fails.
The clock of payment is five seconds behind that of the shop, and the stock's is seven ahead: sorted by wall clocks, the
failure comes before its cause, and what happened at payment afterwards seems to lead to it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc  # type: ignore[import-untyped]
import httpx
import uvicorn

from ledto.reporting import ReportedEvent, Reporter
from ledto.reporting.asgi import ReportingMiddleware
from ledto.reporting.grpc import ClientInterceptor, ServerInterceptor
from ledto.reporting.httpx import ReportingTransport

SKEW_S = {"shop": 0, "payment": -5, "stock": +7}


@dataclass(frozen=True)
class Truth:
    """What is true of the events, whatever any clock says; events by their ids."""

    failure: str
    causes: tuple[str, ...]
    """What led to the failure, in the order in which it happened: each caused the next."""
    bystanders: tuple[str, ...]
    """Not before the failure, though its wall time is."""


class Told:
    """The ids of reported events, under names of their own."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}

    def note(self, name: str, event: ReportedEvent | None) -> None:
        if event is not None:
            self.ids[name] = event.id


def stock_app(reporter: Reporter, told: Told) -> Any:
    """An ASGI application that gives away one piece, and then has none."""
    left = 1

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal left
        status = 200
        if left:
            left -= 1
            reporter.report("stock.reserved")
        else:
            told.note("none left", reporter.report("stock.none_left"))
            status = 409
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return ReportingMiddleware(app, reporter)


@contextmanager
def http_server(app: Any) -> Iterator[str]:
    """The application's address, while it is served."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def payment_server(reporter: Reporter, told: Told, stock: str) -> Iterator[str]:
    """The address of a gRPC service that takes the money if the stock has the goods."""
    with httpx.Client(base_url=stock, transport=ReportingTransport(reporter)) as client:

        def pay(order: bytes, context: grpc.ServicerContext) -> bytes:
            told.note("payment asked", reporter.report("payment.asked", order=int(order)))
            if client.post("/reserve").status_code != 200:
                told.note("refused", reporter.report("payment.refused", order=int(order)))
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, "nothing to pay for")
            return b"paid"

        handlers = {"Pay": grpc.unary_unary_rpc_method_handler(pay)}
        server = grpc.server(ThreadPoolExecutor(2), interceptors=[ServerInterceptor(reporter)])
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop.Payment", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(None).wait()


def order(reporter: Reporter, told: Told, channel: grpc.Channel, number: int) -> None:
    """One order of the shop's, which may fail."""
    told.note("placed", reporter.report("order.placed", order=number))
    try:
        channel.unary_unary("/shop.Payment/Pay")(str(number).encode())
    except grpc.RpcError:
        told.note("failed", reporter.report("order.failed", order=number))
    else:
        reporter.report("order.paid", order=number)


def skewed_time_ns(skew_s: int) -> int:
    """Read the time of a clock that is wrong by so many seconds."""
    return time.time_ns() + skew_s * 10**9


def reporters(endpoint: str, **options: Any) -> dict[str, Reporter]:
    """One for each service, whose clock is as wrong as `SKEW_S` says."""
    return {
        name: Reporter(name, endpoint=endpoint, now=partial(skewed_time_ns, skew_s), **options)
        for name, skew_s in SKEW_S.items()
    }


def play(endpoint: str, *, timeout_s: float = 30.0, **options: Any) -> Truth:
    """Run the three services, place two orders, and wait until all is reported to the endpoint.

    `options` go to each `Reporter`. Raises RuntimeError if the endpoint did not take all reports within `timeout_s`.
    """
    told = Told()
    by_name = reporters(endpoint, **options)
    shop, payment, stock = by_name["shop"], by_name["payment"], by_name["stock"]
    with (
        http_server(stock_app(stock, told)) as stock_address,
        payment_server(payment, told, stock_address) as payment_address,
        grpc.insecure_channel(payment_address) as plain,
    ):
        channel = grpc.intercept_channel(plain, ClientInterceptor(shop))
        order(shop, told, channel, 1)
        order(shop, told, channel, 2)
        told.note("ledger closed", payment.report("payment.ledger_closed"))
    closed = [reporter.close(timeout_s) for reporter in by_name.values()]
    if not all(closed):
        raise RuntimeError(f"not all events were taken by {endpoint}: is a service there?")
    causes = tuple(told.ids[name] for name in ("placed", "payment asked", "none left", "refused"))
    return Truth(told.ids["failed"], causes, (told.ids["ledger closed"],))


if __name__ == "__main__":
    truth = play(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:4318")
    print(f"{truth.failure} failed because of {', '.join(truth.causes)}")  # noqa: T201
