"""Find the relation of two events, or of many millions of pairs at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ledto.causality.pairs import happened_before
from ledto.causality.skeleton import Longs
from ledto.causality.sweeps import PastSweep
from ledto.causality.taint import NEVER
from ledto.history.errors import EventNotFound
from ledto.history.recorded import are_recorded_before, is_recorded_before
from ledto.history.run import Run
from ledto.questions.locate import code_at, codes_at, index_at, row_of
from ledto.questions.many_pairs import (
    note_before,
    number_earlier,
    numbers_within,
    sort_by_earlier,
    sort_by_later,
    to_local,
)
from ledto.questions.missing import are_tainted, first_tainted, is_tainted
from ledto.questions.parts import past_vector_at, segment_parts_until
from ledto.questions.standing import AFTER, BEFORE, CONCURRENT, POSSIBLY_AFTER, POSSIBLY_BEFORE, UNKNOWN, Standing

MOST_THREADS = min(4, os.cpu_count() or 1)
BLOCK_PAIRS = 1 << 24
"""How many pairs are related at a time. A pair takes about 80 bytes meanwhile."""


@dataclass(frozen=True, slots=True, eq=False)
class Numbered:
    """Events by process and number within the process."""

    process: ArrayLike
    """Codes of processes, as `History.processes` lists them."""
    index: ArrayLike
    """Numbers within those processes, from 1."""


def relation(run: Run, first: int, second: int, *, answered: bool = False) -> Standing:
    """Find the relation of two events by position; `answered`: count assumed answers as recorded."""
    if first == second:
        return Standing.EQUAL
    earlier, later = min(first, second), max(first, second)
    if _may_have_led_to(run, earlier, later):
        if run.has_lines and not is_recorded_before(run, earlier, later, answered=answered):
            return Standing.POSSIBLE
        return Standing.BEFORE if earlier == first else Standing.AFTER
    computation = run.processes.computation_number
    if computation[code_at(run, earlier)] != computation[code_at(run, later)]:
        return Standing.CONCURRENT
    return Standing.UNKNOWN if is_tainted(run, earlier) or is_tainted(run, later) else Standing.CONCURRENT


def _may_have_led_to(run: Run, earlier: int, later: int) -> bool:
    """Tell whether an event may have led to a later one in the wide order."""
    code = code_at(run, earlier)
    number, row = row_of(run, later)
    if code == code_at(run, later):
        return True
    if earlier >= run.segments.first_position[number]:
        sweep = PastSweep(len(run.segments.codes_of(number)), later)
        for part in segment_parts_until(run, number, row):
            rows = sweep.step(part.skeleton, part.first_position, edges_across=part.edges_across)
            if part.first_position <= earlier:
                return bool((rows + part.first_position == earlier).any())
    local = np.flatnonzero(run.segments.codes_of(number) == code)
    return bool(len(local)) and bool(past_vector_at(run, later)[local[0]] >= index_at(run, earlier))


def relations(run: Run, first: ArrayLike | Numbered, second: ArrayLike | Numbered) -> NDArray[np.int8]:
    """Find the relation of each first event to the second at the same index, as indices into `RELATIONS`.

    The pairs are sorted twice: by the segment of the earlier event, to find its process and number, and by the segment
    of the later event, to answer all its pairs in one pass. Each segment is read at most twice for a block of pairs.
    """
    one, other = (_positions(run, events) for events in (first, second))
    if one.shape != other.shape:
        raise ValueError(f"pairs are two columns of one length, not {len(one)} and {len(other)}")
    relation_codes = np.full(len(one), CONCURRENT, np.int8)
    for start in range(0, len(one), BLOCK_PAIRS):
        block = slice(start, start + BLOCK_PAIRS)
        _relate(run, one[block], other[block], relation_codes[block])
    if run.has_lines:
        _weaken_to_possible(run, one, other, relation_codes)
    if (first_tainted(run) != NEVER).any():
        _weaken_to_unknown(run, one, other, relation_codes)
    return relation_codes


def _weaken_to_possible(run: Run, one: Longs, other: Longs, relation_codes: NDArray[np.int8]) -> None:
    """Turn before and after into possible for pairs that only the wide order connects."""
    pairs = np.flatnonzero((relation_codes == BEFORE) | (relation_codes == AFTER))
    earlier, later = np.minimum(one[pairs], other[pairs]), np.maximum(one[pairs], other[pairs])
    doubtful = pairs[~are_recorded_before(run, earlier, later)]
    relation_codes[doubtful] = np.where(relation_codes[doubtful] == BEFORE, POSSIBLY_BEFORE, POSSIBLY_AFTER)


def _weaken_to_unknown(run: Run, one: Longs, other: Longs, relation_codes: NDArray[np.int8]) -> None:
    """Turn concurrent into unknown for pairs with a missing report in the past of either."""
    pairs = np.flatnonzero(relation_codes == CONCURRENT)
    tainted = are_tainted(run, one[pairs]) | are_tainted(run, other[pairs])
    pairs = pairs[tainted]
    computation = run.processes.computation_number
    same = computation[codes_at(run, one[pairs])] == computation[codes_at(run, other[pairs])]
    relation_codes[pairs[same]] = UNKNOWN


def _relate(run: Run, one: Longs, other: Longs, relation_codes: NDArray[np.int8]) -> None:
    """Fill in before, after and equal, by the wide order."""
    starts_at = run.segments.first_position.astype(np.int64)
    low, high, slot, bounds = sort_by_earlier(starts_at, run.events_total, one, other, relation_codes)
    process, index = np.empty(len(low), np.int64), low

    def name_earlier(part: tuple[int, slice]) -> None:
        number, pairs = part
        skeleton = run.skeleton(number, 0, int(run.segments.rows[number]))
        numbers = numbers_within(skeleton.process, run.segments.before_of(number).astype(np.int64))
        codes = run.segments.codes_of(number).astype(np.int64)
        number_earlier(
            low[pairs], int(starts_at[number]), skeleton.process, numbers, codes, process[pairs], index[pairs]
        )

    def answer(part: tuple[int, slice]) -> tuple[Longs, NDArray[np.bool_]]:
        number, pairs = part
        codes = run.segments.codes_of(number)
        local_code = np.full(len(run.processes), -1, np.int64)
        local_code[codes] = np.arange(len(codes))
        to_local(int(starts_at[number]), local_code, process[pairs], index[pairs], high[pairs])
        skeleton = run.skeleton(number, 0, int(run.segments.rows[number]))
        return slot[pairs], happened_before(skeleton, run.boundary(number), process[pairs], index[pairs], high[pairs])

    # The kernels release Python's lock, and the parts do not overlap.
    with ThreadPoolExecutor(MOST_THREADS) as threads:
        list(threads.map(name_earlier, _parts(bounds)))
        process, index, high, slot, bounds = sort_by_later(starts_at, run.events_total, process, index, high, slot)
        for slots, before in threads.map(answer, _parts(bounds)):
            note_before(slots, before, relation_codes)


def _parts(bounds: Longs) -> Iterator[tuple[int, slice]]:
    """Yield each segment that has pairs, and where its pairs are."""
    for number in np.flatnonzero(np.diff(bounds)).tolist():
        yield number, slice(int(bounds[number]), int(bounds[number + 1]))


def _positions(run: Run, events: ArrayLike | Numbered) -> Longs:
    """Turn events into positions; raise `EventNotFound` if there is no such event."""
    if isinstance(events, Numbered):
        return positions_of(run, np.asarray(events.process, np.int64), np.asarray(events.index, np.int64))
    position = np.ascontiguousarray(events, np.int64)
    if position.ndim != 1:
        raise ValueError(f"events are a column of positions, not an array of {position.ndim} dimensions")
    if len(position) and not (position.min() >= 0 and position.max() < run.events_total):
        raise EventNotFound(
            f"positions run from 0 to {run.events_total - 1}; {position.min()} to {position.max()} are asked for"
        )
    return position


def positions_of(run: Run, process: Longs, index: Longs) -> Longs:
    """Find the positions of events by global code of the process and number within it.

    Raises `EventNotFound` for a number that a process does not have.
    """
    if process.shape != index.shape or process.ndim != 1:
        raise ValueError(f"events are two columns of one length, not {process.shape} and {index.shape}")
    if len(process) and not (process.min() >= 0 and process.max() < len(run.processes)):
        raise EventNotFound(f"codes of processes run from 0 to {len(run.processes) - 1}")
    wrong = np.flatnonzero((index < 1) | (index > run.processes.events[process]))
    if len(wrong):
        code = int(process[wrong[0]])
        raise EventNotFound(
            f"process {run.processes.name(code)!r} has events 1 to {run.processes.events[code]}, not {index[wrong[0]]}"
        )
    positions = np.full(len(process), -1, np.int64)
    for number in range(len(run.segments)):
        local = np.full(len(run.processes), -1, np.int64)
        codes, before = run.segments.codes_of(number), run.segments.before_of(number)
        local[codes] = np.arange(len(codes))
        chosen = np.flatnonzero(local[process] >= 0)
        within = index[chosen] - before[local[process[chosen]]] - 1
        inside = (within >= 0) & (within < run.segments.counts_of(number)[local[process[chosen]]])
        chosen, within = chosen[inside], within[inside]
        if not len(chosen):
            continue
        rows = run.process_column(number)
        by_process = np.argsort(rows, kind="stable")
        starts = np.cumsum(run.segments.counts_of(number)) - run.segments.counts_of(number)
        place = by_process[starts[local[process[chosen]]] + within]
        positions[chosen] = place + run.segments.first_position[number]
    return positions
