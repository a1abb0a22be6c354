"""Read the rows of a window directly from Parquet files that are roughly sorted by time. No rows are moved between tasks.

Collectors write reports as they come in, so that most logs in Parquet are roughly in order of time, and footers give the
first and last time of each row group. A task then reads only the row groups that overlap its window. If row groups cover
long times, as with a file for each process, many tasks would read the same ones: `Clustered.rows_read` tells how much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ledto.events.schema import COLUMNS
from ledto.history.window.plan import TimeBins, WindowPlan
from ledto.history.window.solve import SegmentWindow
from ledto.sources.contract import SourceError
from ledto.sources.parquet import Mapping, map_schema, reports_of
from ledto.sources.parquet.files import READABLE_CODECS, parquet_file
from ledto.sources.parquet.reports import DICTIONARIES as FEW_VALUES
from ledto.sources.times import NANOSECONDS_IN

Opener = Callable[[str], Any]
"""Opens a location as a file that can be read at any offset. Pickles."""

DICTIONARIES = (*FEW_VALUES, "file")
"""Columns with few different values, which are read as dictionaries."""
SHARE_ROWS = 500_000
"""About how many rows a task counts."""
_FOOTERS_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class File:
    """A file of reports."""

    location: str
    name: str
    """Its name in the rows, for people."""
    run: str
    """The run that reads it. A worker must not use rows that it kept for another run: the file may have changed."""


@dataclass(frozen=True, slots=True)
class TimedRowGroup:
    """One row group, with the first and last time of its rows."""

    file: File
    number: int
    first_row: int
    rows: int
    first_time: int
    last_time: int
    dictionaries: tuple[str, ...]
    """The columns of `DICTIONARIES` that the file has as text."""
    mapping: Mapping | None
    """What the columns of a user's file mean; None if they are those of `REPORTS`."""


_RECENT: dict[TimedRowGroup, pa.Table] = {}
"""Row groups that this process has read and that overlap the next window, too. A worker solves one window at a time."""


@dataclass(frozen=True, slots=True)
class Clustered:
    """The reports of one computation, by row group. Pickles."""

    groups: tuple[TimedRowGroup, ...]
    columns: tuple[str, ...]
    """Columns of reports that may have values; the same in all files."""
    staged: bool
    """Whether an earlier step wrote the files, with the columns of `REPORTS` and bad rows; otherwise they are a user's."""
    open_file: Opener

    def rows_read(self, plan: WindowPlan) -> int:
        """Count the rows that all windows of a plan of one computation would read together."""
        (epochs,) = plan.large
        return sum(group.rows for window in epochs.windows() for group in self._touching(window, plan.eps))

    def shares(self) -> list[list[TimedRowGroup]]:
        """Split the row groups into shares of about `SHARE_ROWS` rows, one for each task."""
        shares: list[list[TimedRowGroup]] = []
        room = 0
        for group in self.groups:
            if not shares or group.rows > room:
                shares.append([])
                room = SHARE_ROWS
            shares[-1].append(group)
            room -= group.rows
        return shares

    def count_times(self, groups: Sequence[TimedRowGroup], bins: TimeBins) -> dict[int, int]:
        """Count the usable rows of row groups by bin of wall time."""
        counts: Counter[int] = Counter()
        for group in groups:
            reports = self._read_columns(group, ("reason", "time") if self.staged else ("process", "time"))
            counts.update(bins.count_rows(reports.filter(pc.is_null(reports["reason"]))["time"].drop_null().to_numpy()))
        return counts

    def rows(self, window: SegmentWindow, eps: int) -> pa.Table:
        """Read the rows of a window, with the column ``own``, as `ledto.history.window.segment.make_segment` takes them.

        HAZARD: keeps row groups for the next call in this process; threads must not share it.
        """
        tables, kept = [], {}
        for group in self._touching(window, eps):
            table = self._read_all(group)
            tables.append(self._select(group, table, window, eps))
            if window.high is not None and group.last_time >= window.high - eps:
                kept[group] = table
        _RECENT.clear()
        _RECENT.update(kept)
        return pa.concat_tables(tables, promote_options="default").unify_dictionaries()

    def _touching(self, window: SegmentWindow, eps: int) -> Iterable[TimedRowGroup]:
        """Select the row groups that may have rows within eps of a window."""
        for group in self.groups:
            is_earlier = window.low is not None and group.last_time < window.low - eps
            is_later = window.high is not None and group.first_time >= window.high + eps
            if not (is_earlier or is_later):
                yield group

    def _read_all(self, group: TimedRowGroup) -> pa.Table:
        """Read all reports of a row group, or take them from the last call."""
        if group in _RECENT:
            return _RECENT[group]
        with self.open_file(group.file.location) as file:
            parquet = parquet_file(file, read_dictionary=list(group.dictionaries))
            table = parquet.read_row_group(group.number, use_threads=False)
        if group.mapping is not None:
            reports = reports_of(table, group.mapping, group.file.name, group.first_row, keep_dictionaries=True)
            wanted = self.columns
            if reports["reason"].null_count < len(reports):
                wanted = (*wanted, "reason", "text")
            table = reports.select(wanted).unify_dictionaries()
        return table

    def _select(self, group: TimedRowGroup, table: pa.Table, window: SegmentWindow, eps: int) -> pa.Table:
        """Select the rows of a row group that a window needs; add ``own``."""
        time = pc.fill_null(table["time"], 0).to_numpy()
        low = np.iinfo(np.int64).min if window.low is None else window.low
        high = np.iinfo(np.int64).max if window.high is None else window.high
        inside = np.ones(len(table), np.bool_)
        if window.low is not None:
            inside &= time >= low - eps
        if window.high is not None:
            inside &= time < high + eps
        own = (time >= low) & (time < high)
        if "reason" in table.column_names and table["reason"].null_count < len(table):
            # Bad rows do not go by time: the window that holds the first time of their row group takes them.
            bad = pc.is_valid(table["reason"]).to_numpy()
            inside = np.where(bad, low <= group.first_time < high, inside)
            own &= ~bad
        table = table.append_column("own", pa.array(own))
        return table if inside.all() else table.filter(pa.array(inside))

    def process_rows(self, group: TimedRowGroup) -> dict[str, int] | None:
        """Count the rows of each process in a row group of a user's file; None if a row must be quarantined."""
        assert group.mapping is not None
        reports = self._read_columns(group, sorted(group.mapping.known))
        if reports["reason"].null_count < len(reports):
            return None
        process = reports["process"].unify_dictionaries().combine_chunks()
        counts = pc.value_counts(process.indices)
        names = process.dictionary.take(counts.field("values")).to_pylist()
        return dict(zip(names, counts.field("counts").to_pylist(), strict=True))

    def _read_columns(self, group: TimedRowGroup, columns: Sequence[str]) -> pa.Table:
        """Read reports of a row group from these columns only, without columns of a user's own."""
        with self.open_file(group.file.location) as file:
            parquet = parquet_file(file, read_dictionary=[name for name in group.dictionaries if name in columns])
            table = parquet.read_row_group(group.number, columns=list(columns), use_threads=False)
        if group.mapping is None:
            return table
        mapping = replace(group.mapping, native=())
        return reports_of(table, mapping, group.file.name, group.first_row, keep_dictionaries=True)


def find_clusters(files: Sequence[File], open_file: Opener, *, staged: bool, unit: str) -> Clustered | None:
    """Read the footers of files, and list their row groups.

    None if a footer has no times, if files have different columns, or if pyarrow cannot read a codec.
    """
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        footers = list(pool.map(lambda file: _row_groups(file, open_file, staged, unit), files))
    groups: list[TimedRowGroup] = []
    columns: set[tuple[str, ...]] = set()
    for footer in footers:
        if footer is None:
            return None
        groups.extend(footer[1])
        columns.add(footer[0])
    return Clustered(tuple(groups), columns.pop(), staged, open_file) if len(columns) == 1 else None


def _row_groups(
    file: File, open_file: Opener, staged: bool, unit: str
) -> tuple[tuple[str, ...], list[TimedRowGroup]] | None:
    """Read the footer of one file: give its columns and row groups; None as `find_clusters`."""
    with open_file(file.location) as opened:
        parquet = pq.ParquetFile(opened)
        schema, metadata = parquet.schema_arrow, parquet.metadata
    mapping = None
    if not staged:
        try:
            mapping = map_schema(schema, file.name, unit)
        except SourceError:
            return None
    few = tuple(name for name in DICTIONARIES if name in schema.names and (staged or _is_few(schema, name)))
    groups, first_row = [], 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        # Columns of nested types have several entries in the footer, so that entries are found by name.
        columns = [group.column(at) for at in range(group.num_columns)]
        if not READABLE_CODECS.issuperset(column.compression for column in columns):
            return None
        time_column = next((column for column in columns if column.path_in_schema == "time"), None)
        statistics = None if time_column is None else time_column.statistics
        if group.num_rows:
            if statistics is None or not statistics.has_min_max or (statistics.null_count and not staged):
                return None
            kind = schema.field("time").type
            low, high = (_time(statistics, which, kind, unit) for which in ("min", "max"))
            groups.append(TimedRowGroup(file, number, first_row, group.num_rows, low, high, few, mapping))
        first_row += group.num_rows
    return tuple(schema.names) if mapping is None else _columns(mapping), groups


def _is_few(schema: pa.Schema, name: str) -> bool:
    return name in FEW_VALUES and pa.types.is_string(schema.field(name).type)


def _columns(mapping: Mapping) -> tuple[str, ...]:
    """List the columns of `REPORTS` that may have values, and then those of the user."""
    known = mapping.known
    names = {"computation", "process", "kind", "error", "file", "place", *known} - {"message"}
    if known & {"message", "stamp"}:
        names |= {"sends", "receives"}
    if known & {"message", "receives", "stamp"}:
        names.add("receives_more")
    if "stamp" in known:
        names.add("seq")
    return (*(name for name in COLUMNS if name in names), *mapping.native_names)


def _time(statistics: pq.Statistics, which: str, kind: pa.DataType, unit: str) -> int:
    """Give the "min" or "max" time of a row group in the run's unit, rounded down as the rows are."""
    if not pa.types.is_timestamp(kind):
        return int(getattr(statistics, which))
    # The raw value: as a Python date, it would lose its nanoseconds.
    raw = int(getattr(statistics, f"{which}_raw"))
    return raw * NANOSECONDS_IN[kind.unit] // NANOSECONDS_IN[unit]
