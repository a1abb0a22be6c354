"""Mark events whose cause nobody reported, if that is known only after the segments were joined.

A window cannot know whether a message was sent if the send may be in another window. The few segments with events whose
cause turns out to be missing are written again. docs/decisions/0023-missing-causes.md says why such events stay.
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
    """Write a segment's events again with more missing causes. `missing` has places of events, and keys of their causes."""
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
    """Add keys to the column ``missing`` of events. `missing` has places of events, and keys of causes nobody reported."""
    if not missing:
        return events
    keys_by_place = events["missing"].to_pylist()
    for place, key in missing:
        keys_by_place[place] = sorted({*(keys_by_place[place] or ()), key})
    at = events.column_names.index("missing")
    return events.set_column(at, "missing", pa.array(keys_by_place, pa.list_(pa.string())))
