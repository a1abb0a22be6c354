"""A channel for ordering stamps: the vector as in `ledto.clocks.channels.end`, and the records that changed.

Each end numbers its messages and, in every message, acknowledges the highest number it has *delivered*. A message
carries the records (which sends are outstanding for whom) that changed since the newest message that the peer has
delivered. The peer has merged the other records, or has seen since that their sends were delivered. If a message needs
a send to the peer that it does not list, then an earlier message that the peer has delivered needed it, too. So
deliveries are the same as with whole stamps.

HAZARD: this relies on what the peer remembers. So a message that builds on another names the end it was sent to, and an
end with another identity refuses it with `StaleChannel`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from ledto.clocks.channels.end import ChannelEnd, StaleChannel, random_identity
from ledto.clocks.ses.clock import OrderingClock
from ledto.clocks.ses.delivery import Incoming, OrderedDelivery, OrderingObserver
from ledto.clocks.ses.stamp import OrderingStamp, Sends, read_sends, write_sends
from ledto.clocks.vector.stamp import VectorStamp
from ledto.clocks.wire import Kind, StampReader, Writer
from ledto.errors import ClockError, StampError

PENDING = 64
"""Messages remembered while no acknowledgement comes; later messages cannot build on older ones."""

_PLACE = struct.Struct("<IQQQQ")
"""The lane of the sending process; the message's number; the number it builds on, 0 for none; the identity of the end
that must have delivered that one; the highest number delivered here."""


class OrderingChannel(ChannelEnd):
    """One process's end of a channel to one peer. Thread-safe, under its clock's lock.

    The end of an observer delivers and never sends. So it never acknowledges, and its peers send every record.
    """

    kind = Kind.ORDERING_MESSAGE

    def __init__(
        self, clock: OrderingClock | OrderingObserver, *, identity: Callable[[], int] = random_identity
    ) -> None:
        self.clock = clock
        self._sent = 0
        super().__init__(clock, identity=identity)

    def _forget_peer(self) -> None:
        super()._forget_peer()
        self._pending: dict[int, int] = {}
        """By unacknowledged message: the version of the clock's records in it."""
        self._base = 0
        self._base_version = 0
        self._delivered = 0
        self._peer_process: str | None = None

    def send(self, to: str | None = None) -> bytes:
        """Stamp a message to the peer, and encode it. A retry may send the same bytes again.

        `to` is the peer's process; it may be left out once a message of the peer has come.
        """
        clock = self._sending_clock()
        with self._held:
            to = to if to is not None else self._peer_process
            if to is None:
                raise ClockError(
                    "no message of the peer has come yet: name the process that this message is for with `to`"
                )
            version = clock.version
            vector, records = clock.begin_send()
            data = self._message(clock, vector, records, version)
            clock.end_send(to, vector)
            return data

    def encode(self, stamp: OrderingStamp) -> bytes:
        """Encode a stamp of `OrderingClock.send`, to send it again after `reset()`."""
        with self._held:
            # At version 0 no record counts as known, so messages that build on this one carry all of them.
            return self._message(self._sending_clock(), stamp.clock, stamp._outstanding, 0)

    def try_deliver(self, data: bytes) -> OrderedDelivery | None:
        """Deliver the message if nothing it needs is missing; None if it must wait: offer it again."""
        return self.clock.try_deliver_message(self._incoming(data))

    def deliver(self, data: bytes, *, timeout_s: float | None = None) -> OrderedDelivery:
        """Deliver the message when it may be delivered, or at its time-out; blocks this thread until then."""
        return self.clock.deliver_message(self._incoming(data), timeout_s=timeout_s)

    async def deliver_async(self, data: bytes, *, timeout_s: float | None = None) -> OrderedDelivery:
        """Do as `deliver`, without blocking the event loop."""
        return await self.clock.deliver_message_async(self._incoming(data), timeout_s=timeout_s)

    def _sending_clock(self) -> OrderingClock:
        if not isinstance(self.clock, OrderingClock):
            raise TypeError(f"the observer {self.clock.process!r} only delivers")
        return self.clock

    def _message(self, clock: OrderingClock, vector: VectorStamp, records: Mapping[str, Sends], version: int) -> bytes:
        self._sent = number = self._sent + 1
        self._pending[number] = version
        if len(self._pending) > PENDING:
            del self._pending[next(iter(self._pending))]
        head = self._write(vector)
        lane = vector._roster.index[clock.process]
        place = _PLACE.pack(lane, number, self._base, self._peer if self._base else 0, self._delivered)
        changed = [to for to in clock.changed_since(self._base_version) if to in records] if self._base else records
        if not changed:
            return head + place
        out = Writer(self.kind)
        write_sends(out, {to: records[to] for to in changed}, vector)
        return b"".join((head, place, out.done()))

    def _incoming(self, data: bytes) -> Incoming:
        with self._held:
            vector, end = self._read(data)
            place = end + _PLACE.size
            if place > len(data):
                raise StampError(f"byte {end} of {len(data)}: expected the message's place")
            lane, number, base, receiver, delivered = _PLACE.unpack_from(data, end)
            names = vector._roster.names
            if lane >= len(names) or not vector.known(names[lane]) or not number or base >= number:
                raise StampError(f"byte {end}: these bytes are not a message of an ordering channel")
            if base and receiver != self._me:
                raise StaleChannel(
                    "the message builds on one that this end never delivered: let its sender reset() and encode the "
                    "stamp again"
                )
            records: Mapping[str, Sends] = {}
            if place < len(data):
                read = StampReader(data[place:], self.kind)
                records = read_sends(read, vector)
                read.end()
            peer = self._peer
            self._peer_process = names[lane]
            return Incoming(
                OrderingStamp.trusted(names[lane], vector, records),
                self.clock.process,
                lambda: self._was_delivered(peer, number, delivered),
            )

    def _was_delivered(self, peer: int, number: int, delivered: int) -> None:
        if peer != self._peer:
            return
        self._delivered = max(self._delivered, number)
        pending = self._pending
        if delivered in pending:
            self._base, self._base_version = delivered, pending[delivered]
            while pending and (oldest := next(iter(pending))) <= delivered:
                del pending[oldest]
