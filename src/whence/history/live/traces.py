"""Traces of a stream: gathered until nothing more comes of them, then solved whole.

A trace is whole when its reports have been quiet for a while. What comes of it after that is a computation of its own,
``TRACE (late)``, whose spans say which parents they miss. Where a trace ends depends on its own reports and their arrivals,
not on micro-batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from whence.causality.skeleton import Skeleton
from whence.events.schema import SPAN, START
from whence.history.instancing import OF_TRACE, with_lines
from whence.history.live.chain import Part
from whence.history.live.dating import DATED
from whence.history.live.late_names import late_name
from whence.history.segmenting import count_processes, events_table, solve_whole

Longs = NDArray[np.int64]

Trace = tuple[str, int]
"""A trace and the number of a part of it."""


def last_dates(rows: pa.Table) -> dict[Trace, int]:
    """By trace and part: the last date of its rows."""
    found = rows.group_by(["computation", "part"]).aggregate([(DATED, "max")])
    columns = (found[name].to_pylist() for name in ("computation", "part", f"{DATED}_max"))
    return {(trace, part): last for trace, part, last in zip(*columns, strict=True)}


def assign(rows: pa.Table, current: dict[str, tuple[int, int]], closed: Mapping[str, int], *, quiet: int) -> pa.Table:
    """New rows of traces, in order of arrival, each with the part of its trace that it belongs to.

    `closed` has, by trace, the part after those that are closed; `current` the part that was last assigned and the last
    date in it, and is brought up to date.
    """
    parts = []
    arrivals, dated = rows["arrival"].to_numpy().tolist(), rows[DATED].to_numpy().tolist()
    for row, trace in enumerate(rows["computation"].to_pylist()):
        part, last = current.get(trace, (closed.get(trace, 0), dated[row]))
        if trace in current and arrivals[row] > last + quiet:
            part, last = part + 1, dated[row]
        current[trace] = (part, max(last, dated[row]))
        parts.append(part)
    return rows.set_column(rows.column_names.index("part"), "part", pa.array(parts, pa.int64()))


def solve_traces(rows: pa.Table) -> Part:
    """The segment of these rows, which are whole computations."""
    time = rows["time"]
    # Within a trace no two clocks are compared, so only what a clock claims of the future is not believed.
    ahead = pc.fill_null(pc.less(rows[DATED], time), True)
    believed = pc.if_else(ahead, rows[DATED], time)
    rows = _named(
        rows.set_column(rows.column_names.index("time"), "time", believed).drop_columns([DATED, "part"]), rows
    )
    lined = with_lines(rows)
    solved, names = solve_whole(lined, first_come=True)
    events = events_table(lined, solved, 0)
    taken = pa.array(solved.table_rows)
    correction = pc.subtract(pc.add(events["correction"], believed.take(taken)), time.take(taken))
    events = events.set_column(events.column_names.index("correction"), "correction", correction)
    events = events.set_column(events.column_names.index("time"), "time", time.take(taken))
    rows = rows.take(taken)
    events = _with_unstarted(events, rows)
    found = solved.placed.skeleton
    return Part(
        events,
        solved.table_rows,
        Skeleton(found.process, found.offsets, found.back),
        None,
        count_processes(names, found, events),
        solved.aside.table(lined.drop_columns(["uid", "emitted"])),
        solved.lag,
        tuple(_heard(rows)),
    )


def _named(rows: pa.Table, parts: pa.Table) -> pa.Table:
    """The rows, whose computations are named after the parts of traces that they are."""
    columns = (parts[name].to_pylist() for name in ("computation", "part"))
    names = [late_name(trace, part) for trace, part in zip(*columns, strict=True)]
    return rows.set_column(rows.column_names.index("computation"), "computation", pa.array(names, pa.string()))


def _with_unstarted(events: pa.Table, rows: pa.Table) -> pa.Table:
    """The events, of which those of spans that nobody reports the start of say so: `rows` are theirs."""
    said = list(
        zip(*(rows[name].to_pylist() for name in ("computation", "instance_key", "instance_phase")), strict=True)
    )
    started = {(computation, key) for computation, key, phase in said if phase == START}
    if all((computation, key) in started for computation, key, _ in said):
        return events
    missing = [
        known if (computation, key) in started else sorted({*(known or ()), _span(computation, key)})
        for (computation, key, _), known in zip(said, events["missing"].to_pylist(), strict=True)
    ]
    at = events.column_names.index("missing")
    return events.set_column(at, "missing", pa.array(missing, pa.list_(pa.string())))


def _span(computation: str, key: str) -> str:
    """What a span goes by where it is missing, as `whence.history.instancing` tells it."""
    trace, _, span = f"{computation}{OF_TRACE}{key}".rpartition(OF_TRACE)
    return f"{SPAN}{trace.rpartition(OF_TRACE)[2]}/{span}"


def _heard(rows: pa.Table) -> Iterator[tuple[int, str, int]]:
    """By event: the span it was started from, or the one it belongs to, and when the report of that span's start arrived."""
    names = ("computation", "instance_key", "instance_parent", "instance_phase", "arrival")
    said = list(zip(*(rows[name].to_pylist() for name in names), strict=True))
    started: dict[tuple[str, str], int] = {}
    for computation, key, _, phase, arrival in said:
        if phase == START:
            started[computation, key] = min(arrival, started.get((computation, key), arrival))
    for place, (computation, key, parent, phase, _) in enumerate(said):
        named = parent if phase == START else key
        if named is not None and (computation, named) in started:
            yield place, _span(computation, named), started[computation, named]
