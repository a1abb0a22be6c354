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
    from whence.clocks.bounded.layout import BoundedFormat
    from whence.clocks.channels.end import ChannelHub, StaleChannel
    from whence.clocks.channels.ordering import OrderingChannel
    from whence.clocks.channels.vector import VectorChannel
    from whence.clocks.decoding import stamp_from_bytes, stamp_from_json
    from whence.clocks.errors import ClockDrift, ClockError, Retired, StampError, UnstampedMessage, WhenceError
    from whence.clocks.govector import GoVector
    from whence.clocks.group.gateway import Forward, Gateway, Relay
    from whence.clocks.group.member import GroupMember
    from whence.clocks.group.stamps import GlobalStamp, LocalStamp
    from whence.clocks.group.structure import Group, Subgroup
    from whence.clocks.hybrid import HybridClock, HybridStamp
    from whence.clocks.instances.instance import Instance
    from whence.clocks.instances.paper import PaperInstance, PaperStamp
    from whence.clocks.instances.process import AutonomousMessage, AutonomousProcess
    from whence.clocks.instances.stamp import AutonomousStamp, EventName
    from whence.clocks.itc.clock import IntervalTreeClock, IntervalTreeStamp
    from whence.clocks.lamport import LamportClock, LamportStamp
    from whence.clocks.ordering.clock import OrderingClock
    from whence.clocks.ordering.messages import Gap, OrderedDelivery, Waiting
    from whence.clocks.ordering.observer import OrderingObserver
    from whence.clocks.ordering.stamp import OrderingStamp
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
    "Gap",
    "Waiting",
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
    "Forward",
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
        "Forward",
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
        "Gap",
        "OrderedDelivery",
        "Waiting",
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
