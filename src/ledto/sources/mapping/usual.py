"""Draft a mapping for records whose fields have usual names: which of them are the process, the time and the line.

From a record with ``ts``, ``service``, ``host``, ``msg`` and ``trace_id``, this mapping is drafted::

    format = "logfmt"
    process = { from = ["{service}@{host}", "service", "host", "@file"] }
    time = { from = "ts", unit = "auto" }
    name = { from = "msg", optional = true }
    line = { from = "trace_id", optional = true }
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

from ledto.sources.mapping.values import AUTO, Value, read_parts
from ledto.sources.records.contract import Fields
from ledto.sources.rows import BadRecord

TIMES: Final = (
    *(
        "time",
        "timestamp",
        "@timestamp",
        "ts",
        "datetime",
        "date_time",
        "asctime",
        "eventTime",
        "event_time",
        "log_time",
    ),
    *("t", "date", "created"),
)
SERVICES: Final = (
    *("service.name", '"service.name"', "service", "service_name", "serviceName", "svc", "app", "app_name", "appName"),
    *("application", "program", "component"),
)
HOSTS: Final = (
    *("host.name", '"host.name"', "hostname", "host", "kubernetes.pod_name", "pod", "pod_name", "instance", "node"),
    "server",
)
LOGGERS: Final = ("logger", "logger_name", "log.logger", "module", "name")
NAMES: Final = ("message", "msg", "event", "text", "body", "short_message", "log")
LINES: Final = (
    *("{trace_id}/{span_id}", "{traceId}/{spanId}", "{trace.id}/{span.id}", '{"trace.id"}/{"span.id"}'),
    *("trace_id", "traceId", "trace.id", '"trace.id"', "request_id", "requestId"),
)
_MOST_LOOKED_AT = 200


def draft_usual(
    records: Sequence[Fields | None], format: str, *, may_name_file: bool = True, in_container: bool = False
) -> str | None:
    """Draft a mapping, in TOML; None if most records have no usual field for the time, or for the process.

    With `may_name_file`, the name of the file is the process of records that do not name one. With `in_container`, few
    records need to have them: lines of a container have both.
    """
    looked_at = [record for record in records if record is not None][:_MOST_LOOKED_AT]
    least = 0.0 if in_container else 0.5
    times = [path for path in TIMES if _has_share(looked_at, path, _is_time, least)][:1]
    processes = _processes(looked_at, least)
    if in_container:
        times, may_name_file = times or ["container.time"], True
    if not looked_at or not times or not (may_name_file or processes):
        return None
    names = [path for path in NAMES if _is_in_some(looked_at, path)][:1]
    lines = [path for path in LINES if _is_in_some(looked_at, path)]
    wanted = [
        f"format = {json.dumps(format)}",
        f"process = {_table([*processes, *(['@file'] if may_name_file else [])])}",
        f"time = {_table(times, f'unit = {json.dumps(AUTO)}')}",
        *(f"name = {_table(names, 'optional = true')}" for _ in names),
        *(f"line = {_table(lines, 'optional = true')}" for _ in lines[:1]),
    ]
    return "\n".join(wanted) + "\n"


def _processes(records: list[Fields], least: float) -> list[str]:
    """Return where the name of a process comes from, the best first: none unless a greater share of records has one."""
    found = {
        sort: [path for path in paths if _is_in_some(records, path)]
        for sort, paths in (("service", SERVICES), ("host", HOSTS), ("logger", LOGGERS))
    }
    services, hosts = found["service"], found["host"]
    both = [f"{_braced(services[0])}@{_braced(hosts[0])}"] if services and hosts else []
    loggers = found["logger"][:1] if not services and not hosts else []
    chosen = [*both, *services, *hosts, *loggers]
    has_one = any(_has_share(records, path, _is_name, least) for path in (*services, *hosts, *loggers))
    return chosen if has_one else []


def _braced(path: str) -> str:
    return f"{{{path}}}"


def _table(paths: Sequence[str], further: str = "") -> str:
    source = json.dumps(paths[0] if len(paths) == 1 else list(paths))
    return f"{{ from = {source}{', ' + further if further else ''} }}"


def _has_share(records: Sequence[Fields], path: str, fits: Callable[[Any], bool], least: float) -> bool:
    values = [_value(record, path) for record in records]
    return sum(value is not None and fits(value) for value in values) > least * len(values)


def _is_in_some(records: Sequence[Fields], path: str) -> bool:
    return any(_is_name(_value(record, path)) for record in records)


def _is_name(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and value != ""


def _value(record: Fields, path: str) -> Any:
    try:
        return Value(path, read_parts(path), optional=True).of(
            {name: (value, "", "") for name, value in record.items()}
        )
    except BadRecord:
        return None


def _is_time(value: Any) -> bool:
    try:
        return Value("time", (), unit=AUTO).as_time(value, "ns") is not None
    except BadRecord:
        return False
