"""Draft a mapping for records in nobody's format, from the names and values of their fields, with a reason for each line.

Take the first thousands of records; give the text of a mapping that `ledto.sources.mapping.file` reads. A draft is a guess:
its reasons say what it is not sure of, and `MappingDraft.missing` what it could not find. So a person must look at it.
`ledto.sources.mapping.usual` takes fewer names for granted, and is used without asking.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ledto.sources.mapping.profile import FieldProfile, as_number, profile, time_options

TIMES: Final = (
    *(
        "timestamp",
        "time",
        "ts",
        "eventtime",
        "datetime",
        "date",
        "asctime",
        "logtime",
        "logdate",
        "created",
        "createdat",
    ),
    *("observedtimestamp", "starttime", "start", "begin", "t", "when"),
)
SERVICES: Final = (
    *(
        "service",
        "servicename",
        "svc",
        "resourceservicename",
        "app",
        "application",
        "appname",
        "component",
        "container",
    ),
    *(
        "containername",
        "kubernetescontainername",
        "job",
        "program",
        "processname",
        "process",
        "source",
        "node",
        "actor",
    ),
)
INSTANCES: Final = (
    *("instance", "serviceinstanceid", "pod", "podname", "kubernetespodname", "hostname", "host", "machine", "server"),
)
NAMES: Final = (
    "message",
    "msg",
    "event",
    "eventname",
    "log",
    "text",
    "body",
    "description",
    "operation",
    "op",
    "action",
)
SEVERITIES: Final = ("level", "severity", "loglevel", "lvl", "levelname", "severitytext", "priority")
LOGGERS: Final = ("logger", "loggername", "loglogger", "module", "thread", "threadname")
"""Fields that name a part of a program, and so never a process."""
_IDS = ("id", "", "uuid", "ref", "key", "hex")
TRACES: Final = (*(f"trace{end}" for end in _IDS), "tracetraceid", "contexttraceid")
SPANS: Final = (*(f"span{end}" for end in _IDS), "tracespanid", "contextspanid")
PARENTS: Final = (*(f"{start}{end}" for start in ("parentspan", "parent") for end in _IDS), "pspanid")
STARTS: Final = (
    *("starttime", "start", "starttimeunixnano", "startts", "startat", "startedat", "startus", "startms", "begin"),
    *("beginat", "began", "beganat", "starttimestamp", "timestamp", "ts", "time"),
)
ENDS: Final = ("endtime", "end", "endtimeunixnano", "endts", "endat", "endedat", "finish", "finishedat", "endtimestamp")
DURATIONS: Final = tuple(
    f"{word}{unit}"
    for word in ("duration", "elapsed", "latency", "took", "time", "responsetime")
    for unit in ("", "ms", "us", "ns", "s", "sec", "seconds", "millis", "micros", "nanos")
    if word != "time" or unit
)
KINDS: Final = ("spankind", "kind")
SPAN_KINDS: Final = frozenset({"internal", "server", "client", "producer", "consumer"})
SPAN_NAMES: Final = ("spanname", "operationname", "operation", "name", "op", "verb", "endpoint", "route", "method")
STATUSES: Final = ("statuscode", "httpstatuscode", "httpstatus", "httpcode", "status", "code", "error")
REQUESTS: Final = ("requestid", "reqid", "correlationid", "xrequestid", "request", "transactionid", "sessionid")
NUMBERS: Final = ("seq", "sequence", "seqno", "sequencenumber", "offset", "lsn")
MESSAGES: Final = ("messageid", "msgid", "mid", "messagekey", "eventid")
DIRECTIONS: Final = ("direction", "kind", "type", "op", "action", "event", "dir")
SENDS: Final = frozenset({"send", "sent", "snd", "out", "publish", "produce", "emit", "outgoing", "request_sent"})
RECEIVES: Final = frozenset(
    {"receive", "received", "recv", "rcv", "in", "consume", "consumed", "deliver", "delivered", "incoming"}
)

_UNIT_WORDS = {
    "nanos": "ns",
    "ns": "ns",
    "micros": "us",
    "us": "us",
    "millis": "ms",
    "ms": "ms",
    "seconds": "s",
    "sec": "s",
}
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class DraftLine:
    """A key of a drafted mapping: what stands after the equals sign, and why."""

    key: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True)
class MappingDraft:
    """A drafted mapping."""

    head: tuple[DraftLine, ...]
    """What all records share."""
    tables: tuple[tuple[str, tuple[DraftLine, ...]], ...] = ()
    """Tables with their headers, such as ``[span]``."""
    missing: tuple[str, ...] = ()
    """What was not field, and what to write instead. A draft with one of these cannot be used as it is."""

    def to_toml(self) -> str:
        """Write the mapping, with its reasons as comments."""
        lines = [f"# {sentence}" for sentence in self.missing]
        lines += _align(self.head)
        for header, keys in self.tables:
            lines += ["", header, *_align(keys)]
        return "\n".join(lines) + "\n"


def _align(lines: Sequence[DraftLine]) -> list[str]:
    texts = [f"{line.key} = {line.value}" for line in lines]
    width = min(max(map(len, texts), default=0), 48)
    reasons = [_CONTROLS.sub(" ", line.reason) for line in lines]
    return [f"{text:<{width}}  # {reason}" for text, reason in zip(texts, reasons, strict=True)]


def suggest_mapping(
    records: Sequence[Mapping[str, Any]],
    *,
    format: str = "json",
    options: Mapping[str, Any] | None = None,
    in_container: bool = False,
    names_container: bool = False,
) -> MappingDraft:
    """Draft a mapping for decoded records of a record format with these options.

    With `in_container`, lines of a container have a time. With `names_container`, the path of the file names their
    process, too.
    """
    known = [] if format == "json" else [DraftLine("format", _toml_text(format), "by its first lines")]
    known += [DraftLine(key, _toml_text(value), "by its first lines") for key, value in (options or {}).items()]
    drafter = _Drafter(profile(records), len(records), in_container=in_container, names_container=names_container)
    return drafter.draft(known)


class _Drafter:
    def __init__(
        self, profiles: dict[str, FieldProfile], count: int, *, in_container: bool, names_container: bool
    ) -> None:
        self._profiles = profiles
        self._count = count
        self._in_container = in_container
        self._names_container = names_container
        self._missing: list[str] = []

    def draft(self, known: Sequence[DraftLine]) -> MappingDraft:
        head = list(known)
        spans = self._draft_spans()
        if spans is not None:
            return MappingDraft(tuple(head), (("[span]", tuple(spans)),), tuple(self._missing))
        head += self._draft_process()
        head += self._draft_time()
        head += self._draft_line()
        head += self._draft_rest()
        return MappingDraft(tuple(head), self._draft_messages(), tuple(self._missing))

    def _find(
        self, names: Sequence[str], fits: Callable[[FieldProfile], bool], *, least_share: float = 0.0
    ) -> FieldProfile | None:
        """Return the field with the first of these names that fits, and that enough records have."""
        for name in names:
            for field in self._profiles.values():
                if name in field.names and fits(field) and field.count >= max(least_share * self._count, 1):
                    return field
        return None

    def _present(self, field: FieldProfile) -> str:
        if field.count >= self._count:
            return "in every record"
        return f"in {100 * field.count / self._count:.0f}% of records"

    def _value(self, field: FieldProfile, **more: str) -> str:
        """Write the field as a value of a mapping, optional if some records lack it."""
        options = dict(more)
        if field.count < self._count:
            options["optional"] = "true"
        if not options:
            return _quote(field.path)
        written = ", ".join(f"{key} = {value}" for key, value in options.items())
        return f"{{ from = {_quote(field.path)}, {written} }}"

    def _draft_process(self) -> list[DraftLine]:
        if self._names_container:
            return [DraftLine("process", '"@file"', "the container that the path of the file names")]
        service = self._find(SERVICES, _names_processes, least_share=0.99)
        instance = self._find(INSTANCES, _names_processes, least_share=0.99)
        if service and instance and service is not instance:
            return [
                DraftLine(
                    "process",
                    _quote(f"{{{service.path}}}@{{{instance.path}}}"),
                    f"{service.distinct} on {instance.distinct}: what runs on two machines is two processes",
                ),
                DraftLine("clock", self._value(instance), "processes of one machine share its clock"),
            ]
        field = service or instance
        if field is not None:
            return [DraftLine("process", self._value(field), f"{self._present(field)}, {field.distinct}")]
        guess = self._guess_process()
        if guess is not None:
            reason = f"a guess: {self._present(guess)}, {guess.distinct}; it must tell what has a clock of its own"
            return [DraftLine("process", self._value(guess), reason)]
        return [DraftLine("process", '"@file"', "no field names a process: each file is taken for one")]

    def _guess_process(self) -> FieldProfile | None:
        """Return a field in every record with few different values that are words."""
        few = [
            field
            for field in self._profiles.values()
            if field.count == self._count
            and field.is_text
            and not field.is_capped
            and 2 <= len(field.values) <= max(2, min(200, self._count // 10))
            and not {*field.names} & {*SEVERITIES, *NAMES, *TIMES, *DIRECTIONS, *LOGGERS}
        ]
        return max(few, key=lambda field: len(field.values), default=None)

    def _draft_time(self) -> list[DraftLine]:
        field = self._find(TIMES, lambda field: time_options(field) is not None, least_share=0.5)
        reason = ""
        if field is None:
            by_values = [
                field
                for field in self._profiles.values()
                if time_options(field) is not None and field.count >= 0.9 * self._count
            ]
            field, reason = next(iter(by_values), None), "a guess by its values; "
        if field is not None:
            options = time_options(field) or {}
            told = (
                f"numbers in {options['unit']}" if "unit" in options else f"dates {options.get('format', '')}".strip()
            )
            quoted = {key: json.dumps(value) for key, value in options.items()}
            return [DraftLine("time", self._value(field, **quoted), f"{reason}{told}, {self._present(field)}")]
        if self._in_container:
            return [DraftLine("time", '"container.time"', "no field holds one: when the container wrote the line")]
        number = self._find(NUMBERS, lambda field: field.share(lambda value: type(value) is int) > 0.99)
        if number is not None and number.count == self._count:
            return [DraftLine("seq", self._value(number), "integers in every record; there is no time")]
        self._missing.append("time: no field holds dates, or numbers of the years 2000 to 2100; write time or seq")
        return []

    def _draft_line(self) -> list[DraftLine]:
        trace, span = self._find(TRACES, _is_id), self._find(SPANS, _is_id)
        if trace is not None and span is not None and span.count > 0.5 * trace.count:
            path = _quote(f"{{{trace.path}}}/{{{span.path}}}")
            least = min(trace.count, span.count)
            value = path if least >= self._count else f"{{ from = {path}, optional = true }}"
            return [DraftLine("line", value, "events of one span follow each other; other spans run beside it")]
        field = trace or self._find(REQUESTS, _is_id)
        if field is None:
            return []
        return [DraftLine("line", self._value(field), f"{field.distinct}: each is one thing that a process does")]

    def _draft_rest(self) -> list[DraftLine]:
        lines = []
        name = self._find(NAMES, lambda field: field.is_text)
        if name is not None:
            lines.append(DraftLine("name", self._value(name), f"what happened; {self._present(name)}"))
        severity = self._find(SEVERITIES, lambda field: not field.is_nested and len(field.values) <= 50)
        if severity is not None:
            shown = ", ".join(str(value)[:12] for value in list(severity.values)[:4])
            lines.append(DraftLine("severity", self._value(severity), f"tells errors: {shown}"))
        return lines

    def _draft_messages(self) -> tuple[tuple[str, tuple[DraftLine, ...]], ...]:
        """Draft rules for sends and receives, if a field has such words and another names the message."""
        message = self._find(MESSAGES, _is_id)
        direction = self._find(DIRECTIONS, lambda field: bool(_words(field) & SENDS and _words(field) & RECEIVES))
        if message is None or direction is None:
            return ()
        tables = []
        for words, key in ((SENDS, "sends"), (RECEIVES, "receives")):
            told = sorted(value for value in direction.values if isinstance(value, str) and value.lower() in words)
            listed = ", ".join(json.dumps(value) for value in told)
            tables.append(
                (
                    "[[event]]",
                    (
                        DraftLine("when", f"{{ {_toml_key(direction.path)} = [{listed}] }}", f"the side that {key}"),
                        DraftLine(key, _quote(message.path), "a send leads to its receive"),
                    ),
                )
            )
        return tuple(tables)

    def _draft_spans(self) -> list[DraftLine] | None:
        """Draft the table ``[span]``, if each record is a span with its parent and its extent in time; else None."""
        trace, span = self._find(TRACES, _is_id), self._find(SPANS, _is_id)
        parent = self._find(PARENTS, lambda field: not field.is_nested)
        start = self._find(STARTS, lambda field: time_options(field) is not None, least_share=0.9)
        end = self._find(ENDS, lambda field: time_options(field) is not None, least_share=0.9)
        duration = self._find(DURATIONS, _is_number, least_share=0.9)
        service = self._find(SERVICES, _names_processes, least_share=0.99)
        if trace is None or span is None or parent is None or start is None or service is None:
            return None
        if (end is None and duration is None) or span.count < 0.9 * self._count:
            return None
        options = {key: json.dumps(value) for key, value in (time_options(start) or {}).items()}
        lines = [
            DraftLine("trace", self._value(trace), trace.distinct),
            DraftLine("span", self._value(span), f"{span.distinct}: each record is a span"),
            DraftLine("parent", self._value(parent), "the span that called it"),
            DraftLine("service", self._value(service), f"its process; {service.distinct}"),
        ]
        instance = self._find(INSTANCES, _names_processes)
        if instance is not None and instance is not service:
            lines.append(
                DraftLine(
                    "instance", self._value(instance), "what runs on two machines is two processes with two clocks"
                )
            )
        lines.append(DraftLine("start", self._value(start, **options), "when it began"))
        if end is not None:
            ends = {key: json.dumps(value) for key, value in (time_options(end) or {}).items()}
            lines.append(DraftLine("end", self._value(end, **ends), "when it ended"))
        elif duration is not None:
            unit, why = _duration_unit(duration, time_options(start) or {})
            lines.append(DraftLine("duration", self._value(duration, unit=json.dumps(unit)), why))
        name = self._find((*SPAN_NAMES, *NAMES), lambda field: field.is_text and field.count == self._count)
        kind = self._find(KINDS, lambda field: _words(field) <= SPAN_KINDS and bool(field.values))
        status = self._find(STATUSES, lambda field: not field.is_nested)
        for key, field, why in (
            ("name", name, "what it did"),
            ("kind", kind, "tells clients from servers"),
            ("status", status, "tells whether it failed"),
        ):
            if field is not None:
                lines.append(DraftLine(key, self._value(field), why))
        return lines


def _is_number(field: FieldProfile) -> bool:
    return not field.is_nested and field.share(lambda value: as_number(value) >= 0) > 0.95


def _is_id(field: FieldProfile) -> bool:
    return not field.is_nested and field.share(lambda value: isinstance(value, str | int) and value != "") > 0.5


def _names_processes(field: FieldProfile) -> bool:
    """Return whether the values are texts that come again: a process has more than one event."""
    return field.is_text and not field.is_capped and len(field.values) <= max(1, field.count // 2)


def _words(field: FieldProfile) -> frozenset[str]:
    return frozenset(value.lower() for value in field.values if isinstance(value, str))


def _duration_unit(field: FieldProfile, start: Mapping[str, str]) -> tuple[str, str]:
    """Return the unit of a duration and why: its name says so, or it is that of the start."""
    for end, unit in _UNIT_WORDS.items():
        if any(name.endswith(end) for name in field.names):
            return unit, f"its name ends in {end}"
    if "unit" in start:
        return start["unit"], "a guess: the unit of the start"
    return "ms", "a guess: nothing tells the unit"


def _toml_key(path: str) -> str:
    return path if re.fullmatch(r"[A-Za-z0-9_-]+", path) else _quote(path)


def _quote(text: str) -> str:
    """Write text as a basic string of TOML, which must not have a bare DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _toml_text(value: object) -> str:
    """Write a value: text as it is, in single quotes, if it can be."""
    if not isinstance(value, str):
        return json.dumps(value)
    return f"'{value}'" if "'" not in value and ('"' in value or "\\" in value) else _quote(value)
