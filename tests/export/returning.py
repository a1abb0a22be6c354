"""Exports brought back: read by a source, solved as the pipeline does it, and compared with what is true of the original."""

from __future__ import annotations

import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ledto.batch.join import join
from ledto.batch.number import number_segments
from ledto.events.schema import REPORTS
from ledto.export import Selection, causes, choose, export
from ledto.export import events as stretches
from ledto.export.names import DELIMITER, escape_host
from ledto.history import layout
from ledto.history.draft import Draft
from ledto.history.window.plan import WindowPlan
from ledto.history.window.segment import SegmentTarget, make_segment
from ledto.questions import RELATIONS, History
from ledto.sources import FileSlice, Source
from ledto.sources.native.lines import JsonLines
from ledto.sources.shiviz.source import ShiViz
from tests.history.building import Made, draw, write_history
from tests.history.manifests import description

PROCESSES = ("a b", 'c"\\d', "é\u2028f", "constructor", "=== g ===", "h {1}", "\ufeffi\u00a0j", "k\n\tl\r", "a\\x20b")
"""No two may become one, and none may break a line, an expression or JSON."""
NAMES = (
    *("", None, "plain", "two\nlines", 'host {"host":9}', " {}", "=== trace ===", "x\r\ny", "{a} {b}", "GET {id} {x}"),
    *("\u2028\u2029\x85", "=1+1", '"quoted", comma', "日本 🙂", "\\n", "\x01\x7f"),
)
COMPUTATIONS = ("", "a b", "=== c ===", "f" * 32)


def hard(random: Random, *, small: int, untimed: bool = False) -> tuple[list[Made], list[list[Made]]]:
    """A large computation and some small ones, with names that are hard to write."""
    names = random.sample(COMPUTATIONS, len(COMPUTATIONS))
    large = draw(random, names[0], random.randint(1, 5), random.randint(1, 50), gaps=True, untimed=untimed)
    others = [draw(random, name, 2, 8, gaps=True, untimed=untimed) for name in names[1 : 1 + small]]
    for events in (large, *others):
        chosen = random.sample(PROCESSES, 5)
        for event in events:
            event.process = chosen[int(event.process[1:])]
            event.name = random.choice(NAMES)
            event.error = random.choice((True, False, None))
            if random.random() < 0.2:
                # Spans and lost messages make events whose kind does not say what they have to do with others.
                event.kind = random.choice(("local", "send", "receive"))
    return large, others


@contextmanager
def hard_history(seed: int) -> Iterator[tuple[History, list[Made], Random, Path]]:
    """A history of these, cut somewhere, its events by position, what drew them, and a folder.

    Row groups, stretches and what is remembered may be so small that what is done across them matters.
    """
    random = Random(seed)
    sizes = {
        (layout, "EVENT_ROWS"): random.choice((3, 8, 16_384)),
        (layout, "SKELETON_ROWS"): random.choice((2, 5, 65_536)),
        (stretches, "STRETCH_NUMBERS"): random.choice((1, 20, 4_000_000)),
        (causes, "REMEMBERED_NUMBERS"): random.choice((0, 20, 4_000_000)),
    }
    with TemporaryDirectory() as folder, ExitStack() as patched:
        for (module, name), size in sizes.items():
            patched.enter_context(patch.object(module, name, size))
        large, others = hard(random, small=random.randint(0, 3), untimed=random.random() < 0.3)
        cuts = random.sample(range(1, len(large)), min(3, len(large) - 1))
        place = Path(folder) / "original"
        events = write_history(place, [(large, cuts)], [others] if others else [])
        yield History(place), events, random, Path(folder)


def exported(history: History, format: str, **options: Any) -> bytes:
    """What an export writes."""
    sink = io.BytesIO()
    export(history, format, sink, **options)
    return sink.getvalue()


def selections(history: History, events: list[Made], random: Random) -> Iterable[tuple[Selection, list[Made]]]:
    """All events and some parts, with the events that truly belong to them."""
    yield choose(history), events
    one = random.choice(events)
    yield choose(history, computation=one.computation), [e for e in events if e.computation == one.computation]
    names = {random.choice(events).process for _ in range(2)}
    yield choose(history, processes=sorted(names)), [e for e in events if e.process in names]
    k = random.randint(0, 12)
    past = [event for event in events if event.happened_before(one)]
    yield choose(history, around=f"@{one.position}", k=k), [*past[max(0, len(past) - k) :], one]


def rows_of(source: Source, data: bytes) -> pa.Table:
    """What a source reads; fails if it quarantines anything."""

    def open_at(offset: int) -> io.BytesIO:
        stream = io.BytesIO(data)
        stream.seek(offset)
        return stream

    table = pa.Table.from_batches(source.read(FileSlice("export", open_at)), schema=REPORTS)
    assert table["reason"].null_count == len(table), [reason for reason in table["reason"].to_pylist() if reason]
    return table


def shiviz(regex: str, *, several: bool) -> ShiViz:
    """The source that reads a log with vector clocks."""
    return ShiViz(regex=regex, delimiter=DELIMITER if several else None)


def parquet_rows(data: bytes) -> pa.Table:
    """A Parquet export by the rules of ledto's own format, which are those of its JSON."""
    fields = (
        *("computation", "process", "seq", "time", "kind", "sends", "receives", "id", "name", "error"),
        *("line", "line_parent", "line_phase", "line_joins"),
    )
    kept = [
        {name: row[name] for name in fields if row[name] is not None}
        for row in pq.read_table(io.BytesIO(data)).to_pylist()
    ]
    return rows_of(JsonLines(), "\n".join(json.dumps(row) for row in kept).encode())


def brought_back(folder: Path, rows: pa.Table) -> History:
    """A history of these rows."""
    plan = WindowPlan(1, (), 0)
    rows = rows.append_column("own", pa.repeat(True, len(rows)))
    rows = rows.append_column("window", pa.repeat(0, len(rows)))
    with Draft(folder) as draft:
        target = SegmentTarget(draft.store, draft.run)
        made = [make_segment(rows, 0, plan, target)]
        assert (made[0].rows, made[0].quarantined) == (len(rows), 0), made[0].reasons
        joined = join(made, plan, target, lambda windows, keys: pa.table({}))
        tables = number_segments(made, plan, target, joined)
        draft.commit(description(), tables.segments, tables.processes)
    return History(folder)


def same_relations(back: History, kept: list[Made], *, clocks: bool) -> None:
    """Every pair of events stands as it did; with `clocks`, events are known by spelt names and places among the kept."""
    several = len({event.computation for event in kept}) > 1
    seen: dict[tuple[str, str], int] = defaultdict(int)
    original: dict[tuple[str, str, int], Made] = {}
    for event in kept:
        name = (event.computation, event.process)
        seen[name] += 1
        if clocks:
            original[escape_host(name[0]) if several else "", escape_host(name[1]), seen[name]] = event
        else:
            original[(*name, event.seq)] = event
    found = [*back.order()]
    events = [original[each.computation, each.process, each.seq] for each in found]
    if not clocks:
        assert [each.error for each in found] == [event.error for event in events]
    assert len(events) == len(kept) == len({id(event) for event in events})
    doubtful = set() if clocks else _doubtful(back, kept)
    one, other = (each.ravel() for each in np.meshgrid(np.arange(len(events)), np.arange(len(events)), indexing="ij"))
    for first, second, found in zip(one.tolist(), other.tolist(), back.relations(one, other).tolist(), strict=True):
        a, b = events[first], events[second]
        expected = (
            "equal"
            if a is b
            else "before"
            if a.happened_before(b)
            else "after"
            if b.happened_before(a)
            else "unknown"
            if a.computation == b.computation and {id(a), id(b)} & doubtful
            else "concurrent"
        )
        assert RELATIONS[found].value == expected, (a, b)


def _doubtful(back: History, kept: list[Made]) -> set[int]:
    """Ids of the events in whose past a number is left out, or a process that tells of no message."""
    processes = back.processes()
    members = Counter(each.computation for each in processes)
    silent = {
        (each.computation, each.process) for each in processes if not each.messages and members[each.computation] > 1
    }
    last: dict[tuple[str, str], int] = {}
    holes = []
    for event in kept:
        name = (event.computation, event.process)
        if name in silent or event.seq - last.get(name, 0) > 1:
            holes.append(event)
        last[name] = event.seq
    return {id(event) for event in kept if any(hole is event or hole.happened_before(event) for hole in holes)}
