"""Delivers the events of one segment under several policies and counts what each order contradicts, exactly.

A task reads its segment and the rows of its neighbours that `ledto.history.deliver.neighbours` names: those within 2 eps,
as a rule, and more where reports arrived after they were due. When that would be more than `limit_rows`, the counts that
need them are not given, and the reason is. What a message's own send and receive show is counted in any case.

The order of a policy is by ``(at, lead, tie)``: within one tick the key decides, which starts with `lead`; both are
independent of how the history is cut. ``rank`` is the place among the segment's own deliveries. Times are in the
history's unit, to the tick: ``at`` is the start of the tick in which the event is delivered, and ``waited`` counts from the
start of the tick in which its report arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledto.causality.bounded_stamps import BoundedStamps, eps_ticks, stamp_known_rows, stamp_rows
from ledto.delivery.policies import DeliveryRule, StampPolicy
from ledto.delivery.sort import argsort_packed
from ledto.delivery.stamped import (
    NO_LOW,
    Deliverer,
    PlacedDeliveries,
    StampedRows,
    TimeAxis,
    inverse,
    key_order,
    prompt_ticks,
    wait_ticks,
)
from ledto.history.deliver.neighbours import Neighbourhood, chain, delivery_bounds
from ledto.history.deliver.rows import NEVER, Blocks, EventRange, chain_of, load_span
from ledto.history.run import Run
from ledto.measures.delays import Waits
from ledto.measures.inversions import Inversions, OrderedRowsOfCauses, count_inversions

Longs = NDArray[np.int64]

LIMIT_ROWS = 4_000_000
"""Rows that a task loads at most for the sake of late reports; each takes about 300 bytes."""

DELIVERIES = pa.schema(
    [
        pa.field("at", pa.int64()),
        pa.field("waited", pa.int64()),
        pa.field("late", pa.bool_()),
        pa.field("lead", pa.int64()),
        pa.field("tie", pa.int32()),
        pa.field("rank", pa.int32()),
    ]
)
"""``1700000000120000000, 60000000, false, 1700000000080000000, 0, 17``, or null throughout for an event without a time;
rows as in the segment. Sorted by ``(at, lead, tie)``, the events of a computation are in the order of their delivery."""


@dataclass(frozen=True, slots=True)
class Contradictions:
    """What an order of events contradicts; those of segments add up."""

    messages: int
    """Messages received: pairs of a send and an event that received it, both timed."""
    messages_inverted: int
    """Of these, received before they were sent, in this order."""
    inversions: Inversions | None
    """The same for all pairs of a cause and its effect, direct or not."""
    reason: str | None = None
    """Why `inversions` is not known."""

    def __add__(self, other: Contradictions) -> Contradictions:
        inversions = None
        if self.inversions is not None and other.inversions is not None:
            inversions = self.inversions + other.inversions
        return Contradictions(
            self.messages + other.messages,
            self.messages_inverted + other.messages_inverted,
            inversions,
            self.reason or other.reason,
        )


@dataclass(frozen=True, slots=True, eq=False)
class PolicyDeliveries:
    """Deliveries of a segment under one policy."""

    table: pa.Table
    """Columns of `DELIVERIES`."""
    contradictions: Contradictions
    late: int
    waits: Waits
    """In ticks."""


@dataclass(frozen=True, slots=True)
class WallClock:
    """The order by time, process name and number; those of segments add up."""

    contradictions: Contradictions
    messages_before_cause: int
    """Messages whose receive has an earlier time than their send."""
    ties: int
    """Messages whose receive has the same time as their send."""
    earlier_by: int
    """The most by which a receive's time is before its send's; 0 without one."""

    def __add__(self, other: WallClock) -> WallClock:
        return WallClock(
            self.contradictions + other.contradictions,
            self.messages_before_cause + other.messages_before_cause,
            self.ties + other.ties,
            max(self.earlier_by, other.earlier_by),
        )


@dataclass(frozen=True, slots=True, eq=False)
class SegmentDeliveries:
    """What a task found."""

    policies: dict[str, PolicyDeliveries]
    wall_clock: WallClock
    rows_loaded: int


def deliver_segment(
    run: Run,
    number: int,
    policies: Mapping[str, StampPolicy],
    blocks: Blocks,
    *,
    eps: int,
    tick: int,
    limit_rows: int = LIMIT_ROWS,
    as_known: bool = False,
) -> SegmentDeliveries:
    """Deliver a segment's events.

    `eps` and `tick` are in the history's unit; the policies' eps and delta are in ticks, and their eps is
    ``eps_ticks(eps, tick)``. `blocks` are those of all segments, or at least of the computation's
    (`ledto.history.deliver.rows.survey_segment`). With `as_known`, stamps are what an observer could know when a report
    was due: a cause whose own report had not come by then does not count (`prompt_ticks`).
    """
    ticks = eps_ticks(eps, tick)
    rules = {name: policy.rule() for name, policy in policies.items()}
    for name, rule in rules.items():
        if rule.eps != ticks:
            raise ValueError(f"policy {name} has an eps of {rule.eps} ticks; eps {eps} at a tick of {tick} is {ticks}")
    numbers = chain_of(run, number)
    mine = blocks.take(slice(*np.searchsorted(blocks.segment, [numbers.start, numbers.stop])))
    delta = max((rule.delta for rule in rules.values()), default=0)
    near = chain(mine, eps_ticks=ticks, tick=tick, prompt=(delta + ticks) * tick if as_known else None)
    task = _Task(run, near, rules, eps, tick, as_known)
    own = range(*np.searchsorted(mine.segment, [number, number + 1]).tolist())
    return task.deliver(number, own, limit_rows)


@dataclass(frozen=True, slots=True, eq=False)
class _LoadedRows:
    """Rows loaded, and which of them are the segment's own, or exact."""

    span: EventRange
    own: slice
    exact: slice
    rows: OrderedRowsOfCauses
    """The exact ones."""
    effects: Longs
    """By message that an own row received: that row ..."""
    causes: Longs
    """... and the send, if it is among the exact rows; else -1 ..."""
    far: Longs
    """... or its position, which is -1 otherwise."""


class _Task:
    """The work on one segment, or on some blocks of its computation."""

    def __init__(
        self, run: Run, line: Neighbourhood, rules: dict[str, DeliveryRule], eps: int, tick: int, as_known: bool
    ) -> None:
        self.run, self.chain, self.rules, self.eps, self.tick = run, line, rules, eps, tick
        self.as_known = as_known

    def deliver(self, number: int, own: range, limit_rows: int) -> SegmentDeliveries:
        """Deliver a segment, whose blocks are `own`."""
        rows = int(self.run.segments.rows[number])
        first = int(self.run.segments.first_position[number])
        if not rows:
            return SegmentDeliveries(dict.fromkeys(self.rules, _NOTHING), _NO_WALL_CLOCK, 0)
        bounds = {name: delivery_bounds(self.chain.blocks, rule, self.tick) for name, rule in self.rules.items()}
        reach = self.chain.reach(own, bounds, limit_rows=limit_rows)
        window = self._load(reach.loaded, reach.exact, first, first + rows)
        deliver = self._deliverer(window.span)
        found: dict[str, PolicyDeliveries] = {}
        for name, rule in self.rules.items():
            placed = deliver(rule)
            if name in reach.too_far:
                contradictions = self._direct_only(
                    window, placed, rule, bounds[name][1], reach.too_far[name], limit_rows
                )
            else:
                contradictions = _contradictions(window, placed.place)
            found[name] = self._result(window, placed, contradictions, first, rows)
        return SegmentDeliveries(found, _wall_clock(window), len(window.span))

    def _load(self, loaded: range, exact: range, first: int, stop: int) -> _LoadedRows:
        span = load_span(self.run, *self._positions(loaded))
        own, right = _stretch(span, first, stop), _stretch(span, *self._positions(exact))
        skeleton = span.skeleton
        entries = slice(skeleton.offsets[own.start], skeleton.offsets[own.stop])
        effects = np.repeat(np.arange(own.start, own.stop), np.diff(skeleton.offsets[own.start : own.stop + 1]))
        causes = effects - skeleton.back[entries]
        far = np.where(causes < right.start, span.position[causes], -1)
        outside = (span.outside_row >= own.start) & (span.outside_row < own.stop)
        return _LoadedRows(
            span,
            own,
            right,
            OrderedRowsOfCauses(skeleton.part(right.start, right.stop), span.column),
            np.concatenate((effects, span.outside_row[outside])),
            np.concatenate((np.where(causes < right.start, -1, causes), np.full(int(outside.sum()), -1))),
            np.concatenate((far, span.outside_cause[outside])),
        )

    def _deliverer(self, span: EventRange) -> Callable[[DeliveryRule], PlacedDeliveries]:
        ticks = eps_ticks(self.eps, self.tick)
        elements = max(
            (ticks + 1 if rule.elements is None else rule.elements for rule in self.rules.values()), default=0
        )
        times = span.times
        arrival = times.arrival // self.tick

        def stamped(stamps: BoundedStamps) -> Deliverer:
            return Deliverer(StampedRows(span.starts, span.skeleton.process, stamps.r, stamps.c, stamps.kn, arrival))

        def known(rule: DeliveryRule) -> PlacedDeliveries:
            # A clock that is ahead by more than eps is not believed, and no clock is, where there is none: the arrival
            # stands for the time (`ledto.live.dates`).
            ahead = times.untold | (times.time > times.arrival + self.eps)
            r = np.where(ahead, arrival, times.time // self.tick)
            counted, informed = (~ahead & (arrival <= r + wait) for wait in (prompt_ticks(rule), wait_ticks(rule)))
            return stamped(
                stamp_known_rows(span.skeleton, r, counted, informed, most_c=ticks, elements=elements)
            ).deliver(rule)

        if self.as_known:
            return known
        return stamped(
            stamp_rows(span.skeleton, times.time, times.causal_time, eps=self.eps, tick=self.tick, elements=elements)
        ).deliver

    def _direct_only(
        self,
        window: _LoadedRows,
        placed: PlacedDeliveries,
        rule: DeliveryRule,
        largest_at: Longs,
        needed_rows: int,
        limit_rows: int,
    ) -> Contradictions:
        """Without the pairs that reach too far: what messages show by themselves."""
        inverted = _messages_inverted(window, placed.place)
        far = np.flatnonzero(window.far >= 0)
        block = self.chain.block_of(window.far[far])
        # Causes outside the exact rows are more than eps older, so that at one time they come first.
        at = placed.at[window.effects[far]]
        unclear = largest_at[block] > at
        for each in np.unique(block[unclear]).tolist():
            chosen = far[unclear & (block == each)]
            found = self._delivered_at(each, rule, window.far[chosen])
            inverted += int((found > placed.at[window.effects[chosen]]).sum())
        reason = (
            f"a report of this policy came so late that the pairs it is in reach over {needed_rows} events, and a task "
            f"loads {limit_rows}: raise delta, or the limit"
        )
        return Contradictions(len(window.effects), inverted, None, reason)

    def _delivered_at(self, block: int, rule: DeliveryRule, positions: Longs) -> Longs:
        """When the events at these positions of a block are delivered; a time before all others for untimed ones."""
        exact = range(block, block + 1)
        loaded = self.chain.loaded_for(exact)
        span = load_span(self.run, *self._positions(loaded))
        placed = self._deliverer(span)(rule)
        row = np.searchsorted(span.position, positions)
        timed = np.isin(positions, span.position)
        found = np.full(len(positions), -NEVER, np.int64)
        found[timed] = placed.at[row[timed]]
        return found

    def _positions(self, chosen: range) -> tuple[int, int]:
        first, rows = self.chain.blocks.first_position, self.chain.blocks.rows
        return int(first[chosen.start]), int(first[chosen.stop - 1] + rows[chosen.stop - 1])

    def _result(
        self, window: _LoadedRows, placed: PlacedDeliveries, contradictions: Contradictions, first: int, rows: int
    ) -> PolicyDeliveries:
        """The columns of the own rows, in the order of the segment."""
        span, own = window.span, window.own
        tick = self.tick
        at, late = placed.at[own], placed.late[own]
        waited = at - span.times.arrival[own] // tick
        untimed = np.ones(rows, np.bool_)
        to = span.position[own] - first
        untimed[to] = False

        def column(values: NDArray[np.generic], name: str) -> pa.Array:
            whole = np.zeros(rows, values.dtype)
            whole[to] = values
            return pa.array(whole, DELIVERIES.field(name).type, mask=untimed)

        columns = {
            "at": at * tick,
            "waited": waited * tick,
            "late": late,
            "lead": placed.lead[own] * tick,
            "tie": _ties(span, placed)[own],
            "rank": _ranks(span, placed, own),
        }
        table = pa.table([column(values, name) for name, values in columns.items()], schema=DELIVERIES)
        return PolicyDeliveries(table, contradictions, int(late.sum()), Waits.of(waited))


_NONE = Contradictions(0, 0, Inversions(0, 0, 0, 0, 0))
_NOTHING = PolicyDeliveries(DELIVERIES.empty_table(), _NONE, 0, Waits.none())
_NO_WALL_CLOCK = WallClock(_NONE, 0, 0, 0)


def _stretch(span: EventRange, first: int, stop: int) -> slice:
    """The rows at these positions; a span of several computations is one segment, all of which is meant."""
    if len(span.starts) > 2:
        return slice(0, len(span))
    return slice(*np.searchsorted(span.position, [first, stop]).tolist())


def _ties(span: EventRange, placed: PlacedDeliveries) -> Longs:
    """By row: how many deliveries of the same time and lead come before it."""
    at, lead = placed.at[placed.order], placed.lead[placed.order]
    changes = np.append(True, (at[1:] != at[:-1]) | (lead[1:] != lead[:-1]))[: len(at)]
    changes[span.starts[:-1][np.diff(span.starts) > 0]] = True
    places = np.arange(len(at))
    ties = np.empty(len(at), np.int64)
    ties[placed.order] = places - np.maximum.accumulate(np.where(changes, places, 0))
    return ties


def _ranks(span: EventRange, placed: PlacedDeliveries, own: slice) -> Longs:
    """By own row: its place among the own rows."""
    order = placed.order
    if len(span.starts) > 2:
        order = order[argsort_packed(placed.at[order], NO_LOW)]
    mine = np.zeros(len(span), np.bool_)
    mine[own] = True
    ranks = np.empty(len(span), np.int64)
    ranks[order] = np.cumsum(mine[order]) - 1
    return ranks[own]


def _contradictions(window: _LoadedRows, place: Longs) -> Contradictions:
    start = window.exact.start
    inversions = count_inversions(window.rows, place[window.exact], window.own.start - start, window.own.stop - start)
    return Contradictions(len(window.effects), _messages_inverted(window, place), inversions)


def _messages_inverted(window: _LoadedRows, place: Longs) -> int:
    near = window.causes >= 0
    return int((place[window.causes[near]] > place[window.effects[near]]).sum())


def _wall_clock(window: _LoadedRows) -> WallClock:
    span = window.span
    time, process = span.times.time, span.skeleton.process
    by_time = key_order(TimeAxis(span.starts, time).columns[0], np.empty((len(span), 0), np.int32), process)
    near = window.causes >= 0
    early = time[window.causes[near]] - time[window.effects[near]]
    return WallClock(
        _contradictions(window, inverse(by_time)),
        int((early > 0).sum()),
        int((early == 0).sum()),
        max(0, int(early.max(initial=0))),
    )
