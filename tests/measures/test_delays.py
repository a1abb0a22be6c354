from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.measures.delays import measure_delays


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
