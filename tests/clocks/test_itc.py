"""Interval tree clocks: the paper's own run, and exactness on random ones."""

import pytest

from ledto.clocks import ClockError, IntervalTreeClock, Relation, Retired, relation
from ledto.clocks.itc.id_tree import MAX_DEPTH
from ledto.testing import check_clock


def test_the_run_in_the_paper():
    """Section 5.1 of the paper, step by step: ids and event trees as printed there."""
    seed = IntervalTreeClock.seed()
    left, right = seed.fork()
    assert (left.share, right.share) == ((1, 0), (0, 1))
    assert left.event().events == (0, 1, 0)
    right.event()
    assert right.event().events == (0, 0, 2)
    left_left, left_right = left.fork()
    assert (left_left.share, left_right.share) == (((1, 0), 0), ((0, 1), 0))
    assert left_left.event().events == (0, (1, 1, 0), 0)
    joined = left_right.join(right)
    assert (joined.share, joined.peek().events) == (((0, 1), 1), (1, 0, 1))
    back, away = joined.fork()
    assert (back.share, away.share) == (((0, 1), 0), (0, 1))
    last = left_left.join(back)
    assert (last.share, last.peek().events) == ((1, 0), (1, (0, 1, 0), 1))
    assert last.event().events == 2


def test_exact_on_random_histories():
    """Forks, joins and losses: the relation of every pair is the true one."""
    assert check_clock(IntervalTreeClock.seed, histories=200, processes=6) > 20_000


def test_messages_carry_a_peek():
    """The paper's send and receive: an anonymous stamp travels, and no share of the sender is used up."""
    a, b = IntervalTreeClock.seed().fork()
    a.event()
    received = b.receive(a.peek())
    assert relation(a.peek(), received) is Relation.BEFORE
    assert relation(a.event(), received) is Relation.CONCURRENT


def test_copies_and_retired_clocks_are_refused():
    """Joining a clock with a copy of itself would merge histories that never met."""
    seed = IntervalTreeClock.seed()
    left, _ = seed.fork()
    with pytest.raises(Retired, match="forked"):
        seed.event()
    with pytest.raises(ClockError, match="same share"):
        left.join(IntervalTreeClock(left.share, 5))


def test_forking_without_end_is_refused_before_recursion_is():
    """A runaway loop of forks must end in an error that says what to do."""
    clock = IntervalTreeClock.seed()
    for _ in range(MAX_DEPTH):
        clock, _ = clock.fork()
    with pytest.raises(ClockError, match="join some"):
        clock.fork()
    assert len(clock.event().to_bytes()) < 200
