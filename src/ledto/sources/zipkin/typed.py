"""Decode usual spans of Zipkin, many at once; leave unusual ones to `ledto.sources.zipkin.exact`."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ledto.sources.json.documents import DocumentValue
from ledto.sources.json.typed import NOT_TAKEN, KnownObject, Typed, hex_ids, hex_ids_or_none, text_of
from ledto.sources.rows import BadRecord, NeedsExactReader
from ledto.sources.spans.fields import SPAN_DIGITS, TRACE_DIGITS, UNNAMED, inner_fields
from ledto.sources.spans.process_names import IDENTIFYING
from ledto.sources.spans.spans import INTERNAL, SERVER, Spans
from ledto.sources.times import INT64_MOST
from ledto.sources.zipkin.exact import KINDS, SHARED_SUFFIX, UNNAMED_MOMENT, process_of

_Microseconds = Annotated[int, msgspec.Meta(ge=0, le=INT64_MOST // 1_000)]
_Int64 = Annotated[int, msgspec.Meta(ge=0, le=INT64_MOST)]
_KINDS: Final = {**KINDS, "": INTERNAL}
_IDENTIFYING = frozenset(IDENTIFYING)
_NO_TAGS: dict[str, str] = {}
_MOST_PROCESSES = 4_096


class _Annotation(KnownObject):
    timestamp: _Microseconds
    value: str | UnsetType = UNSET


class _ZipkinSpan(KnownObject):
    traceId: str  # noqa: N815
    id: str
    timestamp: _Microseconds
    localEndpoint: Raw  # noqa: N815
    parentId: str | UnsetType | None = UNSET  # noqa: N815
    kind: str | UnsetType | None = UNSET
    name: str | UnsetType | None = UNSET
    duration: _Microseconds | UnsetType | None = UNSET
    debug: bool | UnsetType | None = UNSET
    shared: bool | UnsetType | None = UNSET
    remoteEndpoint: dict[str, str | _Int64] | UnsetType | None = UNSET  # noqa: N815
    annotations: list[_Annotation] | UnsetType | None = UNSET
    tags: dict[str, str] | UnsetType | None = UNSET


class TypedZipkin:
    """A quick reader of spans, which remembers the names of processes."""

    def __init__(self) -> None:
        self._decoder = Typed(_ZipkinSpan)
        self._processes: dict[bytes, str] = {}

    def spans(self, run: DocumentValue, *, in_list: bool) -> Spans | None:
        """Read the spans of a run; None if the exact reader must read one of them."""
        try:
            spans, offsets = self._decoder.run(run.raw, in_list=in_list)
            return self._values(spans, [run.offset + offset for offset in offsets])
        except (*NOT_TAKEN, BadRecord):
            return None

    def _values(self, spans: list[_ZipkinSpan], places: list[int]) -> Spans:
        traces = hex_ids([span.traceId for span in spans], TRACE_DIGITS)
        keys = hex_ids([span.id for span in spans], SPAN_DIGITS)
        parents = iter(hex_ids_or_none([span.parentId for span in spans if span.parentId], SPAN_DIGITS))
        values: list[Any] = []
        size_bytes = 0
        for place, span, trace, key in zip(places, spans, traces, keys, strict=True):
            start, duration = span.timestamp * 1_000, span.duration
            end = start + duration * 1_000 if duration else None
            if not start or (end is not None and end > INT64_MOST):
                raise NeedsExactReader
            kind, tags = _KINDS.get(span.kind or ""), span.tags or _NO_TAGS
            if kind is None:
                raise NeedsExactReader
            parent = next(parents) if span.parentId else None
            if span.shared and kind in (SERVER, INTERNAL):
                key, parent = f"{key}{SHARED_SUFFIX}", key
            process = self._process(bytes(span.localEndpoint), tags)
            remote = span.remoteEndpoint
            attributes = None
            if tags or remote:
                attributes = text_of({"remoteEndpoint": remote, **tags} if remote else tags)
                size_bytes += len(attributes)
            size_bytes += 2 * len(process)
            values += (
                trace, key, process, span.name or UNNAMED, start, end, kind, None if parent == key else parent, True,
                True if "error" in tags else None, (), _moments(span.annotations) if span.annotations else (),
                None if duration else attributes, attributes, place,
            )  # fmt: skip
        return Spans(values, size_bytes)

    def _process(self, endpoint: bytes, tags: dict[str, str]) -> str:
        """Name the process at this endpoint. Raises `BadRecord`."""
        if not _IDENTIFYING.isdisjoint(tags):
            return process_of(inner_fields(endpoint), tags)
        process = self._processes.get(endpoint)
        if process is None:
            if len(self._processes) >= _MOST_PROCESSES:
                self._processes.clear()
            process = self._processes[endpoint] = process_of(inner_fields(endpoint), _NO_TAGS)
        return process


def _moments(annotations: list[_Annotation]) -> list[tuple[int, str, None]]:
    return [(annotation.timestamp * 1_000, annotation.value or UNNAMED_MOMENT, None) for annotation in annotations]
