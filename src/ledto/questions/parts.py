"""The stretches of a history that a sweep passes over: row groups of one computation's segments; and vector clocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ledto.causality.skeleton import Skeleton
from ledto.causality.sweeps import PastSweep
from ledto.history import layout
from ledto.history.run import Run
from ledto.history.tables import Longs
from ledto.questions.locate import row_of


class SegmentRows(NamedTuple):
    """Rows ``start <= row < start + len(skeleton)`` of a segment."""

    number: int
    start: int
    first_position: int
    skeleton: Skeleton
    edges_across: tuple[Longs, Longs]
    """Rows of the part with causes before the segment, and the positions of those."""


def segments_with(run: Run, number: int, row: int) -> list[int]:
    """The segments, ascending, of the computation that a row belongs to."""
    group, place = divmod(row, layout.SKELETON_ROWS)
    code = run.segments.codes_of(number)[run.process_group(number, group)[place]]
    entries = run.segments.entries_of(int(code))
    found: list[int] = (np.searchsorted(run.segments.offsets, entries, side="right") - 1).tolist()
    return found


def parts_until(run: Run, position: int) -> Iterator[SegmentRows]:
    """From the event at a position back to the start of its computation; the first part ends with the event."""
    number, row = row_of(run, position)
    yield from segment_parts_until(run, number, row)
    if not run.segments.starts_computation[number]:
        for earlier in reversed([each for each in segments_with(run, number, row) if each < number]):
            yield from segment_parts_until(run, earlier, int(run.segments.rows[earlier]) - 1)


def segment_parts_until(run: Run, number: int, row: int) -> Iterator[SegmentRows]:
    """From a row of a segment back to the segment's start."""
    for group in range(row // layout.SKELETON_ROWS, -1, -1):
        start = group * layout.SKELETON_ROWS
        yield part_of(run, number, start, min(row + 1, start + layout.SKELETON_ROWS))


def parts_from(run: Run, position: int) -> Iterator[SegmentRows]:
    """From the event at a position on to the end of its computation; the first part begins with the event."""
    number, row = row_of(run, position)
    yield from _segment_parts_from(run, number, row)
    for later in segments_with(run, number, row):
        if later > number:
            yield from _segment_parts_from(run, later, 0)


def _segment_parts_from(run: Run, number: int, row: int) -> Iterator[SegmentRows]:
    rows = int(run.segments.rows[number])
    while row < rows:
        stop = min(rows, (row // layout.SKELETON_ROWS + 1) * layout.SKELETON_ROWS)
        yield part_of(run, number, row, stop)
        row = stop


def part_of(run: Run, number: int, start: int, stop: int) -> SegmentRows:
    """One stretch of a segment."""
    return SegmentRows(
        number,
        start,
        int(run.segments.first_position[number]) + start,
        run.skeleton(number, start, stop),
        run.messages_into(number).between(start, stop),
    )


def past_vector_at(run: Run, position: int) -> Longs:
    """How many events of each process of the event's segment, by local code, are in its past; it is in its own."""
    number, row = row_of(run, position)
    sweep = PastSweep(len(run.segments.codes_of(number)), position)
    for part in segment_parts_until(run, number, row):
        sweep.step(part.skeleton, part.first_position, edges_across=part.edges_across)
    return sweep.vector(run.boundary(number))
