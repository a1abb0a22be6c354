"""kill -9 of every part of a running service at random moments, under load: what is lost, and how long it takes to recover."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from benchmarks.histories import is_trial
from benchmarks.report import Goal, Section
from tests.service.whole_stage import Load, LogReader, Service, Verdict, judge, until, whole_service

SEED = 1998
KILLS = {"broker": 21, "worker": 19, "driver": 5, "collector": 5}
TRIAL_KILLS = {"broker": 2, "worker": 2, "driver": 1, "collector": 1}
WITHOUT = "nothing"
"""What is killed where the time of an undisturbed delivery is measured."""
MEASURED_WITHOUT = 5
LONGEST_PAUSE_S = 2.0
OVERLAP = 0.2
"""The share of kills after which recovery is not waited for: the next one may hit what is just starting."""


def section() -> Section:
    kills = TRIAL_KILLS if is_trial() else KILLS
    with TemporaryDirectory(prefix="ledto-killing-") as folder, whole_service(Path(folder)) as service:
        taken, verdict, load = _kill(service, kills, Path(folder) / "undisturbed")
        ledger = service.live.current().check().ledger
        left = _orphans(service)
    killed = sum(kills.values())
    rows: list[tuple[object, ...]] = [
        (kind, kills.get(kind, 0), len(seconds), statistics.median(seconds), max(seconds))
        for kind, seconds in taken.items()
        if seconds
    ]
    balanced = ledger["reports"] == ledger["delivered"] + ledger["duplicate"] + ledger["quarantined"]
    return Section(
        f"kill -9, {killed} times",
        f"`ledto serve` under load, while one of its parts is killed at a random moment, {killed} times: the broker, a Python "
        "process of Spark, the driver of the stream, or the service itself, which is then started again. Seconds from the kill "
        "until an event that happened after it was delivered; where nothing is killed, that is the policy's own wait (eps 50 "
        f"ms, delta 500 ms) and micro-batches of 1 s. After {OVERLAP:.0%} of the kills the next one came before recovery.",
        ("killed", "times", "recoveries measured", "median, s", "longest, s"),
        rows,
        [
            Goal(f"{killed} kills: none lost", f"{verdict.lost} of {verdict.acknowledged:,}", verdict.lost == 0),
            Goal("none delivered twice", f"{verdict.doubled} of {verdict.delivered:,}", verdict.doubled == 0),
            Goal("order unchanged", f"{verdict.reordered} in another place", verdict.reordered == 0),
            Goal("nothing before what led to it", f"{verdict.against_cause}", verdict.against_cause == 0),
            Goal("no false arrivals", f"{verdict.misdated}", verdict.misdated == 0),
            Goal("reports = delivered + duplicate + quarantined", "yes" if balanced else f"{ledger}", balanced),
            Goal("nothing left running", f"{left} processes", left == 0),
        ],
        f"{load.batches:,} batches of 1 to 15 reports from {load.processes} processes, sent {load.tries:,} times in all; "
        f"{verdict.late:,} reports came late because they could not be sent in time, and {ledger['duplicate']:,} came twice. "
        "The order is compared with that of an observer to whom the same reports came at the same times and who took them "
        "in one step.",
    )


def _kill(service: Service, kills: dict[str, int], folder: Path) -> tuple[dict[str, list[float]], Verdict, Load]:
    random = Random(SEED)
    plan = [kind for kind, times in kills.items() for _ in range(times)]
    random.shuffle(plan)
    taken: dict[str, list[float]] = {kind: [] for kind in (WITHOUT, *kills)}
    log = LogReader(service.live)
    with Load(service, seed=SEED) as load:
        log.wait_for(0)
        for kind in [WITHOUT] * MEASURED_WITHOUT + plan:
            time.sleep(random.random() * LONGEST_PAUSE_S)
            at = time.time_ns() if kind == WITHOUT else service.kill(kind, random)
            if kind == WITHOUT or random.random() >= OVERLAP:
                log.wait_for(at)
                taken[kind].append((time.time_ns() - at) / 1e9)
    log.wait_for_all(load.count())
    return taken, judge(log.rows, load.acknowledged, folder), load


def _orphans(service: Service) -> int:
    """How many processes of killed parts are still there after a while."""
    try:
        until(lambda: not service.orphans(), what="what was killed is gone", deadline_s=30)
    except AssertionError:
        return len(service.orphans())
    return 0
