"""What the online observer does when the buffer is full, memory runs short, or its caller errs: never a silent loss."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.delivery.observer import Counters, Delivery, Observer, ReportRefused
from ledto.delivery.policies import CBD, DAPW, Exact
from ledto.delivery.seen import Gap, SeenMessages, Sighting
from ledto.events.report import Report


def report(process: int, seq: int, r: int, *, arrival: int, c: int = 0, kn: tuple[int, ...] = (1,)) -> Report:
    return Report(process, seq, r, c, kn, arrival)


def offer_all(observer: Observer, rows: list[Report]) -> tuple[list[Delivery], list[Report]]:
    out, refused = [], []
    for row in rows:
        try:
            out += observer.offer(row, row.arrival)
        except ReportRefused as refusal:
            refused.append(refusal.report)
    return out + observer.flush(), refused


@given(st.integers(1, 6), st.sampled_from(["refuse", "deliver-early"]), st.integers(0, 1 << 32))
def test_every_report_is_accounted_for(capacity: int, when_full: str, seed: int) -> None:
    """A burst would make messages vanish, or come twice, or come early without a mark."""
    random = Random(seed)
    rows = [
        report(random.randrange(2), random.randrange(1, 15), r := random.randrange(20), arrival=r + random.randrange(6))
        for _ in range(25)
    ]
    rows.sort(key=lambda row: row.arrival)
    observer = Observer(random.choice([CBD(0.5, 2, 4), DAPW(1, 2, 4)]), capacity=capacity, when_full=when_full)
    out, refused = offer_all(observer, rows)

    messages = Counter((each.report.process, each.report.seq) for each in out)
    assert set(messages.values()) <= {1}
    assert len(out) + len(refused) + observer.counters.duplicate == len(rows)
    assert {(row.process, row.seq) for row in rows} == set(messages) | {(row.process, row.seq) for row in refused}
    assert observer.counters.refused == len(refused)
    assert (not refused) if when_full == "deliver-early" else not any(each.early for each in out)
    assert [each.at for each in out] == sorted(each.at for each in out)
    for each in out:
        due = observer.policy.rule().due(each.report)
        assert each.early or each.at >= due
    assert observer.counters.early == sum(each.early for each in out)


@given(st.integers(0, 1 << 32), st.integers(1, 40))
def test_a_buffer_refuses_only_what_exceeds_its_capacity(seed: int, messages: int) -> None:
    """A buffer of the size that the load needs would refuse reports, or hold more than it was allowed."""
    random = Random(seed)
    rows = [report(0, seq, random.randrange(30), arrival=random.randrange(40)) for seq in range(1, messages + 1)]
    rows.sort(key=lambda row: row.arrival)
    policy = CBD(0.5, 3, 8)
    out, _ = offer_all(Observer(policy), rows)
    # At each tick the arrivals of the tick join the buffer before deliveries leave it.
    held = [sum(each.report.arrival <= row.arrival <= each.at for each in out) for row in rows]
    assert offer_all(Observer(policy, capacity=max(held)), rows)[1] == []
    assert max(held) == 1 or offer_all(Observer(policy, capacity=max(held) - 1), rows)[1]


def test_a_full_buffer_refuses_and_says_so() -> None:
    """A producer would not know that it must offer again, and the deliveries of that moment would be lost."""
    observer = Observer(Exact(0, 3), capacity=2)
    assert observer.offer(report(0, 1, 0, arrival=0), 0) == []
    assert observer.offer(report(0, 2, 1, arrival=1), 1) == []
    with pytest.raises(ReportRefused, match="message 3 of process 0 was refused: 2 reports are waiting"):
        observer.offer(report(0, 3, 2, arrival=2), 2)
    delivered = observer.offer(report(0, 3, 2, arrival=4), 4)
    assert [(each.report.seq, each.at) for each in delivered] == [(1, 3)]
    with pytest.raises(ReportRefused):
        observer.offer(report(0, 4, 4, arrival=4), 4)
    observer = Observer(Exact(0, 3), capacity=1)
    observer.offer(report(0, 1, 0, arrival=0), 0)
    observer.advance(4)
    observer.offer(report(0, 2, 4, arrival=4), 4)
    with pytest.raises(ReportRefused):
        observer.offer(report(1, 1, 4, arrival=4), 4)
    assert [each.report.seq for each in observer.flush()] == [2]
    assert observer.counters == Counters(delivered=2, refused=1)


def test_deliveries_of_a_refused_offer_come_with_the_next_call() -> None:
    """Time passes in an offer even if the report is refused; what fell due meanwhile must not go down with it."""
    observer = Observer(Exact(0, 2), max_gaps=0)
    for seq, now in ((1, 0), (5, 1)):
        observer.offer(report(0, seq, now, arrival=now), now)
    with pytest.raises(ReportRefused, match="may be a duplicate"):
        observer.offer(report(0, 3, 1, arrival=9), 9)
    assert [(each.report.seq, each.at) for each in observer.advance(9)] == [(1, 2), (5, 3)]


def test_a_full_buffer_delivers_its_head_early() -> None:
    """The wrong message would be forced out: the smallest does least harm."""
    observer = Observer(CBD(1, 2, 10), capacity=2, when_full="deliver-early")
    observer.offer(report(0, 1, 5, arrival=6), 6)
    observer.offer(report(1, 1, 3, arrival=6), 6)
    (forced,) = observer.offer(report(2, 1, 4, arrival=7), 7)
    assert (forced.report.process, forced.at, forced.waited, forced.early, forced.late) == (1, 7, 1, True, False)
    assert [(each.report.process, each.early) for each in observer.flush()] == [(2, False), (0, False)]


def test_missing_causes_are_told_once_and_never_guessed() -> None:
    """An operator would chase messages that were never missing, or not learn of those that are."""
    observer = Observer(Exact(0, 0))
    rows = [
        report(0, 3, 1, arrival=1),
        report(0, 4, 2, arrival=2),
        report(0, 2, 0, arrival=3),
        report(1, 1, 4, arrival=4, c=9, kn=(7,)),  # knows of many events: that says nothing of whose
        report(0, 9, 5, arrival=5),
    ]
    out, _ = offer_all(observer, rows)
    assert [(each.report.process, each.report.seq, each.late, each.missing) for each in out] == [
        (0, 3, False, (Gap(0, 0, 2),)),
        (0, 4, False, ()),
        (0, 2, True, ()),
        (0, 9, False, (Gap(0, 4, 8),)),
        (1, 1, False, ()),
    ]
    assert observer.gaps(0) == [Gap(0, 0, 1), Gap(0, 4, 8)]


def test_callers_mistakes_change_nothing() -> None:
    """A wrong call would corrupt the order of everything after it."""
    observer = Observer(CBD(1, 2, 3, elements=1))
    observer.offer(report(0, 1, 5, arrival=6), 6)
    for wrong, now, complaint in [
        (report(0, 2, 5, arrival=5), 5, "time went backwards, from 6 to 5"),
        (report(0, 2, 5, arrival=7), 8, "offer it at its arrival"),
        (report(0, 2, 5, arrival=7, kn=(1, 2)), 7, "carries 2 kn elements and those before it 1"),
    ]:
        with pytest.raises(ValueError, match=complaint):
            observer.offer(wrong, now)
    with pytest.raises(ValueError, match="compares 1 kn elements and the stamps carry 0"):
        Observer(CBD(1, 2, 3, elements=1)).offer(report(0, 1, 5, arrival=6, kn=()), 6)
    assert observer.waiting == 1
    assert [each.at for each in observer.flush()] == [10]
    with pytest.raises(ValueError, match="flushed"):
        observer.advance(11)
    for wrong_number in ({"seq": 0}, {"process": -1}, {"c": -1}, {"r": 1 << 61}, {"kn": (-1,)}, {"seq": 1.0}):
        with pytest.raises(ValueError, match="of a report"):
            Report(**{"process": 0, "seq": 1, "r": 0, "c": 0, "kn": (), "arrival": 0, **wrong_number})


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(1, 30)), max_size=80), st.integers(0, 30))
def test_seen_messages(messages: list[tuple[int, int]], max_gaps: int) -> None:
    """A duplicate would be delivered twice, or a late message dropped as a duplicate."""
    seen, truth = SeenMessages(max_gaps=max_gaps), set[tuple[int, int]]()
    for process, seq in messages:
        sighting = seen.sight(process, seq)
        if max_gaps >= 15:  # thirty numbers leave no more gaps than that
            assert sighting is not Sighting.FORGOTTEN
        if sighting is not Sighting.FORGOTTEN:
            assert (sighting is Sighting.DUPLICATE) == ((process, seq) in truth)
        if sighting is Sighting.NEW:
            seen.add(process, seq)
            truth.add((process, seq))
    if max_gaps >= 15:
        for process in (0, 1):
            top = max((s for p, s in truth if p == process), default=0)
            unseen = {s for s in range(1, top) if (process, s) not in truth}
            assert {s for gap in seen.gaps(process) for s in range(gap.have + 1, gap.need + 1)} == unseen


def test_memory_for_duplicates_is_bounded() -> None:
    """Years of losses would fill the memory."""
    seen = SeenMessages(max_gaps=10)
    for seq in range(1, 100_000, 2):
        assert seen.sight(0, seq) is Sighting.NEW
        seen.add(0, seq)
    assert len(seen.gaps(0)) == 10
    assert seen.sight(0, 2) is Sighting.FORGOTTEN
    assert seen.sight(0, 99_998) is Sighting.NEW
    assert seen.sight(0, 99_997) is Sighting.DUPLICATE


def test_the_observer_is_light() -> None:
    """A service that observes online would have to install a compiler."""
    code = "import sys, ledto.delivery.observer; print({'numpy', 'numba'} & set(sys.modules) or 'light')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "light\n"
