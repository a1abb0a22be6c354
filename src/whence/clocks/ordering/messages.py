"""What an ordering clock is given and what it gives: messages on their way in, waiting, and delivered."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from whence.clocks.ordering.stamp import OrderingStamp
from whence.clocks.vector.stamp import VectorStamp

logger = logging.getLogger(__name__)


class Gap(NamedTuple):
    """What was missing when a message was delivered all the same: counters of one sender."""

    sender: str
    have: int
    need: int


class OrderedDelivery(NamedTuple):
    """What became of one message."""

    sender: str
    number: int
    """The counter of the send event at its sender: with `sender`, the message's identity."""
    stamp: VectorStamp | None
    """The stamp of the delivery event; None for a duplicate, which is no event."""
    gaps: tuple[Gap, ...] = ()
    late: bool = False
    """Something that depends on this message was delivered before it."""
    duplicate: bool = False


class Incoming:
    """A message on its way in. Records that the receiver is known to have merged may be left out of its stamp."""

    __slots__ = ("clock", "count", "needs", "on_delivery", "outstanding", "sender")

    def __init__(self, stamp: OrderingStamp, receiver: str, on_delivery: Callable[[], None] | None = None) -> None:
        self.sender = stamp._sender
        self.clock = stamp._clock
        self.count = self.clock.known(self.sender)
        self.outstanding = stamp._outstanding
        self.needs = self.outstanding.get(receiver, {})
        self.on_delivery = on_delivery

    def depends_on(self, other: Incoming) -> bool:
        """Whether the other message's send happened before this one's."""
        return self.clock.known(other.sender) >= other.count


class Waiting:
    """A message that waits for others. `delivery` is None until it is delivered."""

    __slots__ = ("_then", "delivery", "message")

    def __init__(self, message: Incoming, then: Callable[[OrderedDelivery], None]) -> None:
        self.message = message
        self.delivery: OrderedDelivery | None = None
        self._then = then

    def deliver(self, delivery: OrderedDelivery) -> None:
        """Settle it and tell whoever waits. The clock calls this, holding its lock.

        What the callback raises is logged: it belongs to whoever submitted the message, not to whoever released it.
        """
        self.delivery = delivery
        try:
            self._then(delivery)
        except Exception:
            logger.exception(
                "a callback of an ordering clock failed; its message from %s is delivered", delivery.sender
            )
