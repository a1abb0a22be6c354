"""The whole service as a user starts it, a load of numbered reports on it, and ways to kill parts of it."""

from __future__ import annotations

import http.client
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pyarrow as pa

from ledto.events.schema import REPORTS
from ledto.live import LiveHistory, LiveTerms, LiveWriter

DEADLINE_S = 300.0
COMPUTATION = "load"
MARKED, MARKED_EVERY = "marked", 25
"""The name of some events of the load, for subscriptions."""
EPS, DELTA = 50_000_000, 500_000_000
SOURCE = Path(__file__).parents[2] / "src"
# The first compiler only, and the plain collector: a shorter start, for jobs too small to need more.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
MARKS = {
    # The stream's own process, and the Java that it started.
    "driver": ("ledto.cli observe --follow", "org.apache.spark.deploy.SparkSubmit"),
    "broker": ("nats-server -c",),
    # Those who run tasks, those who start them, and the one who asks the broker how far there is something to read.
    "worker": ("pyspark.daemon pyspark.worker", "python_streaming_source_runner"),
}
"""By kind: parts of its processes' command lines."""


def until(reached: Callable[[], Any], *, what: str, deadline_s: float = DEADLINE_S) -> Any:
    """What it gives once that is true."""
    end = time.monotonic() + deadline_s
    while not (found := reached()):
        assert time.monotonic() < end, f"it did not come to pass: {what}"
        time.sleep(0.02)
    return found


def processes_below(root: int) -> dict[int, str]:
    """The descendants of a process, and their command lines: whoever else runs on the machine is not among them."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found: dict[int, str] = {}
    layer = {root}
    while layer := {pid for pid, parent in parents.items() if parent in layer}:
        for pid in layer:
            with suppress(OSError):
                found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found


class Service:
    """``ledto serve`` on one history and one port, however often it is started."""

    def __init__(self, folder: Path) -> None:
        self.history = folder / "h"
        self.live = LiveHistory(str(self.history))
        self.port = 0
        self._said = folder / "stderr"
        self._process: subprocess.Popen[str] | None = None
        self._left: dict[int, str] = {}
        """What ran below the service before each kill."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        arguments = [sys.executable, "-m", "ledto.cli", "serve", "--to", str(self.history)]
        arguments += ["--port", str(self.port), "--json"]
        arguments += ["--no-grpc", "--webhook-private"]
        arguments += ["--eps", f"{EPS}ns", "--delta", f"{DELTA}ns"]
        env = {**os.environ, "PYTHONPATH": str(SOURCE), "JAVA_TOOL_OPTIONS": QUICK_START}
        with self._said.open("a") as said:
            self._process = subprocess.Popen(arguments, env=env, stdout=subprocess.PIPE, stderr=said, text=True)
        assert self._process.stdout is not None
        told = self._process.stdout.readline()
        assert told, f"it did not start: {self.said()[-2_000:]}"
        self.port = urlsplit(json.loads(told)["http"]).port or 0

    def said(self) -> str:
        """All that it and its children wrote to stderr."""
        return self._said.read_text()

    def below(self) -> dict[int, str]:
        return processes_below(self._process.pid) if self._process is not None else {}

    def stop(self) -> None:
        """End it as a user would; what is then still there of all that it started is killed."""
        self._left |= self.below()
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(DEADLINE_S)
            finally:
                self._process.kill()
                self._process.wait()
                self._process = None
                for pid in self.orphans():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

    def orphans(self) -> list[int]:
        """Processes of services that ended, which are still there."""
        mine = self.below()
        return [pid for pid, line in self._left.items() if pid not in mine and line and _command_line(pid) == line]

    def find(self, kind: str) -> list[int]:
        """The processes of a kind that run now."""
        if kind == "collector":
            return [self._process.pid] if self._process is not None else []
        return [pid for pid, line in self.below().items() if any(mark in line for mark in MARKS[kind])]

    def kill(self, kind: str, random: Random) -> int:
        """Kill -9 one process of the kind, once there is any; gives when, in nanoseconds since 1970.

        A collector is started again, by us instead of by a supervisor.
        """
        victim = int(random.choice(sorted(until(lambda: self.find(kind), what=f"a {kind} runs"))))
        self._left |= self.below()
        killed = time.time_ns()
        os.kill(victim, signal.SIGKILL)
        if kind == "collector":
            assert self._process is not None
            self._process.wait()
            self.start()
        return killed

    def metric(self, name: str) -> float:
        """A gauge or counter without labels."""
        with urlopen(f"{self.url}/metrics", timeout=DEADLINE_S) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        try:
            sent = None if body is None else json.dumps(body).encode()
            connection.request(method, path, sent, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


@contextmanager
def whole_service(folder: Path) -> Iterator[Service]:
    service = Service(folder)
    try:
        service.start()
        yield service
    finally:
        service.stop()


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


@dataclass
class Load:
    """Processes that report, each in a thread of its own, and send messages to one another.

    Each batch is sent under the same id until it is acknowledged. Now and then an acknowledged batch is sent once more under
    another id, as by a sender who has forgotten: the broker stores it again, and only the stream can tell.
    """

    service: Service
    seed: int
    processes: int = 4
    pause_s: float = 0.1
    """Between two batches of a process, in the mean: with 8 reports in each, 320 a second in all."""
    acknowledged: list[dict[str, Any]] = field(default_factory=list)
    """Each as it was sent, and when its acknowledgement came."""
    tries: int = 0
    batches: int = 0
    fault: str | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._connections = threading.local()
        self._inboxes: list[queue.SimpleQueue[str]] = [queue.SimpleQueue() for _ in range(self.processes)]
        self._threads = [threading.Thread(target=self._guarded, args=(number,)) for number in range(self.processes)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(DEADLINE_S)
        assert not any(thread.is_alive() for thread in self._threads), "a report was never acknowledged"
        assert self.fault is None, self.fault

    def count(self) -> int:
        with self._lock:
            return len(self.acknowledged)

    def _guarded(self, number: int) -> None:
        try:
            self._report(number, Random(self.seed * 1_000 + number))
        except Exception as fault:
            self.fault = f"process {number}: {fault!r}"

    def _report(self, number: int, random: Random) -> None:
        seq = 0
        while not self._stop.is_set():
            batch = []
            for _ in range(random.randrange(1, 16)):
                seq += 1
                batch.append(self._event(number, seq, random))
            name = f"{self.seed}-{number}-{seq}"
            self._send(name, batch)
            acknowledged = time.time_ns()
            with self._lock:
                self.acknowledged += [{**event, "acknowledged": acknowledged} for event in batch]
                self.batches += 1
            if random.random() < 0.05:
                self._send(f"{name}-again", batch)
            self._stop.wait(random.random() * 2 * self.pause_s)

    def _event(self, number: int, seq: int, random: Random) -> dict[str, Any]:
        event: dict[str, Any] = {"computation": COMPUTATION, "process": f"p{number}", "seq": seq}
        kind = random.choice(("local", "send", "receive"))
        if kind == "receive":
            with suppress(queue.Empty):
                event["receives"] = self._inboxes[number].get_nowait()
        elif kind == "send":
            event["sends"] = f"m{number}.{seq}"
        if seq % MARKED_EVERY == 0:
            event["name"] = MARKED
        event["time"] = time.time_ns()
        if "sends" in event:
            self._inboxes[random.randrange(self.processes)].put(event["sends"])
        return event

    def _send(self, name: str, batch: list[dict[str, Any]]) -> None:
        body = "".join(json.dumps(event) + "\n" for event in batch).encode()
        end = time.monotonic() + DEADLINE_S
        while True:
            self.tries += 1
            status, said = self._post(name, body)
            if status == 200:
                return
            assert status in (0, 429, 503), (status, said)
            assert time.monotonic() < end, f"batch {name} is not taken"
            time.sleep(0.05)

    def _post(self, name: str, body: bytes) -> tuple[int, bytes]:
        """On this thread's own connection; the status is 0 where it broke."""
        connection = getattr(self._connections, "one", None)
        if connection is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=10)
            self._connections.one = connection
        try:
            headers = {"Content-Type": "application/x-ndjson", "Ledto-Batch": name}
            connection.request("POST", "/v1/reports", body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as fault:
            connection.close()
            self._connections.one = None
            return 0, str(fault).encode()


@dataclass(frozen=True)
class Verdict:
    """What became of reports; all of the counts but the first three are to be 0."""

    acknowledged: int
    delivered: int
    late: int
    lost: int
    doubled: int
    invented: int
    reordered: int
    """Deliveries that differ from those of an observer who was never disturbed."""
    misdated: int
    """Deliveries whose report is said to have come before it was made, or after it was acknowledged."""
    against_cause: int
    """Reports in time that were delivered before one that led to them and was in time, too."""

    @property
    def faults(self) -> int:
        return self.lost + self.doubled + self.invented + self.reordered + self.misdated + self.against_cause


class LogReader:
    """Follows the log of deliveries from its start, as a subscriber does who is never told what was killed."""

    def __init__(self, live: LiveHistory) -> None:
        self._live = live
        self.rows: list[dict[str, Any]] = []
        self._last = 0
        self.newest = 0
        """The largest time among the load's events."""

    def poll(self) -> None:
        """Take what is new; of the load only."""
        while self._live.version and len(table := self._live.deliveries(self._last, 100_000)):
            found = table.to_pylist()
            assert [row["number"] for row in found] == list(range(self._last + 1, self._last + 1 + len(found)))
            self._last = found[-1]["number"]
            mine = [row for row in found if row["computation"] == COMPUTATION]
            self.newest = max([self.newest, *(row["time"] for row in mine)])
            self.rows += mine

    def wait_for(self, time_ns: int) -> None:
        """Until an event later than this is delivered."""

        def is_delivered() -> bool:
            self.poll()
            return self.newest > time_ns

        until(is_delivered, what="what happens now is delivered")

    def wait_for_all(self, count: int) -> None:
        """Until so many events are delivered, and none waits."""

        def reached() -> bool:
            self.poll()
            state = self._live.state()
            return state is not None and len(self.rows) >= count and state.counts.waiting == 0

        until(reached, what="all is delivered")


def judge(rows: list[dict[str, Any]], acknowledged: list[dict[str, Any]], folder: Path) -> Verdict:
    """Compare the log with what was acknowledged, and with the log of an observer who was never disturbed."""
    sent = {(each["process"], each["seq"]): each for each in acknowledged}
    counted = Counter((row["process"], row["seq"]) for row in rows)
    again = undisturbed(rows, sent, folder) if counted.keys() <= sent.keys() else []
    return Verdict(
        acknowledged=len(acknowledged),
        delivered=len(rows),
        late=sum(row["late"] for row in rows),
        lost=len(sent.keys() - counted.keys()),
        doubled=sum(count - 1 for count in counted.values()),
        invented=len(counted.keys() - sent.keys()),
        reordered=sum(mine != other for mine, other in zip_longest(map(_told, rows), map(_told, again))),
        misdated=sum(not _is_dated(row, sent.get((row["process"], row["seq"]))) for row in rows),
        against_cause=_against_cause(rows, sent),
    )


def undisturbed(
    rows: list[dict[str, Any]], sent: dict[tuple[str, int], dict[str, Any]], folder: Path
) -> list[dict[str, Any]]:
    """The log of an observer to whom the same reports came at the same times, all of it in one step."""
    came = sorted(rows, key=lambda row: (row["arrival"], row["process"], row["seq"]))
    reports = [
        {
            **{name: value for name, value in sent[row["process"], row["seq"]].items() if name in REPORTS.names},
            "kind": row["kind"],
            "arrival": row["arrival"],
            "file": row["file"],
            "place": row["place"],
        }
        for row in came
    ]
    with LiveWriter(str(folder), LiveTerms(eps=EPS, delta=DELTA)) as writer:
        writer.step(pa.Table.from_pylist(reports, REPORTS), now=came[-1]["arrival"])
        writer.step(REPORTS.empty_table(), now=came[-1]["arrival"] + 60 * 10**9)
    deliveries: list[dict[str, Any]] = LiveHistory(str(folder)).deliveries(0, len(rows) + 1).to_pylist()
    return deliveries


def _told(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("process", "seq", "at", "waited", "late", "missing"))


def _is_dated(row: dict[str, Any], report: dict[str, Any] | None) -> bool:
    return report is None or report["time"] <= row["arrival"] <= report["acknowledged"]


def _against_cause(rows: list[dict[str, Any]], sent: dict[tuple[str, int], dict[str, Any]]) -> int:
    place = {(row["process"], row["seq"]): number for number, row in enumerate(rows) if not row["late"]}
    sender = {each["sends"]: key for key, each in sent.items() if "sends" in each}
    wrong = 0
    for (process, seq), number in place.items():
        received = sent.get((process, seq), {}).get("receives")
        causes = [(process, seq - 1), sender.get(received)]
        wrong += any(cause in place and place[cause] > number for cause in causes)
    return wrong
