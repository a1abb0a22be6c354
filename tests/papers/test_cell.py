"""One cell through the command line against a recomputation that shares no code with delivery and measures."""

from __future__ import annotations

import json
from fractions import Fraction
from math import ceil
from statistics import fmean, stdev

import pytest
from typer.testing import CliRunner

from ledto.cli.main import cli
from ledto.events.columns import ReportArrays, TrueOrder
from ledto.papers.presets import PRESETS, Setting
from ledto.papers.schemes import hybrid_counters
from ledto.simulation import simulate

EPS, DELTA, PROCESSES = 6, 8, 5
SETTING = Setting(processes=PROCESSES, eps=EPS, delta=DELTA, rate=0.3)


def before(truth: TrueOrder, a: int, b: int) -> bool:
    return a != b and bool(truth.vector[b, truth.process[a]] >= truth.seq[a])


def key(reports: ReportArrays, row: int, elements: int, uses_c: bool) -> tuple[int, ...]:
    c = int(reports.c[row]) if uses_c else 0
    kn = reports.kn[row, :elements].tolist()
    return (int(reports.r[row]) + c, *kn, int(reports.process[row]), int(reports.seq[row]))


def naive_deliveries(
    reports: ReportArrays, phi: Fraction, *, elements: int, uses_c: bool, checks_queue: bool
) -> list[tuple[int, int]]:
    """(delivery time, row) in the order of delivery, from the closed form of papers/README."""
    rows = range(len(reports))
    keys = [key(reports, row, elements, uses_c) for row in rows]
    arrival = reports.arrival.tolist()
    due = [ceil(int(reports.r[row]) + phi * ((int(reports.c[row]) if uses_c else 0) + DELTA + EPS)) for row in rows]
    at = []
    for row in rows:
        time = max(arrival[row], due[row])
        if checks_queue:
            time = arrival[row]
            while any(arrival[m] <= time < due[m] for m in rows if keys[m] <= keys[row]):
                time += 1
        at.append(time)
    return sorted(((at[row], row) for row in rows), key=lambda delivery: (delivery[0], keys[delivery[1]]))


def naive_counts(truth: TrueOrder, order: list[int]) -> dict[str, float]:
    pairs = [(b, a) for place, b in enumerate(order) for a in order[place + 1 :] if before(truth, a, b)]
    too_early, too_late = {b for b, _ in pairs}, {a for _, a in pairs}
    return {
        "closest": 50 * (len(too_early) + len(too_late)) / len(order),
        "literal": 100 * len(pairs) / len(order),
        "messages_pct": 100 * len(too_early | too_late) / len(order),
        "pairs": len(pairs),
    }


@pytest.mark.parametrize("preset", ["closest", "literal"])
@pytest.mark.parametrize(
    ("options", "elements", "uses_c", "checks_queue"),
    [
        (["--policy", "cbd", "--phi", "0%"], EPS, True, True),
        (["--policy", "cbd", "--phi", "0.1", "--elements", "2"], 2, True, True),
        (["--policy", "dapw", "--phi", "0.6"], EPS, True, False),
        (["--policy", "dpc1", "--phi", "0.4"], 0, False, True),
        (["--policy", "physical-and-c", "--phi", "0"], 0, True, True),
        (["--policy", "exact"], EPS, True, False),
    ],
)
def test_a_cell_is_what_the_definitions_say(
    preset: str, options: list[str], elements: int, uses_c: bool, checks_queue: bool
) -> None:
    """Someone who computes a cell from the paper's definitions on their own must get this command's numbers."""
    given = f"--processes {PROCESSES} --eps {EPS} --delta {DELTA} --rate 0.3 --messages 150 --seeds 2 --seed 7 --json"
    done = CliRunner().invoke(cli, ["simulate", "--preset", preset, *given.split(), *options])
    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    phi = Fraction(str(printed["parameters"]["phi"]))
    counts, waits = [], []
    for seed in (7, 8):
        reports, truth = simulate(SETTING.model(PRESETS[preset], 150), seed)
        delivered = naive_deliveries(reports, phi, elements=elements, uses_c=uses_c, checks_queue=checks_queue)
        counts.append(naive_counts(truth, [row for _, row in delivered]))
        waits.append(sorted(at - int(reports.arrival[row]) for at, row in delivered))
    assert printed["messages"] == 150
    for name, naive in (("average_pct", preset), ("messages_pct", "messages_pct"), ("pairs", "pairs")):
        assert printed["violations"][name] == pytest.approx(fmean(count[naive] for count in counts)), name
        assert printed["spread"]["violations"][name] == pytest.approx(stdev(count[naive] for count in counts)), name
    for name, percent in (("p50", 50), ("p95", 95), ("p99", 99), ("max", 100)):
        # The smallest wait that at least so many percent of the waits do not exceed.
        ranked = [
            next(w for w in sorted(wait) if 100 * sum(x <= w for x in wait) >= percent * len(wait)) for wait in waits
        ]
        assert printed["delay"][name] == pytest.approx(fmean(ranked)), name
    if options[1] != "exact":
        assert sum(count["pairs"] for count in counts) > 0, "a run without inversions would prove nothing"


@pytest.mark.parametrize("preset", ["closest", "literal"])
def test_hybrid_counters_are_the_longest_chains(preset: str) -> None:
    """The comparison with hybrid clocks would be unfair if their stamps were not what such clocks would write."""
    reports, truth = simulate(SETTING.model(PRESETS[preset], 150), 3)
    wall = (reports.r + reports.c).tolist()
    counters: dict[int, int] = {}
    for row in sorted(range(len(wall)), key=lambda row: int(truth.vector[row].sum())):
        causes = [c for c in counters if wall[c] == wall[row] and before(truth, c, row)]
        counters[row] = 1 + max((counters[c] for c in causes), default=-1)
    assert hybrid_counters(reports.r + reports.c, truth).tolist() == [counters[row] for row in range(len(wall))]
    assert max(counters.values()) > 0
