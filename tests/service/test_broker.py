"""The broker that dies, is full, is slow or loses its parent: what was answered with 200 is there afterwards."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace
from nats.aio.client import Client

from ledto.errors import LedtoError
from ledto.history.manifest import Stream
from ledto.service.broker import publisher
from ledto.service.broker.nats_server import BrokerError, Retention, broker_url, without_secrets
from ledto.service.http.app import HttpSettings
from ledto.service.http.limits import Limits
from ledto.service.serve import ServicePlan, stream_command
from tests.history.manifests import stream
from tests.service.collector_stage import Stage, served, until

LINES = "application/x-ndjson"
CLIENTS, BATCHES, REPORTS = 4, 60, 10


def server_pid(history: Path) -> int:
    return int((history / "broker" / "server.pid").read_text())


def batch(client: int, number: int) -> bytes:
    first = number * REPORTS
    lines = (json.dumps({"process": f"c{client}", "seq": first + each}) for each in range(REPORTS))
    return "\n".join(lines).encode()


def test_a_connection_that_ends_without_a_word_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The NATS client failed at its last write to a killed broker, before it called back: all was refused from then on."""
    closed = []

    async def fail_before_calling_back(client: Client, status: int, do_cbs: bool = True) -> None:
        closed.append(client)
        client._status = Client.CLOSED
        raise ConnectionResetError

    with served(
        tmp_path / "h", settings=HttpSettings(port=0, expects_stream=False, limits=Limits(publish_s=1.0))
    ) as stage:
        assert stage.post("/v1/reports", batch(0, 0), LINES).status == 200
        with monkeypatch.context() as patched:
            patched.setattr(Client, "_close", fail_before_calling_back)
            os.kill(server_pid(stage.history), signal.SIGKILL)
            until(lambda: bool(closed))
        until(lambda: stage.post("/v1/reports", batch(0, 1), LINES).status == 200)


def test_nothing_acknowledged_is_lost_when_the_broker_is_killed(tmp_path: Path) -> None:
    """A user would lose reports that the application was told are safe, or see them twice."""
    limits = Limits(publish_s=5.0)
    with served(tmp_path / "h", settings=HttpSettings(port=0, expects_stream=False, limits=limits)) as stage:
        accepted: Counter[int] = Counter()
        statuses: Counter[int] = Counter()
        faults: list[BaseException] = []

        def send_all(client: int) -> None:
            try:
                for number in range(BATCHES):
                    status = 0
                    while status != 200:
                        answer = stage.post("/v1/reports", batch(client, number), LINES, Ledto_Batch=f"{number}")
                        status = answer.status
                        statuses[status] += 1
                        assert status in (200, 503)
                        if status == 503:
                            assert int(answer.headers["retry-after"]) >= 1
                    accepted[client] += 1
            except BaseException as fault:
                faults.append(fault)

        threads = [threading.Thread(target=send_all, args=(client,)) for client in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for share in (0.2, 0.5, 0.8):
            until(lambda share=share: accepted.total() > share * CLIENTS * BATCHES or bool(faults))
            killed = server_pid(stage.history)
            os.kill(killed, signal.SIGKILL)
            until(lambda killed=killed: server_pid(stage.history) != killed)
        for thread in threads:
            thread.join()
        assert not faults
        assert statuses[503] > 0, "no client noticed that the broker was killed"
        found = stage.rows()
        counted = Counter(zip(found["process"].to_pylist(), found["seq"].to_pylist(), strict=True))
        sent = {(f"c{client}", seq) for client in range(CLIENTS) for seq in range(BATCHES * REPORTS)}
        assert counted == Counter(dict.fromkeys(sent, 1))


def test_a_full_broker_refuses_until_there_is_room(tmp_path: Path) -> None:
    """A user would lose old reports to new ones, or be told that reports are safe that are not."""
    with served(tmp_path / "h", retention=Retention(bytes=200_000)) as stage:
        accepted = []
        for number in range(1_000):
            body = json.dumps({"process": "p", "seq": number, "noise": os.urandom(4_000).hex()}).encode()
            answer = stage.post("/v1/reports", body, LINES)
            if answer.status != 200:
                break
            accepted.append(number)
        assert answer.status == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert len(accepted) > 10
        assert stage.rows()["seq"].to_pylist() == accepted
        stage.purge()
        assert stage.post("/v1/reports", body, LINES).status == 200
        assert stage.rows()["seq"].to_pylist() == [number]


def test_a_broker_that_hangs_is_not_waited_for_and_is_replaced(tmp_path: Path) -> None:
    """A user's application would hang with the broker, or take silence for success."""
    settings = HttpSettings(port=0, expects_stream=False, limits=Limits(publish_s=0.5))
    with served(tmp_path / "h", settings=settings, replace_broker_after_s=1.0) as stage:
        stopped = server_pid(stage.history)
        os.kill(stopped, signal.SIGSTOP)
        refused = stage.post("/v1/traces", spans(), "application/json")
        assert refused.status == 503
        assert refused.document["code"] == 14
        assert "retry-after" in refused.headers
        assert stage.get("/readyz").status == 503
        assert stage.get("/healthz").status == 200
        until(lambda: stage.post("/v1/traces", spans(), "application/json").status == 200)
        assert server_pid(stage.history) != stopped
        until(lambda: stage.get("/readyz").status == 200)


def test_reports_are_refused_before_the_disk_is_full(tmp_path: Path) -> None:
    """The broker would fail to write, and every program beside it."""
    with served(tmp_path / "h", retention=Retention(bytes=1 << 20, free_bytes=1 << 60)) as stage:
        answer = stage.post("/v1/reports", b'{"process":"p","seq":1}', LINES)
        assert (answer.status, answer.document["reason"]) == (503, "disk-full")
        assert stage.stored() == []


def test_an_existing_broker_is_used_and_its_token_is_not_shown(tmp_path: Path) -> None:
    """A user with a broker of their own would get a second one, or find its token in the list of processes."""
    with served(tmp_path / "theirs") as theirs:
        url = broker_url(theirs.history)
        token = url.partition("://")[2].partition("@")[0]
        with served(tmp_path / "h", broker=url) as stage:
            assert stage.running.broker_pid is None
            assert token not in stage.running.broker
            assert stage.post("/v1/reports", b'{"process":"p","seq":1}', LINES).status == 200
        assert theirs.rows()["seq"].to_pylist() == [1]
    plan = ServicePlan(history=tmp_path / "h", settings=HttpSettings(), stream_options=["--policy", "exact"])
    command = stream_command(plan, url)
    assert token not in " ".join(command.arguments)
    assert command.environment == {"LEDTO_BROKER_TOKEN": token}


def spans() -> bytes:
    span = {"traceId": "01" * 16, "spanId": "02" * 8, "name": "x", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def test_heartbeats_tell_that_time_goes_on(tmp_path: Path) -> None:
    """Reports that wait for others would wait for ever when all applications fall silent."""
    with served(tmp_path / "h") as stage:
        assert stage.post("/v1/reports", b'{"process":"p","seq":1}', LINES).status == 200
        until(lambda: b"\nledto_broker_messages 3" in stage.get("/metrics").body)
        assert len(stage.stored()) == 1


class Waiting:
    """A history of which so many reports wait for delivery."""

    waiting = 0
    asked = 0

    def state(self) -> Stream | None:
        self.asked += 1
        if self.waiting < 0:
            raise LedtoError("torn")
        found = stream(version=1)
        return replace(found, counts=replace(found.counts, waiting=self.waiting))


def test_without_anything_that_waits_there_are_no_heartbeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each heartbeat is a micro-batch of Spark: a service that nobody uses would keep a core busy."""
    monkeypatch.setattr(publisher, "HEARTBEAT_S", 0.01)
    monkeypatch.setattr(publisher, "QUIET_AFTER_S", 0.0)
    live = Waiting()
    with served(tmp_path / "h", live=live) as stage:

        def messages() -> bytes:
            body = stage.get("/metrics").body
            return next(line for line in body.splitlines() if line.startswith(b"ledto_broker_messages "))

        def beats_go_on() -> bool:
            """Whether heartbeats come while the stream is asked a few more times."""
            asked, before = live.asked, messages()
            until(lambda: live.asked > asked + 20)
            return messages() != before

        until(lambda: not beats_go_on())
        live.waiting = 1
        until(beats_go_on)
        live.waiting = 0
        assert stage.post("/v1/reports", b'{"process":"p","seq":1}', LINES).status == 200
        until(lambda: not beats_go_on())
        live.waiting = -1
        until(beats_go_on)


def test_the_token_stays_in_files_of_its_owner_and_one_service_has_a_history(tmp_path: Path) -> None:
    """Anybody on the machine could read or forge reports; two services would tear one history."""
    with served(tmp_path / "h") as stage:
        url = broker_url(stage.history)
        token = url.partition("://")[2].partition("@")[0]
        assert len(token) > 30
        assert token not in without_secrets(url)
        assert token not in stage.running.broker
        assert token.encode() not in Path(f"/proc/{server_pid(stage.history)}/cmdline").read_bytes()
        folder = stage.history / "broker"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        holding = [path for path in folder.rglob("*") if path.is_file() and token.encode() in path.read_bytes()]
        assert {path.name for path in holding} == {"token", "server.conf"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in holding} == {0o600}
        with pytest.raises(BrokerError, match="another process serves"), served(stage.history):
            pass
        assert stage.post("/v1/reports", b'{"process":"p","seq":1}', LINES).status == 200


SERVICE = """
import asyncio, json, sys
from pathlib import Path
from ledto.service.http.app import HttpSettings
from ledto.service.serve import ServicePlan, serve

plan = ServicePlan(history=Path(sys.argv[1]), settings=HttpSettings(port=0, expects_stream=False), stream=False)
asyncio.run(serve(plan, on_ready=lambda running: print(running.http, running.broker_pid, flush=True)))
"""


def started(history: Path) -> tuple[subprocess.Popen[str], Stage, int]:
    process = subprocess.Popen([sys.executable, "-c", SERVICE, str(history)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    http, pid = process.stdout.readline().split()
    running = type("Running", (), {"http": http, "broker": ""})()
    return process, Stage(history, running, process.kill), int(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends orphans on Linux; elsewhere the next start does")
def test_the_broker_dies_with_a_killed_service_and_keeps_what_was_stored(tmp_path: Path) -> None:
    """A killed service would leave a broker that keeps the next one from starting, or reports would be gone."""
    process, stage, broker = started(tmp_path / "h")
    try:
        assert stage.post("/v1/reports", b'{"process":"p","seq":1}', LINES).status == 200
        process.kill()
        process.wait()
        until(lambda: not Path(f"/proc/{broker}").exists())
    finally:
        process.kill()
        process.wait()
    process, stage, broker = started(tmp_path / "h")
    try:
        assert stage.post("/v1/reports", b'{"process":"p","seq":2}', LINES).status == 200
        assert stage.rows()["seq"].to_pylist() == [1, 2]
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
        assert not Path(f"/proc/{broker}").exists()
    finally:
        process.kill()
        process.wait()


def test_a_server_that_an_earlier_service_left_is_ended(tmp_path: Path) -> None:
    """Where the kernel does not end orphans, the history could not be served again."""
    from ledto.service.supervisor import end_leftover

    left = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)", "our-marker"], start_new_session=True
    )
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        reaper = threading.Thread(target=left.wait)
        reaper.start()
        for process in (left, other):
            (tmp_path / "pid").write_text(f"{process.pid}\n")
            end_leftover(tmp_path / "pid", "our-marker", grace_s=10.0)
        reaper.join(10)
        assert left.returncode == -signal.SIGTERM
        assert other.poll() is None, "a process that only has the same number was ended"
    finally:
        for process in (left, other):
            process.kill()
            process.wait()
