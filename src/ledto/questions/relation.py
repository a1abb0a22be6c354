"""How events stand to each other: one pair, or many millions."""

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
from ledto.questions.many_pairs import by_earlier, by_later, localise, note, numbers_within, tell
from ledto.questions.missing import are_tainted, first_tainted, is_tainted
from ledto.questions.parts import past_vector_at, segment_parts_until
from ledto.questions.standing import AFTER, BEFORE, CONCURRENT, POSSIBLY_AFTER, POSSIBLY_BEFORE, UNKNOWN, Standing

MOST_THREADS = min(4, os.cpu_count() or 1)
BLOCK_PAIRS = 1 << 24
"""Pairs related at a time, at about 80 bytes each."""


@dataclass(frozen=True, slots=True, eq=False)
class Numbered:
    """Events by process and number: codes as `History.processes` lists them, and numbers within each, from 1."""

    process: ArrayLike
    index: ArrayLike


def relation(run: Run, first: int, second: int, *, answered: bool = False) -> Standing:
    """How the event at one position stands to the one at another; `answered`: assumed answers count as recorded."""
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
    """Tell whether the wide order leads from one event to another, which stands after it."""
    code = code_at(run, earlier)
    number, row = row_of(run, later)
    if code == code_at(run, later):
        return True
    if earlier >= run.segments.first_position[number]:
        sweep = PastSweep(len(run.segments.codes_of(number)), later)
        for part in segment_parts_until(run, number, row):
            found = sweep.step(part.skeleton, part.first_position, edges_across=part.edges_across)
            if part.first_position <= earlier:
                return bool((found + part.first_position == earlier).any())
    local = np.flatnonzero(run.segments.codes_of(number) == code)
    return bool(len(local)) and bool(past_vector_at(run, later)[local[0]] >= index_at(run, earlier))


def relations(run: Run, first: ArrayLike | Numbered, second: ArrayLike | Numbered) -> NDArray[np.int8]:
    """How each of the first events stands to the second in the same place: indices into `ledto.questions.RELATIONS`.

    The pairs are dealt out twice: to the segments of their earlier events, which are told by process and number, and to
    the segments of their later events, where one pass answers all pairs. Each segment is read at most twice a block.
    """
    one, other = (_positions(run, each) for each in (first, second))
    if one.shape != other.shape:
        raise ValueError(f"pairs are two columns of one length, not {len(one)} and {len(other)}")
    found = np.full(len(one), CONCURRENT, np.int8)
    for start in range(0, len(one), BLOCK_PAIRS):
        block = slice(start, start + BLOCK_PAIRS)
        _relate(run, one[block], other[block], found[block])
    if run.has_lines:
        _keep_recorded(run, one, other, found)
    if (first_tainted(run) != NEVER).any():
        _keep_provable(run, one, other, found)
    return found


def _keep_recorded(run: Run, one: Longs, other: Longs, found: NDArray[np.int8]) -> None:
    """Turn what only the wide order says into "possible"."""
    pairs = np.flatnonzero((found == BEFORE) | (found == AFTER))
    earlier, later = np.minimum(one[pairs], other[pairs]), np.maximum(one[pairs], other[pairs])
    doubtful = pairs[~are_recorded_before(run, earlier, later)]
    found[doubtful] = np.where(found[doubtful] == BEFORE, POSSIBLY_BEFORE, POSSIBLY_AFTER)


def _keep_provable(run: Run, one: Longs, other: Longs, found: NDArray[np.int8]) -> None:
    """Turn "concurrent" into "unknown" where a report is missing that might say otherwise."""
    pairs = np.flatnonzero(found == CONCURRENT)
    tainted = are_tainted(run, one[pairs]) | are_tainted(run, other[pairs])
    pairs = pairs[tainted]
    computation = run.processes.computation_number
    same = computation[codes_at(run, one[pairs])] == computation[codes_at(run, other[pairs])]
    found[pairs[same]] = UNKNOWN


def _relate(run: Run, one: Longs, other: Longs, found: NDArray[np.int8]) -> None:
    starts_at = run.segments.first_position.astype(np.int64)
    low, high, place, bounds = by_earlier(starts_at, run.events_total, one, other, found)
    process, index = np.empty(len(low), np.int64), low

    def name_earlier(part: tuple[int, slice]) -> None:
        number, pairs = part
        skeleton = run.skeleton(number, 0, int(run.segments.rows[number]))
        numbers = numbers_within(skeleton.process, run.segments.before_of(number).astype(np.int64))
        codes = run.segments.codes_of(number).astype(np.int64)
        tell(low[pairs], int(starts_at[number]), skeleton.process, numbers, codes, process[pairs], index[pairs])

    def answer(part: tuple[int, slice]) -> tuple[Longs, NDArray[np.bool_]]:
        number, pairs = part
        codes = run.segments.codes_of(number)
        local_code = np.full(len(run.processes), -1, np.int64)
        local_code[codes] = np.arange(len(codes))
        localise(int(starts_at[number]), local_code, process[pairs], index[pairs], high[pairs])
        skeleton = run.skeleton(number, 0, int(run.segments.rows[number]))
        return place[pairs], happened_before(skeleton, run.boundary(number), process[pairs], index[pairs], high[pairs])

    # The loops run without Python's lock, and parts do not overlap.
    with ThreadPoolExecutor(MOST_THREADS) as threads:
        list(threads.map(name_earlier, _parts(bounds)))
        process, index, high, place, bounds = by_later(starts_at, run.events_total, process, index, high, place)
        for places, before in threads.map(answer, _parts(bounds)):
            note(places, before, found)


def _parts(bounds: Longs) -> Iterator[tuple[int, slice]]:
    for number in np.flatnonzero(np.diff(bounds)).tolist():
        yield number, slice(int(bounds[number]), int(bounds[number + 1]))


def _positions(run: Run, events: ArrayLike | Numbered) -> Longs:
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
    """Positions of events by process, as global codes, and number within the process.

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
    found = np.full(len(process), -1, np.int64)
    for number in range(len(run.segments)):
        local = np.full(len(run.processes), -1, np.int64)
        codes, before = run.segments.codes_of(number), run.segments.before_of(number)
        local[codes] = np.arange(len(codes))
        mine = np.flatnonzero(local[process] >= 0)
        within = index[mine] - before[local[process[mine]]] - 1
        inside = (within >= 0) & (within < run.segments.counts_of(number)[local[process[mine]]])
        mine, within = mine[inside], within[inside]
        if not len(mine):
            continue
        rows = run.process_column(number)
        by_process = np.argsort(rows, kind="stable")
        starts = np.cumsum(run.segments.counts_of(number)) - run.segments.counts_of(number)
        place = by_process[starts[local[process[mine]]] + within]
        found[mine] = place + run.segments.first_position[number]
    return found
