"""Bounded stamps: their size on the wire, their bounds, and what breaks them."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.clocks import BoundedClock, BoundedFormat, BoundedStamp, ClockDrift, StampError, less

TEN = tuple(f"p{i}" for i in range(10))


def test_two_elements_fit_four_bytes():
    """The paper's mote: eps = delta = 10, ten processes; and all the elements fit the 29 bytes of a payload."""
    assert BoundedFormat(10, 10, TEN, 2).size_bytes == 4
    whole = BoundedFormat.that_fits(29, 10, 10, TEN)
    assert whole.elements == 11
    assert whole.size_bytes <= 29
    small = BoundedFormat.that_fits(5, 10, 10, TEN)
    assert small.size_bytes == 5
    assert BoundedFormat(10, 10, TEN, small.elements + 1).size_bytes > 5
    with pytest.raises(ValueError, match="not even r and c"):
        BoundedFormat.that_fits(1, 10, 10, TEN)


@given(st.data())
def test_packed_stamps_come_back_for_every_reader_within_the_bounds(data):
    """Any stamp, any reader whose clock G1 and G2 allow: the very stamp, cut to the format's elements."""
    eps, delta, n = (data.draw(st.integers(0, 12)) for _ in range(3))
    names = tuple(f"p{i}" for i in range(n + 1))
    layout = BoundedFormat(eps, delta, names, data.draw(st.integers(0, eps + 1)))
    r = data.draw(st.integers(0, 10**12))
    stamp = BoundedStamp(
        data.draw(st.sampled_from(names)),
        r,
        data.draw(st.integers(0, eps)),
        tuple(data.draw(st.lists(st.integers(0, 2 * len(names)), min_size=eps + 1, max_size=eps + 1))),
    )
    now = max(0, r + data.draw(st.integers(-eps, delta + eps)))
    packed = layout.pack(stamp)
    assert len(packed) == layout.size_bytes
    cut = stamp.first(layout.elements) if layout.elements else stamp.physical_and_c()
    assert layout.unpack(packed, now) == cut


@given(st.integers(0, 2**32))
def test_packed_garbage_is_refused_or_canonical(seed):
    """Ten thousand corrupted radio packets: an error, or a stamp that packs to the same bytes; never another exception."""
    random = Random(seed)
    layout = BoundedFormat(10, 10, TEN, 2)
    accepted = 0
    for _ in range(120):
        # Every second one has the right length and version, so that the fields behind them are reached.
        data = random.randbytes(random.randint(0, 6)) if random.random() < 0.5 else bytes((32 | random.getrandbits(5),))
        data += random.randbytes(layout.size_bytes - 1) if len(data) == 1 else b""
        try:
            stamp = layout.unpack(data, random.randint(0, 200))
        except StampError:
            continue
        accepted += 1
        assert layout.pack(stamp) == data
    assert accepted < 120


def test_a_drift_beyond_eps_is_a_hard_error_that_says_what_would_do():
    """Too small an eps must stop the run, not give wrong stamps."""
    ahead = BoundedClock("ahead", 2, 5, physical=lambda: 20).send()
    behind = BoundedClock("behind", 2, 5, physical=lambda: 13)
    with pytest.raises(ClockDrift, match="eps >= 7"):
        behind.receive(ahead)
    assert behind.local().c == 0
    readings = iter([5, 4])
    clock = BoundedClock("a", 2, 2, physical=lambda: next(readings))
    clock.local()
    with pytest.raises(ClockDrift, match="must not go back"):
        clock.local()


def test_degenerate_forms_and_their_order():
    """DPC1 sorts by the reading, DPC2 by the largest known; both lose what kn tells."""
    a = BoundedClock("b", 5, 5, physical=lambda: 12).send()
    b = BoundedClock("a", 5, 5, physical=lambda: 10).receive(a)
    assert less(a, b)
    assert less(b.physical_only(), a.physical_only())
    assert b.physical_and_c().sort_key()[0] == a.physical_and_c().sort_key()[0]
    with pytest.raises(ValueError, match="first"):
        less(a.first(1), b.first(2))


def test_a_cut_stamp_is_refused_unless_the_clock_was_made_for_it():
    """A clock that compares whole stamps and takes in a cut one would sort an effect before its cause."""
    early = BoundedClock("f", 10, 10, physical=lambda: 10)
    for _ in range(6):
        told = early.send()
    cause = BoundedClock("e", 10, 10, physical=lambda: 12).receive(told)
    with pytest.raises(StampError, match="elements=2"):
        BoundedClock("g", 10, 10, physical=lambda: 10).receive(cause.first(2))
    effect = BoundedClock("g", 10, 10, physical=lambda: 10, elements=2).receive(cause.first(2))
    assert len(effect.kn) == 2
    assert less(cause.first(2), effect)
    with pytest.raises(StampError, match="made with eps 10"):
        BoundedClock("h", 5, 10, physical=lambda: 12).receive(cause)


@pytest.mark.parametrize("wrong", [None, "stamp", 5])
def test_what_is_no_stamp_is_refused(wrong):
    """An unstamped message must not pass for a local event."""
    with pytest.raises(TypeError, match="receives a BoundedStamp"):
        BoundedClock("a", 2, 2, physical=lambda: 1).receive(wrong)
    with pytest.raises(TypeError, match="whole ticks"):
        BoundedClock("a", 2, 2, physical=lambda: 1.5).local()
