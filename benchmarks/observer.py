"""The observer's kernels: simulation against SimPy, delivery, and violations against the naive count."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.report import Goal, Section
from benchmarks.simpy_model import SimpyModel
from ledto.delivery.batch import deliver_batch
from ledto.delivery.policies import CBD, Exact
from ledto.delivery.sort import pack
from ledto.events.columns import ReportArrays, TrueOrder
from ledto.measures.violations import count_violations
from ledto.simulation import closest
from ledto.simulation.simulate import run


def best(call: Callable[[], object], *, runs: int = 5) -> float:
    """Seconds of CPU of this process, the least of a few runs: the kernels use one core."""
    call()
    found = []
    for _ in range(runs):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return min(found)


def simulation() -> Section:
    ours_model = closest(10, 10, 10, 0.1, messages=200_000)
    steps = run(ours_model, 1).steps
    ours = steps / best(lambda: run(ours_model, 1))
    start = time.process_time()
    simpy_steps = SimpyModel(10, 10, 10, 0.1, 4_000, 1).run().steps
    simpy = simpy_steps / (time.process_time() - start)
    ratio = ours / simpy
    return Section(
        "Simulation",
        "Clock increments a second on one core at 10 processes, eps = delta = 10, rate 0.1, in the `closest` reading: with "
        "SimPy (`benchmarks/simpy_model.py`) and with `ledto.simulation`.",
        ("", "steps/s"),
        [("SimPy", round(simpy)), ("ledto", round(ours))],
        [Goal("at least 100x SimPy", f"{ratio:,.0f}x", ratio >= 100)],
        "Bound by the merge of the stamps of arriving messages: nine receivers each merge ten elements and ten counters.",
    )


def synthetic(rows: int, processes: int, *, eps: int = 10, delta: int = 10) -> ReportArrays:
    """Reports with random stamps within the bounds, by arrival; the kernels' cost does not depend on their causality."""
    random = np.random.default_rng(1)
    r = np.sort(random.integers(0, max(1, rows * 10 // processes), rows))
    c = random.integers(0, eps + 1, rows, dtype=np.int32)
    process = random.integers(0, processes, rows, dtype=np.int32)
    seq = np.empty(rows, np.int64)
    for sender in range(processes):
        mine = process == sender
        seq[mine] = np.arange(1, mine.sum() + 1)
    kn = random.integers(0, 4, (rows, eps), dtype=np.int32)
    arrival = r + random.integers(0, delta + 1, rows)
    order = np.argsort(arrival, kind="stable")
    return ReportArrays(process[order], seq[order], r[order], c[order], kn[order], arrival[order])


def delivery() -> Section:
    rows, found = 1_000_000, {}
    for processes in (10, 100, 1000):
        reports = synthetic(rows, processes)
        lead = reports.r + reports.c
        packing = best(partial(pack, [lead], reports.kn, reports.process, reports.seq))
        whole = {p.name: best(partial(deliver_batch, reports, p)) for p in (CBD("0.6", 10, 10), Exact(10, 10))}
        found[processes] = (
            rows / (whole["cbd"] - packing) / 1e6,
            rows / whole["cbd"] / 1e6,
            rows / whole["exact"] / 1e6,
        )
    least = min(values[0] for values in found.values())
    return Section(
        "Delivery",
        "Million messages a second on one core, 10^6 reports with ten elements of kn: CBD once the keys are packed, CBD and "
        "exact delivery from columns to columns.",
        ("processes", "CBD, keys packed", "CBD, whole", "exact, whole"),
        [(processes, *values) for processes, values in found.items()],
        [Goal("CBD at least 5 million messages/s once keys are packed", f"{least:.1f} million", least >= 5)],
    )


def violations() -> Section:
    rows, found = 1_000_000, {}
    for processes in (10, 100):
        reports, truth, _ = run(closest(processes, 10, 10, 0.1, messages=rows), 1)
        order = deliver_batch(reports, CBD("0.2", 10, 10)).order
        seconds = best(partial(count_violations, truth, order), runs=3)
        found[processes] = rows / seconds / 1e6, count_violations(truth, order)
        if processes == 100:
            naive = naive_rate(truth, order)
    times = found[100][0] * 1e6 / naive
    return Section(
        "Violations",
        "Messages a second on one core for the exact count of causality violations in 10^6 simulated messages delivered by CBD "
        "at phi = 20%, and the naive count: each message against all that were delivered after it, in NumPy.",
        ("", "messages/s"),
        [
            ("10 processes", round(found[10][0] * 1e6)),
            ("100 processes", round(found[100][0] * 1e6)),
            ("naive, 100 processes (from 30 messages of the 10^6)", round(naive)),
        ],
        [
            Goal("at least 15 million messages/s at 10 processes", f"{found[10][0]:.1f} million", found[10][0] >= 15),
            Goal("at least 4 million messages/s at 100 processes", f"{found[100][0]:.1f} million", found[100][0] >= 4),
            Goal("at least 10,000x the naive count at 10^6 messages", f"{times:,.0f}x", times >= 10_000),
        ],
        "At 100 processes bound by memory: a vector of 400 bytes is read for each message, in an order that is not the one "
        "they are stored in.",
    )


def naive_rate(truth: TrueOrder, order: np.ndarray, *, sample: int = 30) -> float:
    """Messages a second of comparing one message with every later one."""
    process, seq, vector = truth.process[order], truth.seq[order], truth.vector[order]
    start = time.process_time()
    for place in range(sample):
        np.count_nonzero(vector[place, process[place + 1 :]] >= seq[place + 1 :])
    return sample / (time.process_time() - start)
