"""A span of any tracing system as rows of `REPORTS`: one for its start, one for each of its events, one for its end.

A span is an instance in the sense of autonomous causality: starting a child duplicates it, the child's end combines the
two again. What that means for the order of events is worked out where all spans of a trace are at hand
(`whence.causality.instances`); here each span is taken by itself, so that files can be read in any order and parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from whence.events.schema import ANSWERS, AWAITS, END, LOCAL, RECEIVE, SEND, SPAN, START
from whence.sources.rows import Row

INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = "internal", "server", "client", "producer", "consumer"
SPAN_KINDS: Final = (INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER)

_KIND_AT_START = {SERVER: RECEIVE, CONSUMER: RECEIVE, CLIENT: SEND, PRODUCER: SEND}
_KIND_AT_END = {SERVER: SEND, CLIENT: RECEIVE}
_PHASE_AT_END = {SERVER: ANSWERS, CLIENT: AWAITS}


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that a span recorded while it ran."""

    time: int
    name: str
    attributes: str | None = None
    """A JSON object."""


@dataclass(frozen=True, slots=True)
class Span:
    """One span as its process reported it; times in the history's unit."""

    trace: str
    key: str
    """Its id within the trace."""
    process: str
    name: str
    start: int
    end: int | None
    """None for a span that was still open when it was written."""
    kind: str = INTERNAL
    parent: str | None = None
    awaited: bool = True
    """False where the source says that the parent does not wait for it."""
    failed: bool = False
    links: Sequence[tuple[str, str]] = ()
    """Other causes: trace and span."""
    moments: Sequence[Moment] = ()
    start_attributes: str | None = None
    end_attributes: str | None = None
    """JSON objects; what is only known of a span as a whole belongs to its end."""


def span_key(trace: str, span: str) -> str:
    """How other events refer to the start of a span."""
    return f"{SPAN}{trace}/{span}"


def span_rows(span: Span, file: str, place: int) -> Iterator[Row]:
    """The rows of one span: start, moments, end. Raises `BadRecord` for a span with too many links."""
    start = Row(
        computation=span.trace,
        process=span.process,
        time=span.start,
        kind=_KIND_AT_START.get(span.kind, LOCAL),
        sends=span_key(span.trace, span.key),
        id=f"{span.key}/start",
        name=f"{span.name} starts",
        attributes=span.start_attributes,
        instance_key=span.key,
        instance_parent=span.parent,
        instance_phase=START,
        file=file,
        place=place,
    )
    start.receive([span_key(trace, key) for trace, key in span.links])
    yield start
    for moment in span.moments:
        yield Row(
            computation=span.trace,
            process=span.process,
            time=moment.time,
            name=moment.name,
            attributes=moment.attributes,
            instance_key=span.key,
            file=file,
            place=place,
        )
    if span.end is not None:
        yield Row(
            computation=span.trace,
            process=span.process,
            time=span.end,
            kind=_KIND_AT_END.get(span.kind, LOCAL) if span.awaited else LOCAL,
            id=span.key,
            name=f"{span.name} {'fails' if span.failed else 'ends'}",
            attributes=span.end_attributes,
            instance_key=span.key,
            instance_phase=_PHASE_AT_END.get(span.kind, END) if span.awaited else END,
            file=file,
            place=place,
        )
