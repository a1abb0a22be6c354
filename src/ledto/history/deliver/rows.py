"""Rows of one or several segments of a computation as one run of rows, with what delivery needs of each.

Also the *blocks* of a history: the smallest and largest times of each row group, by which a segment's task knows which
rows of its neighbours it must load.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.order import NO_TIME
from ledto.causality.skeleton import Skeleton
from ledto.history import layout
from ledto.history.run import Run

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

NEVER = int(np.iinfo(np.int64).max) >> 1
"""Beyond any time, with room to add to it."""


@dataclass(frozen=True, slots=True, eq=False)
class EventTimes:
    """Of timed events: an event without a time of its own is taken to happen at its causal time."""

    rows: Longs
    """Which rows these are; others have no time in their whole past."""
    time: Longs
    causal_time: Longs
    arrival: Longs
    """The time where none is given: the report is assumed to arrive at once."""
    without_arrival: int
    """Rows for which that was assumed."""
    untold: NDArray[np.bool_]
    """Which of these have no time of their own."""


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Row groups of events, by position. A block without a timed event has the largest numbers for least and vice versa."""

    segment: Longs
    first_position: Longs
    rows: Longs
    least_time: Longs
    largest_time: Longs
    least_causal: Longs
    largest_causal: Longs
    least_arrival: Longs
    largest_arrival: Longs
    largest_delay: Longs
    """arrival - time."""
    largest_lag: Longs
    """causal_time - time."""
    untimed: Longs
    without_arrival: Longs

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, chosen: slice) -> Self:
        """Some of the blocks."""
        return type(self)(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @classmethod
    def joined(cls, parts: Sequence[Blocks]) -> Self:
        """Blocks of several segments, given in their order."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))


@dataclass(frozen=True, slots=True, eq=False)
class EventRange:
    """Timed events, computation after computation, each in history order."""

    position: Longs
    times: EventTimes
    skeleton: Skeleton
    """Processes by their names, computation after computation; causes outside the span are in `outside`."""
    column: Ints
    """By process: its number among those of its computation."""
    starts: Longs
    """Where each computation's rows start."""
    outside_row: Longs
    """Rows that have a cause that is not here: before the span, or untimed ..."""
    outside_cause: Longs
    """... and its position."""

    def __len__(self) -> int:
        return len(self.position)


def survey_segment(run: Run, number: int) -> Blocks:
    """The blocks of a segment; reads three columns."""
    first, rows = int(run.segments.first_position[number]), int(run.segments.rows[number])
    found = []
    for start in range(0, rows, layout.EVENT_ROWS):
        count = min(layout.EVENT_ROWS, rows - start)
        found.append([number, first + start, count, *_block(read_times(run, number, start, start + count), count)])
    return Blocks(*np.array(found, np.int64).reshape(len(found), len(fields(Blocks))).T)


def _block(times: EventTimes, count: int) -> list[int]:
    if not len(times.rows):
        return [NEVER, -NEVER, NEVER, -NEVER, NEVER, -NEVER, -NEVER, 0, count, times.without_arrival]
    # In a live history, a clock that is far ahead is not believed, and its event may stand before its time.
    time = np.minimum(times.time, times.causal_time)
    # There, such an event, and one without a time, is taken to happen when its report arrives, which may be before its
    # causal time. Whoever bounds where events are delivered needs that; it is no lag of a clock.
    unbelieved = times.untold | (times.time > times.arrival)
    happened = np.where(unbelieved, np.minimum(time, times.arrival), time)
    bounds = [int(end) for each in (happened, times.causal_time, times.arrival) for end in (each.min(), each.max())]
    delay, lag = times.arrival - time, times.causal_time - time
    return [*bounds, int(delay.max()), int(lag.max()), count - len(times.rows), times.without_arrival]


def read_times(run: Run, number: int, start: int, stop: int) -> EventTimes:
    """The times of some rows of a segment; rows are numbered from `start`."""
    table = run.events(number, ("time", "causal_time", "arrival"), start, stop)
    time, causal_time, arrival = (_longs(table[name]) for name in ("time", "causal_time", "arrival"))
    rows = np.flatnonzero(causal_time != NO_TIME)
    if len(rows) < len(causal_time):
        time, causal_time, arrival = time[rows], causal_time[rows], arrival[rows]
    untold = time == NO_TIME
    time = np.where(untold, causal_time, time)
    missing = arrival == NO_TIME
    return EventTimes(rows, time, causal_time, np.where(missing, time, arrival), int(missing.sum()), untold)


def _longs(column: pa.ChunkedArray) -> Longs:
    if column.null_count:
        column = pc.fill_null(column.cast(pa.int64()), NO_TIME)
    found: Longs = column.to_numpy().astype(np.int64, copy=False)
    return found


def chain_of(run: Run, number: int) -> range:
    """The segments that may belong to the same computation as this one."""
    starting = np.flatnonzero(run.segments.starts_computation)
    at = int(np.searchsorted(starting, number, side="right"))
    first = int(starting[at - 1]) if at else 0
    return range(first, int(starting[at]) if at < len(starting) else len(run.segments))


def load_span(run: Run, start: int, stop: int) -> EventRange:
    """The rows at positions ``start <= position < stop``, which lie in one chain of segments."""
    segments = run.segments
    numbers = range(segments.segment_of(start), segments.segment_of(stop - 1) + 1)
    codes = np.unique(np.concatenate([segments.codes_of(number) for number in numbers]))
    rank, column, computation = _ranked(run, codes)
    process: list[Ints] = []
    effects: list[Longs] = []
    causes: list[Longs] = []
    parts: list[EventTimes] = []
    for number in numbers:
        first = int(segments.first_position[number])
        low, high = max(0, start - first), min(int(segments.rows[number]), stop - first)
        part = run.known_skeleton(number, low, high)
        process.append(rank[np.searchsorted(codes, segments.codes_of(number))][part.process])
        edge_row, edge_cause = run.known_crossings(number)
        inside = slice(*np.searchsorted(edge_row, [low, high]))
        base = first + low - start
        effects += [
            np.repeat(np.arange(base, base + len(part)), np.diff(part.offsets)),
            edge_row[inside] + first - start,
        ]
        causes += [part.cause_rows() + base, edge_cause[inside] - start]
        times = read_times(run, number, low, high)
        parts.append(replace(times, rows=times.rows + base))
    whole = EventTimes(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.time for part in parts]),
        np.concatenate([part.causal_time for part in parts]),
        np.concatenate([part.arrival for part in parts]),
        sum(part.without_arrival for part in parts),
        np.concatenate([part.untold for part in parts]),
    )
    codes_of_rows = np.concatenate(process)
    return _arranged(start, whole, codes_of_rows, np.concatenate(effects), np.concatenate(causes), column, computation)


def _ranked(run: Run, codes: Ints) -> tuple[Ints, Ints, Ints]:
    """By place among `codes`: the rank by computation and name; by rank: the column, and the computation."""
    names = run.processes.process.take(pa.array(codes)).dictionary_encode()
    by_name: NDArray[Any] = pc.rank(names.dictionary, tiebreaker="dense").to_numpy()[names.indices.to_numpy()]
    owner = run.processes.computation_number[codes]
    order = np.lexsort((by_name, owner))
    rank = np.empty(len(codes), np.int32)
    rank[order] = np.arange(len(codes))
    computation = np.unique(owner[order], return_inverse=True)[1].astype(np.int32)
    column = (np.arange(len(codes)) - np.searchsorted(computation, computation)).astype(np.int32)
    return rank, column, computation


def _arranged(
    start: int, times: EventTimes, process: Ints, effects: Longs, causes: Longs, column: Ints, computation: Ints
) -> EventRange:
    """Leave out the untimed rows, put computations one after the other, and causes with their effects."""
    several = int(computation[-1]) > 0
    rows = times.rows
    if several:
        order = np.argsort(computation[process[rows]], kind="stable")
        rows = rows[order]
        times = EventTimes(
            rows,
            times.time[order],
            times.causal_time[order],
            times.arrival[order],
            times.without_arrival,
            times.untold[order],
        )
    outside = causes < 0
    outside_row, outside_cause = effects[outside], causes[outside]
    effects, causes = effects[~outside], causes[~outside]
    if several or len(rows) < len(process):
        to = np.full(len(process), -1, np.int64)
        to[rows] = np.arange(len(rows))
        # An untimed cause is not delivered, so it cannot be in the wrong place; its effect still received a message.
        untimed = (to[causes] < 0) & (to[effects] >= 0)
        outside_row = np.concatenate((to[outside_row], to[effects[untimed]]))
        outside_cause = np.concatenate((outside_cause, causes[untimed]))
        outside_row, outside_cause = outside_row[outside_row >= 0], outside_cause[outside_row >= 0]
        timed = to[causes] >= 0
        effects, causes = to[effects[timed]], to[causes[timed]]
    by_effect = np.argsort(effects, kind="stable")
    effects, causes = effects[by_effect], causes[by_effect]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(effects, minlength=len(rows))))).astype(np.int64)
    own = process[rows]
    starts = np.concatenate(([0], np.cumsum(np.bincount(computation[own], minlength=int(computation[-1]) + 1))))
    return EventRange(
        start + rows,
        times,
        Skeleton(own, offsets, effects - causes),
        column,
        starts.astype(np.int64),
        outside_row,
        outside_cause + start,
    )
