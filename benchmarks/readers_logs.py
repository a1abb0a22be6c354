"""Logs of some megabytes in the formats of text and JSON lines, made the same each time, with the source that reads each.

They look like what these programs write: few processes and hosts, few sorts of records, times that grow, and now and then a line
that is no record. They are part of ``make bench ARGS=readers``; run as a module, this prints their times alone.
"""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from time import process_time
from typing import Any, Final

from ledto.interop.govector import GoVector
from ledto.sources import FileSlice, Source
from ledto.sources.conformance import piece_of
from ledto.sources.mapping.source import Mapped
from ledto.sources.shiviz.source import ShiViz
from ledto.sources.tracing.source import Tracing
from ledto.sources.tracing.typed import RECEIVED, SENT

Case = tuple[str, bytes, Source]
"""A name, the bytes of a log, and what reads them."""

LINES: Final = 40_000
ACCESS_REGEX: Final = (
    r"(?<ip>(\d{1,3}\.){3}\d{1,3}) (?<date>(\d{1,2}/){2}\d{4} (\d{2}:){2}\d{2} (AM|PM)) (?<action>(INFO|GET|POST)) "
    r"(?<event>.*)\n(?<host>\w*) (?<clock>.*)"
)
_START = datetime(2024, 5, 1, 12, tzinfo=UTC)
_SERVICE_MAPPING = """
process = "service"
time = "ts"
name = "msg"
computation = { from = "trace", optional = true }

[[event]]
when = { "call.kind" = "out" }
sends = "{call.id}"

[[event]]
when = { "call.kind" = "in" }
receives = "{call.id}"
"""


def cases(lines: int = LINES) -> Iterator[Case]:
    """Every log, of about so many lines."""
    yield "mapped, system calls", system_calls(lines), Mapped("falcon")
    yield "mapped, services", services(lines), _mapped(_SERVICE_MAPPING)
    yield "tracing", tracing(lines), Tracing()
    yield "ShiViz, GoVector's", govector(lines), ShiViz()
    yield "ShiViz, an expression", requests(lines), ShiViz(regex=ACCESS_REGEX)


def system_calls(lines: int) -> bytes:
    """A trace of system calls as Falcon writes it, without spaces; a line in eight is no record."""
    random = Random(1)
    threads = [
        f"{random.randint(1_000, 30_000)}@node{host}.cluster.example.org" for host in range(3) for _ in range(40)
    ]
    found, time = [], 1_525_880_628_342
    for number in range(lines):
        time += random.randint(0, 3)
        thread, other = random.sample(threads, 2)
        record: dict[str, Any] = {"timestamp": time, "type": "LOG", "thread": thread}
        sort = random.random()
        if sort < 0.125:
            found.append(f"\tat org.example.server.Worker.run(Worker.java:{number % 900})")
            continue
        if sort < 0.5:
            record["type"] = random.choice(["CREATE", "START", "END", "JOIN"])
            record |= {"data": {"host": thread.partition("@")[2]}, "child": other}
        elif sort < 0.75:
            record |= {"type": random.choice(["SND", "RCV"]), "size": random.randint(8, 4_000), "socket_type": "TCP"}
            record |= {"src": "192.168.112.83", "src_port": 2_888, "dst": "192.168.112.78"}
            port = random.randint(36_000, 36_040)
            record |= {"dst_port": port, "socket": f"192.168.112.83:2888-192.168.112.78:{port}"}
            record["data"] = {"host": thread.partition("@")[2]}
        else:
            record |= {"message": f'2018-05-09 16:43:46 INFO  QuorumPeer:1185 - vote {number} said "yes"'}
            record["data"] = {"level": random.choice(["INFO", "WARN"])}
        found.append(json.dumps(record, separators=(",", ":")))
    return "\n".join(found).encode() + b"\n"


def services(lines: int) -> bytes:
    """Logs of services with ISO times and the spaces that Python's ``json`` writes."""
    random = Random(2)
    found, time = [], _START
    for number in range(lines):
        time += timedelta(microseconds=random.randint(1, 4_000))
        record: dict[str, Any] = {
            "ts": time.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": random.choice(["info", "info", "warn", "debug"]),
            "service": f"service-{random.randint(1, 30)}",
            "msg": f"handled request {number}",
            "trace": f"{random.getrandbits(64):016x}",
            "duration_ms": round(random.expovariate(0.1), 3),
            "user": {"id": random.randint(1, 9_999), "plan": random.choice(["free", "paid"])},
        }
        if random.random() < 0.6:
            record["call"] = {"kind": random.choice(["in", "out"]), "id": f"c{number // 2}"}
        found.append(json.dumps(record))
    return "\n".join(found).encode() + b"\n"


def tracing(lines: int) -> bytes:
    """Events of six tracers, of which a quarter sends or receives a token."""
    random = Random(3)
    clocks = {name: GoVector(name) for name in ("coord", *(f"client{number}" for number in range(1, 6)))}
    found: list[str] = []
    under_way: list[tuple[bytes, int]] = []
    while len(found) < lines:
        name = random.choice(list(clocks))
        clock, trace, tag = clocks[name], random.getrandbits(63), "PutRecvd"
        body: dict[str, object]
        sort = random.random()
        if sort < 0.25:
            token = clock.prepare_send(trace)
            under_way.append((token, trace))
            tag, body = SENT, {"Token": _base64(token)}
        elif sort < 0.5 and under_way:
            token, trace = under_way.pop(random.randrange(len(under_way)))
            clock.unpack_receive(token)
            tag, body = RECEIVED, {"Token": _base64(token)}
        else:
            clock.clock.local()
            body = {"ClientId": name, "OpId": len(found), "Key": f"key{random.randint(0, 99)}", "Value": "v"}
        values = {
            "TracerIdentity": name,
            "TraceID": trace,
            "Tag": tag,
            "Body": body,
            "VectorClock": dict(clock.clock.stamp),
        }
        found.append(json.dumps(values, separators=(",", ":")))
    return "\n".join(found).encode() + b"\n"


def govector(lines: int) -> bytes:
    """What GoVector writes: two lines an event, host and clock first."""
    events = (f"{host} {clock}\n{text}" for host, clock, text in _events(lines // 2))
    return "\n".join(events).encode() + b"\n"


def requests(lines: int) -> bytes:
    """A log with times and addresses before its texts, for `ACCESS_REGEX`."""
    found, time = [], datetime(2013, 5, 27, 10, 53, 39)
    for number, (host, clock, text) in enumerate(_events(lines // 2)):
        time += timedelta(seconds=number % 3)
        said = f"{time.month}/{time.day}/{time:%Y %I:%M:%S %p}"
        found.append(f"24.22.130.{number % 256} {said} GET {text}\n{host.replace('-', '_')} {clock.replace('-', '_')}")
    return "\n".join(found).encode() + b"\n"


def _events(count: int) -> Iterator[tuple[str, str, str]]:
    """Host, clock and text of events of eight hosts, of which a quarter receives what another one knew."""
    random = Random(4)
    hosts = ["front-end", "client-1", *(f"kv-node-{10 * number}" for number in range(1, 7))]
    clocks: dict[str, dict[str, int]] = {host: {} for host in hosts}
    for number in range(count):
        host = random.choice(hosts)
        clock = clocks[host]
        if random.random() < 0.25:
            for name, entry in clocks[random.choice(hosts)].items():
                clock[name] = max(entry, clock.get(name, 0))
        clock[host] = clock.get(host, 0) + 1
        yield host, json.dumps(clock, separators=(", ", ":")), f"Received reply {number} from {random.choice(hosts)}"


def _base64(token: bytes) -> str:
    return base64.b64encode(token).decode()


def _mapped(mapping: str) -> Mapped:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "services.toml"
        file.write_text(mapping)
        return Mapped(str(file))


def microseconds_a_line(read: Callable[[FileSlice], Any], data: bytes, *, times: int = 3) -> float:
    """CPU time of reading the log, least of so many times."""
    least = float("inf")
    for _ in range(times):
        start = process_time()
        for _ in read(piece_of(data)):
            pass
        least = min(least, process_time() - start)
    return 1e6 * least / data.count(b"\n")


def main(wanted: str) -> None:
    """Print the CPU time a line of the cases whose names hold `wanted`."""
    for name, data, source in cases():
        if wanted in name:
            taken = microseconds_a_line(source.read, data)
            print(f"{name:24} {taken:6.2f} us a line, {1e6 / taken:9,.0f} lines a second")


if __name__ == "__main__":
    main(*sys.argv[1:2] or [""])
