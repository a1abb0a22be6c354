"""Hybrid logical clocks: causal order that stays close to physical time.

Properties, for events stamped by `HybridClock`:

- ``e -> f`` implies ``stamp(e) < stamp(f)``; the converse does not hold, so there is no `Relation`;
- `wall_ns` is never behind the process's own reading and never more than `max_offset_ns` ahead of it;
- `logical` is bounded by the number of events that share one `wall_ns`.

HAZARD: the clock trusts the function that reads physical time. A reading that jumps back does no harm (`logical` counts
on). A *stamp* further ahead than `max_offset_ns` raises `ClockDrift` and changes nothing: merging it would move this clock,
and all that it sends to, into the future. Source: Kulkarni et al., Logical Physical Clocks, 2014.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from ledto.clocks import json_fields
from ledto.clocks.locked import LockedClock
from ledto.clocks.relation import OrderedStamp, require
from ledto.clocks.wire import Kind, StampReader, Writer, check_name
from ledto.errors import ClockDrift

DEFAULT_MAX_OFFSET_NS = 500_000_000


@dataclass(frozen=True, slots=True)
class HybridStamp(OrderedStamp):
    """``(wall_ns, logical, process)``: the largest wall time in the event's causal past, then a counter."""

    kind: ClassVar[Kind] = Kind.HYBRID

    wall_ns: int
    logical: int
    process: str

    def sort_key(self) -> tuple[int, int, str]:
        return (self.wall_ns, self.logical, self.process)

    def to_bytes(self) -> bytes:
        out = Writer(self.kind)
        out.varint(self.wall_ns)
        out.varint(self.logical)
        out.text(self.process)
        return out.done()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        read = StampReader(data, cls.kind)
        stamp = cls(read.varint(), read.varint(), read.text())
        read.end()
        return stamp

    def to_json(self) -> dict[str, Any]:
        return {"clock": "hybrid", "wall_ns": self.wall_ns, "logical": self.logical, "process": self.process}

    @classmethod
    def from_json(cls, value: object) -> Self:
        found = json_fields.read_fields(value, "hybrid", {"wall_ns", "logical", "process"})
        return cls(
            json_fields.read_integer(found["wall_ns"], "wall_ns"),
            json_fields.read_integer(found["logical"], "logical"),
            json_fields.read_name(found["process"]),
        )

    def __repr__(self) -> str:
        return f"{self.process}@{self.wall_ns}ns+{self.logical}"


class HybridClock(LockedClock):
    """A physical clock that never contradicts causality. Thread-safe."""

    __slots__ = ("_logical", "_physical", "_wall_ns", "max_offset_ns", "process")

    def __init__(
        self,
        process: str,
        *,
        physical: Callable[[], int] = time.time_ns,
        max_offset_ns: int = DEFAULT_MAX_OFFSET_NS,
    ) -> None:
        """`physical` gives nanoseconds; `max_offset_ns` bounds how far ahead a received stamp may be."""
        check_name(process)
        if max_offset_ns < 0:
            raise ValueError(f"max_offset_ns is 0 or more, not {max_offset_ns}")
        super().__init__()
        self.process = process
        self.max_offset_ns = max_offset_ns
        self._physical = physical
        self._wall_ns = 0
        self._logical = 0

    def local(self) -> HybridStamp:
        """Stamp an event of this process."""
        return self._event(0, 0)

    def send(self) -> HybridStamp:
        """Stamp a message; it travels with the stamp."""
        return self._event(0, 0)

    def receive(self, stamp: HybridStamp) -> HybridStamp:
        """Stamp the receipt of a message; on `ClockDrift` nothing has changed."""
        require(stamp, HybridStamp, "a HybridClock receives")
        return self._event(stamp.wall_ns, stamp.logical)

    def _event(self, heard_wall_ns: int, heard_logical: int) -> HybridStamp:
        with self._lock:
            now_ns = self._physical()
            if not isinstance(now_ns, int):
                raise TypeError(f"`physical` gives whole nanoseconds, as time.time_ns does, not {now_ns!r:.60}")
            if heard_wall_ns - now_ns > self.max_offset_ns:
                raise ClockDrift(
                    f"{self.process} was sent a stamp {heard_wall_ns - now_ns} ns ahead of its clock; max_offset_ns is "
                    f"{self.max_offset_ns}. Synchronise the sender's clock, or raise max_offset_ns on every process"
                )
            wall_ns = max(now_ns, self._wall_ns, heard_wall_ns)
            logical = -1
            if wall_ns == self._wall_ns:
                logical = self._logical
            if wall_ns == heard_wall_ns:
                logical = max(logical, heard_logical)
            self._wall_ns, self._logical = wall_ns, logical + 1
            return HybridStamp(wall_ns, logical + 1, self.process)
