"""Repeat Figure 8 of the HCG paper: how many of the messages that a gateway receives each protocol orders, over lambda.

The paper says "each process sends a message every lambda time units". The readings are exponential gaps of that mean, and
strict periods. Our copy of the paper does not show its lambda axis, so lambda is in message delays d.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from ledto.papers.artefacts import Artefact
from ledto.papers.curves import Spread
from ledto.papers.findings import Statement, StatementVerdict, all_of
from ledto.papers.report import Chapter, Effort, judge
from ledto.simulation import OrderedShares, SimulatedGroup, ordered_ratios, simulate_group
from ledto.simulation.group import Gaps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DELAY = 10_000
LAMBDAS = (0.25, 0.5, 0.625, 0.75, 0.875, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Values of lambda, in message delays."""
JUDGED = tuple(gap for gap in LAMBDAS if 0.5 <= gap <= 1.0)
"""The values of lambda that are judged. The range is ours: the stated ratios are met about there."""
READINGS: tuple[Gaps, ...] = get_args(Gaps)


@dataclass(frozen=True, slots=True)
class GroupCell:
    """A task that simulates a subgroup, and returns the shares of ordered pairs."""

    group: SimulatedGroup
    seed: int

    def __call__(self) -> OrderedShares:
        return ordered_ratios(simulate_group(self.group, self.seed))


Results = Mapping[float, list[OrderedShares]]
"""By lambda: the shares for each seed."""


def plan(effort: Effort) -> dict[tuple[Gaps, float, int], GroupCell]:
    """Make a task for each reading, lambda and seed."""
    return {
        (gaps, gap, seed): GroupCell(
            SimulatedGroup(round(gap * DELAY), delay=DELAY, messages=effort.messages, gaps=gaps), seed
        )
        for gaps in READINGS
        for gap in LAMBDAS
        for seed in range(1, effort.seeds + 1)
    }


MEASURES: dict[str, Callable[[OrderedShares], float]] = {
    "hcg_pct": lambda shares: 100 * shares.hcg,
    "lt_pct": lambda shares: 100 * shares.linear,
    "vt_pct": lambda shares: 100 * shares.vector,
    "hcg_below_lt_pct": lambda shares: 100 * (1 - shares.hcg / shares.linear),
    "hcg_over_vt": lambda shares: shares.hcg / shares.vector if shares.vector else float("inf"),
    "unnecessary_points": lambda shares: 100 * (shares.hcg - shares.vector),
}


def _in_range(measure: str, low: float, high: float) -> Callable[[Results], StatementVerdict]:
    def check(results: Results) -> StatementVerdict:
        spreads = {gap: Spread.of(map(MEASURES[measure], results[gap])) for gap in JUDGED}
        return all_of((f"λ = {gap} d: {spread}", low <= spread.mean <= high) for gap, spread in spreads.items())

    return check


_AT = "at every λ from 0.5 d to 1 d"

STATED: tuple[Statement[Results], ...] = (
    Statement(
        "4, Fig. 8",
        "HCG orders 15-20% fewer messages than LT",
        f"1 - HCG/LT from 15% to 20% {_AT}",
        ("fig8",),
        _in_range("hcg_below_lt_pct", 15, 20),
    ),
    Statement(
        "4, Fig. 8",
        "HCG orders about twice as many as VT",
        f"HCG/VT from 1.75 to 2.25 {_AT}",
        ("fig8",),
        _in_range("hcg_over_vt", 1.75, 2.25),
        limit="ours",
    ),
    Statement(
        "4, Fig. 8",
        "HCG orders about 35% of messages unnecessarily",
        f"HCG - VT from 30 to 40 points {_AT}",
        ("fig8",),
        _in_range("unnecessary_points", 30, 40),
        limit="ours",
    ),
)


def make_chapter(planned: Iterable[tuple[Gaps, float, int]], results: Iterable[OrderedShares]) -> Chapter:
    """Make the chapter on this paper from the results, which are in the order of the plan."""
    by_reading: dict[Gaps, dict[float, list[OrderedShares]]] = {gaps: {} for gaps in READINGS}
    for (gaps, gap, _), result in zip(planned, results, strict=True):
        by_reading[gaps].setdefault(gap, []).append(result)
    rows = [
        (gaps, gap, len(shares), *(Spread.of(map(measure, shares)) for measure in MEASURES.values()))
        for gaps, by_gap in by_reading.items()
        for gap, shares in by_gap.items()
    ]
    columns = ("gaps", "lambda_in_delays", "seeds", *(c for name in MEASURES for c in (name, f"{name}_sd")))

    def draw(picture: Figure) -> None:
        grid = picture.subplots(1, len(READINGS), squeeze=False)
        for axes, (gaps, by_gap) in zip(grid[0], by_reading.items(), strict=True):
            for name, label in (("lt_pct", "LT"), ("hcg_pct", "HCG"), ("vt_pct", "VT")):
                spreads = [Spread.of(map(MEASURES[name], by_gap[gap])) for gap in LAMBDAS]
                axes.errorbar(LAMBDAS, [s.mean for s in spreads], yerr=[s.sd or 0.0 for s in spreads], label=label)
            axes.set(title=f"{gaps} gaps", xlabel="λ in message delays", ylabel="ordered messages, %", ylim=(0, 100))
            axes.legend()
        picture.suptitle("Ratio of causally ordered messages")

    artefact = Artefact("hcg_fig8_ordered", columns, rows, draw, size_inches=(8, 3.6))
    findings = [finding for gaps in READINGS for finding in judge(STATED, gaps, by_reading[gaps], {"fig8"})]
    notes = (
        "Consecutive arrivals at the gateway of a subgroup of four, unicast, constant delay d, clocks in step (τ = 0). "
        'Readings of "every λ time units": exponential gaps of mean λ, and strict periods. The range of λ that is judged '
        "is ours: the paper's axis is not known, and the ratios are met about there.",
    )
    return Chapter(
        "Group communication with heterogeneous clocks (HCG)",
        notes,
        (artefact,),
        tuple(findings),
        advice=tuple(_advise(gaps, by_reading[gaps]) for gaps in READINGS),
    )


def _advise(gaps: Gaps, results: Results) -> str:
    """Say what each protocol orders beyond what vector time must order, over the judged range of lambda."""
    means = {
        name: [Spread.of(map(MEASURES[name], results[gap])).mean for gap in JUDGED]
        for name in ("unnecessary_points", "hcg_below_lt_pct")
    }
    extra, fewer = means["unnecessary_points"], means["hcg_below_lt_pct"]
    return (
        f"{gaps} gaps: vector time inside a group, if each member can have an entry in the stamp: HCG orders "
        f"{min(extra):.0f} to {max(extra):.0f} points more than it. HCG across groups: it orders {min(fewer):.0f} to "
        f"{max(fewer):.0f}% fewer than linear time"
    )
