"""The rows of a window straight from Parquet files whose row groups follow the time: what is near is read, nothing is moved.

Collectors write what comes in, so most logs in Parquet are in order of time, more or less, and their footers say from
when to when each row group reaches. A task then reads the row groups that touch its window. Where row groups reach over
long times, as in a file a process, tasks would read them again and again: `Clustered.rows_read` tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from whence.events.schema import COLUMNS, KINDS, LOCAL, RECEIVE, SEND
from whence.history.plan import Bins, Plan
from whence.history.solving import Window

Opener = Callable[[str], Any]
"""Opens a location as a file that can be read at any place. Pickles."""

PLAIN_TEXT = ("computation", "process", "kind", "id", "name")
PLAIN_NUMBERS = ("seq", "time", "arrival")
DICTIONARIES = ("computation", "process", "kind", "name", "file")
"""Columns with few values, which are read as numbers of them."""
RECENT_ROWS = 3_000_000
"""Rows of row groups that a worker keeps for its next window, about 60 bytes each."""
_FOOTERS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class File:
    """A file of reports."""

    location: str
    name: str
    """As rows that were set aside name it."""
    run: str
    """What reads it: rows that a worker keeps are not another run's, which may find other rows in the same place."""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group, and from when to when its rows are."""

    file: File
    number: int
    first_row: int
    rows: int
    first_time: int
    last_time: int
    dictionaries: tuple[str, ...]
    """Those of `DICTIONARIES` that the file has."""


_RECENT: dict[RowGroup, pa.Table] = {}
"""Of this process; a worker solves one window at a time."""


@dataclass(frozen=True, slots=True)
class Clustered:
    """Reports of one computation, by row group. Pickles."""

    groups: tuple[RowGroup, ...]
    columns: tuple[str, ...]
    """What the files have in common."""
    staged: bool
    """Whether the files have the columns of `REPORTS` already, bad rows included; else they are plain ones of a user."""
    open_file: Opener

    def rows_read(self, plan: Plan) -> int:
        """How many rows all windows of a plan of one computation would read together."""
        (epochs,) = plan.large
        return sum(group.rows for window in epochs.windows() for group in self._touching(window, plan.eps))

    def histogram(self, bins: Bins) -> dict[int, int]:
        """About how many rows each bin of time holds, as if those of a row group were spread evenly over its time."""
        found: dict[int, float] = {}
        for group in self.groups:
            places = ((time - bins.start) // bins.width for time in (group.first_time, group.last_time))
            first, last = (min(max(place, 0), bins.count - 1) for place in places)
            for each in range(first, last + 1):
                found[each] = found.get(each, 0.0) + group.rows / (last - first + 1)
        return {each: max(1, round(rows)) for each, rows in found.items()}

    def rows(self, window: Window, eps: int) -> pa.Table:
        """The rows of a window, with ``own``, as `whence.history.segmenting.make_segment` takes them."""
        tables = [self._read(group, window, eps) for group in self._touching(window, eps)]
        return pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()

    def _touching(self, window: Window, eps: int) -> Iterable[RowGroup]:
        for group in self.groups:
            after = window.low is not None and group.last_time < window.low - eps
            before = window.high is not None and group.first_time >= window.high + eps
            if not (after or before):
                yield group

    def _reports(self, group: RowGroup) -> pa.Table:
        """All rows of a row group; those of the last ones are kept, since the next window begins where this one ends."""
        if group in _RECENT:
            return _RECENT[group]
        with self.open_file(group.file.location) as file:
            parquet = pq.ParquetFile(file, read_dictionary=list(group.dictionaries))
            table = parquet.read_row_group(group.number, use_threads=False)
        if not self.staged:
            table = _plain_reports(table, group)
        _RECENT[group] = table
        while len(_RECENT) > 1 and sum(map(len, _RECENT.values())) > RECENT_ROWS:
            del _RECENT[next(iter(_RECENT))]
        return table

    def _read(self, group: RowGroup, window: Window, eps: int) -> pa.Table:
        table = self._reports(group)
        time = table["time"].to_numpy()
        low = np.iinfo(np.int64).min if window.low is None else window.low
        high = np.iinfo(np.int64).max if window.high is None else window.high
        inside = np.ones(len(table), np.bool_)
        if window.low is not None:
            inside &= time >= low - eps
        if window.high is not None:
            inside &= time < high + eps
        own = (time >= low) & (time < high)
        if self.staged and table["reason"].null_count < len(table):
            # Bad rows are nobody's by time: the window that holds the first time of their row group takes them.
            bad = pc.is_valid(table["reason"]).to_numpy()
            inside = np.where(bad, low <= group.first_time < high, inside)
        table = table.append_column("own", pa.array(own))
        return table if inside.all() else table.filter(pa.array(inside))

    def process_rows(self, group: RowGroup) -> dict[str, int] | None:
        """Rows of each process in a row group of a user's file; None if one of them might have to be set aside."""
        with self.open_file(group.file.location) as file:
            parquet = pq.ParquetFile(file, read_dictionary=[*group.dictionaries])
            known = [name for name in ("process", "kind", "message", "id") if name in parquet.schema_arrow.names]
            table = parquet.read_row_group(group.number, columns=known, use_threads=False)
        process = table["process"].combine_chunks()
        if process.null_count or "" in _values(process):
            return None
        for name in ("message", "id"):
            if name in known and pa.types.is_string(table[name].type) and pc.any(pc.equal(table[name], "")).as_py():
                return None
        if "kind" in known:
            kind = table["kind"].combine_chunks()
            if kind.null_count or not set(_values(kind)) <= set(KINDS):
                return None
            if not pc.all(pc.equal(pc.is_valid(table["message"]), pc.not_equal(kind, LOCAL))).as_py():
                return None
        counts = pc.value_counts(process.indices)
        names = process.dictionary.take(counts.field("values")).to_pylist()
        return dict(zip(names, counts.field("counts").to_pylist(), strict=True))


def _values(column: pa.DictionaryArray) -> list[str]:
    return list(column.dictionary.to_pylist())


def _plain_reports(table: pa.Table, group: RowGroup) -> pa.Table:
    """The columns of a user's file as those of `REPORTS`, and his further ones."""
    count = len(table)
    columns: dict[str, Any] = {name: table[name] for name in table.column_names}
    for name in PLAIN_NUMBERS:
        if name in columns:
            columns[name] = _as_longs(columns[name])
    message = columns.pop("message", None)
    kind = columns.get("kind")
    if message is not None and kind is not None:
        message = message.cast(pa.string())
        for name, wanted in (("sends", SEND), ("receives", RECEIVE)):
            columns[name] = pc.if_else(pc.equal(kind, wanted), message, pa.scalar(None, pa.string()))
    columns["kind"] = pa.repeat(LOCAL, count) if kind is None else pc.fill_null(kind, LOCAL)
    columns.setdefault("computation", pa.repeat("", count))
    columns["file"] = pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), count), [group.file.name])
    columns["place"] = pa.array(np.arange(group.first_row, group.first_row + count))
    return pa.table(columns)


def _as_longs(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ns", column.type.tz))
    return column.cast(pa.int64())


def find_clusters(
    files: Sequence[File], open_file: Opener, *, staged: bool, native_columns: Sequence[str]
) -> Clustered | None:
    """The row groups of the files; None where a footer does not say their times, or columns need more than renaming."""
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        found = list(pool.map(lambda file: _row_groups(file, open_file, staged, native_columns), files))
    groups: list[RowGroup] = []
    columns: set[tuple[str, ...]] = set()
    for each in found:
        if each is None:
            return None
        groups.extend(each[1])
        columns.add(each[0])
    return Clustered(tuple(groups), columns.pop(), staged, open_file) if len(columns) == 1 else None


def _row_groups(
    file: File, open_file: Opener, staged: bool, native_columns: Sequence[str]
) -> tuple[tuple[str, ...], list[RowGroup]] | None:
    with open_file(file.location) as opened:
        parquet = pq.ParquetFile(opened)
        schema, metadata = parquet.schema_arrow, parquet.metadata
    if not staged and not _is_plain(schema, native_columns):
        return None
    at = schema.get_field_index("time")
    # Columns of nested types take several places in the footer: names are compared there.
    few = tuple(name for name in DICTIONARIES if name in schema.names)
    groups, first_row = [], 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        stored = next(
            (each for each in map(group.column, range(group.num_columns)) if each.path_in_schema == "time"), None
        )
        statistics = None if stored is None else stored.statistics
        if group.num_rows:
            if statistics is None or not statistics.has_min_max or (statistics.null_count and not staged):
                return None
            low, high = (_time(value, schema.field(at).type) for value in (statistics.min, statistics.max))
            groups.append(RowGroup(file, number, first_row, group.num_rows, low, high, few))
        first_row += group.num_rows
    return tuple(schema.names), groups


def _time(value: Any, kind: pa.DataType) -> int:
    if not pa.types.is_timestamp(kind):
        return int(value)
    return int(pa.scalar(value, kind).cast(pa.timestamp("ns", kind.tz)).value)


def _is_plain(schema: pa.Schema, native_columns: Sequence[str]) -> bool:
    """Whether the columns mean what they say: text as text, numbers as numbers, and nothing that must be taken apart."""
    for each in schema:
        known = each.name in COLUMNS or each.name == "message"
        if each.name in PLAIN_TEXT:
            plain = pa.types.is_string(each.type)
        elif each.name in PLAIN_NUMBERS:
            plain = pa.types.is_int64(each.type) or (each.name != "seq" and pa.types.is_timestamp(each.type))
        elif each.name == "message":
            plain = pa.types.is_string(each.type) or pa.types.is_int64(each.type)
        else:
            plain = not known and each.name in native_columns
        if not plain:
            return False
    return ("kind" in schema.names) == ("message" in schema.names)
