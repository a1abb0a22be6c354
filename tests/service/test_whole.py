"""``ledto serve`` with all its parts: the worked example, and kill -9 under load."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from examples.three_services import Truth, play
from ledto.live import LiveHistory
from ledto.service.webhooks.signatures import verify_signature
from tests.service.subscriptions_stage import Client, Receiver
from tests.service.whole_stage import MARKED, Load, LogReader, Service, judge, until, whole_service

SECRET = "a secret of the test"
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("whole")]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with whole_service(tmp_path_factory.mktemp("whole")) as running:
        yield running


def test_a_new_service_is_ready_before_the_first_report(service: Service) -> None:
    """No probe would let traffic to a new service: the first report would wait for itself."""
    assert service.ask("GET", "/readyz") == (200, {"broker": "ready", "stream": "idle"})


def test_a_subscriber_is_told_what_led_to_the_failure_and_wall_clocks_are_wrong(service: Service) -> None:
    """What the service is for: the answer holds all causes and no bystander, though every clock is off by seconds."""
    client, receiver = Client(service.port), Receiver(lambda _: None)
    try:
        made = client.subscribe(
            where="name = 'order.failed'", k=100, webhook={"url": receiver.url, "secret": SECRET}, **{"from": "start"}
        )
        truth = play(service.url)
        (told,) = client.answers(made["events_url"], 1)
        until(lambda: receiver.taken, what="the webhook is called")
    finally:
        receiver.close()
    _check_answer(told, truth)
    ((headers, body),) = receiver.taken
    assert json.loads(body) == told | {"version": json.loads(body)["version"]}
    assert verify_signature(SECRET, body, headers["Ledto-Timestamp"], headers["Ledto-Signature"])

    until(lambda: service.live.state().counts.waiting == 0, what="all is delivered")
    status, by_http = service.ask("GET", f"/v1/history/why?event={truth.failure}&k=100")
    assert status == 200
    assert [each["id"] for each in by_http["causes"]] == [each["id"] for each in told["causes"]]
    why = [sys.executable, "-m", "ledto.cli", "why", str(service.history), truth.failure, "-k", "100"]
    printed = subprocess.run([*why, "--json"], capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == by_http


def _check_answer(told: dict[str, Any], truth: Truth) -> None:
    assert told["event"]["id"] == truth.failure
    causes = [each["id"] for each in told["causes"]]
    assert [each for each in causes if each in truth.causes] == list(truth.causes)
    assert not {*causes} & {*truth.bystanders}
    assert (told["complete"], told["missing"], told["more"]) == (True, [], False)
    times = {each["id"]: each["time"] for each in told["causes"]}
    none_left = truth.causes[2]
    assert times[none_left] > told["event"]["time"], "by wall clocks, the cause would come after its effect"


def test_nothing_is_lost_doubled_or_reordered_when_parts_are_killed(service: Service, tmp_path: Path) -> None:
    """Whoever was answered 200 relies on it, whatever dies at that moment; and subscribers act on what they are told."""
    random, log, receiver = Random(6), LogReader(service.live), Receiver(lambda _: None)
    hook = {"url": receiver.url, "secret": SECRET}
    made = Client(service.port).subscribe(where=f"name = '{MARKED}'", k=3, webhook=hook, **{"from": "start"})
    try:
        with Load(service, seed=6) as load:
            log.wait_for(0)
            for kind in ("broker", "worker", "driver", "collector"):
                wanted = load.count() + random.randrange(10, 500)
                until(lambda wanted=wanted: load.count() > wanted, what="reports are taken")
                service.kill(kind, random)
                log.wait_for(time.time_ns())
        log.wait_for_all(load.count())
        marked = [row["number"] for row in log.rows if row["name"] == MARKED]
        until(lambda: marked[-1] in receiver.numbers(), what="the webhook is called for the last")
    finally:
        receiver.close()
    verdict = judge(log.rows, load.acknowledged, tmp_path / "undisturbed")
    assert verdict.faults == 0, verdict
    assert verdict.delivered == verdict.acknowledged
    assert verdict.late < verdict.delivered / 2, "too few were in time to show an order"
    assert load.tries > load.batches, "nothing was ever refused: the test shows less than it says"

    again = LogReader(LiveHistory(str(service.history)))
    again.poll()
    assert again.rows == log.rows, "what a subscriber was told has changed since"
    told = Client(service.port).answers(made["events_url"], len(marked))
    assert [(each["type"], each["number"]) for each in told] == [("answer", number) for number in marked]
    assert sorted({*receiver.numbers()}) == marked

    status, check = service.ask("GET", "/v1/history/check")
    ledger = check["ledger"]
    assert status == 200
    assert ledger["reports"] == ledger["delivered"] + ledger["duplicate"] + ledger["quarantined"]
    assert (ledger["quarantined"], ledger["duplicate"] > 0) == (0, True)
    # What is committed is forgotten by the broker, after a driver was killed, too; heartbeats keep the stream going.
    until(lambda: service.metric("ledto_broker_messages") < load.batches / 4, what="the broker's files are trimmed")
    until(lambda: not service.orphans(), what="what the killed parts had started is gone")
