"""Messages of an ordering clock: on their way in, waiting, and delivered."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

from whence.clocks.ordering.stamp import OrderingStamp
from whence.clocks.vector.stamp import VectorStamp

logger = logging.getLogger(__name__)


class Gap(NamedTuple):
    """A sender with sends that were missing when a message was delivered: the counter reached here, and the one needed."""

    sender: str
    have: int
    need: int


class OrderedDelivery(NamedTuple):
    """The outcome of one message."""

    sender: str
    number: int
    """The counter of the send event at its sender; with `sender`, it identifies the message."""
    stamp: VectorStamp | None
    """The stamp of the delivery event; None for a duplicate, which counts as no event."""
    gaps: tuple[Gap, ...] = ()
    late: bool = False
    """Whether a message that depends on this one was delivered before it."""
    duplicate: bool = False


class Incoming:
    """A message on its way in. Its stamp may leave out records that the receiver is known to have merged."""

    __slots__ = ("clock", "count", "needs", "on_delivery", "outstanding", "sender")

    def __init__(self, stamp: OrderingStamp, receiver: str, on_delivery: Callable[[], None] | None = None) -> None:
        self.sender = stamp._sender
        self.clock = stamp._clock
        self.count = self.clock.known(self.sender)
        self.outstanding = stamp._outstanding
        self.needs = self.outstanding.get(receiver, {})
        self.on_delivery = on_delivery

    def depends_on(self, other: Incoming) -> bool:
        """Tell whether the other message's send happened before this one's."""
        return self.clock.known(other.sender) >= other.count


class Waiting:
    """A message that waits for others. `delivery` is None until it is delivered."""

    __slots__ = ("_then", "delivery", "message")

    def __init__(self, message: Incoming, then: Callable[[OrderedDelivery], None]) -> None:
        self.message = message
        self.delivery: OrderedDelivery | None = None
        self._then = then

    def deliver(self, delivery: OrderedDelivery) -> None:
        """Set the delivery and call the callback. The clock calls this with its lock held.

        An exception of the callback is logged, not raised: it concerns whoever submitted the message, not whoever
        released it.
        """
        self.delivery = delivery
        try:
            self._then(delivery)
        except Exception:
            logger.exception(
                "a callback of an ordering clock failed; its message from %s is delivered", delivery.sender
            )
