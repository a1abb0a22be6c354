"""Exporters of the unchanged OpenTelemetry SDK, over gRPC and over HTTP."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.grpc import _log_exporter as logs_by_grpc
from opentelemetry.exporter.otlp.proto.grpc import metric_exporter as metrics_by_grpc
from opentelemetry.exporter.otlp.proto.grpc import trace_exporter as spans_by_grpc
from opentelemetry.exporter.otlp.proto.http import _log_exporter as logs_by_http
from opentelemetry.exporter.otlp.proto.http import metric_exporter as metrics_by_http
from opentelemetry.exporter.otlp.proto.http import trace_exporter as spans_by_http
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ledto.service.http.app import HttpSettings
from tests.service.collector_stage import Stage, served

RESOURCE = Resource.create({"service.name": "till", "service.instance.id": "1"})


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    settings = HttpSettings(port=0, grpc_port=0, expects_stream=False)
    with served(tmp_path_factory.mktemp("service") / "history", settings=settings) as running:
        yield running


def spans() -> Any:
    kept = InMemorySpanExporter()
    provider = TracerProvider(resource=RESOURCE)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("outer") as outer, tracer.start_as_current_span("inner") as inner:
        outer.add_event("paid", {"amount": 3, "names": ["a", "ü"]})
        inner.record_exception(KeyError("x"))
    provider.shutdown()
    return kept.get_finished_spans()


def logs() -> Any:
    kept = InMemoryLogRecordExporter()
    provider = LoggerProvider(resource=RESOURCE)
    provider.add_log_record_processor(SimpleLogRecordProcessor(kept))
    logger = logging.Logger("shop")
    logger.addHandler(LoggingHandler(logger_provider=provider))
    logger.error("order %d failed", 7, extra={"customer": "eve"})
    provider.shutdown()
    return kept.get_finished_logs()


def metrics() -> Any:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], resource=RESOURCE)
    provider.get_meter("test").create_counter("orders").add(3)
    return reader.get_metrics_data()


def test_both_exporters_give_the_same_rows(stage: Stage) -> None:
    """A user who changes OTEL_EXPORTER_OTLP_PROTOCOL would get another history of the same spans."""
    for made, names, over_http, over_grpc in (
        (
            spans(),
            {"outer starts", "inner starts", "paid", "exception", "inner ends", "outer ends"},
            spans_by_http.OTLPSpanExporter(f"{stage.running.http}/v1/traces"),
            spans_by_grpc.OTLPSpanExporter(stage.running.grpc),
        ),
        (
            logs(),
            {"order 7 failed"},
            logs_by_http.OTLPLogExporter(f"{stage.running.http}/v1/logs"),
            logs_by_grpc.OTLPLogExporter(stage.running.grpc),
        ),
    ):
        rows = []
        for exporter in (over_http, over_grpc):
            stage.purge()
            assert exporter.export(made).name == "SUCCESS"
            exporter.shutdown()
            rows.append(stage.rows().to_pylist())
        assert {row["name"] for row in rows[0]} == names
        assert rows[0] == rows[1]


def test_an_exporter_of_metrics_has_nothing_to_complain_of(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """All three signals are on by default: each application would log an error a minute because of metrics."""
    caplog.set_level(logging.WARNING)
    for exporter in (
        metrics_by_http.OTLPMetricExporter(f"{stage.running.http}/v1/metrics"),
        metrics_by_grpc.OTLPMetricExporter(stage.running.grpc),
    ):
        assert exporter.export(metrics()).name == "SUCCESS"
        exporter.shutdown()
    assert [record.getMessage() for record in caplog.records] == []


def test_the_exporter_sends_again_what_was_refused_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans that come while the disk is full would be lost, though there is space again a moment later."""
    from collections import namedtuple

    from ledto.service.broker import nats_server

    usage = namedtuple("usage", ["total", "used", "free"])
    asked = 0

    def disk_usage(_: object) -> Any:
        nonlocal asked
        asked += 1
        return usage(1 << 30, 0, 0 if asked < 3 else 1 << 30)

    with served(tmp_path / "h", settings=HttpSettings(port=0, grpc_port=0, expects_stream=False)) as stage:
        exporter = spans_by_grpc.OTLPSpanExporter(stage.running.grpc)
        monkeypatch.setattr(nats_server.shutil, "disk_usage", disk_usage)
        assert exporter.export(spans()).name == "SUCCESS"
        exporter.shutdown()
        assert asked >= 3
        assert len(stage.rows()) == 6
