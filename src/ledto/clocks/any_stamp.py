"""Read a stamp of any clock, from bytes or JSON that name the clock."""

from __future__ import annotations

from collections.abc import Mapping

from ledto.clocks.autonomous.paper import PaperStamp
from ledto.clocks.autonomous.stamp import AutonomousStamp
from ledto.clocks.bounded.clock import BoundedStamp
from ledto.clocks.hcg.stamps import GlobalStamp, LocalStamp
from ledto.clocks.hybrid import HybridStamp
from ledto.clocks.itc.clock import IntervalTreeStamp
from ledto.clocks.lamport import LamportStamp
from ledto.clocks.relation import Stamp
from ledto.clocks.ses.stamp import OrderingStamp
from ledto.clocks.vector.stamp import VectorStamp
from ledto.clocks.wire import kind_of
from ledto.errors import StampError

STAMPS: dict[str, type[Stamp]] = {
    "lamport": LamportStamp,
    "hybrid": HybridStamp,
    "vector": VectorStamp,
    "ordering": OrderingStamp,
    "bounded": BoundedStamp,
    "autonomous": AutonomousStamp,
    "paper-autonomous": PaperStamp,
    "interval-tree": IntervalTreeStamp,
    "local-group": LocalStamp,
    "global-group": GlobalStamp,
}
"""Every stamp type, by the name in its JSON form."""

_BY_KIND = {stamp.kind: stamp for stamp in STAMPS.values()}


def stamp_from_bytes(data: bytes) -> Stamp:
    """Read a stamp of the clock that the first byte names; raises `StampError`."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise StampError(f"a stamp is bytes, not {type(data).__name__}")
    kind = kind_of(bytes(data[:1]))
    if kind not in _BY_KIND:
        raise StampError(f"byte 0: a {kind.name.lower()} is not a stamp; give it to its channel")
    return _BY_KIND[kind].from_bytes(data)


def stamp_from_json(value: object) -> Stamp:
    """Read a stamp of the clock that the key ``clock`` names; raises `StampError`."""
    clock = value.get("clock") if isinstance(value, Mapping) else None
    if not isinstance(clock, str) or clock not in STAMPS:
        raise StampError(f'"clock" is one of {", ".join(STAMPS)}, not {clock!r:.60}')
    return STAMPS[clock].from_json(value)
