"""Sort packed keys that arrive nearly in order.

Rows are distributed to about as many buckets as there are rows, by the top bits of their keys, and each bucket is
sorted by itself. Rows that come by arrival fall into neighbouring buckets, so this stays within the cache. A full
bucket costs O(log of its size) for each row, so no input is slow.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from whence.kernels import inlined, kernel, part

Longs = NDArray[np.int64]

MOST_BY_NUMPY = 500_000
"""Up to so many rows NumPy sorts: a tenth of a second at most, while compiling takes six."""
RUN = 16
"""How many rows are sorted by insertion before merging starts."""


@inlined
def _less(key: int, row: int, other_key: int, other: int, low: Longs) -> bool:
    if key != other_key or len(low) == 0:
        return key < other_key
    return bool(low[row] < low[other])


@part
def _insertion_sort(keys: Longs, rows: Longs, start: int, stop: int, low: Longs) -> None:
    """Sort a few rows in place."""
    for place in range(start + 1, stop):
        key, row = keys[place], rows[place]
        free = place
        while free > start and _less(key, row, keys[free - 1], rows[free - 1], low):
            keys[free], rows[free] = keys[free - 1], rows[free - 1]
            free -= 1
        keys[free], rows[free] = key, row


@part
def _merge_sort(
    keys: Longs, rows: Longs, start: int, stop: int, low: Longs, left_keys: Longs, left_rows: Longs
) -> None:
    """Sort many rows in place; `left_keys` and `left_rows` are scratch space."""
    for run in range(start, stop, RUN):
        _insertion_sort(keys, rows, run, min(run + RUN, stop), low)
    width = RUN
    while width < stop - start:
        for left in range(start, stop - width, 2 * width):
            right = left + width
            end = min(right + width, stop)
            left_keys[:width] = keys[left:right]
            left_rows[:width] = rows[left:right]
            merged, place = 0, left
            while merged < width and right < end:
                if _less(keys[right], rows[right], left_keys[merged], left_rows[merged], low):
                    keys[place], rows[place] = keys[right], rows[right]
                    right += 1
                else:
                    keys[place], rows[place] = left_keys[merged], left_rows[merged]
                    merged += 1
                place += 1
            while merged < width:
                keys[place], rows[place] = left_keys[merged], left_rows[merged]
                merged += 1
                place += 1
        width *= 2


def argsort_packed(high: Longs, low: Longs) -> Longs:
    """Return the rows in ascending order of ``(high, low)``, equal ones in row order; `low` may be empty.

    The span of `high` must be below 2**63.
    """
    if len(high) > MOST_BY_NUMPY:
        return deal_and_sort(high, low)
    order: Longs = np.lexsort((low, high)) if len(low) else np.argsort(high, kind="stable")
    return order


@kernel("int64[::1](int64[::1], int64[::1])", work=lambda high, low: 8 * len(high))
def deal_and_sort(high: Longs, low: Longs) -> Longs:
    """Do as `argsort_packed`, by buckets."""
    count = len(high)
    rows = np.empty(count, np.int64)
    if count == 0:
        return rows
    least = high.min()
    span = high.max() - least
    shift = 0
    while (span >> shift) >= 2 * count:
        shift += 1
    buckets = (span >> shift) + 1
    ends = np.zeros(buckets + 1, np.int64)
    for row in range(count):
        ends[((high[row] - least) >> shift) + 1] += 1
    largest = 0
    for bucket in range(buckets):
        largest = max(largest, ends[bucket + 1])
        ends[bucket + 1] += ends[bucket]
    keys = np.empty(count, np.int64)
    for row in range(count):
        bucket = (high[row] - least) >> shift
        place = ends[bucket]
        ends[bucket] = place + 1
        keys[place] = high[row]
        rows[place] = row
    spare_keys, spare_rows = np.empty(largest, np.int64), np.empty(largest, np.int64)
    start = 0
    for bucket in range(buckets):
        stop = ends[bucket]
        if stop - start > RUN:
            _merge_sort(keys, rows, start, stop, low, spare_keys, spare_rows)
        elif stop - start > 1:
            _insertion_sort(keys, rows, start, stop, low)
        start = stop
    return rows
