"""Lamport and hybrid clocks: they sort and never pretend to know more."""

import pytest

from ledto.clocks import ClockDrift, HybridClock, LamportClock, relation
from ledto.testing import ClockCheckFailed, Drift, check_clock


def test_asking_an_ordered_stamp_for_a_relation_is_a_type_error():
    """A guess about concurrency would look like an answer."""
    a, b = LamportClock("a"), HybridClock("b", physical=lambda: 5)
    with pytest.raises(TypeError, match="cannot tell CONCURRENT"):
        relation(a.local(), a.local())
    with pytest.raises(TypeError, match="cannot tell CONCURRENT"):
        relation(b.local(), b.local())
    with pytest.raises(TypeError):
        assert a.local() < b.local()


def test_never_sorts_an_effect_before_its_cause():
    """The one promise of an ordered clock, on random histories."""
    check_clock(LamportClock, histories=150)
    check_clock(lambda p, now: HybridClock(p, physical=now, max_offset_ns=4), histories=150, drift=Drift(4, 9))


def test_check_clock_finds_a_wall_clock_posing_as_a_logical_one():
    """Sorting by skewed wall clocks must not pass for causal order."""

    class Wall(HybridClock):
        def receive(self, stamp):
            return self.local()

    with pytest.raises(ClockCheckFailed, match="effect sorts before its cause"):
        check_clock(lambda p, now: Wall(p, physical=now), histories=50, drift=Drift(4, 9))


def test_hybrid_time_stays_close_to_physical_time():
    """wall_ns is the largest wall time in the causal past, so a human can read it as a time."""
    fast, slow = HybridClock("fast", physical=lambda: 1_000), HybridClock("slow", physical=lambda: 990)
    sent = fast.send()
    received = slow.receive(sent)
    assert (received.wall_ns, received.logical) == (1_000, 1)
    assert slow.local().wall_ns == 1_000


def test_a_stamp_from_too_far_ahead_is_refused_and_changes_nothing():
    """One broken clock must not drag the others into the future."""
    broken, sane = (
        HybridClock("broken", physical=lambda: 10**12),
        HybridClock("sane", physical=lambda: 5, max_offset_ns=9),
    )
    with pytest.raises(ClockDrift, match="max_offset_ns is 9"):
        sane.receive(broken.send())
    assert sane.local().wall_ns == 5


def test_a_clock_that_steps_back_is_survived():
    """NTP sets the clock back by an hour: order goes on, by counting."""
    readings = iter([7_000, 3_000, 3_001])
    clock = HybridClock("a", physical=lambda: next(readings))
    first, second, third = clock.local(), clock.local(), clock.local()
    assert first < second < third
    assert third.wall_ns == 7_000
