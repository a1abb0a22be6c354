"""What a sender is told, against what the broker then holds."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from ledto.errors import LedtoError
from ledto.history.manifest import Stream
from ledto.service.http.app import HttpSettings
from ledto.sources import FileSlice, source
from tests.history.manifests import stream
from tests.service.collector_stage import Stage, served, spans_request, whole

LINES = "application/x-ndjson"
PROTOBUF = "application/x-protobuf"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with served(tmp_path_factory.mktemp("service") / "history") as running:
        yield running


def as_file(format: str, body: bytes) -> pa.Table:
    """The rows that the same bytes give as a file."""
    batches = source(format, {}).read(FileSlice("http:anonymous", lambda at: io.BytesIO(body[at:])))
    return whole(pa.Table.from_batches(list(batches)))


def test_what_is_answered_with_200_is_what_a_file_of_the_same_bytes_would_give(stage: Stage) -> None:
    """A user would find other events in a live history than in one made of the same data as files."""
    lines = b'{"process":"shop","seq":1,"name":"h\xc3\xa9","order":7}\n{"process":"shop","seq":"x"}\n\nnonsense\n'
    protobuf = spans_request(50, broken=3).SerializeToString()
    document = json.dumps(
        {
            "resourceLogs": [
                {
                    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "cart"}}]},
                    "scopeLogs": [
                        {"logRecords": [{"timeUnixNano": "5", "body": {"stringValue": "hello"}}, {"body": 3}]}
                    ],
                }
            ]
        }
    ).encode()
    for path, kind, format, body in (
        ("/v1/reports", LINES, "ledto", lines),
        ("/v1/traces", PROTOBUF, "otlp", protobuf),
        ("/v1/logs", "application/json; charset=utf-8", "otlp", document),
    ):
        for packed in (False, True):
            stage.purge()
            sent = gzip.compress(body) if packed else body
            headers = {"Content_Encoding": "gzip"} if packed else {}
            answer = stage.post(path, sent, kind, **headers)
            assert answer.status == 200, answer.body
            expected = as_file(format, body)
            assert stage.rows().to_pylist() == expected.to_pylist()
            bad = len(expected) - expected["reason"].null_count
            assert bad > 0
            if path == "/v1/reports":
                assert answer.document["reports"] == len(expected)
                assert answer.document["quarantined"] == bad
            elif kind == PROTOBUF:
                assert answer.headers["content-type"] == PROTOBUF
                assert ExportTraceServiceResponse.FromString(answer.body).partial_success.rejected_spans == bad
            else:
                assert int(answer.document["partialSuccess"]["rejectedLogRecords"]) == bad


def test_an_unchanged_opentelemetry_sdk_sends_its_spans(stage: Stage) -> None:
    """A user's instrumented services could not report without changes."""
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult

    results = []

    class Noting(OTLPSpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            results.append(super().export(spans))
            return results[-1]

    stage.purge()
    exporter = Noting(endpoint=f"{stage.running.http}/v1/traces", compression=Compression.Gzip)
    provider = TracerProvider(resource=Resource.create({"service.name": "till", "service.instance.id": "1"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("outer") as outer, tracer.start_as_current_span("inner"):
        outer.add_event("paid", {"amount": 3})
    provider.shutdown()
    assert results == [SpanExportResult.SUCCESS] * 2
    rows = stage.rows()
    assert rows["reason"].null_count == len(rows)
    assert {*rows["process"].to_pylist()} == {"till@1"}
    assert {*rows["name"].to_pylist()} == {"outer starts", "outer ends", "inner starts", "inner ends", "paid"}


def test_a_retry_is_stored_once_and_other_reports_under_its_id_are_not_lost(stage: Stage) -> None:
    """A user would see events twice after a time-out, or lose the first batches of a restarted application."""
    stage.purge()
    for body in (b'{"process":"a","seq":1}', b'{"process":"a","seq":1}', b'{"process":"a","seq":2}'):
        assert stage.post("/v1/reports", body, LINES, Ledto_Batch="1").status == 200
    assert stage.rows()["seq"].to_pylist() == [1, 2]


def test_a_large_request_is_cut_into_messages_in_order(stage: Stage) -> None:
    """A user's large batch would be refused by the broker, or come out of order."""
    stage.purge()
    noise = [os.urandom(6_000).hex() for _ in range(400)]
    body = "\n".join(json.dumps({"process": "p", "seq": n + 1, "noise": text}) for n, text in enumerate(noise)).encode()
    assert stage.post("/v1/reports", body, LINES).status == 200
    assert len(stage.stored()) > 1
    assert stage.rows()["seq"].to_pylist() == [*range(1, 401)]


def test_bodies_that_are_not_what_they_say_are_refused_in_the_senders_encoding(stage: Stage) -> None:
    """A user's exporter would take a refusal for success, or send the same garbage for ever."""
    stage.purge()
    refused = stage.post("/v1/traces", b"\xff\xff not protobuf", PROTOBUF)
    assert (refused.status, refused.headers["content-type"]) == (400, PROTOBUF)
    invalid_argument = b"\x08\x03\x12"
    assert refused.body.startswith(invalid_argument)
    assert stage.post("/v1/traces", b"hello", "application/json").document["code"] == 3
    assert stage.post("/v1/traces", b"{}", "text/plain").status == 415
    assert stage.post("/v1/reports", b"{}", LINES, Content_Encoding="br").status == 415
    assert stage.post("/v1/reports", b"no gzip", LINES, Content_Encoding="gzip").status == 400
    assert stage.post("/v1/reports", gzip.compress(b"x")[:-3], LINES, Content_Encoding="gzip").status == 400
    assert stage.post("/v1/reports", b"ARROW1", "application/vnd.apache.arrow.stream").status == 415
    assert stage.post("/v1/reports", b"", LINES, Ledto_Batch="x" * 200).status == 400
    assert stage.stored() == []


SAMPLES = [
    ("/v1/traces", PROTOBUF, spans_request(3).SerializeToString()),
    ("/v1/logs", PROTOBUF, spans_request(2).SerializeToString()),
    ("/v1/traces", "application/json", b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"00"}]}]}]}'),
    ("/v1/reports", LINES, b'{"process":"p","seq":1,"stamp":{"clock":"vector","counters":{"p":1}}}\n'),
]


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, str, bytes]:
    path, kind, body = draw(st.sampled_from(SAMPLES))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(body)))
        stop = draw(st.integers(at, min(len(body), at + 8)))
        body = body[:at] + draw(st.binary(max_size=6)) + body[stop:]
    return path, kind, body


@given(st.one_of(damaged(), st.tuples(st.sampled_from(["/v1/traces", "/v1/reports"]), st.just(PROTOBUF), st.binary())))
@examples(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_body_whatever_makes_the_collector_fail(stage: Stage, sent: tuple[str, str, bytes]) -> None:
    """One sender could take down the collector of all."""
    path, kind, body = sent
    answer = stage.post(path, body, kind)
    assert answer.status in (200, 400, 415), answer.body


def test_metrics_are_what_prometheus_reads(stage: Stage) -> None:
    """A user's dashboards would be empty, or count wrongly."""
    before = counted(stage)
    stage.post("/v1/reports", b'{"process":"p","seq":1}\nbad\n', LINES)
    stage.post("/v1/reports", b"", "text/plain")
    after = counted(stage)
    grown = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name, 0)}
    assert grown["ledto_collector_reports_total"] == 2
    assert grown["ledto_collector_quarantined_total"] == 1
    assert grown['ledto_collector_refused_total{reason="content-type"}'] == 1
    assert after["ledto_broker_connected"] == 1
    assert after["ledto_stream_up"] == 0
    assert not any(name.startswith("ledto_stream_") for name in after.keys() - {"ledto_stream_up"})
    assert after['ledto_collector_publish_seconds_bucket{le="+Inf"}'] == after["ledto_collector_publish_seconds_count"]
    assert stage.get("/healthz").status == stage.get("/readyz").status == 200


class Live:
    """A history whose stream has committed, and which then cannot be read."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def state(self) -> Stream | None:
        if self.answers:
            raise self.answers.pop()
        return stream(version=3)


def test_metrics_of_the_stream_outlive_a_history_that_cannot_be_read(tmp_path: Path) -> None:
    """A user would lose all metrics when the stream has a problem: when they are needed."""
    live = Live()
    with served(tmp_path / "h", settings=HttpSettings(port=0), live=live) as stage:
        found = counted(stage)
        assert found["ledto_stream_delivered_total"] == 7
        assert found["ledto_stream_waiting"] == 0
        assert found['ledto_stream_delay_seconds{quantile="0.5"}'] == 1.5
        assert 'ledto_stream_delay_seconds{quantile="0.95"}' not in found
        assert stage.get("/readyz").document == {"broker": "ready", "stream": "starting"}
        for fault in (LedtoError("torn"), OSError("gone")):
            live.answers.append(fault)
            assert counted(stage)["ledto_stream_up"] == 0


def counted(stage: Stage) -> dict[str, float]:
    answer = stage.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    found = {}
    typed: set[str] = set()
    for line in answer.body.decode().splitlines():
        if line.startswith("# TYPE "):
            name = line.split()[2]
            assert name not in typed
            typed.add(name)
        elif not line.startswith("#"):
            fitting = re.fullmatch(r'([a-z_]+)(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? (\S+)', line)
            assert fitting, line
            assert {fitting[1], re.sub("_(bucket|sum|count)$", "", fitting[1])} & typed
            found[line.rpartition(" ")[0]] = float(fitting[4])
    return found


def test_the_stage_leaves_nothing_running(tmp_path: Path) -> None:
    """A user's machine would fill with brokers."""
    with served(tmp_path / "h") as running:
        pid = running.running.broker_pid
        assert pid
    assert not Path(f"/proc/{pid}").exists()
