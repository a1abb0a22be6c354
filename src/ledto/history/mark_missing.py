"""Marks events whose cause nobody reported, where that is known only once the segments are joined.

Whether a message was sent is not known in its window when the send may lie in another. The few segments that turn out to
hold events with a missing cause have their events written again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from ledto.history import layout
from ledto.history.window.segment import SegmentResult, SegmentTarget
from ledto.history.write import write_events


def mark_missing(made: SegmentResult, missing: Sequence[tuple[int, str]], target: SegmentTarget) -> SegmentResult:
    """Write a segment's events again, with these causes, by place, among those that they miss."""
    assert made.files is not None
    with target.store.open(f"{layout.run_folder(target.run)}/{made.files.events_file}") as file:
        events = with_missing(pq.ParquetFile(file).read(use_threads=False), missing)
    events_file = write_events(target.store, target.run, made.window, events, attempt=uuid4().hex[:12])
    return replace(
        made,
        files=replace(made.files, events_file=events_file),
        missing=len(events) - events["missing"].null_count,
    )


def with_missing(events: pa.Table, missing: Sequence[tuple[int, str]]) -> pa.Table:
    """Add keys of causes that nobody reported, given with the place of the event that names them."""
    if not missing:
        return events
    marks = events["missing"].to_pylist()
    for place, key in missing:
        marks[place] = sorted({*(marks[place] or ()), key})
    at = events.column_names.index("missing")
    return events.set_column(at, "missing", pa.array(marks, pa.list_(pa.string())))
