"""Causal ordering of messages by Schiper, Eggli and Sandoz, with a failure policy.

Properties, for processes that send through `OrderingClock` and deliver through it or `OrderingObserver`:

- a message is delivered after every message to the same process that was sent before it, self-sends included;
- nothing waits for ever: a message whose time-out passes is delivered after the waiting messages it depends on, and its
  delivery names the *gap*: for each sender, the counter reached here and the one that was needed;
- no violation is silent: a message that arrives after one that depends on it is delivered and flagged *late*;
- a duplicate, such as a retry of a message that did arrive, is recognised and counts as no event.

HAZARDS: a retry must carry the *same* stamp; with a new one it is a new message, and the receiver would wait for both.
`deliver` blocks its thread while it waits. A server whose only worker waits cannot receive the message that would end
the wait: use `deliver_async`, or `try_deliver` and a queue, if threads are few.

Where this departs from the papers: the clock is counted *before* the stamp is copied (counting after it lets violations
through), and a message waits unless what it needs is at most the receiver's clock ("greater than" lets incomparable
stamps pass). Sources: Schiper, Eggli, Sandoz 1989; Berry 1995, sections 3.4.2 and 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping

from ledto.clocks.ses.delivery import DEFAULT_TIMEOUT_S, MAX_WAITING, Incoming, OrderingObserver
from ledto.clocks.ses.stamp import OrderingStamp, Sends
from ledto.clocks.vector.clock import VectorClock
from ledto.clocks.vector.stamp import VectorStamp
from ledto.clocks.wire import check_name


class OrderingClock(OrderingObserver):
    """The ordering clock of one process: sends and delivers. Thread-safe."""

    def __init__(self, process: str, *, timeout_s: float = DEFAULT_TIMEOUT_S, max_waiting: int = MAX_WAITING) -> None:
        """Like `OrderingObserver`; no other process may ever have the id `process`."""
        super().__init__(process, timeout_s=timeout_s, max_waiting=max_waiting)
        self._vector: VectorClock = VectorClock(process)
        self._merge = self._vector.receive
        self._records: dict[str, Sends] = {}
        self._version = 0
        self._changed_in: dict[str, int] = {}
        """By destination: the version in which its record last changed, latest last."""

    def local(self) -> VectorStamp:
        """Stamp an event of this process that is not a message."""
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
        """Begin a `send` for a channel: give the message's vector, and the records that go with it.

        The caller holds the clock (`grouped`), copies the records it needs, and calls `end_send`.
        """
        return self._vector.send(), self._records

    def end_send(self, to: str, clock: VectorStamp) -> None:
        """End a `send`: record the message, with the vector from `begin_send`, under its destination."""
        # This send waits for all that was outstanding for its target, so it alone would keep the order. The others
        # stay on record so that a gap names all that is missing, also if this very message is lost.
        sends = self._records.get(to)
        this_send = {self.process: clock.known(self.process)}
        self._record(to, {**sends, **this_send} if sends else this_send)

    def changed_since(self, version: int) -> list[str]:
        """List destinations whose records changed after a version, latest first. The caller holds the lock."""
        changed = []
        changed_in = self._changed_in
        for to in reversed(changed_in):
            if changed_in[to] <= version:
                break
            changed.append(to)
        return changed

    @property
    def version(self) -> int:
        """How often the records have changed."""
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
            recorded = records.get(to, {})
            ahead = {process: count for process, count in sends.items() if count > recorded.get(process, 0)}
            if ahead:
                self._record(to, {**recorded, **ahead})
        # The sender knows of a send to itself only by having delivered it (except for self-sends, which it knows from the
        # start), so nobody needs to wait for sends that its vector covers.
        sender, clock = message.sender, message.clock
        to_sender, to_self = records.get(sender), records.get(self.process)
        if to_sender:
            undelivered = {
                process: n for process, n in to_sender.items() if process == sender or clock.known(process) < n
            }
            if len(undelivered) < len(to_sender):
                self._record(sender, undelivered)
        if to_self:
            self._record(self.process, {process: n for process, n in to_self.items() if self._reached(process) < n})
        return stamp
