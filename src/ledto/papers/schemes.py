"""Define the schemes to compare: clocks with a delivery policy, each of which gives a curve of violations over phi.

`SCHEMES` lists them. To compare a clock or a policy of your own, make a `Scheme` and pass it to
`ledto.papers.cell.run_cell`, or add it to a figure's lines; docs/reproduce.md shows one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ledto.clocks import BoundedFormat
from ledto.delivery.batch import Deliveries, deliver_batch
from ledto.delivery.policies import CBD, DAPW, Exact, PhysicalAndC, PhysicalOnly, StampPolicy
from ledto.delivery.reference_orders import arrival_order
from ledto.events.columns import Ints, ReportArrays, TrueOrder
from ledto.kernels import kernel
from ledto.measures.stamp_bytes import stamp_bytes
from ledto.simulation import Model

Longs = NDArray[np.int64]


def hybrid_stamps(reports: ReportArrays, truth: TrueOrder) -> ReportArrays:
    """Return the same reports with ``(wall, counter)`` as stamps: wall is `r`, and the counter is the one element of kn."""
    wall = reports.r + reports.c.astype(np.int64)
    counter = hybrid_counters(wall, truth)
    return ReportArrays(
        process=reports.process,
        seq=reports.seq,
        r=wall,
        c=np.zeros_like(reports.c),
        kn=counter.astype(np.int32).reshape(-1, 1),
        arrival=reports.arrival,
    )


def hybrid_counters(wall: Ints, truth: TrueOrder) -> Longs:
    """Return the counter of each row."""
    process = np.ascontiguousarray(truth.process, np.int64)
    seq = np.ascontiguousarray(truth.seq, np.int64)
    vector = np.ascontiguousarray(truth.vector, np.int32)
    # A message has more messages in its past than each of its causes, so this order has causes first.
    order = np.argsort(vector.sum(axis=1, dtype=np.int64), kind="stable")
    lengths = np.zeros(vector.shape[1] + 1, np.int64)
    np.maximum.at(lengths[1:], process, seq)
    starts = np.cumsum(lengths + 1)
    return np.asarray(_count(order, process, seq, vector, np.ascontiguousarray(wall, np.int64), starts))


@kernel("int64[::1](int64[::1], int64[::1], int64[::1], int32[:, ::1], int64[::1], int64[::1])")
def _count(order: Longs, process: Longs, seq: Longs, vector: NDArray[np.int32], wall: Longs, starts: Longs) -> Longs:
    """Count row by row, causes first. The stamp of message s of process p is at ``starts[p] + s``."""
    processes = vector.shape[1]
    walls = np.full(starts[-1], -1, np.int64)
    counters = np.zeros(starts[-1], np.int64)
    last = np.zeros(processes, np.int64)
    result = np.zeros(len(order), np.int64)
    for row in order:
        sender, number = process[row], seq[row]
        counter = -1
        for cause in range(processes):
            number_known = min(np.int64(vector[row, cause]), last[cause])
            at = starts[cause] + number_known
            if number_known > 0 and walls[at] == wall[row]:
                counter = max(counter, counters[at])
        result[row] = counter + 1
        # A message that never reached the observer gets the stamp of the one before it.
        for missing in range(last[sender] + 1, number):
            walls[starts[sender] + missing] = walls[starts[sender] + last[sender]]
            counters[starts[sender] + missing] = counters[starts[sender] + last[sender]]
        walls[starts[sender] + number] = wall[row]
        counters[starts[sender] + number] = result[row]
        last[sender] = number
    return result


MakePolicy = Callable[[Fraction, Model], StampPolicy]


@dataclass(frozen=True, slots=True)
class Scheme:
    """A clock and a delivery policy. Must pickle with cloudpickle: a sweep sends it to Spark's workers."""

    name: str
    """The name in the CSVs."""
    label: str
    """The name in the legends."""
    deliver: Callable[[ReportArrays, Model, Fraction], Deliveries]
    """Delivers the reports of a run for a phi. The order must depend only on stamps and arrivals."""
    bytes_of_stamp: Callable[[Model], int]
    """Returns the size of a stamp on the wire, with the model's number of processes."""
    restamp: Callable[[ReportArrays, TrueOrder], ReportArrays] | None = None
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


def _hybrid_delivery(reports: ReportArrays, model: Model, phi: Fraction) -> Deliveries:
    """Deliver with CBD on hybrid stamps: in order of (wall, counter, process), due at wall + phi (delta + eps)."""
    return deliver_batch(reports, CBD(phi, model.eps, model.delta, elements=1))


def _on_arrival(reports: ReportArrays, model: Model, phi: Fraction) -> Deliveries:
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
