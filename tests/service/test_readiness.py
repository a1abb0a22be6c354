"""What ``/readyz`` says, and when: a new service, a full disk, a stream that cannot run."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from ledto.history.manifest import Stream
from ledto.live import LiveHistory
from ledto.service import supervisor
from ledto.service.broker import nats_server as broker
from ledto.service.broker.nats_server import Retention
from ledto.service.health import STALLED_S, HealthWatch
from ledto.service.http.limits import InFlight, Limits
from ledto.service.http.tokens import Access
from ledto.service.metrics import Metrics
from ledto.service.subscriptions.routes import subscriptions_router
from ledto.service.subscriptions.service import Subscriptions
from ledto.service.supervisor import Command, Supervised
from tests.history.manifests import stream
from tests.service.collector_stage import served, until

LINES = "application/x-ndjson"
REPORT = b'{"process":"p","seq":1}\n'
MiB = 1 << 20


class Published:
    """A broker that is there, and what it was given."""

    has_room = True
    first_report_s: float | None = None

    looks = 0

    async def info(self) -> object:
        self.looks += 1
        await asyncio.sleep(0)
        return object()


class Live:
    """A history that has had so many commits."""

    version = 0

    def state(self) -> Stream | None:
        return stream(self.version) if self.version else None


def test_a_stream_is_stalled_only_if_there_is_something_to_commit() -> None:
    """No probe would ever let traffic to a new service; or one whose stream hangs would be taken for well."""
    now_s = 1_000.0
    published, live = Published(), Live()
    watch = HealthWatch(
        published,  # type: ignore[arg-type]
        Metrics(),
        InFlight(Limits()),
        live,
        expects_stream=True,
        elapsed_s=lambda: now_s,
    )

    def after(seconds: float) -> tuple[bool, str]:
        nonlocal now_s
        now_s += seconds
        ready, found = asyncio.run(watch.readiness())
        return ready, found["stream"]

    assert after(0) == after(10 * STALLED_S) == (True, "idle")
    published.first_report_s = now_s
    assert after(STALLED_S) == (True, "starting")
    assert after(1) == (False, "stalled")
    live.version = 1
    assert after(1_000) == after(STALLED_S) == (True, "advancing")
    assert after(1) == (False, "stalled")
    live.version = 2
    assert after(0) == (True, "advancing")
    # Nothing can be committed while nothing can be stored: that is said, and the stream is not blamed for it.
    published.has_room = False
    assert after(10 * STALLED_S) == (False, "advancing")
    published.has_room = True
    assert after(STALLED_S) == (True, "advancing")


def test_a_full_disk_is_said_and_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator would look for the fault in the senders, and traffic would go on to where nothing can be stored."""
    usage = namedtuple("usage", ["total", "used", "free"])
    free = 64 * MiB
    monkeypatch.setattr(broker.shutil, "disk_usage", lambda _: usage(1 << 30, 0, free))
    with served(tmp_path / "h") as stage:
        assert stage.get("/readyz").document == {"broker": "ready"}
        free -= 1
        assert (stage.get("/readyz").status, stage.get("/readyz").document["disk"]) == (503, "full")
        refused = stage.post("/v1/reports", REPORT, LINES)
        assert (refused.status, refused.document["reason"]) == (503, "disk-full")
        assert refused.headers["retry-after"]
        assert stage.get("/healthz").status == 200
        free += 1
        assert stage.get("/readyz").document == {"broker": "ready"}
        assert stage.post("/v1/reports", REPORT, LINES).status == 200


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own; skips the test where it may not be mounted."""
    folder.mkdir()
    mount = shutil.which("mount")
    command = [str(mount), "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(file: Path) -> None:
    """Take all space that is left."""
    with file.open("wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(bytes(MiB))
    assert shutil.disk_usage(file).free < MiB


@pytest.mark.parametrize("free_bytes", [64 * MiB, 0], ids=["noticed in time", "noticed by the broker"])
def test_a_disk_that_is_full_indeed(tmp_path: Path, free_bytes: int) -> None:
    """Reports that were acknowledged would be lost, or the service would need to be started again by hand."""
    with small_disk(tmp_path / "disk", "160m") as disk:
        retention = Retention(bytes=32 * MiB, free_bytes=free_bytes)
        with served(disk / "h", retention=retention, replace_broker_after_s=0.5) as stage:
            assert stage.post("/v1/reports", REPORT, LINES).status == 200
            assert stage.get("/readyz").status == 200
            fill(disk / "filler")
            large = b'{"process":"p","seq":2,"text":"' + b"x" * 500_000 + b'"}\n'
            refused = stage.post("/v1/reports", large, LINES)
            assert refused.status == 503
            assert refused.headers["retry-after"]
            if free_bytes:
                assert stage.get("/readyz").document == {"broker": "ready", "disk": "full"}
            (disk / "filler").unlink()
            until(lambda: stage.get("/readyz").status == 200)
            until(lambda: stage.post("/v1/reports", b'{"process":"p","seq":3}', LINES).status == 200)
            assert {1, 3} <= {*stage.rows()["seq"].to_pylist()}


def test_a_subscription_on_a_full_disk_is_to_be_tried_again(tmp_path: Path) -> None:
    """The subscriber got 500, as for a fault of the program, and did not come back."""
    with small_disk(tmp_path / "disk", "1m") as disk:
        subscriptions = Subscriptions(LiveHistory(str(tmp_path / "h")), disk / "subscriptions")
        with served(tmp_path / "h", routers=(subscriptions_router(subscriptions, Access()),)) as stage:
            fill(disk / "filler")
            wanted = b'{"where": "name = \'refused\'", "k": 5}'
            refused = stage.post("/v1/subscriptions", wanted, "application/json")
            assert (refused.status, refused.document["reason"]) == (503, "disk-full")
            assert refused.headers["retry-after"]
            assert b'ledto_collector_refused_total{reason="disk-full"} 1.0' in stage.get("/metrics").body
            assert stage.get("/v1/subscriptions").document == []
            (disk / "filler").unlink()
            assert stage.post("/v1/subscriptions", wanted, "application/json").status == 201


def supervised(folder: Path, program: str) -> Supervised:
    command = Command([sys.executable, "-c", program])
    return Supervised("the stream", lambda: command, pid_file=folder / "pid", marker="no such", grace_s=10.0)


def test_a_child_that_cannot_run_says_why_and_is_not_started_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A machine without Java would start Spark every few seconds for ever, and nobody would be told why."""
    assert [supervisor.failing_wait_s(failures) for failures in (1, 2, 3, 4, 100)] == [1, 4, 16, 60, 60]
    monkeypatch.setattr(supervisor, "_FIRST_FAILING_WAIT_S", 0.01)
    monkeypatch.setattr(supervisor, "_FIRST_WAIT_S", 0.01)
    said = "print('starting'); print('no Java at /opt/secret/jdk: set JAVA_HOME'); raise SystemExit(1)"
    child = supervised(tmp_path, said)

    async def run() -> str:
        await child.start()
        try:
            while child._failures < 4:
                await asyncio.sleep(0.01)
            return child.problem or ""
        finally:
            await child.stop()

    problem = asyncio.run(run())
    assert problem.startswith("the stream ended 4 times soon after its start, with status 1: ")
    assert problem.endswith("no Java at ...: set JAVA_HOME")
    assert capfd.readouterr().err.count("no Java at /opt/secret/jdk") == 4


def test_a_child_that_is_killed_is_started_again_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was killed from outside would be taken for broken, and stay away for a minute."""
    monkeypatch.setattr(supervisor, "_LONGEST_WAIT_S", 0.02)
    monkeypatch.setattr(supervisor, "_FIRST_WAIT_S", 0.01)
    child = supervised(tmp_path, "import time; time.sleep(600)")

    async def run() -> None:
        await child.start()
        try:
            for number in range(1, 6):
                child.replace()
                while child.restarts < number or child.pid is None:
                    await asyncio.sleep(0.01)
            assert child.problem is None
        finally:
            await child.stop()

    asyncio.run(run())


def test_readiness_tells_why_the_stream_does_not_run(tmp_path: Path) -> None:
    """A probe would only say 503, and the reason would be somewhere in a log."""
    published = Published()
    watch = HealthWatch(
        published,  # type: ignore[arg-type]
        Metrics(),
        InFlight(Limits()),
        Live(),
        expects_stream=True,
        stream_problem=lambda: "the stream ended 2 times soon after its start, with status 1: no Java",
    )

    async def asked_by_many() -> tuple[bool, dict[str, str]]:
        found = await asyncio.gather(*(watch.readiness() for _ in range(100)))
        assert all(each == found[0] for each in found)
        return found[0]

    ready, found = asyncio.run(asked_by_many())
    # Whoever asks without a token, a thousand times a second, does not have the broker asked as often.
    assert published.looks == 1
    assert (ready, found["stream"]) == (False, "failing")
    assert found["reason"].endswith("no Java")
