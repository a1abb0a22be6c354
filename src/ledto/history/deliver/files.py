"""Deliveries of a run's segments as files, and what the manifest says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from operator import add
from typing import Any

import pyarrow as pa

from ledto.causality.bounded_stamps import default_tick
from ledto.delivery.policies import MAX_TICKS, Phi, PolicyOption, StampPolicy, policies_from_options, read_policies
from ledto.errors import ClockDrift
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


@dataclass(frozen=True, slots=True)
class Terms:
    """Under which policies a history is delivered, and what was assumed of it. Lengths are in the history's unit."""

    options: tuple[PolicyOption, ...]
    policies: Mapping[str, StampPolicy]
    """By name, in ticks."""
    eps: int
    delta: int
    tick: int
    elements: int | None
    delta_given: bool
    events: int
    untimed: int
    without_arrival: int
    as_known: bool = False
    """Whether stamps are what an observer could know at the time (`ledto.history.deliver.segment`)."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentOutcome:
    """What a task reports of its segment. Pickles."""

    number: int
    files: dict[str, str]
    """By policy: the name of the file within the run."""
    contradictions: dict[str, Contradictions]
    late: dict[str, int]
    waits: dict[str, Waits]
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
    """The policies that the texts ask for, with what they leave open taken from the data.

    Without `delta`, it is the longest that a report took, so that none is late for a policy that waits in full. Raises
    `ValueError` for policies that do not exist and `ClockDrift` for an eps that the history breaks.
    """
    lag = int(blocks.largest_lag.max(initial=0))
    if lag > eps:
        raise ClockDrift(
            f"an event's causal time is {lag} after its time, and eps is {eps}: build the history again with an eps of {lag}"
        )
    tick = default_tick(eps) if tick is None else tick
    longest = max(0, int(blocks.largest_delay.max(initial=0)))
    if delta is None and longest > MAX_TICKS * tick:
        raise ValueError(
            f"a report arrived {longest} after its event, more than any policy waits: give delta, how long reports take"
        )
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
    """Deliver a segment and write a file for each policy; `attempt` makes their names unique."""
    return write_deliveries(run, number, deliver_on(terms, run, number, blocks, limit_rows=limit_rows), attempt=attempt)


def deliver_on(
    terms: Terms, run: Run, number: int, blocks: Blocks, *, limit_rows: int = LIMIT_ROWS
) -> SegmentDeliveries:
    """Deliver a segment on these terms."""
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


def write_deliveries(run: Run, number: int, found: SegmentDeliveries, *, attempt: str) -> SegmentOutcome:
    """Write what was found for a segment."""
    files: dict[str, str] = {}
    for name, deliveries in found.policies.items():
        files[name] = _write(run, layout.segment_stem(f"delivery-{name}", number, attempt), deliveries.table)
    each = found.policies.items()
    return SegmentOutcome(
        number,
        files,
        {name: deliveries.contradictions for name, deliveries in each},
        {name: deliveries.late for name, deliveries in each},
        {name: deliveries.waits for name, deliveries in each},
        found.wall_clock,
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


def summary(outcomes: Sequence[SegmentOutcome], terms: Terms) -> tuple[dict[str, PolicySummary], WallClockSummary]:
    """What the manifest says of each policy and of the order by wall time, from the outcomes of all segments."""
    ordered = sorted(outcomes, key=lambda each: each.number)
    reason = "nothing in their past has a time" if terms.untimed else None
    policies: dict[str, PolicySummary] = {}
    for option in terms.options:
        name = option.name
        policies[name] = PolicySummary(
            policy=option.policy,
            phi=None if option.phi is None else float(option.phi),
            eps=terms.eps,
            delta=terms.delta,
            delta_from="given" if terms.delta_given else "the longest delay of a report",
            tick=terms.tick,
            elements=getattr(terms.policies[name], "elements", None),
            arrival=_arrival(terms),
            as_known=terms.as_known,
            late=sum(each.late[name] for each in ordered),
            undelivered=terms.untimed,
            undelivered_reason=reason,
            violations=_violations([each.contradictions[name] for each in ordered]),
            delays=_delays(reduce(add, (each.waits[name] for each in ordered), Waits.none()), terms.tick),
            files=tuple(each.files[name] for each in ordered),
        )
    wall = reduce(add, (each.wall_clock for each in ordered)) if ordered else None
    return policies, WallClockSummary(
        undelivered=terms.untimed,
        undelivered_reason=reason,
        violations=_violations([each.wall_clock.contradictions for each in ordered]),
        messages_before_cause=wall.messages_before_cause if wall else 0,
        ties=wall.ties if wall else 0,
        earlier_by=wall.earlier_by if wall else 0,
    )


def _arrival(terms: Terms) -> str:
    if not terms.without_arrival:
        return "given"
    timed = terms.events - terms.untimed
    return AT_ONCE if terms.without_arrival == timed else f"{AT_ONCE} for {terms.without_arrival} of {timed} events"


def _violations(parts: Sequence[Contradictions]) -> dict[str, Any]:
    if not parts:
        return {}
    total = reduce(add, parts)
    found: dict[str, Any] = dict.fromkeys(
        ("events", "before_cause", "after_effect", "involved", "pairs", "average_pct")
    )
    if total.inversions is not None:
        found |= asdict(total.inversions)
        halved = 50 * (total.inversions.before_cause + total.inversions.after_effect)
        found["average_pct"] = halved / total.inversions.events if total.inversions.events else 0.0
    return {
        **found,
        "unknown_because": total.reason,
        "messages": total.messages,
        "messages_inverted": total.messages_inverted,
    }


def _delays(waits: Waits, tick: int) -> dict[str, Any]:
    """In the history's unit."""
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
