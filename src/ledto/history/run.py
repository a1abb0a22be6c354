"""Read a run by segment: rows of its skeletons and events, boundaries and lines. Only what a caller needs is loaded.

Everything read is checked (`ledto.history.sealed`): bytes that differ from those written raise `DamagedHistory`.

What was read is cached up to a limit, so that the next question about the same stretch of the history reads no file. The
files of a run never change. When a newer run replaces it, they are deleted, and reading raises `HistoryReplaced`.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.boundary import Boundary
from ledto.causality.lines import row_reference
from ledto.causality.place import previous_rows
from ledto.causality.recorded_past import RecordedCauses, merge_causes
from ledto.causality.skeleton import Skeleton
from ledto.history import layout
from ledto.history.column_files import counted_up, distances, lists_of, skeleton_from, vectors_from, without_last
from ledto.history.errors import DamagedHistory
from ledto.history.line_fronts import rows_not_started
from ledto.history.manifest import Manifest, read_manifest
from ledto.history.open_ends import CERTAIN, TIED
from ledto.history.run_files import RunFiles
from ledto.history.sealed import SealedFile, missing, read_sealed, read_sealed_table, unreadable
from ledto.history.store import Store
from ledto.history.tables import Longs, Processes, Segments, processes_from, segments_from
from ledto.history.window.lines import LineEnds, Marks

LARGE_GROUP_BYTES = 32 << 20
"""A row group with more bytes of attributes is searched a few rows at a time, and not kept in memory."""
SEARCHED_AT_ONCE = 64
"""Rows of such a group that are in memory together."""
CACHE_BYTES = 256 << 20
"""Memory for the cache. A row group of the skeleton takes about 1 MB."""


@dataclass(frozen=True, slots=True, eq=False)
class Crossings:
    """Messages that a segment received from earlier ones."""

    row: Longs
    """The row of the receive in the segment; ascending."""
    position: Longs
    """The position of the send, in the whole history."""
    process: Longs
    """The process of the send, as a code of the receiving segment."""
    index: Longs
    """The send's number within its process."""
    assumed: NDArray[np.bool_]
    """Whether the message is only assumed."""
    tied: NDArray[np.bool_]
    """Whether it is assumed because of events at one time, and not as an answer."""

    def between(self, start: int, stop: int) -> tuple[Longs, Longs]:
        """Select what rows ``start <= row < stop`` received: rows counted from `start`, and positions of the sends."""
        first, last = np.searchsorted(self.row, [start, stop])
        return self.row[first:last] - start, self.position[first:last]

    def without_assumed(self) -> Crossings:
        """Select the messages that are not only assumed."""
        if not self.assumed.any():
            return self
        kept = ~self.assumed
        columns = (self.row, self.position, self.process, self.index)
        row, position, process, index = (column[kept] for column in columns)
        return Crossings(row, position, process, index, self.assumed[kept], self.tied[kept])


_NO_ROWS: Longs = np.empty(0, np.int64)
NO_CROSSINGS = Crossings(_NO_ROWS, _NO_ROWS, _NO_ROWS, _NO_ROWS, np.empty(0, np.bool_), np.empty(0, np.bool_))


class Run(RunFiles):
    """One run, committed or not: tasks that deliver a draft make one from its tables. Threads may share it."""

    def __init__(
        self,
        store: Store,
        run: Manifest | str,
        segments: Segments,
        processes: Processes,
        *,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """`run` is the manifest; before the commit, only the run's name."""
        super().__init__(store, run, cache_bytes)
        self.segments = segments
        self.processes = processes

    @property
    def events_total(self) -> int:
        """The number of events in the history. Positions run from 0 to one less."""
        return int(self.segments.rows.sum())

    def skeleton(self, number: int, start: int, stop: int) -> Skeleton:
        """Read rows ``start <= row < stop`` of a segment's skeleton, numbered from 0. Causes may be rows before `start`."""
        rows = layout.SKELETON_ROWS
        first, last = start // rows, max(start, stop - 1) // rows
        if first == last:
            whole = self.skeleton_group(number, first)
            begin, end = start - first * rows, stop - first * rows
            return whole if begin == 0 and end == len(whole) else whole.part(begin, end)
        parts = [
            self.skeleton_group(number, group).part(max(0, start - group * rows), min(rows, stop - group * rows))
            for group in range(first, last + 1)
        ]
        ends = np.cumsum([0] + [len(part.back) for part in parts])
        return Skeleton(
            np.concatenate([part.process for part in parts]),
            np.concatenate([part.offsets[:-1] + end for part, end in zip(parts, ends[:-1], strict=True)] + [ends[-1:]]),
            np.concatenate([part.back for part in parts]),
        )

    def skeleton_group(self, number: int, group: int) -> Skeleton:
        """Read one row group of a segment's skeleton: the rows from ``group * SKELETON_ROWS`` on."""

        def read() -> Skeleton:
            return skeleton_from(self._skeleton_columns(number, group, ["process", "causes"]))

        return self._cache.get(
            ("skeleton", number, group),
            lambda: self._guarded(self.segments.skeleton_file[number], read),
            lambda part: part.process.nbytes + part.offsets.nbytes + part.back.nbytes,
        )

    def _skeleton_columns(self, number: int, group: int, columns: Sequence[str]) -> pa.Table:
        """Read columns of one row group of a segment's skeleton; leave out those that the file does not have."""
        file = self._parquet(self.segments.skeleton_file[number])
        present = [name for name in columns if name in file.schema_arrow.names]
        return file.read_row_group(group, columns=present, use_threads=False)

    @property
    def has_lines(self) -> bool:
        """Whether processes have lines. If so, not all that a process did earlier is recorded as a cause."""
        return any(name is not None for name in self.segments.lines_file)

    def assumes(self, number: int) -> bool:
        """Tell whether a segment has causes that are only assumed, besides those within a process."""
        if bool(self.messages_into(number).assumed.any()):
            return True
        name = self.segments.skeleton_file[number]
        return self._guarded(name, lambda: layout.SKELETON_ASSUMED in self._parquet(name).schema_arrow.names)

    def recorded_group(self, number: int, group: int, *, answered: bool = False) -> RecordedCauses:
        """Find the recorded causes of the rows of one row group of a segment's skeleton.

        `answered`: count answers that are only assumed as recorded.
        """

        def read() -> RecordedCauses:
            doubtful = layout.SKELETON_TIED if answered else layout.SKELETON_ASSUMED
            columns = ["causes", doubtful, layout.SKELETON_FOLLOWS, layout.LIST_REST]
            table = self._skeleton_columns(number, group, columns)
            start = group * layout.SKELETON_ROWS
            offsets, back = without_last(table, doubtful)
            messages = RecordedCauses(offsets, row_reference(back), np.zeros(len(table), np.int64))
            if layout.SKELETON_FOLLOWS not in table.column_names:
                previous = self.previous_rows(number)[start : start + len(table)]
                has_previous = previous >= 0
                offsets = np.concatenate(([0], np.cumsum(has_previous))).astype(np.int64)
                back = row_reference((np.arange(start, start + len(previous)) - previous)[has_previous])
                return merge_causes(RecordedCauses(offsets, back, messages.rest), messages)
            lines = RecordedCauses(*lists_of(table[layout.SKELETON_FOLLOWS]), distances(table[layout.LIST_REST]))
            not_started = rows_not_started(self, number) - start
            lines = lines.without_first(not_started[(not_started >= 0) & (not_started < len(table))])
            return merge_causes(lines, messages)

        return self._cache.get(
            ("recorded", number, group, answered),
            lambda: self._guarded(self.segments.skeleton_file[number], read),
            lambda causes: causes.nbytes,
        )

    def line_lists(self, number: int) -> tuple[Longs, Longs]:
        """Read the lists of a segment's rows: `rest` and `low` of `ledto.causality.lines.Lists`; -1 for no list."""

        def read() -> tuple[Longs, Longs]:
            groups = range(-(-int(self.segments.rows[number]) // layout.SKELETON_ROWS))
            columns = [layout.LIST_REST, layout.LIST_LOW]
            tables = [self._skeleton_columns(number, group, columns) for group in groups]
            rows = np.arange(int(self.segments.rows[number]))
            if not all(table.num_columns for table in tables):
                return np.full(len(rows), -1, np.int64), np.full(len(rows), -1, np.int64)
            rest, low = (distances(pa.concat_tables(tables)[name]) for name in columns)
            return np.where(rest > 0, row_reference(rows) - rest, -1), rows - low

        return self._cache.get(
            ("lists", number),
            lambda: self._guarded(self.segments.skeleton_file[number], read),
            lambda lists: 2 * lists[0].nbytes,
        )

    def previous_rows(self, number: int) -> Longs:
        """Give for each row of a segment the row before it in its process; -1 for the first."""
        return self._cache.get(
            ("previous", number),
            lambda: previous_rows(self.process_column(number).astype(np.int32)),
            lambda rows: rows.nbytes,
        )

    def known_skeleton(self, number: int, start: int, stop: int) -> Skeleton:
        """Read as `skeleton` does, without causes that are only assumed."""
        whole = self.skeleton(number, start, stop)
        if self.segments.lines_file[number] is None:
            return whole
        rows = layout.SKELETON_ROWS
        groups = range(start // rows, max(start, stop - 1) // rows + 1)

        def read(group: int) -> Longs:
            table = self._skeleton_columns(number, group, [layout.SKELETON_ASSUMED])
            counts: Longs = table.column(0).to_numpy().astype(np.int64) if table.num_columns else np.zeros(0, np.int64)
            return counts

        name = self.segments.skeleton_file[number]
        parts = [self._guarded(name, lambda group=group: read(group)) for group in groups]  # type: ignore[misc]
        if not sum(len(part) for part in parts):
            return whole
        counts = np.concatenate(parts)[start - groups[0] * rows :][: stop - start]
        kept = np.ones(len(whole.back), np.bool_)
        ends = whole.offsets[1:]
        doubtful = np.repeat(ends - counts, counts) + counted_up(counts)
        kept[doubtful] = False
        offsets = np.concatenate(([0], np.cumsum(np.diff(whole.offsets) - counts))).astype(np.int64)
        return Skeleton(whole.process, offsets, whole.back[kept])

    def line_ends(self, number: int) -> LineEnds | None:
        """Read which lines continue into a segment, and out of it; None if it has no lines."""
        name = self.segments.lines_file[number]
        if name is None:
            return None

        def read() -> LineEnds:
            arrays = np.load(io.BytesIO(read_sealed(self.store, self._path(name))))
            return LineEnds(**{field: arrays[field] for field in LineEnds.__slots__})

        return self._cache.get(
            ("lines", number),
            lambda: self._guarded(name, read),
            lambda ends: sum(getattr(ends, field).nbytes for field in LineEnds.__slots__),
        )

    def line_marks(self, number: int) -> Marks:
        """Read only `LineEnds.open_mark` of a segment. Not cached: for a pass over all segments."""
        name = self.segments.lines_file[number]
        if name is None:
            return np.empty(0, np.uint64)

        def read() -> Marks:
            marks: Marks = np.load(io.BytesIO(read_sealed(self.store, self._path(name))))["open_mark"]
            return marks

        return self._guarded(name, read)

    def process_group(self, number: int, group: int) -> NDArray[Any]:
        """Read only the processes of one row group of a segment's skeleton, as codes of the segment."""

        def read() -> NDArray[Any]:
            file = self._parquet(self.segments.skeleton_file[number])
            return np.asarray(file.read_row_group(group, columns=["process"], use_threads=False)["process"].to_numpy())

        return self._cache.get(
            ("process", number, group),
            lambda: self._guarded(self.segments.skeleton_file[number], read),
            lambda codes: codes.nbytes,
        )

    def process_column(self, number: int) -> NDArray[Any]:
        """Read the processes of all rows of a segment, as codes of the segment."""
        groups = range(-(-int(self.segments.rows[number]) // layout.SKELETON_ROWS))
        return np.concatenate([self.process_group(number, group) for group in groups])

    def events(self, number: int, columns: Sequence[str], start: int, stop: int) -> pa.Table:
        """Read rows ``start <= row < stop`` of a segment's events: only these columns, and only the row groups needed."""
        rows = layout.EVENT_ROWS
        groups = range(start // rows, max(start, stop - 1) // rows + 1)
        tables = [self._event_group(number, group, columns) for group in groups]
        whole = tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")
        return whole.slice(start - groups[0] * rows, stop - start)

    def _event_group(self, number: int, group: int, columns: Sequence[str]) -> pa.Table:
        missing = [column for column in columns if not self._cache.holds(("events", number, group, column))]
        read = self._read_columns(number, group, missing) if missing else {}

        def cached(column: str) -> pa.ChunkedArray:
            # Another thread may have pushed the column out of the cache since `holds`.
            key = ("events", number, group, column)
            return self._cache.get(
                key,
                lambda: read[column] if column in read else self._read_columns(number, group, [column])[column],
                lambda values: values.nbytes,
            )

        return pa.table({column: cached(column) for column in columns})

    def _read_columns(self, number: int, group: int, columns: Sequence[str]) -> dict[str, pa.ChunkedArray]:
        name = self.segments.events_file[number]
        numbered = "seq" not in columns or self.has_numbers
        wanted = [*columns] if numbered else [*columns, layout.COUNTED_BY]
        table = self._guarded(
            name, lambda: self._parquet(name).read_row_group(group, columns=wanted, use_threads=False)
        )
        values = {column: table[column] for column in columns}
        if not numbered:
            # Where the source gave no numbers, each segment counts from 1: it may be written before the segments before it.
            first, last = group * layout.EVENT_ROWS, group * layout.EVENT_ROWS + len(table)
            groups = range(first // layout.SKELETON_ROWS, (last - 1) // layout.SKELETON_ROWS + 1)
            processes = np.concatenate([self.process_group(number, skeleton_group) for skeleton_group in groups])
            codes = processes[first - groups[0] * layout.SKELETON_ROWS :][: len(table)]
            counted = table[layout.COUNTED_BY].to_numpy() + self.segments.before_of(number)[codes]
            values["seq"] = pc.coalesce(table["seq"], pa.chunked_array([pa.array(counted)]))
        return values

    def has_column(self, number: int, column: str) -> bool:
        """Tell whether the events of a segment have a column, `layout.INTERNAL` ones included."""
        name = self.segments.events_file[number]
        return column in self._guarded(name, lambda: self._parquet(name).schema_arrow.names)

    def rows(self, positions: Longs, columns: Sequence[str]) -> pa.Table:
        """Read the events at these positions, in the given order."""
        if len(positions) == 0:
            schema = self.event_schema()
            return schema.empty_table().select(list(columns))
        ascending = np.sort(positions)
        numbers = np.searchsorted(self.segments.first_position, ascending, side="right") - 1
        row = ascending - self.segments.first_position[numbers]
        group = row // layout.EVENT_ROWS
        starts = np.flatnonzero(np.diff(numbers, prepend=-1) | np.diff(group, prepend=-1))
        parts = [
            self._event_group(int(numbers[first]), int(group[first]), columns).take(
                pa.array(row[first:last] - group[first] * layout.EVENT_ROWS)
            )
            for first, last in itertools.pairwise([*starts.tolist(), len(row)])
        ]
        whole = parts[0] if len(parts) == 1 else pa.concat_tables(parts, promote_options="permissive")
        if np.array_equal(ascending, positions):
            return whole
        return whole.take(pa.array(np.searchsorted(ascending, positions)))

    def event_schema(self) -> pa.Schema:
        """Give the columns of the events, those of the source included."""
        return pa.schema([field for field in self._stored_schema() if field.name not in layout.INTERNAL])

    @property
    def has_numbers(self) -> bool:
        """Whether the sources gave every event a number. If not, ``seq`` is computed while events are read."""
        return self._manifest is not None and self._manifest.given_seq

    def _stored_schema(self) -> pa.Schema:
        if not len(self.segments):
            return layout.EVENTS
        name = self.segments.events_file[0]
        return self._guarded(name, lambda: self._parquet(name).schema_arrow)

    def boundary(self, number: int) -> Boundary:
        """Read what each process knew when the segment began."""
        name = self.segments.boundary_file[number]
        before = self.segments.before_of(number)
        if name is None:
            return Boundary.empty(len(before))

        def read() -> Boundary:
            arrays = np.load(io.BytesIO(read_sealed(self.store, self._path(name))))
            # Processes that appeared after the file was written had no events before the segment.
            stored = np.pad(arrays["before"], (0, len(before) - len(arrays["before"])))
            return Boundary(
                stored,
                vectors_from("known", len(stored), arrays, stored),
                arrays["edge_row"],
                arrays["edge_send"],
                arrays["send_position"] + self.segments.base_of(number),
                arrays["send_process"],
                arrays["send_index"],
                vectors_from("send_known", len(arrays["send_position"]), arrays, stored),
            )

        return self._cache.get(
            ("boundary", number),
            lambda: self._guarded(name, read),
            lambda boundary: boundary.known.nbytes + boundary.send_known.nbytes + 16 * len(boundary.edge_row),
        )

    def crossings(self, number: int) -> tuple[Longs, Longs]:
        """Read the messages into a segment from earlier ones: rows of receives, ascending, and positions of sends."""
        messages = self.messages_into(number)
        return messages.row, messages.position

    def known_crossings(self, number: int) -> tuple[Longs, Longs]:
        """Read as `crossings` does, without messages that are only assumed."""
        messages = self.known_messages_into(number)
        return messages.row, messages.position

    def known_messages_into(self, number: int) -> Crossings:
        """Read as `messages_into` does, without messages that are only assumed. Segments without lines assume none."""
        messages = self.messages_into(number)
        return messages if self.segments.lines_file[number] is None else messages.without_assumed()

    def messages_into(self, number: int) -> Crossings:
        """Read the messages into a segment from earlier ones, with their senders."""
        name = self.segments.boundary_file[number]
        if name is None:
            return NO_CROSSINGS

        def read() -> Crossings:
            # Members of an archive are read one by one: the vectors, which are most of the bytes, are not read.
            arrays = np.load(io.BytesIO(read_sealed(self.store, self._path(name))))
            send = arrays["edge_send"]
            position, process, index = (
                arrays[f"send_{name}"][send].astype(np.int64) for name in ("position", "process", "index")
            )
            doubt = arrays["edge_doubt"]
            position += self.segments.base_of(number)
            return Crossings(arrays["edge_row"], position, process, index, doubt != CERTAIN, doubt == TIED)

        return self._cache.get(
            ("crossings", number), lambda: self._guarded(name, read), lambda messages: 4 * messages.row.nbytes
        )

    def ids_index(self, number: int) -> SealedFile | None:
        """Open the index of the source's ids (`ledto.history.ids`); None if the segment has no such ids."""
        name = self.segments.ids_file[number]
        if name is None:
            return None
        return self._files.get(
            name, lambda: self._guarded(name, lambda: SealedFile(self.store, self._path(name))), lambda _: 65_536
        )

    def search_batches(self, number: int, group: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the rows of one row group of a segment's events: in one table, or in several if attributes are long."""
        name = self.segments.events_file[number]
        if "attributes" not in columns or self.column_bytes(name, group, "attributes") <= LARGE_GROUP_BYTES:
            yield self._event_group(number, group, columns)
            return
        rest = self._event_group(number, group, [column for column in columns if column != "attributes"] or ["kind"])
        batches = self.table(name).iter_batches(
            SEARCHED_AT_ONCE, row_groups=[group], columns=["attributes"], use_threads=False
        )
        first = 0
        while (batch := self._guarded(name, lambda: next(batches, None))) is not None:
            yield rest.slice(first, len(batch)).append_column("attributes", batch.column(0)).select(list(columns))
            first += len(batch)


def open_run(store: Store, *, cache_bytes: int = CACHE_BYTES) -> Run:
    """Open the run that the manifest names. Raises `NoHistory`, `DamagedHistory` or `UnsupportedFormat`."""
    manifest = read_manifest(store)
    folder = layout.run_folder(manifest.run)
    tables: list[pa.Table] = []
    for name in (manifest.tables.segments, manifest.tables.processes):
        place = store.place(f"{folder}/{name}")
        try:
            tables.append(read_sealed_table(store, f"{folder}/{name}"))
        except FileNotFoundError:
            if read_manifest(store).version != manifest.version:
                return open_run(store, cache_bytes=cache_bytes)
            raise missing(place) from None
        except (pa.ArrowException, OSError) as fault:
            raise unreadable(place, fault) from fault
    try:
        run = Run(store, manifest, segments_from(tables[0]), processes_from(tables[1]), cache_bytes=cache_bytes)
    except (ValueError, KeyError) as fault:
        raise DamagedHistory(f"{store.place(folder)} contradicts itself: {fault}") from fault
    if run.events_total != manifest.events:
        raise DamagedHistory(
            f"{store.place(folder)} has {run.events_total} events, and the manifest says {manifest.events}"
        )
    return run
