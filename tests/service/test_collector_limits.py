"""What the collector refuses, and what nobody gets to see."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import shutil
import socket
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fastapi import APIRouter

from ledto.service.broker.nats_server import broker_url
from ledto.service.http.app import HttpSettings, ServiceError
from ledto.service.http.limits import Limits
from ledto.service.http.tokens import BadTokens, read_tokens
from tests.service.collector_stage import Stage, served, until

LINES = "application/x-ndjson"
LIMITS = Limits(body_bytes=64 << 10, reports=50, header_bytes=8 << 10, requests_in_flight=2)
REPORT = b'{"process":"p","seq":1}\n'


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    settings = HttpSettings(port=0, expects_stream=False, limits=LIMITS)
    with served(tmp_path_factory.mktemp("service") / "history", settings=settings) as running:
        yield running


def connected(stage: Stage, request: str) -> socket.socket:
    parts = urlsplit(stage.running.http)
    connection = socket.create_connection((str(parts.hostname), parts.port or 0), timeout=30)
    connection.sendall(request.encode())
    return connection


def test_too_much_is_refused_and_the_rest_goes_on(stage: Stage) -> None:
    """One sender could take all memory of the collector."""
    size = LIMITS.body_bytes + 1
    bomb = gzip.compress(bytes(50 << 20))
    assert len(bomb) < LIMITS.body_bytes
    parts = (b" " * 1_000 for _ in range(size // 1_000 + 1))
    for body, headers in (
        (b" " * size, {}),
        (parts, {}),
        (bomb, {"Content_Encoding": "gzip"}),
        (REPORT * (LIMITS.reports + 1), {}),
    ):
        assert stage.post("/v1/reports", body, LINES, **headers).status == 413
    assert stage.post("/v1/reports", REPORT * LIMITS.reports, LINES).status == 200
    assert len(stage.rows()) == LIMITS.reports


def test_endless_headers_are_cut_off(stage: Stage) -> None:
    """One sender could take all memory of the collector, a header at a time."""
    with connected(stage, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + "x" * 20_000) as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 4")
    assert stage.get("/healthz").status == 200


def test_more_requests_than_allowed_are_told_to_wait(stage: Stage) -> None:
    """Overload would end in memory, not in an answer that tells senders to slow down."""
    head = f"POST /v1/reports HTTP/1.1\r\nHost: localhost\r\nContent-Type: {LINES}\r\nContent-Length: {len(REPORT)}\r\n\r\n"
    slow = [connected(stage, head) for _ in range(LIMITS.requests_in_flight)]
    try:
        until(lambda: b"\nledto_collector_in_flight 2.0\n" in stage.get("/metrics").body)
        refused = stage.post("/v1/reports", REPORT, LINES)
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        for connection in slow:
            connection.sendall(REPORT)
            assert connection.recv(100).startswith(b"HTTP/1.1 200")
    finally:
        for connection in slow:
            connection.close()
    assert stage.post("/v1/reports", REPORT, LINES).status == 200


def test_a_body_that_never_comes_is_not_waited_for(tmp_path: Path) -> None:
    """A few senders that stop half-way would keep all others out."""
    settings = HttpSettings(port=0, expects_stream=False, limits=Limits(read_s=0.2))
    with served(tmp_path / "h", settings=settings) as stage:
        head = f"POST /v1/reports HTTP/1.1\r\nHost: localhost\r\nContent-Type: {LINES}\r\nContent-Length: 9\r\n\r\n{{"
        with connected(stage, head) as connection:
            assert connection.recv(100).startswith(b"HTTP/1.1 408")


WRITER, READER = "writer-token-0123456789", "reader-token-0123456789"


def test_only_known_callers_get_in_and_no_secret_gets_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Strangers could send or read events, or find tokens and paths in an answer or a log."""
    caplog.set_level(logging.DEBUG)
    tokens = tmp_path / "tokens"
    digest = hashlib.sha256(READER.encode()).hexdigest()
    tokens.write_text(f"# callers\nwriter shop {WRITER}\nreader ops sha256:{digest}\n")
    router = APIRouter()

    @router.get("/broken")
    async def broken() -> None:
        raise RuntimeError(f"{WRITER} in {tmp_path}")

    settings = HttpSettings(port=0, expects_stream=False, access=read_tokens(tokens))
    answers = []
    with served(tmp_path / "h", settings=settings, routers=(router,)) as stage:

        def sent(token: str | None, body: bytes = REPORT) -> int:
            headers = {} if token is None else {"Authorization": f"Bearer {token}"}
            answers.append(stage.post("/v1/reports", body, LINES, **headers))
            return answers[-1].status

        assert [sent(token) for token in (None, "wrong", "", READER, WRITER)] == [401, 401, 401, 403, 200]
        assert answers[0].headers["www-authenticate"] == "Bearer"
        assert stage.rows()["file"].to_pylist() == ["http:shop"]
        for token, status in ((None, 401), (WRITER, 403), (READER, 200)):
            answers.append(stage.get("/metrics", **({"Authorization": f"Bearer {token}"} if token else {})))
            assert answers[-1].status == status
        answers.append(stage.get("/broken"))
        assert answers[-1].status == 500
        broker_token = urlsplit(broker_url(stage.history)).username or ""
        (stage.history / "broker" / "server.pid").read_text()
    said = "\n".join([*(repr(answer) for answer in answers), *(record.getMessage() for record in caplog.records)])
    said += "\n".join(record.exc_text or "" for record in caplog.records)
    for secret in (WRITER, READER, digest, broker_token, str(tmp_path)):
        assert secret
        assert secret not in said
    number = json.loads(answers[-1].body)["message"].rpartition(" ")[2]
    assert [r.getMessage() for r in caplog.records if number in r.getMessage()] == [
        f"unexpected RuntimeError while answering, id {number}"
    ]


@pytest.mark.parametrize(
    "text", ["", "writer shop", "owner shop 0123456789abcdef", "writer a/b 0123456789abcdef", "writer a short"]
)
def test_bad_tokens_are_refused_without_being_shown(tmp_path: Path, text: str) -> None:
    """A slip in the file would open the service, or print a token."""
    (tmp_path / "tokens").write_text(f"# nothing\n{text}\n")
    with pytest.raises(BadTokens) as refused:
        read_tokens(tmp_path / "tokens")
    assert "0123456789abcdef" not in str(refused.value)
    assert "short" not in str(refused.value)


def test_without_tokens_only_this_machine_is_listened_to(stage: Stage) -> None:
    """Anybody on the network, or any page in a browser, could send and read events."""
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        with pytest.raises(ServiceError, match="--tokens"):
            HttpSettings(host=host).check()
    HttpSettings(host="0.0.0.0", open_to_all=True).check()
    assert stage.get("/healthz", Host="evil.example").status == 403
    assert stage.get("/healthz", Host="LOCALHOST:1234").status == 200


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_tls_by_certificate_files(tmp_path: Path) -> None:
    """Tokens would cross the network in the clear."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    make += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(make, check=True, capture_output=True)
    settings = HttpSettings(port=0, expects_stream=False, certificate=certificate, key=key)
    with served(tmp_path / "h", settings=settings) as stage:
        assert stage.running.http.startswith("https://")
        trusting = ssl.create_default_context(cafile=str(certificate))
        with urllib.request.urlopen(f"{stage.running.http}/healthz", context=trusting) as answer:
            assert answer.status == 200
    with pytest.raises(ServiceError, match="certificate"), served(tmp_path / "h", settings=wrong(settings)):
        pass


def wrong(settings: HttpSettings) -> HttpSettings:
    """The key in the certificate's place."""
    return HttpSettings(port=0, expects_stream=False, certificate=settings.key, key=settings.key)
