from __future__ import annotations

from contextlib import suppress
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.delivery.batch import deliver_batch
from whence.delivery.observer import Observer, ReportRefused
from whence.delivery.policies import CBD
from whence.delivery.rows import to_columns
from whence.events.report import Report
from whence.measures.occupancy import measure_occupancy


@given(st.integers(0, 1 << 32), st.integers(1, 40))
def test_the_most_held_is_the_capacity_an_observer_needs(seed: int, messages: int) -> None:
    """A buffer sized by this measure would overflow, or waste memory."""
    random = Random(seed)
    rows = [Report(0, seq, random.randrange(30), 0, (), random.randrange(40)) for seq in range(1, messages + 1)]
    rows.sort(key=lambda row: row.arrival)
    policy = CBD(0.5, 3, 8)
    columns = to_columns(rows)
    found = deliver_batch(columns, policy)
    measured = measure_occupancy(columns.arrival[found.order], found.at)

    ticks = range(rows[0].arrival, int(found.at.max()))
    times = dict(zip(found.order.tolist(), found.at.tolist(), strict=True))
    held = [sum(row.arrival <= tick < times[i] for i, row in enumerate(rows)) for tick in ticks]
    assert measured.mean == pytest.approx(sum(held) / len(held) if held else 0)

    def refusals(capacity: int) -> int:
        observer = Observer(policy, capacity=capacity)
        for row in rows:
            with suppress(ReportRefused):
                observer.offer(row, row.arrival)
        return observer.counters.refused

    assert refusals(measured.most) == 0
    assert measured.most == 1 or refusals(measured.most - 1) > 0


def test_columns_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(ValueError, match="same order"):
        measure_occupancy(np.array([5, 1]), np.array([2, 9]))
    with pytest.raises(ValueError, match="2 arrivals and 1 deliveries"):
        measure_occupancy(np.array([5, 1]), np.array([2]))
    assert measure_occupancy(np.array([], np.int64), np.array([], np.int64)).most == 0
