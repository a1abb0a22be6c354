"""Causal ordering of messages by Schiper, Eggli and Sandoz, with a failure policy.

Properties, for processes that send through `OrderingClock` and deliver through it or `OrderingObserver`:

- a message is delivered after every message to the same process that was sent before it, self-sends included;
- nothing waits for ever: a message whose time-out passes is delivered after the waiting messages it depends on, and its
  delivery names the *gap*: for each sender, the counter reached here and the one that was needed;
- no violation is silent: what arrives after something that depends on it is delivered and flagged *late*;
- a duplicate, such as a retry of a message that did arrive, is recognised and is no event.

HAZARDS: a retry must carry the *same* stamp; a new one is a new message, and the receiver would wait for both.
`deliver` holds its thread while it waits, so a server whose only worker waits cannot take in the message that would end
the wait: use `deliver_async`, or `try_deliver` and a queue, where threads are few.

Where this departs from the papers: the clock is counted *before* the stamp is copied (counting after it lets violations
through), and a message waits unless what it needs is at most the receiver's clock ("greater than" lets incomparable
stamps pass). Sources: Schiper, Eggli, Sandoz 1989; Berry 1995, sections 3.4.2 and 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from threading import TIMEOUT_MAX, Event
from typing import NamedTuple

from whence.clocks.errors import ClockError, UnstampedMessage
from whence.clocks.guarded import Guarded
from whence.clocks.ordering.stamp import OrderingStamp, Sends
from whence.clocks.vector.clock import VectorClock, VectorObserver
from whence.clocks.vector.stamp import VectorStamp
from whence.clocks.wire import check_name

logger = logging.getLogger(__name__)

DEFAULT_TIMEOUT_S = 10.0
MAX_WAITING = 10_000


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


class OrderingObserver(Guarded):
    """A destination that takes part no further: it delivers in causal order and never sends (Berry, 3.4.2).

    Senders record their messages to it under `process` as for any other destination.
    """

    def __init__(self, process: str, *, timeout_s: float = DEFAULT_TIMEOUT_S, max_waiting: int = MAX_WAITING) -> None:
        """`timeout_s`: how long a message waits for others unless a call says otherwise.

        `max_waiting`: how many may wait at once; one more is refused with `ClockError`, and can be offered again.
        """
        check_name(process)
        if max_waiting < 1:
            raise ValueError(f"max_waiting is 1 or more, not {max_waiting}")
        super().__init__()
        self.process = process
        self.timeout_s = _checked_timeout(timeout_s)
        self.max_waiting = max_waiting
        self._vector: VectorClock | VectorObserver = (observer := VectorObserver())
        self._merge: Callable[[VectorStamp], VectorStamp] = observer.observe
        self._waiting: list[Waiting] = []
        self._last_from: dict[str, int] = {}
        self._missing: dict[str, list[tuple[int, int]]] = {}
        self._came_late: dict[str, set[int]] = {}
        self._own_reached = 0

    @property
    def stamp(self) -> VectorStamp:
        """The vector as it stands; reading it is no event."""
        return self._vector.stamp

    @property
    def waiting(self) -> int:
        """How many messages wait for others."""
        return len(self._waiting)

    def try_deliver(self, stamp: OrderingStamp) -> OrderedDelivery | None:
        """Deliver the message if nothing it needs is missing; None says that it must wait, and changes nothing."""
        return self.try_take(self._incoming(stamp))

    def deliver(self, stamp: OrderingStamp, *, timeout_s: float | None = None) -> OrderedDelivery:
        """Block this thread until the message may be delivered, or until its time-out, and deliver it."""
        return self.take(self._incoming(stamp), timeout_s=timeout_s)

    def submit(self, stamp: OrderingStamp, then: Callable[[OrderedDelivery], None]) -> Waiting:
        """Deliver the message as soon as it may be, and call `then` with the delivery: nobody waits.

        `then` is called here, or later by whichever thread delivers what the message waits for, with the clock's lock
        held: hand the work on and return. `give_up` ends a wait that takes too long.
        """
        return self._submit(self._incoming(stamp), then)

    def give_up(self, waiting: Waiting) -> OrderedDelivery:
        """Deliver a waiting message now, after those waiting messages that it depends on; its delivery names the gaps."""
        with self._lock:
            while waiting.delivery is None:
                self._pass(self._earliest_before(waiting))
            return waiting.delivery

    async def deliver_async(self, stamp: OrderingStamp, *, timeout_s: float | None = None) -> OrderedDelivery:
        """`deliver` for asyncio: waiting holds no thread. A cancelled wait leaves the message undelivered."""
        return await self.take_async(self._incoming(stamp), timeout_s=timeout_s)

    def try_take(self, message: Incoming) -> OrderedDelivery | None:
        """`try_deliver` for any form of message."""
        with self._lock:
            delivery = self._take_if_ready(message)
            if self._waiting and delivery is not None:
                self._release_ready()
            return delivery

    def take(self, message: Incoming, *, timeout_s: float | None = None) -> OrderedDelivery:
        """`deliver` for any form of message."""
        delivery = self.try_take(message)
        if delivery is not None:
            return delivery
        patience_s = self.timeout_s if timeout_s is None else _checked_timeout(timeout_s)
        arrived = Event()
        waiting = self._submit(message, lambda _: arrived.set())
        try:
            arrived.wait(patience_s)
        except BaseException:
            self._withdraw(waiting)
            raise
        return self.give_up(waiting)

    async def take_async(self, message: Incoming, *, timeout_s: float | None = None) -> OrderedDelivery:
        """`deliver_async` for any form of message."""
        patience_s = self.timeout_s if timeout_s is None else _checked_timeout(timeout_s)
        loop = asyncio.get_running_loop()
        arrived = asyncio.Event()
        waiting = self._submit(message, lambda _: _call_soon(loop, arrived.set))
        try:
            await asyncio.wait_for(arrived.wait(), patience_s)
        except TimeoutError:
            pass
        except BaseException:
            self._withdraw(waiting)
            raise
        return self.give_up(waiting)

    def _withdraw(self, waiting: Waiting) -> None:
        """Forget a message whose caller no longer waits: offered again, it is new."""
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

    def _submit(self, message: Incoming, then: Callable[[OrderedDelivery], None]) -> Waiting:
        with self._lock:
            waiting = Waiting(message, then)
            delivery = self._take_if_ready(message)
            if delivery is not None:
                waiting.deliver(delivery)  # before those it releases, so that callbacks come in causal order too
                self._release_ready()
                return waiting
            if len(self._waiting) >= self.max_waiting:
                raise ClockError(
                    f"{self.max_waiting} messages already wait at {self.process!r}; offer this one again later, or "
                    "shorten timeout_s so that gaps are passed sooner"
                )
            self._waiting.append(waiting)
            return waiting

    def _take_if_ready(self, message: Incoming) -> OrderedDelivery | None:
        nothing_like_it = not self._waiting and message.count > self._last_from.get(message.sender, 0)
        if not nothing_like_it and self._is_duplicate(message):
            return OrderedDelivery(message.sender, message.count, None, duplicate=True)
        if message.needs and self._gaps(message):
            return None
        return self._accept(message, ())

    def _earliest_before(self, waiting: Waiting) -> Waiting:
        """A waiting message that this one depends on and that depends on no other, or this one itself."""
        # One pass is enough: what the earliest so far does not depend on, nothing before it depends on either.
        earliest = waiting
        for other in self._waiting:
            if other is not earliest and earliest.message.depends_on(other.message):
                earliest = other
        return earliest

    def _pass(self, waiting: Waiting) -> None:
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

    def _settle(self, waiting: Waiting, gaps: tuple[Gap, ...]) -> None:
        self._waiting.remove(waiting)
        waiting.deliver(self._accept(waiting.message, gaps))

    def _gaps(self, message: Incoming) -> tuple[Gap, ...]:
        found = [Gap(sender, self._reached(sender), need) for sender, need in message.needs.items()]
        return tuple(sorted(gap for gap in found if gap.have < gap.need))

    def _reached(self, sender: str) -> int:
        # A process knows its own sends from the start, so for self-sends only those delivered count.
        return self._own_reached if sender == self.process else self._vector.known(sender)

    def _is_duplicate(self, message: Incoming) -> bool:
        sender, count = message.sender, message.count
        if any(w.message.sender == sender and w.message.count == count for w in self._waiting):
            return True
        if count > self._last_from.get(sender, 0):
            return False
        passed_over = any(have < count <= need for have, need in self._missing.get(sender, ()))
        return not passed_over or count in self._came_late.get(sender, ())

    def _accept(self, message: Incoming, gaps: tuple[Gap, ...]) -> OrderedDelivery:
        """Deliver now. The caller holds the lock."""
        sender, count = message.sender, message.count
        # Something that depends on this message can only have come before it over a gap.
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
        return self._merge(message.clock)


class OrderingClock(OrderingObserver):
    """The ordering clock of one process: sends and delivers. Thread-safe."""

    def __init__(self, process: str, *, timeout_s: float = DEFAULT_TIMEOUT_S, max_waiting: int = MAX_WAITING) -> None:
        """As `OrderingObserver`; `process` must be unique among all that take part, for ever."""
        super().__init__(process, timeout_s=timeout_s, max_waiting=max_waiting)
        self._vector: VectorClock = VectorClock(process)
        self._merge = self._vector.receive
        self._records: dict[str, Sends] = {}
        self._version = 0
        self._changed_in: dict[str, int] = {}
        """The version in which a destination's record last changed, latest last."""

    def local(self) -> VectorStamp:
        """Stamp an event of this process that is no message."""
        with self._lock:
            return self._vector.local()

    def send(self, to: str) -> OrderingStamp:
        """Stamp a message to one destination; a multicast is one send for each. A retry carries the same stamp."""
        check_name(to)
        with self._lock:
            clock, records = self.begin_send()
            stamp = OrderingStamp.trusted(self.process, clock, dict(records))
            self.end_send(to, clock)
            return stamp

    def begin_send(self) -> tuple[VectorStamp, Mapping[str, Sends]]:
        """The first half of `send`, for a channel: the message's vector, and the records that go with it.

        The caller holds the clock (`grouped`), copies what it needs of the records, and calls `end_send`.
        """
        return self._vector.send(), self._records

    def end_send(self, to: str, clock: VectorStamp) -> None:
        """The second half of `send`: record the message, whose vector `begin_send` gave, under its destination."""
        # This send waits behind what was outstanding for its target, so it alone would keep the order; the others
        # stay on record so that a gap names everything that is missing, also when this very message is lost.
        sends = self._records.get(to)
        mine = {self.process: clock.known(self.process)}
        self._record(to, {**sends, **mine} if sends else mine)

    def changed_since(self, version: int) -> list[str]:
        """Destinations whose records changed after a version, latest first. The caller holds the lock."""
        changed = []
        changed_in = self._changed_in
        for to in reversed(changed_in):
            if changed_in[to] <= version:
                break
            changed.append(to)
        return changed

    @property
    def version(self) -> int:
        """Counts changes of the records."""
        return self._version

    def _record(self, to: str, sends: Sends) -> None:
        self._version += 1
        if to in self._records:
            del self._records[to], self._changed_in[to]
        if sends:
            self._records[to] = sends
            self._changed_in[to] = self._version

    def _absorb(self, message: Incoming) -> VectorStamp:
        stamp = self._merge(message.clock)
        records = self._records
        for to, sends in message.outstanding.items():
            if to == self.process:
                continue
            mine = records.get(to, {})
            ahead = {process: count for process, count in sends.items() if count > mine.get(process, 0)}
            if ahead:
                self._record(to, {**mine, **ahead})
        # The sender knows of a send to itself only by having delivered it (except for self-sends, known to it from the
        # start), so what its vector covers need no longer be waited for.
        sender, clock = message.sender, message.clock
        to_sender, to_self = records.get(sender), records.get(self.process)
        if to_sender:
            left = {process: n for process, n in to_sender.items() if process == sender or clock.known(process) < n}
            if len(left) < len(to_sender):
                self._record(sender, left)
        if to_self:
            self._record(self.process, {process: n for process, n in to_self.items() if self._reached(process) < n})
        return stamp


def _checked_timeout(timeout_s: float) -> float:
    if not isinstance(timeout_s, int | float) or not 0 <= timeout_s <= TIMEOUT_MAX:
        raise ValueError(f"timeout_s is a number of seconds from 0 to {TIMEOUT_MAX:.0f}, not {timeout_s!r:.60}")
    return timeout_s


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(callback)
