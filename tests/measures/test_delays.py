from __future__ import annotations

from functools import reduce
from operator import add
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.measures import delays as module
from ledto.measures.delays import Waits, measure_delays

PARTS = st.lists(st.lists(st.integers(0, 40) | st.integers(0, 1 << 50), max_size=30), min_size=1, max_size=5)


def percentile(values: list[int], percent: int) -> int:
    """The smallest value that at least so many percent do not exceed."""
    return next(
        each for each in sorted(values) if sum(other <= each for other in values) * 100 >= percent * len(values)
    )


@given(PARTS)
def test_parts_add_up_to_exact_percentiles(parts: list[list[int]]) -> None:
    """The delay promised for a policy would depend on how many tasks measured it."""
    total = reduce(add, (Waits.of(np.array(part, np.int64)) for part in parts))
    values = [value for part in parts for value in part]
    delays = total.delays()
    if not values:
        assert delays is None
        return
    assert delays is not None
    assert (delays.p50, delays.p95, delays.p99) == tuple(percentile(values, each) for each in (50, 95, 99))
    assert (delays.deliveries, delays.max, total.width) == (len(values), max(values), 1)
    assert delays.mean == sum(values) / len(values)


@given(PARTS)
def test_too_many_values_are_rounded_and_say_so(parts: list[list[int]]) -> None:
    """Delays in nanoseconds would fill the driver's memory, or be wrong without a word."""
    with patch.object(module, "MAX_VALUES", 4):
        total = reduce(add, (Waits.of(np.array(part, np.int64)) for part in parts))
    values = [value for part in parts for value in part]
    assert len(total.values) <= 4
    delays = total.delays()
    if delays is not None:
        for percent, found in ((50, delays.p50), (95, delays.p95), (99, delays.p99)):
            assert 0 <= percentile(values, percent) - found < total.width
        assert (delays.max, delays.mean) == (max(values), sum(values) / len(values))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=250))
def test_percentiles_are_the_smallest_wait_that_enough_do_not_exceed(waits: list[int]) -> None:
    """A promise about the 99th percentile would rest on a wait that no message had."""
    found = measure_delays(np.array(waits))
    for percent, value in ((50, found.p50), (95, found.p95), (99, found.p99)):
        enough = [w for w in sorted(waits) if 100 * sum(v <= w for v in waits) >= percent * len(waits)]
        assert value == enough[0]
    assert (found.max, found.deliveries) == (max(waits), len(waits))
    assert found.mean == pytest.approx(sum(waits) / len(waits))


def test_no_waits_have_no_percentiles() -> None:
    with pytest.raises(ValueError, match="nothing was delivered"):
        measure_delays(np.array([], np.int64))
