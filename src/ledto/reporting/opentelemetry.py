"""Put stamps on OpenTelemetry's spans, and causes on the messages between traced services.

    >>> from opentelemetry.propagators.composite import CompositePropagator
    >>> from opentelemetry.sdk.trace import TracerProvider
    >>> from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    >>> propagator = CompositePropagator([TraceContextTextMapPropagator(), CausePropagator(reporter)])
    >>> provider = TracerProvider()
    >>> provider.add_span_processor(StampingSpanProcessor(reporter))
    >>> with provider.get_tracer("shop").start_as_current_span("order") as span:
    ...     span.attributes["ledto.event"] == f"{reporter.process}:1"
    True

Give the propagator to ``opentelemetry.propagate.set_global_textmap``, and the provider to ``trace.set_tracer_provider``.

The start of a span is an event. Its id and stamp become the span's attributes ``ledto.event`` and ``ledto.stamp`` (as
JSON); the event has the span's ``trace_id`` and ``span_id``. The first span that is started from an extracted context
receives the message in it. Spans that are not sampled are no events.

While a span is recorded, events that are reported in its context are on the line ``TRACE/SPAN``. The OpenTelemetry
source gives the span the same line, with its start and end.

HAZARD: the propagator does the same work as the HTTP and gRPC integrations. Use only one of them for a connection: a
message has one cause, and the last to write the header wins.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context, attach, create_key, detach, get_current, get_value, set_value
from opentelemetry.propagators.textmap import (
    CarrierT,
    Getter,
    Setter,
    TextMapPropagator,
    default_getter,
    default_setter,
)
from opentelemetry.sdk.trace import Span, SpanProcessor

from ledto.reporting.headers import HEADER, Message
from ledto.reporting.reporter import Reporter

EVENT_ATTRIBUTE: Final = "ledto.event"
STAMP_ATTRIBUTE: Final = "ledto.stamp"

_MESSAGE_KEY = create_key("ledto-message")


class CausePropagator(TextMapPropagator):
    """A propagator that reports a send for each injected context. `StampingSpanProcessor` reports what it extracts."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        reporter.take_lines_from(_current_line)

    def inject(
        self,
        carrier: CarrierT,
        context: Context | None = None,
        setter: Setter[CarrierT] = default_setter,
    ) -> None:
        span = trace.get_current_span(context)
        with _as_current(get_current() if context is None else context):
            message = self._reporter.sent(f"call from {getattr(span, 'name', 'no span')}", **_read_ids(span))
        if message is not None:
            setter.set(carrier, HEADER, message.to_text())

    def extract(
        self,
        carrier: CarrierT,
        context: Context | None = None,
        getter: Getter[CarrierT] = default_getter,
    ) -> Context:
        context = get_current() if context is None else context
        values = getter.get(carrier, HEADER) or ()
        message = self._reporter.extract([(HEADER, value) for value in values])
        return context if message is None else set_value(_MESSAGE_KEY, _Unread(message), context)

    @property
    def fields(self) -> set[str]:
        return {HEADER}


class StampingSpanProcessor(SpanProcessor):
    """A span processor that reports the start of each recorded span, and writes the event's id and stamp to the span."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        reporter.take_lines_from(_current_line)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        unread = get_value(_MESSAGE_KEY, get_current() if parent_context is None else parent_context)
        message = unread.take() if isinstance(unread, _Unread) else None
        with _as_current(trace.set_span_in_context(span)):
            if message is None:
                event = self._reporter.report(span.name, **_read_ids(span))
            else:
                event = self._reporter.received(message, span.name, **_read_ids(span))
        if event is not None:
            span.set_attribute(EVENT_ATTRIBUTE, event.id)
            if event.stamp is not None:
                span.set_attribute(STAMP_ATTRIBUTE, json.dumps(event.stamp.to_json(), separators=(",", ":")))


class _Unread:
    """An extracted message, until the first span that is started from its context receives it."""

    def __init__(self, message: Message) -> None:
        self._messages = [message]

    def take(self) -> Message | None:
        """Return the message at the first call, and None afterwards. Thread-safe."""
        # `pop` is one operation: of two threads, one gets the message.
        try:
            return self._messages.pop()
        except IndexError:
            return None


@contextmanager
def _as_current(context: Context) -> Iterator[None]:
    """Make a context the current one for a while, so that events are on the line of its span."""
    token = attach(context)
    try:
        yield
    finally:
        detach(token)


def _current_line() -> str | None:
    """Return the line of the current span; None if this process records no such span."""
    span = trace.get_current_span()
    if not span.is_recording():
        return None
    context = span.get_span_context()
    return f"{trace.format_trace_id(context.trace_id)}/{trace.format_span_id(context.span_id)}"


def _read_ids(span: Any) -> dict[str, str]:
    context = span.get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": trace.format_trace_id(context.trace_id), "span_id": trace.format_span_id(context.span_id)}
