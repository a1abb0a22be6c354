"""`VectorClock.receive` against the straightforward merge of two dictionaries under a lock."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from statistics import median
from threading import RLock

from benchmarks.report import Goal, Section
from ledto.clocks import VectorClock, VectorStamp

SIZES = (2, 10, 100, 1000)
ROUNDS, CALLS = 40, 500


class PlainVector:
    """What one would write: a dictionary, a loop, a copy for the stamp."""

    def __init__(self, process: str, counters: dict[str, int]) -> None:
        self.process = process
        self.counters = dict(counters)
        self.lock = RLock()

    def receive(self, stamp: dict[str, int]) -> dict[str, int]:
        with self.lock:
            mine = self.counters
            for process, count in stamp.items():
                if count > mine.get(process, 0):
                    mine[process] = count
            mine[self.process] = mine.get(self.process, 0) + 1
            return dict(mine)


def section() -> Section:
    rows = []
    for entries in SIZES:
        names = [f"process-{i:08d}" for i in range(entries - 1)]
        known = {name: i + 1 for i, name in enumerate(names)}
        news = {name: count + i % 2 for i, (name, count) in enumerate(known.items())}
        ours = VectorClock("me")
        ours.receive(VectorStamp(known))
        plain = PlainVector("me", known)
        stamp = VectorStamp(news | {"me": 1})
        plain_us, ours_us, ratio = turns(partial(plain.receive, dict(stamp)), partial(ours.receive, stamp))
        rows.append((entries, plain_us, ours_us, ratio))
    at_100 = next(row[3] for row in rows if row[0] == 100)
    return Section(
        "Vector receive",
        "Merging a stamp into a clock and stamping the receipt: entries of the vector, microseconds for a dictionary merged "
        "entry by entry, for `VectorClock.receive`, and how many times faster the latter is.",
        ("entries", "dictionary, us", "ledto, us", "ratio"),
        rows,
        [Goal("at 100 entries at least 3x a dictionary merge", f"{at_100:.1f}x", at_100 >= 3)],
        "Bound by CPython: about 0.8 us of calls, lock and stamp, then six operations on integers as long as the vector. At "
        "2 entries those calls cost more than the loop they replace.",
    )


def turns(one: Callable[[], object], other: Callable[[], object]) -> tuple[float, float, float]:
    """Microseconds of both, and the median ratio, measured in turns so that a slow moment touches both."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        for call, found in zip((one, other), times, strict=True):
            start = time.perf_counter()
            for _ in range(CALLS):
                call()
            found.append((time.perf_counter() - start) / CALLS)
    ratio = median(a / b for a, b in zip(*times, strict=True))
    return median(times[0]) * 1e6, median(times[1]) * 1e6, ratio
