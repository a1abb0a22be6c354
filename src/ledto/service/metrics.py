"""Count what the service does, and write the counts in Prometheus's text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from ledto.history.manifest import Stream

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4

_COUNTERS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "requests": ("Requests answered, by path and status; for gRPC, by method and code.", ("path", "status")),
    "refused": ("Requests refused, by reason; their reports may be stored or not.", ("reason",)),
    "reports": ("Reports stored, unreadable ones included.", ()),
    "quarantined": ("Reports stored that could not be read.", ()),
    "body_bytes": ("Bytes of bodies received, before decompression.", ()),
    "metrics_requests_dropped": ("Requests with metrics, which are answered and not kept.", ()),
    "errors": ("Answers with status 500.", ()),
}
"""By the middle of the name ``ledto_collector_NAME_total``: the help text and the labels."""
_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_STREAM_COUNTS: Final = ("reports", "delivered", "late", "ahead", "duplicate", "quarantined", "messages", "violations")
_QUANTILES: Final = {"p50": "0.5", "p95": "0.95", "p99": "0.99", "max": "1"}


class Metrics:
    """Counts since the start of the service. May be used from several threads."""

    def __init__(self) -> None:
        # Without this each counter has a second metric, the time at which it was made.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self._counters = {
            name: Counter(f"ledto_collector_{name}_total", help_text, labels, registry=self._registry)
            for name, (help_text, labels) in _COUNTERS.items()
        }
        self._publish = Histogram(
            "ledto_collector_publish_seconds",
            "Seconds until the broker had stored a request.",
            buckets=_BOUNDS_S,
            registry=self._registry,
        )

    def count(self, name: str, amount: float = 1, /, **labels: str) -> None:
        """Add to ``ledto_collector_NAME_total``."""
        counter = self._counters[name]
        (counter.labels(**labels) if labels else counter).inc(amount)

    def published(self, seconds: float) -> None:
        """Count how long the broker took to acknowledge a request."""
        self._publish.observe(seconds)

    def add_gauge(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Show a value that `read` returns, from now on."""
        Gauge(name, help_text, registry=self._registry).set_function(read)

    def write(self, more: Iterable[Metric] = ()) -> bytes:
        """Write all metrics, then `more`, in Prometheus's text format."""
        return generate_latest(_MetricList([*self._registry.collect(), *more]))


class _MetricList(Collector):
    """A list of metrics, as the writer takes them."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def gauge(name: str, help_text: str, value: float) -> Metric:
    """Make a gauge of one value."""
    return GaugeMetricFamily(name, help_text, value)


def stream_metrics(state: Stream | None) -> Iterator[Metric]:
    """Yield the metrics of the stream's state, which the history has; only that it is not up, if there is none yet."""
    yield gauge("ledto_stream_up", "Whether the stream has committed a history.", state is not None)
    if state is None:
        return
    for name in _STREAM_COUNTS:
        count = getattr(state.counts, name)
        yield CounterMetricFamily(f"ledto_stream_{name}_total", f"The stream's count of {name}.", count)
    yield gauge("ledto_stream_waiting", "Reports that wait for delivery.", state.counts.waiting)
    delays = GaugeMetricFamily(
        "ledto_stream_delay_seconds", "How long reports waited, by quantile.", labels=["quantile"]
    )
    for name, quantile in _QUANTILES.items():
        if (delay_ns := getattr(state.delay_ns, name)) is not None:
            delays.add_metric([quantile], delay_ns / 1e9)
    yield delays
    yield gauge("ledto_stream_version", "Number of the newest commit.", state.version)
    yield gauge("ledto_stream_updated_seconds", "When it was committed, in Unix time.", state.updated / 1e9)
