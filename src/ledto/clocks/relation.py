"""What two stamps say about the events that carry them.

A stamp is either *causal* or *ordered*, and its type says which:

- a `CausalStamp` tells all four relations, CONCURRENT included;
- an `OrderedStamp` only sorts: ``e -> f`` implies ``stamp(e) < stamp(f)``, and the converse does not hold.

`relation` takes causal stamps only. Ordered stamps are a type error, for mypy and at run time: the answer would be a
guess.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from functools import total_ordering
from typing import Any, ClassVar, Self, TypeVar

from ledto.clocks.wire import Kind


class Relation(Enum):
    """How one event is related to another by happened-before."""

    BEFORE = "before"
    AFTER = "after"
    EQUAL = "equal"
    CONCURRENT = "concurrent"

    @property
    def inverse(self) -> Relation:
        """The relation seen from the other event."""
        return _INVERSE.get(self, self)


_INVERSE = {Relation.BEFORE: Relation.AFTER, Relation.AFTER: Relation.BEFORE}


class Stamp(ABC):
    """An immutable, hashable causal time-stamp.

    Guarantees of every stamp type:

    - ``T.from_bytes(s.to_bytes()) == s`` and ``T.from_json(s.to_json()) == s``;
    - decoding is canonical: it accepts exactly the bytes that `to_bytes` gives, and raises `StampError`, and nothing
      else, for all others;
    - decoding checks announced sizes against the length of the input before it allocates memory.
    """

    __slots__ = ()

    kind: ClassVar[Kind]

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Give the compact wire form; its first byte names the codec version and the clock."""

    @classmethod
    @abstractmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read what `to_bytes` gave; raises `StampError`."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Give a value for `json.dumps`; its key ``clock`` names the clock."""

    @classmethod
    @abstractmethod
    def from_json(cls, value: object) -> Self:
        """Read what `to_json` gave; raises `StampError`."""

    def __reduce__(self) -> tuple[Any, ...]:
        # As bytes: compact, and checked when another process reads them.
        return type(self).from_bytes, (self.to_bytes(),)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class CausalStamp(Stamp):
    """A stamp that tells BEFORE, AFTER, EQUAL and CONCURRENT apart."""

    __slots__ = ()

    @abstractmethod
    def relation_to(self, other: Self) -> Relation:
        """Tell how this stamp's event is related to the other's; both must be of one computation."""


@total_ordering
class OrderedStamp(Stamp):
    """A stamp that sorts consistently with causality and cannot say CONCURRENT.

    ``e -> f`` implies ``stamp(e) < stamp(f)``. A smaller stamp does *not* mean a cause.
    """

    __slots__ = ()

    @abstractmethod
    def sort_key(self) -> tuple[Any, ...]:
        """Give the tuple by which stamps of one clock type sort."""

    def __lt__(self, other: Self) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self.sort_key() < other.sort_key()


C = TypeVar("C", bound=CausalStamp)


def relation(a: C, b: C) -> Relation:
    """Tell how the event stamped `a` is related to the event stamped `b`.

    Raises `TypeError` for ordered stamps, which cannot know, and for stamps of different clocks.
    """
    for stamp in (a, b):
        kind = type(stamp)
        if issubclass(kind, OrderedStamp):
            raise TypeError(
                f"{kind.__name__} cannot tell CONCURRENT from BEFORE, so it has no relation; "
                "sort by it, or stamp with a causal clock (VectorClock, Instance, IntervalTreeClock)"
            )
        if not issubclass(kind, CausalStamp):
            raise TypeError(
                f"{kind.__name__} has no relation"
                + (": ask it may_precede or surely_concurrent" if issubclass(kind, Stamp) else "; it is not a stamp")
            )
    if type(a) is not type(b):
        raise TypeError(f"stamps of different clocks have no relation: {type(a).__name__} and {type(b).__name__}")
    return a.relation_to(b)


S = TypeVar("S", bound=Stamp)


def require(stamp: object, kind: type[S], who: str) -> S:
    """Return the stamp; `TypeError` that says who needs what if it is of another kind."""
    if not isinstance(stamp, kind):
        raise TypeError(f"{who} a {kind.__name__}, not {type(stamp).__name__}")
    return stamp
