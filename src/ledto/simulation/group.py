"""The structured group of the HCG evaluation (section 4, Figures 7 and 8): a gateway and its local processes.

Each process sends a message to one other, drawn uniformly, again and again; every message takes the same time. Physical
clocks are perfectly synchronised (tau = 0). One reading of Figure 8 meets its stated ratios (HCG orders 15-20% fewer
than LT, about twice as many as VT, about 35 points too many): compare *consecutive arrivals at the gateway*, with
exponential gaps whose mean lies between half a delay and one delay. It gives 16-21% fewer, 1.8-2.0 times as many, 33-35
points. Strictly periodic sends do not meet all three at any period.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ledto.events.columns import Ints
from ledto.kernels import kernel
from ledto.simulation.draws import below, exponential, seeded
from ledto.simulation.flight import doubled

GATEWAY = 0
"""The gateway's number; the local processes follow."""

Gaps = Literal["exponential", "periodic"]
"""The times between two sends of a process: exponential, or always the same after a drawn start."""


@dataclass(frozen=True, slots=True)
class SimulatedGroup:
    """The parameters of Figure 8; `ValueError` for values that are not allowed."""

    gap: int
    """lambda: the mean time between two sends of one process, in the delay's unit; from 1."""
    _: KW_ONLY
    delay: int = 10_000
    """d: how long every message takes; from 1. The unit is fine because times are integers."""
    processes: int = 4
    """The gateway and its local processes; at least 2."""
    messages: int = 20_000
    """How many messages the gateway receives until the run ends; at least 2."""
    gaps: Gaps = "exponential"

    def __post_init__(self) -> None:
        limits = (("gap", 1, 1 << 31), ("delay", 1, 1 << 31), ("processes", 2, 1 << 16), ("messages", 2, 1 << 31))
        for name, least, end in limits:
            value = getattr(self, name)
            if not (isinstance(value, int) and least <= value < end):
                raise ValueError(f"{name} must be an integer from {least} and below {end}, not {value!r}")
        if self.gaps not in ("exponential", "periodic"):
            raise ValueError(f"gaps must be 'exponential' or 'periodic', not {self.gaps!r}")


class GroupMessages(NamedTuple):
    """All messages of a run in the order they were sent, in columns; at the end some are still under way."""

    sender: Ints
    """int32."""
    recipient: Ints
    """int32; only messages to `GATEWAY` are compared."""
    sent: Ints
    """int64, Ts; since physical clocks agree it is also the stamp RT."""
    received: Ints
    """int64, Tr."""
    linear: Ints
    """int64, LT: incremented at a send, raised to the message's at a receipt."""
    vector: Ints
    """int32, two-dimensional, VT: counts each process's sends."""


class OrderedShares(NamedTuple):
    """Shares, from 0 to 1, of the pairs of consecutive arrivals at the gateway that each protocol orders."""

    hcg: float
    """LT differs, and RT does not contradict it (section 3.4 with tau = 0)."""
    linear: float
    """LT differs."""
    vector: float
    """Truly causally ordered."""


def simulate_group(group: SimulatedGroup, seed: int) -> GroupMessages:
    """Run the group until the gateway has received `group.messages`; the same seed gives the same bytes everywhere."""
    periodic = group.gaps == "periodic"
    table, vector = exchange(group.processes, group.delay, group.gap, periodic, group.messages, seeded(seed))
    return GroupMessages(
        table[:, _SENDER].astype(np.int32),
        table[:, _RECIPIENT].astype(np.int32),
        table[:, _SENT].copy(),
        table[:, _SENT] + group.delay,
        table[:, _LINEAR].copy(),
        vector,
    )


def ordered_ratios(messages: GroupMessages) -> OrderedShares:
    """Compute the three curves of Figure 8 at one lambda."""
    arrivals = np.flatnonzero(messages.recipient == GATEWAY)
    order = arrivals[np.argsort(messages.received[arrivals], kind="stable")]
    first, second = order[:-1], order[1:]
    rt, lt = messages.sent, messages.linear
    by_linear = lt[first] != lt[second]
    contradicted = (rt[first] != rt[second]) & ((lt[first] < lt[second]) != (rt[first] < rt[second]))
    by_vector = _precedes(messages, first, second) | _precedes(messages, second, first)
    return OrderedShares(float((by_linear & ~contradicted).mean()), float(by_linear.mean()), float(by_vector.mean()))


def _precedes(messages: GroupMessages, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Tell, row by row, whether message a happened before message b; they are never the same one."""
    sender = messages.sender[a]
    return messages.vector[b, sender] >= messages.vector[a, sender]


_SENDER, _RECIPIENT, _SENT, _LINEAR = range(4)


@kernel(
    "Tuple((int64[:, ::1], int32[:, ::1]))(int64, int64, int64, boolean, int64, uint64[::1])",
    work=lambda processes, delay, gap, periodic, wanted, state: 20 * processes * wanted,
)
def exchange(n: int, delay: int, gap: int, periodic: bool, wanted: int, state: Any) -> Any:
    """Send, and receive in the order sent, which is the order of arrival, since all messages take equally long."""
    table, vector = np.zeros((64, 4), np.int64), np.zeros((64, n), np.int32)
    clock, seen = np.zeros(n, np.int64), np.zeros((n, n), np.int32)
    following = np.empty(n, np.int64)
    for j in range(n):
        following[j] = below(state, gap) if periodic else exponential(state, gap)
    count, received, at_gateway = 0, 0, 0
    while True:
        j = int(np.argmin(following))
        now = following[j]
        while received < count and table[received, _SENT] + delay <= now:
            k = table[received, _RECIPIENT]
            clock[k] = max(clock[k], table[received, _LINEAR])
            for other in range(n):
                seen[k, other] = max(seen[k, other], vector[received, other])
            at_gateway += k == GATEWAY
            received += 1
        if at_gateway >= wanted:
            return table[:count].copy(), vector[:count].copy()
        if count == len(table):
            table, vector = doubled(table), doubled(vector)
        clock[j] += 1
        seen[j, j] += 1
        to = below(state, n - 1)
        table[count, _SENDER] = j
        table[count, _RECIPIENT] = to + (to >= j)
        table[count, _SENT] = now
        table[count, _LINEAR] = clock[j]
        vector[count] = seen[j]
        count += 1
        following[j] = now + (gap if periodic else exponential(state, gap))
