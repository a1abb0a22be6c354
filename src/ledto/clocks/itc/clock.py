"""Interval Tree Clocks: the smallest causal stamps for instances that fork and join.

Properties: `relation` is exact for stamps of instances grown from one seed; a stamp's size depends on how many
instances are alive at once, not on how many there were. The price: raising a part to its surroundings (`fill`) forgets
which events made it rise, so a stamp neither names its event nor lists its past. `ledto.clocks.Instance` does both,
and needs more room: 1.5 to 3 times as much after 1,000 joins, and more after more, because names are never forgotten.

Source: Almeida, Baquero and Fonte, Interval Tree Clocks, 2008.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from ledto.clocks import json_fields
from ledto.clocks.itc import event_tree, id_tree
from ledto.clocks.itc.bits import BitReader, BitWriter
from ledto.clocks.itc.event_tree import Events
from ledto.clocks.itc.id_tree import MAX_DEPTH, Share
from ledto.clocks.locked import LockedClock, holding
from ledto.clocks.relation import CausalStamp, Relation, require
from ledto.clocks.wire import DAMAGED, MAX_COUNTER, Kind, StampReader, Writer
from ledto.errors import ClockError, Retired, StampError


class IntervalTreeStamp(CausalStamp):
    """The event part of an interval tree clock: the paper's peek."""

    __slots__ = ("_events",)

    kind: ClassVar[Kind] = Kind.INTERVAL_TREE

    _events: Events

    def __init__(self, tree: Events) -> None:
        self._events = tree

    @property
    def events(self) -> Events:
        """The paper's event tree: ``n`` or ``(n, left, right)``."""
        return self._events

    def relation_to(self, other: IntervalTreeStamp) -> Relation:
        below, above = event_tree.leq(self._events, other._events), event_tree.leq(other._events, self._events)
        if below and above:
            return Relation.EQUAL
        return Relation.BEFORE if below else Relation.AFTER if above else Relation.CONCURRENT

    def __eq__(self, other: object) -> bool:
        return self._events == other._events if isinstance(other, IntervalTreeStamp) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._events)

    def __repr__(self) -> str:
        return f"itc{self._events}" if isinstance(self._events, tuple) else f"itc({self._events})"

    def to_bytes(self) -> bytes:
        out, tree = Writer(self.kind), BitWriter()
        event_tree.write_events(tree, self._events)
        out.raw(tree.done())
        return out.done()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        read = StampReader(data, cls.kind)
        bits = BitReader(read.raw(len(read.data) - read.position))
        stamp = cls(_check_height(event_tree.read_events(bits)))
        bits.end()
        return stamp

    def to_json(self) -> dict[str, Any]:
        return {"clock": "interval-tree", "events": _to_lists(self._events)}

    @classmethod
    def from_json(cls, value: object) -> Self:
        fields = json_fields.read_fields(value, "interval-tree", {"events"})
        return cls(_check_height(_from_lists(fields["events"])))


class IntervalTreeClock(LockedClock):
    """One live instance. Thread-safe; refuses to act once it forked or joined."""

    def __init__(self, share: Share, tree: Events) -> None:
        """Call `seed` or `fork` instead: a clock made by hand may own what another one owns."""
        super().__init__()
        self._share = share
        self._events = tree
        self._retired = ""

    @classmethod
    def seed(cls) -> IntervalTreeClock:
        """Make the first instance, from which all others of its computation are forked."""
        return cls(1, 0)

    @property
    def share(self) -> Share:
        """The paper's id tree."""
        return self._share

    def event(self) -> IntervalTreeStamp:
        """Stamp an event of this instance."""
        with self._lock:
            self._check()
            self._events = event_tree.event(self._share, self._events)
            return IntervalTreeStamp(self._events)

    def fork(self) -> tuple[IntervalTreeClock, IntervalTreeClock]:
        """Make two instances with this one's past; this one retires."""
        with self._lock:
            self._check()
            left, right = id_tree.split(self._share)
            if max(id_tree.depth_of(left), id_tree.depth_of(right)) > MAX_DEPTH:
                raise ClockError(f"the share was halved {MAX_DEPTH} times without a join: join some instances first")
            self._retired = "forked"
            return IntervalTreeClock(left, self._events), IntervalTreeClock(right, self._events)

    def join(self, other: IntervalTreeClock) -> IntervalTreeClock:
        """Make one instance with the past and the share of both; both retire."""
        if not isinstance(other, IntervalTreeClock):
            raise TypeError(f"an IntervalTreeClock joins another one, not {type(other).__name__}")
        if other is self:
            raise ClockError("an instance cannot join itself")
        with holding(self, other):
            self._check()
            other._check()
            joined = IntervalTreeClock(
                id_tree.add(self._share, other._share), event_tree.join(self._events, other._events)
            )
            self._retired = other._retired = "joined"
            return joined

    def peek(self) -> IntervalTreeStamp:
        """Give a stamp of what is known here, for a message or a log; counts no event, and carries no share."""
        with self._lock:
            return IntervalTreeStamp(self._events)

    def receive(self, stamp: IntervalTreeStamp) -> IntervalTreeStamp:
        """Join a message's stamp (the paper's receive) and stamp the receipt."""
        require(stamp, IntervalTreeStamp, "an IntervalTreeClock receives")
        with self._lock:
            self._check()
            self._events = event_tree.join(self._events, stamp._events)
            return self.event()

    def __repr__(self) -> str:
        return f"IntervalTreeClock({self._share}, {self._events})" + (f" {self._retired}" if self._retired else "")

    def _check(self) -> None:
        if self._retired:
            raise Retired(f"this instance was {self._retired}; use the instance that resulted")


def _check_height(tree: Events) -> Events:
    if event_tree.highest(tree) > MAX_COUNTER:
        raise StampError(f"an event tree must stay below 2**63 and does not: {DAMAGED}")
    return tree


def _to_lists(e: Events) -> int | list[Any]:
    return e if isinstance(e, int) else [e[0], _to_lists(e[1]), _to_lists(e[2])]


def _from_lists(value: object, depth: int = 0) -> Events:
    if not isinstance(value, list):
        return json_fields.read_integer(value, "a height", most=MAX_COUNTER)
    if len(value) != 3 or depth >= MAX_DEPTH:
        raise StampError(f"an event tree is a number or [n, left, right], at most {MAX_DEPTH} deep")
    n = json_fields.read_integer(value[0], "a height", most=MAX_COUNTER)
    left, right = _from_lists(value[1], depth + 1), _from_lists(value[2], depth + 1)
    if event_tree.norm(n, left, right) != (n, left, right):
        raise StampError(f"an event tree must be in its normal form and is not: {DAMAGED}")
    return n, left, right
