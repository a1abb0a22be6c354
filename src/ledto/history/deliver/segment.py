"""Deliver the events of one segment under several policies, and count exactly how each order contradicts causality.

A task reads its segment and the rows that `ledto.history.deliver.neighbours` names: usually those within 2 eps, and more if
reports arrived after they were due. If that is more than `limit_rows`, the counts that need them are left out, with the
reason. Messages that arrive before their send are always counted.

The order of a policy is by ``(at, lead, tie)``: within one tick the key decides, which begins with `lead`. Neither depends
on how the history is cut. ``rank`` is the place among the segment's own deliveries. Times are in the history's unit, rounded
to ticks: ``at`` is the start of the tick in which the event is delivered, and ``waited`` counts from the start of the tick
in which its report arrived.
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
from ledto.history.deliver.neighbours import Neighbourhood, delivery_bounds, neighbourhood_of
from ledto.history.deliver.rows import NEVER, Blocks, EventRange, chain_of, load_range
from ledto.history.run import Run
from ledto.measures.delays import Waits
from ledto.measures.inversions import CausalRows, Inversions, count_inversions

Longs = NDArray[np.int64]

LIMIT_ROWS = 4_000_000
"""The most rows that a task loads because of late reports. Each takes about 300 bytes."""

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
"""``1700000000120000000, 60000000, false, 1700000000080000000, 0, 17``; all null for an event that has no time. Rows are as
in the segment. Sorted by ``(at, lead, tie)``, the events of a computation are in the order of their delivery."""


@dataclass(frozen=True, slots=True)
class Contradictions:
    """How often an order of events contradicts causality. Those of segments can be added."""

    messages: int
    """Pairs of a send and an event that received it, both timed."""
    messages_inverted: int
    """Pairs of these with the receive before the send in this order."""
    inversions: Inversions | None
    """The same for all pairs of a cause and an effect, direct or not; None if not counted."""
    reason: str | None = None
    """Why `inversions` was not counted."""

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
    """The deliveries of a segment under one policy."""

    table: pa.Table
    """Columns of `DELIVERIES`."""
    contradictions: Contradictions
    late: int
    """Events whose report arrived after the event was due."""
    waits: Waits
    """In ticks."""


@dataclass(frozen=True, slots=True)
class WallClock:
    """How the order by time, process name and number contradicts causality. Those of segments can be added."""

    contradictions: Contradictions
    messages_before_cause: int
    """Messages whose receive has an earlier time than their send."""
    ties: int
    """Messages whose receive has the same time as their send."""
    earlier_by: int
    """The most by which a receive's time is before its send's; 0 if none is."""

    def __add__(self, other: WallClock) -> WallClock:
        return WallClock(
            self.contradictions + other.contradictions,
            self.messages_before_cause + other.messages_before_cause,
            self.ties + other.ties,
            max(self.earlier_by, other.earlier_by),
        )


@dataclass(frozen=True, slots=True, eq=False)
class SegmentDeliveries:
    """The result of delivering one segment."""

    policies: dict[str, PolicyDeliveries]
    wall_clock: WallClock
    rows_loaded: int
    """Rows that the task loaded, those of neighbours included."""


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

    `eps` and `tick` are in the history's unit; the policies' eps and delta are in ticks, and their eps must be
    ``eps_ticks(eps, tick)``; raises `ValueError` otherwise. `blocks` are those of all segments, or at least of the
    computation's (`ledto.history.deliver.rows.survey_segment`). `as_known`: stamps are what an observer could know when a
    report was due; a cause whose own report had not come by then does not count (`prompt_ticks`).
    """
    ticks = eps_ticks(eps, tick)
    rules = {name: policy.rule() for name, policy in policies.items()}
    for name, rule in rules.items():
        if rule.eps != ticks:
            raise ValueError(f"policy {name} has an eps of {rule.eps} ticks; eps {eps} at a tick of {tick} is {ticks}")
    numbers = chain_of(run, number)
    in_chain = blocks.take(slice(*np.searchsorted(blocks.segment, [numbers.start, numbers.stop])))
    delta = max((rule.delta for rule in rules.values()), default=0)
    prompt = (delta + ticks) * tick if as_known else None
    neighbourhood = neighbourhood_of(in_chain, eps_ticks=ticks, tick=tick, prompt=prompt)
    task = _Task(run, neighbourhood, rules, eps, tick, as_known)
    own = range(*np.searchsorted(in_chain.segment, [number, number + 1]).tolist())
    return task.deliver(number, own, limit_rows)


@dataclass(frozen=True, slots=True, eq=False)
class _LoadedRows:
    """The rows that a task has loaded, and the messages that rows of its own segment received."""

    events: EventRange
    own: slice
    """The rows of the task's own segment."""
    exact: slice
    """The rows whose deliveries must be right."""
    rows: CausalRows
    """The exact rows."""
    effects: Longs
    """By message: the row that received it."""
    causes: Longs
    """By message: the row that sent it, if that is among the exact rows; otherwise -1."""
    far: Longs
    """By message: the position of the send, if that is not among the exact rows; otherwise -1."""


class _Task:
    """Delivers one segment, or some blocks of its computation."""

    def __init__(
        self,
        run: Run,
        neighbourhood: Neighbourhood,
        rules: dict[str, DeliveryRule],
        eps: int,
        tick: int,
        as_known: bool,
    ) -> None:
        self.run, self.neighbourhood, self.rules, self.eps, self.tick = run, neighbourhood, rules, eps, tick
        self.as_known = as_known

    def deliver(self, number: int, own: range, limit_rows: int) -> SegmentDeliveries:
        """Deliver a segment. `own` are its blocks."""
        rows = int(self.run.segments.rows[number])
        first = int(self.run.segments.first_position[number])
        if not rows:
            return SegmentDeliveries(dict.fromkeys(self.rules, _NOTHING), _NO_WALL_CLOCK, 0)
        bounds = {
            name: delivery_bounds(self.neighbourhood.blocks, rule, self.tick) for name, rule in self.rules.items()
        }
        reach = self.neighbourhood.reach(own, bounds, limit_rows=limit_rows)
        window = self._load(reach.loaded, reach.exact, first, first + rows)
        deliver = self._deliverer(window.events)
        deliveries: dict[str, PolicyDeliveries] = {}
        for name, rule in self.rules.items():
            placed = deliver(rule)
            if name in reach.too_far:
                contradictions = self._direct_only(
                    window, placed, rule, bounds[name][1], reach.too_far[name], limit_rows
                )
            else:
                contradictions = _contradictions(window, placed.place)
            deliveries[name] = self._result(window, placed, contradictions, first, rows)
        return SegmentDeliveries(deliveries, _wall_clock(window), len(window.events))

    def _load(self, loaded: range, exact: range, first: int, stop: int) -> _LoadedRows:
        """Load blocks. The own rows are those at positions ``first <= position < stop``."""
        events = load_range(self.run, *self._positions(loaded))
        own, exact_rows = _stretch(events, first, stop), _stretch(events, *self._positions(exact))
        skeleton = events.skeleton
        entries = slice(skeleton.offsets[own.start], skeleton.offsets[own.stop])
        effects = np.repeat(np.arange(own.start, own.stop), np.diff(skeleton.offsets[own.start : own.stop + 1]))
        causes = effects - skeleton.back[entries]
        far = np.where(causes < exact_rows.start, events.position[causes], -1)
        outside = (events.outside_row >= own.start) & (events.outside_row < own.stop)
        return _LoadedRows(
            events,
            own,
            exact_rows,
            CausalRows(skeleton.part(exact_rows.start, exact_rows.stop), events.column),
            np.concatenate((effects, events.outside_row[outside])),
            np.concatenate((np.where(causes < exact_rows.start, -1, causes), np.full(int(outside.sum()), -1))),
            np.concatenate((far, events.outside_cause[outside])),
        )

    def _deliverer(self, events: EventRange) -> Callable[[DeliveryRule], PlacedDeliveries]:
        """Stamp the rows; give a function that delivers them under a rule."""
        ticks = eps_ticks(self.eps, self.tick)
        elements = max(
            (ticks + 1 if rule.elements is None else rule.elements for rule in self.rules.values()), default=0
        )
        times = events.times
        arrival = times.arrival // self.tick

        def with_stamps(stamps: BoundedStamps) -> Deliverer:
            return Deliverer(
                StampedRows(events.starts, events.skeleton.process, stamps.r, stamps.c, stamps.kn, arrival)
            )

        def deliver_as_known(rule: DeliveryRule) -> PlacedDeliveries:
            # The arrival is used instead of the time if there is none, or if its clock is ahead by more than eps
            # (`ledto.live.dates`).
            unbelieved = times.without_time | (times.time > times.arrival + self.eps)
            r = np.where(unbelieved, arrival, times.time // self.tick)
            counted, informed = (~unbelieved & (arrival <= r + wait) for wait in (prompt_ticks(rule), wait_ticks(rule)))
            return with_stamps(
                stamp_known_rows(events.skeleton, r, counted, informed, most_c=ticks, elements=elements)
            ).deliver(rule)

        if self.as_known:
            return deliver_as_known
        return with_stamps(
            stamp_rows(events.skeleton, times.time, times.causal_time, eps=self.eps, tick=self.tick, elements=elements)
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
        """Count only inverted messages, if other inverted pairs reach further than a task may load."""
        inverted = _messages_inverted(window, placed.place)
        far = np.flatnonzero(window.far >= 0)
        block = self.neighbourhood.block_of(window.far[far])
        # Causes outside the exact rows are more than eps older, so that they come first among deliveries at one time.
        at = placed.at[window.effects[far]]
        unclear = largest_at[block] > at
        for number in np.unique(block[unclear]).tolist():
            chosen = far[unclear & (block == number)]
            cause_at = self._delivered_at(number, rule, window.far[chosen])
            inverted += int((cause_at > placed.at[window.effects[chosen]]).sum())
        reason = (
            f"a report came so late under this policy that its inverted pairs reach over {needed_rows} events, and a task "
            f"loads {limit_rows}: raise delta, or the limit"
        )
        return Contradictions(len(window.effects), inverted, None, reason)

    def _delivered_at(self, block: int, rule: DeliveryRule, positions: Longs) -> Longs:
        """Find when the events at these positions of a block are delivered; -`NEVER` for untimed ones."""
        exact = range(block, block + 1)
        loaded = self.neighbourhood.loaded_for(exact)
        events = load_range(self.run, *self._positions(loaded))
        placed = self._deliverer(events)(rule)
        row = np.searchsorted(events.position, positions)
        timed = np.isin(positions, events.position)
        at = np.full(len(positions), -NEVER, np.int64)
        at[timed] = placed.at[row[timed]]
        return at

    def _positions(self, chosen: range) -> tuple[int, int]:
        """Give the first position of some blocks, and the one after their last."""
        first, rows = self.neighbourhood.blocks.first_position, self.neighbourhood.blocks.rows
        return int(first[chosen.start]), int(first[chosen.stop - 1] + rows[chosen.stop - 1])

    def _result(
        self, window: _LoadedRows, placed: PlacedDeliveries, contradictions: Contradictions, first: int, rows: int
    ) -> PolicyDeliveries:
        """Make the table of the own rows, in the order of the segment."""
        events, own = window.events, window.own
        tick = self.tick
        at, late = placed.at[own], placed.late[own]
        waited = at - events.times.arrival[own] // tick
        untimed = np.ones(rows, np.bool_)
        timed_rows = events.position[own] - first
        untimed[timed_rows] = False

        def column(values: NDArray[np.generic], name: str) -> pa.Array:
            whole = np.zeros(rows, values.dtype)
            whole[timed_rows] = values
            return pa.array(whole, DELIVERIES.field(name).type, mask=untimed)

        columns = {
            "at": at * tick,
            "waited": waited * tick,
            "late": late,
            "lead": placed.lead[own] * tick,
            "tie": _ties(events, placed)[own],
            "rank": _ranks(events, placed, own),
        }
        table = pa.table([column(values, name) for name, values in columns.items()], schema=DELIVERIES)
        return PolicyDeliveries(table, contradictions, int(late.sum()), Waits.of(waited))


_NONE = Contradictions(0, 0, Inversions(0, 0, 0, 0, 0))
_NOTHING = PolicyDeliveries(DELIVERIES.empty_table(), _NONE, 0, Waits.none())
_NO_WALL_CLOCK = WallClock(_NONE, 0, 0, 0)


def _stretch(events: EventRange, first: int, stop: int) -> slice:
    """Find the rows at positions ``first <= position < stop``. A range of several computations is one segment: give all."""
    if len(events.starts) > 2:
        return slice(0, len(events))
    return slice(*np.searchsorted(events.position, [first, stop]).tolist())


def _ties(events: EventRange, placed: PlacedDeliveries) -> Longs:
    """Count for each row the deliveries of the same time and lead before it."""
    at, lead = placed.at[placed.order], placed.lead[placed.order]
    changes = np.append(True, (at[1:] != at[:-1]) | (lead[1:] != lead[:-1]))[: len(at)]
    changes[events.starts[:-1][np.diff(events.starts) > 0]] = True
    places = np.arange(len(at))
    ties = np.empty(len(at), np.int64)
    ties[placed.order] = places - np.maximum.accumulate(np.where(changes, places, 0))
    return ties


def _ranks(events: EventRange, placed: PlacedDeliveries, own: slice) -> Longs:
    """Give for each own row its place among the deliveries of own rows."""
    order = placed.order
    if len(events.starts) > 2:
        order = order[argsort_packed(placed.at[order], NO_LOW)]
    is_own = np.zeros(len(events), np.bool_)
    is_own[own] = True
    ranks = np.empty(len(events), np.int64)
    ranks[order] = np.cumsum(is_own[order]) - 1
    return ranks[own]


def _contradictions(window: _LoadedRows, place: Longs) -> Contradictions:
    start = window.exact.start
    inversions = count_inversions(window.rows, place[window.exact], window.own.start - start, window.own.stop - start)
    return Contradictions(len(window.effects), _messages_inverted(window, place), inversions)


def _messages_inverted(window: _LoadedRows, place: Longs) -> int:
    near = window.causes >= 0
    return int((place[window.causes[near]] > place[window.effects[near]]).sum())


def _wall_clock(window: _LoadedRows) -> WallClock:
    events = window.events
    time, process = events.times.time, events.skeleton.process
    by_time = key_order(TimeAxis(events.starts, time).columns[0], np.empty((len(events), 0), np.int32), process)
    near = window.causes >= 0
    early = time[window.causes[near]] - time[window.effects[near]]
    return WallClock(
        _contradictions(window, inverse(by_time)),
        int((early > 0).sum()),
        int((early == 0).sum()),
        max(0, int(early.max(initial=0))),
    )
