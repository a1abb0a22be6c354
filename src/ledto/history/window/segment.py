"""Carry out a task: solve one window, write its segment, and return what the other windows must know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.order import NO_TIME
from ledto.causality.skeleton import Skeleton
from ledto.history import layout
from ledto.history.attribute_types import attribute_types
from ledto.history.gone import Gone, gone_from
from ledto.history.quarantine import DUPLICATE, PLACED, QUARANTINED, count_codes
from ledto.history.sealed import write_sealed_table
from ledto.history.store import Store
from ledto.history.times import count_digits, format_time
from ledto.history.window.columns import BETWEEN, numbered_names
from ledto.history.window.holes import SegmentHoles, find_holes
from ledto.history.window.lines import SegmentLines, find_lines
from ledto.history.window.plan import WindowPlan
from ledto.history.window.solve import SegmentWindow, Solved, solve
from ledto.history.write import SegmentFiles, write_quarantine, write_segment

NOT_STORED = (
    *("window", "own", "reason", "text", "receives_more"),
    *("line_parent", "line_phase", "line_joins", "line_since", "channel_key", "channel_bytes"),
    *("dated", "wall", "emitted", "uid"),
)
"""Columns that are used here and not stored with events."""
LINE_COLUMNS = ("line", "line_parent", "line_phase", "line_joins", "line_since", "kind")
"""Columns that say which line an event is on, and how lines start, end and wait."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The processes of a segment, and what each has there; all columns are by process."""

    computations: tuple[str, ...]
    names: tuple[str, ...]
    clocks: tuple[str | None, ...]
    """The name of the clock that its times are from, if not its own."""
    events: NDArray[np.int64]
    """The number of its events."""
    first_seq: NDArray[np.int64]
    """The sequence number of its first event; 0 if the source gives none."""
    last_seq: NDArray[np.int64]
    first_time: NDArray[np.int64]
    """The smallest wall time; `NO_TIME` if no event has one."""
    last_time: NDArray[np.int64]
    holes: SegmentHoles

    def processes(self) -> Iterator[tuple[str, str]]:
        """Yield the computation and name of each process."""
        return zip(self.computations, self.names, strict=True)


@dataclass(frozen=True, slots=True)
class ReportOrigin:
    """An event, and where its report was read."""

    process: str
    time: int | None
    file: str | None
    place: int | None

    def describe(self, unit: str) -> str:
        """Describe the event in words."""
        at = "" if self.time is None else f" at {format_time(self.time, unit, digits=count_digits([self.time], unit))}"
        return f"the event of {self.process!r}{at} ({self.file}, {self.place})"


@dataclass(frozen=True, slots=True)
class SegmentResult:
    """A segment as its task made it, before the segments are joined. Can be pickled."""

    window: int
    """The number of the window."""
    rows: int
    """The number of events."""
    counts: Counts
    files: SegmentFiles | None
    """None for a segment without events."""
    quarantine_file: str | None
    """The file with quarantined rows and duplicates; None without any."""
    open_file: str | None
    """The file of `open_table`: what crosses the segment's ends; None if nothing does."""
    first_causal_time: int
    last_causal_time: int
    duplicates: int
    quarantined: int
    reasons: Counter[str]
    """The number of quarantined rows by reason code."""
    attributes: dict[str, str]
    """The attributes that occur, with their types (`ledto.history.attribute_types`)."""
    lag: int
    """The largest excess of a causal time over its wall time."""
    lag_event: ReportOrigin | None
    """The event with that excess; None if the segment has no events."""
    missing: int
    """The number of events that name a cause which nobody reported."""
    clock_lag: int
    """`lag` without assumed causes."""
    gone: tuple[Gone, ...]
    """Quarantined reports whose processes are known."""


@dataclass(frozen=True, slots=True)
class SegmentTarget:
    """The store and run that tasks write to."""

    store: Store
    run: str


def make_segment(rows: pa.Table, window: int, plan: WindowPlan, target: SegmentTarget) -> SegmentResult:
    """Solve the window with these rows, and write its segment.

    May run twice for one window, even at the same time: each call writes files of its own.
    """
    attempt = uuid4().hex[:12]
    good, refused = rows, rows.slice(0, 0)
    if "reason" in rows.column_names and rows["reason"].null_count < len(rows):
        bad = pc.is_valid(rows["reason"])
        good, refused = rows.filter(pc.invert(bad)), rows.filter(bad)
    chosen = plan.solves(window)
    if chosen is None or chosen[1].whole:
        solved, names = solve_whole(good)
    else:
        solved = solve(good, chosen[0].names, chosen[1])
        names = [(chosen[0].computation, name) for name in chosen[0].names]
    quarantined = pa.concat_tables([refused_rows(refused), solved.quarantined.table(good)])
    quarantined = quarantined.sort_by([(name, "ascending") for name in ("file", "place", "outcome", "reason")])
    events = events_table(good, solved, window)
    outcomes = Counter(quarantined["outcome"].to_pylist())
    counts = count_processes(names, solved.placed.skeleton, events)
    files = quarantine_file = open_file = None
    if len(events):
        files = write_segment(
            target.store,
            target.run,
            window,
            events,
            solved.placed.skeleton,
            attempt=attempt,
            assumed=solved.placed.assumed,
            tied=solved.placed.tied,
            lines=segment_lines(good, solved, names),
        )
    if len(quarantined):
        quarantine_file = write_quarantine(target.store, target.run, quarantined, attempt=f"{window:05d}-{attempt}")
    if len(solved.open_receives) or len(solved.open_sends):
        open_file = write_sealed_table(target.store, target.run, f"open-{window:05d}-{attempt}", open_table(solved))
    timed = solved.placed_time[solved.placed_time != NO_TIME]
    return SegmentResult(
        window,
        len(events),
        counts,
        files,
        quarantine_file,
        open_file,
        int(timed[0]) if len(timed) else 0,
        int(timed[-1]) if len(timed) else 0,
        outcomes[DUPLICATE],
        outcomes[QUARANTINED],
        count_codes(quarantined),
        attribute_types(events["attributes"]),
        solved.lag,
        _origin(good, solved.lag_row),
        len(events) - events["missing"].null_count,
        solved.clock_lag,
        tuple(gone_from(quarantined)),
    )


def segment_lines(rows: pa.Table, solved: Solved, names: Sequence[tuple[str, str]]) -> SegmentLines | None:
    """Find what the events of a segment follow in their processes; `names` are pairs of computation and process."""
    columns = [column for column in LINE_COLUMNS if column in rows.column_names]
    events = rows.select(columns).take(pa.array(solved.table_rows))
    # Without `SegmentLines`, all causes of the skeleton would count as recorded.
    guessed = bool(solved.placed.assumed.any() or pc.any(solved.open_sends["twice"]).as_py())
    process = solved.placed.skeleton.process
    return find_lines(events, process, [f"{computation}\0{name}" for computation, name in names], always=guessed)


def solve_whole(rows: pa.Table, *, first_come: bool = False) -> tuple[Solved, list[tuple[str, str]]]:
    """Solve whole computations; return also their processes, as pairs of computation and process. `first_come` as in
    `solve`.

    Several are solved as one: processes, keys and ids get the number of their computation as a prefix.
    """
    computations = sorted(pc.unique(rows["computation"]).to_pylist())
    if len(computations) == 1:
        names = sorted(pc.unique(rows["process"]).to_pylist())
        return solve(rows, names, SegmentWindow(), first_come=first_come), [(computations[0], name) for name in names]
    numbers = numbered_names(rows["computation"], computations)
    together = rows
    for at, name in enumerate(rows.column_names):
        if name in ("process", "sends", "receives", "id"):
            prefixed = pc.binary_join_element_wise(numbers, rows[name].cast(pa.string()), BETWEEN)
            together = together.set_column(at, name, prefixed)
        elif name == "receives_more":
            pairs = zip(numbers.to_pylist(), rows[name].to_pylist(), strict=True)
            lists = [None if keys is None else [f"{number}{BETWEEN}{key}" for key in keys] for number, keys in pairs]
            together = together.set_column(at, name, pa.array(lists, pa.list_(pa.string())))
    names = sorted(pc.unique(together["process"]).to_pylist())
    split = [name.partition(BETWEEN) for name in names]
    solved = solve(together, names, SegmentWindow(), first_come=first_come, prefixed=True)
    return solved, [(computations[int(number)], name) for number, _, name in split]


def events_table(rows: pa.Table, solved: Solved, window: int) -> pa.Table:
    """Make the table of events in history order: `layout.EVENTS`, the source's own columns, then ``segment`` and ``nth``."""
    events = rows.select([name for name in rows.column_names if name not in NOT_STORED]).take(
        pa.array(solved.table_rows)
    )
    columns: dict[str, Any] = {}
    for field in layout.EVENTS:
        if field.name == "causal_time":
            columns[field.name] = pa.array(solved.causal_time, mask=solved.causal_time == NO_TIME)
        elif field.name == "correction":
            columns[field.name] = pc.if_else(pc.is_valid(columns["time"]), pa.array(solved.correction), None)
        elif field.name == "missing":
            columns[field.name] = solved.missing
        elif field.name in rows.column_names:
            columns[field.name] = _stored(events[field.name], field)
        else:
            columns[field.name] = _stored(pa.chunked_array([pa.nulls(len(events), field.type)]), field)
    further = [name for name in rows.column_names if name not in columns and name not in NOT_STORED]
    columns |= {name: events[name] for name in further}
    if (solved.placed_time != solved.causal_time).any():
        columns[layout.PLACED_BY] = pa.array(solved.placed_time, mask=solved.placed_time == NO_TIME)
    columns["segment"] = pa.repeat(pa.scalar(window, pa.int32()), len(events))
    columns["nth"] = pa.array(solved.placed.nth)
    return pa.table(columns)


def _stored(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    """Convert a column to the form in which it is stored, so that the same events make the same bytes.

    Columns with few values are dictionaries, with the values in the order of their first occurrence.
    """
    if field.name not in layout.EVENT_DICTIONARIES:
        return column.cast(field.type)
    encoded = column.combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = pa.concat_arrays(encoded.chunks) if encoded.num_chunks else pa.array([], encoded.type)
    if not pa.types.is_dictionary(encoded.type):
        return encoded.cast(field.type).dictionary_encode()
    used = pc.unique(encoded.indices.drop_null())
    new_code = np.full(len(encoded.dictionary), -1, np.int32)
    new_code[used.to_numpy()] = np.arange(len(used), dtype=np.int32)
    valid = encoded.indices.is_valid()
    codes = new_code[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)] if len(new_code) else new_code
    return pa.DictionaryArray.from_arrays(
        pa.array(
            codes if len(new_code) else np.zeros(len(encoded), np.int32), mask=~valid.to_numpy(zero_copy_only=False)
        ),
        encoded.dictionary.take(used).cast(field.type),
    )


def count_processes(names: Sequence[tuple[str, str]], skeleton: Skeleton, events: pa.Table) -> Counts:
    """Count what each process has in the segment; `names` are pairs of computation and process."""
    count = len(names)
    process = skeleton.process
    seq = events["seq"].fill_null(0).to_numpy()
    time = events["time"].fill_null(NO_TIME).to_numpy()
    first_seq, last_seq = np.zeros(count, np.int64), np.zeros(count, np.int64)
    last_seq[process] = seq
    first_seq[process[::-1]] = seq[::-1]
    first_time = np.full(count, np.iinfo(np.int64).max)
    last_time = np.full(count, NO_TIME)
    timed = time != NO_TIME
    np.minimum.at(first_time, process[timed], time[timed])
    np.maximum.at(last_time, process[timed], time[timed])
    first_time[last_time == NO_TIME] = NO_TIME
    return Counts(
        tuple(computation for computation, _ in names),
        tuple(name for _, name in names),
        _clocks(process, count, events["clock_name"]),
        np.bincount(process, minlength=count).astype(np.int64),
        first_seq,
        last_seq,
        first_time,
        last_time,
        find_holes(events, skeleton, count),
    )


def _clocks(process: NDArray[np.int32], count: int, clock_names: pa.ChunkedArray) -> tuple[str | None, ...]:
    """Take for each process the clock of its first event."""
    if clock_names.null_count == len(clock_names):
        return (None,) * count
    first = np.full(count, -1, np.int64)
    first[process[::-1]] = np.arange(len(process))[::-1]
    return tuple(clock_names.take(pa.array(first, mask=first < 0)).to_pylist())


def open_table(solved: Solved) -> pa.Table:
    """Put both tables of open ends into one; the column ``receives`` says which rows are of which."""
    ends = [(solved.open_receives, True), (solved.open_sends, False)]
    marked = [end.append_column("receives", pa.repeat(receives, len(end))) for end, receives in ends]
    return pa.concat_tables(marked, promote_options="default")


def refused_rows(rows: pa.Table) -> pa.Table:
    """Convert rows that could not be read to quarantined ones: a table of `ledto.history.quarantine.PLACED`."""
    columns = {
        "outcome": pa.repeat(QUARANTINED, len(rows)),
        **{
            field.name: rows[field.name] if field.name in rows.column_names else pa.nulls(len(rows), field.type)
            for field in PLACED
            if field.name != "outcome"
        },
    }
    return pa.table(columns).cast(PLACED)


def _origin(rows: pa.Table, row: int) -> ReportOrigin | None:
    """Find where the report of a row comes from; None for row -1."""
    if row < 0:
        return None
    values = {name: rows[name][row].as_py() for name in ("time", "file", "place") if name in rows.column_names}
    return ReportOrigin(rows["process"][row].as_py(), values.get("time"), values.get("file"), values.get("place"))
