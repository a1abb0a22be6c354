"""Lamport's clock: the smallest stamp that sorts consistently with causality.

Stamps are ordered and cannot say CONCURRENT; see `ledto.clocks.relation`. Source: Lamport 1978, rules IR1 and IR2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from ledto.clocks import json_fields
from ledto.clocks.locked import LockedClock
from ledto.clocks.relation import OrderedStamp, require
from ledto.clocks.wire import Kind, StampReader, Writer, check_name


@dataclass(frozen=True, slots=True)
class LamportStamp(OrderedStamp):
    """``(time, process)``; the process breaks ties so that the order is total."""

    kind: ClassVar[Kind] = Kind.LAMPORT

    time: int
    process: str

    def sort_key(self) -> tuple[int, str]:
        return (self.time, self.process)

    def to_bytes(self) -> bytes:
        out = Writer(self.kind)
        out.varint(self.time)
        out.text(self.process)
        return out.done()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        read = StampReader(data, cls.kind)
        stamp = cls(read.varint(), read.text())
        read.end()
        return stamp

    def to_json(self) -> dict[str, Any]:
        return {"clock": "lamport", "time": self.time, "process": self.process}

    @classmethod
    def from_json(cls, value: object) -> Self:
        found = json_fields.read_fields(value, "lamport", {"time", "process"})
        return cls(json_fields.read_integer(found["time"], "time"), json_fields.read_name(found["process"]))

    def __repr__(self) -> str:
        return f"{self.process}@{self.time}"


class LamportClock(LockedClock):
    """A counter that is larger than all counters in this process's past. Thread-safe."""

    __slots__ = ("_time", "process")

    def __init__(self, process: str) -> None:
        check_name(process)
        super().__init__()
        self.process = process
        self._time = 0

    def local(self) -> LamportStamp:
        """Stamp an event of this process."""
        return self._event(0)

    def send(self) -> LamportStamp:
        """Stamp a message; it travels with the stamp."""
        return self._event(0)

    def receive(self, stamp: LamportStamp) -> LamportStamp:
        """Stamp the receipt of a message."""
        return self._event(require(stamp, LamportStamp, "a LamportClock receives").time)

    def _event(self, heard: int) -> LamportStamp:
        with self._lock:
            self._time = max(self._time, heard) + 1
            return LamportStamp(self._time, self.process)
