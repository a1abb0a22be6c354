"""Limit the size of reports in memory: a few compressed bytes may hold much, so too large reports are quarantined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.events.schema import REPORTS, TEXT_LIMIT_CHARACTERS

Longs = NDArray[np.int64]

REPORT_BYTES = 1 << 20
"""The most bytes of text in a report. A larger one is quarantined, with the beginning of its text."""
_KEPT = ("computation", "process", "arrival", "file", "place", "reason")
_NAME_BYTES = 4_096
"""Longer names are not kept in the quarantine."""


def quarantine_large(rows: pa.Table, most_bytes: int = REPORT_BYTES) -> pa.Table:
    """Replace rows with more than `most_bytes` of text by rows with the reason ``too-large``."""
    if rows.nbytes <= most_bytes:
        return rows
    sizes = text_bytes(rows)
    large = sizes > most_bytes
    if not large.any():
        return rows
    refused = pa.Table.from_pylist(
        [_refused(rows.slice(int(row), 1), int(sizes[row]), most_bytes) for row in np.flatnonzero(large)], REPORTS
    )
    # At the same positions, because positions of rows are used later.
    whole = pa.concat_tables([rows.filter(pa.array(~large)), refused], promote_options="permissive")
    order = np.empty(len(rows), np.int64)
    order[np.concatenate((np.flatnonzero(~large), np.flatnonzero(large)))] = np.arange(len(rows))
    return whole.take(pa.array(order))


def text_bytes(rows: pa.Table) -> Longs:
    """Return, by row, the bytes of its texts."""
    sizes = np.zeros(len(rows), np.int64)
    for column in rows.columns:
        if pa.types.is_string(column.type):
            sizes += pc.fill_null(pc.binary_length(column), 0).to_numpy()
        elif pa.types.is_list(column.type):
            lists = column.combine_chunks()
            for chunk, start in _chunks(lists):
                lengths = pc.fill_null(pc.binary_length(chunk.flatten()), 0).to_numpy(zero_copy_only=False)
                owners = pc.list_parent_indices(chunk).to_numpy()
                sizes[start : start + len(chunk)] += np.bincount(owners, lengths, len(chunk)).astype(np.int64)
    return sizes


def _chunks(lists: Any) -> list[tuple[Any, int]]:
    chunks = lists.chunks if isinstance(lists, pa.ChunkedArray) else [lists]
    starts = np.cumsum([0, *(len(chunk) for chunk in chunks)])
    return [(chunk, int(start)) for chunk, start in zip(chunks, starts, strict=False)]


def _refused(row: pa.Table, size: int, most_bytes: int) -> dict[str, Any]:
    """Make the row that is kept of a report that is too large."""
    kept: dict[str, Any] = {"computation": ""}
    for name in _KEPT:
        value = row[name][0].as_py() if name in row.column_names else None
        if value is not None and (not isinstance(value, str) or len(value) <= _NAME_BYTES):
            kept[name] = value
    kept.setdefault("reason", f"too-large: its texts have {size} bytes; a report has {most_bytes} at most")
    texts = (row[name][0].as_py() for name in ("text", "name", "attributes") if name in row.column_names)
    kept["text"] = " ".join(text[:TEXT_LIMIT_CHARACTERS] for text in texts if text)[:TEXT_LIMIT_CHARACTERS]
    return kept
