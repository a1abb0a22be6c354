"""List the text formats, recognise files of them, and make their sources."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec

from ledto.sources.contract import Source, SourceError
from ledto.sources.jaeger.source import Jaeger
from ledto.sources.lines import BOM
from ledto.sources.mapping.builtin import BUILT_IN
from ledto.sources.mapping.reading import FileLayout
from ledto.sources.mapping.source import (
    CsvTable,
    JournaldLog,
    JsonLog,
    LogfmtLog,
    Mapped,
    PlainLog,
    RegexLog,
    SyslogLog,
    TsvTable,
)
from ledto.sources.mapping.usual import draft_usual
from ledto.sources.native.converted import has_native_fields
from ledto.sources.native.lines import JsonLines
from ledto.sources.otlp import Otlp
from ledto.sources.records.formats import HEAD_BYTES as RECORDS_HEAD_BYTES
from ledto.sources.records.formats import decode_head, field_names, sniff_container, sniff_records
from ledto.sources.shiviz.source import ShiViz
from ledto.sources.tracing.source import Tracing
from ledto.sources.xray.source import XRay
from ledto.sources.zipkin.source import Zipkin

SOURCES: Final[dict[str, type[Source]]] = {
    "ledto": JsonLines,
    "otlp": Otlp,
    "jaeger": Jaeger,
    "zipkin": Zipkin,
    "xray": XRay,
    **BUILT_IN,
    "shiviz": ShiViz,
    "tracing": Tracing,
    "mapped": Mapped,
    "json": JsonLog,
    "csv": CsvTable,
    "tsv": TsvTable,
    "logfmt": LogfmtLog,
    "syslog": SyslogLog,
    "journald": JournaldLog,
    "regex": RegexLog,
    "text": PlainLog,
}
"""The class of each format by name. Its keyword arguments are the options of the format."""

SPAN_FORMATS: Final = frozenset({"otlp", "jaeger", "zipkin", "xray"})
"""Formats of traces. Their rows are parts of spans, with times in nanoseconds."""

HEAD_BYTES: Final = RECORDS_HEAD_BYTES
"""How many decompressed bytes of a file are read to recognise it."""


def _key(name: bytes, value: bytes = rb"") -> re.Pattern[bytes]:
    """Make an expression for a key of JSON, and for how its value begins."""
    return re.compile(rb'"' + name + rb'"\s*:\s*' + value)


_TRACE_OF_XRAY = re.compile(rb'\\?"trace_id\\?"\s*:\s*\\?"1-[0-9a-fA-F]{8}-[0-9a-fA-F]{24}')
"""As a segment has it, or, with backslashes, a segment that is a text in an answer of X-Ray."""
_MARKS: Final = (
    ("otlp", (re.compile(rb'"(?:resource|scope)_?(?:spans|logs)"', re.IGNORECASE),)),
    ("tracing", (re.compile(rb'"TracerIdentity"'),)),
    ("xray", (_TRACE_OF_XRAY, re.compile(rb'"start_time\\?"\s*:'))),
    ("gcp", (_key(rb"logName", rb'"(?:projects|organizations|folders|billingAccounts)/'),)),
    ("ecs", (_key(rb"@timestamp"), re.compile(rb'"ecs\.version"\s*:|"ecs"\s*:\s*\{\s*"version"\s*:'))),
    ("cloudtrail", (_key(rb"eventVersion", rb'"'), _key(rb"eventSource", rb'"'))),
    ("k8s-audit", (_key(rb"apiVersion", rb'"audit\.k8s\.io/'), _key(rb"auditID", rb'"'))),
    (
        "tetragon",
        (_key(rb"process_(?:exec|exit|kprobe|tracepoint|uprobe|lsm|loader)", rb"\{"), _key(rb"exec_id", rb'"')),
    ),
    ("falco", (_key(rb"output_fields", rb"\{"), _key(rb"rule", rb'"'), _key(rb"priority", rb'"'))),
    ("jaeger", (re.compile(rb'"traceID"'),)),
    ("zipkin", (re.compile(rb'"traceId"\s*:.*"id"\s*:|"id"\s*:.*"traceId"\s*:', re.DOTALL),)),
    ("ledto", (re.compile(rb'"process"'),)),
)
"""Text that the JSON of each format always has, the most specific first. What encloses comes before what it may enclose:
a log entry of Google Cloud may hold a record of another format."""
_first_object = msgspec.json.Decoder(dict[str, Any]).decode
_VECTOR = re.compile(rb"^\S+ \{[^\n]*\}[ \t\r]*$", re.MULTILINE)
"""A line of a log for ShiViz with a host and a clock, as most programs write it."""
_PROTOBUF = re.compile(rb"\n|\0[\0-\xff]{3}\n|[\x80-\xff]{1,4}[\0-\x7f]\n", re.DOTALL)
"""A first field of type message, perhaps after its length in one of the two usual encodings."""
_FIRST_BYTES = 4096
_TEXT_SUFFIXES = frozenset({".json", ".jsonl", ".ndjson", ".log", ".txt"})


def recognise(head: bytes, suffix: str) -> str | None:
    """Guess the format of a file from its first bytes and the suffix of its name; None if no format fits.

    HAZARD: damaged and mixed files may mislead it.
    """
    text = head.removeprefix(BOM).lstrip(b" \t\r\n")
    if not text:
        return "ledto"
    if _begins_with_event(text):
        return "ledto"
    layout = FileLayout("", head)
    if layout.wrapper is not None:
        sniffed = sniff_container(layout.head)
        is_json = sniffed is not None and sniffed[0] == "json"
        mapping = _marked(layout.head, BUILT_IN) if is_json else None
        return mapping or _recognise_records(layout.head, in_container=True) or "text"
    if b"__REALTIME_TIMESTAMP" in head[:_FIRST_BYTES] and _recognise_records(head) == "journald":
        return "journald"
    if text[:1] in b"{[" and (format_name := _marked(text, SOURCES)) is not None:
        return format_name
    if _VECTOR.search(text):
        return "shiviz"
    is_text = suffix in _TEXT_SUFFIXES or not _is_binary(head)
    if not is_text and _PROTOBUF.match(head):
        return "otlp"
    return _recognise_records(head)


def _recognise_records(head: bytes, *, in_container: bool = False) -> str | None:
    """Guess the record format of a file that can be read without a mapping; None if none fits."""
    sniffed = sniff_container(head) if in_container else sniff_records(head)
    if sniffed is None:
        return None
    name, options = sniffed
    if name in ("syslog", "journald"):
        return name
    if has_native_fields(field_names(name, head, options)):
        return name
    records = decode_head(name, head, options)
    drafted = draft_usual(records, name, may_name_file=False, in_container=in_container and name in ("json", "logfmt"))
    return None if drafted is None else name


def _marked(text: bytes, formats: Collection[str]) -> str | None:
    """Return the first of these formats whose marks are all in the text; None if there is none."""
    marked = (name for name, marks in _MARKS if name in formats and all(mark.search(text) for mark in marks))
    return next(marked, None)


def _begins_with_event(text: bytes) -> bool:
    """Return whether the first line is a record of ledto's own: it names a process, and a number or a time.

    Its attributes may be those of any other format.
    """
    try:
        record = _first_object(text.partition(b"\n")[0])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return isinstance(record.get("process"), str) and ("seq" in record or "time" in record)


def _is_binary(head: bytes) -> bool:
    return any(byte < 9 or 13 < byte < 32 for byte in head[:256])


def known_format(format: str) -> type[Source]:
    """Return the class of a format. Raises `SourceError` for an unknown one."""
    if format not in SOURCES:
        raise SourceError(f"there is no format {format!r}; there are {', '.join(SOURCES)}")
    return SOURCES[format]


def format_options(format: str) -> tuple[str, ...]:
    """Return the names of a format's options."""
    return tuple(inspect.signature(known_format(format)).parameters)


def source(format: str, options: Mapping[str, Any]) -> Source:
    """Make the source of a format with these options. Options that are None count as left out.

    Raises `SourceError` for an unknown format or option, for an option that is missing, and for a wrong value.
    """
    allowed = format_options(format)
    chosen = {name: value for name, value in options.items() if value is not None}
    for name in chosen:
        if name not in allowed:
            raise SourceError(f"the format {format} has no option {name!r}; it has {', '.join(allowed)}")
    for option in inspect.signature(SOURCES[format]).parameters.values():
        if option.default is option.empty and option.name not in chosen:
            raise SourceError(f"the format {format} needs --{option.name}; see docs/sources.md")
    return SOURCES[format](**chosen)
