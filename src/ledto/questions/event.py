"""An event of a history as a value, and the reading of a few of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ledto.history.run import Run
from ledto.history.tables import Longs

ALWAYS = ("id", "process", "seq", "name", "time")
"""Keys that an event's JSON has even if they say nothing; of the others, those that do."""
KEYS = (
    *(
        *ALWAYS,
        "corrected_time",
        "computation",
        "clock_name",
        "line",
        "causal_time",
        "kind",
        "message",
        "position",
        "missing",
    ),
    *("error", "attributes", "file", "place"),
)
COLUMNS = (
    *("process", "seq", "name", "time", "correction", "causal_time", "kind", "sends", "receives", "attributes"),
    *("error", "clock_name", "line", "missing", "file", "place"),
)


@dataclass(frozen=True, slots=True)
class Event:
    """One event as the history has it."""

    id: str
    """The source's own, or ``process:seq``."""
    process: str
    seq: int
    """The source's number of the event within its process, or its place there, counted from 1."""
    name: str | None
    time: int | None
    """The wall time it came with, in the history's unit."""
    computation: str
    causal_time: int | None
    """The largest wall time in its causal past, its own included; None where nothing in it has a time. A live history takes
    other times for those that it does not believe (`ledto.live.dates`)."""
    kind: str
    sends: str | None
    """The key of the message it sent."""
    receives: str | None
    """The key of the message it received; of several, the first."""
    position: int
    """Its place in history order, from 0."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    error: bool | None = None
    """Whether it tells of a failure; None where nothing is known."""
    correction: int | None = None
    """What is to be added to the wall time so that no effect comes before its cause; None where it has no time."""
    clock_name: str | None = None
    """The clock that the time was read from, if it is not the process's own."""
    line: str | None = None
    """What its process was doing: a request, a task, a span. None: the event is on the process's main line."""
    missing: tuple[str, ...] = ()
    """Causes that the event names and nobody reported."""
    file: str | None = None
    place: int | None = None
    """Where the source has it: file, and line or row."""

    @property
    def message(self) -> str | None:
        """The key of the message it received, or else of the one it sent."""
        return self.receives or self.sends

    @property
    def corrected_time(self) -> int | None:
        """The wall time, moved as little as causality demands."""
        return None if self.time is None else self.time + (self.correction or 0)

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`: the five keys of `ALWAYS`, and the others that say something, or something else."""
        every = {name: getattr(self, name) for name in KEYS}
        if not self.correction:
            del every["corrected_time"]
        if not self.error:
            del every["error"]
        return {name: value for name, value in every.items() if name in ALWAYS or value not in (None, "", {}, ())}


def events_at(run: Run, positions: Longs | Sequence[int]) -> tuple[Event, ...]:
    """The events at these positions, in the order given."""
    asked = np.asarray(positions, np.int64)
    if not len(asked):
        return ()
    columns = event_columns(run)
    rows = run.rows(asked, columns)
    return events_from(run, {name: _values(rows[name]) for name in columns}, asked)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """As `to_pylist`, in less time for what most columns hold."""
    if column.null_count == len(column):
        return [None] * len(column)
    if pa.types.is_string(column.type) or (pa.types.is_integer(column.type) and not column.null_count):
        found: list[Any] = column.to_numpy().tolist()
        return found
    return column.to_pylist()  # type: ignore[no-any-return]


def event_columns(run: Run) -> list[str]:
    """The columns that an `Event` is made of."""
    more = ["id"] if run.manifest.has_ids else []
    more += ["computation"] if run.manifest.computations != 1 else []
    return [*COLUMNS, *more, *run.manifest.native_columns]


def events_from(run: Run, columns: dict[str, list[Any]], positions: Longs) -> tuple[Event, ...]:
    """Events from lists of the columns that `event_columns` names."""
    natives = run.manifest.native_columns
    only = run.processes.computation_of(0) if "computation" not in columns else ""
    return tuple(
        Event(
            id=(columns["id"][row] if "id" in columns else None) or f"{columns['process'][row]}:{columns['seq'][row]}",
            process=columns["process"][row],
            seq=columns["seq"][row],
            name=columns["name"][row],
            time=columns["time"][row],
            computation=columns["computation"][row] if "computation" in columns else only,
            causal_time=columns["causal_time"][row],
            kind=columns["kind"][row],
            sends=columns["sends"][row],
            receives=columns["receives"][row],
            position=position,
            attributes=_attributes(columns, row, natives),
            error=columns["error"][row],
            correction=columns["correction"][row],
            clock_name=columns["clock_name"][row],
            line=columns["line"][row],
            missing=tuple(columns["missing"][row] or ()),
            file=columns["file"][row],
            place=columns["place"][row],
        )
        for row, position in enumerate(positions.tolist())
    )


def _attributes(columns: dict[str, list[Any]], row: int, natives: Sequence[str]) -> dict[str, Any]:
    text = columns["attributes"][row]
    found: dict[str, Any] = json.loads(text) if text else {}
    for name in natives:
        if (value := columns[name][row]) is not None:
            found[name] = value if isinstance(value, (str, int, float, bool, list, dict)) else str(value)
    return found
