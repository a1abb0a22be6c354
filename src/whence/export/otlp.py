"""Log records of OpenTelemetry, as JSON lines: one export request a line, as the collector's file exporter writes them.

Times are nanoseconds, whatever unit of time the history has. Records have the attributes that whence's own source of OTLP
understands, so that a history made of them has the same relations; other programs see a time that respects causality, and
the causal stamp beside it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, BinaryIO

from whence.clocks.wire import MAX_NAME_BYTES
from whence.export.keys import key, kind_of, received
from whence.export.lines import Told
from whence.export.stretches import Stretch, Stretches
from whence.export.times import NANOSECONDS, Showing
from whence.export.vector_logs import clock_texts, members_of
from whence.history.questions.event import Event

RECORDS = 256
"""In one request."""
OURS = "whence."
_TRACE = re.compile(r"[0-9a-f]{32}")
_NO_TRACE = "0" * 32
_MOST = 1 << 63
_QUOTED = json.JSONEncoder(ensure_ascii=False).encode


def write_otlp(stretches: Stretches, sink: BinaryIO, showing: Showing) -> Iterator[int]:
    """All records. Gives the number of events after each piece."""
    # A name that no stamp can hold would make its readers refuse the record.
    stamped = all(0 < len(name.encode()) <= MAX_NAME_BYTES for name in stretches.names)
    keys = members_of(stretches.names)
    for stretch in stretches.each(vectors=True):
        stamps = clock_texts(stretch, keys) if stamped else [None] * len(stretch)
        records = _records(stretches, stretch, stamps, showing)
        while some := list(islice(records, RECORDS)):
            sink.write(_request(some).encode())
        yield len(stretch)


def _request(records: list[tuple[str, str]]) -> str:
    """One line, with the records of each service together."""
    services: dict[str, list[str]] = {}
    for service, record in records:
        services.setdefault(service, []).append(record)
    resources = [
        f'{{"resource":{{"attributes":[{_member("service.name", service)}]}},'
        f'"scopeLogs":[{{"scope":{{"name":"whence"}},"logRecords":[{",".join(found)}]}}]}}'
        for service, found in services.items()
    ]
    return f'{{"resourceLogs":[{",".join(resources)}]}}\n'


def _records(
    stretches: Stretches, stretch: Stretch, stamps: Sequence[str | None], showing: Showing
) -> Iterator[tuple[str, str]]:
    """The service of each event and its record as JSON."""
    per_unit = NANOSECONDS.get(stretches.run.manifest.unit, 1)
    uses = stretch.uses.tolist()
    lines = stretch.told or [Told(None)] * len(stretch)
    for row, (event, stamp, on) in enumerate(zip(stretches.events(stretch), stamps, lines, strict=True)):
        wall, corrected, shown = (
            None if time is None else time * per_unit
            for time in (event.time, event.corrected_time, showing.time_of(event))
        )
        sends = key(event.position, event.sends) if uses[row] or event.sends is not None else None
        receives = received(stretch.told_causes_of(row), event.missing, whole=stretches.selection.whole)
        told: dict[str, Any] = {
            "computation": event.computation,
            "process": event.process,
            "seq": event.seq,
            "id": event.id,
            "name": event.name,
            "kind": kind_of(event.kind, sends=sends is not None, receives=bool(receives)),
            "sends": sends,
            "receives": receives or None,
            "line": on.line,
            "line_parent": on.parent,
            "line_phase": on.phase,
            "line_joins": on.joins,
            "time": wall,
            "corrected_time": corrected,
            "error": event.error,
            "clock_name": event.clock_name,
            "stamp": f'{{"clock":"vector","counters":{stamp}}}' if stamp else None,
        }
        record = (
            f'{{"timeUnixNano":"{max(0, shown or 0)}","body":{_value(event.name or "")},'
            f'"traceId":"{trace_id(event.computation)}","attributes":[{_attributes(event, told)}]}}'
        )
        yield event.clock_name or event.process, record


@lru_cache(maxsize=1_024)
def trace_id(computation: str) -> str:
    """The computation where it is a trace's id, and else a number that is always the same for it."""
    if _TRACE.fullmatch(computation) and computation != _NO_TRACE:
        return computation
    return hashlib.blake2b(computation.encode(), digest_size=16).hexdigest()


def _attributes(event: Event, told: Mapping[str, Any]) -> str:
    """Those of whence, which no attribute of the event may contradict, and then the event's own."""
    own = {f"{OURS}{name}": value for name, value in told.items()}
    every = [*own.items(), *((name, value) for name, value in event.attributes.items() if name not in own)]
    return ",".join([_member(name, value) for name, value in every if value is not None or name not in own])


def _member(name: str, value: Any) -> str:
    return f'{{"key":{_QUOTED(name)},"value":{_value(value)}}}'


def _value(value: Any) -> str:
    """A value with its type, as JSON."""
    if isinstance(value, str):
        return f'{{"stringValue":{_QUOTED(value)}}}'
    if isinstance(value, bool):
        return f'{{"boolValue":{"true" if value else "false"}}}'
    if isinstance(value, int):
        # Integers are text in this JSON, and have 64 bits.
        return f'{{"intValue":"{value}"}}' if -_MOST <= value < _MOST else f'{{"stringValue":"{value}"}}'
    if isinstance(value, float):
        return f'{{"doubleValue":{_QUOTED(value)}}}'
    if isinstance(value, list):
        return f'{{"arrayValue":{{"values":[{",".join(map(_value, value))}]}}}}'
    if isinstance(value, dict):
        members = (_member(str(name), each) for name, each in value.items())
        return f'{{"kvlistValue":{{"values":[{",".join(members)}]}}}}'
    return "{}"
