"""The stamp of an event of autonomous causality: its name, and the names of all events that happened before it.

Properties: names are unique for ever; `relation_to` is exact; `past` lists exactly the events that happened before. The
size depends mostly on how many instances are alive at once. It also grows, more slowly than the joins, while many stay
alive: a list of the past cannot leave out the names from small shares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Self

from ledto.clocks import json_fields
from ledto.clocks.autonomous.names import (
    HALVINGS,
    Used,
    check_used,
    contains,
    norm,
    numbers,
    read_member,
    read_used,
    write_member,
    write_used,
)
from ledto.clocks.itc.bits import BitReader, BitWriter
from ledto.clocks.relation import CausalStamp, Relation
from ledto.clocks.wire import DAMAGED, Kind, StampReader, Writer, check_name
from ledto.errors import StampError

DEFAULT_ROOT = "0"
"""The name of a root that is not given one."""
BELOW = "/"
"""Separates the line and the number of an event in the name of the line that it opened."""


class EventName(NamedTuple):
    """An event's name: its line of numbers, and its number, which no other event of that line has.

    A root's line carries the root's name. The other lines are named after the event that opened them: ``0/17``.
    """

    line: str
    number: int

    def opened(self) -> str:
        """Give the name of the line that this event would open."""
        return f"{self.line}{BELOW}{self.number}"

    def __repr__(self) -> str:
        return f"{self.line}.{self.number}"


class AutonomousStamp(CausalStamp):
    """One event's name and past: the numbers used on each line, by this event and those before it."""

    __slots__ = ("_name", "_used")

    kind: ClassVar[Kind] = Kind.AUTONOMOUS

    _name: EventName
    _used: Mapping[str, Used]

    def __init__(self, name: EventName, used: Mapping[str, Used]) -> None:
        """`Instance` makes stamps; `used` contains the event's own name."""
        if not contains(used.get(name.line, 0), name.number):
            raise StampError(f"the event {name!r} is not among the names its stamp knows")
        self._name = name
        self._used = used

    @property
    def name(self) -> EventName:
        """The event's own name."""
        return self._name

    @property
    def used(self) -> Mapping[str, Used]:
        """The used numbers of each line, this event's included; see `ledto.clocks.autonomous.names`."""
        return self._used

    def knows(self, name: EventName) -> bool:
        """Tell whether the named event is this one or happened before it."""
        return contains(self._used.get(name.line, 0), name.number)

    def past(self) -> Iterator[EventName]:
        """Yield the names of all events that happened before this one."""
        for line, used in self._used.items():
            for number in numbers(used):
                name = EventName(line, number)
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
        """Encode ``header, lines (one bit for the default root alone), sets, the event's number``."""
        bits = BitWriter()
        self.write(bits)
        out = Writer(self.kind)
        out.raw(bits.done())
        return out.done()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        read = StampReader(data, cls.kind)
        bits = BitReader(read.raw(len(read.data) - read.position))
        stamp = cls.read(bits)
        bits.end()
        if stamp.to_bytes() != read.data:
            raise StampError(f"an autonomous stamp must be in its shortest form and is not: {DAMAGED}")
        return stamp

    def write(self, bits: BitWriter) -> None:
        """Append the stamp to the bits of something larger."""
        lines = sorted(self._used)
        bits.put(lines != [DEFAULT_ROOT], 1)
        if lines != [DEFAULT_ROOT]:
            bits.number(len(lines) - 1, 0)
            for index, line in enumerate(lines):
                write_line(bits, line, lines[:index])
            bits.number(lines.index(self._name.line), 0)
        for line in lines:
            write_used(bits, self._used[line])
        write_member(bits, self._used[self._name.line], self._name.number)

    @classmethod
    def read(cls, bits: BitReader) -> Self:
        """Read what `write` wrote; the caller checks that it is the canonical spelling."""
        lines, index = [DEFAULT_ROOT], 0
        if bits.take(1):
            lines = []
            for _ in range(1 + bits.number(0)):
                lines.append(read_line(bits, lines))
            index = bits.number(0)
        if index >= len(lines):
            raise StampError(f"the event belongs to line {index} of {len(lines)}")
        used = {line: read_used(bits) for line in lines}
        check_lines(used)
        return cls(EventName(lines[index], read_member(bits, used[lines[index]])), used)

    def to_json(self) -> dict[str, Any]:
        used = {line: _to_lists(tree) for line, tree in self._used.items()}
        return {"clock": "autonomous", "line": self._name.line, "number": self._name.number, "used": used}

    @classmethod
    def from_json(cls, value: object) -> Self:
        fields = json_fields.read_fields(value, "autonomous", {"line", "number", "used"})
        used = fields["used"]
        if not isinstance(used, Mapping):
            raise StampError('"used" is an object of sets, one for each line')
        trees = {json_fields.read_name(line): check_used(_from_lists(tree)) for line, tree in used.items()}
        check_lines(trees)
        return cls(
            EventName(json_fields.read_name(fields["line"]), json_fields.read_integer(fields["number"], "number")),
            trees,
        )


def write_line(bits: BitWriter, line: str, lines: list[str]) -> None:
    """Write the name of a line: the text of a root, or the event that opened it on one of these `lines`."""
    parent, below, number = line.rpartition(BELOW)
    bits.put(bool(below), 1)
    if below:
        bits.number(lines.index(parent), 0)
        bits.number(int(number), HALVINGS)
        return
    raw = check_name(line)
    bits.put(len(raw), 8)
    bits.put(int.from_bytes(raw), 8 * len(raw))


def read_line(bits: BitReader, lines: list[str]) -> str:
    """Read what `write_line` wrote."""
    if bits.take(1):
        parent = bits.number(0)
        if parent >= len(lines):
            raise StampError(f"a line was opened on line {parent} of {len(lines)}")
        line = EventName(lines[parent], bits.number(HALVINGS)).opened()
        check_name(line)
        return line
    length = bits.take(8)
    try:
        root = bits.take(8 * length).to_bytes(length).decode()
    except UnicodeDecodeError:
        raise StampError("the name of a root is not UTF-8") from None
    if not root or BELOW in root:
        raise StampError(f"the name of a root is not empty and has no {BELOW!r}")
    return root


def check_lines(used: Mapping[str, Used]) -> None:
    """Refuse a line whose opening event is not in the stamp: it happened before all events of the line."""
    for line in used:
        parent, below, number = line.rpartition(BELOW)
        if below and not (re.fullmatch("0|[1-9][0-9]{0,18}", number) and contains(used.get(parent, 0), int(number))):
            raise StampError(f"the event that opened line {line!r:.60} is not among the names of the stamp")


def _to_lists(used: Used) -> int | list[Any]:
    return used if isinstance(used, int) else [_to_lists(half) for half in used]


def _from_lists(value: object, depth: int = 0) -> Used:
    if not isinstance(value, list):
        return json_fields.read_integer(value, "a first run")
    if len(value) != 2 or depth >= HALVINGS:
        raise StampError(f"a set of names is a number or [left, right], at most {HALVINGS} deep")
    left, right = _from_lists(value[0], depth + 1), _from_lists(value[1], depth + 1)
    if norm(left, right) != (left, right):
        raise StampError(f"a set of names must be in its normal form and is not: {DAMAGED}")
    return left, right
