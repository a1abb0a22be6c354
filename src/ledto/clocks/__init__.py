"""Clocks, and the stamps that they put on events. Need nothing but the standard library.

A clock takes what its process does (`local`, `send`, `receive`) and gives stamps. One literal stamp of each sort:

    >>> from ledto.clocks import Group, GroupMember, LamportClock, Subgroup, VectorClock
    >>> VectorClock("orders").local()      # causal: tells all four relations
    <orders:1>
    >>> LamportClock("orders").local()     # ordered: sorts, and cannot say concurrent
    orders@1
    >>> group = Group({"G": Subgroup("gateway", ("p1", "p2"), delta_ns=1_000, max_delay_ns=None)}, tau_ns=10)
    >>> GroupMember("p1", group, physical=lambda: 1_700_000_000).send()    # neither: "may precede" or "surely concurrent"
    G/p1@1 at 1700000000ns

`docs/stamp.md` says which clock to choose. A name's module is loaded when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Not lazily: importing the module later would replace the function of the same name by the module.
from ledto.clocks.relation import CausalStamp, OrderedStamp, Relation, Stamp, relation

if TYPE_CHECKING:
    from ledto.clocks.any_stamp import stamp_from_bytes, stamp_from_json
    from ledto.clocks.autonomous.instance import Instance
    from ledto.clocks.autonomous.paper import PaperInstance, PaperStamp
    from ledto.clocks.autonomous.process import AutonomousMessage, AutonomousProcess
    from ledto.clocks.autonomous.stamp import AutonomousStamp, EventName
    from ledto.clocks.bounded.clock import BoundedClock, BoundedStamp, less
    from ledto.clocks.bounded.wire import BoundedFormat
    from ledto.clocks.channels.end import ChannelHub, StaleChannel
    from ledto.clocks.channels.ses import OrderingChannel
    from ledto.clocks.channels.vector import VectorChannel
    from ledto.clocks.hcg.gateway import Forwarded, Gateway, Relay
    from ledto.clocks.hcg.member import GroupMember
    from ledto.clocks.hcg.stamps import GlobalStamp, LocalStamp
    from ledto.clocks.hcg.structure import Group, Subgroup
    from ledto.clocks.hybrid import HybridClock, HybridStamp
    from ledto.clocks.itc.clock import IntervalTreeClock, IntervalTreeStamp
    from ledto.clocks.lamport import LamportClock, LamportStamp
    from ledto.clocks.ses.clock import OrderingClock
    from ledto.clocks.ses.delivery import MissingSends, OrderedDelivery, OrderingObserver, WaitingMessage
    from ledto.clocks.ses.stamp import OrderingStamp
    from ledto.clocks.vector.clock import VectorClock, VectorObserver
    from ledto.clocks.vector.stamp import VectorStamp
    from ledto.errors import ClockDrift, ClockError, LedtoError, Retired, StampError, UnstampedMessage

__all__ = [
    "Relation",
    "relation",
    "Stamp",
    "CausalStamp",
    "OrderedStamp",
    "LamportClock",
    "LamportStamp",
    "HybridClock",
    "HybridStamp",
    "VectorClock",
    "VectorObserver",
    "VectorStamp",
    "VectorChannel",
    "OrderingClock",
    "OrderingObserver",
    "OrderingStamp",
    "OrderedDelivery",
    "MissingSends",
    "WaitingMessage",
    "OrderingChannel",
    "ChannelHub",
    "StaleChannel",
    "BoundedClock",
    "BoundedStamp",
    "BoundedFormat",
    "less",
    "Instance",
    "AutonomousStamp",
    "EventName",
    "AutonomousProcess",
    "AutonomousMessage",
    "PaperInstance",
    "PaperStamp",
    "IntervalTreeClock",
    "IntervalTreeStamp",
    "Group",
    "Subgroup",
    "GroupMember",
    "Gateway",
    "Forwarded",
    "Relay",
    "LocalStamp",
    "GlobalStamp",
    "stamp_from_bytes",
    "stamp_from_json",
    "LedtoError",
    "StampError",
    "ClockError",
    "ClockDrift",
    "UnstampedMessage",
    "Retired",
]

_PLACES = {
    "clocks.bounded.clock": (
        "BoundedClock",
        "BoundedStamp",
        "less",
    ),
    "clocks.bounded.wire": ("BoundedFormat",),
    "clocks.channels.end": (
        "ChannelHub",
        "StaleChannel",
    ),
    "clocks.channels.ses": ("OrderingChannel",),
    "clocks.channels.vector": ("VectorChannel",),
    "clocks.any_stamp": (
        "stamp_from_bytes",
        "stamp_from_json",
    ),
    "errors": (
        "ClockDrift",
        "ClockError",
        "Retired",
        "StampError",
        "UnstampedMessage",
        "LedtoError",
    ),
    "clocks.hcg.gateway": (
        "Forwarded",
        "Gateway",
        "Relay",
    ),
    "clocks.hcg.member": ("GroupMember",),
    "clocks.hcg.stamps": (
        "GlobalStamp",
        "LocalStamp",
    ),
    "clocks.hcg.structure": (
        "Group",
        "Subgroup",
    ),
    "clocks.hybrid": (
        "HybridClock",
        "HybridStamp",
    ),
    "clocks.autonomous.instance": ("Instance",),
    "clocks.autonomous.paper": (
        "PaperInstance",
        "PaperStamp",
    ),
    "clocks.autonomous.process": (
        "AutonomousMessage",
        "AutonomousProcess",
    ),
    "clocks.autonomous.stamp": (
        "AutonomousStamp",
        "EventName",
    ),
    "clocks.itc.clock": (
        "IntervalTreeClock",
        "IntervalTreeStamp",
    ),
    "clocks.lamport": (
        "LamportClock",
        "LamportStamp",
    ),
    "clocks.ses.clock": ("OrderingClock",),
    "clocks.ses.delivery": (
        "MissingSends",
        "OrderedDelivery",
        "WaitingMessage",
        "OrderingObserver",
    ),
    "clocks.ses.stamp": ("OrderingStamp",),
    "clocks.vector.clock": (
        "VectorClock",
        "VectorObserver",
    ),
    "clocks.vector.stamp": ("VectorStamp",),
}


def __getattr__(name: str) -> Any:
    for module, names in _PLACES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"ledto.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
