"""The names applications import: a rename or a removal must be a decision, not an accident."""

import whence.reporting
import whence.reporting.asgi
import whence.reporting.grpc
import whence.reporting.httpx
import whence.reporting.opentelemetry

NAMES = ["Event", "HEADER", "Message", "Reporter", "ReportingHandler", "extract", "inject"]
GRPC = ["AioServerInterceptor", "ClientInterceptor", "ServerInterceptor", "aio_client_interceptors"]


def test_the_names_that_applications_import() -> None:
    """An application that embeds the package must still start after an upgrade."""
    assert sorted(whence.reporting.__all__) == NAMES
    assert sorted(whence.reporting.grpc.__all__) == GRPC
    assert whence.reporting.asgi.ReportingMiddleware
    assert whence.reporting.httpx.ReportingTransport
    assert whence.reporting.httpx.AsyncReportingTransport
    assert whence.reporting.opentelemetry.CausePropagator
    assert whence.reporting.opentelemetry.StampingSpanProcessor
    assert whence.reporting.HEADER == "whence-cause"
