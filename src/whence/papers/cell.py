"""One cell of a sweep: a simulation run once, and every scheme and phi evaluated on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction

from whence.delivery.batch import Deliveries
from whence.events.columns import Reports, Truth
from whence.measures.delays import Delays, measure_delays
from whence.measures.violations import Violations, count_violations
from whence.papers.schemes import Scheme
from whence.simulation import Model, simulate


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run gave under one scheme and phi."""

    violations: Violations
    delays: Delays
    """Of the time between a report's arrival and its delivery, on the observer's clock."""
    latest: int
    """The observer's clock at delivery minus the sender's at the send, at most."""
    stamp_bytes: int


@dataclass(frozen=True, slots=True)
class Run:
    """One simulation with all that is asked of it; calling it runs it, here or on a worker."""

    model: Model
    seed: int
    asked: tuple[tuple[Scheme, Fraction], ...]

    def __call__(self) -> RunOutcome:
        return run_cell(self.model, self.seed, self.asked)


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """The outcomes of a run in the order they were asked for, and the extremes of its stamps."""

    outcomes: tuple[Outcome, ...]
    largest_c: int
    largest_kn: int


def run_cell(model: Model, seed: int, asked: Iterable[tuple[Scheme, Fraction]]) -> RunOutcome:
    """Simulate once and evaluate every scheme at its phi. The same arguments give the same result everywhere."""
    reports, truth = simulate(model, seed)
    stamped: dict[str, Reports] = {}
    outcomes = []
    for scheme, phi in asked:
        if scheme.name not in stamped:
            stamped[scheme.name] = scheme.restamp(reports, truth) if scheme.restamp else reports
        deliveries = scheme.deliver(stamped[scheme.name], model, phi)
        outcomes.append(outcome(deliveries, reports, truth, scheme.bytes_of_stamp(model)))
    return RunOutcome(tuple(outcomes), int(reports.c.max()), int(reports.kn.max()))


def outcome(deliveries: Deliveries, reports: Reports, truth: Truth, stamp_bytes: int) -> Outcome:
    """Measure deliveries of a run against its truth."""
    return Outcome(
        violations=count_violations(truth, deliveries.order),
        delays=measure_delays(deliveries.waited),
        latest=int((deliveries.at - reports.r[deliveries.order]).max()),
        stamp_bytes=stamp_bytes,
    )


Task = Callable[[], object]
"""What a sweep runs: no arguments, all it needs inside, the same result wherever it runs."""
