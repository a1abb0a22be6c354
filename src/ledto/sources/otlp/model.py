"""Define the spans and log records that all readers of OTLP make, and that `records` turns into rows.

Ids are lower-case hex, None if missing or all zeros. Times and counts are unchecked, 0 if missing. Attributes are plain JSON
values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct


class SpanEvent(Struct, gc=False):
    """An event that a span recorded while it ran."""

    time: int
    name: str
    attributes: dict[str, Any]
    dropped_attributes: int = 0


class SpanRecord(Struct, gc=False):
    """One span. `kind` and `status` are OTLP's numbers."""

    trace: str | None
    key: str | None
    parent: str | None
    name: str
    kind: int
    start: int
    end: int
    attributes: dict[str, Any]
    events: Sequence[SpanEvent]
    links: Sequence[tuple[str | None, str | None]]
    """The trace and the span of each link."""
    status: int = 0
    status_text: str = ""
    trace_state: str = ""
    dropped_attributes: int = 0
    dropped_events: int = 0
    dropped_links: int = 0


class LogRecord(Struct, gc=False):
    """One log record. `severity` is OTLP's number."""

    time: int
    observed: int
    trace: str | None
    span: str | None
    body: Any
    attributes: dict[str, Any]
    severity: int = 0
    severity_text: str = ""
    event_name: str = ""
    dropped_attributes: int = 0


Record = SpanRecord | LogRecord
