"""Clocks, and the stamps that they put on events. Need nothing but the standard library.

A clock takes what its process does (`local`, `send`, `receive`) and gives stamps. One literal stamp of each sort::

    VectorClock("orders").local()      <orders:1>               causal: tells all four relations
    LamportClock("orders").local()     orders@1                 ordered: sorts, and cannot say concurrent
    GroupMember("p1", group).send()    G/p1@1 at 1700000000ns   neither: "may precede" or "surely concurrent"

`docs/stamp.md` says which clock to choose. A name's module is loaded when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Not lazily: importing the module later would replace the function of the same name by the module.
from whence.clocks.relation import CausalStamp, OrderedStamp, Relation, Stamp, relation

if TYPE_CHECKING:
    from whence.clocks.bounded.clock import BoundedClock, BoundedStamp, less
    from whence.clocks.bounded.wire import BoundedFormat
    from whence.clocks.channels.end import ChannelHub, StaleChannel
    from whence.clocks.channels.ses import OrderingChannel
    from whence.clocks.channels.vector import VectorChannel
    from whence.clocks.any_stamp import (stamp_from_bytes, stamp_from_json)
    from whence.errors import (ClockDrift, ClockError, Retired, StampError, UnstampedMessage, WhenceError)
    from whence.interop.govector import GoVector
    from whence.clocks.hcg.gateway import (Forwarded, Gateway, Relay)
    from whence.clocks.hcg.member import GroupMember
    from whence.clocks.hcg.stamps import (GlobalStamp, LocalStamp)
    from whence.clocks.hcg.structure import (Group, Subgroup)
    from whence.clocks.hybrid import HybridClock, HybridStamp
    from whence.clocks.autonomous.instance import Instance
    from whence.clocks.autonomous.paper import (PaperInstance, PaperStamp)
    from whence.clocks.autonomous.process import (AutonomousMessage, AutonomousProcess)
    from whence.clocks.autonomous.stamp import (AutonomousStamp, EventName)
    from whence.clocks.itc.clock import IntervalTreeClock, IntervalTreeStamp
    from whence.clocks.lamport import LamportClock, LamportStamp
    from whence.clocks.ses.clock import OrderingClock
    from whence.clocks.ses.delivery import (MissingSends, OrderedDelivery, WaitingMessage)
    from whence.clocks.ses.delivery import OrderingObserver
    from whence.clocks.ses.stamp import OrderingStamp
    from whence.clocks.vector.clock import VectorClock, VectorObserver
    from whence.clocks.vector.stamp import VectorStamp

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
    "GoVector",
    "stamp_from_bytes",
    "stamp_from_json",
    "WhenceError",
    "StampError",
    "ClockError",
    "ClockDrift",
    "UnstampedMessage",
    "Retired",
]

_PLACES = {
    "bounded.clock": (
        "BoundedClock",
        "BoundedStamp",
        "less",
    ),
    "bounded.layout": ("BoundedFormat",),
    "channels.end": (
        "ChannelHub",
        "StaleChannel",
    ),
    "channels.ordering": ("OrderingChannel",),
    "channels.vector": ("VectorChannel",),
    "decoding": (
        "stamp_from_bytes",
        "stamp_from_json",
    ),
    "errors": (
        "ClockDrift",
        "ClockError",
        "Retired",
        "StampError",
        "UnstampedMessage",
        "WhenceError",
    ),
    "govector": ("GoVector",),
    "group.gateway": (
        "Forwarded",
        "Gateway",
        "Relay",
    ),
    "group.member": ("GroupMember",),
    "group.stamps": (
        "GlobalStamp",
        "LocalStamp",
    ),
    "group.structure": (
        "Group",
        "Subgroup",
    ),
    "hybrid": (
        "HybridClock",
        "HybridStamp",
    ),
    "instances.instance": ("Instance",),
    "instances.paper": (
        "PaperInstance",
        "PaperStamp",
    ),
    "instances.process": (
        "AutonomousMessage",
        "AutonomousProcess",
    ),
    "instances.stamp": (
        "AutonomousStamp",
        "EventName",
    ),
    "itc.clock": (
        "IntervalTreeClock",
        "IntervalTreeStamp",
    ),
    "lamport": (
        "LamportClock",
        "LamportStamp",
    ),
    "ordering.clock": ("OrderingClock",),
    "ordering.messages": (
        "MissingSends",
        "OrderedDelivery",
        "WaitingMessage",
    ),
    "ordering.observer": ("OrderingObserver",),
    "ordering.stamp": ("OrderingStamp",),
    "vector.clock": (
        "VectorClock",
        "VectorObserver",
    ),
    "vector.stamp": ("VectorStamp",),
}


def __getattr__(name: str) -> Any:
    for module, names in _PLACES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"whence.clocks.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
