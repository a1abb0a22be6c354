"""Every clock against true happened-before, at 10,000 random histories each."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from random import Random

from benchmarks.report import Goal, Section
from ledto.clocks import (
    BoundedClock,
    HybridClock,
    Instance,
    IntervalTreeClock,
    LamportClock,
    OrderingClock,
    PaperInstance,
    VectorClock,
)
from ledto.testing import Drift, check_clock
from ledto.testing.groups import GroupHistory, random_shape

HISTORIES, SHARE = 10_000, 500


def bounded(process: str, physical: Callable[[], int]) -> BoundedClock:
    return BoundedClock(process, 4, 6, physical=physical)


def hybrid(process: str, physical: Callable[[], int]) -> HybridClock:
    return HybridClock(process, physical=physical, max_offset_ns=4)


EXACT, ORDERED = "all four relations", "an effect never before its cause"
CLOCKS: dict[str, tuple[Callable[..., object], str, Drift | None]] = {
    "VectorClock": (VectorClock, EXACT, None),
    "OrderingClock": (OrderingClock, EXACT + "; causal delivery, gaps and late flags", None),
    "Instance": (Instance.root, EXACT, None),
    "PaperInstance": (PaperInstance.root, EXACT, None),
    "IntervalTreeClock": (IntervalTreeClock.seed, EXACT, None),
    "LamportClock": (LamportClock, ORDERED, None),
    "HybridClock": (hybrid, ORDERED, Drift(4, 6)),
    "BoundedClock": (bounded, ORDERED, Drift(4, 6)),
}


def checked(name: str, seed: int) -> int:
    """Pairs compared in one share of the histories; a contradiction raises."""
    make, _, drift = CLOCKS[name]
    return check_clock(make, histories=SHARE, seed=seed, drift=drift)


def checked_groups(seed: int) -> int:
    """Pairs of forwarded messages compared: what happened before may precede, and nothing else is claimed."""
    compared = 0
    for number in range(seed, seed + SHARE):
        for a, b, precedes in GroupHistory(random_shape(number, span=25), Random(number)).play().global_pairs():
            if precedes and not a.may_precede(b):
                raise AssertionError(f"history {number}: {a!r} happened before {b!r}, and the stamps rule it out")
            compared += 1
    return compared


def section() -> Section:
    rows = []
    seeds = range(0, HISTORIES, SHARE)
    with ProcessPoolExecutor(2) as pool:
        for name, (_, what, _) in CLOCKS.items():
            start = time.perf_counter()
            shares = [pool.submit(checked, name, seed) for seed in seeds]
            rows.append((name, what, HISTORIES, sum(share.result() for share in shares), time.perf_counter() - start))
        start = time.perf_counter()
        compared = sum(pool.map(checked_groups, seeds))
        rows.append(("Group", "a cause always may precede", HISTORIES, compared, time.perf_counter() - start))
    return Section(
        "Clocks against the truth",
        "Random histories with losses, duplicates and reorderings, and spawns, rendezvous, forks and joins where a clock has "
        "them; every pair of stamps is compared with reachability (`ledto.testing.check_clock`), and every stamp goes through "
        "its binary and its JSON form. The first contradiction would have stopped the run.",
        ("clock", "checked", "histories", "pairs compared", "seconds"),
        rows,
        [Goal("every clock passes 10,000 histories", f"{len(rows)} clocks passed", True)],
    )
