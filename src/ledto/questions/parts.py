"""Read a history in parts for sweeps: row groups of the segments of one computation. Also compute vector clocks."""

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
    """The segment."""
    start: int
    first_position: int
    """The position of the first row."""
    skeleton: Skeleton
    edges_across: tuple[Longs, Longs]
    """Rows of the part with causes before the segment, and the positions of those causes."""


def segments_with(run: Run, number: int, row: int) -> list[int]:
    """List the segments, ascending, of the computation of a row."""
    group, place = divmod(row, layout.SKELETON_ROWS)
    code = run.segments.codes_of(number)[run.process_group(number, group)[place]]
    entries = run.segments.entries_of(int(code))
    numbers: list[int] = (np.searchsorted(run.segments.offsets, entries, side="right") - 1).tolist()
    return numbers


def parts_until(run: Run, position: int) -> Iterator[SegmentRows]:
    """Yield parts from an event back to the start of its computation; the first part ends with the event."""
    number, row = row_of(run, position)
    yield from segment_parts_until(run, number, row)
    if not run.segments.starts_computation[number]:
        for earlier in reversed([segment for segment in segments_with(run, number, row) if segment < number]):
            yield from segment_parts_until(run, earlier, int(run.segments.rows[earlier]) - 1)


def segment_parts_until(run: Run, number: int, row: int) -> Iterator[SegmentRows]:
    """Yield parts from a row of a segment back to the start of the segment; the first part ends with the row."""
    for group in range(row // layout.SKELETON_ROWS, -1, -1):
        start = group * layout.SKELETON_ROWS
        yield part_of(run, number, start, min(row + 1, start + layout.SKELETON_ROWS))


def parts_from(run: Run, position: int) -> Iterator[SegmentRows]:
    """Yield parts from an event to the end of its computation; the first part begins with the event."""
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
    """Read rows ``start <= row < stop`` of a segment."""
    return SegmentRows(
        number,
        start,
        int(run.segments.first_position[number]) + start,
        run.skeleton(number, start, stop),
        run.messages_into(number).between(start, stop),
    )


def past_vector_at(run: Run, position: int) -> Longs:
    """Compute the vector clock of an event: by local code of its segment, the number of events in its past and itself."""
    number, row = row_of(run, position)
    sweep = PastSweep(len(run.segments.codes_of(number)), position)
    for part in segment_parts_until(run, number, row):
        sweep.step(part.skeleton, part.first_position, edges_across=part.edges_across)
    return sweep.vector(run.boundary(number))
