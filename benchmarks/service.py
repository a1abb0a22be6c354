"""What the benchmarks of the service share: a real ``ledto serve`` in a process of its own, and its broker's messages."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import nats
import numpy as np
import pyarrow as pa
from nats.js.api import PubAck
from numpy.typing import NDArray

from benchmarks.histories import folder
from ledto.events.payload import decode_reports, encode_reports
from ledto.service.broker.nats_server import STREAM, SUBJECT, broker_url
from ledto.spark.stream.nats.client import Server
from ledto.spark.stream.nats.jetstream import Broker, read_range

Longs = NDArray[np.int64]

END_SECONDS = 90
UNDER_WAY = 64
"""Messages that are published before the first of them is acknowledged."""
STRETCH_NS = 50_000_000
"""Events of so long a time are delayed by as much."""


@dataclass(frozen=True)
class Service:
    """A running service."""

    history: Path
    http: str
    broker_pid: int
    stream_pid: int | None

    @property
    def url(self) -> str:
        """Of the broker, with its token."""
        return broker_url(self.history)

    @property
    def source(self) -> str:
        """Of the broker's stream, with the token, as `open_source` takes it."""
        return f"{self.url}/{STREAM}"


@contextmanager
def served(name: str, *options: str) -> Iterator[Service]:
    """``ledto serve`` with these options on a fresh history, ended and gone at the end."""
    history = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder())) / "history"
    command = [
        sys.executable,
        "-m",
        "ledto.cli",
        "serve",
        "--to",
        str(history),
        "--port",
        "0",
        "--no-grpc",
        "--json",
        *options,
    ]
    with (history.parent / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"ledto serve did not start: {(history.parent / 'log').read_text()[-2000:]}")
        said = json.loads(line)
        service = Service(history, said["http"], said["broker_pid"], said["stream_pid"])
        yield service
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def publish(service: Service, rows: pa.Table, *, message_rows: int = 100) -> float:
    """Put rows on the broker as the collector does, each message when the last of its rows arrives; gives seconds.

    The broker's time is the arrival that counts. Where it does not keep up with the rows' own arrivals, events from then on
    happen later by as much: reports take as long as they were meant to.
    """
    return asyncio.run(_publish(service.url, rows, message_rows))


async def _publish(url: str, rows: pa.Table, message_rows: int) -> float:
    arrival, happened = rows["arrival"].to_numpy(), rows["time"].to_numpy()
    stretch = (happened - happened.min()) // STRETCH_NS
    delays = np.full(int(stretch.max()) + 1, -1, np.int64)
    client = await nats.connect(url)
    context = client.jetstream()
    under_way: set[asyncio.Task[PubAck]] = set()
    start = time.perf_counter()
    try:
        for first in range(0, len(rows), message_rows):
            some = rows.slice(first, message_rows).drop_columns(["arrival"])
            behind = time.time_ns() - int(arrival[first + len(some) - 1])
            if behind < 0:
                await asyncio.sleep(-behind / 1e9)
            mine = stretch[first : first + message_rows]
            latest = int(mine.max())
            new = delays[: latest + 1] < 0
            delays[: latest + 1][new] = max(behind, 0, int(delays.max()))
            shifted = happened[first : first + message_rows] + delays[mine]
            payload = encode_reports(some.set_column(some.column_names.index("time"), "time", pa.array(shifted)))
            if len(under_way) >= UNDER_WAY:
                done, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()
            under_way.add(asyncio.create_task(context.publish(SUBJECT, payload, timeout=30)))
        await asyncio.gather(*under_way)
    finally:
        await client.close()
    return time.perf_counter() - start


def broker_of(service: Service) -> Broker:
    """The service's broker, as the stream reads it."""
    token, _, address = service.url.partition("://")[2].rpartition("@")
    host, _, port = address.partition(":")
    return Broker(Server(host, int(port), token, None, None, False, None), STREAM, 60)


def stored(service: Service) -> pa.Table:
    """Process, seq and the message's number of all reports that the broker holds."""
    sequences: list[Longs] = []
    tables: list[pa.Table] = []
    for some in read_range(broker_of(service), 1, asyncio.run(_last(service.url)) + 1):
        for message in some:
            if message.payload:
                tables.append(decode_reports(message.payload).select(["process", "seq"]))
                sequences.append(np.full(len(tables[-1]), message.sequence))
    return pa.concat_tables(tables).append_column("sequence", pa.array(np.concatenate(sequences)))


async def _last(url: str) -> int:
    client = await nats.connect(url)
    try:
        return int((await client.jetstream().stream_info(STREAM)).state.last_seq)
    finally:
        await client.close()


def folder_bytes(path: Path) -> int:
    """What the files below a folder hold."""
    total = 0
    for root, _, names in os.walk(path):
        for name in names:
            try:
                total += os.stat(os.path.join(root, name)).st_size
            except FileNotFoundError:
                continue  # It was replaced while we looked.
    return total


class CoreTime:
    """What this process and all below it have of any core while it is watched; from /proc, five times a second.

    Unlike the time that passes, it tells little of what else the machine does. What a process does in its last fifth of a
    second is not counted.
    """

    def __enter__(self) -> Self:
        self._before, self._last = _ticks(), dict[int, int]()
        self._ended = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._watcher.join()
        self._last |= _ticks()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            self._last |= _ticks()

    @property
    def seconds(self) -> float:
        """Of all cores together."""
        total = sum(ticks - self._before.get(process, 0) for process, ticks in self._last.items())
        return total / os.sysconf("SC_CLK_TCK")


def _ticks() -> dict[int, int]:
    """By process, this one and those below it: the time it had."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # It ended while we looked.
            parents[int(entry.name)] = int(fields[1])
            ticks[int(entry.name)] = int(fields[11]) + int(fields[12])
    mine = {os.getpid()}
    while True:
        more = {each for each, parent in parents.items() if parent in mine} - mine
        if not more:
            return {each: ticks[each] for each in mine if each in ticks}
        mine |= more
