"""One function, computed report by report and as a table: each against the definition."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from fractions import Fraction
from heapq import heappop, heappush
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.delivery.batch import Deliveries, deliver_batch
from ledto.delivery.observer import Observer
from ledto.delivery.policies import CBD, DAPW, MAX_TICKS, Exact, PhysicalAndC, PhysicalOnly, StampPolicy
from ledto.events.report import MAX_TIME, Report
from tests.delivery.records import to_columns

CHECKING = (CBD, PhysicalOnly, PhysicalAndC)


def key(report: Report, policy: StampPolicy) -> tuple[int, ...]:
    """`less` of the paper as a sort key, with partial stamps as in its section 6.5."""
    if isinstance(policy, PhysicalOnly):
        return (report.r, report.process, report.seq)
    if isinstance(policy, PhysicalAndC):
        return (report.r + report.c, report.process, report.seq)
    return (report.r + report.c, *report.kn[: policy.elements], report.process, report.seq)


def due(report: Report, policy: StampPolicy) -> int:
    phi = Fraction(1) if isinstance(policy, Exact) else Fraction(policy.phi)
    c = 0 if isinstance(policy, PhysicalOnly) else report.c
    return math.ceil(report.r + phi * (c + policy.delta + policy.eps))


def time_of(report: Report, rows: list[Report], policy: StampPolicy) -> int:
    """The paper's delivery time, from its closed form; only arrivals and due times can be the answer."""
    if not isinstance(policy, CHECKING):
        return max(report.arrival, due(report, policy))
    smaller = [other for other in rows if key(other, policy) <= key(report, policy)]
    for s in sorted({report.arrival, *(due(other, policy) for other in smaller)}):
        if s >= report.arrival and all(due(other, policy) <= s for other in smaller if other.arrival <= s):
            return s
    raise AssertionError("some due time is the largest")


def definition(rows: list[Report], policy: StampPolicy) -> list[tuple[Report, int, bool]]:
    """(report, time, late) in the order of delivery."""

    def claim(row: Report) -> tuple[object, ...]:
        wait = () if isinstance(policy, CHECKING) else (max(row.arrival, due(row, policy)),)
        return (row.arrival, *wait, key(row, policy), due(row, policy))

    first: dict[tuple[int, int], Report] = {}
    for row in sorted(rows, key=claim):
        first.setdefault((row.process, row.seq), row)
    kept = list(first.values())
    timed = [(time_of(row, kept, policy), key(row, policy), row) for row in kept]
    return [(row, at, row.arrival > due(row, policy)) for at, _, row in sorted(timed, key=lambda each: each[:2])]


def used(report: Report, policy: StampPolicy) -> object:
    """What tells copies apart; equal copies are one and the same."""
    return (key(report, policy), due(report, policy), report.arrival)


def told(rows: list[Report], found: Deliveries, policy: StampPolicy) -> list[object]:
    assert (found.waited == found.at - [rows[row].arrival for row in found.order]).all()
    columns = zip(found.order.tolist(), found.at.tolist(), found.late.tolist(), strict=True)
    return [(used(rows[row], policy), at, late) for row, at, late in columns]


def expected(rows: list[Report], policy: StampPolicy) -> list[object]:
    return [(used(row, policy), at, late) for row, at, late in definition(rows, policy)]


@st.composite
def policies(draw: st.DrawFn) -> StampPolicy:
    eps, delta = draw(st.integers(0, 4)), draw(st.integers(0, 6))
    phi = draw(st.sampled_from([0, 1, "40%", 0.5, 0.333333]))
    elements = draw(st.none() | st.integers(1, eps + 1))
    kind = draw(st.sampled_from([Exact, DAPW, CBD, PhysicalOnly, PhysicalAndC]))
    if kind is Exact:
        return Exact(eps, delta, elements=elements)
    if kind in (DAPW, CBD):
        return kind(phi, eps, delta, elements=elements)
    return kind(phi, eps, delta)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Report], StampPolicy]:
    """Reports in any order, with duplicates, late ones and ties; values that need one word, two, or ranks."""
    policy = draw(policies())
    count = draw(st.sampled_from([0, 1, 2, 5, 12, 40]))
    random = Random(draw(st.integers(0, 1 << 32)))
    span = draw(st.sampled_from([1, 12, 60]))
    kn_values = draw(st.sampled_from([(0, 1), (0, 1, 2, 7), (0, (1 << 31) - 1)]))
    far = draw(st.sampled_from([0, 0, 1 << 59]))
    seqs = draw(st.sampled_from([(1, 2, 3), (1, 2, 3, 5, 8, 9, 12, 15, 20, 31), (4, (1 << 62) + 5)]))
    width = policy.eps + 1
    rows: list[Report] = []
    for _ in range(count):
        message = random.choice((0, 1, 2, 9)), random.choice(seqs)
        r = random.randrange(span) + (far if random.random() < 0.05 else 0)
        c = random.randint(0, policy.eps)
        stamp = (r, c, tuple(random.choices(kn_values, k=width)))
        arrival = r + random.choice((-9, -1, 0, 1, 2, 3, 5, 8, 25))
        rows.append(Report(*message, *stamp, arrival))
        if random.random() < 0.2:
            rows.append(Report(*message, r + random.choice((-1, 0, 1)), c, stamp[2][::-1], arrival))
    return rows, policy


@given(tables(), st.randoms(use_true_random=False))
def test_reports_offered_one_by_one(table: tuple[list[Report], StampPolicy], random: Random) -> None:
    """A user could not trust the observer's order or times; nor that restarting it, or polling it, changes nothing."""
    rows, policy = table
    observer = Observer(policy)
    out = []
    arrivals = sorted(rows, key=lambda row: (row.arrival, random.random()))
    for row, following in zip(arrivals, [*arrivals[1:], None], strict=False):
        out += observer.offer(row, row.arrival)
        if random.random() < 0.3:
            observer = pickle.loads(pickle.dumps(observer))
        if random.random() < 0.3 and following is not None:
            out += observer.advance(random.randint(row.arrival, following.arrival))
    out += observer.flush()

    assert [(used(each.report, policy), each.at, each.late) for each in out] == expected(rows, policy)
    assert all(each.waited == each.at - each.report.arrival and not each.early for each in out)
    highest: dict[int, int] = {}
    for each in out:
        have = highest.get(each.report.process, 0)
        unseen = set(range(have + 1, min(each.report.seq, have + 50)))
        gaps = {number for gap in each.missing for number in range(gap.have + 1, min(gap.need, have + 49) + 1)}
        assert gaps == unseen
        highest[each.report.process] = max(have, each.report.seq)
    counters = observer.counters
    assert counters.delivered == len(out)
    assert counters.late == sum(each.late for each in out)
    assert counters.duplicate == len(rows) - len(out)


@given(tables())
def test_a_table_at_once(table: tuple[list[Report], StampPolicy]) -> None:
    """Batch and streaming would give different histories of the same reports."""
    rows, policy = table
    found = deliver_batch(to_columns(rows), policy)
    assert told(rows, found, policy) == expected(rows, policy)
    assert found.duplicates + len(found) == len(rows)
    assert len(set(found.order.tolist())) == len(found)


@given(tables())
def test_cutting_stamps_on_the_wire_or_when_comparing(table: tuple[list[Report], StampPolicy]) -> None:
    """A sender that saves bytes would be ordered differently from an observer that ignores them (section 6.5)."""
    rows, policy = table
    k = getattr(policy, "elements", 0)
    found = deliver_batch(to_columns([replace(row, kn=row.kn[:k]) for row in rows]), policy)
    assert told(rows, found, policy) == expected(rows, policy)


def test_the_largest_values_allowed() -> None:
    """Due times would overflow in compiled code and not in Python, where a policy in nanoseconds waits for an hour."""
    rows = [
        Report(process, 1, r, c, ((1 << 31) - 1,), arrival)
        for process, (r, c, arrival) in enumerate(
            product((-MAX_TIME, 0, MAX_TIME), (0, (1 << 31) - 1), (-MAX_TIME, MAX_TIME))
        )
    ]
    for policy in (Exact(MAX_TICKS, MAX_TICKS), DAPW(0.999999, MAX_TICKS, MAX_TICKS), CBD(1, MAX_TICKS, MAX_TICKS)):
        assert told(rows, deliver_batch(to_columns(rows), policy), policy) == expected(rows, policy)


@pytest.mark.parametrize("count", [16, 17, 32, 33, 50, 1500])
def test_many_messages_of_one_tick(count: int) -> None:
    """Messages of one busy tick would come out of order: the sort would be right for sparse tables only."""
    random = Random(count)
    rows = [
        Report(random.randrange(40), seq, random.randrange(3), random.randrange(3), (random.randrange(4),), 3)
        for seq in range(1, count)
    ]
    rows.append(Report(0, count, 1 << 50, 0, (0,), 3))  # stretches the range, so that the others share a bucket
    for policy in (CBD(0, 2, 2), Exact(2, 2)):
        found = deliver_batch(to_columns(rows), policy)
        assert [rows[row] for row in found.order] == sorted(rows, key=lambda row: key(row, policy))


def test_a_long_queue_tick_by_tick() -> None:
    """A buffer of thousands would lose its order: the laws above try small ones."""
    random = Random(8)
    policy = CBD(0.5, 500, 3000)
    rows = []
    for seq in range(1, 9001):
        r = random.randrange(6000)
        rows.append(Report(random.randrange(5), seq, r, random.randrange(500), (0,), r + random.randrange(3000)))
    waiting: list[tuple[tuple[int, ...], int]] = []
    model, longest = [], 0
    arrivals: dict[int, list[int]] = {}
    for row, report in enumerate(rows):
        arrivals.setdefault(report.arrival, []).append(row)
    for tick in range(12_000):
        for row in arrivals.get(tick, ()):
            heappush(waiting, (key(rows[row], policy), row))
        longest = max(longest, len(waiting))
        while waiting and due(rows[waiting[0][1]], policy) <= tick:
            model.append((heappop(waiting)[1], tick))
    found = deliver_batch(to_columns(rows), policy)
    assert list(zip(found.order.tolist(), found.at.tolist(), strict=True)) == model
    assert longest > 1000
