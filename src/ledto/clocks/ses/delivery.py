"""Deliver the messages of an ordering clock in causal order: `OrderingObserver` holds back what came too early."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import TIMEOUT_MAX, Event
from typing import TYPE_CHECKING, NamedTuple

from ledto.clocks.locked import LockedClock
from ledto.clocks.ses.stamp import OrderingStamp
from ledto.clocks.vector.clock import VectorClock, VectorObserver
from ledto.clocks.vector.stamp import VectorStamp
from ledto.clocks.wire import check_name
from ledto.errors import ClockError, UnstampedMessage

if TYPE_CHECKING:
    import asyncio

DEFAULT_TIMEOUT_S = 10.0
"""How long a message waits for others by default."""
MAX_WAITING = 10_000
"""How many messages may wait at once by default."""


logger = logging.getLogger(__name__)


class OrderingObserver(LockedClock):
    """A destination that delivers in causal order and never sends (Berry, 3.4.2). Thread-safe.

    Senders record their messages to it under `process`, as for any other destination.
    """

    def __init__(self, process: str, *, timeout_s: float = DEFAULT_TIMEOUT_S, max_waiting: int = MAX_WAITING) -> None:
        """`timeout_s`: how long a message waits for others, unless a call says otherwise.

        `max_waiting`: how many may wait at once; one more raises `ClockError`, and can be offered again.
        """
        check_name(process)
        if max_waiting < 1:
            raise ValueError(f"max_waiting is 1 or more, not {max_waiting}")
        super().__init__()
        self.process = process
        self.timeout_s = _check_timeout(timeout_s)
        self.max_waiting = max_waiting
        self._vector: VectorClock | VectorObserver = (observer := VectorObserver())
        self._merge: Callable[[VectorStamp], VectorStamp] = observer.observe
        self._waiting: list[WaitingMessage] = []
        self._last_from: dict[str, int] = {}
        self._missing: dict[str, list[tuple[int, int]]] = {}
        self._came_late: dict[str, set[int]] = {}
        self._own_reached = 0

    @property
    def stamp(self) -> VectorStamp:
        """The current vector; reading it counts as no event."""
        return self._vector.stamp

    @property
    def waiting(self) -> int:
        """How many messages wait for others."""
        return len(self._waiting)

    def try_deliver(self, stamp: OrderingStamp) -> OrderedDelivery | None:
        """Deliver the message if nothing it needs is missing; None, and no change, if it must wait."""
        return self.try_deliver_message(self._incoming(stamp))

    def deliver(self, stamp: OrderingStamp, *, timeout_s: float | None = None) -> OrderedDelivery:
        """Deliver the message when it may be delivered, or at its time-out; blocks this thread until then."""
        return self.deliver_message(self._incoming(stamp), timeout_s=timeout_s)

    def submit(self, stamp: OrderingStamp, then: Callable[[OrderedDelivery], None]) -> WaitingMessage:
        """Deliver the message as soon as it may be, and call `then` with the delivery; returns at once.

        `then` is called here, or later by the thread that delivers the last message it waits for, with the clock's lock
        held: hand the work on and return. `give_up` ends a wait that takes too long.
        """
        return self._submit(self._incoming(stamp), then)

    def give_up(self, waiting: WaitingMessage) -> OrderedDelivery:
        """Deliver a waiting message now, after the waiting messages it depends on; the delivery names the gaps."""
        with self._lock:
            while waiting.delivery is None:
                self._deliver_over_gaps(self._first_dependency(waiting))
            return waiting.delivery

    async def deliver_async(self, stamp: OrderingStamp, *, timeout_s: float | None = None) -> OrderedDelivery:
        """Do as `deliver`, without a thread while it waits. A cancelled wait leaves the message undelivered."""
        return await self.deliver_message_async(self._incoming(stamp), timeout_s=timeout_s)

    def try_deliver_message(self, message: Incoming) -> OrderedDelivery | None:
        """Do as `try_deliver`, for a message of a channel or of a stamp."""
        with self._lock:
            delivery = self._deliver_if_ready(message)
            if self._waiting and delivery is not None:
                self._release_ready()
            return delivery

    def deliver_message(self, message: Incoming, *, timeout_s: float | None = None) -> OrderedDelivery:
        """Do as `deliver`, for a message of a channel or of a stamp."""
        delivery = self.try_deliver_message(message)
        if delivery is not None:
            return delivery
        wait_s = self.timeout_s if timeout_s is None else _check_timeout(timeout_s)
        arrived = Event()
        waiting = self._submit(message, lambda _: arrived.set())
        try:
            arrived.wait(wait_s)
        except BaseException:
            self._withdraw(waiting)
            raise
        return self.give_up(waiting)

    async def deliver_message_async(self, message: Incoming, *, timeout_s: float | None = None) -> OrderedDelivery:
        """Do as `deliver_async`, for a message of a channel or of a stamp."""
        import asyncio  # Importing it takes 50 ms, which only programs that use it should pay.

        wait_s = self.timeout_s if timeout_s is None else _check_timeout(timeout_s)
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        waiting = self._submit(message, lambda _: _call_soon(loop, arrived.set))
        try:
            await asyncio.wait_for(arrived.wait(), wait_s)
        except TimeoutError:
            pass
        except BaseException:
            self._withdraw(waiting)
            raise
        return self.give_up(waiting)

    def _withdraw(self, waiting: WaitingMessage) -> None:
        """Forget a message whose caller no longer waits; if offered again, it counts as new."""
        with self._lock:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def _incoming(self, stamp: OrderingStamp | None) -> Incoming:
        if stamp is None:
            raise UnstampedMessage(
                f"{self.process!r} was given a message without a stamp: it cannot be ordered. Let its sender take "
                "part, or handle the message outside the ordering"
            )
        if not isinstance(stamp, OrderingStamp):
            raise TypeError(f"an ordering clock delivers an OrderingStamp, not {type(stamp).__name__}")
        return Incoming(stamp, self.process)

    def _submit(self, message: Incoming, then: Callable[[OrderedDelivery], None]) -> WaitingMessage:
        with self._lock:
            waiting = WaitingMessage(message, then)
            delivery = self._deliver_if_ready(message)
            if delivery is not None:
                waiting.deliver(delivery)  # before those it releases, so that callbacks come in causal order too
                self._release_ready()
                return waiting
            if len(self._waiting) >= self.max_waiting:
                raise ClockError(
                    f"{self.max_waiting} messages already wait at {self.process!r}; offer this one again later, or "
                    "shorten timeout_s so that waits end sooner"
                )
            self._waiting.append(waiting)
            return waiting

    def _deliver_if_ready(self, message: Incoming) -> OrderedDelivery | None:
        surely_new = not self._waiting and message.count > self._last_from.get(message.sender, 0)
        if not surely_new and self._is_duplicate(message):
            return OrderedDelivery(message.sender, message.count, None, duplicate=True)
        if message.needs and self._gaps(message):
            return None
        return self._accept(message, ())

    def _first_dependency(self, waiting: WaitingMessage) -> WaitingMessage:
        """Find a waiting message that this one depends on and that depends on no other; this one if there is none."""
        # One pass is enough: if the earliest so far does not depend on a message, nothing before it does.
        earliest = waiting
        for other in self._waiting:
            if other is not earliest and earliest.message.depends_on(other.message):
                earliest = other
        return earliest

    def _deliver_over_gaps(self, waiting: WaitingMessage) -> None:
        self._settle(waiting, self._gaps(waiting.message))
        self._release_ready()

    def _release_ready(self) -> None:
        progress = True
        while progress:
            progress = False
            # A sender's messages in the order it sent them, so that a long queue is released in one pass.
            for waiting in sorted(self._waiting, key=lambda waiting: waiting.message.count):
                if not self._gaps(waiting.message):
                    self._settle(waiting, ())
                    progress = True

    def _settle(self, waiting: WaitingMessage, gaps: tuple[MissingSends, ...]) -> None:
        self._waiting.remove(waiting)
        waiting.deliver(self._accept(waiting.message, gaps))

    def _gaps(self, message: Incoming) -> tuple[MissingSends, ...]:
        needs = [MissingSends(sender, self._reached(sender), need) for sender, need in message.needs.items()]
        return tuple(sorted(gap for gap in needs if gap.have < gap.need))

    def _reached(self, sender: str) -> int:
        # A process knows its own sends from the start, so of self-sends only the delivered ones count.
        return self._own_reached if sender == self.process else self._vector.known(sender)

    def _is_duplicate(self, message: Incoming) -> bool:
        sender, count = message.sender, message.count
        if any(w.message.sender == sender and w.message.count == count for w in self._waiting):
            return True
        if count > self._last_from.get(sender, 0):
            return False
        in_a_gap = any(have < count <= need for have, need in self._missing.get(sender, ()))
        return not in_a_gap or count in self._came_late.get(sender, ())

    def _accept(self, message: Incoming, gaps: tuple[MissingSends, ...]) -> OrderedDelivery:
        """Deliver now. The caller holds the lock."""
        sender, count = message.sender, message.count
        # A message that depends on this one can only have been delivered before it if there was a gap.
        late = bool(self._missing) and self._reached(sender) >= count
        for gap in gaps:
            self._missing.setdefault(gap.sender, []).append((gap.have, gap.need))
            if gap.sender == self.process:
                self._own_reached = gap.need
        stamp = self._absorb(message)
        if message.on_delivery:
            message.on_delivery()
        if late:
            self._came_late.setdefault(sender, set()).add(count)
        if count > self._last_from.get(sender, 0):
            self._last_from[sender] = count
        if sender == self.process and count > self._own_reached:
            self._own_reached = count
        return OrderedDelivery(sender, count, stamp, gaps, late)

    def _absorb(self, message: Incoming) -> VectorStamp:
        """Merge the message's stamp, and stamp the delivery."""
        return self._merge(message.clock)


def _check_timeout(timeout_s: float) -> float:
    if not isinstance(timeout_s, int | float) or not 0 <= timeout_s <= TIMEOUT_MAX:
        raise ValueError(f"timeout_s is a number of seconds from 0 to {TIMEOUT_MAX:.0f}, not {timeout_s!r:.60}")
    return timeout_s


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback)


class MissingSends(NamedTuple):
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
    gaps: tuple[MissingSends, ...] = ()
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


class WaitingMessage:
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
