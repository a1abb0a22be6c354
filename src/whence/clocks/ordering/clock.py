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

from collections.abc import Mapping

from whence.clocks.ordering.messages import Incoming
from whence.clocks.ordering.observer import DEFAULT_TIMEOUT_S, MAX_WAITING, OrderingObserver
from whence.clocks.ordering.stamp import OrderingStamp, Sends
from whence.clocks.vector.clock import VectorClock
from whence.clocks.vector.stamp import VectorStamp
from whence.clocks.wire import check_name


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
