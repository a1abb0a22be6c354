"""How wrong each clock is: the answer of `History.clocks`."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ledto.history.clocks.tables import read_clocks
from ledto.history.errors import HistoryError
from ledto.history.run import Run
from ledto.skew.offsets import BROKEN, ERRATIC, STEPS, ClockEstimate
from ledto.skew.same_clocks import SameClocks


@dataclass(frozen=True, slots=True)
class ClockReport:
    """A clock of the history. Offsets are how far it is ahead of the reference, in the history's unit."""

    estimate: ClockEstimate
    events: int
    """Events that have a time of this clock."""

    @property
    def broken(self) -> bool:
        """Whether it is wrong where the others agree."""
        return self.estimate.verdict in BROKEN

    @property
    def confidence(self) -> str:
        """What the estimate rests on, in words."""
        it = self.estimate
        if not it.peers:
            return "cannot be known: no messages with other clocks"
        seen = f"{it.received:,} messages in, {it.sent:,} out, {_count(it.peers, 'peer')}"
        if it.name == it.reference:
            return f"all offsets count from it: {seen}"
        if it.verdict in (STEPS, ERRATIC):
            return f"no one offset or drift fits its messages: {seen}"
        if it.low is None and it.high is None:
            return f"cannot be known: its messages bound it on no side: {seen}"
        if it.low is None or it.high is None:
            side = "how far ahead it is at most" if it.low is None else "how far behind it is at most"
            return f"one direction only, which tells {side}: {seen}"
        return f"bounded on both sides: {seen}"

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return {**asdict(self.estimate), "events": self.events, "broken": self.broken, "confidence": self.confidence}


@dataclass(frozen=True, slots=True)
class Clocks:
    """The clocks of a history, and the bounds for eps and delta that follow."""

    clocks: tuple[ClockReport, ...]
    """By name."""
    eps: dict[str, Any]
    """``at_least``, ``at_most`` (None: not known) by which two clocks differ, and the number of clocks ``unbounded``."""
    lag: int | None
    """The eps that the history needs: the largest excess of an event's causal time over its time."""
    eps_used: int | None
    """The eps that the history was made with."""
    groups: int
    """Sets of clocks that exchange messages, if indirectly; between two of them nothing is known."""
    message_delays: dict[str, Any]
    """``count``, ``p50``, ``p95``, ``p99`` and ``max`` of messages between clocks, by these clocks; and ``corrected_max``
    without the estimated offsets, of the ``corrected_count`` between clocks whose offsets do not change."""
    report_delays: dict[str, Any]
    """The same from events to the arrivals of their reports, and how many arrived ``before_event``."""
    same: tuple[SameClocks, ...] = ()
    """Sets of clocks that cannot be told apart, the largest first."""

    @property
    def broken(self) -> tuple[ClockReport, ...]:
        """Clocks that are wrong where the others agree."""
        return tuple(each for each in self.clocks if each.broken)

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return {
            "clocks": [each.to_json() for each in self.clocks],
            "broken": [each.estimate.name for each in self.broken],
            "eps": self.eps,
            "lag": self.lag,
            "eps_used": self.eps_used,
            "groups": self.groups,
            "message_delays": self.message_delays,
            "report_delays": self.report_delays,
            "same": [asdict(each) for each in self.same],
        }


def clocks_of(run: Run) -> Clocks:
    """The clocks of a committed run."""
    told = run.manifest.clocks
    if told is None:
        raise HistoryError(f"the history at {run.store} says nothing of its clocks: make it again with ledto observe")
    return Clocks(
        tuple(ClockReport(estimate, events) for estimate, events in read_clocks(run)),
        told.eps,
        run.manifest.lag,
        run.manifest.eps,
        told.groups,
        told.message_delays,
        told.report_delays,
        tuple(SameClocks(each.names, each.apart, each.by_answers) for each in told.same),
    )


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
