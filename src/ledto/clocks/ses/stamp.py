"""The stamp of a Schiper-Eggli-Sandoz message: its sender, its vector, and what its receiver must have delivered before.

The outstanding set has a small form: for each destination the sends ``{sender: counter}`` it must have delivered,
instead of whole vectors. A counter names one send, and its receiver can only know of it by having delivered it, so the
small form delays exactly the same messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self

from ledto.clocks import json_fields
from ledto.clocks.relation import CausalStamp, Relation
from ledto.clocks.vector.stamp import VectorStamp
from ledto.clocks.wire import Kind, StampReader, Writer
from ledto.errors import StampError

Sends = Mapping[str, int]
"""``{sender: counter}``: one send of each named sender."""


class OrderingStamp(CausalStamp):
    """One message's stamp, the same for every retry."""

    __slots__ = ("_clock", "_outstanding", "_sender")

    kind: ClassVar[Kind] = Kind.ORDERING

    _sender: str
    _clock: VectorStamp
    _outstanding: Mapping[str, Sends]

    def __init__(self, sender: str, clock: VectorStamp, outstanding: Mapping[str, Sends]) -> None:
        if sender not in clock:
            raise StampError(f"an ordering stamp's clock counts its sender {sender!r:.60}")
        for to, sends in outstanding.items():
            if not sends:
                raise StampError(f"nothing is outstanding for {to!r:.60}: leave it out")
            for process, count in sends.items():
                if not 0 < count <= clock.get(process, 0):
                    raise StampError(f"send {count} of {process!r:.60} is outstanding but not in the stamp's clock")
        self._sender = sender
        self._clock = clock
        self._outstanding = outstanding

    @classmethod
    def trusted(cls, sender: str, clock: VectorStamp, outstanding: Mapping[str, Sends]) -> OrderingStamp:
        """Make a stamp from parts that an `OrderingClock` made; checks nothing."""
        stamp = object.__new__(cls)
        stamp._sender, stamp._clock, stamp._outstanding = sender, clock, outstanding
        return stamp

    @property
    def sender(self) -> str:
        """The process that sent the message."""
        return self._sender

    @property
    def clock(self) -> VectorStamp:
        """The vector of the send event."""
        return self._clock

    @property
    def outstanding(self) -> Mapping[str, Sends]:
        """For each destination: sends to it that the sender knew of, and did not know to be delivered."""
        return MappingProxyType(dict(self._outstanding))

    def needs(self, receiver: str) -> Sends:
        """Return the sends that `receiver` must have delivered before this message."""
        return self._outstanding.get(receiver, {})

    def relation_to(self, other: OrderingStamp) -> Relation:
        return self._clock.relation_to(other._clock)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, OrderingStamp):
            return NotImplemented
        return (self._sender, self._clock, self._outstanding) == (other._sender, other._clock, other._outstanding)

    def __hash__(self) -> int:
        return hash((self._sender, self._clock))

    def __repr__(self) -> str:
        waits = " ".join(
            f"{to}<-{'+'.join(f'{p}:{n}' for p, n in sorted(sends.items()))}"
            for to, sends in sorted(self._outstanding.items())
        )
        return f"{self._sender}{self._clock!r}" + (f"[{waits}]" if waits else "")

    def to_bytes(self) -> bytes:
        """Encode ``header, sender, length of vector, vector, destinations``; senders are positions in the vector's names."""
        out = Writer(self.kind)
        out.text(self._sender)
        clock = self._clock.to_bytes()
        out.varint(len(clock))
        out.raw(clock)
        write_sends(out, self._outstanding, self._clock)
        return out.done()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        read = StampReader(data, cls.kind)
        sender = read.text()
        clock = VectorStamp.from_bytes(read.raw(read.count(least_bytes_each=1)))
        outstanding = read_sends(read, clock)
        read.end()
        return cls(sender, clock, outstanding)

    def to_json(self) -> dict[str, Any]:
        form: dict[str, Any] = {"clock": "ordering", "sender": self._sender, "vector": self._clock.to_json()}
        form["outstanding"] = {to: dict(sends) for to, sends in self._outstanding.items()}
        return form

    @classmethod
    def from_json(cls, value: object) -> Self:
        fields = json_fields.read_fields(value, "ordering", {"sender", "vector", "outstanding"})
        waits = fields["outstanding"]
        if not isinstance(waits, Mapping) or not all(isinstance(sends, Mapping) for sends in waits.values()):
            raise StampError('"outstanding" is an object of objects: {destination: {sender: counter}}')
        outstanding = {
            json_fields.read_name(to): {
                json_fields.read_name(process): json_fields.read_integer(count, "a counter")
                for process, count in sends.items()
            }
            for to, sends in waits.items()
        }
        return cls(json_fields.read_name(fields["sender"]), VectorStamp.from_json(fields["vector"]), outstanding)


def write_sends(out: Writer, outstanding: Mapping[str, Sends], clock: VectorStamp) -> None:
    """Write outstanding sends, sorted; a sender is written as its position among the clock's processes."""
    position = {name: i for i, name in enumerate(clock)}
    out.varint(len(outstanding))
    for to, sends in sorted(outstanding.items()):
        out.text(to)
        out.varint(len(sends))
        for process in sorted(sends):
            out.varint(position[process])
            out.varint(sends[process])


def read_sends(read: StampReader, clock: VectorStamp) -> dict[str, Sends]:
    """Read what `write_sends` wrote; raises `StampError` for a send that the clock does not know of."""
    names = tuple(clock)
    outstanding: dict[str, Sends] = {}
    last_to = ""
    for _ in range(read.count(least_bytes_each=5)):
        to = read.text()
        if to <= last_to:
            raise read.fail("destinations in sorted order")
        sends: dict[str, int] = {}
        last = -1
        for _ in range(read.count(least_bytes_each=2)):
            position = read.varint()
            if not last < position < len(names):
                raise read.fail("positions of senders in rising order")
            sends[names[position]] = read.varint(at_most=clock[names[position]])
            last = position
        if not sends or not all(sends.values()):
            raise read.fail("at least one send, counted from 1")
        outstanding[to] = sends
        last_to = to
    return outstanding
