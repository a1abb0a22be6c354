"""How long after its time a reader of a live history sees an event, when reports come steadily."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.collector import post
from benchmarks.histories import is_trial
from benchmarks.report import Goal, Section
from benchmarks.service import served
from ledto.live import LiveHistory

REPORTS_A_SECOND, BATCH, CLIENTS = 1_000, 10, 2
SECONDS, WARM_UP_SECONDS = 40.0, 8.0
POLL_SECONDS = 0.05
START_SECONDS = 180.0
"""For Spark to be there, at most."""
TRIGGER_SECONDS = 1.0
MICRO_BATCHES = 2

Longs = NDArray[np.int64]


@dataclass
class Seen:
    """Deliveries as a reader saw them, and the commits that brought them."""

    tables: list[pa.Table] = field(default_factory=list)
    seen_ns: list[Longs] = field(default_factory=list)
    commits_ns: list[int] = field(default_factory=list)
    last: int = 0

    def look(self, live: LiveHistory) -> None:
        """Take what is new."""
        state = live.state()
        if state is None or (self.commits_ns and state.updated == self.commits_ns[-1]):
            return
        self.commits_ns.append(state.updated)
        table = live.deliveries(self.last, limit=1_000_000)
        if len(table):
            self.last = table["number"][-1].as_py()
            self.tables.append(table.select(["process", "seq", "time", "arrival", "at", "late"]))
            self.seen_ns.append(np.full(len(table), time.time_ns()))


def watch(live: LiveHistory, seen: Seen, ended: threading.Event) -> None:
    """Look for deliveries again and again."""
    while not ended.wait(POLL_SECONDS):
        seen.look(live)


def section() -> Section:
    seconds = SECONDS / 2 if is_trial() else SECONDS
    given = {"batch": BATCH, "batches_a_second": REPORTS_A_SECOND / BATCH / CLIENTS}
    with served("delay", "--eps", "50ms", "--delta", "500ms") as service:
        live, seen, ended = LiveHistory(str(service.history)), Seen(), threading.Event()
        sent = post(service, "first", 1.0, clients=CLIENTS, **given)
        watcher = threading.Thread(target=watch, args=(live, seen, ended), daemon=True)
        watcher.start()
        try:
            _wait_for(seen, len(sent.acknowledged) * BATCH)
            measured_from = time.time_ns() + int(WARM_UP_SECONDS * 1e9)
            sent_then = post(service, "steady", WARM_UP_SECONDS + seconds, clients=CLIENTS, **given)
            _wait_for(seen, (len(sent.acknowledged) + len(sent_then.acknowledged)) * BATCH)
        finally:
            ended.set()
            watcher.join()
    rows = pa.concat_tables(seen.tables)
    seen_ns = np.concatenate(seen.seen_ns)
    counted = rows["time"].to_numpy() >= measured_from
    happened, at, when = rows["time"].to_numpy()[counted], rows["at"].to_numpy()[counted], seen_ns[counted]
    commits = np.array([each for each in seen.commits_ns if each >= measured_from])
    between = np.diff(commits) / 1e9
    beyond, waits, whole = (when - at) / 1e9, (at - happened) / 1e9, (when - happened) / 1e9
    passed = np.searchsorted(commits, when) - np.searchsorted(commits, at)
    batch = max(TRIGGER_SECONDS, float(np.median(between)))
    late = int(np.sum(rows["late"].to_numpy(zero_copy_only=False)[counted]))
    return Section(
        "From an event to its delivery",
        f"`ledto serve`, with its stream and its broker, eps 50 ms and delta 500 ms, a micro-batch each second. {CLIENTS} clients send "
        f"{REPORTS_A_SECOND:,} reports/s in batches of {BATCH} for {seconds:.0f} s after a warm-up, and a reader asks the live history for "
        f"new deliveries every {POLL_SECONDS * 1e3:.0f} ms. Seconds from an event's time to when the reader has it: what the policy "
        "itself waits, and what comes on top. Below, how long it was from one commit to the next.",
        ("", "p50", "p99", "max"),
        [
            ("from the event to the reader, s", *_quantiles(whole)),
            ("of this, the policy's own wait, s", *_quantiles(waits)),
            ("of this, on top, s", *_quantiles(beyond)),
            ("from one commit to the next, s", *_quantiles(between)),
            (
                "commits from when it was due until it was seen",
                *(int(each) for each in np.percentile(passed, (50, 99, 100))),
            ),
        ],
        [
            Goal(
                f"99% of {len(at):,} deliveries at most the policy's wait and {MICRO_BATCHES} micro-batches after the event",
                f"{np.percentile(beyond, 99):.2f} s on top of the policy's wait; {MICRO_BATCHES} micro-batches are "
                f"{MICRO_BATCHES * batch:.2f} s",
                bool(np.percentile(beyond, 99) <= MICRO_BATCHES * batch),
            ),
            Goal(
                "in the second commit after they were due, or sooner",
                f"99% within {int(np.percentile(passed, 99))}, all within {int(passed.max())}",
                bool(np.percentile(passed, 99) <= MICRO_BATCHES),
            ),
        ],
        f"{late:,} of them came late.",
    )


def _wait_for(seen: Seen, count: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while seen.last < count:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{seen.last:,} of {count:,} reports were delivered in {START_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)


def _quantiles(values: NDArray[np.float64]) -> tuple[float, ...]:
    return tuple(float(each) for each in np.percentile(values, (50, 99, 100)))
