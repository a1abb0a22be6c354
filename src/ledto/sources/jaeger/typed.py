"""Decode usual traces and spans of Jaeger, many spans at once; leave unusual ones to `ledto.sources.jaeger.exact`."""

from __future__ import annotations

import re
from itertools import islice
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ledto.sources.jaeger.exact import (
    CHILD_OF,
    ProcessNames,
    causes_of,
    has_failed,
    kind_of,
    merged,
    name_of_process,
    named_moment,
)
from ledto.sources.json.documents import DocumentValue
from ledto.sources.json.typed import (
    COLON_OR_NUL_ESCAPED,
    NOT_TAKEN,
    KnownObject,
    Typed,
    check_all_is_there,
    check_plain,
    hex_ids,
    text_of,
)
from ledto.sources.rows import MOST_CAUSES, BadRecord, NeedsExactReader
from ledto.sources.spans.fields import SPAN_DIGITS, TRACE_DIGITS, UNNAMED, inner_fields
from ledto.sources.spans.spans import INTERNAL, SPAN_KINDS, Moment, Spans
from ledto.sources.times import INT64_LEAST, INT64_MOST

_Microseconds = Annotated[int, msgspec.Meta(ge=0, le=INT64_MOST // 1_000)]
_Int64 = Annotated[int, msgspec.Meta(ge=INT64_LEAST, le=INT64_MOST)]
_SPANS = re.compile(rb'"spans"[ \t\r\n]*:[ \t\r\n]*')
_MOST_PROCESSES = 4_096
_NO_SPANS = Raw(b"[]")
_KINDS = {kind: kind for kind in SPAN_KINDS}
_NO_LINKS: list[tuple[str, str]] = []


class _Tag(KnownObject):
    key: str
    value: Any
    type: Literal["string", "bool", "int64", "float64", "binary"] | UnsetType = UNSET


class _Reference(KnownObject):
    refType: Literal["CHILD_OF", "FOLLOWS_FROM"]  # noqa: N815
    traceID: str  # noqa: N815
    spanID: str  # noqa: N815


class _JaegerLog(KnownObject):
    timestamp: _Microseconds
    fields: list[_Tag] | UnsetType = UNSET


class _JaegerSpan(KnownObject):
    traceID: str  # noqa: N815
    spanID: str  # noqa: N815
    startTime: _Microseconds  # noqa: N815
    operationName: str | UnsetType = UNSET  # noqa: N815
    references: list[_Reference] | UnsetType | None = UNSET
    duration: _Microseconds | UnsetType | None = UNSET
    tags: list[_Tag] | UnsetType | None = UNSET
    logs: list[_JaegerLog] | UnsetType | None = UNSET
    processID: str | UnsetType = UNSET  # noqa: N815
    process: Raw | UnsetType = UNSET
    warnings: list[str] | UnsetType | None = UNSET
    flags: _Int64 | UnsetType = UNSET
    startTimeMillis: _Int64 | UnsetType = UNSET  # noqa: N815


class _TypedTrace(KnownObject):
    spans: Raw
    processes: dict[str, Raw]
    traceID: str | UnsetType = UNSET  # noqa: N815
    warnings: list[str] | UnsetType | None = UNSET


class TypedJaeger:
    """A quick reader of traces and spans, which remembers the names of processes."""

    def __init__(self) -> None:
        self._traces, self._spans = msgspec.json.Decoder(_TypedTrace), Typed(_JaegerSpan)
        self._names: dict[bytes, str] = {}

    def trace(self, whole: DocumentValue) -> Spans | None:
        """Read the spans of a trace; None if the exact reader must read it."""
        try:
            trace = self._traces.decode(whole.raw)
            array, begins = bytes(trace.spans), _SPANS.search(whole.raw)
            if array[:1] != b"[" or begins is None or not whole.raw.startswith(array, begins.end()):
                raise NeedsExactReader
            # The spans are checked separately.
            trace.spans = _NO_SPANS
            rest = b"[]".join((whole.raw[: begins.end()], whole.raw[begins.end() + len(array) :]))
            if rest.count(b'"spans"') != 1:
                raise NeedsExactReader
            check_all_is_there(rest, trace, escapes=COLON_OR_NUL_ESCAPED)
            names = {key: self._name(bytes(process)) for key, process in trace.processes.items()}
            spans, offsets = self._spans.run(array[1:-1], in_list=True)
            first = whole.offset + begins.end() + 1
            return self._values(spans, [first + offset for offset in offsets], names)
        except (*NOT_TAKEN, BadRecord):
            return None

    def spans(self, run: DocumentValue, processes: ProcessNames, *, in_list: bool) -> Spans | None:
        """Read the spans of a run, whose processes are these or their own; None if the exact reader must read one."""
        try:
            spans, offsets = self._spans.run(run.raw, in_list=in_list)
            return self._values(spans, [run.offset + offset for offset in offsets], processes)
        except (*NOT_TAKEN, BadRecord):
            return None

    def _values(self, spans: list[_JaegerSpan], places: list[int], processes: ProcessNames) -> Spans:
        traces = hex_ids([span.traceID for span in spans], TRACE_DIGITS)
        keys = hex_ids([span.spanID for span in spans], SPAN_DIGITS)
        all_references = [reference for span in spans if span.references for reference in span.references]
        referred_traces = hex_ids([reference.traceID for reference in all_references], TRACE_DIGITS)
        referred_keys = hex_ids([reference.spanID for reference in all_references], SPAN_DIGITS)
        reference_types: list[str] = [reference.refType for reference in all_references]
        references = zip(reference_types, referred_traces, referred_keys, strict=True)
        values: list[Any] = []
        size_bytes = 0
        for place, span, trace, key in zip(places, spans, traces, keys, strict=True):
            start, duration = span.startTime * 1_000, span.duration
            end = start + duration * 1_000 if isinstance(duration, int) else None
            if end is not None and end > INT64_MOST:
                raise NeedsExactReader
            if span.process is not UNSET:
                process = self._name(bytes(span.process))
            else:
                name = processes.get(span.processID) if span.processID else None
                if not isinstance(name, str):
                    raise NeedsExactReader
                process = name
            parent: str | None = None
            awaited, links = True, _NO_LINKS
            if span.references:
                reference_type, of_trace, parent = next(references)
                if len(span.references) > 1 or reference_type != CHILD_OF or of_trace != trace or parent == key:
                    causes = [(reference_type, of_trace, parent), *islice(references, len(span.references) - 1)]
                    parent, awaited, links = causes_of(causes, trace, key)
                    if len(links) >= MOST_CAUSES:
                        raise NeedsExactReader
            tags = _tags(span.tags) if span.tags else {}
            tags_and_warnings = {"warnings": span.warnings, **tags} if span.warnings else tags
            attributes = text_of(tags_and_warnings) if tags_and_warnings else None
            kind_tag = tags.get("span.kind", INTERNAL)
            # The tag may be of another type: a list, if it occurs twice, or a number.
            kind = (_KINDS.get(kind_tag) if isinstance(kind_tag, str) else None) or kind_of(tags)
            failed = (("error" in tags or "otel.status_code" in tags) and has_failed(tags)) or None
            size_bytes += 2 * len(process) + len(attributes or "")
            values += (
                trace, key, process, span.operationName or UNNAMED, start, end, kind, parent, awaited,
                failed, links, [_moment(log) for log in span.logs] if span.logs else (),
                attributes if end is None else None, attributes, place,
            )  # fmt: skip
        return Spans(values, size_bytes)

    def _name(self, process: bytes) -> str:
        """Name a process. Raises `BadRecord`."""
        name = self._names.get(process)
        if name is None:
            fields = inner_fields(process)
            if not fields:
                raise NeedsExactReader
            if len(self._names) >= _MOST_PROCESSES:
                self._names.clear()
            name = self._names[process] = name_of_process(fields)
        return name


def _tags(tags: list[_Tag]) -> dict[str, Any]:
    values = {tag.key: tag.value for tag in tags}
    check_plain(values.values())
    if len(values) != len(tags):
        values = merged((tag.key, tag.value) for tag in tags)
        for value in values.values():
            if type(value) is list:
                check_plain(value)
    return values


def _moment(log: _JaegerLog) -> Moment:
    return named_moment(log.timestamp * 1_000, _tags(log.fields) if log.fields else {})
