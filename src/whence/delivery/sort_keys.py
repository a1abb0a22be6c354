"""Pack the sort keys of reports into as few 64-bit words as hold them.

Comparing one or two words makes sorting fast. Each field takes just the bits that its values in this table need
(smallest to largest); fields follow each other from the most significant bit on. If they need more than two words,
ranks from a full sort replace them: slower to make, and the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.kernels import inlined, kernel

Longs = NDArray[np.int64]

WORD_BITS = 63
"""The bits used of a word: words are compared as signed integers, so the sign bit stays 0."""


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
