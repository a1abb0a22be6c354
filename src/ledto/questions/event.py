"""Read events of a history as values."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ledto.history.run import Run
from ledto.history.tables import Longs
from ledto.history.times import to_datetime

ALWAYS = ("id", "process", "seq", "name", "time")
"""Keys that the JSON of every event has, null or not."""
KEYS = (
    *ALWAYS,
    *("corrected_time", "computation", "clock_name", "line", "causal_time", "kind", "message", "position", "missing"),
    *("error", "attributes", "file", "place"),
)
"""All keys, in the order of the JSON."""
COLUMNS = (
    *("process", "seq", "name", "time", "correction", "causal_time", "kind", "sends", "receives", "attributes"),
    *("error", "clock_name", "line", "missing", "file", "place"),
)
"""The stored columns that every history has and an `Event` is made of."""


@dataclass(frozen=True, slots=True, repr=False)
class Event:
    """An event of a history."""

    id: str
    """The id that its source gave it, or ``process:seq``."""
    process: str
    seq: int
    """The number that its source gave it within its process, or else its place there, from 1."""
    name: str | None
    time: int | None
    """The wall time that was reported, in the history's unit."""
    computation: str
    """The computation it is part of."""
    causal_time: int | None
    """The largest wall time in its causal past, its own included; None if there is none. A live history replaces times
    that it does not believe (`ledto.live.dates`)."""
    kind: str
    """``local``, ``send`` or ``receive``."""
    sends: str | None
    """The key of the message it sent."""
    receives: str | None
    """The key of the message it received, or of the first of several."""
    position: int
    """Its number in history order, from 0."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """What else was reported with it."""
    error: bool | None = None
    """Whether it reports a failure; None if that is not known."""
    correction: int | None = None
    """What to add to the wall time so that no effect comes before its cause; None without a time."""
    clock_name: str | None = None
    """The clock that its time was read from, if that is not the clock of its process."""
    line: str | None = None
    """The line it is part of: a request, a task, a span; None for the main line of its process."""
    missing: tuple[str, ...] = ()
    """Causes that it names and that nobody reported."""
    file: str | None = None
    """Where the report came from."""
    place: int | None = None
    """The line or row of that file."""
    unit: str = field(default="ns", compare=False)
    """The unit of its times, which is that of its history."""

    def __repr__(self) -> str:
        return f"Event({', '.join(f'{name}={getattr(self, name)!r}' for name in ALWAYS)})"

    @property
    def message(self) -> str | None:
        """The key of the message it received, or else of the one it sent."""
        return self.receives or self.sends

    @property
    def corrected_time(self) -> int | None:
        """The wall time, moved as little as causality demands."""
        return None if self.time is None else self.time + (self.correction or 0)

    @property
    def datetime(self) -> dt.datetime | None:
        """`time` in UTC, down to the microsecond; None if there is none, or it is in ticks or outside years 1 to 9999."""
        return to_datetime(self.time, self.unit)

    @property
    def corrected_datetime(self) -> dt.datetime | None:
        """`corrected_time`, as `datetime` gives `time`."""
        return to_datetime(self.corrected_time, self.unit)

    @property
    def causal_datetime(self) -> dt.datetime | None:
        """`causal_time`, as `datetime` gives `time`."""
        return to_datetime(self.causal_time, self.unit)

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints. Keys that are not in `ALWAYS` are left out if they say nothing."""
        values = {name: getattr(self, name) for name in KEYS}
        if not self.correction:
            del values["corrected_time"]
        if not self.error:
            del values["error"]
        return {name: value for name, value in values.items() if name in ALWAYS or value not in (None, "", {}, ())}


def events_at(run: Run, positions: Longs | Sequence[int]) -> tuple[Event, ...]:
    """Read the events at these positions, in the same order."""
    places = np.asarray(positions, np.int64)
    if not len(places):
        return ()
    columns = event_columns(run)
    rows = run.rows(places, columns)
    return events_from(run, {name: _values(rows[name]) for name in columns}, places)


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Do as `to_pylist`, but faster for common types."""
    if column.null_count == len(column):
        return [None] * len(column)
    if pa.types.is_string(column.type) or (pa.types.is_integer(column.type) and not column.null_count):
        values: list[Any] = column.to_numpy().tolist()
        return values
    return column.to_pylist()  # type: ignore[no-any-return]


def event_columns(run: Run) -> list[str]:
    """List the stored columns that an `Event` is made of in this history."""
    more = ["id"] if run.manifest.has_ids else []
    more += ["computation"] if run.manifest.computations != 1 else []
    return [*COLUMNS, *more, *run.manifest.native_columns]


def events_from(run: Run, columns: dict[str, list[Any]], positions: Longs) -> tuple[Event, ...]:
    """Make events from lists of the columns of `event_columns`."""
    natives, unit = run.manifest.native_columns, run.manifest.unit
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
            unit=unit,
        )
        for row, position in enumerate(positions.tolist())
    )


def _attributes(columns: dict[str, list[Any]], row: int, natives: Sequence[str]) -> dict[str, Any]:
    """Collect the attributes of a row: from its JSON, and from the further columns of its source."""
    text = columns["attributes"][row]
    attributes: dict[str, Any] = json.loads(text) if text else {}
    for name in natives:
        if (value := columns[name][row]) is not None:
            attributes[name] = value if isinstance(value, (str, int, float, bool, list, dict)) else str(value)
    return attributes
