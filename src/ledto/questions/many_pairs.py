"""Sort pairs of events by segment and collect the answers: the kernels of `ledto.questions.relation.relations`.

A pair that is moved takes its *slot* with it: the index of the pair, and whether its two events were swapped so that the
earlier one comes first. A slot is one number, because whole records are moved and each column costs time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ledto.causality.skeleton import Ints, Longs
from ledto.kernels import inlined, kernel
from ledto.questions.standing import AFTER, BEFORE, EQUAL

NO_NUMBER = int(np.iinfo(np.int64).max)
"""Higher than the number of any event within its process, so that it is never reached."""


@inlined
def _make_slot(pair: int, swapped: bool) -> int:
    """Encode the index of a pair, and whether its events were swapped."""
    return 2 * pair + swapped


@inlined
def _pair_of(slot: int) -> int:
    """Decode the index of the pair."""
    return slot >> 1


@inlined
def _is_swapped(slot: int) -> bool:
    """Decode whether the events of the pair were swapped."""
    return (slot & 1) == 1


@inlined
def _segment(starts_at: Longs, position: int, share: float) -> int:
    """Find the segment of a position: guess first, because segments are mostly of one size, then search.

    `share` is the number of segments divided by that of events.
    """
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
def sort_by_earlier(
    starts_at: Longs, total: int, one: Longs, other: Longs, relation_codes: NDArray[np.int8]
) -> tuple[Longs, Longs, Longs, Longs]:
    """Sort pairs by the segment of their earlier event; return earlier, later, slot, and where each segment's pairs start.

    Pairs of one and the same event are answered at once. Whole records are moved: reading each pair through an index
    would miss the cache every time.
    """
    share = len(starts_at) / max(total, 1)
    bounds = np.zeros(len(starts_at) + 1, np.int64)
    segment = np.empty(len(one), np.int32)
    for pair in range(len(one)):
        segment[pair] = _segment(starts_at, min(one[pair], other[pair]), share)
        if one[pair] == other[pair]:
            relation_codes[pair] = EQUAL
        bounds[segment[pair] + 1] += 1
    for number in range(len(starts_at)):
        bounds[number + 1] += bounds[number]
    fill = bounds[:-1].copy()
    low, high, slot = np.empty(len(one), np.int64), np.empty(len(one), np.int64), np.empty(len(one), np.int64)
    for pair in range(len(one)):
        to = fill[segment[pair]]
        fill[segment[pair]] = to + 1
        low[to], high[to] = min(one[pair], other[pair]), max(one[pair], other[pair])
        slot[to] = _make_slot(pair, one[pair] > other[pair])
    return low, high, slot, bounds


@kernel("void(int64[::1], int64, int32[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def number_earlier(
    low: Longs, first: int, rows_process: Ints, rows_number: Longs, codes: Longs, process: Longs, index: Longs
) -> None:
    """Fill in the global code of the process and the number of the earlier event of each pair.

    `index` may be the same array as `low`.
    """
    for pair in range(len(low)):
        row = low[pair] - first
        process[pair], index[pair] = codes[rows_process[row]], rows_number[row]


@kernel(
    "Tuple((int64[::1], int64[::1], int64[::1], int64[::1], int64[::1]))"
    "(int64[::1], int64, int64[::1], int64[::1], int64[::1], int64[::1])"
)
def sort_by_later(
    starts_at: Longs, total: int, process: Longs, index: Longs, high: Longs, slot: Longs
) -> tuple[Longs, Longs, Longs, Longs, Longs]:
    """Sort the records of pairs by the segment of their later event; return them, and where each segment's pairs start."""
    share = len(starts_at) / max(total, 1)
    bounds = np.zeros(len(starts_at) + 1, np.int64)
    segment = np.empty(len(high), np.int32)
    for pair in range(len(high)):
        segment[pair] = _segment(starts_at, high[pair], share)
        bounds[segment[pair] + 1] += 1
    for number in range(len(starts_at)):
        bounds[number + 1] += bounds[number]
    fill = bounds[:-1].copy()
    moved = np.empty((4, len(high)), np.int64)
    for pair in range(len(high)):
        to = fill[segment[pair]]
        fill[segment[pair]] = to + 1
        moved[0, to], moved[1, to], moved[2, to], moved[3, to] = process[pair], index[pair], high[pair], slot[pair]
    return moved[0], moved[1], moved[2], moved[3], bounds


@kernel("void(int64, int64[::1], int64[::1], int64[::1], int64[::1])")
def to_local(first: int, local_code: Longs, process: Longs, index: Longs, high: Longs) -> None:
    """Turn global codes into codes of the segment, and positions into rows, in place.

    A process of another computation has no local code: its index becomes `NO_NUMBER`, which is before no event.
    """
    for pair in range(len(high)):
        code = local_code[process[pair]]
        process[pair] = max(code, 0)
        index[pair] = index[pair] if code >= 0 else NO_NUMBER
        high[pair] -= first


@kernel("void(int64[::1], boolean[::1], int8[::1])")
def note_before(slot: Longs, before: NDArray[np.bool_], relation_codes: NDArray[np.int8]) -> None:
    """Write before or after at the index of each pair whose earlier event happened before the later one."""
    for record in range(len(slot)):
        if before[record]:
            relation_codes[_pair_of(slot[record])] = AFTER if _is_swapped(slot[record]) else BEFORE


@kernel("int64[::1](int32[::1], int64[::1])")
def numbers_within(process: Ints, before: Longs) -> Longs:
    """Number the events of each process, by row. `before` has the number of events of each process before the rows."""
    count = before.copy()
    numbers = np.empty(len(process), np.int64)
    for row in range(len(process)):
        count[process[row]] += 1
        numbers[row] = count[process[row]]
    return numbers
