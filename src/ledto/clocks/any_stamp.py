"""Check the JSON values that every stamp's `from_json` reads; convert nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
from ledto.clocks.wire import MAX_COUNTER, check_name, kind_of
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


def read_fields(
    value: object, clock: str, required: set[str], *, optional: frozenset[str] = frozenset()
) -> Mapping[str, Any]:
    """Return the object's fields; `StampError` unless it is a `clock` stamp with exactly these keys."""
    if not isinstance(value, Mapping):
        raise StampError(f"a {clock} stamp in JSON is an object, not {type(value).__name__}")
    if value.get("clock") != clock:
        raise StampError(f'expected "clock": "{clock}", found {value.get("clock")!r:.60}')
    missing = required - value.keys()
    if missing:
        raise StampError(f"a {clock} stamp needs {', '.join(sorted(missing))}")
    unknown = value.keys() - required - optional - {"clock"}
    if unknown:
        raise StampError(f"a {clock} stamp has no field {min(map(str, unknown))!r:.60}")
    return value


def read_integer(value: object, name: str, *, least: int = 0, most: int = MAX_COUNTER) -> int:
    """Return a JSON integer from `least` to `most`; `StampError` for anything else, booleans and floats included."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise StampError(f"{name} is an integer, not {value!r:.60}")
    if not least <= value <= most:
        # str() raises for an int with thousands of digits.
        shown = str(value) if abs(value) < 1 << 64 else "a number of more than 64 bits"
        raise StampError(f"{name} runs from {least} to {most}, found {shown}")
    return value


def read_name(value: object) -> str:
    """Return a process id; `StampError` for what cannot be one."""
    check_name(value)
    assert isinstance(value, str)
    return value
