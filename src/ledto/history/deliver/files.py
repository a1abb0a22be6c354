"""Deliver a run's segments into files, and summarize the deliveries for the manifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from typing import Any

import pyarrow as pa

from ledto.causality.bounded_stamps import default_tick
from ledto.delivery.policies import MAX_TICKS, Phi, PolicyOption, StampPolicy, policies_from_options, read_policies
from ledto.errors import ClockDrift, LedtoError
from ledto.history import layout
from ledto.history.deliver.rows import Blocks
from ledto.history.deliver.segment import (
    DELIVERIES,
    LIMIT_ROWS,
    Contradictions,
    SegmentDeliveries,
    WallClock,
    deliver_segment,
)
from ledto.history.manifest import PolicySummary, WallClockSummary
from ledto.history.run import Run
from ledto.history.sealed import write_sealed_table
from ledto.measures.delays import Waits

AT_ONCE = "assumed at once"
"""What the manifest says of arrival times that no report has."""


class TooManyTicks(LedtoError, ValueError):
    """A length has more ticks than can be counted exactly. Pickles: a task of Spark may raise it."""

    def __init__(self, name: str, length: int, tick: int) -> None:
        self.name = name
        """eps or delta."""
        self.limit = MAX_TICKS * tick
        """The most that is possible with this tick, in the history's unit."""
        super().__init__(name, length, tick)

    def __str__(self) -> str:
        name, length, tick = self.args
        return f"{name} is at most {self.limit} with a tick of {tick}, in the history's unit, not {length}"


@dataclass(frozen=True, slots=True)
class Terms:
    """The policies of a history with all their settings, and some counts. `eps`, `delta` and `tick` are in its unit."""

    options: tuple[PolicyOption, ...]
    policies: Mapping[str, StampPolicy]
    """By name; their eps and delta are in ticks."""
    eps: int
    delta: int
    tick: int
    elements: int | None
    delta_given: bool
    """Whether the user gave delta; otherwise it is the longest delay of a report."""
    events: int
    untimed: int
    """Events without a time in their whole past. They are not delivered."""
    without_arrival: int
    """Events whose report is assumed to have arrived at once."""
    as_known: bool = False
    """Whether stamps are what an observer could know at the time (`ledto.history.deliver.segment`)."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentOutcome:
    """The result of delivering one segment. Pickles. Dictionaries are by policy."""

    number: int
    files: dict[str, str]
    """Names of the files within the run."""
    contradictions: dict[str, Contradictions]
    late: dict[str, int]
    """Events whose report arrived after the event was due."""
    waits: dict[str, Waits]
    """In ticks."""
    wall_clock: WallClock


def agree_terms(
    texts: Sequence[str],
    blocks: Blocks,
    *,
    eps: int,
    delta: int | None = None,
    tick: int | None = None,
    phi: Phi | None = None,
    elements: int | None = None,
    as_known: bool = False,
) -> Terms:
    """Read the policies, and take settings that are not given from the data.

    Without `delta`, it is the longest delay of a report: then no report is late for a policy that waits in full. Raises
    `ValueError` for policies that do not exist, or if a report arrived later than any policy waits, `TooManyTicks`, and
    `ClockDrift` if eps is too small for the history.
    """
    lag = int(blocks.largest_lag.max(initial=0))
    if lag > eps:
        raise ClockDrift(
            f"an event has a time {lag} before one of its causes, and eps is {eps}: make the history again with an eps of "
            f"{lag} or more"
        )
    tick = default_tick(eps) if tick is None else tick
    longest = max(0, int(blocks.largest_delay.max(initial=0)))
    if delta is None and longest > MAX_TICKS * tick:
        raise ValueError(
            f"a report arrived {longest} after its event, later than any policy waits: give delta, the longest that "
            "reports usually take"
        )
    for name, length in (("eps", eps), ("delta", delta or 0)):
        if length > MAX_TICKS * tick > 0:
            raise TooManyTicks(name, length, tick)
    policies = policies_from_options(
        texts, eps=eps, delta=longest if delta is None else delta, tick=tick, phi=phi, elements=elements
    )
    return Terms(
        tuple(read_policies(texts, phi=phi)),
        policies,
        eps,
        longest if delta is None else delta,
        tick,
        elements,
        delta is not None,
        int(blocks.rows.sum()),
        int(blocks.untimed.sum()),
        int(blocks.without_arrival.sum()),
        as_known,
    )


def deliver_and_write(
    run: Run, number: int, terms: Terms, blocks: Blocks, *, attempt: str, limit_rows: int = LIMIT_ROWS
) -> SegmentOutcome:
    """Deliver a segment and write a file for each policy. `attempt` makes the names unique."""
    return write_deliveries(run, number, deliver_on(terms, run, number, blocks, limit_rows=limit_rows), attempt=attempt)


def deliver_on(
    terms: Terms, run: Run, number: int, blocks: Blocks, *, limit_rows: int = LIMIT_ROWS
) -> SegmentDeliveries:
    """Deliver a segment under the policies of these terms."""
    return deliver_segment(
        run,
        number,
        terms.policies,
        blocks,
        eps=terms.eps,
        tick=terms.tick,
        limit_rows=limit_rows,
        as_known=terms.as_known,
    )


def write_deliveries(run: Run, number: int, delivered: SegmentDeliveries, *, attempt: str) -> SegmentOutcome:
    """Write the deliveries of a segment, a file for each policy. `attempt` makes the names unique."""
    files: dict[str, str] = {}
    for name, deliveries in delivered.policies.items():
        files[name] = _write(run, layout.segment_stem(f"delivery-{name}", number, attempt), deliveries.table)
    by_policy = delivered.policies.items()
    return SegmentOutcome(
        number,
        files,
        {name: deliveries.contradictions for name, deliveries in by_policy},
        {name: deliveries.late for name, deliveries in by_policy},
        {name: deliveries.waits for name, deliveries in by_policy},
        delivered.wall_clock,
    )


def _write(run: Run, stem: str, table: pa.Table) -> str:
    numbers = [field.name for field in DELIVERIES if pa.types.is_integer(field.type)]
    return write_sealed_table(
        run.store,
        run.name,
        stem,
        table,
        row_group_size=layout.SKELETON_ROWS,
        use_dictionary=False,
        column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        write_statistics=["at"],
    )


def summarize(outcomes: Sequence[SegmentOutcome], terms: Terms) -> tuple[dict[str, PolicySummary], WallClockSummary]:
    """Summarize the outcomes of all segments for the manifest: each policy, and the order by wall time."""
    ordered = sorted(outcomes, key=lambda outcome: outcome.number)
    reason = "nothing in their past has a time" if terms.untimed else None
    delta, delta_from = _delta(terms)
    policies: dict[str, PolicySummary] = {}
    for option in terms.options:
        name = option.name
        policies[name] = PolicySummary(
            policy=option.policy,
            phi=None if option.phi is None else float(option.phi),
            eps=terms.eps,
            delta=delta,
            delta_from=delta_from,
            tick=terms.tick,
            elements=getattr(terms.policies[name], "elements", None),
            arrival=_arrival(terms),
            as_known=terms.as_known,
            late=sum(outcome.late[name] for outcome in ordered),
            undelivered=terms.untimed,
            undelivered_reason=reason,
            violations=_violations([outcome.contradictions[name] for outcome in ordered]),
            delays=_delays(reduce(add, (outcome.waits[name] for outcome in ordered), Waits.none()), terms.tick),
            files=tuple(outcome.files[name] for outcome in ordered),
        )
    wall = reduce(add, (outcome.wall_clock for outcome in ordered)) if ordered else None
    return policies, WallClockSummary(
        undelivered=terms.untimed,
        undelivered_reason=reason,
        violations=_violations([outcome.wall_clock.contradictions for outcome in ordered]),
        messages_before_cause=wall.messages_before_cause if wall else 0,
        ties=wall.ties if wall else 0,
        earlier_by=wall.earlier_by if wall else 0,
    )


def _delta(terms: Terms) -> tuple[int | None, str]:
    """Return delta, and where it comes from; None and the reason if it cannot be known."""
    if terms.delta_given:
        return terms.delta, "given"
    if terms.without_arrival == terms.events - terms.untimed:
        return None, "cannot be known: no report has an arrival time"
    return terms.delta, "the longest delay of a report"


def _arrival(terms: Terms) -> str:
    if not terms.without_arrival:
        return "given"
    timed = terms.events - terms.untimed
    return AT_ONCE if terms.without_arrival == timed else f"{AT_ONCE} for {terms.without_arrival} of {timed} events"


def _violations(parts: Sequence[Contradictions]) -> dict[str, Any]:
    if not parts:
        return {}
    total = reduce(add, parts)
    counts: dict[str, Any] = dict.fromkeys(
        ("events", "before_cause", "after_effect", "involved", "pairs", "average_pct")
    )
    if total.inversions is not None:
        counts |= asdict(total.inversions)
        halved = 50 * (total.inversions.before_cause + total.inversions.after_effect)
        counts["average_pct"] = halved / total.inversions.events if total.inversions.events else 0.0
    return {
        **counts,
        "unknown_because": total.reason,
        "messages": total.messages,
        "messages_inverted": total.messages_inverted,
    }


def _delays(waits: Waits, tick: int) -> dict[str, Any]:
    """Convert waits in ticks to delays in the history's unit."""
    delays = waits.delays()
    if delays is None:
        return {"deliveries": 0}
    return {
        "deliveries": delays.deliveries,
        **{name: getattr(delays, name) * tick for name in ("p50", "p95", "p99", "max")},
        "mean": delays.mean * tick,
        "exact": waits.width == 1,
        "resolution": waits.width * tick,
    }
