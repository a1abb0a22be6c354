"""Clients of the collector in a process of their own: ``python -m benchmarks.posting '{...}'``, a `Task` as JSON.

Imports nothing beyond the standard library and sends plain bytes, so that eight of them leave the machine to the service.
Prints one line of JSON: what was acknowledged, when, and how often an answer was a refusal.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

BATCH = 100
"""Reports of a request."""
BROKEN_PAUSE_S = 0.2


@dataclass(frozen=True, kw_only=True)
class Task:
    """What one process is to send."""

    name: str
    host: str
    port: int
    start: float
    """Seconds since 1970."""
    seconds: float
    """After these no new batch is begun; one that was is sent until it is acknowledged."""
    connections: int = 1
    batches_a_second: float | None = None
    """Of all connections, due at even times; a batch is sent when it is due and those before it are acknowledged."""
    template: str | None = None
    """A file with an OTLP request, in which the bytes `old` are another trace's in each batch; else JSON lines."""
    old: str = ""
    batch: int = BATCH


@dataclass
class Found:
    """What became of it."""

    waits: list[float] = field(default_factory=list)
    """Seconds from the first attempt to the acknowledgement, one a batch."""
    acknowledged: list[tuple[str, int, int]] = field(default_factory=list)
    """Process, and the first and last seq."""
    statuses: dict[str, int] = field(default_factory=dict)
    last: float = 0.0
    """When the last acknowledgement came, seconds since 1970."""
    begun: int = 0
    """Batches."""


class Client:
    """One connection."""

    def __init__(self, task: Task, number: int, found: Found) -> None:
        self._task, self._process, self._found = task, f"{task.name}-{number}", found
        self._number = number
        self._template = None if task.template is None else Path(task.template).read_bytes()
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self) -> None:
        """Send batch after batch."""
        task, number = self._task, 0
        await asyncio.sleep(max(0.0, task.start - time.time()))
        while True:
            due = task.start
            if task.batches_a_second is not None:
                due += (number * task.connections + self._number) / task.batches_a_second
            if max(due, time.time()) >= task.start + task.seconds:
                break
            await asyncio.sleep(max(0.0, due - time.time()))
            request = self._request(number)
            self._found.begun += 1
            begun = time.perf_counter()
            while not await self._acknowledged(request):
                pass
            self._found.waits.append(time.perf_counter() - begun)
            self._found.acknowledged.append((self._process, number * task.batch + 1, (number + 1) * task.batch))
            self._found.last = time.time()
            number += 1
        if self._streams is not None:
            self._streams[1].close()

    def _request(self, number: int) -> bytes:
        path, kind, body = "/v1/reports", "application/x-ndjson", b""
        if self._template is not None:
            path, kind = "/v1/traces", "application/x-protobuf"
            mark = f"{self._process}/{number}".encode()[-8:].rjust(8, b".")
            body = self._template.replace(bytes.fromhex(self._task.old), mark)
        else:
            now = time.time_ns()
            first = number * self._task.batch + 1
            body = "".join(
                f'{{"process":"{self._process}","seq":{seq},"time":{now},"name":"order.placed","kind":"send",'
                f'"message":"{self._process}:{seq}","order":{seq},"customer":"c-{seq % 997}","amount":12.5}}\n'
                for seq in range(first, first + self._task.batch)
            ).encode()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self._task.host}\r\nContent-Type: {kind}\r\n"
            f"Ledto-Batch: {self._process}/{number}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    async def _acknowledged(self, request: bytes) -> bool:
        """Send once; waits where the answer says so, or there is none."""
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection(self._task.host, self._task.port)
            reader, writer = self._streams
            writer.write(request)
            await writer.drain()
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
            status = head[0].split()[1]
            headers = dict(line.split(": ", 1) for line in head[1:] if ": " in line)
            await reader.readexactly(int(headers["content-length"]))
        except (OSError, asyncio.IncompleteReadError):
            self._streams = None
            self._count("broken")
            await asyncio.sleep(BROKEN_PAUSE_S)
            return False
        self._count(status)
        if headers.get("connection") == "close":
            writer.close()
            self._streams = None
        if status == "200":
            return True
        if status not in ("429", "503"):
            raise RuntimeError(f"the collector answered {status} to {self._process}")
        await asyncio.sleep(float(headers["retry-after"]))
        return False

    def _count(self, status: str) -> None:
        self._found.statuses[status] = self._found.statuses.get(status, 0) + 1


async def _run(task: Task) -> dict[str, Any]:
    found = Found()
    await asyncio.gather(*(Client(task, number, found).run() for number in range(task.connections)))
    return asdict(found)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_run(Task(**json.loads(sys.argv[1]))))))
