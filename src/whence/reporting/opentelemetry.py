"""OpenTelemetry: spans carry a stamp, and messages between traced services a cause.

::

    set_global_textmap(CompositePropagator([TraceContextTextMapPropagator(), CausePropagator(reporter)]))
    provider.add_span_processor(StampingSpanProcessor(reporter))

The start of a span is an event; its id and stamp become the span's attributes ``whence.event`` and ``whence.stamp`` (as
JSON), and the event has the span's ``trace_id`` and ``span_id``. A span that was started from an extracted context
receives the message in it, once. Spans that are not sampled are no events.

While a span is recorded, it is the line of what is reported in its context, as ``TRACE/SPAN``. The span itself has that
line, too, when it is read from OpenTelemetry, and tells of its start and end.

HAZARD: the propagator does what the HTTP and gRPC integrations do. Use one of them for a connection, not both: a
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

from whence.reporting.carriers import HEADER, Message
from whence.reporting.reporter import Reporter

EVENT_ATTRIBUTE: Final = "whence.event"
STAMP_ATTRIBUTE: Final = "whence.stamp"

_KEY = create_key("whence-message")


class CausePropagator(TextMapPropagator):
    """Reports a send whenever a context is injected, and hands what it extracts to `StampingSpanProcessor`."""

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
        with _standing_in(get_current() if context is None else context):
            message = self._reporter.sent(f"call from {getattr(span, 'name', 'no span')}", **_ids(span))
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
        return context if message is None else set_value(_KEY, _Unread(message), context)

    @property
    def fields(self) -> set[str]:
        return {HEADER}


class StampingSpanProcessor(SpanProcessor):
    """Reports the start of every recorded span, and gives the span the event's id and stamp."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        reporter.take_lines_from(_current_line)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        unread = get_value(_KEY, get_current() if parent_context is None else parent_context)
        message = unread.take() if isinstance(unread, _Unread) else None
        with _standing_in(trace.set_span_in_context(span)):
            if message is None:
                event = self._reporter.report(span.name, **_ids(span))
            else:
                event = self._reporter.received(message, span.name, **_ids(span))
        if event is not None:
            span.set_attribute(EVENT_ATTRIBUTE, event.id)
            if event.stamp is not None:
                span.set_attribute(STAMP_ATTRIBUTE, json.dumps(event.stamp.to_json(), separators=(",", ":")))


class _Unread:
    """A message that the first span started from its context receives; its descendants follow that one."""

    def __init__(self, message: Message) -> None:
        self._messages = [message]

    def take(self) -> Message | None:
        # One operation of a list: also of two threads, one gets it.
        try:
            return self._messages.pop()
        except IndexError:
            return None


@contextmanager
def _standing_in(context: Context) -> Iterator[None]:
    """Make a context the current one meanwhile, so that what is reported is on the line of its span."""
    token = attach(context)
    try:
        yield
    finally:
        detach(token)


def _current_line() -> str | None:
    """The line of the current span, if it is one of this process that is recorded."""
    span = trace.get_current_span()
    if not span.is_recording():
        return None
    context = span.get_span_context()
    return f"{trace.format_trace_id(context.trace_id)}/{trace.format_span_id(context.span_id)}"


def _ids(span: Any) -> dict[str, str]:
    context = span.get_span_context()
    if not context.is_valid:
        return {}
    return {"trace_id": trace.format_trace_id(context.trace_id), "span_id": trace.format_span_id(context.span_id)}
