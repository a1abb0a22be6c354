"""Three services under OpenTelemetry, one change of a limit, one failure: ``python examples/otel_shop.py FOLDER_OR_URL``.

A gateway (``oweb``) hands orders to ``oorders``, which asks ``opay`` for the money: three operating-system processes with
the unchanged OpenTelemetry SDK and instrumentation of FastAPI, httpx and logging. They know nothing of ledto.

Twenty orders are paid, all at once. Then an operator lowers the limit of ``opay`` from 500 to 50 in a request of its own.
Small orders are still paid, but one of 120 is refused, while all services are busy with other requests. The change and the
refusal are two traces that only share the memory of ``opay``.

What the services export, requests of OTLP with spans and logs, is files below a folder, or goes to a collector such as
``ledto serve``, at http://127.0.0.1:4318. The last line printed is the id of the trace that failed.

``python examples/otel_shop.py --listen SERVICE HOST:PORT [UPSTREAM]`` runs one of the services alone, as in compose.yaml.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

import httpx
from fastapi import FastAPI, HTTPException

SERVICES = ("oweb", "oorders", "opay")
TIMEOUT_S = 60.0
LARGE, SMALL = 120, 20
"""Amounts: above and below the new limit."""

log = logging.getLogger("shop")


@dataclass(frozen=True)
class Truth:
    """What was seen from outside."""

    failed_trace: str
    """The trace of the order that was refused."""
    traces: int
    """Of all requests from outside."""


def web(client: httpx.AsyncClient) -> FastAPI:
    """The gateway: it tells its caller the trace of an order that failed."""
    from opentelemetry import trace

    app = FastAPI()

    @app.post("/orders/{number}")
    async def order(number: int, amount: int) -> dict[str, int]:
        answer = await client.post(f"/orders/{number}", params={"amount": amount})
        if answer.status_code != 200:
            log.error("order failed")
            failed = trace.format_trace_id(trace.get_current_span().get_span_context().trace_id)
            raise HTTPException(502, {"trace": failed})
        return {"number": number}

    return app


def orders(client: httpx.AsyncClient) -> FastAPI:
    """What takes orders."""
    app = FastAPI()

    @app.post("/orders/{number}")
    async def order(number: int, amount: int) -> dict[str, int]:
        log.info("order taken")
        answer = await client.post("/payments", params={"amount": amount})
        if answer.status_code != 200:
            log.warning("order not paid")
            raise HTTPException(409, "not paid")
        return {"number": number}

    return app


def pay(_: httpx.AsyncClient) -> FastAPI:
    """What takes the money, up to a limit that an operator can change."""
    app = FastAPI()
    limit = 500

    @app.post("/payments")
    async def payment(amount: int) -> dict[str, int]:
        log.info("payment asked")
        await asyncio.sleep(0)  # Other payments go on meanwhile.
        if amount > limit:
            log.error("payment refused")
            raise HTTPException(402, "above the limit")
        log.info("payment made")
        return {"amount": amount}

    @app.put("/limit")
    async def set_limit(value: int) -> None:
        nonlocal limit
        log.info("limit changed %d -> %d", limit, value)
        limit = value

    return app


def add_status(app: FastAPI) -> None:
    """Let the service be asked how it is, which concerns no other."""

    @app.get("/status")
    async def status() -> str:
        log.info("status asked")
        return "well"


MAKERS = {"oweb": web, "oorders": orders, "opay": pay}


def serve(service: str, listening: int, upstream: str = "") -> None:
    """Be one service, at a socket that listens already, until SIGTERM."""
    import uvicorn
    from opentelemetry import _logs, trace
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
    from opentelemetry.instrumentation.httpx import HTTPXClientInstrumentor
    from opentelemetry.instrumentation.logging import LoggingInstrumentor
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    # The service's name and where to export to are in the environment, as the SDK expects them.
    spans, logs = TracerProvider(), LoggerProvider()
    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    trace.set_tracer_provider(spans)
    _logs.set_logger_provider(logs)
    LoggingInstrumentor().instrument()
    HTTPXClientInstrumentor().instrument()
    log.setLevel(logging.INFO)

    client = httpx.AsyncClient(base_url=upstream, timeout=TIMEOUT_S)
    app = MAKERS[service](client)
    add_status(app)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await client.aclose()
        spans.shutdown()
        logs.shutdown()

    app.router.lifespan_context = lifespan
    FastAPIInstrumentor.instrument_app(app)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    server.run(sockets=[socket.socket(fileno=listening)])


@contextmanager
def files_of_exports(folder: Path) -> Iterator[str]:
    """The address of a receiver of OTLP over HTTP that keeps each request as a file."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = count(1)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            (folder / f"{self.path.rsplit('/', 1)[-1]}-{next(numbers)}.otlp").write_bytes(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def running(collector: str) -> Iterator[dict[str, str]]:
    """The addresses of the services. They have exported everything when this ends."""
    with ExitStack() as stack:
        # Sockets listen before the services run: requests wait for them, and nobody has to ask whether they are ready.
        listening = {name: stack.enter_context(socket.create_server(("127.0.0.1", 0))) for name in SERVICES}
        address = {name: f"http://127.0.0.1:{each.getsockname()[1]}" for name, each in listening.items()}
        upstream = {"oweb": address["oorders"], "oorders": address["opay"], "opay": ""}
        started = []
        for name, each in listening.items():
            number = str(each.fileno())
            settings = {"OTEL_SERVICE_NAME": name, "OTEL_EXPORTER_OTLP_ENDPOINT": collector}
            command = [sys.executable, __file__, "--serve", name, number, upstream[name]]
            started.append(subprocess.Popen(command, env=os.environ | settings, pass_fds=[each.fileno()]))
        try:
            yield address
        finally:
            for service in started:
                service.terminate()
            for service in started:
                service.wait(TIMEOUT_S)


async def use(address: dict[str, str]) -> Truth:
    """Order, change the limit, and order again."""
    async with httpx.AsyncClient(timeout=TIMEOUT_S) as client:

        async def order(number: int, amount: int) -> httpx.Response:
            return await client.post(f"{address['oweb']}/orders/{number}", params={"amount": amount})

        before = await asyncio.gather(*(order(number, LARGE) for number in range(20)))
        (await client.put(f"{address['opay']}/limit", params={"value": 50})).raise_for_status()
        between = await asyncio.gather(*(order(number, SMALL) for number in range(20, 29)))
        questions = [client.get(f"{each}/status") for each in 3 * list(address.values())]
        after = await asyncio.gather(*questions[:5], order(29, LARGE), *questions[5:])
    answers = [*before, *between, *after]
    failed = [each for each in answers if each.status_code != 200]
    if len(failed) != 1:
        raise RuntimeError(f"one order should fail, not {len(failed)}: {[each.text for each in failed]}")
    return Truth(failed[0].json()["detail"]["trace"], len(answers) + 1)


def play(folder: Path) -> Truth:
    """Run the services and their clients; what they export is the files ``*.otlp`` of the folder."""
    with files_of_exports(folder) as collector:
        return play_to(collector)


def play_to(collector: str) -> Truth:
    """Run the services and their clients; what they export goes to this address."""
    with running(collector) as address:
        return asyncio.run(use(address))


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    elif sys.argv[1] == "--listen":
        host, _, port = sys.argv[3].rpartition(":")
        listening = socket.create_server((host, int(port)))
        serve(sys.argv[2], listening.detach(), *sys.argv[4:])
    else:
        target = sys.argv[1]
        truth = play_to(target) if target.startswith("http") else play(Path(target))
        print(truth.failed_trace)  # noqa: T201
