"""Counts of the service as Prometheus reads them: text, one sample a line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from whence.history.manifest import Stream

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_COUNTERS: Final = {
    "whence_collector_requests_total": "Requests answered, by path and status.",
    "whence_collector_refused_total": "Requests refused, by reason; nothing of them can be relied on.",
    "whence_collector_reports_total": "Reports stored, the ones set aside included.",
    "whence_collector_set_aside_total": "Reports stored that could not be read.",
    "whence_collector_body_bytes_total": "Bytes of bodies received, as they came.",
    "whence_collector_errors_total": "Answers with status 500.",
}
_PUBLISH: Final = "whence_collector_publish_seconds"
_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_STREAM_COUNTS: Final = ("reports", "delivered", "late", "ahead", "duplicate", "quarantined", "messages", "violations")
_QUANTILES: Final = {"p50": "0.5", "p95": "0.95", "p99": "0.99", "max": "1"}

Labels = tuple[tuple[str, str], ...]


class Metrics:
    """What was counted since the start. May be used from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.gauges: dict[str, tuple[str, Callable[[], float]]] = {}
        """By name: what it is, and what gives it."""
        self._counts: dict[str, dict[Labels, float]] = {name: {} for name in _COUNTERS}
        self._publish_counts = [0] * (len(_BOUNDS_S) + 1)
        self._publish_sum_s = 0.0

    def count(self, name: str, amount: float = 1, /, **labels: str) -> None:
        """Add to ``whence_collector_NAME_total``."""
        key = tuple(sorted(labels.items()))
        with self._lock:
            counts = self._counts[f"whence_collector_{name}_total"]
            counts[key] = counts.get(key, 0) + amount

    def published(self, seconds: float) -> None:
        """Note how long the broker took to acknowledge a request."""
        place = sum(seconds > bound for bound in _BOUNDS_S)
        with self._lock:
            self._publish_counts[place] += 1
            self._publish_sum_s += seconds

    def lines(self) -> Iterator[str]:
        """The samples, with what they are."""
        with self._lock:
            counts = {name: dict(values) for name, values in self._counts.items()}
            publish, publish_sum_s = list(self._publish_counts), self._publish_sum_s
        for name, values in counts.items():
            yield from _described(name, "counter", _COUNTERS[name])
            for labels, value in sorted(values.items()):
                yield sample(name, value, labels)
        for name, (help_text, value_now) in self.gauges.items():
            yield from gauge(name, help_text, [(value_now(), ())])
        yield from _described(_PUBLISH, "histogram", "Seconds until the broker had stored a request.")
        total = 0
        for bound, count in zip((*map(str, _BOUNDS_S), "+Inf"), publish, strict=True):
            total += count
            yield sample(f"{_PUBLISH}_bucket", total, (("le", bound),))
        yield sample(f"{_PUBLISH}_sum", publish_sum_s)
        yield sample(f"{_PUBLISH}_count", total)


def gauge(name: str, help_text: str, samples: Sequence[tuple[float, Labels]]) -> Iterator[str]:
    """The lines of values that go up and down."""
    yield from _described(name, "gauge", help_text)
    for value, labels in samples:
        yield sample(name, value, labels)


def stream_lines(state: Stream | None) -> Iterator[str]:
    """What the stream says of itself in the history; that it says nothing, where there is none yet."""
    yield from gauge("whence_stream_up", "Whether the stream has committed a history.", [(state is not None, ())])
    if state is None:
        return
    for name in _STREAM_COUNTS:
        full = f"whence_stream_{name}_total"
        yield from _described(full, "counter", f"The stream's count of {name}.")
        yield sample(full, getattr(state.counts, name))
    yield from gauge("whence_stream_waiting", "Reports that wait for delivery.", [(state.counts.waiting, ())])
    quantiles: list[tuple[float, Labels]] = [
        (delay / 1e9, (("quantile", quantile),))
        for name, quantile in _QUANTILES.items()
        if (delay := getattr(state.delay_ns, name)) is not None
    ]
    yield from gauge("whence_stream_delay_seconds", "How long reports waited, by share of them.", quantiles)
    yield from gauge("whence_stream_version", "Number of the newest commit.", [(state.version, ())])
    yield from gauge(
        "whence_stream_updated_seconds", "When it was committed, in Unix time.", [(state.updated / 1e9, ())]
    )


def sample(name: str, value: float, labels: Labels = ()) -> str:
    """One line; a label may hold any text."""
    shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    number = repr(float(value)) if isinstance(value, float) and not value.is_integer() else str(int(value))
    return f"{name}{{{shown}}} {number}" if shown else f"{name} {number}"


def _described(name: str, kind: str, help_text: str) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
