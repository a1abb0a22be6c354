"""OTLP over gRPC: each call is answered as the same bytes over HTTP are, and stores the same rows."""

from __future__ import annotations

import asyncio
import gzip
import shutil
import socket
import subprocess
import threading
from collections import namedtuple
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from hypothesis import HealthCheck, assume, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from ledto.service.broker import nats_server
from ledto.service.collector.collector import Collector
from ledto.service.collector.grpc_server import GZIP_MAGIC, METHODS, GrpcServer
from ledto.service.collector.parse import Parser
from ledto.service.health import HealthWatch
from ledto.service.http.app import HttpSettings, ServiceError
from ledto.service.http.limits import InFlight, Limits
from ledto.service.http.tokens import read_tokens
from ledto.service.metrics import Metrics
from tests.service.collector_stage import WAIT_S, Stage, served, spans_request, until
from tests.sources.otlp_requests import log, message, of_logs

PROTOBUF = "application/x-protobuf"
METHOD = {signal: method for method, signal in METHODS.items()}
Code = grpc.StatusCode


@dataclass(frozen=True)
class Answered:
    """How a call ended."""

    code: grpc.StatusCode
    body: bytes
    details: str
    retry_s: int | None
    """When to try again, as the status details say it."""
    retry_for_python: int | None
    """The same, where the exporter of Python looks for it."""


def settings(**given: Any) -> HttpSettings:
    return HttpSettings(port=0, grpc_port=0, expects_stream=False, **given)


@contextmanager
def connected(stage: Stage, credentials: grpc.ChannelCredentials | None = None) -> Iterator[grpc.Channel]:
    address = str(stage.running.grpc).partition("://")[2]
    # A channel of its own: by default, channels to one address share a connection.
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
    made = (
        grpc.insecure_channel(address, options)
        if credentials is None
        else grpc.secure_channel(address, credentials, options)
    )
    with made as channel:
        yield channel


def call(
    channel: grpc.Channel,
    body: bytes | Iterator[bytes],
    signal: str = "traces",
    *,
    packed: bool = False,
    **metadata: str,
) -> Answered:
    kind = channel.unary_unary if isinstance(body, bytes) else channel.stream_unary
    named = [(name.replace("_", "-"), value) for name, value in metadata.items()]
    compression = grpc.Compression.Gzip if packed else grpc.Compression.NoCompression
    try:
        return Answered(Code.OK, kind(METHOD[signal])(body, WAIT_S, named, compression=compression), "", None, None)
    except grpc.RpcError as fault:
        return _failed(fault)


def _failed(fault: Any) -> Answered:
    trailing = dict(fault.trailing_metadata() or ())
    status = Status.FromString(trailing.get("grpc-status-details-bin", b""))
    retry = RetryInfo()
    has_retry = any(detail.Unpack(retry) for detail in status.details)
    raw = trailing.get("google.rpc.retryinfo-bin")
    for_python = None if raw is None else RetryInfo.FromString(raw).retry_delay.seconds
    return Answered(fault.code(), b"", fault.details(), retry.retry_delay.seconds if has_retry else None, for_python)


def expected(stage: Stage, body: bytes, signal: str, **headers: str) -> tuple[grpc.StatusCode, str, bytes]:
    """The code, the message and the body that HTTP gives."""
    answer = stage.post(f"/v1/{signal}", body, PROTOBUF, **headers)
    if answer.status == 200:
        return Code.OK, "", answer.body
    status = Status.FromString(answer.body)
    (code,) = (code for code in Code if code.value[0] == status.code)
    return code, status.message, b""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    limits = Limits(body_bytes=1 << 20, reports=500, gzip_members=3)
    with served(tmp_path_factory.mktemp("service") / "history", settings=settings(limits=limits)) as running:
        yield running


@pytest.fixture(scope="module")
def channel(stage: Stage) -> Iterator[grpc.Channel]:
    with connected(stage) as made:
        yield made


LOGS = message(of_logs(log(body={"stringValue": "hello"}), log(body={"stringValue": "you"})))
SPANS = spans_request(20, broken=3).SerializeToString()


def test_the_same_bytes_give_the_same_rows_and_the_same_answer(stage: Stage, channel: grpc.Channel) -> None:
    """A user who changes the exporter's protocol would find other events, or not hear of those that cannot be read."""
    for signal, body in (("traces", SPANS), ("logs", LOGS), ("traces", b"")):
        stage.purge()
        _, _, answer = expected(stage, body, signal)
        rows = stage.rows().to_pylist()
        assert bool(rows) == bool(body)
        for packed in (False, True):
            stage.purge()
            answered = call(channel, body, signal, packed=packed)
            assert (answered.code, answered.body) == (Code.OK, answer)
            assert stage.rows().to_pylist() == rows


REFUSED = {
    "no protobuf": (b"\xff\xff no protobuf", False),
    "JSON": (b'{"resourceSpans": []}', False),
    "too many records": (spans_request(501).SerializeToString(), False),
    "too many parts": (b"\x0a\x00" * 3_000, False),
    "a bomb": (gzip.compress(bytes(20 << 20), 1), True),
    "a bomb of members": (gzip.compress(b"") * 4, True),
    "cut gzip": (gzip.compress(SPANS)[:-3], True),
    "nested deeply": (b"\x0a\x80\x01" * 5_000, False),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_http_refuses_is_refused_with_the_same_words(stage: Stage, channel: grpc.Channel, what: str) -> None:
    """One sender could take all memory; or an exporter would send the same garbage for ever."""
    body, packed = REFUSED[what]
    headers = {"Content_Encoding": "gzip"} if packed else {}
    code, said, _ = expected(stage, body, "traces", **headers)
    assert code in (Code.INVALID_ARGUMENT, Code.OK)
    assert (code is Code.OK) == (what == "nested deeply"), said
    # Bytes that gzip has made are sent as they are: gRPC would compress them once more.
    answered = call(channel, body)
    assert (answered.code, answered.details) == (code, said)
    assert (answered.retry_s, answered.retry_for_python) == (None, None)
    assert call(channel, SPANS).code is Code.OK


@given(st.one_of(st.binary(max_size=40), st.tuples(st.integers(0, len(SPANS)), st.binary(max_size=4))))
@examples(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_message_whatever_is_answered_otherwise_than_over_http(
    stage: Stage, channel: grpc.Channel, damage: Any
) -> None:
    """What one of the two takes and the other refuses is a defect of one of them."""
    if isinstance(damage, bytes):
        body = damage
    else:
        at, part = damage
        body = SPANS[:at] + part + SPANS[at + 2 :]
    assume(not body.startswith(GZIP_MAGIC))
    code, said, answer = expected(stage, body, "traces")
    answered = call(channel, body)
    assert (answered.code, answered.details, answered.body) == (code, said, answer)


def test_what_grpc_compressed_is_unpacked_within_the_limit(channel: grpc.Channel) -> None:
    """Many versions of gRPC look at the size only after they have unpacked: a few kilobytes would take all memory."""
    answered = call(channel, bytes(20 << 20), packed=True)
    assert (answered.code, "after decompression" in answered.details) == (Code.INVALID_ARGUMENT, True)
    assert call(channel, SPANS, packed=True).code is Code.OK


def test_a_message_beyond_the_limit_is_never_held(channel: grpc.Channel) -> None:
    """One sender could take all memory. Without a time to retry, an exporter drops the batch and goes on."""
    answered = call(channel, bytes((1 << 20) + 1))
    assert (answered.code, answered.retry_s) == (Code.RESOURCE_EXHAUSTED, None)
    assert call(channel, SPANS).code is Code.OK


def test_a_call_has_one_message_of_a_method_that_is_there(channel: grpc.Channel) -> None:
    """What is sent beside the one message that is read would be lost without a word."""
    assert call(channel, iter([])).code is Code.INVALID_ARGUMENT
    twice = call(channel, iter([SPANS, SPANS]))
    assert (twice.code, "more than one" in twice.details) == (Code.INVALID_ARGUMENT, True)
    with pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Other")(b"", WAIT_S)
    assert refused.value.code() is Code.UNIMPLEMENTED
    with pytest.raises(grpc.RpcError) as refused:
        channel.unary_unary(METHOD["traces"])(SPANS, WAIT_S, compression=grpc.Compression.Deflate)
    assert refused.value.code() is Code.UNIMPLEMENTED
    assert call(channel, SPANS).code is Code.OK


def test_a_failure_of_our_own_is_answered_without_its_words(
    channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The sender, and the log, would have what the exception says: a path, or a part of somebody's report."""

    def fail(*_: object) -> None:
        raise RuntimeError("/home/secret")

    monkeypatch.setattr(Parser, "parse", fail)
    answered = call(channel, SPANS)
    number = answered.details.rpartition(" ")[2]
    assert (answered.code, answered.retry_s) == (Code.INTERNAL, None)
    assert caplog.messages == [f"unexpected RuntimeError while answering, id {number}"]
    assert "secret" not in answered.details + caplog.text
    monkeypatch.undo()
    assert call(channel, SPANS).code is Code.OK


def test_a_retry_is_stored_once(stage: Stage, channel: grpc.Channel) -> None:
    """A user would see events twice after a time-out."""
    stage.purge()
    for _ in range(2):
        assert call(channel, LOGS, "logs", ledto_batch="7").code is Code.OK
    assert call(channel, LOGS, "logs", ledto_batch="x" * 200).code is Code.INVALID_ARGUMENT
    once = len(stage.rows())
    stage.purge()
    expected(stage, LOGS, "logs")
    assert len(stage.rows()) == once


WRITER, READER = "writer-token-0123456789", "reader-token-0123456789"


@contextmanager
def sending_nothing() -> Iterator[Iterator[bytes]]:
    """The messages of a sender that begins a call and sends nothing until the block ends."""
    over = threading.Event()

    def messages() -> Iterator[bytes]:
        over.wait(WAIT_S)
        yield b""

    try:
        yield messages()
    finally:
        over.set()


def test_only_known_callers_get_in_before_they_send_anything(tmp_path: Path) -> None:
    """Strangers could send events, or make the service hold their bodies until it looks at their token."""
    (tmp_path / "tokens").write_text(f"writer shop {WRITER}\nreader ops {READER}\n")
    with (
        served(tmp_path / "h", settings=settings(access=read_tokens(tmp_path / "tokens"))) as stage,
        connected(stage) as channel,
    ):
        for metadata, code in (
            ({}, Code.UNAUTHENTICATED),
            ({"authorization": "Bearer wrong"}, Code.UNAUTHENTICATED),
            ({"authorization": f"Basic {WRITER}"}, Code.UNAUTHENTICATED),
            ({"authorization": f"Bearer {READER}"}, Code.PERMISSION_DENIED),
        ):
            for signal in ("traces", "logs", "metrics"):
                assert call(channel, LOGS, signal, **metadata).code is code
        with sending_nothing() as nothing:
            assert call(channel, nothing).code is Code.UNAUTHENTICATED
        assert call(channel, LOGS, "logs", authorization=f"Bearer {WRITER}").code is Code.OK
        assert {*stage.rows()["file"].to_pylist()} == {"http:shop"}


def test_overload_and_a_full_disk_say_when_to_try_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exporter drops what is refused, unless it is told to send it again."""
    usage = namedtuple("usage", ["total", "used", "free"])
    free = 1 << 30
    monkeypatch.setattr(nats_server.shutil, "disk_usage", lambda _: usage(1 << 30, 0, free))
    limits = Limits(requests_in_flight=1)
    with served(tmp_path / "h", settings=settings(limits=limits)) as stage, connected(stage) as channel:
        with held_open(stage, channel) as finish:
            busy = call(channel, SPANS)
            assert (busy.code, busy.retry_s, busy.retry_for_python) == (Code.RESOURCE_EXHAUSTED, 1, 1)
            assert stage.post("/v1/traces", SPANS, PROTOBUF).status == 429
            assert finish(LOGS).code is Code.OK
        free = 0
        full = call(channel, SPANS)
        assert (full.code, full.retry_s, full.retry_for_python) == (Code.UNAVAILABLE, 1, 1)
        assert "the disk is full" in full.details


@contextmanager
def held_open(stage: Stage, channel: grpc.Channel, in_flight: int = 1) -> Iterator[Callable[[bytes], Answered]]:
    """A call that has begun and whose message comes when the function is called, which gives the answer."""
    go, bodies = threading.Event(), []

    def body() -> Iterator[bytes]:
        go.wait(WAIT_S)
        yield from bodies

    with ThreadPoolExecutor(1) as thread:
        calling = thread.submit(call, channel, body(), "logs")

        def finish(sent: bytes) -> Answered:
            bodies.append(sent)
            go.set()
            return calling.result(WAIT_S)

        try:
            until(lambda: f"\nledto_collector_in_flight {in_flight}.0\n".encode() in stage.get("/metrics").body)
            yield finish
        finally:
            go.set()


def test_senders_that_stop_half_way_do_not_keep_others_out(tmp_path: Path) -> None:
    """A few senders that begin a message and never end it would be all that it takes to stop the collector."""
    limits = Limits(read_s=0.2)
    with served(tmp_path / "slow", settings=settings(limits=limits)) as stage, connected(stage) as channel:
        with held_open(stage, channel) as finish:
            until(lambda: b"\nledto_collector_in_flight 0.0\n" in stage.get("/metrics").body)
        assert finish(LOGS).code is Code.DEADLINE_EXCEEDED
    limits = Limits(body_bytes=1 << 20, bytes_in_flight=1 << 20, give_way_s=0.0)
    with (
        served(tmp_path / "way", settings=settings(limits=limits)) as stage,
        connected(stage) as channel,
        held_open(stage, channel) as finish,
    ):
        assert call(channel, LOGS, "logs").code is Code.OK
        gave_way = finish(LOGS)
        assert (gave_way.code, gave_way.retry_s) == (Code.RESOURCE_EXHAUSTED, 1)


def test_many_calls_at_once_are_stored_or_told_to_wait(tmp_path: Path) -> None:
    """Under load, spans would be lost that a sender believes to be stored, or stored that it believes to be refused."""
    calls = 300
    body = spans_request(2).SerializeToString()
    limits = Limits(requests_in_flight=8)
    with served(tmp_path / "h", settings=settings(limits=limits)) as stage, connected(stage) as channel:
        export = channel.unary_unary(METHOD["traces"])
        running = [export.future(body, WAIT_S) for _ in range(calls)]
        answers = [
            Answered(Code.OK, each.result(), "", None, None) if each.exception() is None else _failed(each.exception())
            for each in running
        ]
        stored = sum(answer.code is Code.OK for answer in answers)
        assert stored
        # gRPC itself refuses what is beyond the calls of a connection, and exporters always send that again.
        to_be_retried = {(Code.RESOURCE_EXHAUSTED, 1), (Code.UNAVAILABLE, None)}
        assert {(answer.code, answer.retry_s) for answer in answers} <= {(Code.OK, None), *to_be_retried}
        assert len(stage.rows()) == 4 * stored
        counted = stage.get("/metrics").body.decode()
        assert f'requests_total{{path="{METHOD["traces"]}",status="OK"}} {stored}.0\n' in counted


def test_connections_are_bounded_and_health_is_still_told(tmp_path: Path) -> None:
    """Whoever opens connections and says nothing would use up the service's open files."""
    with served(tmp_path / "h", settings=settings(limits=Limits(connections=2))) as stage, ExitStack() as opened:
        address = urlsplit(str(stage.running.grpc))
        connections = [
            opened.enter_context(socket.create_connection((str(address.hostname), address.port or 0), timeout=WAIT_S))
            for _ in range(6)
        ]
        greeted = [bool(each.recv(1)) for each in connections]
        assert 0 < sum(greeted) <= 2
        assert stage.get("/readyz").document == {"broker": "ready", "grpc": "ready"}
        for each in connections:
            each.close()
        with connected(stage) as channel:
            until(lambda: call(channel, SPANS).code is Code.OK)


def test_a_call_that_is_cancelled_leaves_nothing_behind(stage: Stage) -> None:
    """Each sender that gives up would take a place of those that may send at once, until none is left."""
    errors = _errors(stage)
    with connected(stage) as channel, ExitStack() as senders:
        bodies = [senders.enter_context(sending_nothing()) for _ in range(5)]
        running = [channel.stream_unary(METHOD["logs"]).future(body) for body in bodies]
        until(lambda: b"\nledto_collector_in_flight 5.0\n" in stage.get("/metrics").body)
        for each in running:
            each.cancel()
        until(lambda: b"\nledto_collector_in_flight 0.0\n" in stage.get("/metrics").body)
        assert call(channel, SPANS).code is Code.OK
    assert errors == _errors(stage), "the log would fill"


def _errors(stage: Stage) -> bytes:
    return next(line for line in stage.get("/metrics").body.splitlines() if b"errors_total " in line)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_tls_by_the_same_certificate(tmp_path: Path) -> None:
    """Tokens would cross the network in the clear."""
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    make += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(make, check=True, capture_output=True)
    with served(tmp_path / "h", settings=settings(certificate=certificate, key=key)) as stage:
        assert str(stage.running.grpc).startswith("https://")
        with connected(stage, grpc.ssl_channel_credentials(certificate.read_bytes())) as channel:
            assert call(channel, SPANS).code is Code.OK
        with connected(stage) as plain:
            assert call(plain, SPANS).code is Code.UNAVAILABLE


def test_a_call_that_came_before_the_end_is_answered(tmp_path: Path) -> None:
    """Every restart of the service would cost the spans that were on their way."""
    with served(tmp_path / "h", settings=settings()) as stage, connected(stage) as channel:
        with held_open(stage, channel) as finish, ThreadPoolExecutor(1) as thread:
            ending = thread.submit(stage.stop)
            until(lambda: not listens(stage.running.http))
            assert finish(LOGS).code is Code.OK
            ending.result(WAIT_S)
        assert not listens(str(stage.running.grpc))


def listens(url: str) -> bool:
    parts = urlsplit(url)
    try:
        socket.create_connection((str(parts.hostname), parts.port or 0), timeout=10).close()
    except OSError:
        return False
    return True


class Published:
    has_room = True
    first_report_s: float | None = None

    async def info(self) -> object:
        return object()


def test_readiness_tells_whether_grpc_is_up(stage: Stage) -> None:
    """A probe would be told that all is well while every exporter that speaks gRPC is refused."""
    assert stage.get("/readyz").document == {"broker": "ready", "grpc": "ready"}
    published: Any = Published()

    async def look() -> list[tuple[bool, dict[str, str]]]:
        server = GrpcServer(Collector(published, Limits(), Metrics()), HttpSettings(), 0)
        await server.start()
        watch = HealthWatch(
            published, Metrics(), InFlight(Limits()), None, expects_stream=False, grpc_is_up=server.is_up
        )
        seen = [await watch.readiness()]
        await server.stop()
        return [*seen, await watch.readiness()]

    assert asyncio.run(look()) == [
        (True, {"broker": "ready", "grpc": "ready"}),
        (False, {"broker": "ready", "grpc": "down"}),
    ]


def test_a_port_that_is_in_use_is_said_before_anything_starts(stage: Stage, tmp_path: Path) -> None:
    """Two services would share a port, and each would get some of the spans."""
    port = int(str(stage.running.grpc).rpartition(":")[2])
    taken = HttpSettings(port=0, grpc_port=port, expects_stream=False)
    said = "in use; choose another --grpc-port, or --no-grpc"
    with pytest.raises(ServiceError, match=said), served(tmp_path / "h", settings=taken):
        pass
    assert not (tmp_path / "h").exists()


def test_metrics_are_answered_counted_and_not_kept(stage: Stage, channel: grpc.Channel) -> None:
    """An exporter of all three signals would log an error every minute, or believe that its metrics are kept."""
    stage.purge()
    answered = call(channel, b"\x0a\x00", "metrics")
    assert answered.code is Code.OK
    partial = ExportMetricsServiceResponse.FromString(answered.body).partial_success
    assert (partial.rejected_data_points, "not kept" in partial.error_message) == (0, True)
    assert stage.post("/v1/metrics", b"\x0a\x00", PROTOBUF).body == answered.body
    by_json = stage.post("/v1/metrics", b"{}", "application/json")
    assert (by_json.status, "not kept" in by_json.document["partialSuccess"]["errorMessage"]) == (200, True)
    assert stage.post("/v1/metrics", bytes((1 << 20) + 1), PROTOBUF).status == 413
    assert b"\nledto_collector_metrics_requests_dropped_total 3.0\n" in stage.get("/metrics").body
    assert stage.stored() == []
