"""Define the schemes to compare: clocks with a delivery policy, each of which gives a curve of violations over phi.

`SCHEMES` lists them. To compare a clock or a policy of your own, make a `Scheme` and pass it to
`whence.papers.cell.run_cell`, or add it to a figure's lines; docs/reproduce.md shows one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from whence.clocks import BoundedFormat
from whence.delivery.batch import Deliveries, deliver_batch
from whence.delivery.orderings import arrival_order
from whence.delivery.policies import CBD, DAPW, Exact, PhysicalAndC, PhysicalOnly, StampPolicy
from whence.events.columns import Reports, Truth
from whence.measures.stamp_bytes import stamp_bytes
from whence.papers.hybrid_stamps import hybrid_stamps
from whence.simulation import Model

MakePolicy = Callable[[Fraction, Model], StampPolicy]


@dataclass(frozen=True, slots=True)
class Scheme:
    """A clock and a delivery policy. Must pickle with cloudpickle: a sweep sends it to Spark's workers."""

    name: str
    """The name in the CSVs."""
    label: str
    """The name in the legends."""
    deliver: Callable[[Reports, Model, Fraction], Deliveries]
    """Delivers the reports of a run for a phi. The order must depend only on stamps and arrivals."""
    bytes_of_stamp: Callable[[Model], int]
    """Returns the size of a stamp on the wire, with the model's number of processes."""
    restamp: Callable[[Reports, Truth], Reports] | None = None
    """Returns the reports with the stamps of a clock that the simulation does not run; None if it does."""


def by_policy(name: str, label: str, policy: MakePolicy) -> Scheme:
    """Make a scheme with bounded stamps and a stamp policy."""
    return Scheme(
        name,
        label,
        lambda reports, model, phi: deliver_batch(reports, policy(phi, model)),
        lambda model: policy_bytes(policy(Fraction(1), model), model),
    )


def policy_bytes(policy: StampPolicy, model: Model) -> int:
    """Return the size of a bounded stamp that carries only what the policy compares."""
    if isinstance(policy, Exact | DAPW | CBD) and policy.elements is None:
        policy = replace(policy, elements=model.compared)
    return stamp_bytes(policy, model.processes)


def _hybrid_bytes(model: Model) -> int:
    """Return the size of a hybrid stamp: the wall part modulo B, the process, and the counter.

    A wall part of w passes on while clocks read w - eps to w, so events of n (eps + 1) ticks can share it.
    """
    bits = BoundedFormat(model.eps, model.delta, tuple(map(str, range(model.processes))), 0).field_bits
    counter_bits = (model.processes * (model.eps + 1) * 2 - 1).bit_length()
    return -(-(bits["version"] + bits["r"] + bits["process"] + counter_bits) // 8)


def _hybrid_delivery(reports: Reports, model: Model, phi: Fraction) -> Deliveries:
    """Deliver with CBD on hybrid stamps: in order of (wall, counter, process), due at wall + phi (delta + eps)."""
    return deliver_batch(reports, CBD(phi, model.eps, model.delta, elements=1))


def _on_arrival(reports: Reports, model: Model, phi: Fraction) -> Deliveries:
    order = arrival_order(reports)
    no_wait = np.zeros(len(order), np.int64)
    return Deliveries(order, reports.arrival[order].astype(np.int64), no_wait, no_wait.astype(np.bool_), 0)


def _partial(elements: int) -> Scheme:
    return by_policy(
        f"cbd-{elements}",
        f"{elements} kn elements",
        lambda phi, model: CBD(phi, model.eps, model.delta, elements=elements),
    )


SCHEMES: Mapping[str, Scheme] = MappingProxyType(
    {
        scheme.name: scheme
        for scheme in (
            by_policy("dapw", "DAPW", lambda phi, model: DAPW(phi, model.eps, model.delta)),
            by_policy("cbd", "CBD, all kn elements", lambda phi, model: CBD(phi, model.eps, model.delta)),
            _partial(2),
            _partial(4),
            _partial(6),
            by_policy("dpc1", "DPC1, wall clock", lambda phi, model: PhysicalOnly(phi, model.eps, model.delta)),
            by_policy("dpc2", "DPC2, wall clock and c", lambda phi, model: PhysicalAndC(phi, model.eps, model.delta)),
            Scheme("hlc", "hybrid logical clock", _hybrid_delivery, _hybrid_bytes, hybrid_stamps),
            Scheme("arrival", "as they arrive", _on_arrival, lambda _: 0),
        )
    }
)
