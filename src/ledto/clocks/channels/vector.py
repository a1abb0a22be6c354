"""A channel for vector stamps; see `ledto.clocks.channels.end` for how it works and why it is sound."""

from __future__ import annotations

from collections.abc import Callable

from ledto.clocks.channels.end import ChannelEnd, random_identity
from ledto.clocks.vector.clock import VectorClock
from ledto.clocks.vector.stamp import VectorStamp
from ledto.clocks.wire import Kind
from ledto.errors import StampError


class VectorChannel(ChannelEnd):
    """One process's end of a channel to one peer. Thread-safe, under its clock's lock."""

    kind = Kind.VECTOR_MESSAGE

    def __init__(self, clock: VectorClock, *, identity: Callable[[], int] = random_identity) -> None:
        self.clock = clock
        super().__init__(clock, identity=identity)

    def send(self) -> bytes:
        """Stamp a send and encode it for the peer."""
        with self._held:
            return self._write(self.clock.send())

    def encode(self, stamp: VectorStamp) -> bytes:
        """Encode a stamp for the peer: one from `VectorClock.send`, or the same again after `reset()`."""
        with self._held:
            return self._write(stamp)

    def receive(self, data: bytes) -> VectorStamp:
        """Receive what the peer sent, and stamp the receipt.

        Raises `StampError` for bytes that are not such a message, `StaleChannel` when this end lacks the names; the
        clock is then unchanged.
        """
        with self._held:
            stamp, end = self._read(data)
            if end != len(data):
                raise StampError(f"byte {end} of {len(data)}: expected the end")
            return self.clock.receive(stamp)
