"""Deliver online: offer reports one at a time, as they arrive, and get deliveries back.

    >>> from ledto.delivery.policies import CBD
    >>> observer = Observer(CBD(1, eps=5, delta=10))
    >>> second = Report(process=3, seq=2, r=120, c=0, kn=(2,), arrival=124)
    >>> first = Report(process=3, seq=1, r=118, c=0, kn=(1,), arrival=125)
    >>> for report in (second, first):                      # by arrival
    ...     for delivery in observer.offer(report, report.arrival):
    ...         print(delivery)
    >>> for delivery in observer.flush():
    ...     print(delivery.report.seq, "at", delivery.at)
    1 at 133
    2 at 135

Time is half-open: ``advance(now)`` says that every report arriving before `now` has been offered, and gives the
deliveries of times before `now`. So the deliveries do not depend on the order in which reports of one tick are
offered, nor on when `advance` is called, and they equal those of `ledto.delivery.batch.deliver_batch`.

HAZARD: that holds while the buffer has room. When it is full, deliveries depend on the order of offers; `when_full`
chooses what happens, and counters and flags record it. An observer can be pickled between calls and goes on from there.

`missing` names the numbers between the sender's highest message delivered so far and this one. They are causes of this
message, since a process's messages are ordered, and they were not delivered before it. Only the first delivery after a
gap names it. Nothing is concluded from the stamp: kn counts the events a sender knew of, not whose they were nor
whether they were messages, so an empty `missing` does not mean that no cause is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Literal, TypeAlias, get_args

from ledto.delivery.policies import StampPolicy
from ledto.delivery.seen import DEFAULT_MAX_GAPS, Gap, SeenMessages, Sighting
from ledto.errors import LedtoError
from ledto.events.report import Report

WhenFull: TypeAlias = Literal["refuse", "deliver-early"]
"""What happens to a report that comes when the buffer is full."""
DEFAULT_CAPACITY = 1_000_000
"""How many reports may wait by default."""

_Waiting: TypeAlias = tuple[tuple[int, ...], int, Report]
"""Place in the heap, due time, report."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivered report."""

    report: Report
    at: int
    """The observer's clock at the delivery."""
    waited: int
    """``at - report.arrival``."""
    late: bool
    """Whether it arrived after its due time, so that effects of it may have been delivered before it."""
    early: bool
    """Whether a full buffer forced it out, so that causes of it may be delivered after it."""
    missing: tuple[Gap, ...]
    """Causes known to be missing."""


@dataclass(frozen=True, slots=True)
class Counters:
    """What happened to the reports: ``offered = delivered + duplicate + refused`` plus those still waiting."""

    delivered: int = 0
    duplicate: int = 0
    refused: int = 0
    late: int = 0
    """Of those delivered."""
    early: int = 0
    """Of those delivered."""


class ReportRefused(LedtoError):
    """The observer refused the report; its state is as if the report had not been offered.

    Deliveries that became due meanwhile are kept and come with the next call.
    """

    def __init__(self, report: Report, why: str) -> None:
        super().__init__(f"message {report.seq} of process {report.process} was refused: {why}")
        self.report = report


class Observer:
    """Delivers reports under a policy. Not thread-safe."""

    def __init__(
        self,
        policy: StampPolicy,
        *,
        capacity: int = DEFAULT_CAPACITY,
        when_full: WhenFull = "refuse",
        max_gaps: int = DEFAULT_MAX_GAPS,
    ) -> None:
        """`capacity` bounds the waiting reports, `max_gaps` the memory for duplicates (see `ledto.delivery.seen`)."""
        if capacity < 1:
            raise ValueError(f"capacity is 1 or more reports, not {capacity}")
        if when_full not in get_args(WhenFull):
            raise ValueError(f"when_full is one of {', '.join(get_args(WhenFull))}, not {when_full!r:.60}")
        self.policy = policy
        self.capacity = capacity
        self.when_full = when_full
        self._rule = policy.rule()
        self._seen = SeenMessages(max_gaps=max_gaps)
        self._highest_delivered: dict[int, int] = {}
        self._heap: list[_Waiting] = []
        self._this_tick: dict[tuple[int, int], _Waiting] = {}
        self._ready: list[Delivery] = []
        self._now: int | None = None
        self._clock = 0
        self._kn_length: int | None = None
        self._flushed = False
        self._delivered = self._duplicate = self._refused = self._late = self._early = 0

    @property
    def counters(self) -> Counters:
        """What happened to the reports so far."""
        return Counters(self._delivered, self._duplicate, self._refused, self._late, self._early)

    @property
    def waiting(self) -> int:
        """How many reports are in the buffer."""
        return len(self._heap) + len(self._this_tick)

    def gaps(self, process: int) -> list[Gap]:
        """Return the sender's messages that have not come although a later one has."""
        return self._seen.gaps(process)

    def offer(self, report: Report, now: int) -> list[Delivery]:
        """Advance to `now`, then accept a report that arrives at `now`.

        Gives the deliveries of times before `now`, plus one at `now` if a full buffer forced it out. Raises
        `ReportRefused` if the report cannot be accepted, `ValueError` if it makes no sense here.
        """
        if report.arrival != now:
            raise ValueError(f"the report arrived at {report.arrival} and is offered at {now}: offer it at its arrival")
        if self._kn_length is not None and len(report.kn) != self._kn_length:
            raise ValueError(
                f"message {report.seq} of process {report.process} carries {len(report.kn)} kn elements and those "
                f"before it {self._kn_length}: all stamps of one computation carry equally many"
            )
        key = self._rule.key(report)
        due = self._rule.due(report)
        self._advance_to(now)
        self._kn_length = len(report.kn)
        place = key if self._rule.checks_queue else (max(now, due), *key)
        self._accept((place, due, report), now)
        return self._emit()

    def advance(self, now: int) -> list[Delivery]:
        """Give the deliveries of times before `now`; every report that arrives before `now` must have been offered."""
        self._advance_to(now)
        return self._emit()

    def flush(self) -> list[Delivery]:
        """Give the deliveries still to come if no report follows, at their own times. Ends the observer."""
        self._settle_tick()
        while self._heap:
            self._deliver_head(max(self._heap[0][1], self._clock))
        self._flushed = True
        return self._emit()

    def _advance_to(self, now: int) -> None:
        if self._flushed:
            raise ValueError("the observer was flushed, which ends it: make a new one")
        if self._now is not None and now < self._now:
            raise ValueError(f"time went backwards, from {self._now} to {now}: offer reports by arrival")
        if self._now is None or now > self._now:
            self._settle_tick()
        while self._heap and (at := max(self._heap[0][1], self._clock)) < now:
            self._deliver_head(at)
        self._now = now

    def _settle_tick(self) -> None:
        """Move the reports of the tick that has ended to the heap; until then none of them is delivered."""
        for waiting in self._this_tick.values():
            heappush(self._heap, waiting)
            self._clock = waiting[2].arrival
        self._this_tick.clear()

    def _accept(self, newcomer: _Waiting, now: int) -> None:
        """Add a report to the buffer, unless it is a duplicate; `ReportRefused` if it cannot be added."""
        report = newcomer[2]
        message = (report.process, report.seq)
        sighting = self._seen.sight(*message)
        if sighting is Sighting.DUPLICATE:
            self._duplicate += 1
            # If copies of one tick differ, the smallest counts, whichever was offered first.
            first = self._this_tick.get(message)
            if first is not None and newcomer[:2] < first[:2]:
                self._this_tick[message] = newcomer
        elif sighting is Sighting.FORGOTTEN:
            self._refused += 1
            raise ReportRefused(
                report,
                "it is older than the record of this sender's messages, so it may be a duplicate; raise max_gaps",
            )
        elif self.waiting < self.capacity:
            self._seen.add(*message)
            self._this_tick[message] = newcomer
        elif self.when_full == "refuse":
            self._refused += 1
            raise ReportRefused(
                report, f"{self.waiting} reports are waiting, which is the capacity; offer it again later"
            )
        else:
            self._seen.add(*message)
            self._settle_tick()
            heappush(self._heap, newcomer)
            self._deliver_head(now, early=True)

    def _deliver_head(self, at: int, *, early: bool = False) -> None:
        _, due, report = heappop(self._heap)
        have = self._highest_delivered.get(report.process, 0)
        self._highest_delivered[report.process] = max(have, report.seq)
        late = report.arrival > due
        missing = (Gap(report.process, have, report.seq - 1),) if have < report.seq - 1 else ()
        self._ready.append(Delivery(report, at, at - report.arrival, late, early, missing))
        self._clock = at
        self._delivered += 1
        self._late += late
        self._early += early

    def _emit(self) -> list[Delivery]:
        ready, self._ready = self._ready, []
        return ready
