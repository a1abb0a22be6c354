"""Deliver in causal order by what the stamps record (Schiper-Eggli-Sandoz): no eps and no delta, but a time-out.

Senders stamp their reports with `ledto.clocks.OrderingClock.send(observer)`. A report is delivered as soon as every
report that was sent before it to the observer has been delivered. So a report waits only for those it depends on, and
without losses the order is exact whatever the clocks do. A lost report delays those that depend on it by `timeout`;
then they are delivered with the gap named, and what arrives after them is flagged late.

Deliveries are a pure function of the reports: those of one tick are handled in one fixed order.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from ledto.clocks import MissingSends, OrderedDelivery, OrderingObserver, OrderingStamp, WaitingMessage
from ledto.delivery.policies import MAX_TICKS, UNITS


@dataclass(frozen=True, slots=True)
class SES:
    """Deliver in causal order by recorded stamps; wait for a missing report no longer than `timeout`."""

    name: ClassVar[str] = "ses"

    timeout: int
    unit: str = field(default="tick", kw_only=True)

    def __post_init__(self) -> None:
        whole = isinstance(self.timeout, int) and not isinstance(self.timeout, bool)
        if not whole or not 0 <= self.timeout <= MAX_TICKS:
            raise ValueError(f"timeout is a whole number from 0 to {MAX_TICKS}, not {self.timeout!r:.60}")
        if self.unit not in UNITS:
            raise ValueError(f"unit is one of {', '.join(UNITS)}, not {self.unit!r:.60}")


@dataclass(frozen=True, slots=True)
class OrderedReport:
    """A report that carries an ordering stamp."""

    stamp: OrderingStamp
    arrival: int
    """The observer's clock when the report arrived."""


@dataclass(frozen=True, slots=True)
class SesDelivery:
    """A delivered report."""

    report: OrderedReport
    at: int
    waited: int
    late: bool
    """Whether a report that depends on it was delivered before it."""
    missing: tuple[MissingSends, ...]
    """Reports that it depends on and that did not come in time."""


class SesObserver:
    """Delivers reports under `SES`, with the interface of `ledto.delivery.observer.Observer`. Not thread-safe."""

    def __init__(self, policy: SES, *, process: str = "observer", capacity: int = 1_000_000) -> None:
        """`process`: the name by which senders address the observer.

        `capacity` bounds the waiting reports; one more raises `ClockError` and is not accepted.
        """
        self.policy = policy
        self.duplicates = 0
        self._order = OrderingObserver(process, max_waiting=capacity)
        self._this_tick: list[OrderedReport] = []
        self._deadlines: deque[tuple[int, WaitingMessage]] = deque()
        self._ready: list[SesDelivery] = []
        self._now: int | None = None
        self._clock = 0

    @property
    def waiting(self) -> int:
        """How many reports wait for others."""
        return self._order.waiting + len(self._this_tick)

    def offer(self, report: OrderedReport, now: int) -> list[SesDelivery]:
        """Advance to `now`, then accept a report that arrives at `now`; give the deliveries of times before `now`."""
        if report.arrival != now:
            raise ValueError(f"the report arrived at {report.arrival} and is offered at {now}: offer it at its arrival")
        self._advance_to(now)
        self._this_tick.append(report)
        return self._emit()

    def advance(self, now: int) -> list[SesDelivery]:
        """Give the deliveries of times before `now`; every report that arrives before `now` must have been offered."""
        self._advance_to(now)
        return self._emit()

    def flush(self) -> list[SesDelivery]:
        """Give the deliveries still to come if no report follows, at their own times."""
        self._settle_tick()
        self._give_up_before(None)
        return self._emit()

    def _advance_to(self, now: int) -> None:
        if self._now is not None and now < self._now:
            raise ValueError(f"time went backwards, from {self._now} to {now}: offer reports by arrival")
        if self._now is None or now > self._now:
            self._settle_tick()
            self._give_up_before(now)
            self._now = now

    def _settle_tick(self) -> None:
        """Submit the reports of the tick that has ended, in an order that does not depend on how they were offered."""
        for report in sorted(self._this_tick, key=_fixed_order):
            self._clock = report.arrival
            waiting = self._order.submit(report.stamp, partial(self._deliver, report))
            if waiting.delivery is None:
                self._deadlines.append((report.arrival + self.policy.timeout, waiting))
        self._this_tick.clear()

    def _give_up_before(self, now: int | None) -> None:
        while self._deadlines and (now is None or self._deadlines[0][0] < now):
            self._clock, waiting = self._deadlines.popleft()
            if waiting.delivery is None:
                self._order.give_up(waiting)

    def _deliver(self, report: OrderedReport, delivery: OrderedDelivery) -> None:
        if delivery.duplicate:
            self.duplicates += 1
        else:
            waited = self._clock - report.arrival
            self._ready.append(SesDelivery(report, self._clock, waited, delivery.late, delivery.gaps))

    def _emit(self) -> list[SesDelivery]:
        ready, self._ready = self._ready, []
        return ready


def _fixed_order(report: OrderedReport) -> tuple[int, str, int]:
    """Return a sort key: causes before effects, which know of more events, then by name."""
    stamp = report.stamp
    return sum(stamp.clock.values()), stamp.sender, stamp.clock[stamp.sender]
