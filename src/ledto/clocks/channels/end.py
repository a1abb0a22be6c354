"""Send stamps between two processes that talk often: process ids once, counters every time.

Most of a vector stamp is the names in it. Each end of a channel numbers the roster (the sorted ids) of the stamps it
sends. It sends the names until the peer has acknowledged the number, and then only the number and the packed counters,
as they are in memory. Nothing else is left out, so nothing is assumed about which earlier stamps the peer remembers:
messages may be lost, repeated and reordered.

HAZARD: an end that lost its state does not know the numbers. Each end has a random identity, and a message names both.
A message with an unknown number is refused with `StaleChannel`. Its sender then calls `reset()` and encodes the *same*
stamp again, with names.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable
from random import SystemRandom
from typing import Generic, TypeVar

from ledto.clocks.locked import LockedClock
from ledto.clocks.vector.packed import NARROW, WIDE, Roster
from ledto.clocks.vector.stamp import VectorStamp, roster_from_bytes, roster_to_bytes, vector_stamp
from ledto.clocks.wire import MAX_STAMP_BYTES, VERSION, Kind
from ledto.errors import ClockError, StampError

MAX_ENDS = 1024
"""Peers that a hub remembers. Beyond that it forgets the oldest, whose next message needs names again."""
REMEMBERED = 64
"""Rosters of the peer that are kept, for messages that come out of order."""

_HEAD = struct.Struct("<BBQQII")
"""Codec version and kind; flags; identity of the sending end, and of the end it answers (0 while unknown); the number
of the roster; the highest number of the peer's that is known here."""
_NAMES_LENGTH = struct.Struct("<I")
_INCOMPLETE, _NAMES, _WIDE = 1, 2, 4
_ALL_FLAGS = _INCOMPLETE | _NAMES | _WIDE
_HEAD_SIZE = _HEAD.size
_LARGEST_STAMP = MAX_STAMP_BYTES - 4096
"""The most bytes of names and counters; the rest is for the fields around them."""
_IDENTITY = slice(2, 10)
"""The place of the sending end's identity in a message."""


class StaleChannel(ClockError):
    """A message that needs state which this end does not have; its sender must `reset()` and encode the stamp again."""


def random_identity() -> int:
    """Draw an identity for one end of a channel, never 0."""
    return SystemRandom().getrandbits(64) or 1


class ChannelEnd:
    """One process's end of a channel to one peer."""

    kind: Kind

    def __init__(self, guard: LockedClock, *, identity: Callable[[], int] = random_identity) -> None:
        self._held = guard.grouped()
        self._identity = identity
        self._first_byte = VERSION << 4 | self.kind
        self.reset()

    def reset(self) -> None:
        """Forget the peer: the next message has names, under a new identity."""
        with self._held:
            self._me = self._identity()
            self._roster: Roster | None = None
            self._number = 0
            self._peer = 0
            self._forget_peer()

    def _forget_peer(self) -> None:
        self._acknowledged = 0
        self._heard = 0
        self._rosters: dict[int, Roster] = {}

    def _write(self, stamp: VectorStamp) -> bytes:
        """Encode the head, the names unless the peer has acknowledged them, and the counters."""
        roster = stamp._roster
        flags = 0 if stamp._complete else _INCOMPLETE
        if roster is not self._roster:
            if roster.size_bytes + len(roster_to_bytes(roster)) > _LARGEST_STAMP:
                raise StampError(f"a vector of {len(roster.names)} processes is over the limit of a channel message")
            self._roster = roster
            self._number += 1
        lanes = stamp._packed.to_bytes(roster.size_bytes, "little")
        if self._number <= self._acknowledged:
            return _HEAD.pack(self._first_byte, flags, self._me, self._peer, self._number, self._heard) + lanes
        flags |= _NAMES | (_WIDE if roster.lane_bits == WIDE else 0)
        names = roster_to_bytes(roster)
        head = _HEAD.pack(self._first_byte, flags, self._me, self._peer, self._number, self._heard)
        return b"".join((head, _NAMES_LENGTH.pack(len(names)), names, lanes))

    def _read(self, data: bytes) -> tuple[VectorStamp, int]:
        """Read the stamp in a message, and the position after it. Stores the roster and the acknowledgement."""
        if not isinstance(data, bytes) or not _HEAD_SIZE <= len(data) <= MAX_STAMP_BYTES:
            raise StampError(f"a channel message is {_HEAD_SIZE} to {MAX_STAMP_BYTES} bytes")
        first_byte, flags, sender, receiver, number, heard = _HEAD.unpack_from(data)
        if first_byte != self._first_byte or flags > _ALL_FLAGS or not sender or not number:
            raise StampError(
                f"these bytes are not a message of a {self.kind.name.lower().removesuffix('_message')} channel"
            )
        if sender != self._peer:
            # A first message, or a peer that started again: it knows nothing of what the one before it acknowledged.
            self._forget_peer()
            self._peer = sender
        position = self._learn(data, number, flags) if flags & _NAMES else _HEAD_SIZE
        roster = self._rosters.get(number)
        if roster is None:
            raise StaleChannel(
                "the peer names its processes by a number whose names never came here: let it reset() and encode the "
                "stamp again"
            )
        end = position + roster.size_bytes
        packed = int.from_bytes(data[position:end], "little")
        if end > len(data) or packed & roster.guards:
            raise StampError(f"byte {position} of {len(data)}: expected {len(roster.names)} counters")
        if heard > self._acknowledged and receiver == self._me:
            self._acknowledged = min(heard, self._number)
        return vector_stamp(roster, packed, not flags & _INCOMPLETE), end

    def _learn(self, data: bytes, number: int, flags: int) -> int:
        """Store the names in a message under their number; return the position after them."""
        start = _HEAD_SIZE + _NAMES_LENGTH.size
        if len(data) < start:
            raise StampError(f"byte {len(data)}: expected the names of the processes")
        end = start + int(_NAMES_LENGTH.unpack_from(data, _HEAD_SIZE)[0])
        if end > len(data):
            raise StampError(f"byte {start} of {len(data)}: expected {end - start} bytes of names")
        roster = roster_from_bytes(data[start:end], WIDE if flags & _WIDE else NARROW)
        if self._rosters.setdefault(number, roster) is not roster:
            raise StampError(f"the peer gave the number {number} to two sets of processes")
        if len(self._rosters) > REMEMBERED:
            del self._rosters[min(self._rosters)]
        self._heard = max(self._heard, number)
        return end


E = TypeVar("E", bound=ChannelEnd)


class ChannelHub(Generic[E]):
    """A server's ends: one for each peer that sends, by the identity in its messages."""

    def __init__(self, make: Callable[[], E], *, max_ends: int = MAX_ENDS) -> None:
        """`make` makes a new end, such as ``lambda: VectorChannel(clock)``."""
        self._make = make
        self._max_ends = max_ends
        self._ends: OrderedDict[bytes, E] = OrderedDict()
        self._guard = LockedClock()

    def end(self, data: bytes) -> E:
        """Return the end for this message, a new one for a new peer. The end itself checks the message."""
        identity = bytes(data[_IDENTITY])
        end = self._ends.get(identity)
        return end if end is not None else self._new_end(identity)

    def _new_end(self, identity: bytes) -> E:
        with self._guard.grouped():
            end = self._ends.setdefault(identity, self._make())
            if len(self._ends) > self._max_ends:
                self._ends.popitem(last=False)
            return end
