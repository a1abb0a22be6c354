"""Sort reports by keys of several fields, packed into as few 64-bit words as hold them.

Comparing one or two words makes sorting fast. Each field takes just the bits that its values in this table need
(smallest to largest); fields follow each other from the most significant bit on. If they need more than two words,
ranks from a full sort replace them: slower to make, and the same order. Keys mostly arrive nearly in order, which the sort
uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledto.kernels import inlined, kernel, part

Longs = NDArray[np.int64]

MOST_BY_NUMPY = 500_000
"""Up to so many rows NumPy sorts: a tenth of a second at most, while compiling takes six."""
RUN = 16
"""How many rows are sorted by insertion before merging starts."""


WORD_BITS = 63
"""The bits used of a word: words are compared as signed integers, so the sign bit stays 0."""


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


@dataclass(frozen=True, slots=True)
class PackedKeys:
    """Row a sorts before row b iff ``(high[a], low[a]) < (high[b], low[b])``; `low` is empty if one word is enough."""

    high: Longs
    low: Longs

    def take(self, rows: Longs) -> PackedKeys:
        """Return the keys of these rows, in this order."""
        return PackedKeys(self.high[rows], self.low[rows] if len(self.low) else self.low)


def pack(fields: list[Longs], counts: NDArray[np.int32], process: NDArray[np.int32], seq: Longs) -> PackedKeys:
    """Make keys that sort by `fields`, the columns of `counts`, process, seq; no two rows share both process and seq.

    `fields` has one or two columns; values of `counts` are 0 or more.
    """
    if not len(seq):
        return PackedKeys(np.empty(0, np.int64), np.empty(0, np.int64))
    first, second = fields[0], fields[-1]
    least = np.array([int(first.min()), int(second.min()), int(process.min()), int(seq.min())], np.int64)
    columns: list[NDArray[Any]] = [first, second, process, seq]
    spans = [int(column.max()) - int(low) for column, low in zip(columns, least, strict=True)]
    bits = np.array([span.bit_length() for span in spans], np.int64)
    if len(fields) == 1:
        bits[1] = 0
    count_bits = np.array([int(most).bit_length() for most in column_maxima(counts)], np.int64)
    total = int(bits.sum() + count_bits.sum())
    if max(spans) >= 1 << WORD_BITS or total > 2 * WORD_BITS:
        return _ranks(fields, counts, process, seq)
    high = np.empty(len(seq), np.int64)
    low = np.empty(len(seq) if total > WORD_BITS else 0, np.int64)
    pack_rows(first, second, counts, process, seq, least, bits, count_bits, high, low)
    return PackedKeys(high, low)


def _ranks(fields: list[Longs], counts: NDArray[np.int32], process: NDArray[np.int32], seq: Longs) -> PackedKeys:
    """Make keys of ranks."""
    columns: list[NDArray[Any]] = [*fields, *counts.T, process, seq]
    ranks = np.empty(len(seq), np.int64)
    ranks[np.lexsort(columns[::-1])] = np.arange(len(seq))
    return PackedKeys(ranks, np.empty(0, np.int64))


@kernel("int64[:](int32[:, ::1])")
def column_maxima(counts: NDArray[np.int32]) -> Longs:
    """Return the largest value of each column, 0 or more."""
    most = np.zeros(counts.shape[1], np.int32)
    for row in range(counts.shape[0]):
        for column in range(counts.shape[1]):
            most[column] = max(most[column], counts[row, column])
    return most.astype(np.int64)


@inlined
def _shift_in(above: int, word: int, value: int, bits: int, mask: int, two_words: bool) -> tuple[int, int]:
    """Append a field of `bits` bits to a key."""
    if two_words:
        above = (above << bits) | (word >> (63 - bits))
    return above, ((word << bits) & mask) | value


@kernel(
    "void(int64[::1], int64[::1], int32[:, ::1], int32[::1], int64[::1], "
    "int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])"
)
def pack_rows(
    first: Longs,
    second: Longs,
    counts: NDArray[np.int32],
    process: NDArray[np.int32],
    seq: Longs,
    least: Longs,
    bits: Longs,
    count_bits: Longs,
    high: Longs,
    low: Longs,
) -> None:
    """Fill `high` (and `low`, unless it is empty) row by row; see `pack`."""
    mask = (1 << 63) - 1
    two_words = len(low) > 0
    unused = 126 - int(bits.sum() + count_bits.sum())
    for row in range(len(high)):
        word = int(first[row] - least[0])
        above = 0
        if bits[1]:
            above, word = _shift_in(above, word, second[row] - least[1], bits[1], mask, two_words)
        for column in range(counts.shape[1]):
            if count_bits[column]:
                above, word = _shift_in(above, word, counts[row, column], count_bits[column], mask, two_words)
        above, word = _shift_in(above, word, process[row] - least[2], bits[2], mask, two_words)
        above, word = _shift_in(above, word, seq[row] - least[3], bits[3], mask, two_words)
        if two_words:
            # Left-aligned, so that the first word alone distinguishes most rows.
            above, word = _shift_in(above, word, 0, unused, mask, two_words)
            high[row] = above
            low[row] = word
        else:
            high[row] = word
