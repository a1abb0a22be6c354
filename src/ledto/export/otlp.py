"""Write log records of OpenTelemetry as JSON lines, one export request a line, like the Collector's file exporter.

Times are nanoseconds, whatever unit the history has. Records have the attributes that ledto's OTLP source reads, so a
history made of them has the same relations. Other programs see a time that respects causality, and the vector stamp.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, BinaryIO

from ledto.clocks.wire import MAX_NAME_BYTES
from ledto.export.events import Stretch, Stretches
from ledto.export.keys import kind_of, received_keys, sent_key
from ledto.export.lines import ExportedLine
from ledto.export.times import NANOSECONDS, Showing
from ledto.export.vector_logs import write_clocks, write_member_starts
from ledto.questions.event import Event

RECORDS = 256
"""The records in one request at most."""
OURS = "ledto."
_TRACE = re.compile(r"[0-9a-f]{32}")
_NO_TRACE = "0" * 32
_MOST = 1 << 63
_QUOTED = json.JSONEncoder(ensure_ascii=False).encode


def write_otlp(stretches: Stretches, sink: BinaryIO, showing: Showing) -> Iterator[int]:
    """Write all records; yield the number of events of each stretch."""
    # A reader refuses the whole record if a name in its stamp is empty or too long.
    stamped = all(0 < len(name.encode()) <= MAX_NAME_BYTES for name in stretches.names)
    keys = write_member_starts(stretches.names)
    for stretch in stretches.iterate(vectors=True):
        stamps = write_clocks(stretch, keys) if stamped else [None] * len(stretch)
        records = _write_records(stretches, stretch, stamps, showing)
        while batch := list(islice(records, RECORDS)):
            sink.write(_write_request(batch).encode())
        yield len(stretch)


def _write_request(records: list[tuple[str, str]]) -> str:
    """Write one line, with the records of each service together."""
    services: dict[str, list[str]] = {}
    for service, record in records:
        services.setdefault(service, []).append(record)
    resources = [
        f'{{"resource":{{"attributes":[{_write_member("service.name", service)}]}},'
        f'"scopeLogs":[{{"scope":{{"name":"ledto"}},"logRecords":[{",".join(logs)}]}}]}}'
        for service, logs in services.items()
    ]
    return f'{{"resourceLogs":[{",".join(resources)}]}}\n'


def _write_records(
    stretches: Stretches, stretch: Stretch, stamps: Sequence[str | None], showing: Showing
) -> Iterator[tuple[str, str]]:
    """Yield the service of each event, and its record as JSON."""
    per_unit = NANOSECONDS.get(stretches.run.manifest.unit, 1)
    uses = stretch.uses.tolist()
    lines = stretch.lines or [ExportedLine(None)] * len(stretch)
    arrivals = stretches.table(stretch, ["arrival"])["arrival"].to_pylist()
    rows = zip(stretches.events(stretch), stamps, lines, arrivals, strict=True)
    for row, (event, stamp, on_line, arrived) in enumerate(rows):
        wall, corrected, arrival, shown = (
            None if time is None else time * per_unit
            for time in (event.time, event.corrected_time, arrived, showing.time_of(event))
        )
        sends = sent_key(event.position, event.sends) if uses[row] or event.sends is not None else None
        receives = received_keys(stretch.causes_with_assumed(row), event.missing, whole=stretches.selection.whole)
        fields: dict[str, Any] = {
            "computation": event.computation,
            "process": event.process,
            "seq": event.seq,
            "id": event.id,
            "name": event.name,
            "kind": kind_of(event.kind, sends=sends is not None, receives=bool(receives)),
            "sends": sends,
            "receives": receives or None,
            "line": on_line.line,
            "line_parent": on_line.parent,
            "line_phase": on_line.phase,
            "line_joins": on_line.joins,
            "time": wall,
            "corrected_time": corrected,
            "arrival": arrival,
            "error": event.error,
            "clock_name": event.clock_name,
            "stamp": f'{{"clock":"vector","counters":{stamp}}}' if stamp else None,
        }
        observed = "" if arrival is None or arrival < 0 else f'"observedTimeUnixNano":"{arrival}",'
        record = (
            f'{{"timeUnixNano":"{max(0, shown or 0)}",{observed}"body":{_write_value(event.name or "")},'
            f'"traceId":"{trace_id(event.computation)}","attributes":[{_write_attributes(event, fields)}]}}'
        )
        yield event.clock_name or event.process, record


@lru_cache(maxsize=1_024)
def trace_id(computation: str) -> str:
    """Return the computation if it is a trace's id; else a hash of it."""
    if _TRACE.fullmatch(computation) and computation != _NO_TRACE:
        return computation
    return hashlib.blake2b(computation.encode(), digest_size=16).hexdigest()


def _write_attributes(event: Event, fields: Mapping[str, Any]) -> str:
    """Write the fields as attributes of ledto, then the event's attributes. A field wins over an attribute of its name."""
    ours = {f"{OURS}{name}": value for name, value in fields.items()}
    pairs = [*ours.items(), *((name, value) for name, value in event.attributes.items() if name not in ours)]
    return ",".join([_write_member(name, value) for name, value in pairs if value is not None or name not in ours])


def _write_member(name: str, value: Any) -> str:
    return f'{{"key":{_QUOTED(name)},"value":{_write_value(value)}}}'


def _write_value(value: Any) -> str:
    """Write a value with its type as JSON."""
    if isinstance(value, str):
        return f'{{"stringValue":{_QUOTED(value)}}}'
    if isinstance(value, bool):
        return f'{{"boolValue":{"true" if value else "false"}}}'
    if isinstance(value, int):
        # In OTLP's JSON, integers are text of 64 bits.
        return f'{{"intValue":"{value}"}}' if -_MOST <= value < _MOST else f'{{"stringValue":"{value}"}}'
    if isinstance(value, float):
        return f'{{"doubleValue":{_QUOTED(value)}}}'
    if isinstance(value, list):
        return f'{{"arrayValue":{{"values":[{",".join(map(_write_value, value))}]}}}}'
    if isinstance(value, dict):
        members = (_write_member(str(name), member) for name, member in value.items())
        return f'{{"kvlistValue":{{"values":[{",".join(members)}]}}}}'
    return "{}"
