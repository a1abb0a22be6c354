"""Autonomous causality in the paper's form, ``(I, N, Eq)``, for study: it grows with the square of the joins.

Definition 5.1 as it stands: ids are sequences of 0, 1 and ◇; a duplication is the last event of the instance that
duplicates, a combination the first of the one that results; new instances begin with a virtual event (N = 0). Two repairs:

- the ancestors of an event are the prefixes of I and of every id in Eq. The recursive A() of definition 5.2 visits each pair
  from both sides and does not end; `ancestors_literally` shows that, with a bound;
- an event is EQUAL to itself, where definition 5.2 calls it concurrent.

HAZARD: if both sides of a combination went on, they would give one name twice; here both retire.
Source: Baquero and Moura, section 5.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple, Self

from ledto.clocks import json_fields
from ledto.clocks.locked import LockedClock, holding
from ledto.clocks.relation import CausalStamp, Relation
from ledto.clocks.wire import DAMAGED, Kind, StampReader, Writer
from ledto.errors import ClockError, Retired, StampError

SYMBOLS = "01◇"
MAX_ID = 1 << 14
Pair = tuple[str, str]


class PaperStamp(CausalStamp):
    """``(I, N, Eq)``: the instance, the event's index in it, and the pairs of instances combined in its past."""

    __slots__ = ("_eq", "_id", "_n")

    kind: ClassVar[Kind] = Kind.PAPER_AUTONOMOUS

    _id: str
    _n: int
    _eq: frozenset[Pair]

    def __init__(self, instance: str, n: int, eq: frozenset[Pair]) -> None:
        self._id, self._n, self._eq = instance, n, eq

    @property
    def instance(self) -> str:
        """The paper's I."""
        return self._id

    @property
    def n(self) -> int:
        """The paper's N."""
        return self._n

    @property
    def eq(self) -> frozenset[Pair]:
        """The paper's Eq."""
        return self._eq

    def ancestors(self) -> set[str]:
        """Return the ids of the instances in the past, this one included."""
        ends = {self._id, *(instance for pair in self._eq for instance in pair)}
        return {prefix for instance in ends for prefix in _prefixes(instance)}

    def relation_to(self, other: PaperStamp) -> Relation:
        if self._id == other._id:
            if self._n == other._n:
                return Relation.EQUAL
            return Relation.BEFORE if self._n < other._n else Relation.AFTER
        if other._descends_from(self._id):
            return Relation.BEFORE
        return Relation.AFTER if self._descends_from(other._id) else Relation.CONCURRENT

    def _descends_from(self, instance: str) -> bool:
        return self._id.startswith(instance) or any(
            a.startswith(instance) or b.startswith(instance) for a, b in self._eq
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PaperStamp):
            return NotImplemented
        return (self._id, self._n, self._eq) == (other._id, other._n, other._eq)

    def __hash__(self) -> int:
        return hash((self._id, self._n))

    def __repr__(self) -> str:
        pairs = " ".join(f"{a}/{b}" for a, b in sorted(self._eq))
        return f"{self._id}({self._n})" + (f"[{pairs}]" if pairs else "")

    def to_bytes(self) -> bytes:
        out = Writer(self.kind)
        _write_id(out, self._id)
        out.varint(self._n)
        out.varint(len(self._eq))
        for pair in sorted(self._eq):
            for instance in pair:
                _write_id(out, instance)
        return out.done()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        read = StampReader(data, cls.kind)
        instance, n = _read_id(read), read.varint()
        pairs = [(_read_id(read), _read_id(read)) for _ in range(read.count(least_bytes_each=4))]
        read.end()
        if any(later <= earlier for earlier, later in pairwise(pairs)):
            raise StampError(f"the pairs of a paper stamp must be sorted and differ, and do not: {DAMAGED}")
        return cls(instance, n, frozenset(pairs))

    def to_json(self) -> dict[str, Any]:
        eq = [list(pair) for pair in sorted(self._eq)]
        return {"clock": "paper-autonomous", "instance": self._id, "n": self._n, "eq": eq}

    @classmethod
    def from_json(cls, value: object) -> Self:
        fields = json_fields.read_fields(value, "paper-autonomous", {"instance", "n", "eq"})
        eq = fields["eq"]
        if not isinstance(eq, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in eq):
            raise StampError('"eq" is a list of pairs of ids')
        pairs = frozenset((_check_id(a), _check_id(b)) for a, b in eq)
        return cls(_check_id(fields["instance"]), json_fields.read_integer(fields["n"], "n"), pairs)


class PaperInstance(LockedClock):
    """One live instance of definition 5.1. Thread-safe; refuses to act once retired."""

    def __init__(self, instance: str, n: int, eq: frozenset[Pair]) -> None:
        """Call `root`, `duplicate` or `combine` instead."""
        super().__init__()
        self._id, self._n, self._eq = instance, n, eq
        self._retired = ""

    @classmethod
    def root(cls) -> PaperInstance:
        """Make the first instance, "0", with its virtual event."""
        return cls("0", 0, frozenset())

    @property
    def stamp(self) -> PaperStamp:
        """The stamp of the latest event; for a new instance, of its virtual one (N = 0)."""
        return PaperStamp(self._id, self._n, self._eq)

    def event(self) -> PaperStamp:
        """Stamp an internal event."""
        with self._lock:
            self._check()
            self._n += 1
            return self.stamp

    def duplicate(self) -> tuple[PaperInstance, PaperInstance]:
        """Make the instances I0 and I1; the duplication is this one's last event."""
        with self._lock:
            self.event()
            self._retired = "duplicated"
            return PaperInstance(self._id + "0", 0, self._eq), PaperInstance(self._id + "1", 0, self._eq)

    def combine(self, other: PaperInstance, *, name_after: Literal["self", "other"] = "self") -> PaperInstance:
        """Make the instance that results, named after either side; the combination is its first event."""
        if not isinstance(other, PaperInstance):
            raise TypeError(f"a PaperInstance is combined with another one, not with {type(other).__name__}")
        if other is self:
            raise ClockError("an instance cannot be combined with itself")
        with holding(self, other):
            self._check()
            other._check()
            eq = self._eq | other._eq | {(self._id, other._id)}
            self._retired = other._retired = "combined"
            return PaperInstance((self._id if name_after == "self" else other._id) + "◇", 1, eq)

    def _check(self) -> None:
        if self._retired:
            raise Retired(f"instance {self._id} was {self._retired}; use the instance that resulted")


class Endless(NamedTuple):
    """The recursion of definition 5.2, stopped after so many calls."""

    calls: int


def ancestors_literally(stamp: PaperStamp, *, most_calls: int = 10_000) -> set[str] | Endless:
    """Apply definition 5.2's A(), word by word; `Endless` if it has not ended after `most_calls` calls."""
    partner: dict[str, str] = {}
    for a, b in sorted(stamp.eq):
        partner[a], partner[b] = b, a
    ancestors: set[str] = set()
    pending, calls = [stamp.instance], 0
    while pending:
        instance = pending.pop()
        calls += 1
        if calls > most_calls:
            return Endless(most_calls)
        for prefix in _prefixes(instance):
            ancestors.add(prefix)
            if prefix in partner:
                pending.append(partner[prefix])
    return ancestors


def _prefixes(instance: str) -> Iterator[str]:
    return (instance[:length] for length in range(1, len(instance) + 1))


def _check_id(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_ID or set(value) - set(SYMBOLS):
        raise StampError(f"an instance's id is 1 to {MAX_ID} symbols out of {SYMBOLS}")
    return value


def _write_id(out: Writer, instance: str) -> None:
    """Write an id, two bits for each symbol."""
    packed = 0
    for symbol in instance:
        packed = packed << 2 | SYMBOLS.index(symbol)
    out.varint(len(instance))
    out.raw(packed.to_bytes(-(-len(instance) // 4)))


def _read_id(read: StampReader) -> str:
    length = read.varint(at_most=MAX_ID)
    packed = int.from_bytes(read.raw(-(-length // 4)))
    codes = [packed >> 2 * place & 3 for place in reversed(range(length))]
    if not length or packed >> 2 * length or 3 in codes:
        raise read.fail(f"an id out of {SYMBOLS}")
    return "".join(SYMBOLS[code] for code in codes)
