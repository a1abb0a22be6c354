"""The stamp of a vector clock: a mapping from process to counter, packed into one integer.

Properties: `relation_to` is exact for stamps made by `VectorClock`; zero entries are left out; equal mappings are equal
stamps with equal bytes, however they were made.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, ClassVar, Self, cast

from ledto.clocks import json_fields
from ledto.clocks.relation import CausalStamp, Relation
from ledto.clocks.vector.packed import Roster, at_most, lane_bits_for, union
from ledto.clocks.wire import MAX_COUNTER, MAX_NAME_BYTES, Kind, StampReader, Writer, check_name
from ledto.errors import StampError

_WIDTHS = {1: "B", 2: "H", 4: "I", 8: "Q"}


class VectorStamp(CausalStamp, Mapping[str, int]):
    """How many events of each process the stamped event knows of, itself included; also a read-only mapping.

    Processes without known events are left out, so two stamps are equal exactly when their non-zero entries are.
    """

    __slots__ = ("_complete", "_hash", "_packed", "_roster")

    kind: ClassVar[Kind] = Kind.VECTOR

    _roster: Roster
    _packed: int
    _complete: bool

    def __init__(self, counters: Mapping[str, int], *, complete: bool = True) -> None:
        """Make a stamp from plain counters, such as those in a log."""
        if not isinstance(counters, Mapping):
            raise StampError(f"a vector stamp is a mapping of process to counter, not {type(counters).__name__}")
        for process, count in counters.items():
            check_name(process)
            json_fields.read_integer(count, f"the counter of {process!r:.60}")
        present = [process for process, count in counters.items() if count]
        roster = Roster.of(present, largest=max(counters.values(), default=0))
        self._roster = roster
        self._packed = roster.pack(counters[name] for name in roster.names)
        self._complete = complete

    @property
    def complete(self) -> bool:
        """False if an unstamped message was accepted somewhere in the past: causes may be missing."""
        return self._complete

    def known(self, process: str) -> int:
        """Return how many events of a process the stamped event knows of, 0 for a process not in the stamp."""
        roster = self._roster
        lane = roster.index.get(process)
        return 0 if lane is None else self._packed >> lane * roster.lane_bits & roster.mask

    def __getitem__(self, process: str) -> int:
        count = self.known(process)
        if not count:
            raise KeyError(process)
        return count

    def __iter__(self) -> Iterator[str]:
        return (name for name, count in zip(self._roster.names, self._counters(), strict=True) if count)

    def __len__(self) -> int:
        return sum(1 for count in self._counters() if count)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VectorStamp):
            return NotImplemented
        if self._complete is not other._complete:
            return False
        _, ours, theirs = align(self, other)
        return ours == theirs

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash: int = hash((frozenset(self.items()), self.complete))
            return self._hash

    def __repr__(self) -> str:
        entries = " ".join(f"{name}:{count}" for name, count in self.items())
        return f"<{entries}>" if self.complete else f"<{entries} incomplete>"

    def relation_to(self, other: VectorStamp) -> Relation:
        roster, ours, theirs = align(self, other)
        if ours == theirs:
            return Relation.EQUAL
        if at_most(roster, ours, theirs):
            return Relation.BEFORE
        return Relation.AFTER if at_most(roster, theirs, ours) else Relation.CONCURRENT

    def to_bytes(self) -> bytes:
        """Encode ``header, entries << 1 | incomplete, length of names, names, width, counters``."""
        roster, counters = self._roster, self._counters()
        if 0 in counters:
            roster = Roster.of(self, largest=max(counters))
            counters = tuple(filter(None, counters))
        out = Writer(self.kind)
        out.varint(len(counters) << 1 | (not self.complete))
        names = roster_to_bytes(roster)
        out.varint(len(names))
        out.raw(names)
        width = _width(max(counters, default=0))
        out.byte(width)
        out.raw(struct.pack(f"<{len(counters)}{_WIDTHS[width]}", *counters))
        return out.done()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        read = StampReader(data, cls.kind)
        head = read.varint()
        entries = head >> 1
        names = read.raw(read.count(least_bytes_each=1))
        width = read.byte()
        if width not in _WIDTHS:
            raise read.fail(f"a counter width of 1, 2, 4 or 8, found {width}")
        block = read.raw(entries * width)
        read.end()
        counters = struct.unpack(f"<{entries}{_WIDTHS[width]}", block)
        largest = max(counters, default=0)
        if 0 in counters or largest > MAX_COUNTER or _width(largest) != width:
            raise StampError("a vector stamp has counters from 1 to 2**63 - 1 in the narrowest width that holds them")
        roster = roster_from_bytes(names, lane_bits_for(largest))
        if len(roster.names) != entries:
            raise StampError(f"a vector stamp announces {entries} entries and names {len(roster.names)}")
        return cast(Self, vector_stamp(roster, roster.pack(counters), not head & 1))

    def to_json(self) -> dict[str, Any]:
        form: dict[str, Any] = {"clock": "vector", "counters": dict(self)}
        if not self.complete:
            form["complete"] = False
        return form

    @classmethod
    def from_json(cls, value: object) -> Self:
        fields = json_fields.read_fields(value, "vector", {"counters"}, optional=frozenset({"complete"}))
        counters, complete = fields["counters"], fields.get("complete", True)
        if not isinstance(counters, Mapping) or not isinstance(complete, bool):
            raise StampError(
                "a vector stamp has an object of counters and, where causes may be missing, complete: false"
            )
        return cls(counters, complete=complete)

    def _counters(self) -> tuple[int, ...]:
        return self._roster.unpack(self._packed)


def vector_stamp(roster: Roster, packed: int, complete: bool) -> VectorStamp:
    """Make a stamp from parts that are known to be right. Checks nothing: every event calls it."""
    stamp = _new(VectorStamp)
    stamp._roster = roster
    stamp._packed = packed
    stamp._complete = complete
    return stamp


_new = object.__new__


def align(a: VectorStamp, b: VectorStamp) -> tuple[Roster, int, int]:
    """Return a roster of both, and both packed vectors in it."""
    if a._roster is b._roster:
        return a._roster, a._packed, b._packed
    wide = union(a._roster, b._roster)
    return wide, a._roster.spread(a._packed, wide), b._roster.spread(b._packed, wide)


def _width(largest: int) -> int:
    return next(width for width in _WIDTHS if largest < 1 << 8 * width)


@lru_cache(maxsize=256)
def roster_to_bytes(roster: Roster) -> bytes:
    """Encode sorted names: the number of bytes shared with the name before, the length of the rest, and the rest."""
    out = bytearray()
    before = b""
    for name in roster.names:
        raw = name.encode()
        shared = _shared(before, raw)
        out += bytes((shared, len(raw) - shared))
        out += raw[shared:]
        before = raw
    return bytes(out)


@lru_cache(maxsize=256)
def roster_from_bytes(block: bytes, lane_bits: int) -> Roster:
    """Read what `roster_to_bytes` wrote; raises `StampError`."""
    names: list[str] = []
    before = b""
    position = 0
    while position < len(block):
        if position + 2 > len(block):
            raise StampError("a vector stamp's names end inside a name")
        shared, rest = block[position], block[position + 1]
        raw = before[:shared] + block[position + 2 : position + 2 + rest]
        if shared > len(before) or position + 2 + rest > len(block) or len(raw) > MAX_NAME_BYTES:
            raise StampError(f"a vector stamp's names are malformed at byte {position} of the names")
        if raw <= before or _shared(before, raw) != shared:
            raise StampError(f"a vector stamp's names are sorted and differ; byte {position} of the names breaks that")
        try:
            names.append(raw.decode())
        except UnicodeDecodeError:
            raise StampError(f"a process id at byte {position} of the names is not UTF-8") from None
        before = raw
        position += 2 + rest
    return Roster.sorted(tuple(names), lane_bits)


def _shared(a: bytes, b: bytes) -> int:
    """Count the bytes at the beginning that both have in common."""
    shared = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        shared += 1
    return shared
