"""Vector clocks for processes with string ids: exact happened-before, and Berry's rules for unstamped messages.

Properties, for events stamped by `VectorClock`:

- ``relation(stamp(e), stamp(f))`` is the true relation of e and f;
- a process that is not in a stamp counts as zero, so no list of processes is needed;
- an operation reads, merges, counts and stamps in one step under one lock.

HAZARDS:

- two processes with one id make wrong stamps. A receive that claims events which this process never made is refused;
  that finds most such clashes, and every restart that reused an id;
- information that comes outside the clock (an unstamped message, a shared file) leaves no trace. `receive(None)` is
  refused unless the clock accepts it, and then every later stamp says ``complete == False``: BEFORE stays true,
  CONCURRENT only means that no recorded path is known.

Sources: Fidge 1991; Berry 1995, sections 2.1, 3.4.1, 3.6 and 4.2.
"""

from __future__ import annotations

from ledto.clocks.locked import LockedClock, holding
from ledto.clocks.relation import require
from ledto.clocks.vector.packed import Roster, merge, union
from ledto.clocks.vector.stamp import VectorStamp, vector_stamp
from ledto.clocks.wire import MAX_COUNTER, check_name
from ledto.errors import ClockError, UnstampedMessage

_new = object.__new__


class _Vector(LockedClock):
    """The counters that are known here, of all processes."""

    __slots__ = ("_complete", "_packed", "_roster")

    _roster: Roster
    _packed: int

    def __init__(self) -> None:
        super().__init__()
        self._complete = True
        self._roster, self._packed = Roster.of([]), 0

    @property
    def stamp(self) -> VectorStamp:
        """All counters known here; reading it counts as no event."""
        with self._lock:
            return vector_stamp(self._roster, self._packed, self._complete)

    def known(self, process: str) -> int:
        """Return how many events of a process are known here."""
        with self._lock:
            roster = self._roster
            lane = roster.index.get(process)
            return 0 if lane is None else self._packed >> lane * roster.lane_bits & roster.mask

    def _align(self, stamp: VectorStamp) -> int:
        """Return the stamp's counters in this vector's roster, which grows if it must. The caller holds the lock."""
        if self._roster is stamp._roster:
            return stamp._packed
        wide = union(self._roster, stamp._roster)
        self._set(wide, self._roster.spread(self._packed, wide))
        return stamp._roster.spread(stamp._packed, wide)

    def _set(self, roster: Roster, packed: int) -> None:
        self._roster, self._packed = roster, packed


class VectorObserver(_Vector):
    """Merges stamps without taking part: it makes no events, and no stamp names it (Berry, 3.4.1). Thread-safe."""

    __slots__ = ()

    def observe(self, stamp: VectorStamp) -> VectorStamp:
        """Merge a stamp, without an event; return all that is known now."""
        require(stamp, VectorStamp, "a VectorObserver observes")
        with self._lock:
            theirs = self._align(stamp)
            self._packed = merge(self._roster, self._packed, theirs)
            self._complete = self._complete and stamp._complete
            return self.stamp


class VectorClock(_Vector):
    """The vector clock of one process. Thread-safe; threads of the process share it."""

    __slots__ = ("_count", "_guard", "_one", "accept_unstamped", "process")

    def __init__(self, process: str, *, accept_unstamped: bool = False) -> None:
        """No other process may ever have the id `process`.

        `accept_unstamped`: accept `receive(None)`, and flag later stamps, instead of refusing it.
        """
        check_name(process)
        super().__init__()
        self.process = process
        self.accept_unstamped = accept_unstamped
        self._count = 0
        self._set(Roster.of([process]), 0)

    def __repr__(self) -> str:
        return f"<VectorClock {self.process!r} at {self.stamp!r}>"

    @property
    def count(self) -> int:
        """How many events this process has made."""
        return self._count

    def local(self) -> VectorStamp:
        """Stamp an event of this process."""
        return self._event()

    def send(self) -> VectorStamp:
        """Stamp a message; it carries the stamp. The receiver need not have a clock."""
        return self._event()

    def receive(self, stamp: VectorStamp | None) -> VectorStamp:
        """Merge the sender's stamp and stamp the receipt, in one step.

        None is a message from a process without a clock. It raises `UnstampedMessage` and counts no event, unless the
        clock was made with `accept_unstamped`.
        """
        if stamp is None:
            return self._receive_unstamped()
        require(stamp, VectorStamp, "a VectorClock receives")
        with self._lock:
            theirs = stamp._packed if stamp._roster is self._roster else self._align(stamp)
            # `merge` and `_event` inlined: at a hundred entries the calls would cost as much as the work.
            ours, roster = self._packed, self._roster
            guards = roster.guards
            kept = (ours | guards) - theirs & guards
            if not kept & self._guard:
                raise self._clash(stamp[self.process])
            self._packed = theirs ^ (ours ^ theirs) & kept - (kept >> roster.lane_bits - 1)
            if not stamp._complete:
                self._complete = False
            if self._count + 1 == roster.limit:
                return self._event()
            self._count += 1
            self._packed = packed = self._packed + self._one
            received = _new(VectorStamp)
            received._roster, received._packed, received._complete = roster, packed, self._complete
            return received

    def spawn(self, child: str) -> VectorClock:
        """Make the clock of a new process with this one's past; spawning is an event here."""
        check_name(child)
        with self._lock:
            if child in self._roster.index:
                raise ClockError(
                    f"{self.process!r} cannot spawn {child!r}: the id is in use; choose one that was never used"
                )
            self._event()
            born = VectorClock(child, accept_unstamped=self.accept_unstamped)
            wide = union(self._roster, born._roster)
            # The parent keeps a lane for the child, at zero, to find a second child of the same id.
            self._set(wide, self._roster.spread(self._packed, wide))
            born._set(wide, self._packed)
            born._complete = self._complete
            return born

    def synchronise(self, other: VectorClock) -> VectorStamp:
        """Make one event that happens in both processes at once (a rendezvous); return its stamp."""
        if not isinstance(other, VectorClock):
            raise TypeError(f"a VectorClock meets a VectorClock, not {type(other).__name__}")
        if other is self:
            raise ClockError(f"{self.process!r} cannot meet itself")
        if other.process == self.process:
            raise ClockError(f"two clocks carry the id {self.process!r}; ids are unique")
        with holding(self, other):
            for one, peer in ((self, other), (other, self)):
                if peer.known(one.process) > one._count:
                    raise one._clash(peer.known(one.process))
            wide = union(self._roster, other._roster)
            packed = merge(wide, self._roster.spread(self._packed, wide), other._roster.spread(other._packed, wide))
            complete = self._complete and other._complete
            for clock in (self, other):
                clock._set(wide, packed)
                clock._complete = complete
            self._event()
            other._set(self._roster, self._packed)
            stamp = other._event()
            self._set(other._roster, other._packed)
            return stamp

    def _receive_unstamped(self) -> VectorStamp:
        if not self.accept_unstamped:
            raise UnstampedMessage(
                f"{self.process!r} was given a message without a stamp: its causes are unknown. Stamp the sender, "
                "ignore a reply that carries no information, or make the clock with accept_unstamped=True, which accepts "
                "the message and flags every later stamp as incomplete"
            )
        with self._lock:
            self._complete = False
            return self._event()

    def _event(self) -> VectorStamp:
        """Count one event, and stamp it."""
        with self._lock:
            self._count += 1
            if self._count == self._roster.limit:
                self._widen()
            self._packed += self._one
            stamp = _new(VectorStamp)
            stamp._roster, stamp._packed, stamp._complete = self._roster, self._packed, self._complete
            return stamp

    def _widen(self) -> None:
        if self._count > MAX_COUNTER:
            raise ClockError(f"{self.process!r} has used up its 2**63 - 1 events")
        wide = self._roster.widened()
        self._set(wide, self._roster.spread(self._packed, wide))

    def _set(self, roster: Roster, packed: int) -> None:
        self._roster = roster
        self._one = 1 << roster.index[self.process] * roster.lane_bits
        self._guard = self._one << roster.lane_bits - 1
        self._packed = packed

    def _clash(self, claimed: int) -> ClockError:
        return ClockError(
            f"{self.process!r} has made {self._count} events, but was sent a stamp that knows of {claimed}: another "
            "process has the same id, or this one was restarted with it. Give every start of a process its own id"
        )
