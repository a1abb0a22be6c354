"""Write the files of a run from Arrow tables and NumPy arrays. The tasks that solve segments call this.

A file's name contains the attempt that wrote it, so that a task which runs twice, even at the same time, never writes over
another's file. It ends in a checksum (`ledto.history.sealed`). Only files whose names the caller passes to `Draft.commit`
become part of the history.
"""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ledto.causality.boundary import Boundary
from ledto.causality.lines import row_reference
from ledto.causality.skeleton import Longs, Skeleton
from ledto.history import layout
from ledto.history.column_files import vector_arrays
from ledto.history.ids import index_of_ids
from ledto.history.sealed import write_sealed, write_sealed_table
from ledto.history.store import Store
from ledto.history.window.lines import LineEnds, SegmentLines
from ledto.history.word_index import SMALLEST_INDEXED, index_of_words


@dataclass(frozen=True, slots=True)
class SegmentFiles:
    """Names of a segment's files within its run. They are columns of `layout.SEGMENTS`."""

    events_file: str
    skeleton_file: str
    ids_file: str | None
    """None if no event has an id of its source."""
    lines_file: str | None = None
    """None if no event is on a line."""
    words_file: str | None = None
    """None if the segment has no index of words: it is small, or the end of a live history, which is written anew."""


def write_segment(
    store: Store,
    run: str,
    number: int,
    events: pa.Table,
    skeleton: Skeleton,
    *,
    attempt: str,
    assumed: Longs | None = None,
    tied: Longs | None = None,
    lines: SegmentLines | None = None,
    words: bool = True,
) -> SegmentFiles:
    """Write a segment's events and their skeleton, which have the same rows, in history order.

    `events` has the columns of `layout.EVENTS`, and then those of the source. By row: `assumed` is how many of its causes
    are only assumed, `tied` how many of these because of events at one time, and `lines` is what it follows in its process.
    Without `words`, no index of words is written.
    """
    if len(events) != len(skeleton):
        raise ValueError(f"segment {number} has {len(events)} events and a skeleton of {len(skeleton)} rows")
    events_file = write_events(store, run, number, events, attempt=attempt)
    skeleton_file = write_sealed_table(
        store,
        run,
        _stem("skeleton", number, attempt),
        _skeleton_table(skeleton, assumed, tied, lines),
        row_group_size=layout.SKELETON_ROWS,
        use_dictionary=["process"],
        column_encoding={
            f"{name}.list.element": "DELTA_BINARY_PACKED"
            for name in ("causes", *([layout.SKELETON_FOLLOWS] if lines is not None else []))
        },
        write_statistics=False,
    )
    ids_file = None
    ids = events["id"]
    if ids.null_count < len(ids):
        index = index_of_ids(ids).astype("<u8", copy=False).tobytes()
        ids_file = write_sealed(store, run, _stem("ids", number, attempt), "index", index)
    lines_file = None if lines is None else _write_lines(store, run, number, lines, attempt=attempt)
    words_file = None
    if words and len(events) >= SMALLEST_INDEXED:
        words_file = write_sealed(store, run, _stem("words", number, attempt), "index", index_of_words(events))
    return SegmentFiles(events_file, skeleton_file, ids_file, lines_file, words_file)


def _write_lines(store: Store, run: str, number: int, lines: SegmentLines, *, attempt: str) -> str:
    arrays = {name: getattr(lines.ends, name) for name in LineEnds.__slots__}
    return write_sealed(store, run, _stem("lines", number, attempt), "npz", _zipped(arrays))


def write_events(store: Store, run: str, number: int, events: pa.Table, *, attempt: str) -> str:
    """Write only a segment's events; give the file's name within the run."""
    if missing := [name for name in layout.EVENTS.names if name not in events.column_names]:
        raise ValueError(f"segment {number} lacks the columns {', '.join(missing)}; it has {events.column_names}")
    return write_sealed_table(
        store,
        run,
        _stem("events", number, attempt),
        _small_dictionaries(events),
        row_group_size=layout.EVENT_ROWS,
        use_dictionary=layout.EVENT_DICTIONARIES,
        column_encoding=dict.fromkeys(layout.EVENT_DELTAS, "DELTA_BINARY_PACKED"),
        write_statistics=layout.EVENT_STATISTICS,
    )


def _small_dictionaries(events: pa.Table) -> pa.Table:
    """Replace large dictionaries by one for each row group.

    Every row group is written with the whole dictionary of its column. If each row has a name of its own, the file would
    otherwise grow with the square of its rows.
    """
    for place, field in enumerate(events.schema):
        column = events.column(place)
        if not pa.types.is_dictionary(field.type) or all(
            len(chunk.dictionary) <= layout.EVENT_ROWS for chunk in column.chunks
        ):
            continue
        texts = column.cast(field.type.value_type)
        parts = [
            texts.slice(start, layout.EVENT_ROWS).combine_chunks().dictionary_encode()
            for start in range(0, len(texts), layout.EVENT_ROWS)
        ]
        events = events.set_column(place, field, pa.chunked_array(parts, field.type))
    return events


def _skeleton_table(
    skeleton: Skeleton, assumed: Longs | None, tied: Longs | None, lines: SegmentLines | None
) -> pa.Table:
    highest = int(skeleton.process.max(initial=0))
    process = pa.array(skeleton.process.astype(np.uint16 if highest < 1 << 16 else np.int32, copy=False))
    columns = {"process": process, "causes": _distances(skeleton.offsets, skeleton.back)}
    for name, counts in ((layout.SKELETON_ASSUMED, assumed), (layout.SKELETON_TIED, tied)):
        if counts is not None and counts.any():
            columns[name] = pa.array(counts.astype(np.uint32))
    if lines is not None:
        columns |= _follows(lines)
    fields = [pa.field(name, column.type, nullable=name in layout.LISTS) for name, column in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def _follows(lines: SegmentLines) -> dict[str, pa.Array]:
    """Make the columns of the skeleton that say what rows follow on their lines."""
    rows = np.arange(len(lines.offsets) - 1)
    row_of_entry, lists = np.repeat(rows, np.diff(lines.offsets)), lines.lists
    return {
        layout.SKELETON_FOLLOWS: _distances(lines.offsets, row_reference(row_of_entry) - lines.follows),
        layout.LIST_REST: _distance(row_reference(rows) - lists.rest, lists.rest >= 0),
        layout.LIST_FIRST: _distance(rows - lists.first, lists.first >= 0),
        layout.LIST_LOW: _distance(rows - lists.low, lists.low >= 0),
    }


def _distance(values: Longs, valid: NDArray[np.bool_]) -> pa.Array:
    return pa.array(np.where(valid, values, 0).astype(np.uint32), mask=~valid)


def _distances(offsets: Longs, back: Longs) -> pa.Array:
    starts, distances = pa.array(offsets.astype(np.int32)), pa.array(back.astype(np.uint32))
    return pa.ListArray.from_arrays(starts, distances, type=layout.SKELETON_CAUSES)


def write_boundary(
    store: Store,
    run: str,
    number: int,
    boundary: Boundary,
    doubt: NDArray[np.uint8] | None = None,
    *,
    attempt: str,
) -> str:
    """Write what each process knew when a segment began; give the file's name within the run.

    `doubt` says by edge of the boundary how sure the cause is (`ledto.history.open_ends.doubt_of`); without it, all are
    certain.
    """
    arrays: dict[str, NDArray[Any]] = {
        "before": boundary.before,
        **vector_arrays("known", boundary.known, boundary.before),
        "edge_row": boundary.edge_row,
        "edge_send": boundary.edge_send,
        "edge_doubt": np.zeros(len(boundary.edge_row), np.uint8) if doubt is None else doubt,
        "send_position": boundary.send_position,
        "send_process": boundary.send_process,
        "send_index": boundary.send_index,
        **vector_arrays("send_known", boundary.send_known, boundary.before),
    }
    return write_sealed(store, run, _stem("boundary", number, attempt), "npz", _zipped(arrays))


def _zipped(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Pack arrays as `numpy.savez_compressed` does, four times as fast. The same arrays give the same bytes."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue(), zipfile.ZIP_DEFLATED, 1)
    return whole.getvalue()


def write_quarantine(store: Store, run: str, rows: pa.Table, *, attempt: str) -> str:
    """Write quarantined reports and duplicates; give the file's name, for ``quarantine_files`` of the manifest."""
    return write_sealed_table(
        store, run, f"quarantine-{_checked(attempt)}", rows.select(layout.QUARANTINE.names).cast(layout.QUARANTINE)
    )


def _stem(kind: str, number: int, attempt: str) -> str:
    return layout.segment_stem(kind, number, _checked(attempt))


def _checked(attempt: str) -> str:
    if re.fullmatch(r"[\w.-]+", attempt) is None:
        raise ValueError(
            f"an attempt's name becomes part of file names: letters, digits and _ . - only, not {attempt!r}"
        )
    return attempt
