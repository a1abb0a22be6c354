"""Answer how wrong each clock is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from ledto.history.clocks.tables import read_clocks
from ledto.history.errors import HistoryError
from ledto.history.run import Run
from ledto.questions.answer import Answer, count
from ledto.skew.offsets import BROKEN, ERRATIC, STEPS, ClockEstimate
from ledto.skew.same_clocks import SameClocks

CLOCK_FIELDS = pa.schema(
    [
        *((name, pa.string()) for name in ("name", "verdict", "reference")),
        *((name, pa.int64()) for name in ("offset", "low", "high")),
        *((name, pa.float64()) for name in ("drift_ppm", "drift_low_ppm", "drift_high_ppm")),
        *((name, pa.int64()) for name in ("sent", "received", "peers", "resolution", "events")),
        ("broken", pa.bool_()),
        ("confidence", pa.string()),
    ]
)
"""The columns of a table of clocks: what `ClockReport.to_json` has, without its lists."""


@dataclass(frozen=True, slots=True)
class ClockReport:
    """A clock of the history. Its offset says how far it is ahead of the reference, in the history's unit."""

    estimate: ClockEstimate
    events: int
    """How many events have a time of this clock."""

    @property
    def broken(self) -> bool:
        """Whether it is wrong while the others agree."""
        return self.estimate.verdict in BROKEN

    @property
    def confidence(self) -> str:
        """What the estimate is derived from, in words."""
        it = self.estimate
        if not it.peers:
            return "cannot be known: no messages with other clocks"
        seen = f"{count(it.received, 'message')} in, {it.sent:,} out, {count(it.peers, 'peer')}"
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
        """Make the JSON object that `--json` prints."""
        return {**asdict(self.estimate), "events": self.events, "broken": self.broken, "confidence": self.confidence}


@dataclass(frozen=True, slots=True, repr=False)
class Clocks(Answer):
    """The answer of `History.clocks`: the clocks of a history, and the bounds for eps that follow from them."""

    clocks: tuple[ClockReport, ...]
    """All clocks, by name."""
    eps: dict[str, Any]
    """By how much two clocks differ: ``at_least``, ``at_most`` (None: not known), and how many are ``unbounded``."""
    lag: int | None
    """The eps that the history needs: the most by which the causal time of an event exceeds its time."""
    eps_used: int | None
    """The eps that the history was made with."""
    groups: int
    """How many sets of clocks exchange messages, directly or not. Clocks of different sets cannot be compared."""
    message_delays: dict[str, Any]
    """How long messages between clocks took by these clocks: ``count``, ``p50``, ``p95``, ``p99`` and ``max``. After
    subtracting the offsets: ``corrected_max`` of the ``corrected_count`` messages between clocks with constant offsets."""
    report_delays: dict[str, Any]
    """The same for the time from an event to the arrival of its report, and how many arrived ``before_event``."""
    same: tuple[SameClocks, ...] = ()
    """Sets of clocks that may be one and the same clock, the largest first."""
    unit: str = "ns"
    """The unit of offsets and delays."""

    @property
    def broken(self) -> tuple[ClockReport, ...]:
        """Clocks that are wrong while the others agree."""
        return tuple(clock for clock in self.clocks if clock.broken)

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints."""
        return {
            "clocks": [clock.to_json() for clock in self.clocks],
            "broken": [clock.estimate.name for clock in self.broken],
            "eps": self.eps,
            "lag": self.lag,
            "eps_used": self.eps_used,
            "groups": self.groups,
            "message_delays": self.message_delays,
            "report_delays": self.report_delays,
            "same": [asdict(clocks) for clocks in self.same],
            "unit": self.unit,
        }

    def to_arrow(self) -> pa.Table:
        """Make an Arrow table with a row for each clock: the columns of `CLOCK_FIELDS`."""
        return pa.Table.from_pylist([clock.to_json() for clock in self.clocks], CLOCK_FIELDS)

    def summary(self) -> str:
        names = ", ".join(clock.estimate.name for clock in self.broken[:3])
        more = ", ..." if len(self.broken) > 3 else ""
        return f"{count(len(self.clocks), 'clock')}, {f'broken: {names}{more}' if self.broken else 'none broken'}"

    def notes(self) -> Sequence[str]:
        unknown = self.eps.get("unbounded", 0)
        return [f"{count(unknown, 'clock')} cannot be bounded."] if unknown else []


def clocks_of(run: Run) -> Clocks:
    """Read the clocks of a run; raise `HistoryError` if it was made without them."""
    summary = run.manifest.clocks
    if summary is None:
        raise HistoryError(f"the history at {run.store} does not describe its clocks: make it again with ledto observe")
    return Clocks(
        tuple(ClockReport(estimate, events) for estimate, events in read_clocks(run)),
        summary.eps,
        run.manifest.lag,
        run.manifest.eps,
        summary.groups,
        summary.message_delays,
        summary.report_delays,
        tuple(SameClocks(clocks.names, clocks.apart, clocks.by_answers) for clocks in summary.same),
        run.manifest.unit,
    )
