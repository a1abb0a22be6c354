"""Traces of a stream: gathered until nothing more comes of them, then solved whole.

A trace is whole when its reports have been quiet for a while. What comes of it after that is a computation of its own,
``TRACE (late)``, whose spans say which parents they miss. Where a trace ends depends on its own reports and their arrivals,
not on micro-batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from whence.causality.skeleton import Skeleton
from whence.events.schema import SPAN, START
from whence.history.instancing import with_lines
from whence.history.live.chain import Part
from whence.history.live.dating import DATED
from whence.history.segmenting import count_processes, events_table, solve_whole

Longs = NDArray[np.int64]

LATE = " (late"


def last_dates(rows: pa.Table) -> dict[str, int]:
    """By computation: the last date of its rows."""
    found = rows.group_by("computation").aggregate([(DATED, "max")])
    return dict(zip(found["computation"].to_pylist(), found[f"{DATED}_max"].to_pylist(), strict=True))


def assign(rows: pa.Table, current: dict[str, tuple[str, int]], closed: Iterable[str], *, quiet: int) -> pa.Table:
    """New rows of traces, in order of arrival, each with the computation it belongs to.

    `current` has, by trace, the computation that was last assigned and the last date in it, and is brought up to date.
    """
    taken = closed if isinstance(closed, set | frozenset) else set(closed)
    names = rows["computation"].to_pylist()
    arrivals, dated = rows["arrival"].to_numpy().tolist(), rows[DATED].to_numpy().tolist()
    for row, trace in enumerate(names):
        name, last = current.get(trace, (trace, arrivals[row]))
        if (trace not in current and name in taken) or arrivals[row] > last + quiet:
            name = _next(trace, name, taken)
            last = dated[row]
        current[trace] = (name, max(last, dated[row]))
        names[row] = name
    return rows.set_column(rows.column_names.index("computation"), "computation", pa.array(names, pa.string()))


def _next(trace: str, name: str, taken: set[str] | frozenset[str]) -> str:
    """A name that the trace has not had."""
    number = 1
    if name != trace:
        number = int(name[len(trace) + len(LATE) : -1] or 1) + 1
    while (found := f"{trace}{LATE}{'' if number == 1 else f' {number}'})") in taken:
        number += 1
    return found


def solve_traces(rows: pa.Table) -> Part:
    """The segment of these rows, which are whole computations."""
    time = rows["time"]
    # Within a trace no two clocks are compared, so only what a clock claims of the future is not believed.
    ahead = pc.fill_null(pc.less(rows[DATED], time), False)
    believed = pc.if_else(ahead, rows[DATED], time)
    lined = with_lines(rows.set_column(rows.column_names.index("time"), "time", believed).drop_columns([DATED]))
    solved, names = solve_whole(lined)
    events = events_table(lined, solved, 0)
    taken = pa.array(solved.table_rows)
    correction = pc.subtract(pc.add(events["correction"], believed.take(taken)), time.take(taken))
    events = events.set_column(events.column_names.index("correction"), "correction", correction)
    events = events.set_column(events.column_names.index("time"), "time", time.take(taken))
    found = solved.placed.skeleton
    return Part(
        events,
        solved.table_rows,
        Skeleton(found.process, found.offsets, found.back),
        None,
        count_processes(names, found, events),
        solved.aside.table(lined),
        solved.lag,
        tuple(_heard(rows.take(taken))),
    )


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
            yield place, f"{SPAN}{computation}/{named}", started[computation, named]
