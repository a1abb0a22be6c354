"""Instances that duplicate and combine, and need no names given from outside: autonomous causality, for use.

::

    root = Instance.root("notes")
    phone, laptop = root.duplicate()       # root is retired
    phone.event()
    merged = phone.combine(laptop)         # both are retired

Properties: every stamp is exact, names its event, and lists its past (`AutonomousStamp`). A duplication is the last event
of the instance that duplicates, a combination the first of the one that results (paper, section 4). An instance's `stamp`
is that of its latest event; until it has one of its own, of the duplication it came from.

HAZARDS: two roots of one computation need two names. An instance that is copied (pickled, restored from a backup, taken over
twice) lives twice and gives one name to two events; combining the copies is refused, which is when it shows.

Where this departs from the paper: stamps are not ``(I, N, Eq)``, which grows with the square of the joins, but a share of
the natural numbers and the set of those used: `whence.clocks.instances.numbers`. `PaperInstance` keeps the paper's form,
for study. Source: Baquero and Moura, Causality in Autonomous Mobile Systems.
"""

from __future__ import annotations

from collections.abc import Mapping

from whence.clocks.errors import ClockError, Retired, StampError
from whence.clocks.guarded import Guarded, holding
from whence.clocks.instances.numbers import Used, choose, deal, read_used, union, use, write_used
from whence.clocks.instances.stamp import DEFAULT_ROOT, MAX_ROOTS, AutonomousStamp, EventName
from whence.clocks.itc.bits import BitReader, BitWriter
from whence.clocks.itc.shares import MAX_DEPTH, Share, add, depth_of, read_share, write_share
from whence.clocks.wire import Kind, Reader, Writer, check_name


class Instance(Guarded):
    """One live instance. Thread-safe; one that was duplicated, combined or handed over refuses to act."""

    def __init__(self, shares: Mapping[str, Share], used: Mapping[str, Used], stamp: AutonomousStamp | None) -> None:
        """Use `root`, `duplicate` and `combine`: an instance made by hand may own what another one owns."""
        super().__init__()
        self._shares = shares
        self._used = used
        self._stamp = stamp
        self._retired = ""

    @classmethod
    def root(cls, name: str = DEFAULT_ROOT) -> Instance:
        """The first instance of a computation, or of a part of it that will be combined: then under a name of its own."""
        check_name(name)
        return cls({name: 1}, {name: 0}, None)

    @property
    def stamp(self) -> AutonomousStamp:
        """The stamp of the latest event; refused before the first."""
        if self._stamp is None:
            raise ClockError("nothing has happened in this instance yet: call event() first")
        return self._stamp

    @property
    def retired(self) -> bool:
        """Whether it was duplicated, combined or handed over."""
        return bool(self._retired)

    def event(self) -> AutonomousStamp:
        """Stamp an internal event."""
        with self._lock:
            self._check()
            return self._event()

    def duplicate(self) -> tuple[Instance, Instance]:
        """Two instances with this one's past; the duplication is this one's last event."""
        with self._lock:
            self._check()
            dealt = {root: deal(share) for root, share in self._shares.items()}
            if any(depth_of(half) > MAX_DEPTH for halves in dealt.values() for half in halves):
                raise ClockError(f"the instance was halved {MAX_DEPTH} times: combine some instances first")
            stamp = self._event()
            self._retired = "duplicated"
            ours = {root: halves[0] for root, halves in dealt.items()}
            theirs = {root: halves[1] for root, halves in dealt.items()}
            return Instance(ours, self._used, stamp), Instance(theirs, self._used, stamp)

    def observer_copy(self) -> tuple[Instance, Instance]:
        """As `duplicate`, but the second keeps no share: it can be combined, and makes no events of its own.

        That is all a message needs, so a process can send for ever without dividing itself.
        """
        with self._lock:
            self._check()
            stamp = self._event()
            self._retired = "duplicated"
            return Instance(self._shares, self._used, stamp), Instance({}, self._used, stamp)

    def combine(self, other: Instance) -> Instance:
        """One instance with the past and the shares of both; the combination is its first event."""
        if not isinstance(other, Instance):
            raise TypeError(f"a Instance is combined with another one, not with {type(other).__name__}")
        if other is self:
            raise ClockError("an instance cannot be combined with itself")
        with holding(self, other):
            self._check()
            other._check()
            roots = self._shares.keys() | other._shares.keys()
            shares = {root: add(self._shares.get(root, 0), other._shares.get(root, 0)) for root in sorted(roots)}
            if not shares:
                raise ClockError("neither instance has a share to take a name from: combine them with one that has")
            known = self._used.keys() | other._used.keys()
            used = {root: union(self._used.get(root, 0), other._used.get(root, 0)) for root in sorted(known)}
            combined = Instance(shares, used, None)
            combined._event()
            self._retired = other._retired = "combined"
            return combined

    def hand_over(self) -> bytes:
        """The instance as bytes, for `take_over` elsewhere; it is retired here. HAZARD: take the bytes over once."""
        with self._lock:
            self._check()
            out, bits = Writer(Kind.AUTONOMOUS), BitWriter()
            out.varint(len(self._shares))
            for root, share in sorted(self._shares.items()):
                out.text(root)
                write_share(bits, share)
            out.varint(len(self._used))
            for root, used in sorted(self._used.items()):
                out.text(root)
                write_used(bits, used)
            stamp = self._stamp.to_bytes() if self._stamp is not None else b""
            out.varint(len(stamp))
            out.raw(stamp + bits.done())
            self._retired = "handed over"
            return out.done()

    @classmethod
    def take_over(cls, data: bytes) -> Instance:
        """The instance that was handed over, or `StampError`."""
        read = Reader(data, Kind.AUTONOMOUS)
        owned = [read.text() for _ in range(read.varint(at_most=MAX_ROOTS))]
        known = [read.text() for _ in range(read.varint(at_most=MAX_ROOTS))]
        stamp_bytes = read.raw(read.count(least_bytes_each=1))
        bits = BitReader(read.raw(len(read.data) - read.position))
        shares = {root: read_share(bits) for root in owned}
        used = {root: read_used(bits) for root in known}
        bits.end()
        stamp = AutonomousStamp.from_bytes(stamp_bytes) if stamp_bytes else None
        instance = cls(shares, used, stamp)
        if not known or not shares.keys() <= used.keys() or cls(shares, used, stamp).hand_over() != read.data:
            raise StampError("these bytes are no instance that was handed over")
        return instance

    def __repr__(self) -> str:
        state = f" {self._retired}" if self._retired else ""
        return f"<Instance {self._stamp.name!r}{state}>" if self._stamp else f"<Instance new{state}>"

    def _event(self) -> AutonomousStamp:
        if not self._shares:
            raise ClockError("this instance is a message: it can be combined, and makes no events of its own")
        root = next(iter(self._shares))
        number = choose(self._used[root], self._shares[root])
        self._used = {**self._used, root: use(self._used[root], number)}
        self._stamp = AutonomousStamp(EventName(root, number), self._used)
        return self._stamp

    def _check(self) -> None:
        if self._retired:
            raise Retired(f"this instance was {self._retired}; use the instance that came of it")
