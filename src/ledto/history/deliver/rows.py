"""Load the rows that delivery needs, from one or several segments of a computation.

Also survey the *blocks* of a history: the smallest and largest times of each row group. They tell the task of a segment
which rows of its neighbours it must load.
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
"""Later than any time, but small enough to be added to."""


@dataclass(frozen=True, slots=True, eq=False)
class EventTimes:
    """The times of timed events."""

    rows: Longs
    """Their rows. Other rows have no time in their whole past."""
    time: Longs
    """The event's own time, or else its causal time."""
    causal_time: Longs
    arrival: Longs
    """When the report arrived. If that is not known, it is `time`: the report is assumed to arrive at once."""
    without_arrival: int
    """The number of rows for which that was assumed."""
    without_time: NDArray[np.bool_]
    """Whether the event has no time of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Row groups of events, by position. In a block without timed events, `least_` is `NEVER` and `largest_` is -`NEVER`."""

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
    """The largest ``arrival - time``."""
    largest_lag: Longs
    """The largest ``causal_time - time``."""
    untimed: Longs
    """Events without a time in their whole past."""
    without_arrival: Longs
    """Events whose report is assumed to have arrived at once."""

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, chosen: slice) -> Self:
        """Select blocks."""
        return type(self)(*(getattr(self, field.name)[chosen] for field in fields(self)))

    @classmethod
    def joined(cls, parts: Sequence[Blocks]) -> Self:
        """Join the blocks of several segments; these must be in order."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))


@dataclass(frozen=True, slots=True, eq=False)
class EventRange:
    """Timed events, computation after computation, each in history order."""

    position: Longs
    times: EventTimes
    skeleton: Skeleton
    """Processes are numbered by computation and name. Causes outside the range are in `outside_row` and `outside_cause`."""
    column: Ints
    """By process: its number among those of its computation."""
    starts: Longs
    """The first row of each computation, and the number of rows."""
    outside_row: Longs
    """Rows with a cause that is not among the rows: one before the range, or untimed."""
    outside_cause: Longs
    """The positions of these causes."""

    def __len__(self) -> int:
        return len(self.position)


def survey_segment(run: Run, number: int) -> Blocks:
    """Survey the blocks of a segment. Reads three columns."""
    first, rows = int(run.segments.first_position[number]), int(run.segments.rows[number])
    blocks = []
    for start in range(0, rows, layout.EVENT_ROWS):
        count = min(layout.EVENT_ROWS, rows - start)
        blocks.append([number, first + start, count, *_bounds(read_times(run, number, start, start + count), count)])
    return Blocks(*np.array(blocks, np.int64).reshape(len(blocks), len(fields(Blocks))).T)


def _bounds(times: EventTimes, count: int) -> list[int]:
    """Compute the fields of `Blocks` from `least_time` on, for a block of `count` events."""
    if not len(times.rows):
        return [NEVER, -NEVER, NEVER, -NEVER, NEVER, -NEVER, -NEVER, 0, count, times.without_arrival]
    # In a live history, a clock that is far ahead is not believed, and its event may be placed before its time.
    time = np.minimum(times.time, times.causal_time)
    # There, such an event, or one without a time, happens when its report arrives. That may be before its causal time.
    # The bounds of delivery times need it, but it is no lag of a clock.
    unbelieved = times.without_time | (times.time > times.arrival)
    happened = np.where(unbelieved, np.minimum(time, times.arrival), time)
    columns = (happened, times.causal_time, times.arrival)
    bounds = [int(bound) for column in columns for bound in (column.min(), column.max())]
    delay, lag = times.arrival - time, times.causal_time - time
    return [*bounds, int(delay.max()), int(lag.max()), count - len(times.rows), times.without_arrival]


def read_times(run: Run, number: int, start: int, stop: int) -> EventTimes:
    """Read the times of rows ``start <= row < stop`` of a segment; rows of the result are numbered from `start`."""
    table = run.events(number, ("time", "causal_time", "arrival"), start, stop)
    time, causal_time, arrival = (_longs(table[name]) for name in ("time", "causal_time", "arrival"))
    rows = np.flatnonzero(causal_time != NO_TIME)
    if len(rows) < len(causal_time):
        time, causal_time, arrival = time[rows], causal_time[rows], arrival[rows]
    without_time = time == NO_TIME
    time = np.where(without_time, causal_time, time)
    missing = arrival == NO_TIME
    return EventTimes(rows, time, causal_time, np.where(missing, time, arrival), int(missing.sum()), without_time)


def _longs(column: pa.ChunkedArray) -> Longs:
    if column.null_count:
        column = pc.fill_null(column.cast(pa.int64()), NO_TIME)
    values: Longs = column.to_numpy().astype(np.int64, copy=False)
    return values


def chain_of(run: Run, number: int) -> range:
    """Find the segments that may belong to the same computation as this one; they follow each other."""
    starting = np.flatnonzero(run.segments.starts_computation)
    at = int(np.searchsorted(starting, number, side="right"))
    first = int(starting[at - 1]) if at else 0
    return range(first, int(starting[at]) if at < len(starting) else len(run.segments))


def load_range(run: Run, start: int, stop: int) -> EventRange:
    """Load the rows at positions ``start <= position < stop``, which must be in segments of one `chain_of`."""
    segments = run.segments
    numbers = range(segments.segment_of(start), segments.segment_of(stop - 1) + 1)
    codes = np.unique(np.concatenate([segments.codes_of(number) for number in numbers]))
    rank, column, computation = _rank_processes(run, codes)
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
        np.concatenate([part.without_time for part in parts]),
    )
    ranks = np.concatenate(process)
    return _arrange(start, whole, ranks, np.concatenate(effects), np.concatenate(causes), column, computation)


def _rank_processes(run: Run, codes: Ints) -> tuple[Ints, Ints, Ints]:
    """Rank processes by computation and name.

    Gives by place among `codes` the rank; by rank the number within the computation, and the computation.
    """
    names = run.processes.process.take(pa.array(codes)).dictionary_encode()
    by_name: NDArray[Any] = pc.rank(names.dictionary, tiebreaker="dense").to_numpy()[names.indices.to_numpy()]
    owner = run.processes.computation_number[codes]
    order = np.lexsort((by_name, owner))
    rank = np.empty(len(codes), np.int32)
    rank[order] = np.arange(len(codes))
    computation = np.unique(owner[order], return_inverse=True)[1].astype(np.int32)
    column = (np.arange(len(codes)) - np.searchsorted(computation, computation)).astype(np.int32)
    return rank, column, computation


def _arrange(
    start: int, times: EventTimes, process: Ints, effects: Longs, causes: Longs, column: Ints, computation: Ints
) -> EventRange:
    """Leave out untimed rows, and sort the rest by computation. Effects and causes are rows counted from `start`."""
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
            times.without_time[order],
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
    timed_process = process[rows]
    counts = np.bincount(computation[timed_process], minlength=int(computation[-1]) + 1)
    starts = np.concatenate(([0], np.cumsum(counts)))
    return EventRange(
        start + rows,
        times,
        Skeleton(timed_process, offsets, effects - causes),
        column,
        starts.astype(np.int64),
        outside_row,
        outside_cause + start,
    )
