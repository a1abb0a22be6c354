"""Read a column of stamps: whether each has a clock, and the counters of vector stamps.

Vector stamps as `to_json()` writes them are read by column. All others are read one by one, with the same result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.events.keys import STAMPED
from ledto.sources.json.strict import value_of
from ledto.sources.parquet.keys import Keys, Mask, is_valid, keys_of_lists
from ledto.sources.rows import BadRecord

_VECTOR = r'^\{"clock": ?"vector", ?"counters": ?\{(?P<entries>[^{}\\]*)\}\}$'
_ENTRY = r'^ ?"(?P<process>[^"\\]+)": ?(?P<count>0|[1-9][0-9]{0,17})$'


@dataclass(frozen=True, slots=True)
class ColumnStamps:
    """The stamps of some rows."""

    clockless: Mask
    """Rows whose stamp is no JSON object with a clock."""
    unclear: Mask
    """Wanted rows whose vector stamp has no readable counters."""
    vector: Mask
    """Rows with a vector stamp."""
    own_entries: NDArray[np.int64]
    """For each row, the vector's entry for the row's own process; 0 if there is none."""
    sends: pa.Array
    """The key that other events use for this event. Only meaningful where `own_entries` is not 0."""
    receives: Keys
    """The keys of the entries for other processes, ordered by name."""


def read_stamps(texts: pa.Array, processes: pa.Array, wanted: Mask) -> ColumnStamps:
    """Read the stamps of all rows, and the counters of the rows that are `wanted`."""
    has_stamp = is_valid(texts)
    count = len(texts)
    clockless, unclear, vector = (np.zeros(count, np.bool_) for _ in range(3))
    entries = pc.extract_regex(texts, _VECTOR).field("entries")
    quick = is_valid(entries)
    rows, names, counts, odd = _split(entries)
    # A name may hold a comma, and an entry may occur twice: stamps with such entries are read one by one.
    quick[odd] = False
    plain = quick[rows]
    rows, names, counts = rows[plain], names.filter(pa.array(plain)), counts[plain]
    vector |= quick
    slow: list[tuple[int, str, int]] = []
    for row in np.flatnonzero(has_stamp & ~quick).tolist():
        clock, counters = _read(texts[row].as_py())
        clockless[row], vector[row] = clock is None, clock == "vector"
        if clock == "vector" and wanted[row]:
            unclear[row] = counters is None
            slow += [(row, name, counter) for name, counter in (counters or {}).items()]
    if slow:
        more_rows, more_names, more_counts = zip(*slow, strict=True)
        rows = np.concatenate([rows, np.array(more_rows, np.int64)])
        counts = np.concatenate([counts, np.array(more_counts, np.int64)])
        names = pa.concat_arrays([names, pa.array(more_names, pa.string())])
    kept = wanted[rows]
    rows, names, counts = rows[kept], names.filter(pa.array(kept)), counts[kept]
    is_own = np.asarray(
        pc.fill_null(pc.equal(names, processes.take(pa.array(rows))), False).to_numpy(zero_copy_only=False)
    )
    own_entries = np.zeros(count, np.int64)
    own_entries[rows[is_own]] = counts[is_own]
    keys = pc.binary_join_element_wise(processes, pa.array(own_entries).cast(pa.string()), ":")
    sends = pc.binary_join_element_wise(STAMPED, keys, "")
    foreign = ~is_own & (counts > 0)
    receives = _foreign(count, rows[foreign], names.filter(pa.array(foreign)), counts[foreign])
    return ColumnStamps(clockless, unclear, vector, own_entries, sends, receives)


def _split(entries: pa.Array) -> tuple[NDArray[np.int64], pa.Array, NDArray[np.int64], NDArray[np.int64]]:
    """Split the texts of counters; return columns of row, name and count, and the rows with an unusual entry."""
    lists = pc.split_pattern(entries, ",")
    parents = np.asarray(pc.list_parent_indices(lists).to_numpy())
    matches = pc.extract_regex(lists.flatten(), _ENTRY)
    is_plain = is_valid(matches)
    names = matches.field("process").filter(pa.array(is_plain))
    rows = parents[is_plain]
    counts = np.asarray(matches.field("count").filter(pa.array(is_plain)).cast(pa.int64()).to_numpy())
    odd = np.unique(parents[~is_plain])
    if len(rows):
        codes = names.dictionary_encode().indices.to_numpy()
        pairs = rows * (int(codes.max()) + 1) + codes
        order = np.sort(pairs)
        if (order[1:] == order[:-1]).any():
            values, times = np.unique(pairs, return_counts=True)
            odd = np.union1d(odd, values[times > 1] // (int(codes.max()) + 1))
    return rows, names, counts, odd


def _read(text: str) -> tuple[str | None, Mapping[str, int] | None]:
    """Return the clock of a stamp and its counters; None for what it does not have."""
    try:
        value: Any = value_of(text)
    except (BadRecord, RecursionError):
        return None, None
    clock = value.get("clock") if isinstance(value, dict) else None
    if clock is None:
        return None, None
    counters = value.get("counters")
    if not isinstance(counters, dict) or not all(type(count) is int and count >= 0 for count in counters.values()):
        counters = None
    return clock if isinstance(clock, str) else json.dumps(clock), counters


def _foreign(count: int, rows: NDArray[np.int64], names: pa.Array, counts: NDArray[np.int64]) -> Keys:
    table = pa.table({"row": rows, "name": names, "count": counts}).sort_by(
        [("row", "ascending"), ("name", "ascending")]
    )
    table = table.combine_chunks()
    joined = pc.binary_join_element_wise(table["name"], table["count"].cast(pa.string()), ":")
    keys = pc.binary_join_element_wise(STAMPED, joined, "")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]).astype(np.int32)
    flat = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    return keys_of_lists(pa.ListArray.from_arrays(pa.array(offsets), flat))
