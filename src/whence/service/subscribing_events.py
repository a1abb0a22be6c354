"""Find the event of a delivery in the newest history.

An event with an id or a number is found by it. Others are found by their report: its file and place, time, name and kind.
Their number within the process may still change while reports come in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from whence.history.errors import AmbiguousEvent, EventNotFound
from whence.history.questions.event import Event
from whence.history.questions.history import History

ORIGIN = ("file", "place")
REPORTED = ("time", "name", "kind")


def find_delivered_event(history: History, row: dict[str, Any]) -> Event | None:
    """Find the event of a row of the delivery log; None if the history does not have it."""
    for event in _find_by_name(history, row):
        if all(getattr(event, name) == row[name] for name in REPORTED):
            return event
    return _find_by_report(history, row)


def _find_by_name(history: History, row: dict[str, Any]) -> Iterator[Event]:
    if row["id"] is None and row["seq"] is None:
        return
    name = f"{row['process']}:{row['seq']}" if row["id"] is None else row["id"]
    # Traces that turn out to be linked become one computation, with the name of one of them.
    for computation in (row["computation"], None):
        try:
            yield history.event(name, computation=computation)
        except (EventNotFound, AmbiguousEvent):
            continue


def _find_by_report(history: History, row: dict[str, Any]) -> Event | None:
    """Search the segments that may have the event, earliest first. Its causal time is never before its time."""
    run = history.run
    segments = run.segments
    wanted = [name for name in (*ORIGIN, *REPORTED) if name in REPORTED or row[name] is not None]
    order = np.argsort(segments.first_causal_time, kind="stable")
    if row["time"] is not None:
        order = order[segments.last_causal_time[order] >= row["time"]]
    for number in order.tolist():
        rows = run.events(number, wanted, 0, int(segments.rows[number]))
        matches = np.ones(len(rows), np.bool_)
        for name in wanted:
            matches &= _equal(rows[name], row[name])
        for index in np.flatnonzero(matches).tolist():
            event = history.event(int(segments.first_position[number]) + index)
            # A thread of a traced process is a process of its own in the history, with the traced process's clock.
            if row["process"] in (event.process, event.clock_name):
                return event
    return None


def _equal(column: pa.ChunkedArray, value: Any) -> NDArray[np.bool_]:
    equal = pc.is_null(column) if value is None else pc.fill_null(pc.equal(column, value), False)
    mask: NDArray[np.bool_] = equal.to_numpy()
    return mask
