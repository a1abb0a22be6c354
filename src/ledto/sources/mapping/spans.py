"""Read records that are spans, as a mapping says, into the same values as the formats of traces have.

One literal table of a mapping, a record, and the span::

    [span]
    trace = "trace"
    span = "span"
    parent = "parent"
    service = "service"
    start = { from = "start", unit = "us" }
    duration = { from = "took", unit = "us" }

    {"trace": "7f", "span": "2", "parent": "1", "service": "pay", "start": "1714564800010000", "took": "70000"}

    Span(trace="7f", key="2", process="pay", name="unnamed span", start=1714564800010000000,
         end=1714564800080000000, parent="1")
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ledto.sources.mapping.values import Record, Value
from ledto.sources.rows import BadRecord
from ledto.sources.spans.fields import SPAN_DIGITS, TRACE_DIGITS, UNNAMED, hex_id
from ledto.sources.spans.process_names import INSTANCE_ID, process_name
from ledto.sources.spans.spans import CLIENT, INTERNAL, SPAN_KINDS, Span
from ledto.sources.times import INT64_LEAST, INT64_MOST

HEX, TEXT = "hex", "text"
FAILED: Final = frozenset(
    ("error", "err", "failed", "failure", "fail", "status_code_error", "exception", "fatal", "true")
)
SUCCEEDED: Final = frozenset(("ok", "success", "succeeded", "status_code_ok", "false"))
"""What a status may be, in lower case, if it says whether a span failed."""
NO_ID: Final = frozenset(("null", "none", "nil", "nan", "n/a", "undefined", "\\n"))
"""What databases and programs write where there is no id, in lower case. Zeros mean the same."""
_KIND_PREFIX = "span_kind_"
_SERVER_ERRORS, _CLIENT_ERRORS = range(500, 600), range(400, 600)


@dataclass(frozen=True, slots=True)
class SpanRule:
    """Where the values of a span come from."""

    label: str
    trace: Value
    span: Value
    start: Value
    parent: Value | None = None
    end: Value | None = None
    duration: Value | None = None
    process: Value | None = None
    service: Value | None = None
    instance: Value | None = None
    kind: Value | None = None
    name: Value | None = None
    status: Value | None = None
    ids: str = TEXT

    @property
    def values(self) -> tuple[Value, ...]:
        """Return the values whose fields are no attributes. Status and duration are: users search by them."""
        read = (self.trace, self.span, self.parent, self.start, self.end, self.process, self.service)
        return tuple(value for value in (*read, self.instance, self.kind, self.name) if value is not None)

    @property
    def times(self) -> tuple[Value, ...]:
        """Return the values that are times."""
        return tuple(value for value in (self.start, self.end, self.duration) if value is not None)

    def span_of(self, record: Record, unit: str, attributes: str | None, place: int) -> Span:
        """Read a span with these attributes. Raises `BadRecord`."""
        start = self.start.as_time(self.start.of(record), unit)
        if start is None:
            raise BadRecord("no-time", f"{self.label} needs a start to have a place in its process")
        end = self.end_of(
            start,
            None if self.end is None else self.end.as_time(self.end.of(record), unit),
            None if self.duration is None else self.duration.as_time(self.duration.of(record), unit),
        )
        kind = span_kind(_text(self.kind, record))
        key, parent = self.id_of(_text(self.span, record), SPAN_DIGITS), None
        if self.parent is not None:
            parent = self.id_of(_text(self.parent, record), SPAN_DIGITS)
        trace = self.id_of(_text(self.trace, record), TRACE_DIGITS)
        if trace is None or key is None:
            raise BadRecord("no-span", f"{self.label} needs the ids of its trace and of itself")
        return Span(
            trace=trace,
            key=key,
            process=self.process_of(*(_text(value, record) for value in (self.process, self.service, self.instance))),
            name=_text(self.name, record) or UNNAMED,
            start=start,
            end=end,
            kind=kind,
            # A span that is its own parent is a root.
            parent=None if parent == key else parent,
            failed=has_failed(_text(self.status, record), kind),
            start_attributes=attributes if end is None else None,
            end_attributes=attributes,
            place=place,
        )

    def id_of(self, text: str | None, digits: int) -> str | None:
        """Return an id; None if there is none. Raises `BadRecord` for one that must be hexadecimal and is not."""
        if self.ids == HEX:
            return hex_id({"id": text}, "id", digits)
        return None if not text or text.lower() in NO_ID or not text.strip("0-") else text

    def process_of(self, process: str | None, service: str | None, instance: str | None) -> str:
        """Name the process. Raises `BadRecord`."""
        if process:
            return process
        if not service:
            raise BadRecord("no-process", f"{self.label} needs a service or a process")
        return process_name(service, {INSTANCE_ID: instance})

    def end_of(self, start: int, end: int | None, duration: int | None) -> int | None:
        """Return when a span ended; None if it has not. Raises `BadRecord`."""
        if end is None and duration is not None:
            if duration < 0:
                raise BadRecord("bad-field", f"the duration of {self.label} is negative: {duration}")
            end = start + duration
        if end is not None and not INT64_LEAST <= end <= INT64_MOST:
            raise BadRecord("number-out-of-range", f"the end of {self.label} is beyond 64 bits")
        return end


def span_kind(text: str | None) -> str:
    """Return the kind of a span. Raises `BadRecord` for an unknown one."""
    if not text:
        return INTERNAL
    kind = text.lower().removeprefix(_KIND_PREFIX)
    if kind == "unspecified":
        return INTERNAL
    if kind not in SPAN_KINDS:
        raise BadRecord("bad-kind", f"the kind of a span is {', '.join(SPAN_KINDS)} or absent, not {text[:60]!r}")
    return kind


def has_failed(status: str | None, kind: str) -> bool | None:
    """Return whether a status says that a span of this kind failed; None if it does not say."""
    if not status:
        return None
    text = status.strip().lower()
    if text in FAILED or text in SUCCEEDED:
        return text in FAILED
    is_http = len(text) == 3 and text.isascii() and text.isdigit()
    return True if is_http and int(text) in (_CLIENT_ERRORS if kind == CLIENT else _SERVER_ERRORS) else None


def _text(value: Value | None, record: Record) -> str | None:
    return None if value is None else value.text_of(record, may_be_empty=True)
