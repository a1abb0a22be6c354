"""Logs of some megabytes in text formats, made the same each time, with the source that reads each."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

from ledto.sources import Source
from ledto.sources.mapping.source import (
    CsvTable,
    JournaldLog,
    JsonLog,
    LogfmtLog,
    Mapped,
    PlainLog,
    RegexLog,
    SyslogLog,
)

LINES: Final = 40_000
_START = datetime(2024, 5, 1, 12, tzinfo=UTC)
_MAPPING = """
process = "{service}@{host}"
clock = "host"
time = "time"
name = "msg"
line = "request"
severity = "level"

[[event]]
when = { op = "send" }
sends = "call"

[[event]]
when = { op = "receive" }
receives = "call"
"""
_SPANS = """
name = "operation"

[span]
trace = "trace"
span = "span"
parent = "parent"
service = "service"
start = { from = "start_us", unit = "us" }
duration = { from = "took_us", unit = "us" }
kind = "kind"
status = "status"
"""
_PATTERN = r"(?<time>\S+ \S+) (?<level>[A-Z]+) \[(?<thread>[^\]]+)\] (?<logger>\S+): (?<message>.*)"


def cases(lines: int = LINES) -> Iterator[tuple[str, bytes, Source]]:
    """Yield every log, of about so many lines: a name, its bytes, and what reads them."""
    records = list(_records(lines))
    native = [_as_native(record) for record in records]
    yield "csv, ledto's columns", table(native), CsvTable()
    yield "csv, a mapping", table(records), _with(CsvTable, _MAPPING)
    yield "csv, usual names", table(records), CsvTable()
    yield "csv, spans", table(list(_spans(lines))), _with(CsvTable, _SPANS)
    yield "logfmt, a mapping", logfmt(records), _with(LogfmtLog, _MAPPING)
    yield "logfmt, usual names", logfmt(records), LogfmtLog()
    yield "json, a mapping", json_lines(records), _with(JsonLog, _MAPPING)
    yield "json, usual names", json_lines(records), JsonLog()
    yield "json of Kubernetes", cri(json_lines(records)), JsonLog()
    yield "text of Kubernetes", cri(plain(records)), PlainLog()
    yield "syslog, RFC 5424", syslog(records), SyslogLog()
    yield "syslog, RFC 3164", old_syslog(records), SyslogLog()
    yield "journald, JSON", journal(records), JournaldLog()
    yield "regex", plain(records), RegexLog(regex=_PATTERN)


def _records(count: int) -> Iterator[dict[str, Any]]:
    random = Random(7)
    time = _START
    for number in range(count):
        time += timedelta(microseconds=random.randint(1, 4_000))
        yield {
            "time": time.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "level": random.choice(["info", "info", "warn", "debug", "error"]),
            "service": f"service-{random.randint(1, 30)}",
            "host": f"node{random.randint(1, 3)}",
            "request": f"{random.getrandbits(64):016x}",
            "op": random.choice(["send", "receive", "log", "log"]),
            "call": f"c{number // 2}",
            "msg": f"handled request {number}",
            "duration_ms": round(random.expovariate(0.1), 3),
            "status": random.choice([200, 200, 404]),
        }


def _as_native(record: dict[str, Any]) -> dict[str, Any]:
    kind = record["op"] if record["op"] != "log" else "local"
    return {
        "process": f"{record['service']}@{record['host']}",
        "time": record["time"],
        "kind": kind,
        "message": record["call"] if kind != "local" else "",
        "name": record["msg"],
        "line": record["request"],
        **{name: record[name] for name in ("level", "duration_ms", "status")},
    }


def _spans(count: int) -> Iterator[dict[str, Any]]:
    random = Random(8)
    for number in range(count):
        yield {
            "trace": f"{number // 8:032x}",
            "span": f"{number + 1:016x}",
            "parent": f"{number:016x}" if number % 8 else "",
            "service": f"service-{random.randint(1, 30)}",
            "operation": random.choice(["GET /cart", "POST /order", "charge"]),
            "start_us": 1_714_564_800_000_000 + 137 * number,
            "took_us": random.randint(10, 90_000),
            "kind": random.choice(["server", "client", "internal"]),
            "status": random.choice([200, 200, 200, 500]),
            "zone": random.choice(["eu-1", "eu-2"]),
        }


def table(records: list[dict[str, Any]]) -> bytes:
    """Write a table with a header."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue().encode()


def logfmt(records: list[dict[str, Any]]) -> bytes:
    """Write lines of ``key=value``."""
    return "".join(
        " ".join(f'{name}="{value}"' if " " in str(value) else f"{name}={value}" for name, value in record.items())
        + "\n"
        for record in records
    ).encode()


def json_lines(records: list[dict[str, Any]]) -> bytes:
    """Write JSON lines."""
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def plain(records: list[dict[str, Any]]) -> bytes:
    """Write what loggers of Java write; a record in twenty has a stack trace of two lines."""
    return "".join(
        f"{record['time'][:10]} {record['time'][11:23]} {record['level'].upper()} [main-{number % 9}] org.shop."
        f"{record['service']}: {record['msg']}\n"
        + (f"\tat org.shop.Worker.run(Worker.java:{number % 900})\n\t... 3 more\n" if number % 20 == 0 else "")
        for number, record in enumerate(records)
    ).encode()


def cri(text: bytes) -> bytes:
    """Wrap lines as Kubernetes does."""
    lines = text.splitlines()
    return b"".join(
        b"2024-05-01T12:00:%02d.%09dZ stdout F %b\n" % (n // 1_000 % 60, n, line) for n, line in enumerate(lines)
    )


def syslog(records: list[dict[str, Any]]) -> bytes:
    """Write lines of RFC 5424."""
    return "".join(
        f"<{134 + number % 3}>1 {record['time']} {record['host']} {record['service']} {number % 999} - "
        f'[call@32473 id="{record["call"]}" status="{record["status"]}"] {record["msg"]}\n'
        for number, record in enumerate(records)
    ).encode()


def old_syslog(records: list[dict[str, Any]]) -> bytes:
    """Write lines of RFC 3164 as daemons write them to files."""
    return "".join(
        f"May  1 {record['time'][11:19]} {record['host']} {record['service']}[{number % 999}]: {record['msg']}\n"
        for number, record in enumerate(records)
    ).encode()


def journal(records: list[dict[str, Any]]) -> bytes:
    """Write what ``journalctl -o json`` writes."""
    return json_lines(
        [
            {
                "__CURSOR": f"s=8a;i={number:x}",
                "__REALTIME_TIMESTAMP": str(1_714_564_800_000_000 + 137 * number),
                "_HOSTNAME": record["host"],
                "_SYSTEMD_UNIT": f"{record['service']}.service",
                "PRIORITY": str(3 + number % 4),
                "MESSAGE": record["msg"],
                "_PID": str(number % 999),
            }
            for number, record in enumerate(records)
        ]
    )


def _with(source: type[Mapped], mapping: str) -> Source:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mapping.toml"
        file.write_text(mapping)
        return source(str(file))
