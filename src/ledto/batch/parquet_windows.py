"""The rows of a window straight from Parquet files whose row groups follow the time: what is near is read, nothing is moved.

Collectors write what comes in, so most logs in Parquet are in order of time, more or less, and their footers say from
when to when each row group reaches. A task then reads the row groups that touch its window. Where row groups reach over
long times, as in a file a process, tasks would read them again and again: `Clustered.rows_read` tells.
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
"""Opens a location as a file that can be read at any place. Pickles."""

DICTIONARIES = (*FEW_VALUES, "file")
"""Columns with few values, which are read as numbers of them."""
SHARE_ROWS = 500_000
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
class TimedRowGroup:
    """One row group, and from when to when its rows are."""

    file: File
    number: int
    first_row: int
    rows: int
    first_time: int
    last_time: int
    dictionaries: tuple[str, ...]
    """Those of `DICTIONARIES` that the file has as text."""
    mapping: Mapping | None
    """What the columns of a user's file mean; None if they are those of `REPORTS` already."""


_RECENT: dict[TimedRowGroup, pa.Table] = {}
"""Row groups that reach into the next window. Of this process; a worker solves one window at a time."""


@dataclass(frozen=True, slots=True)
class Clustered:
    """Reports of one computation, by row group. Pickles."""

    groups: tuple[TimedRowGroup, ...]
    columns: tuple[str, ...]
    """Columns of the rows that may have values, the same in all files."""
    staged: bool
    """Whether the files have the columns of `REPORTS` already, bad rows included; else they are a user's."""
    open_file: Opener

    def rows_read(self, plan: WindowPlan) -> int:
        """How many rows all windows of a plan of one computation would read together."""
        (epochs,) = plan.large
        return sum(group.rows for window in epochs.windows() for group in self._touching(window, plan.eps))

    def shares(self) -> list[list[TimedRowGroup]]:
        """Give all row groups in lists of about `SHARE_ROWS` rows, one for each task that goes over them."""
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
        """The rows of a window, with ``own``, as `ledto.history.window.segment.make_segment` takes them."""
        tables, kept = [], {}
        for group in self._touching(window, eps):
            table = self._reports(group)
            tables.append(self._chosen(group, table, window, eps))
            if window.high is not None and group.last_time >= window.high - eps:
                kept[group] = table
        _RECENT.clear()
        _RECENT.update(kept)
        return pa.concat_tables(tables, promote_options="default").unify_dictionaries()

    def _touching(self, window: SegmentWindow, eps: int) -> Iterable[TimedRowGroup]:
        for group in self.groups:
            after = window.low is not None and group.last_time < window.low - eps
            before = window.high is not None and group.first_time >= window.high + eps
            if not (after or before):
                yield group

    def _reports(self, group: TimedRowGroup) -> pa.Table:
        """All rows of a row group."""
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

    def _chosen(self, group: TimedRowGroup, table: pa.Table, window: SegmentWindow, eps: int) -> pa.Table:
        """Those rows of a row group that a window needs, with ``own``."""
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
            # Bad rows are nobody's by time: the window that holds the first time of their row group takes them.
            bad = pc.is_valid(table["reason"]).to_numpy()
            inside = np.where(bad, low <= group.first_time < high, inside)
            own &= ~bad
        table = table.append_column("own", pa.array(own))
        return table if inside.all() else table.filter(pa.array(inside))

    def process_rows(self, group: TimedRowGroup) -> dict[str, int] | None:
        """Rows of each process in a row group of a user's file; None if one of them has to be set aside."""
        assert group.mapping is not None
        reports = self._read_columns(group, sorted(group.mapping.known))
        if reports["reason"].null_count < len(reports):
            return None
        process = reports["process"].unify_dictionaries().combine_chunks()
        counts = pc.value_counts(process.indices)
        names = process.dictionary.take(counts.field("values")).to_pylist()
        return dict(zip(names, counts.field("counts").to_pylist(), strict=True))

    def _read_columns(self, group: TimedRowGroup, columns: Sequence[str]) -> pa.Table:
        """Read the reports of a row group by these of its columns alone, and none of a user's own."""
        with self.open_file(group.file.location) as file:
            parquet = parquet_file(file, read_dictionary=[each for each in group.dictionaries if each in columns])
            table = parquet.read_row_group(group.number, columns=list(columns), use_threads=False)
        if group.mapping is None:
            return table
        mapping = replace(group.mapping, native=())
        return reports_of(table, mapping, group.file.name, group.first_row, keep_dictionaries=True)


def find_clusters(files: Sequence[File], open_file: Opener, *, staged: bool, unit: str) -> Clustered | None:
    """The row groups of the files; None where a footer does not say their times, the files have
    different columns, or a codec is not pyarrow's."""
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        found = list(pool.map(lambda file: _row_groups(file, open_file, staged, unit), files))
    groups: list[TimedRowGroup] = []
    columns: set[tuple[str, ...]] = set()
    for each in found:
        if each is None:
            return None
        groups.extend(each[1])
        columns.add(each[0])
    return Clustered(tuple(groups), columns.pop(), staged, open_file) if len(columns) == 1 else None


def _row_groups(
    file: File, open_file: Opener, staged: bool, unit: str
) -> tuple[tuple[str, ...], list[TimedRowGroup]] | None:
    with open_file(file.location) as opened:
        parquet = pq.ParquetFile(opened)
        schema, metadata = parquet.schema_arrow, parquet.metadata
    mapping = None
    if not staged:
        try:
            mapping = map_schema(schema, file.name, unit)
        except SourceError:
            return None
    # Columns of nested types take several places in the footer: names are compared there.
    few = tuple(name for name in DICTIONARIES if name in schema.names and (staged or _is_few(schema, name)))
    groups, first_row = [], 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = [group.column(at) for at in range(group.num_columns)]
        if not READABLE_CODECS.issuperset(column.compression for column in columns):
            return None
        stored = next((column for column in columns if column.path_in_schema == "time"), None)
        statistics = None if stored is None else stored.statistics
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
    """The columns of `REPORTS` that may have values, and the further ones."""
    known = mapping.known
    found = {"computation", "process", "kind", "error", "file", "place", *known} - {"message"}
    if known & {"message", "stamp"}:
        found |= {"sends", "receives"}
    if known & {"message", "receives", "stamp"}:
        found.add("receives_more")
    if "stamp" in known:
        found.add("seq")
    return (*(name for name in COLUMNS if name in found), *mapping.native_names)


def _time(statistics: pq.Statistics, which: str, kind: pa.DataType, unit: str) -> int:
    """The least or largest time of a row group in the run's unit, rounded down as the rows are."""
    if not pa.types.is_timestamp(kind):
        return int(getattr(statistics, which))
    # As it is stored: as a date, it would have no nanoseconds.
    raw = int(getattr(statistics, f"{which}_raw"))
    return raw * NANOSECONDS_IN[kind.unit] // NANOSECONDS_IN[unit]
