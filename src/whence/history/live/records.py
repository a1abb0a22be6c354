"""Segments of a live history, and the small tables that describe them, which are made anew with every commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from whence.causality.ordering import NO_TIME
from whence.history import layout
from whence.history.deliveries import Outcome
from whence.history.live.chain import Part
from whence.history.segmenting import Counts
from whence.history.spans import Blocks
from whence.history.writing import SegmentFiles

Longs = NDArray[np.int64]

Key = tuple[str, str]
"""A computation and a process of it."""


@dataclass(slots=True, eq=False)
class Record:
    """A segment that was written. Positions count from the start of its chain."""

    rows: int
    counts: Counts
    before: Longs
    """By process, as those of `counts`: events before the segment."""
    first_causal_time: int
    last_causal_time: int
    files: SegmentFiles
    boundary_file: str | None
    edges: tuple[Longs, Longs]
    """Rows with causes before the segment, and the positions of these."""
    attributes: tuple[str, ...]
    missing: int
    lag: int
    blocks: Blocks | None = None
    outcome: Outcome | None = None
    """With `blocks`, once it is delivered."""

    @classmethod
    def of(
        cls, part: Part, before: Longs, files: SegmentFiles, boundary_file: str | None, attributes: tuple[str, ...]
    ) -> Record:
        """The record of a part whose files are written."""
        causal = part.events["causal_time"].drop_null()
        edges = (np.empty(0, np.int64), np.empty(0, np.int64))
        if part.boundary is not None:
            edges = (part.boundary.edge_row, part.boundary.send_position[part.boundary.edge_send])
        return cls(
            len(part.events),
            part.counts,
            before,
            causal[0].as_py() if len(causal) else 0,
            causal[-1].as_py() if len(causal) else 0,
            files,
            boundary_file,
            edges,
            attributes,
            len(part.events) - part.events["missing"].null_count,
            part.lag,
        )


@dataclass(slots=True)
class Totals:
    """What the closed segments of a chain come to, by process."""

    events: Longs = field(default_factory=lambda: np.empty(0, np.int64))
    first_seq: Longs = field(default_factory=lambda: np.empty(0, np.int64))
    last_seq: Longs = field(default_factory=lambda: np.empty(0, np.int64))
    first_time: Longs = field(default_factory=lambda: np.empty(0, np.int64))
    last_time: Longs = field(default_factory=lambda: np.empty(0, np.int64))
    clocks: list[str | None] = field(default_factory=list)

    def plus(self, counts: Counts) -> Totals:
        """With one more segment, whose processes are these and further ones."""
        more = len(counts.names) - len(self.events)
        events, first_seq, last_seq = (np.pad(each, (0, more)) for each in (self.events, self.first_seq, self.last_seq))
        first_time, last_time = (
            np.pad(each, (0, more), constant_values=NO_TIME) for each in (self.first_time, self.last_time)
        )
        here = counts.events > 0
        new = here & (events == 0)
        timed = counts.first_time != NO_TIME
        earlier = timed & ((first_time == NO_TIME) | (counts.first_time < first_time))
        later = timed & (counts.last_time > last_time)
        own = [*self.clocks, *[None] * more]
        return Totals(
            events + counts.events,
            np.where(new, counts.first_seq, first_seq),
            np.where(here, np.maximum(counts.last_seq, last_seq), last_seq),
            np.where(earlier, counts.first_time, first_time),
            np.where(later, counts.last_time, last_time),
            [known or found for known, found in zip(own, counts.clocks, strict=True)],
        )


def processes_table(chains: Iterable[tuple[str, Sequence[str], Totals]], wholes: Iterable[Record]) -> pa.Table:
    """All processes: those of chains, then those of whole computations."""
    parts = []
    for computation, names, totals in chains:
        parts.append(_processes([computation] * len(names), names, totals))
    for record in wholes:
        totals = Totals().plus(record.counts)
        parts.append(_processes(record.counts.computations, record.counts.names, totals))
    table = pa.concat_tables(parts) if parts else layout.PROCESSES.empty_table()
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


def segments_table(chains: Sequence[tuple[int, Sequence[Record]]], wholes: Sequence[Record]) -> pa.Table:
    """All segments, chain after chain, each with the number of its processes, then those of whole computations."""
    rows: list[dict[str, object]] = []
    position = code = 0
    for width, records in (*chains, *((len(each.counts.names), [each]) for each in wholes)):
        codes = list(range(code, code + width))
        code += width
        for record in records:
            counts = record.counts
            later = width - len(counts.names)
            before = np.pad(record.before, (0, later))
            given = np.where(counts.first_seq > 0, counts.first_seq, record.before[: len(counts.names)] + 1)
            rows.append(
                {
                    "number": len(rows),
                    "first_position": position,
                    "rows": record.rows,
                    "processes": codes,
                    "counts": np.pad(counts.events, (0, later)),
                    "before": before,
                    "first_seq": np.pad(np.where(counts.events > 0, given, 0), (0, later)),
                    "first_causal_time": record.first_causal_time,
                    "last_causal_time": record.last_causal_time,
                    "starts_computation": not before.any(),
                    "events_file": record.files.events_file,
                    "skeleton_file": record.files.skeleton_file,
                    "boundary_file": record.boundary_file,
                    "ids_file": record.files.ids_file,
                }
            )
            position += record.rows
    return pa.Table.from_pylist(rows, layout.SEGMENTS)


def crossings_table(chains: Sequence[Sequence[Record]]) -> pa.Table:
    """Messages from one segment to a later one, by position."""
    effects, causes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    position = 0
    for records in chains:
        base = position
        for record in records:
            effects.append(record.edges[0] + position)
            causes.append(record.edges[1] + base)
            position += record.rows
    return pa.table([np.concatenate(effects), np.concatenate(causes)], schema=layout.CROSSINGS)
