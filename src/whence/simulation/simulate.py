"""`simulate`: run a model with a seed; give reports and the truth about them."""

from __future__ import annotations

from typing import NamedTuple

from whence.events.columns import ReportArrays, TrueOrder
from whence.simulation.draws import NO_DRAW, last_accepted, seeded
from whence.simulation.model import Model
from whence.simulation.observer import (KernelPlan, observe)
from whence.simulation.stamper import (new_rows, ring_length)


class Simulated(NamedTuple):
    """The result of a simulation, and how long it took."""

    reports: ReportArrays
    truth: TrueOrder
    steps: int
    """How often a clock was incremented, of the processes and the observer."""


def simulate(model: Model, seed: int) -> tuple[ReportArrays, TrueOrder]:
    """Run the model until `model.messages` reports have reached the observer.

    Rows are in the order of arrival; the order of rows that arrive at one tick depends on the run only. The same model
    and seed give the same bytes on every machine. Runs of different seeds are independent.
    """
    reports, truth, _ = run(model, seed)
    return reports, truth


def run(model: Model, seed: int) -> Simulated:
    """Do as `simulate`; also return the number of steps."""
    rows = new_rows(model.messages, model.processes, model.compared)
    steps = observe(_plan(model), model.delay.last_draws(model.delta, model.rounding), seeded(seed), rows)
    reports = ReportArrays(rows.process, rows.seq, rows.r, rows.c, rows.kn, rows.arrival)
    return Simulated(reports, TrueOrder(rows.process, rows.seq, rows.vector), int(steps))


def _plan(model: Model) -> KernelPlan:
    """Turn a model into the integers of the kernel."""
    bursts, relays = model.bursts, model.relays
    return KernelPlan(
        processes=model.processes,
        eps=model.eps,
        width=model.compared,
        known_ring=ring_length(model.compared),
        due_ring=ring_length(model.longest_delay + 1),
        messages=model.messages,
        last_send=last_accepted(model.rate),
        last_loss=last_accepted(model.loss),
        to_all=int(model.recipients == "all"),
        shared_delay=int(model.delays == "shared"),
        by_sender=int(model.arrives_by == "sender"),
        on_arrival=int(model.receives == "on_arrival"),
        send_apart=int(model.receives == "before_send"),
        idle_event=int(model.idle_ticks == "local_event"),
        last_enter=last_accepted(bursts.enter) if bursts else NO_DRAW,
        last_leave=last_accepted(bursts.leave) if bursts else NO_DRAW,
        multiplier=bursts.multiplier if bursts else 1,
        relay_hops=relays.hops if relays else 0,
        relay_count=relays.count if relays else 1,
        relay_period=relays.period if relays else 1,
    )
