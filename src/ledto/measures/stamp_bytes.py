"""Compute the size of a bounded stamp on the wire under a policy.

The layout is that of `ledto.clocks.bounded.wire.BoundedFormat`; fields that a policy does not use are not sent.
"""

from __future__ import annotations

from ledto.clocks.bounded.wire import BoundedFormat
from ledto.delivery.policies import StampPolicy


def stamp_bytes(policy: StampPolicy, processes: int, *, events_per_tick: int = 2) -> int:
    """Return the bytes of a stamp among this many processes, each with at most `events_per_tick` events in a tick."""
    if processes < 1:
        raise ValueError(f"processes is 1 or more, not {processes}")
    rule = policy.rule()
    elements = policy.eps + 1 if rule.elements is None else rule.elements
    names = tuple(map(str, range(processes)))
    bits = BoundedFormat(policy.eps, policy.delta, names, elements, events_per_tick=events_per_tick).field_bits
    fields = bits["version"] + bits["r"] + bits["process"] + elements * bits["kn"] + (bits["c"] if rule.uses_c else 0)
    return -(-fields // 8)
