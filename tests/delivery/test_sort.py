"""Sorting packed keys, by buckets and by NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.delivery import sort as sorting

keys = st.lists(st.tuples(st.integers(-(1 << 61), 1 << 61) | st.integers(-3, 3), st.integers(-2, 2)), max_size=200)


@given(keys=keys, has_low=st.booleans())
def test_rows_come_by_key_and_equal_ones_in_their_order(keys: list[tuple[int, int]], has_low: bool) -> None:
    """Deliveries of one tick would change places with the size of a log."""
    high = np.array([high for high, _ in keys], np.int64)
    low = np.array([low for _, low in keys] if has_low else [], np.int64)
    expected = sorted(range(len(keys)), key=lambda row: keys[row] if has_low else keys[row][:1])
    assert sorting.argsort_packed(high, low).tolist() == expected
    assert sorting.deal_and_sort(high, low).tolist() == expected


def test_many_rows_are_dealt_into_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy takes several times as long for millions."""
    monkeypatch.setattr(sorting, "MOST_BY_NUMPY", 2)
    called = dict(sorting.deal_and_sort.called)
    assert sorting.argsort_packed(np.array([5, 4, 4]), np.empty(0, np.int64)).tolist() == [1, 2, 0]
    assert sorting.deal_and_sort.called != called
