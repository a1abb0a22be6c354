"""The names users import: a rename or a removal must be a decision, not an accident."""

import re
from pathlib import Path

import ledto.clocks
import ledto.interop
from ledto.clocks import CausalStamp, OrderedStamp, Stamp
from ledto.clocks.any_stamp import STAMPS
from ledto.clocks.wire import Kind

PAGE = Path(__file__).parents[2] / "docs" / "stamp.md"

NAMES = [
    "AutonomousMessage",
    "AutonomousProcess",
    "AutonomousStamp",
    "BoundedClock",
    "BoundedFormat",
    "BoundedStamp",
    "CausalStamp",
    "ChannelHub",
    "ClockDrift",
    "ClockError",
    "EventName",
    "Forwarded",
    "MissingSends",
    "Gateway",
    "GlobalStamp",
    "Group",
    "GroupMember",
    "HybridClock",
    "HybridStamp",
    "Instance",
    "IntervalTreeClock",
    "IntervalTreeStamp",
    "LamportClock",
    "LamportStamp",
    "LocalStamp",
    "OrderedDelivery",
    "OrderedStamp",
    "OrderingChannel",
    "OrderingClock",
    "OrderingObserver",
    "OrderingStamp",
    "PaperInstance",
    "PaperStamp",
    "Relation",
    "Relay",
    "Retired",
    "StaleChannel",
    "Stamp",
    "StampError",
    "Subgroup",
    "UnstampedMessage",
    "VectorChannel",
    "VectorClock",
    "VectorObserver",
    "VectorStamp",
    "WaitingMessage",
    "LedtoError",
    "less",
    "relation",
    "stamp_from_bytes",
    "stamp_from_json",
]


def test_public_names_are_pinned():
    """An upgrade must not break an import."""
    assert sorted(ledto.clocks.__all__) == sorted(NAMES)
    assert all(hasattr(ledto.clocks, name) for name in NAMES)


def test_the_page_about_clocks_names_what_exists():
    """A reader who copies a name from the documentation finds it in the code."""
    named = set(re.findall(r"`([A-Z][A-Za-z]+)[`.(]", PAGE.read_text(encoding="utf-8")))
    known = {*NAMES, *ledto.interop.__all__, "BEFORE", "CONCURRENT", "None"}
    assert named <= known


def test_every_kind_of_stamp_can_be_decoded():
    """A stamp that can be written must be readable by whoever gets it, and says whether it can tell concurrency."""
    kinds = {stamp.kind for stamp in STAMPS.values()}
    assert kinds == set(Kind) - {Kind.VECTOR_MESSAGE, Kind.ORDERING_MESSAGE}
    for stamp in STAMPS.values():
        assert issubclass(stamp, Stamp)
        assert not (issubclass(stamp, CausalStamp) and issubclass(stamp, OrderedStamp))
