"""Count what an order of delivery contradicts, over rows whose causes are known, without a vector for each row.

An *inverted pair* is a cause placed after its effect, as in `ledto.measures.violations`. An event is placed before one
of its causes iff the latest place in its causal past is after its own. That maximum passes from direct causes to
effects: two numbers for each row instead of a vector. Events placed after an effect are found likewise, backwards.
Vectors are only needed to count the pairs themselves, and only those of the events placed before a cause.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.causality.skeleton import Skeleton
from ledto.delivery.duplicates import seq_spans
from ledto.kernels import kernel
from ledto.measures.violations import PAIRS, sweep

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

VECTOR_BYTES = 128 << 20
"""The most memory for vectors at a time."""
NO_PLACE = -1
"""Before all places."""
LAST_PLACE = np.iinfo(np.int64).max
"""After all places."""
NO_COLUMN = -1
"""In place of a column: none."""


@dataclass(frozen=True, slots=True)
class Inversions:
    """Counts over the events of one stretch of a history; counts of stretches add up. As `Violations`."""

    events: int
    before_cause: int
    """Events placed before one of their causes."""
    after_effect: int
    """Events placed after one of their effects."""
    involved: int
    """Events that are one or the other, or both."""
    pairs: int
    """Inverted pairs; each is counted with its effect."""

    def __add__(self, other: Inversions) -> Inversions:
        return Inversions(
            self.events + other.events,
            self.before_cause + other.before_cause,
            self.after_effect + other.after_effect,
            self.involved + other.involved,
            self.pairs + other.pairs,
        )


@dataclass(frozen=True, slots=True, eq=False)
class CausalRows:
    """Rows of one or several computations, one after the other, each in an order in which causes come first."""

    skeleton: Skeleton
    """Causes before the rows are left out: the caller must know that they are not in the wrong place."""
    column: Ints
    """By process: its number among those of its computation, from 0."""


def count_inversions(rows: CausalRows, place: Longs, start: int, stop: int) -> Inversions:
    """Count for the rows ``start <= row < stop``, given the place of every row in the order; no two rows share one.

    Exact if the rows include every cause that is placed after one of these rows, every effect that is placed before
    one, and all that lies between in causal order. All places of one computation come before those of the next.
    """
    skeleton = rows.skeleton
    latest, earliest = np.empty(len(skeleton), np.int64), np.empty(len(skeleton), np.int64)
    far_places(skeleton.process, skeleton.offsets, skeleton.back, place, len(rows.column), latest, earliest)
    before, after = latest > place, earliest < place
    counted = slice(start, stop)
    effects = start + np.flatnonzero(before[counted])
    return Inversions(
        stop - start,
        len(effects),
        int(after[counted].sum()),
        int((before[counted] | after[counted]).sum()),
        _pairs(rows, place, np.flatnonzero(after), effects),
    )


def _pairs(rows: CausalRows, place: Longs, causes: Longs, effects: Longs) -> int:
    """Count inverted pairs of one of these causes and one of these effects; `causes` are all rows placed after an effect.

    Vectors count causes only, so they need columns only for processes that have some: if only a few processes were
    slow, few.
    """
    if not len(effects):
        return 0
    skeleton = rows.skeleton
    column_of, columns = _columns_in_use(rows.column, skeleton.process[causes])
    # Causes are numbered by column. Computations that share a column come one after the other in the order, too. So
    # when an effect is reached, no cause of another computation with a smaller number is still to come.
    column, number = column_of[skeleton.process[causes]], np.empty(len(causes), np.int64)
    number_rows(column, np.zeros(columns, np.int64), number)
    numbers = np.zeros(len(skeleton), np.int32)
    numbers[causes] = number
    # Effects that are not causes have a column of their own, which no vector counts.
    others = effects[numbers[effects] == 0]
    chosen = np.concatenate((causes, others))
    order = np.argsort(place[chosen])
    senders = np.concatenate((column, np.full(len(others), columns, np.int32)))[order]
    seqs = np.concatenate((number, np.arange(1, len(others) + 1)))[order]
    first, spans = seq_spans(senders, seqs, columns + 1)
    words = np.concatenate(([0], np.cumsum((spans + 63) >> 6))).astype(np.int64)
    total = 0
    at_once = max(1, VECTOR_BYTES // (4 * columns + 4))
    for first_effect in range(0, len(effects), at_once):
        wanted = effects[first_effect : first_effect + at_once]
        known = np.zeros((len(wanted) + 1, columns + 1), np.int32)
        know_causes(
            skeleton.process, skeleton.offsets, skeleton.back, column_of, numbers, int(causes[0]), wanted, known
        )
        # Rows that are not effects of this round have an empty vector.
        vector_row = np.zeros(len(skeleton), np.int64)
        vector_row[wanted] = np.arange(1, len(wanted) + 1)
        counts, _ = sweep(senders, seqs, vector_row[chosen[order]], known, first, spans, words)
        total += int(counts[PAIRS])
    return total


def _columns_in_use(column: Ints, processes: Ints) -> tuple[Ints, int]:
    """Return, by process, its column, counting only columns that one of `processes` has; and how many there are."""
    used = np.zeros(int(column.max()) + 1, np.bool_)
    used[column[processes]] = True
    return np.where(used, np.cumsum(used) - 1, NO_COLUMN).astype(np.int32)[column], int(used.sum())


@kernel("void(int32[::1], int64[::1], int64[::1])")
def number_rows(codes: Ints, counts: Longs, numbers: Longs) -> None:
    """Fill `numbers` with each row's number among the rows of its code, counting on from `counts`."""
    for row in range(len(codes)):
        counts[codes[row]] += 1
        numbers[row] = counts[codes[row]]


@kernel("void(int32[::1], int64[::1], int64[::1], int32[::1], int32[::1], int64, int64[::1], int32[:, ::1])")
def know_causes(
    process: Ints, offsets: Longs, back: Longs, column: Ints, numbers: Ints, start: int, wanted: Longs, known: Ints
) -> None:
    """Fill ``known[i + 1]`` with the last number of each column in the past of row ``wanted[i]``, itself included.

    The last column is not filled. `numbers` is 0 for rows without one, and all rows before `start` have none. A send's
    vector is kept until its last receive: memory is a vector for each process and for each message in flight.
    """
    stop = wanted[-1] + 1
    uses = np.zeros(stop, np.int32)
    for row in range(start, stop):
        for entry in range(offsets[row], offsets[row + 1]):
            if row - back[entry] >= start:
                uses[row - back[entry]] += 1
    columns = known.shape[1] - 1
    current = np.zeros((len(column), columns), np.int32)
    slot_of = np.empty(stop, np.int32)
    slots = np.empty((64, columns), np.int32)
    free = np.arange(63, -1, -1)
    frees = 64
    filled = 0
    for row in range(start, stop):
        owner = process[row]
        for entry in range(offsets[row], offsets[row + 1]):
            cause = row - back[entry]
            if cause < start:
                continue
            slot = slot_of[cause]
            for index in range(columns):
                current[owner, index] = max(current[owner, index], slots[slot, index])
            uses[cause] -= 1
            if uses[cause] == 0:
                free[frees] = slot
                frees += 1
        if numbers[row]:
            current[owner, column[owner]] = numbers[row]
        if uses[row]:
            if frees == 0:
                more = np.empty((2 * len(slots), columns), np.int32)
                more[: len(slots)] = slots
                frees = len(slots)
                free = np.arange(2 * frees - 1, -1, -1)
                slots = more
            frees -= 1
            slot_of[row] = free[frees]
            slots[free[frees]] = current[owner]
        if filled < len(wanted) and wanted[filled] == row:
            filled += 1
            known[filled, :columns] = current[owner]


@kernel("void(int32[::1], int64[::1], int64[::1], int64[::1], int64, int64[::1], int64[::1])")
def far_places(
    process: Ints, offsets: Longs, back: Longs, place: Longs, processes: int, latest: Longs, earliest: Longs
) -> None:
    """Fill `latest`, the last place in each row's past, and `earliest`, the first one in its future.

    The row itself is in neither.
    """
    of_process = np.full(processes, NO_PLACE, np.int64)
    for row in range(len(process)):
        most = of_process[process[row]]
        for entry in range(offsets[row], offsets[row + 1]):
            cause = row - back[entry]
            if cause >= 0:
                most = max(most, latest[cause], place[cause])
        latest[row] = most
        of_process[process[row]] = max(most, place[row])
        earliest[row] = LAST_PLACE
    of_process[:] = LAST_PLACE
    for row in range(len(process) - 1, -1, -1):
        least = min(earliest[row], of_process[process[row]])
        earliest[row] = least
        least = min(least, place[row])
        of_process[process[row]] = least
        for entry in range(offsets[row], offsets[row + 1]):
            cause = row - back[entry]
            if cause >= 0:
                earliest[cause] = min(earliest[cause], least)
