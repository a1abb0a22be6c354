"""Deals pairs of events out to the segments that answer for them, and collects the answers: the loops of `relations`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ledto.causality.skeleton import Ints, Longs
from ledto.kernels import inlined, kernel
from ledto.questions.standing import AFTER, BEFORE, EQUAL

NOBODY = int(np.iinfo(np.int64).max)
"""A number that no event has."""


@inlined
def _segment(starts_at: Longs, position: int, share: float) -> int:
    """The segment of a position. Segments are mostly of one size, so the first guess is mostly right."""
    low, high = 0, len(starts_at)
    guess = int(position * share)
    if guess >= high:
        guess = high - 1
    if starts_at[guess] <= position and (guess + 1 == high or position < starts_at[guess + 1]):
        return guess
    while high - low > 1:
        middle = (low + high) >> 1
        if starts_at[middle] <= position:
            low = middle
        else:
            high = middle
    return low


@kernel("Tuple((int64[::1], int64[::1], int64[::1], int64[::1]))(int64[::1], int64, int64[::1], int64[::1], int8[::1])")
def by_earlier(
    starts_at: Longs, total: int, one: Longs, other: Longs, found: NDArray[np.int8]
) -> tuple[Longs, Longs, Longs, Longs]:
    """The pairs by the segment of their earlier event: earlier, later, and twice the place, plus 1 where they changed sides.

    Pairs of one and the same event are answered at once. Whole records are moved, not places: reading each pair by its
    place would miss the cache every time.
    """
    share = len(starts_at) / max(total, 1)
    bounds = np.zeros(len(starts_at) + 1, np.int64)
    segment = np.empty(len(one), np.int32)
    for pair in range(len(one)):
        segment[pair] = _segment(starts_at, min(one[pair], other[pair]), share)
        if one[pair] == other[pair]:
            found[pair] = EQUAL
        bounds[segment[pair] + 1] += 1
    for each in range(len(starts_at)):
        bounds[each + 1] += bounds[each]
    fill = bounds[:-1].copy()
    low, high, place = np.empty(len(one), np.int64), np.empty(len(one), np.int64), np.empty(len(one), np.int64)
    for pair in range(len(one)):
        to = fill[segment[pair]]
        fill[segment[pair]] = to + 1
        low[to], high[to] = min(one[pair], other[pair]), max(one[pair], other[pair])
        place[to] = 2 * pair + (one[pair] > other[pair])
    return low, high, place, bounds


@kernel("void(int64[::1], int64, int32[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def tell(
    low: Longs, first: int, rows_process: Ints, rows_number: Longs, codes: Longs, process: Longs, index: Longs
) -> None:
    """The process, as a global code, and the number of the earlier event of each pair; `index` may be `low` itself."""
    for pair in range(len(low)):
        row = low[pair] - first
        process[pair], index[pair] = codes[rows_process[row]], rows_number[row]


@kernel(
    "Tuple((int64[::1], int64[::1], int64[::1], int64[::1], int64[::1]))"
    "(int64[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1])"
)
def by_later(
    starts_at: Longs, total: int, process: Longs, index: Longs, high: Longs, place: Longs
) -> tuple[Longs, Longs, Longs, Longs, Longs]:
    """The same pairs by the segment of their later event."""
    share = len(starts_at) / max(total, 1)
    bounds = np.zeros(len(starts_at) + 1, np.int64)
    segment = np.empty(len(high), np.int32)
    for pair in range(len(high)):
        segment[pair] = _segment(starts_at, high[pair], share)
        bounds[segment[pair] + 1] += 1
    for each in range(len(starts_at)):
        bounds[each + 1] += bounds[each]
    fill = bounds[:-1].copy()
    moved = np.empty((4, len(high)), np.int64)
    for pair in range(len(high)):
        to = fill[segment[pair]]
        fill[segment[pair]] = to + 1
        moved[0, to], moved[1, to], moved[2, to], moved[3, to] = process[pair], index[pair], high[pair], place[pair]
    return moved[0], moved[1], moved[2], moved[3], bounds


@kernel("void(int64, int64[::1], int64[::1], int64[::1], int64[::1])")
def localise(first: int, local_code: Longs, process: Longs, index: Longs, high: Longs) -> None:
    """Global codes become the segment's, and positions rows.

    A process of another computation has no local code; a number that nobody reaches stands for "not before".
    """
    for pair in range(len(high)):
        code = local_code[process[pair]]
        process[pair] = max(code, 0)
        index[pair] = index[pair] if code >= 0 else NOBODY
        high[pair] -= first


@kernel("void(int64[::1], boolean[::1], int8[::1])")
def note(place: Longs, before: NDArray[np.bool_], found: NDArray[np.int8]) -> None:
    """Put the answers in their places."""
    for pair in range(len(place)):
        if before[pair]:
            found[place[pair] >> 1] = AFTER if place[pair] & 1 else BEFORE


@kernel("int64[::1](int32[::1], int64[::1])")
def numbers_within(process: Ints, before: Longs) -> Longs:
    """The number of each row within its process."""
    count = before.copy()
    found = np.empty(len(process), np.int64)
    for row in range(len(process)):
        count[process[row]] += 1
        found[row] = count[process[row]]
    return found
