"""What is compared: clocks with a delivery policy, each a curve of violations over phi.

`SCHEMES` names them all. To put a clock or a policy of one's own into the curves, build a `Scheme` and hand it to
`whence.papers.cell.run_cell` or add it to a figure's lines; docs/reproduce.md shows one.
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
    """As in the CSVs."""
    label: str
    """As in the legends."""
    deliver: Callable[[Reports, Model, Fraction], Deliveries]
    """Delivers a run's reports for a phi. The order must depend on the reports only: stamps and arrivals."""
    bytes_of_stamp: Callable[[Model], int]
    """What one stamp takes on the wire among the model's processes."""
    restamp: Callable[[Reports, Truth], Reports] | None = None
    """For a clock that the simulation does not run: the same reports as that clock would have stamped them."""


def by_policy(name: str, label: str, policy: MakePolicy) -> Scheme:
    """Bounded stamps under a stamp policy."""
    return Scheme(
        name,
        label,
        lambda reports, model, phi: deliver_batch(reports, policy(phi, model)),
        lambda model: policy_bytes(policy(Fraction(1), model), model),
    )


def policy_bytes(policy: StampPolicy, model: Model) -> int:
    """The bytes of a bounded stamp that carries what the policy compares, of what the model's stamps carry."""
    if isinstance(policy, Exact | DAPW | CBD) and policy.elements is None:
        policy = replace(policy, elements=model.compared)
    return stamp_bytes(policy, model.processes)


def _hybrid_bytes(model: Model) -> int:
    """Wall modulo B, the process, and the counter.

    A wall part of w is handed on while clocks read w - eps to w, so n (eps + 1) ticks' events can share it.
    """
    bits = BoundedFormat(model.eps, model.delta, tuple(map(str, range(model.processes))), 0).field_bits
    counter_bits = (model.processes * (model.eps + 1) * 2 - 1).bit_length()
    return -(-(bits["version"] + bits["r"] + bits["process"] + counter_bits) // 8)


def _hybrid_delivery(reports: Reports, model: Model, phi: Fraction) -> Deliveries:
    """CBD on hybrid stamps: by (wall, counter, process), due at wall + phi (delta + eps)."""
    return deliver_batch(reports, CBD(phi, model.eps, model.delta, elements=1))


def _on_arrival(reports: Reports, model: Model, phi: Fraction) -> Deliveries:
    order = arrival_order(reports)
    nothing = np.zeros(len(order), np.int64)
    return Deliveries(order, reports.arrival[order].astype(np.int64), nothing, nothing.astype(np.bool_), 0)


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
