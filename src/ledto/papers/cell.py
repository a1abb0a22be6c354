"""Run one simulation, and evaluate every scheme and phi on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from ledto.delivery.batch import Deliveries
from ledto.events.columns import ReportArrays, TrueOrder
from ledto.measures.delays import Delays, measure_delays
from ledto.measures.violations import Violations, count_violations
from ledto.papers.schemes import Scheme
from ledto.simulation import Model, simulate


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """The measurements of one run under one scheme and phi."""

    violations: Violations
    delays: Delays
    """The times from a report's arrival to its delivery, on the observer's clock."""
    latest: int
    """The longest time from the send, on the sender's clock, to the delivery, on the observer's clock."""
    stamp_bytes: int


@dataclass(frozen=True, slots=True)
class CellRun:
    """A task that runs one simulation, and evaluates pairs of a scheme and a phi on it."""

    model: Model
    seed: int
    asked: tuple[tuple[Scheme, Fraction], ...]

    def __call__(self) -> RunOutcome:
        return run_cell(self.model, self.seed, self.asked)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The outcomes of a run, in the order of `CellRun.asked`, and the largest values in its stamps."""

    outcomes: tuple[CellOutcome, ...]
    largest_c: int
    largest_kn: int


def run_cell(model: Model, seed: int, asked: Iterable[tuple[Scheme, Fraction]]) -> RunOutcome:
    """Simulate once, and evaluate every scheme at its phi. The same arguments give the same result on any machine."""
    reports, truth = simulate(model, seed)
    stamped: dict[str, ReportArrays] = {}
    outcomes = []
    for scheme, phi in asked:
        if scheme.name not in stamped:
            stamped[scheme.name] = scheme.restamp(reports, truth) if scheme.restamp else reports
        deliveries = scheme.deliver(stamped[scheme.name], model, phi)
        outcomes.append(measure_outcome(deliveries, reports, truth, scheme.bytes_of_stamp(model)))
    return RunOutcome(tuple(outcomes), int(reports.c.max()), int(reports.kn.max()))


def measure_outcome(deliveries: Deliveries, reports: ReportArrays, truth: TrueOrder, stamp_bytes: int) -> CellOutcome:
    """Compare the deliveries of a run with its truth."""
    return CellOutcome(
        violations=count_violations(truth, deliveries.order),
        delays=measure_delays(deliveries.waited),
        latest=int((deliveries.at - reports.r[deliveries.order]).max()),
        stamp_bytes=stamp_bytes,
    )


Task = Callable[[], object]
"""A task of a sweep. It takes no arguments, and has the same result on any machine."""
