"""A live history whose versions are drawn at random, a server on loopback, and the two kinds of subscribers."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import uvicorn
from fastapi import FastAPI

from ledto.history import NoHistory
from ledto.live.delivery_log import DELIVERED, LogTrimmed
from ledto.questions import History
from ledto.service.subscriptions.routes import subscriptions_router
from ledto.service.subscriptions.service import SubscriptionLimits, Subscriptions
from ledto.service.webhooks.client import WebhookHosts
from ledto.service.webhooks.worker import WebhookLimits
from tests.history.building import Made, draw, write_history

QUICK = SubscriptionLimits(
    poll_s=0.005,
    keep_alive_s=0.1,
    webhooks=WebhookLimits(first_retry_s=0.002, most_retry_s=0.01, answer_s=2.0, save_s=0.0),
)
DEADLINE_S = 300.0


class StagedLive:
    """What `LiveHistory` promises, of a computation that grows: versions of the history and of the log, set by the test."""

    def __init__(self, folder: Path, events: list[Made]) -> None:
        self.events = events
        """In an order in which they may have happened, which is that of their deliveries."""
        self.first = 1
        self._folder = folder
        self._logged = 0
        self._version = 0
        self._lock = threading.Lock()

    def commit(self, upto: int, *, logged: int | None = None) -> None:
        """A version whose history has the first `upto` events; the log has as many, unless it is said otherwise."""
        folder = self._folder / f"version-{self._version + 1}"
        write_history(folder, [(self.events[:upto], [])], [])
        with self._lock:
            self._version += 1
            self._history = History(folder)
            self._logged = upto if logged is None else logged

    @property
    def version(self) -> int:
        with self._lock:
            return self._version

    def current(self) -> History:
        with self._lock:
            if not self._version:
                raise NoHistory("nothing was committed")
            return self._history

    def last_delivery(self) -> int:
        with self._lock:
            return self._logged

    def deliveries(self, after: int, limit: int = 10_000) -> pa.Table:
        if after + 1 < self.first:
            raise LogTrimmed(self.first)
        rows = [self.row(number) for number in range(after + 1, self.last_delivery() + 1)]
        return pa.Table.from_pylist(rows[:limit], DELIVERED)

    def row(self, number: int) -> dict[str, Any]:
        event = self.events[number - 1]
        return {
            "number": number,
            "computation": event.computation,
            "process": event.process,
            "seq": event.seq,
            "id": event.id,
            "name": event.name,
            "kind": event.kind,
            "time": event.time,
            "arrival": number * 10,
            "at": number * 10 + 5,
            "waited": 5,
            "late": number % 7 == 0,
            "error": event.error,
            "attributes": None if event.attributes is None else json.dumps(event.attributes),
            "missing": None,
            "file": "a.jsonl",
            "place": None,
        }

    def numbers(self, meets: Callable[[Made], bool], after: int = 0) -> list[int]:
        """The truth: which deliveries a subscription is about."""
        return [number for number, event in enumerate(self.events, start=1) if number > after and meets(event)]


def drawn(seed: int, events: int, *, gaps: bool = False, ids: bool = False) -> list[Made]:
    return draw(Random(seed), "shop", 4, events, gaps=gaps, ids=ids)


def application(subscriptions: Subscriptions) -> FastAPI:
    app = FastAPI()
    app.include_router(subscriptions_router(subscriptions))
    return app


@contextmanager
def serving(live: StagedLive, folder: Path, **options: Any) -> Iterator[Client]:
    """The subscriptions of a folder, served on loopback until the end of the block."""
    hosts = WebhookHosts(private=True)
    subscriptions = Subscriptions(
        live, folder, **{"limits": QUICK, "random": Random(1), "webhook_hosts": hosts, **options}
    )
    server = uvicorn.Server(
        uvicorn.Config(application(subscriptions), log_level="warning", timeout_graceful_shutdown=5, access_log=False)
    )
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        until(lambda: server.started)
        yield Client(listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(DEADLINE_S)
        listening.close()
        assert not thread.is_alive()


def until(reached: Callable[[], Any]) -> Any:
    """What it gives once that is true."""
    end = time.monotonic() + DEADLINE_S
    while not (found := reached()):
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.002)
    return found


class Client:
    """Speaks to the service."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        try:
            sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, sent, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            read = answer.read()
            return answer.status, json.loads(read) if read else None
        finally:
            connection.close()

    def subscribe(self, **body: Any) -> dict[str, Any]:
        status, document = self.ask("POST", "/v1/subscriptions", body)
        assert status == 201, document
        found: dict[str, Any] = document
        return found

    @contextmanager
    def events(self, url: str, *, after: int | None = None) -> Iterator[Iterator[dict[str, str]]]:
        """The frames of a stream, each as its fields; comments are under an empty name."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        try:
            connection.request("GET", url, headers={} if after is None else {"Last-Event-ID": str(after)})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            yield frames(answer)
        finally:
            connection.close()

    def answers(self, url: str, count: int, *, after: int | None = None) -> list[dict[str, Any]]:
        """The first so many events of a stream, with their numbers as the client would note them."""
        found: list[dict[str, Any]] = []
        if not count:
            return found
        end = time.monotonic() + DEADLINE_S
        with self.events(url, after=after) as stream:
            for frame in stream:
                assert time.monotonic() < end, f"{len(found)} of {count} came"
                if "data" in frame:
                    document = json.loads(frame["data"])
                    assert document.get("number", int(frame["id"])) == int(frame["id"])
                    found.append(document)
                    if len(found) == count:
                        break
        return found


def frames(answer: http.client.HTTPResponse) -> Iterator[dict[str, str]]:
    fields: dict[str, str] = {}
    while line := answer.readline().decode():
        if line == "\n":
            yield fields
            fields = {}
        else:
            name, _, value = line.rstrip("\n").partition(": ")
            fields[name] = value


class Receiver:
    """A webhook's other end: fails as the test says, and remembers every attempt."""

    def __init__(self, fails: Callable[[int], str | None]) -> None:
        self.attempts: list[tuple[dict[str, str], bytes]] = []
        self.taken: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = dict(self.headers.items())
                receiver.attempts.append((headers, body))
                fault = fails(len(receiver.attempts))
                if fault == "break":
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                if fault == "take and break":
                    receiver.taken.append((headers, body))
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                if fault is None:
                    receiver.taken.append((headers, body))
                self.send_response(200 if fault is None else int(fault))
                if fault == "302":
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook?a=1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def numbers(self) -> list[int]:
        """Of what was taken, in order."""
        return [int(headers["Ledto-Delivery"].rpartition("/")[2]) for headers, _ in list(self.taken)]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(DEADLINE_S)
