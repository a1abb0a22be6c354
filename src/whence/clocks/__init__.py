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
    from whence.clocks.any_stamp import stamp_from_bytes, stamp_from_json
    from whence.clocks.autonomous.instance import Instance
    from whence.clocks.autonomous.paper import PaperInstance, PaperStamp
    from whence.clocks.autonomous.process import AutonomousMessage, AutonomousProcess
    from whence.clocks.autonomous.stamp import AutonomousStamp, EventName
    from whence.clocks.bounded.clock import BoundedClock, BoundedStamp, less
    from whence.clocks.bounded.wire import BoundedFormat
    from whence.clocks.channels.end import ChannelHub, StaleChannel
    from whence.clocks.channels.ses import OrderingChannel
    from whence.clocks.channels.vector import VectorChannel
    from whence.clocks.hcg.gateway import Forwarded, Gateway, Relay
    from whence.clocks.hcg.member import GroupMember
    from whence.clocks.hcg.stamps import GlobalStamp, LocalStamp
    from whence.clocks.hcg.structure import Group, Subgroup
    from whence.clocks.hybrid import HybridClock, HybridStamp
    from whence.clocks.itc.clock import IntervalTreeClock, IntervalTreeStamp
    from whence.clocks.lamport import LamportClock, LamportStamp
    from whence.clocks.ses.clock import OrderingClock
    from whence.clocks.ses.delivery import MissingSends, OrderedDelivery, OrderingObserver, WaitingMessage
    from whence.clocks.ses.stamp import OrderingStamp
    from whence.clocks.vector.clock import VectorClock, VectorObserver
    from whence.clocks.vector.stamp import VectorStamp
    from whence.errors import ClockDrift, ClockError, Retired, StampError, UnstampedMessage, WhenceError

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
    "WhenceError",
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
        "WhenceError",
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
            value = globals()[name] = getattr(import_module(f"whence.{module}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
