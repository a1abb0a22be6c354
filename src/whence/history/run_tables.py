"""Makes the tables `layout.SEGMENTS` and `layout.PROCESSES`, which describe a run. `whence.history.tables` reads them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whence.causality.ordering import NO_TIME
from whence.history import layout
from whence.history.segmenting import Counts
from whence.history.writing import SegmentFiles

Longs = NDArray[np.int64]


def _empty() -> Longs:
    return np.empty(0, np.int64)


@dataclass(slots=True)
class Totals:
    """What several segments come to, by process: the sums and extremes of their `Counts`."""

    events: Longs = field(default_factory=_empty)
    first_seq: Longs = field(default_factory=_empty)
    last_seq: Longs = field(default_factory=_empty)
    first_time: Longs = field(default_factory=_empty)
    last_time: Longs = field(default_factory=_empty)
    clocks: list[str | None] = field(default_factory=list)

    def widened(self, processes: int) -> Self:
        """Copy the totals and make room for so many processes; those that are new have nothing."""
        more = processes - len(self.events)

        def room(values: Longs, nothing: int) -> Longs:
            return np.pad(values, (0, more), constant_values=nothing)

        return type(self)(
            room(self.events, 0),
            room(self.first_seq, 0),
            room(self.last_seq, 0),
            room(self.first_time, NO_TIME),
            room(self.last_time, NO_TIME),
            [*self.clocks, *[None] * more],
        )

    def add(self, counts: Counts, codes: Longs) -> None:
        """Add the next segment, whose processes have these codes, each once."""
        here = counts.events > 0
        new = here & (self.events[codes] == 0)
        self.first_seq[codes[new]] = counts.first_seq[new]
        self.last_seq[codes[here]] = np.maximum(self.last_seq[codes[here]], counts.last_seq[here])
        self.events[codes] += counts.events
        timed = counts.first_time != NO_TIME
        whose, first, last = codes[timed], counts.first_time[timed], counts.last_time[timed]
        known = self.first_time[whose]
        self.first_time[whose] = np.where(known == NO_TIME, first, np.minimum(known, first))
        self.last_time[whose] = np.maximum(self.last_time[whose], last)
        for code, clock in zip(codes.tolist(), counts.clocks, strict=True):
            if clock is not None and self.clocks[code] is None:
                self.clocks[code] = clock

    def plus(self, counts: Counts) -> Self:
        """Give the totals with one more segment, whose processes are these and perhaps further ones, by code."""
        total = self.widened(len(counts.names))
        total.add(counts, np.arange(len(counts.names)))
        return total


@dataclass(frozen=True, slots=True, eq=False)
class SegmentRow:
    """A segment as the table tells of it."""

    rows: int
    codes: Sequence[int] | Longs
    """Of its processes; the last ones may be processes that `counts` and `before` do not have yet."""
    counts: Counts
    before: Longs
    """By process: events in earlier segments."""
    first_causal_time: int
    last_causal_time: int
    files: SegmentFiles
    boundary_file: str | None


def segments_table(segments: Iterable[SegmentRow]) -> pa.Table:
    """Number the segments and their positions as they come."""
    rows: list[dict[str, object]] = []
    position = 0
    for segment in segments:
        counts, width = segment.counts, len(segment.codes)
        before = _padded(segment.before, width)
        given = np.where(counts.first_seq > 0, counts.first_seq, before[: len(counts.events)] + 1)
        rows.append(
            {
                "number": len(rows),
                "first_position": position,
                "rows": segment.rows,
                "processes": segment.codes,
                "counts": _padded(counts.events, width),
                "before": before,
                "first_seq": _padded(np.where(counts.events > 0, given, 0), width),
                "first_causal_time": segment.first_causal_time,
                "last_causal_time": segment.last_causal_time,
                "starts_computation": not before.any(),
                "events_file": segment.files.events_file,
                "skeleton_file": segment.files.skeleton_file,
                "boundary_file": segment.boundary_file,
                "ids_file": segment.files.ids_file,
            }
        )
        position += segment.rows
    return pa.Table.from_pylist(rows, layout.SEGMENTS)


def processes_table(parts: Iterable[tuple[Sequence[str], Sequence[str], Totals]]) -> pa.Table:
    """Number the processes as they come: parts of computations, names, and what each has in all segments."""
    tables = [_processes(*part) for part in parts]
    table = pa.concat_tables(tables) if tables else layout.PROCESSES.empty_table()
    return table.set_column(0, layout.PROCESSES.field("code"), pa.array(range(len(table)), pa.int32()))


def _processes(computations: Sequence[str], names: Sequence[str], totals: Totals) -> pa.Table:
    untimed = totals.first_time == NO_TIME
    return pa.table(
        {
            "code": np.zeros(len(names), np.int32),
            "computation": list(computations),
            "process": list(names),
            "clock_name": pa.array(totals.clocks, pa.string()),
            "events": totals.events,
            "first_time": pa.array(totals.first_time, mask=untimed),
            "last_time": pa.array(totals.last_time, mask=untimed),
            "dense_seq": (totals.first_seq == 0) | ((totals.first_seq == 1) & (totals.last_seq == totals.events)),
        },
        layout.PROCESSES,
    )


def _padded(values: Longs, width: int) -> Longs:
    return np.pad(values, (0, width - len(values)))
