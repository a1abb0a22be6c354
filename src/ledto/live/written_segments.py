"""Write segments of a live history, describe them, and make the small tables of them that every commit writes anew."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledto.history import layout
from ledto.history.attribute_types import attribute_types
from ledto.history.deliver.files import SegmentOutcome
from ledto.history.deliver.rows import Blocks
from ledto.history.run_tables import SegmentRow
from ledto.history.store import Store
from ledto.history.window.segment import Counts
from ledto.history.write import SegmentFiles, write_boundary, write_segment
from ledto.live.chain import PendingSegment

Longs = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class WrittenSegment:
    """A segment that was written. Positions count from the start of its chain."""

    rows: int
    counts: Counts
    before: Longs
    """By process, in the order of `counts`: how many of its events come before the segment."""
    first_causal_time: int
    last_causal_time: int
    files: SegmentFiles
    boundary_file: str | None
    edges: tuple[Longs, Longs]
    """Rows with causes before the segment, and the positions of these causes."""
    edge_doubt: NDArray[np.uint8]
    """By edge: how sure the cause is (`ledto.history.open_ends.doubt_of`)."""
    attributes: dict[str, str]
    """The attributes that occur, with their types."""
    missing: int
    """How many of its events have something in `missing`."""
    lag: int
    """As `ledto.history.window.solve.Solved.lag`."""
    blocks: Blocks | None = None
    outcome: SegmentOutcome | None = None
    """Set together with `blocks` when the segment is delivered."""

    @classmethod
    def of(
        cls, part: PendingSegment, files: SegmentFiles, boundary_file: str | None, attributes: dict[str, str]
    ) -> WrittenSegment:
        """Describe a segment whose files are written."""
        by = layout.PLACED_BY if layout.PLACED_BY in part.events.column_names else "causal_time"
        causal = part.events[by].drop_null()
        edges = (part.boundary.edge_row, part.boundary.send_position[part.boundary.edge_send])
        return cls(
            len(part.events),
            part.counts,
            part.boundary.before,
            causal[0].as_py() if len(causal) else 0,
            causal[-1].as_py() if len(causal) else 0,
            files,
            boundary_file,
            edges,
            part.edge_doubt,
            attributes,
            len(part.events) - part.events["missing"].null_count,
            part.lag,
        )


def write_pending(store: Store, run: str, part: PendingSegment, number: int, *, closed: bool = True) -> WrittenSegment:
    """Write the files of a segment, which gets this number; return what was written. Several threads may do so at once.

    One that is not `closed` is soon written anew, and gets no index of words.
    """
    attempt = uuid4().hex[:12]
    files, boundary_file = SegmentFiles("", "", None), None
    if len(part.events):
        files = write_segment(
            store,
            run,
            number,
            part.events,
            part.skeleton,
            attempt=attempt,
            assumed=part.assumed,
            tied=part.tied,
            lines=part.lines,
            words=closed,
        )
        if part.boundary.before.any():
            boundary_file = write_boundary(store, run, number, part.boundary, part.edge_doubt, attempt=attempt)
    return WrittenSegment.of(part, files, boundary_file, attribute_types(part.events["attributes"]))


def segment_rows(chains: Sequence[tuple[int, Sequence[WrittenSegment]]]) -> Iterator[SegmentRow]:
    """Yield all segments, chain by chain. `chains` has for each chain how many processes it has, and its segments."""
    code = 0
    for width, records in chains:
        codes = range(code, code + width)
        code += width
        for record in records:
            yield SegmentRow(
                record.rows,
                codes,
                record.counts,
                record.before,
                record.first_causal_time,
                record.last_causal_time,
                record.files,
                record.boundary_file,
            )


def crossings_table(chains: Sequence[Sequence[WrittenSegment]]) -> pa.Table:
    """Make the table of messages from one segment to a later one, by position."""
    effects, causes = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    position = 0
    for records in chains:
        base = position
        for record in records:
            effects.append(record.edges[0] + position)
            causes.append(record.edges[1] + base)
            position += record.rows
    return pa.table([np.concatenate(effects), np.concatenate(causes)], schema=layout.CROSSINGS)
