"""What a task does with the rows of one window: solve, write the segment, and say what the other windows must know."""

from __future__ import annotations

import json
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
from ledto.history.gone import Gone, gone_from
from ledto.history.quarantine import DUPLICATE, PLACED, QUARANTINED, count_codes
from ledto.history.sealed import write_sealed_table
from ledto.history.store import Store
from ledto.history.window.columns import BETWEEN, numbered_names
from ledto.history.window.holes import SegmentHoles, told_by
from ledto.history.window.lines import SegmentLines, lines_of
from ledto.history.window.plan import WindowPlan
from ledto.history.window.solve import SegmentWindow, Solved, solve
from ledto.history.write import SegmentFiles, write_aside, write_segment

FEW_TEXTS = 2_000
"""Attributes of so many different texts are read faster than a database is opened."""
ATTRIBUTES_AT_ONCE = 1 << 16
ON_THE_WAY = (
    *("window", "own", "reason", "text", "receives_more"),
    *("line_parent", "line_phase", "line_joins", "line_since", "channel_key", "channel_bytes"),
    *("dated", "wall", "emitted", "uid"),
)
"""Columns that only the way here needs."""


LINE_COLUMNS = ("line", "line_parent", "line_phase", "line_joins", "line_since", "kind")
"""Columns that tell of lines."""


@dataclass(frozen=True, slots=True)
class Counts:
    """A segment's processes, each with what it has in the segment."""

    computations: tuple[str, ...]
    names: tuple[str, ...]
    clocks: tuple[str | None, ...]
    """Whose clock each one's times are from, if not its own."""
    events: NDArray[np.int64]
    first_seq: NDArray[np.int64]
    """Given by the source; 0 where it gave none."""
    last_seq: NDArray[np.int64]
    first_time: NDArray[np.int64]
    """`NO_TIME` where no event has one."""
    last_time: NDArray[np.int64]
    told: SegmentHoles

    def processes(self) -> Iterator[tuple[str, str]]:
        """Each process with its computation."""
        return zip(self.computations, self.names, strict=True)


@dataclass(frozen=True, slots=True)
class SegmentResult:
    """A segment as its task made it, before the segments are joined. Pickles."""

    window: int
    rows: int
    counts: Counts
    files: SegmentFiles | None
    """None for a segment without events."""
    aside_file: str | None
    open_file: str | None
    """Causes outside the segment, and events that may be causes outside it."""
    first_causal_time: int
    last_causal_time: int
    duplicates: int
    quarantined: int
    reasons: Counter[str]
    attributes: tuple[str, ...]
    lag: int
    """The largest excess of a causal time over its wall time."""
    lag_event: str
    """Where that was, in words."""
    missing: int
    """Events with a cause that they name and nobody reported."""
    clock_lag: int
    """`lag` without causes that are only assumed."""
    gone: tuple[Gone, ...]
    """Reports that were set aside, and whose processes are known."""


@dataclass(frozen=True, slots=True)
class SegmentTarget:
    """Where tasks write."""

    store: Store
    run: str


def make_segment(rows: pa.Table, window: int, plan: WindowPlan, target: SegmentTarget) -> SegmentResult:
    """Solve one window, whose rows `rows` are, and write its segment.

    May run twice for one window, at once or one after the other: each run writes files of its own.
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
    aside = pa.concat_tables([refused_rows(refused), solved.aside.table(good)])
    aside = aside.sort_by([(name, "ascending") for name in ("file", "place", "outcome", "reason")])
    events = events_table(good, solved, window)
    outcomes = Counter(aside["outcome"].to_pylist())
    counts = count_processes(names, solved.placed.skeleton, events)
    files = aside_file = open_file = None
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
    if len(aside):
        aside_file = write_aside(target.store, target.run, aside, attempt=f"{window:05d}-{attempt}")
    if len(solved.open_receives) or len(solved.open_sends):
        open_file = write_sealed_table(target.store, target.run, f"open-{window:05d}-{attempt}", open_table(solved))
    known = solved.placed_time[solved.placed_time != NO_TIME]
    return SegmentResult(
        window,
        len(events),
        counts,
        files,
        aside_file,
        open_file,
        int(known[0]) if len(known) else 0,
        int(known[-1]) if len(known) else 0,
        outcomes[DUPLICATE],
        outcomes[QUARANTINED],
        count_codes(aside),
        attribute_names(events),
        solved.lag,
        _describe(good, solved.lag_row),
        len(events) - events["missing"].null_count,
        solved.clock_lag,
        tuple(gone_from(aside)),
    )


def segment_lines(rows: pa.Table, solved: Solved, names: Sequence[tuple[str, str]]) -> SegmentLines | None:
    """Find what the events of a segment follow in their processes, which are `names`, each with its computation."""
    told = [column for column in LINE_COLUMNS if column in rows.column_names]
    taken = rows.select(told).take(pa.array(solved.table_rows))
    # Without lines, all that may have led to an event would count as recorded.
    guessed = bool(solved.placed.assumed.any() or pc.any(solved.open_sends["twice"]).as_py())
    process = solved.placed.skeleton.process
    return lines_of(taken, process, [f"{computation}\0{name}" for computation, name in names], always=guessed)


def solve_whole(rows: pa.Table, *, first_come: bool = False) -> tuple[Solved, list[tuple[str, str]]]:
    """Whole computations, and their processes, each with its computation; `first_come` as for `solve`.

    Several are solved as one, in which processes and keys are told apart by the computation they belong to.
    """
    computations = sorted(pc.unique(rows["computation"]).to_pylist())
    if len(computations) == 1:
        names = sorted(pc.unique(rows["process"]).to_pylist())
        return solve(rows, names, SegmentWindow(), first_come=first_come), [(computations[0], name) for name in names]
    own = numbered_names(rows["computation"], computations)
    together = rows
    for at, name in enumerate(rows.column_names):
        if name in ("process", "sends", "receives", "id"):
            told_apart = pc.binary_join_element_wise(own, rows[name].cast(pa.string()), BETWEEN)
            together = together.set_column(at, name, told_apart)
        elif name == "receives_more":
            pairs = zip(own.to_pylist(), rows[name].to_pylist(), strict=True)
            lists = [None if keys is None else [f"{each}{BETWEEN}{key}" for key in keys] for each, keys in pairs]
            together = together.set_column(at, name, pa.array(lists, pa.list_(pa.string())))
    names = sorted(pc.unique(together["process"]).to_pylist())
    split = [name.partition(BETWEEN) for name in names]
    found = solve(together, names, SegmentWindow(), first_come=first_come, told_apart=True)
    return found, [(computations[int(number)], name) for number, _, name in split]


def events_table(rows: pa.Table, solved: Solved, window: int) -> pa.Table:
    """The segment's events in history order: `layout.EVENTS`, the source's further columns, then ``segment`` and ``nth``."""
    taken = rows.select([name for name in rows.column_names if name not in ON_THE_WAY]).take(
        pa.array(solved.table_rows)
    )
    columns: dict[str, Any] = {}
    for each in layout.EVENTS:
        if each.name == "causal_time":
            time = pa.array(solved.causal_time, mask=solved.causal_time == NO_TIME)
            columns[each.name] = time
        elif each.name == "correction":
            columns[each.name] = pc.if_else(pc.is_valid(columns["time"]), pa.array(solved.correction), None)
        elif each.name == "missing":
            columns[each.name] = solved.missing
        elif each.name in rows.column_names:
            columns[each.name] = _stored(taken[each.name], each)
        else:
            columns[each.name] = _stored(pa.chunked_array([pa.nulls(len(taken), each.type)]), each)
    further = [name for name in rows.column_names if name not in columns and name not in ON_THE_WAY]
    columns |= {name: taken[name] for name in further}
    if (solved.placed_time != solved.causal_time).any():
        columns[layout.PLACED_BY] = pa.array(solved.placed_time, mask=solved.placed_time == NO_TIME)
    columns["segment"] = pa.repeat(pa.scalar(window, pa.int32()), len(taken))
    columns["nth"] = pa.array(solved.placed.nth)
    return pa.table(columns)


def _stored(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    """Give a column the one form in which it is stored, however it came: the same events make the same bytes.

    Columns with few values are dictionaries whose values stand in the order in which they first occur.
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
    """What each process, given with its computation, has in the segment."""
    count = len(names)
    process = skeleton.process
    seq = events["seq"].fill_null(0).to_numpy()
    time = events["time"].fill_null(NO_TIME).to_numpy()
    first_seq, last_seq = np.zeros(count, np.int64), np.zeros(count, np.int64)
    last_seq[process] = seq
    first_seq[process[::-1]] = seq[::-1]
    first_time = np.full(count, np.iinfo(np.int64).max)
    last_time = np.full(count, NO_TIME)
    known = time != NO_TIME
    np.minimum.at(first_time, process[known], time[known])
    np.maximum.at(last_time, process[known], time[known])
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
        told_by(events, skeleton, count),
    )


def _clocks(process: NDArray[np.int32], count: int, clock_names: pa.ChunkedArray) -> tuple[str | None, ...]:
    """Of each process: the clock of its first event."""
    if clock_names.null_count == len(clock_names):
        return (None,) * count
    first = np.full(count, -1, np.int64)
    first[process[::-1]] = np.arange(len(process))[::-1]
    return tuple(clock_names.take(pa.array(first, mask=first < 0)).to_pylist())


def open_table(solved: Solved) -> pa.Table:
    """Both sorts of open ends in one file, told apart by ``receives``."""
    ends = [(solved.open_receives, True), (solved.open_sends, False)]
    told = [end.append_column("receives", pa.repeat(receives, len(end))) for end, receives in ends]
    return pa.concat_tables(told, promote_options="default")


def attribute_names(events: pa.Table) -> tuple[str, ...]:
    """All names that occur in the attributes of the events."""
    if events["attributes"].null_count == len(events):
        return ()
    found: set[str] = set()
    # In parts: all texts together would be held twice.
    for start in range(0, len(events), ATTRIBUTES_AT_ONCE):
        found |= _names_in(pc.unique(events["attributes"].slice(start, ATTRIBUTES_AT_ONCE).drop_null()))
    return tuple(sorted(found))


def _names_in(texts: pa.Array) -> set[str]:
    if len(texts) <= FEW_TEXTS:
        return {name for text in texts.to_pylist() for name in json.loads(text)}
    import duckdb  # Few logs need it, and every log would wait for it.

    with duckdb.connect(config={"threads": 1}) as database:
        database.register("events", pa.table({"attributes": texts}))
        found = database.execute("SELECT DISTINCT unnest(json_keys(attributes)) FROM events").fetchall()
    return {name for (name,) in found}


def refused_rows(rows: pa.Table) -> pa.Table:
    """Rows that could not be read, as they are set aside: a table of `ledto.history.quarantine.PLACED`."""
    columns = {
        "outcome": pa.repeat(QUARANTINED, len(rows)),
        **{
            each.name: rows[each.name] if each.name in rows.column_names else pa.nulls(len(rows), each.type)
            for each in PLACED
            if each.name != "outcome"
        },
    }
    return pa.table(columns).cast(PLACED)


def _describe(rows: pa.Table, row: int) -> str:
    if row < 0:
        return ""
    found = {
        name: rows[name][row].as_py() for name in ("process", "time", "file", "place") if name in rows.column_names
    }
    return f"the event of {found['process']!r} at {found.get('time')} ({found.get('file')}, {found.get('place')})"
