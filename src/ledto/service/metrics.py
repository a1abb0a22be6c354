"""Count what the service does, and write the counts in Prometheus's text format, one sample per line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ledto.history.manifest import Stream

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_COUNTERS: Final = {
    "ledto_collector_requests_total": "Requests answered, by path and status.",
    "ledto_collector_refused_total": "Requests refused, by reason; their reports may be stored or not.",
    "ledto_collector_reports_total": "Reports stored, unreadable ones included.",
    "ledto_collector_set_aside_total": "Reports stored that could not be read.",
    "ledto_collector_body_bytes_total": "Bytes of bodies received, before decompression.",
    "ledto_collector_errors_total": "Answers with status 500.",
}
_PUBLISH: Final = "ledto_collector_publish_seconds"
_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_STREAM_COUNTS: Final = ("reports", "delivered", "late", "ahead", "duplicate", "quarantined", "messages", "violations")
_QUANTILES: Final = {"p50": "0.5", "p95": "0.95", "p99": "0.99", "max": "1"}

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counts since the start of the service. May be used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        """By name: a help text, and a function that returns the value."""
        self._counts: dict[str, dict[Labels, float]] = {name: {} for name in _COUNTERS}
        self._publish_counts = [0] * (len(_BOUNDS_S) + 1)
        self._publish_sum_s = 0.0

    def count(self, name: str, amount: float = 1, /, **labels: str) -> None:
        """Add to ``ledto_collector_NAME_total``."""
        key = tuple(sorted(labels.items()))
        with self._lock:
            counts = self._counts[f"ledto_collector_{name}_total"]
            counts[key] = counts.get(key, 0) + amount

    def published(self, seconds: float) -> None:
        """Count how long the broker took to acknowledge a request."""
        bucket = sum(seconds > bound for bound in _BOUNDS_S)
        with self._lock:
            self._publish_counts[bucket] += 1
            self._publish_sum_s += seconds

    def lines(self) -> Iterator[str]:
        """Write all samples, each metric after its help text and type."""
        with self._lock:
            counts = {name: dict(values) for name, values in self._counts.items()}
            publish, publish_sum_s = list(self._publish_counts), self._publish_sum_s
        for name, values in counts.items():
            yield from _write_header(name, "counter", _COUNTERS[name])
            for labels, value in sorted(values.items()):
                yield write_sample(name, value, labels)
        for name, (help_text, value_now) in self.gauges.items():
            yield from write_gauge(name, help_text, [(value_now(), ())])
        yield from _write_header(_PUBLISH, "histogram", "Seconds until the broker had stored a request.")
        total = 0
        for bound, count in zip((*map(str, _BOUNDS_S), "+Inf"), publish, strict=True):
            total += count
            yield write_sample(f"{_PUBLISH}_bucket", total, (("le", bound),))
        yield write_sample(f"{_PUBLISH}_sum", publish_sum_s)
        yield write_sample(f"{_PUBLISH}_count", total)


def write_gauge(name: str, help_text: str, samples: Sequence[tuple[float, Labels]]) -> Iterator[str]:
    """Write the lines of a gauge."""
    yield from _write_header(name, "gauge", help_text)
    for value, labels in samples:
        yield write_sample(name, value, labels)


def write_stream(state: Stream | None) -> Iterator[str]:
    """Write the lines of the stream's state, which the history has; only that it is not up, if there is none yet."""
    yield from write_gauge("ledto_stream_up", "Whether the stream has committed a history.", [(state is not None, ())])
    if state is None:
        return
    for name in _STREAM_COUNTS:
        metric = f"ledto_stream_{name}_total"
        yield from _write_header(metric, "counter", f"The stream's count of {name}.")
        yield write_sample(metric, getattr(state.counts, name))
    yield from write_gauge("ledto_stream_waiting", "Reports that wait for delivery.", [(state.counts.waiting, ())])
    quantiles: list[tuple[float, Labels]] = [
        (delay / 1e9, (("quantile", quantile),))
        for name, quantile in _QUANTILES.items()
        if (delay := getattr(state.delay_ns, name)) is not None
    ]
    yield from write_gauge("ledto_stream_delay_seconds", "How long reports waited, by quantile.", quantiles)
    yield from write_gauge("ledto_stream_version", "Number of the newest commit.", [(state.version, ())])
    yield from write_gauge(
        "ledto_stream_updated_seconds", "When it was committed, in Unix time.", [(state.updated / 1e9, ())]
    )


def write_sample(name: str, value: float, labels: Labels = ()) -> str:
    """Write one line; labels may have any text."""
    label_text = ",".join(f'{label}="{_escape(text)}"' for label, text in labels)
    number = repr(float(value)) if isinstance(value, float) and not value.is_integer() else str(int(value))
    return f"{name}{{{label_text}}} {number}" if label_text else f"{name} {number}"


def _write_header(name: str, kind: str, help_text: str) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
