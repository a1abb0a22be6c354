"""The names applications import: a rename or a removal must be a decision, not an accident."""

import ledto.reporting
import ledto.reporting.asgi
import ledto.reporting.grpc
import ledto.reporting.httpx
import ledto.reporting.opentelemetry

NAMES = ["HEADER", "Message", "ReportedEvent", "Reporter", "ReportingHandler", "extract", "inject"]
GRPC = ["AioServerInterceptor", "ClientInterceptor", "ServerInterceptor", "aio_client_interceptors"]


def test_the_names_that_applications_import() -> None:
    """An application that embeds the package must still start after an upgrade."""
    assert sorted(ledto.reporting.__all__) == NAMES
    assert sorted(ledto.reporting.grpc.__all__) == GRPC
    assert ledto.reporting.asgi.ReportingMiddleware
    assert ledto.reporting.httpx.ReportingTransport
    assert ledto.reporting.httpx.AsyncReportingTransport
    assert ledto.reporting.opentelemetry.CausePropagator
    assert ledto.reporting.opentelemetry.StampingSpanProcessor
    assert ledto.reporting.HEADER == "ledto-cause"
