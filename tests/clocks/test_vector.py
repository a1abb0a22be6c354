"""Vector clocks: Berry's rules, and the edges of the packed form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.clocks import (
    BoundedStamp,
    ClockError,
    HybridClock,
    IntervalTreeClock,
    LamportClock,
    Relation,
    StampError,
    UnstampedMessage,
    VectorClock,
    VectorObserver,
    VectorStamp,
    relation,
)
from ledto.testing import ClockCheckFailed, check_clock

counters = st.dictionaries(st.sampled_from("abcdefg"), st.integers(0, 2**63 - 1) | st.integers(0, 3), max_size=7)


def naive(a, b):
    names = a.keys() | b.keys()
    below = all(a.get(n, 0) <= b.get(n, 0) for n in names)
    above = all(a.get(n, 0) >= b.get(n, 0) for n in names)
    if below and above:
        return Relation.EQUAL
    return Relation.BEFORE if below else Relation.AFTER if above else Relation.CONCURRENT


@given(counters, counters)
def test_packed_vectors_compare_as_plain_ones(a, b):
    """Any two logs' clocks: wide and narrow counters, missing and zero entries, one process or none."""
    stamp_a, stamp_b = VectorStamp(a), VectorStamp(b)
    assert relation(stamp_a, stamp_b) is naive(a, b)
    assert (stamp_a == stamp_b) == (naive(a, b) is Relation.EQUAL)
    assert dict(stamp_a) == {n: c for n, c in a.items() if c}
    if stamp_a == stamp_b:
        assert hash(stamp_a) == hash(stamp_b)
        assert stamp_a.to_bytes() == stamp_b.to_bytes()


@given(counters, counters)
def test_receive_is_the_plain_merge(a, b):
    """A receive keeps the larger counter of every process and counts itself: nothing forgotten, nothing invented."""
    clock = VectorClock("me")
    clock.receive(VectorStamp(a))
    got = clock.receive(VectorStamp(b))
    expected = {n: max(a.get(n, 0), b.get(n, 0)) for n in a.keys() | b.keys()}
    assert dict(got) == {n: c for n, c in expected.items() if c} | {"me": 2}


def test_counters_outgrow_narrow_lanes():
    """The event that makes a counter need 32 bits, in a process that runs for years."""
    clock = VectorClock("me")
    clock._count = 2**31 - 2
    clock._set(clock._roster, clock._count)
    peer = VectorClock("peer")
    before, after = clock.send(), clock.send()
    assert after["me"] == 2**31
    assert relation(before, after) is Relation.BEFORE
    assert peer.receive(before)["me"] == 2**31 - 1
    assert peer.receive(after) == VectorStamp({"me": 2**31, "peer": 2})
    assert clock.receive(peer.send())["me"] == 2**31 + 1


def test_a_message_without_a_stamp_is_refused_or_flagged():
    """A cause that nobody recorded must not vanish: refused by default; accepted, everything after it says so."""
    strict = VectorClock("strict")
    with pytest.raises(UnstampedMessage, match="accept_unstamped"):
        strict.receive(None)
    assert strict.stamp == VectorStamp({})
    lenient, other = VectorClock("lenient", accept_unstamped=True), VectorClock("other")
    assert lenient.local().complete
    assert not lenient.receive(None).complete
    assert not other.receive(lenient.send()).complete
    assert not other.spawn("child").local().complete
    assert not VectorStamp.from_bytes(other.local().to_bytes()).complete
    assert "incomplete" in repr(other.stamp)


def test_an_observer_reads_without_taking_part():
    """Watching a system must not change its stamps."""
    a, b, observer = VectorClock("a"), VectorClock("b"), VectorObserver()
    first = a.send()
    observer.observe(first)
    second = b.receive(first)
    observer.observe(second)
    assert observer.stamp == second
    assert observer.known("a") == 1
    assert observer.known("nobody") == 0
    assert set(second) == {"a", "b"}


def test_a_reused_process_id_is_found():
    """Two processes under one id would order events that never met; a restart under its old id shows at once."""
    old, peer = VectorClock("svc"), VectorClock("peer")
    peer.receive(old.send())
    restarted = VectorClock("svc")
    with pytest.raises(ClockError, match="its own id"):
        restarted.receive(peer.send())
    assert restarted.local() == VectorStamp({"svc": 1, "peer": 0})
    with pytest.raises(ClockError, match="its own id"):
        VectorClock("svc").synchronise(peer)
    with pytest.raises(ClockError, match="never used"):
        peer.spawn("svc")
    peer.spawn("child")
    with pytest.raises(ClockError, match="never used"):
        peer.spawn("child")


def test_rendezvous_is_one_event_of_both():
    """Both sides of a rendezvous carry one stamp, and all that either knew before it."""
    a, b = VectorClock("a"), VectorClock("b")
    before_a, before_b = a.local(), b.local()
    met = a.synchronise(b)
    assert a.stamp == b.stamp == met == VectorStamp({"a": 2, "b": 2})
    assert relation(before_a, b.local()) is Relation.BEFORE
    assert relation(before_b, a.local()) is Relation.BEFORE
    with pytest.raises(ClockError, match="itself"):
        a.synchronise(a)


def test_stamps_are_values():
    """A stamp in a set, a dictionary key, a log: it never changes after it was given."""
    clock = VectorClock("a")
    stamp = clock.local()
    kept = {stamp: "first"}
    clock.local()
    assert dict(stamp) == {"a": 1}
    assert kept[VectorStamp({"a": 1})] == "first"
    with pytest.raises(AttributeError):
        stamp.complete = False
    with pytest.raises(TypeError):
        stamp["a"] = 2


@pytest.mark.parametrize("bad", [{"": 1}, {"a": -1}, {"a": 1.0}, {"a": True}, {"a": 2**63}, {"x" * 256: 1}, {3: 1}])
def test_what_cannot_be_a_vector_is_refused(bad):
    """A log with an absurd clock is told so, not half understood."""
    with pytest.raises(StampError):
        VectorStamp(bad)


def test_exact_on_random_histories():
    """Spawns, rendezvous, losses, duplicates, reorderings: the relation of every pair is the true one."""
    assert check_clock(VectorClock, histories=200) > 100_000


def test_check_clock_finds_a_clock_that_forgets():
    """The check itself must fail for a clock that drops what a message told."""

    class Forgetful(VectorClock):
        def receive(self, stamp):
            return self.local()

    with pytest.raises(ClockCheckFailed, match="BEFORE"):
        check_clock(Forgetful, histories=20)


@pytest.mark.parametrize("clock", [LamportClock("a"), HybridClock("a"), VectorClock("a"), IntervalTreeClock.seed()])
def test_what_is_no_stamp_of_the_clock_is_refused_by_name(clock):
    """A stamp of another clock, or none: an error that says what was expected, and no event."""
    with pytest.raises(TypeError, match=r"receives a \w+Stamp, not BoundedStamp"):
        clock.receive(BoundedStamp("b", 1, 0, (1,)))
    with pytest.raises(TypeError, match="it is not a stamp"):
        relation(None, None)
