"""The stream's time goes on whatever the broker's clock does."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ledto.spark.stream.follow import raise_arrivals

SECOND = 1_000_000_000
HOUR = 3_600 * SECOND
ARRIVALS = st.lists(st.integers(0, 2 * HOUR), min_size=1, max_size=40)


@given(ARRIVALS, st.integers(0, HOUR), st.integers(0, 40))
def test_arrivals_ascend_and_do_not_depend_on_the_cutting(stamped: list[int], now: int, cut: int) -> None:
    """Deliveries would come in another order after a restart, or with other micro-batches."""
    arrival = np.array(stamped, np.int64)
    whole = raise_arrivals(arrival, before=None, now=now)
    assert (np.diff(whole) >= 0).all()
    assert whole[0] >= now
    assert (whole >= arrival).all()
    first = raise_arrivals(arrival[:cut], before=None, now=now)
    second = raise_arrivals(
        arrival[cut:],
        before=stamped[cut - 1] if 0 < cut <= len(stamped) else None,
        now=int(first[-1]) if len(first) else now,
    )
    if 0 < cut < len(stamped):
        assert np.concatenate((first, second)).tolist() == whole.tolist()


@given(ARRIVALS)
def test_arrivals_that_ascend_stay_as_they_are(stamped: list[int]) -> None:
    """Every date of a stream would be off, though nobody set a clock."""
    arrival = np.sort(np.array(stamped, np.int64))
    assert raise_arrivals(arrival, before=None, now=0).tolist() == arrival.tolist()


def test_a_clock_that_is_set_back_and_right_again_stops_nothing() -> None:
    """An hour set back stopped all deliveries for an hour."""
    one_a_second = np.arange(60, dtype=np.int64) * SECOND
    back = raise_arrivals(2 * HOUR - HOUR + one_a_second, before=2 * HOUR, now=2 * HOUR)
    assert back[0] == 2 * HOUR
    assert back[-1] >= 2 * HOUR + 29 * SECOND
    right = raise_arrivals(2 * HOUR + 60 * SECOND + one_a_second, before=HOUR + 59 * SECOND, now=int(back[-1]))
    assert right[-1] - (2 * HOUR + 119 * SECOND) <= 31 * SECOND
