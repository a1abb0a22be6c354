"""The stamp of an event of autonomous causality: its name, and the names of all that it could have been caused by.

Properties: names are unique for ever; `relation_to` is exact; `past` lists exactly the events that happened before. The size
follows how many instances are alive at once, not how many events, forks and joins there were.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Self

from whence.clocks import json_form
from whence.clocks.errors import StampError
from whence.clocks.instances.numbers import (
    Used,
    contains,
    norm,
    numbers,
    read_member,
    read_used,
    write_member,
    write_used,
)
from whence.clocks.itc.bits import BitReader, BitWriter
from whence.clocks.itc.shares import MAX_DEPTH
from whence.clocks.relation import CausalStamp, Relation
from whence.clocks.wire import Kind, Reader, Writer, check_name

DEFAULT_ROOT = "0"
MAX_ROOTS = 1 << 12


class EventName(NamedTuple):
    """An event's name: the root that its instance grew from, and a number that no other event of that root has."""

    root: str
    number: int

    def __repr__(self) -> str:
        return f"{self.root}.{self.number}"


class AutonomousStamp(CausalStamp):
    """One event's name and past. A number of the past is a name that was used, by this event or by one before it."""

    __slots__ = ("_name", "_used")

    kind: ClassVar[Kind] = Kind.AUTONOMOUS

    _name: EventName
    _used: Mapping[str, Used]

    def __init__(self, name: EventName, used: Mapping[str, Used]) -> None:
        """Stamps are given by `Instance`; `used` has the event's own name in it."""
        if not contains(used.get(name.root, 0), name.number):
            raise StampError(f"the event {name!r} is not among the names its stamp knows")
        self._name = name
        self._used = used

    @property
    def name(self) -> EventName:
        """The event's own name."""
        return self._name

    def knows(self, name: EventName) -> bool:
        """Whether the named event is this one or happened before it."""
        return contains(self._used.get(name.root, 0), name.number)

    def past(self) -> Iterator[EventName]:
        """The names of all events that happened before this one."""
        for root, used in self._used.items():
            for number in numbers(used):
                name = EventName(root, number)
                if name != self._name:
                    yield name

    def relation_to(self, other: AutonomousStamp) -> Relation:
        if self._name == other._name:
            return Relation.EQUAL
        if other.knows(self._name):
            return Relation.BEFORE
        return Relation.AFTER if self.knows(other._name) else Relation.CONCURRENT

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AutonomousStamp):
            return NotImplemented
        return self._name == other._name and self._used == other._used

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return f"{self._name!r} after {self._used}"

    def to_bytes(self) -> bytes:
        """``header, roots (one bit for the lone default one), sets, the event's number``."""
        bits = BitWriter()
        roots = sorted(self._used)
        bits.put(roots != [DEFAULT_ROOT], 1)
        if roots != [DEFAULT_ROOT]:
            _write_roots(bits, roots, self._name.root)
        for root in roots:
            write_used(bits, self._used[root])
        write_member(bits, self._used[self._name.root], self._name.number)
        out = Writer(self.kind)
        out.raw(bits.done())
        return out.done()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        read = Reader(data, cls.kind)
        bits = BitReader(read.raw(len(read.data) - read.position))
        roots, root = _read_roots(bits) if bits.take(1) else ([DEFAULT_ROOT], DEFAULT_ROOT)
        used = {name: read_used(bits) for name in roots}
        number = read_member(bits, used[root])
        bits.end()
        stamp = cls(EventName(root, number), used)
        if stamp.to_bytes() != read.data:
            raise StampError("an autonomous stamp is written in its one shortest form")
        return stamp

    def to_json(self) -> dict[str, Any]:
        used = {root: _to_lists(tree) for root, tree in self._used.items()}
        return {"clock": "autonomous", "root": self._name.root, "number": self._name.number, "used": used}

    @classmethod
    def from_json(cls, value: object) -> Self:
        found = json_form.fields(value, "autonomous", {"root", "number", "used"})
        used = found["used"]
        if not isinstance(used, Mapping):
            raise StampError('"used" is an object of sets, one for each root')
        trees = {json_form.name(root): _from_lists(tree) for root, tree in used.items()}
        number = json_form.integer(found["number"], "number", most=1 << MAX_DEPTH + 64)
        return cls(EventName(json_form.name(found["root"]), number), trees)


def _write_roots(bits: BitWriter, roots: list[str], own: str) -> None:
    bits.number(len(roots) - 1, 0)
    for root in roots:
        raw = check_name(root)
        bits.put(len(raw), 8)
        bits.put(int.from_bytes(raw), 8 * len(raw))
    bits.number(roots.index(own), 0)


def _read_roots(bits: BitReader) -> tuple[list[str], str]:
    roots = []
    for _ in range(1 + bits.number(0)):
        length = bits.take(8)
        try:
            roots.append(bits.take(8 * length).to_bytes(length).decode())
        except UnicodeDecodeError:
            raise StampError("the name of a root is not UTF-8") from None
    own = bits.number(0)
    if own >= len(roots):
        raise StampError(f"the event belongs to root {own} of {len(roots)}")
    return roots, roots[own]


def _to_lists(used: Used) -> int | list[Any]:
    return used if isinstance(used, int) else [_to_lists(half) for half in used]


def _from_lists(value: object, depth: int = 0) -> Used:
    if not isinstance(value, list):
        return json_form.integer(value, "a first run", most=1 << MAX_DEPTH + 64)
    if len(value) != 2 or depth >= MAX_DEPTH:
        raise StampError(f"a set of names is a number or [left, right], at most {MAX_DEPTH} deep")
    left, right = _from_lists(value[0], depth + 1), _from_lists(value[1], depth + 1)
    if norm(left, right) != (left, right):
        raise StampError("a set of names is written in its normal form")
    return left, right
