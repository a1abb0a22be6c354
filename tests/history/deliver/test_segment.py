"""Deliveries and contradictions segment by segment, against the whole history at once and against reachability."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.causality.bounded_stamps import default_tick, eps_ticks
from ledto.causality.order import NO_TIME
from ledto.causality.skeleton import Skeleton
from ledto.delivery import stamped
from ledto.delivery.batch import deliver_batch
from ledto.delivery.observer import Observer
from ledto.delivery.policies import CBD, DAPW, Exact, PhysicalAndC, PhysicalOnly, StampPolicy
from ledto.events.report import Report
from ledto.history import layout
from ledto.history.deliver.rows import Blocks, survey_segment
from ledto.history.deliver.segment import SegmentDeliveries, deliver_segment
from ledto.history.run import Run
from ledto.history.store import Store
from ledto.history.tables import Longs, Segments, processes_from
from ledto.measures import inversions
from ledto.measures.inversions import Inversions
from tests.delivery.records import to_columns

FAR = 1_700_000_000_000_000_000


@dataclass
class Event:
    computation: int
    process: int
    time: int | None
    causal_time: int
    arrival: int | None
    causes: list[int]
    """Rows, in the computation."""

    @property
    def reading(self) -> int:
        return self.causal_time if self.time is None else self.time


class InMemory(Run):
    """A run whose segments are given as lists of rows; reads no files."""

    def __init__(self, segments: list[list[tuple[int, Event]]], names: list[tuple[str, str]], codes: list[list[int]]):
        """Rows with their row in the computation; names of (computation, process) by code; codes by computation."""
        self._rows = segments
        self._codes = codes
        counts = [len(rows) for rows in segments]
        firsts = np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int64)
        self._position = {
            (event.computation, row): int(first) + at
            for first, rows in zip(firsts, segments, strict=True)
            for at, (row, event) in enumerate(rows)
        }
        seen: set[int] = set()
        used, starts = [], []
        for rows in segments:
            # Local codes differ from segment to segment, and from the order of names.
            mine = sorted({codes[event.computation][event.process] for _, event in rows}, reverse=len(seen) % 2 == 0)
            used.append(mine)
            owners = {event.computation for _, event in rows}
            starts.append(not owners & seen)
            seen |= owners
        none = [None] * len(segments)
        offsets = np.concatenate(([0], np.cumsum([len(each) for each in used]))).astype(np.int64)
        flat = np.array([code for each in used for code in each], np.int32)
        zeros = np.zeros(len(flat), np.int64)
        table = Segments(
            firsts, np.array(counts, np.int64), firsts, firsts, np.array(starts), offsets, flat, zeros, zeros, zeros,
            ["-"] * len(segments), ["-"] * len(segments), none, none, none, none,
        )  # fmt: skip
        processes = pa.table(
            {
                "code": list(range(len(names))),
                "computation": [name[0] for name in names],
                "process": [name[1] for name in names],
                "events": [0] * len(names),
                "dense_seq": [True] * len(names),
                "messages": [1] * len(names),
                "first_hole": [None] * len(names),
                "first_tainted": [None] * len(names),
                "first_gone": [None] * len(names),
                "gone_why": [None] * len(names),
            }
        )
        super().__init__(Store("/nowhere"), "r", table, processes_from(processes), cache_bytes=0)

    def skeleton(self, number: int, start: int, stop: int) -> Skeleton:
        first = int(self.segments.first_position[number])
        local = {code: at for at, code in enumerate(self.segments.codes_of(number).tolist())}
        process, offsets, back = [], [0], []
        for at in range(start, stop):
            _, event = self._rows[number][at]
            process.append(local[self._codes[event.computation][event.process]])
            causes = [self._position[event.computation, cause] for cause in event.causes]
            back += [first + at - cause for cause in causes if cause >= first]
            offsets.append(len(back))
        return Skeleton(np.array(process, np.int32), np.array(offsets, np.int64), np.array(back, np.int64))

    def events(self, number: int, columns: Sequence[str], start: int, stop: int) -> pa.Table:
        rows = [event for _, event in self._rows[number][start:stop]]
        return pa.table({name: pa.array([getattr(event, name) for event in rows], pa.int64()) for name in columns})

    def known_crossings(self, number: int) -> tuple[Longs, Longs]:
        first = int(self.segments.first_position[number])
        found = [
            (at, self._position[event.computation, cause])
            for at, (_, event) in enumerate(self._rows[number])
            for cause in event.causes
            if self._position[event.computation, cause] < first
        ]
        pairs = np.array(found, np.int64).reshape(len(found), 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy()


def random_computation(random: Random, number: int, eps: int, *, base: int, slow: int) -> list[Event]:
    """Events in history order; clocks wrong by up to eps, reports that take up to `slow`, some events without times."""
    count, processes = random.choice((1, 4, 25, 60)), random.choice((1, 2, 5))
    untimed = random.choice((0, 0, 0.2, 1))
    known_arrivals = random.choice((0, 0.5, 1, 1))
    clock, made, last, level = base, [], {}, []
    for _ in range(count):
        clock += random.choice((0, 0, 1, 3, eps // 4))
        process = random.randrange(processes)
        causes = random.sample(range(len(made)), min(len(made), random.choice((0, 0, 1, 1, 2))))
        pasts = causes + ([last[process]] if process in last else [])
        time = None if random.random() < untimed else clock + random.randint(0, eps)
        past = max((made[cause].causal_time for cause in pasts), default=NO_TIME)
        causal = max(past, NO_TIME if time is None else time)
        level.append(1 + max((level[cause] for cause in pasts if made[cause].causal_time == causal), default=-1))
        arrival = None
        if random.random() < known_arrivals:
            arrival = clock + random.choice((-7, 0, 1, 3, random.randint(0, slow), random.randint(0, slow)))
        last[process] = len(made)
        made.append(Event(number, process, time, causal, arrival, causes))
    order = sorted(range(count), key=lambda row: (made[row].causal_time, level[row], row))
    place = {row: at for at, row in enumerate(order)}
    for event in made:
        event.causes = [place[cause] for cause in event.causes]
    return [made[row] for row in order]


@dataclass
class Case:
    run: InMemory
    computations: list[list[Event]]
    ranks: list[list[int]]
    """By computation and process: the rank of its name."""
    eps: int
    tick: int
    policies: dict[str, StampPolicy]
    block_rows: int
    narrow: bool = False
    """Whether keys, times and vectors are to be too large for the fast ways."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    random = Random(draw(st.integers(0, 1 << 32)))
    eps = draw(st.sampled_from([0, 5, 12, 40]))
    tick = draw(st.sampled_from([1, default_tick(eps), 7]))
    slow = draw(st.sampled_from([0, 10, 100]))
    base = draw(st.sampled_from([0, FAR]))
    computations = [
        random_computation(random, number, eps, base=base + 5 * number, slow=slow)
        for number in range(draw(st.sampled_from([1, 1, 4])))
    ]
    names: list[tuple[str, str]] = []
    codes, ranks = [], []
    for number, events in enumerate(computations):
        processes = 1 + max(event.process for event in events)
        called = random.sample(["a", "b", "c", "d", "e"], processes)
        codes.append(list(range(len(names), len(names) + processes)))
        ranks.append([sorted(called).index(name) for name in called])
        names += [(f"c{number}", name) for name in called]
    segments: list[list[tuple[int, Event]]] = []
    shared: list[tuple[int, Event]] = []
    for number, events in enumerate(computations):
        rows = list(enumerate(events))
        if number >= 2:
            shared += rows
            continue
        cuts = [at for at in range(1, len(rows)) if events[at].causal_time > events[at - 1].causal_time]
        chosen = sorted(random.sample(cuts, min(len(cuts), random.choice((0, 1, 2, 4, 9)))))
        segments += [rows[first:last] for first, last in zip([0, *chosen], [*chosen, len(rows)], strict=True)]
    if shared:
        if random.random() < 0.5:
            shared.sort(key=lambda row: row[1].causal_time)  # Mixed: each computation's rows still in order.
        segments.append(shared)
    ticks, delta = eps_ticks(eps, tick), random.choice((0, 2, 30))
    phi = random.choice((0, 0.3, 0.6, 1))
    elements = random.choice((None, None, 1))
    policies: dict[str, StampPolicy] = {
        "exact": Exact(ticks, delta, elements=elements),
        "dapw": DAPW(phi, ticks, delta),
        "cbd": CBD(phi, ticks, delta, elements=elements),
        "physical-only": PhysicalOnly(phi, ticks, delta),
        "physical-and-c": PhysicalAndC(phi, ticks, delta),
    }
    chosen_names = random.sample(sorted(policies), random.choice((1, 3)))
    chosen_policies = {name: policies[name] for name in chosen_names}
    run = InMemory(segments, names, codes)
    return Case(
        run,
        computations,
        ranks,
        eps,
        tick,
        chosen_policies,
        block_rows=random.choice((1, 4, 50)),
        narrow=random.random() < 0.3,
    )


def timed(events: list[Event]) -> list[int]:
    return [row for row, event in enumerate(events) if event.causal_time != NO_TIME]


def pasts_of(events: list[Event]) -> list[set[int]]:
    """By reachability; rows without a time count for nothing."""
    pasts: list[set[int]] = []
    last: dict[int, int] = {}
    for row, event in enumerate(events):
        past: set[int] = set()
        for cause in [*event.causes, *([last[event.process]] if event.process in last else [])]:
            past |= pasts[cause] | {cause}
        last[event.process] = row
        pasts.append(past)
    good = set(timed(events))
    return [past & good for past in pasts]


def reports_of(case: Case, number: int) -> list[Report]:
    """Of the timed rows, in their order; stamps by the paper's program, with all that was ever known."""
    events, tick, ticks = case.computations[number], case.tick, eps_ticks(case.eps, case.tick)
    base = FAR // tick if events[-1].causal_time >= FAR // 2 else 0
    known: list[dict[int, int]] = []
    last: dict[int, int] = {}
    seqs: dict[int, int] = defaultdict(int)
    reports = []
    for row, event in enumerate(events):
        seen: dict[int, int] = defaultdict(int)
        for cause in [*event.causes, *([last[event.process]] if event.process in last else [])]:
            for reading, count in known[cause].items():
                seen[reading] = max(seen[reading], count)
        last[event.process] = row
        known.append(seen)
        seqs[event.process] += 1
        if event.causal_time == NO_TIME:
            continue
        r, top = event.reading // tick, event.causal_time // tick
        seen[r] += 1
        arrival = (event.reading if event.arrival is None else event.arrival) // tick
        kn = tuple(seen[top - lower] for lower in range(ticks + 1))
        rank = case.ranks[number][event.process]
        reports.append(Report(rank, seqs[event.process], r - base, top - r, kn, arrival - base))
    return reports


def contradicted(events: list[Event], order: list[int], rows: set[int]) -> tuple[Inversions, int]:
    """Over pairs whose effect is one of `rows`, and rows that are causes; and messages that these received too early."""
    place = {row: at for at, row in enumerate(order)}
    pasts = pasts_of(events)
    pairs = [(cause, row) for row in order for cause in pasts[row] if place[cause] > place[row]]
    before, after = {row for _, row in pairs} & rows, {cause for cause, _ in pairs} & rows
    own_pairs = sum(row in rows for _, row in pairs)
    early = sum(place.get(cause, -1) > place[row] for row in rows if row in place for cause in events[row].causes)
    events_counted = len(rows & set(order))
    return Inversions(events_counted, len(before), len(after), len(before | after), own_pairs), early


def delivered(case: Case, *, limit_rows: int = 10**9) -> list[SegmentDeliveries]:
    with ExitStack() as patches:
        patches.enter_context(patch.object(layout, "EVENT_ROWS", case.block_rows))
        if case.narrow:
            patches.enter_context(patch.object(stamped, "WORD_BITS", 5))
            patches.enter_context(patch.object(stamped, "MAX_LINE", 3))
            patches.enter_context(patch.object(inversions, "VECTOR_BYTES", 1))
        numbers = range(len(case.run.segments))
        blocks = Blocks.joined([survey_segment(case.run, number) for number in numbers])
        return [
            deliver_segment(
                case.run, number, case.policies, blocks, eps=case.eps, tick=case.tick, limit_rows=limit_rows
            )
            for number in numbers
        ]


def whole_orders(case: Case, policy: StampPolicy) -> list[list[tuple[int, int, bool]]]:
    """By computation: (row, tick, late) in the order of delivery, from one table that holds everything."""
    found = []
    for number, events in enumerate(case.computations):
        reports, rows = reports_of(case, number), timed(events)
        base = FAR // case.tick if events[-1].causal_time >= FAR // 2 else 0
        whole = deliver_batch(to_columns(reports), policy)
        found.append(
            [
                (rows[row], at + base, late)
                for row, at, late in zip(whole.order.tolist(), whole.at.tolist(), whole.late.tolist(), strict=True)
            ]
        )
        observer = Observer(policy)
        online = []
        for report in sorted(reports, key=lambda each: each.arrival):
            online += observer.offer(report, report.arrival)
        online += observer.flush()
        assert [rows[reports.index(each.report)] for each in online] == [row for row, _, _ in found[-1]]
    return found


@given(cases())
def test_deliveries_of_every_cutting_are_those_of_the_whole(case: Case) -> None:
    """A run on a cluster would order events differently from the observer, at the seams of its segments."""
    results = delivered(case)
    for name, policy in case.policies.items():
        stored: dict[int, list[tuple[int, int, int, int, bool]]] = defaultdict(list)
        for rows, result in zip(case.run._rows, results, strict=True):
            table = result.policies[name].table
            assert table.num_rows == len(rows)
            ranked = []
            for (row, event), line in zip(rows, table.to_pylist(), strict=True):
                if event.causal_time == NO_TIME:
                    assert set(line.values()) == {None}
                    continue
                arrival = event.reading if event.arrival is None else event.arrival
                assert line["waited"] == line["at"] - arrival // case.tick * case.tick
                stored[event.computation].append((line["at"], line["lead"], line["tie"], row, line["late"]))
                ranked.append((line["rank"], line["at"], event.computation, line["lead"], line["tie"]))
            assert [each[0] for each in sorted(ranked)] == list(range(len(ranked)))
            assert [each[1:] for each in sorted(ranked)] == sorted(each[1:] for each in ranked)
            waits = sorted(line["waited"] // case.tick for line in table.to_pylist() if line["at"] is not None)
            counted = result.policies[name].waits
            assert np.repeat(counted.values, counted.counts).tolist() == waits
            assert result.policies[name].late == sum(bool(line["late"]) for line in table.to_pylist())
        for number, whole in enumerate(whole_orders(case, policy)):
            found = sorted(stored[number])
            assert [(row, at // case.tick, late) for at, _, _, row, late in found] == whole
            assert len({each[:3] for each in found}) == len(found)


def expected(case: Case, orders: list[list[int]]) -> list[tuple[Inversions, int]]:
    """By segment."""
    found = []
    for rows in case.run._rows:
        total, early = Inversions(0, 0, 0, 0, 0), 0
        for number in {event.computation for _, event in rows}:
            mine = {row for row, event in rows if event.computation == number}
            found_here, inverted = contradicted(case.computations[number], orders[number], mine)
            total, early = total + found_here, early + inverted
        found.append((total, early))
    return found


@given(cases())
def test_contradictions_of_a_policy_are_counted_exactly(case: Case) -> None:
    """The price of a shorter wait would be misstated: pairs across segments lost, or counted twice."""
    results = delivered(case)
    for name, policy in case.policies.items():
        orders = [[row for row, _, _ in whole] for whole in whole_orders(case, policy)]
        for result, (pairs, early) in zip(results, expected(case, orders), strict=True):
            found = result.policies[name].contradictions
            assert (found.inversions, found.messages_inverted, found.reason) == (pairs, early, None)
    assert sum(result.wall_clock.contradictions.messages for result in results) == sum(
        len(events[row].causes) for events in case.computations for row in timed(events)
    )


@given(cases())
def test_contradictions_of_wall_clocks(case: Case) -> None:
    """A user would not learn how often plain time stamps put an effect before its cause."""
    results = delivered(case)
    orders = []
    for number, events in enumerate(case.computations):
        key = {row: (events[row].reading, case.ranks[number][events[row].process], row) for row in timed(events)}
        orders.append(sorted(key, key=key.__getitem__))
    for rows, result, (pairs, early) in zip(case.run._rows, results, expected(case, orders), strict=True):
        found = result.wall_clock
        assert (found.contradictions.inversions, found.contradictions.messages_inverted) == (pairs, early)
        gaps = [
            case.computations[event.computation][cause].reading - event.reading
            for _, event in rows
            for cause in event.causes
            if case.computations[event.computation][cause].causal_time != NO_TIME
        ]
        assert found.messages_before_cause == sum(gap > 0 for gap in gaps)
        assert found.ties == sum(gap == 0 for gap in gaps)
        assert found.earlier_by == max([0, *gaps])


@given(cases())
def test_too_little_memory_gives_no_wrong_number(case: Case) -> None:
    """Late reports would make a task run out of memory, or its counts silently too small."""
    full, short = delivered(case), delivered(case, limit_rows=1)
    for complete, result in zip(full, short, strict=True):
        assert result.wall_clock == complete.wall_clock
        for name in case.policies:
            assert result.policies[name].table.equals(complete.policies[name].table)
            known, found = complete.policies[name].contradictions, result.policies[name].contradictions
            assert (found.messages, found.messages_inverted) == (known.messages, known.messages_inverted)
            if found.inversions is None:
                assert found.reason is not None
                assert "raise delta, or the limit" in found.reason
            else:
                assert found == known


def test_a_late_report_reaches_over_many_segments() -> None:
    """The test before would pass if nothing were ever too far, and the one before it if too little were loaded."""
    events = [Event(0, at % 2, 10 * at, 10 * at, 10 * at, [at - 1] if at else []) for at in range(40)]
    events[3].arrival = 300
    rows = list(enumerate(events))
    run = InMemory([rows[at : at + 5] for at in range(0, 40, 5)], [("", "a"), ("", "b")], [[0, 1]])
    case = Case(run, [events], [[0, 1]], 2, 1, {"cbd": CBD(1, 2, 0)}, 5)
    found = [result.policies["cbd"].contradictions for result in delivered(case)]
    assert sum(each.inversions.pairs for each in found if each.inversions) == 26
    short = [result.policies["cbd"].contradictions for result in delivered(case, limit_rows=12)]
    assert [each.inversions is None for each in short] == [True, False, True, True, True, True, False, False]
    assert sum(each.messages_inverted for each in short) == 1


def test_policies_in_another_tick_are_refused() -> None:
    """Units mixed up between the history and its policies would give waits a thousand times too long or short."""
    events = [Event(0, 0, 5, 5, 5, [])]
    case = Case(InMemory([[(0, events[0])]], [("", "a")], [[0]]), [events], [[0]], 160, 10, {"exact": Exact(160, 0)}, 4)
    with pytest.raises(ValueError, match="eps of 160 ticks; eps 160 at a tick of 10 is 16"):
        delivered(case)
