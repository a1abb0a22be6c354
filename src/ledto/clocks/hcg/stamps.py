"""The stamps of a heterogeneous group: `LocalStamp` inside a subgroup, `GlobalStamp` between gateways.

For both, ``m1 -> m2`` implies ``m1.may_precede(m2)``, and the converse does not hold. So "surely concurrent" is
certain, and "may precede" does not prove a cause. Neither is a `CausalStamp`, whose BEFORE would be a guess, nor an
`OrderedStamp`: local stamps of different subgroups have no order, and global ones have a partial one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

from ledto.clocks import json_fields
from ledto.clocks.hcg.rules import NetworkBounds, SentLocally, may_precede
from ledto.clocks.relation import Stamp
from ledto.clocks.wire import Kind, StampReader, Writer
from ledto.errors import ClockError, StampError

Known = Mapping[str, tuple[int, int]]
"""The possible causes of a message, for each subgroup: ``(level, number)``, see `GlobalStamp`."""


def extend(known: dict[str, tuple[int, int]], more: Known) -> None:
    """Merge `more` into `known`, in place: keep the larger level and the larger number."""
    for name, (level, number) in more.items():
        old_level, old_number = known.get(name, (-1, -1))
        if level > old_level or number > old_number:
            known[name] = (max(level, old_level), max(number, old_number))


@dataclass(frozen=True, slots=True)
class LocalStamp(Stamp):
    """An event in a subgroup: the readings of its process's physical (RT) and linear (LT) clocks."""

    kind: ClassVar[Kind] = Kind.LOCAL_GROUP

    subgroup: str
    process: str
    rt_ns: int
    lt: int

    def may_precede(self, other: LocalStamp, bounds: NetworkBounds) -> bool:
        """Tell whether this event can have happened before the other; `bounds` are those of their subgroup (`Group.bounds`).

        Raises `ClockError` for stamps of different subgroups: their linear clocks are not related.
        """
        if self.subgroup != other.subgroup:
            raise ClockError(
                f"local stamps of {self.subgroup} and {other.subgroup} cannot be compared: compare the global stamps "
                "under which their gateways forwarded them"
            )
        return may_precede(self.sent(), other.sent(), bounds)

    def surely_concurrent(self, other: LocalStamp, bounds: NetworkBounds) -> bool:
        """Tell whether neither event can have happened before the other; False for an event and itself."""
        return self != other and not self.may_precede(other, bounds) and not other.may_precede(self, bounds)

    def sent(self, *, ts_ns: int | None = None, tr_ns: int | None = None) -> SentLocally:
        """Give the value that the rules take; the times are the gateway's, if it sent or received the message."""
        return SentLocally(self.process, self.rt_ns, self.lt, ts_ns, tr_ns)

    def order_key(self) -> tuple[int, str]:
        """Give a key that sorts the events of *one* subgroup by causality: the timestamp order of section 2."""
        return (self.lt, self.process)

    def to_bytes(self) -> bytes:
        out = Writer(self.kind)
        out.text(self.subgroup)
        out.text(self.process)
        out.varint(self.rt_ns)
        out.varint(self.lt)
        return out.done()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        read = StampReader(data, cls.kind)
        stamp = cls(read.text(), read.text(), read.varint(), read.varint())
        read.end()
        return stamp

    def to_json(self) -> dict[str, Any]:
        return {
            "clock": "local-group",
            "subgroup": self.subgroup,
            "process": self.process,
            "rt_ns": self.rt_ns,
            "lt": self.lt,
        }

    @classmethod
    def from_json(cls, value: object) -> Self:
        fields = json_fields.read_fields(value, "local-group", {"subgroup", "process", "rt_ns", "lt"})
        return cls(
            json_fields.read_name(fields["subgroup"]),
            json_fields.read_name(fields["process"]),
            json_fields.read_integer(fields["rt_ns"], "rt_ns"),
            json_fields.read_integer(fields["lt"], "lt"),
        )

    def __repr__(self) -> str:
        return f"{self.subgroup}/{self.process}@{self.lt} at {self.rt_ns}ns"


@dataclass(frozen=True, slots=True)
class GlobalStamp(Stamp):
    """A message between gateways: the vector VT, and the numbers by which gateways deliver it causally.

    For each subgroup i the stamp holds ``(name, level, number)``, sorted by name:

    - `level` is the paper's VT_i. Under sound rules ``m1 -> m2`` implies ``m1.VT < m2.VT``; messages of one subgroup
      that are surely concurrent may share a level, so a level does not count messages;
    - `number` counts messages: those of gateway i up to this number may precede this one. In the entry of its own
      subgroup it is the message's own number, from 1, and ``(subgroup, number)`` is the message's identity.
    """

    kind: ClassVar[Kind] = Kind.GLOBAL_GROUP

    subgroup: str
    """The subgroup whose gateway forwarded the message."""
    entries: tuple[tuple[str, int, int], ...]

    def __post_init__(self) -> None:
        names = [name for name, _, _ in self.entries]
        if any(a >= b for a, b in pairwise(names)):
            raise StampError(
                "the entries of a global stamp must be sorted by subgroup, each subgroup once, and are not"
            )
        if any(level == number == 0 for _, level, number in self.entries):
            raise StampError("a global stamp must leave out subgroups with level and number 0, and has one")
        if self.number < 1:
            raise StampError(f"a global stamp of {self.subgroup} needs an entry for that subgroup with a number from 1")

    @classmethod
    def of(cls, subgroup: str, known: Known) -> Self:
        """Make the stamp with these entries; those of zeros are left out."""
        return cls(subgroup, tuple((name, *known[name]) for name in sorted(known) if known[name] != (0, 0)))

    @property
    def known(self) -> dict[str, tuple[int, int]]:
        """``(level, number)`` by subgroup."""
        return {name: (level, number) for name, level, number in self.entries}

    @property
    def vt(self) -> dict[str, int]:
        """The vector VT; a subgroup that is not in it counts as zero."""
        return {name: level for name, level, _ in self.entries if level}

    @property
    def number(self) -> int:
        """The number of this message among those of its gateway."""
        return next((number for name, _, number in self.entries if name == self.subgroup), 0)

    def may_precede(self, other: GlobalStamp) -> bool:
        """Tell whether this message can have happened before the other. False is certain, True is not.

        Sharper than ``self.vt < other.vt``, and implied by happened-before as well: the other's level in its own
        subgroup exceeds that of all its causes, and its numbers bound what its gateway had relayed.
        """
        if self == other:
            return False
        others = other.known
        if self.number > others.get(self.subgroup, (0, 0))[1]:
            return False
        return all(
            level < others[name][0] if name == other.subgroup else level <= others.get(name, (0, 0))[0]
            for name, level, _ in self.entries
        )

    def surely_concurrent(self, other: GlobalStamp) -> bool:
        """Tell whether neither message can have happened before the other; False for a message and itself."""
        return self != other and not self.may_precede(other) and not other.may_precede(self)

    def to_bytes(self) -> bytes:
        out = Writer(self.kind)
        out.varint(len(self.entries))
        for name, level, number in self.entries:
            out.text(name)
            out.varint(level)
            out.varint(number)
        out.varint([name for name, _, _ in self.entries].index(self.subgroup))
        return out.done()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        read = StampReader(data, cls.kind)
        count = read.count(least_bytes_each=4)
        if count == 0:
            raise read.fail("an entry")
        entries = tuple((read.text(), read.varint(), read.varint()) for _ in range(count))
        index = read.varint(at_most=count - 1)
        read.end()
        return cls(entries[index][0], entries)

    def to_json(self) -> dict[str, Any]:
        return {
            "clock": "global-group",
            "subgroup": self.subgroup,
            "vt": {name: level for name, level, _ in self.entries},
            "numbers": {name: number for name, _, number in self.entries},
        }

    @classmethod
    def from_json(cls, value: object) -> Self:
        fields = json_fields.read_fields(value, "global-group", {"subgroup", "vt", "numbers"})
        vt, numbers = fields["vt"], fields["numbers"]
        if not isinstance(vt, Mapping) or not isinstance(numbers, Mapping) or vt.keys() != numbers.keys():
            raise StampError('"vt" and "numbers" of a global_group stamp are objects with the same subgroups')
        entries = [
            (
                json_fields.read_name(name),
                json_fields.read_integer(vt[name], "vt"),
                json_fields.read_integer(numbers[name], "numbers"),
            )
            for name in vt
        ]
        return cls(json_fields.read_name(fields["subgroup"]), tuple(sorted(entries)))

    def __repr__(self) -> str:
        vector = " ".join(f"{name}:{level}" for name, level, _ in self.entries)
        return f"{self.subgroup}#{self.number}<{vector}>"
