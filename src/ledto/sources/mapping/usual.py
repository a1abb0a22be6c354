"""Draft a mapping for records whose fields have usual names: which of them are the process, the time and the line.

From a record with ``ts``, ``service``, ``host``, ``msg`` and ``trace_id``, this mapping is drafted::

    format = "logfmt"
    process = { from = ["{service}@{host}", "service", "host", "@file"] }
    time = { from = "ts", unit = "auto" }
    name = { from = "msg", optional = true }
    line = { from = "trace_id", optional = true }

A host alone is no process, since many programs write on it: then the process is ``{@file}@{host}``. A logger is a part of a
program, and many programs have one of the same name: it never is the process.
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
INSTANCES: Final = ("kubernetes.pod_name", "pod", "pod_name", "instance")
"""Fields that name one running copy of a program."""
MACHINES: Final = ("host.name", '"host.name"', "hostname", "host", "node", "server")
CONTAINERS: Final = ("{container.namespace}/{container.pod}/{container.name}", "container.id")
LOGGERS: Final = ("logger", "logger_name", "log.logger", "module", "name")
"""Fields that show that a record is one of a log, but do not say of which process."""
NAMES: Final = ("message", "msg", "event", "text", "body", "short_message", "log")
LINES: Final = (
    *("{trace_id}/{span_id}", "{traceId}/{spanId}", "{trace.id}/{span.id}", '{"trace.id"}/{"span.id"}'),
    *("trace_id", "traceId", "trace.id", '"trace.id"', "request_id", "requestId"),
)
_MOST_LOOKED_AT = 200


def draft_usual(
    records: Sequence[Fields | None],
    format: str,
    *,
    may_name_file: bool = True,
    in_container: bool = False,
    names_container: bool = False,
) -> str | None:
    """Draft a mapping, in TOML; None if most records have no usual field for the time, or for who wrote them.

    With `may_name_file`, the latter is not needed: the name of the file is the process. With `in_container`, few
    records need to have them: lines of a container have both. With `names_container`, the file's path names the
    container, which then is the process whatever the records say: two containers never share one.
    """
    looked_at = [record for record in records if record is not None][:_MOST_LOOKED_AT]
    least = 0.0 if in_container else 0.5
    times = [path for path in TIMES if _has_share(looked_at, path, _is_time, least)][:1]
    if in_container:
        times, may_name_file = times or ["container.time"], True
    writers = (*SERVICES, *INSTANCES, *MACHINES, *LOGGERS)
    says_who = any(_has_share(looked_at, path, _is_name, least) for path in writers)
    if not looked_at or not times or not (may_name_file or says_who):
        return None
    processes = list(CONTAINERS) if names_container else _processes(looked_at) if says_who else []
    names = [path for path in NAMES if _is_in_some(looked_at, path)][:1]
    lines = [path for path in LINES if _is_in_some(looked_at, path)]
    wanted = [
        f"format = {json.dumps(format)}",
        f"process = {_table([*processes, '@file'])}",
        f"time = {_table(times, f'unit = {json.dumps(AUTO)}')}",
        *(f"name = {_table(names, 'optional = true')}" for _ in names),
        *(f"line = {_table(lines, 'optional = true')}" for _ in lines[:1]),
    ]
    return "\n".join(wanted) + "\n"


def _processes(records: list[Fields]) -> list[str]:
    """Return where the name of a process comes from, the best first; empty if no record says more than its file."""
    services, instances, machines = (
        [path for path in paths if _is_in_some(records, path)] for paths in (SERVICES, INSTANCES, MACHINES)
    )
    places = [*instances, *machines]
    both = [f"{_braced(services[0])}@{_braced(places[0])}"] if services and places else []
    return [*both, *services, *instances, *(f"{{@file}}@{_braced(machine)}" for machine in machines)]


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
