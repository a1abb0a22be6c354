from __future__ import annotations

import json

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.propagators.composite import CompositePropagator
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from ledto.clocks import Relation, VectorClock, relation, stamp_from_json
from ledto.reporting import HEADER, Reporter
from ledto.reporting.opentelemetry import CausePropagator, StampingSpanProcessor
from tests.reporting.reachability import pasts
from tests.reporting.sink import Sink, serving


def end_of(reporter: Reporter) -> tuple[trace.Tracer, CompositePropagator]:
    provider = TracerProvider()
    provider.add_span_processor(StampingSpanProcessor(reporter))
    return provider.get_tracer("t"), CompositePropagator([TraceContextTextMapPropagator(), CausePropagator(reporter)])


def test_spans_carry_stamps_that_tell_their_causes() -> None:
    """Traces break where a service starts its own; the stamps of spans still tell what led to what."""
    sink = Sink()
    with serving(sink) as url, Reporter("a", VectorClock, url) as here, Reporter("b", VectorClock, url) as there:
        tracer, propagator = end_of(here)
        other_tracer, other_propagator = end_of(there)
        headers: dict[str, str] = {}
        with tracer.start_as_current_span("ask") as ask:
            propagator.inject(headers)
        token = contexts.attach(other_propagator.extract(headers, contexts.Context()))
        with other_tracer.start_as_current_span("serve") as serve:
            inner = other_tracer.start_span("inner")
        contexts.detach(token)
        unrelated = tracer.start_span("unrelated")
        assert here.flush(30)
        assert there.flush(30)
    assert set(headers) == {"traceparent", HEADER}
    assert serve.get_span_context().trace_id == ask.get_span_context().trace_id
    stamps = {
        span: stamp_from_json(json.loads(span.attributes["ledto.stamp"])) for span in (ask, serve, inner, unrelated)
    }
    assert relation(stamps[ask], stamps[serve]) is Relation.BEFORE
    assert relation(stamps[serve], stamps[inner]) is Relation.BEFORE
    assert relation(stamps[serve], stamps[unrelated]) is Relation.CONCURRENT
    past = pasts(sink.events())
    ids = {span: span.attributes["ledto.event"] for span in stamps}
    assert ids[ask] in past[ids[inner]]
    assert ids[serve] not in past[ids[unrelated]]
    received = [event for event in sink.events() if "receives" in event]
    assert [event["name"] for event in received] == ["serve"], "a message is received once"
    span_id = trace.format_span_id(serve.get_span_context().span_id)
    assert received[0]["attributes"]["span_id"] == span_id


def test_a_request_without_a_cause_is_traced_as_before() -> None:
    """Peers that only speak W3C must go on working."""
    sink = Sink()
    with serving(sink) as url, Reporter("a", VectorClock, url) as here:
        _, propagator = end_of(here)
        for headers in ({}, {HEADER: "garbage"}):
            assert trace.get_current_span(propagator.extract(headers, contexts.Context())) is trace.INVALID_SPAN
        assert here.stats()["malformed"] == 1
