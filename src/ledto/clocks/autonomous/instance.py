"""Autonomous causality, for use: instances that duplicate and combine, and need no names from outside.

    >>> from ledto.clocks import Instance, relation
    >>> root = Instance.root("notes")
    >>> phone, laptop = root.duplicate()       # root is retired
    >>> edited = phone.event()
    >>> merged = phone.combine(laptop)         # both are retired
    >>> merged
    <Instance notes.1>
    >>> relation(edited, merged.stamp)
    <Relation.BEFORE: 'before'>

Properties: every stamp is exact, names its event, and lists its past (`AutonomousStamp`). A duplication is the last
event of the instance that duplicates, a combination the first of the one that results (paper, section 4). An instance's
`stamp` is that of its latest event; before its first one, of the duplication it came from.

HAZARDS: two roots of one computation need two names. An instance that is copied (pickled, restored from a backup, taken
over twice) exists twice and gives one name to two events; combining the copies is refused, and only then does it show.

Where this departs from the paper: stamps are not ``(I, N, Eq)``, which grows with the square of the joins, but a share
of the natural numbers and the set of used numbers: `ledto.clocks.autonomous.names`. `PaperInstance` keeps the paper's
form, for study. Source: Baquero and Moura, Causality in Autonomous Mobile Systems.
"""

from __future__ import annotations

from collections.abc import Mapping

from ledto.clocks.autonomous.names import HALVINGS, Used, choose, deal, union, use
from ledto.clocks.autonomous.stamp import (
    BELOW,
    DEFAULT_ROOT,
    AutonomousStamp,
    EventName,
    check_lines,
    read_line,
    write_line,
)
from ledto.clocks.itc.bits import BitReader, BitWriter
from ledto.clocks.itc.id_tree import Share, add, depth_of, read_share, write_share
from ledto.clocks.locked import LockedClock, holding
from ledto.clocks.wire import MAX_COUNTER, MAX_NAME_BYTES, MAX_STAMP_BYTES, VERSION, check_name
from ledto.errors import ClockError, Retired, StampError

_HANDED_OVER = VERSION << 4 | 0x0F
"""The first byte of an instance that was handed over; no stamp begins with it."""


class Instance(LockedClock):
    """One live instance. Thread-safe; refuses to act once it was duplicated, combined or handed over."""

    def __init__(self, shares: Mapping[str, Share], used: Mapping[str, Used], stamp: AutonomousStamp | None) -> None:
        """Call `root`, `duplicate` or `combine` instead: an instance made by hand may share numbers with another."""
        super().__init__()
        self._shares = shares
        self._used = used
        self._stamp = stamp
        self._retired = ""

    @classmethod
    def root(cls, name: str = DEFAULT_ROOT) -> Instance:
        """Make the first instance of a computation. Roots that will be combined need names of their own."""
        check_name(name)
        if BELOW in name:
            raise ClockError(f"a root's name has no {BELOW!r}, which separates the parts of lines' names: {name!r}")
        return cls({name: 1}, {}, None)

    @property
    def stamp(self) -> AutonomousStamp:
        """The stamp of the latest event; raises `ClockError` before the first."""
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
            return self._event(self._next_name())

    def duplicate(self) -> tuple[Instance, Instance]:
        """Make two instances with this one's past; the duplication is this one's last event.

        Let the one that lives longer be the first. If the share cannot be halved any further, the second gets a new
        line. Such lines are nested until their names are too long, which raises `ClockError`.
        """
        with self._lock:
            self._check()
            name = self._next_name()
            parts = deal(self._shares)
            if parts is None:
                if len(name.opened().encode()) > MAX_NAME_BYTES:
                    raise ClockError("this instance was duplicated too often on one path: combine it with an older one")
                parts = dict(self._shares), {name.opened(): 1}
            stamp = self._event(name)
            self._retired = "duplicated"
            return Instance(parts[0], self._used, stamp), Instance(parts[1], self._used, stamp)

    def observer_copy(self) -> tuple[Instance, Instance]:
        """Duplicate, but give the second instance no share: it can be combined, and makes no events of its own.

        A message needs no more than that, so a process can send for ever without dividing itself.
        """
        with self._lock:
            self._check()
            stamp = self._event(self._next_name())
            self._retired = "duplicated"
            return Instance(self._shares, self._used, stamp), Instance({}, self._used, stamp)

    def combine(self, other: Instance) -> Instance:
        """Make one instance with the past and the shares of both; the combination is its first event."""
        if not isinstance(other, Instance):
            raise TypeError(f"an Instance is combined with another one, not with {type(other).__name__}")
        if other is self:
            raise ClockError("an instance cannot be combined with itself")
        with holding(self, other):
            self._check()
            other._check()
            owned_lines = self._shares.keys() | other._shares.keys()
            shares = {line: add(self._shares.get(line, 0), other._shares.get(line, 0)) for line in sorted(owned_lines)}
            if not shares:
                raise ClockError("neither instance has a share to name events from: combine them with one that has")
            used_lines = self._used.keys() | other._used.keys()
            used = {line: union(self._used.get(line, 0), other._used.get(line, 0)) for line in sorted(used_lines)}
            combined = Instance(shares, used, None)
            combined._event(combined._next_name())
            self._retired = other._retired = "combined"
            return combined

    def hand_over(self) -> bytes:
        """Retire the instance and give its bytes, for `take_over` elsewhere. HAZARD: take the bytes over only once."""
        with self._lock:
            self._check()
            data = self._to_bytes()
            if len(data) > MAX_STAMP_BYTES:
                raise ClockError(f"an instance of {len(data)} bytes is over the limit of {MAX_STAMP_BYTES}")
            self._retired = "handed over"
            return data

    @classmethod
    def take_over(cls, data: bytes) -> Instance:
        """Read an instance that was handed over; raises `StampError`."""
        if not isinstance(data, bytes | bytearray) or not 1 < len(data) <= MAX_STAMP_BYTES or data[0] != _HANDED_OVER:
            raise StampError("these bytes are not an instance that was handed over")
        bits = BitReader(bytes(data[1:]))
        stamp = AutonomousStamp.read(bits) if bits.take(1) else None
        used = stamp.used if stamp else {}
        shares = {line: read_share(bits) for line in sorted(used) if bits.take(1)}
        used_lines = sorted(used)
        for _ in range(bits.number(0)):
            line = read_line(bits, used_lines)
            shares[line] = read_share(bits)
        bits.end()
        check_lines(dict.fromkeys(shares, 0) | dict(used))
        instance = cls(dict(sorted(shares.items())), used, stamp)
        deepest = max(map(depth_of, shares.values()), default=0)
        if deepest > HALVINGS or not (stamp or shares) or instance._to_bytes() != data:
            raise StampError("these bytes are not an instance that was handed over")
        return instance

    def _to_bytes(self) -> bytes:
        """Encode ``header, stamp, which of its lines are owned and the share of each, owned lines not used yet``."""
        bits = BitWriter()
        bits.put(self._stamp is not None, 1)
        if self._stamp is not None:
            self._stamp.write(bits)
        for line in sorted(self._used):
            bits.put(line in self._shares, 1)
            if line in self._shares:
                write_share(bits, self._shares[line])
        unused = sorted(self._shares.keys() - self._used.keys())
        bits.number(len(unused), 0)
        for line in unused:
            write_line(bits, line, sorted(self._used))
            write_share(bits, self._shares[line])
        return bytes((_HANDED_OVER,)) + bits.done()

    def __repr__(self) -> str:
        state = f" {self._retired}" if self._retired else ""
        return f"<Instance {self._stamp.name!r}{state}>" if self._stamp else f"<Instance new{state}>"

    def _next_name(self) -> EventName:
        if not self._shares:
            raise ClockError(
                "this instance is a message: it makes no events of its own; combine it with another instance"
            )
        name = EventName(*choose(self._used, self._shares))
        if name.number > MAX_COUNTER:
            raise ClockError("this instance has used up its numbers: combine it with another one")
        return name

    def _event(self, name: EventName) -> AutonomousStamp:
        self._used = {**self._used, name.line: use(self._used.get(name.line, 0), name.number)}
        self._stamp = AutonomousStamp(name, self._used)
        return self._stamp

    def _check(self) -> None:
        if self._retired:
            raise Retired(f"this instance was {self._retired}; use the instance that resulted")
