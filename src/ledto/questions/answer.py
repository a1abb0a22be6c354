"""What all answers share: tables for Arrow, pandas and polars, and how Python and notebooks show them.

A question's own module derives its answer from `Answer`, or from `EventAnswer` if it lists events:

    >>> import ledto
    >>> why = ledto.open("shop.history").why("shop:2")
    >>> why.to_arrow().select(["role", "id", "name"]).to_pylist()[-1]
    {'role': 'asked', 'id': 'shop:2', 'name': 'order paid'}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ledto.extras import name_missing_extra
from ledto.history.times import PER_SECOND
from ledto.questions.event import Event

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from ledto.questions.path import ListedEdge

ASKED, FOUND, CAUSE, EFFECT, POSSIBLE, CONCURRENT = "asked", "found", "cause", "effect", "possible", "concurrent"
LAST, SENT, RECEIVED = "last", "sent", "received"
"""The roles of events in answers. The last three are of a cut: the last event of a process, and a message under way."""

EVENT_FIELDS = pa.schema(
    [
        ("position", pa.int64()),
        ("id", pa.string()),
        ("computation", pa.string()),
        ("process", pa.string()),
        ("seq", pa.int64()),
        ("name", pa.string()),
        ("kind", pa.string()),
        ("sends", pa.string()),
        ("receives", pa.string()),
        ("time", pa.int64()),
        ("corrected_time", pa.int64()),
        ("causal_time", pa.int64()),
        ("line", pa.string()),
        ("clock_name", pa.string()),
        ("error", pa.bool_()),
        ("missing", pa.list_(pa.string())),
        ("attributes", pa.string()),
        ("file", pa.string()),
        ("place", pa.int64()),
    ]
)
"""Columns of a table of events: the fields of `Event`, with the attributes as JSON."""


@dataclass(frozen=True, slots=True)
class ShownEvents:
    """Events that a notebook draws."""

    events: Sequence[tuple[str, Event]]
    """Each with its role."""
    total: int
    """How many the answer has."""
    steps: Sequence[ListedEdge] = ()
    """Steps between them; empty if the answer does not know them."""


class Answer:
    """The base of all answers."""

    __slots__ = ()

    def to_json(self) -> Any:
        """Make what `--json` prints."""
        raise NotImplementedError

    def to_arrow(self) -> pa.Table:
        """Make an Arrow table of what the answer lists."""
        raise NotImplementedError

    def to_pandas(self) -> pd.DataFrame:
        """Make a pandas table of what the answer lists; needs ``ledto[notebook]``.

        Integers and booleans have pandas' types with nulls: as floats, times in nanoseconds would be rounded.
        """
        with name_missing_extra():
            import pandas
        sizes = [f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)]
        types = {pa.type_for_alias(size.lower()): getattr(pandas, f"{size}Dtype")() for size in sizes}
        types[pa.bool_()] = pandas.BooleanDtype()
        return self.to_arrow().to_pandas(types_mapper=types.get)

    def to_polars(self) -> pl.DataFrame:
        """Make a polars table of what the answer lists; needs ``ledto[polars]``."""
        with name_missing_extra():
            import polars
        table = polars.from_arrow(self.to_arrow())
        if isinstance(table, polars.Series):
            raise TypeError("an answer has columns")
        return table

    def summary(self) -> str:
        """Say in one line what the answer is."""
        raise NotImplementedError

    def notes(self) -> Sequence[str]:
        """List sentences on what the answer leaves out, or cannot know."""
        return ()

    def shown_events(self, most: int) -> ShownEvents | None:
        """Choose up to `most` events to draw; None for an answer that is not about events."""
        return None

    def shown_rows(self, most: int) -> tuple[pa.Table, int | None]:
        """Give the first rows of the table, and how many it has; None if that would take long to count."""
        table = self.to_arrow()
        return table.slice(0, most), len(table)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.summary()})"

    def _repr_html_(self) -> str:
        """Draw the answer for a notebook: the space-time diagram of its events, and a table."""
        from ledto.web.notebook import draw_answer

        return draw_answer(self)


class EventAnswer(Answer):
    """The base of answers that list events."""

    __slots__ = ()

    def listed(self) -> Sequence[tuple[str, Event]]:
        """List the events of the answer, each with its role."""
        raise NotImplementedError

    def steps_between(self) -> Sequence[ListedEdge]:
        """List the known steps between these events."""
        return ()

    def to_arrow(self) -> pa.Table:
        """Make an Arrow table with a row for each event: its role, and the columns of `EVENT_FIELDS`.

        Where the unit is a part of a second, ``datetime`` is the time as a timestamp in UTC, exact in that unit.
        """
        return event_table(self.listed())

    def shown_events(self, most: int) -> ShownEvents | None:
        """Choose up to `most` events: those nearest to the one that was asked about, or else the first."""
        listed = [*{event.position: (role, event) for role, event in reversed(self.listed())}.values()]
        listed.sort(key=lambda row: row[1].position)
        total = len(listed)
        asked = next((event.position for role, event in listed if role == ASKED), 0)
        nearest = sorted(listed, key=lambda row: abs(row[1].position - asked))[:most]
        return ShownEvents(sorted(nearest, key=lambda row: row[1].position), total, self.steps_between())


def event_table(listed: Iterable[tuple[str, Event]]) -> pa.Table:
    """Make a table of events and their roles."""
    rows = [*listed]
    columns = {name: [getattr(event, name) for _, event in rows] for name in EVENT_FIELDS.names}
    columns["attributes"] = [attributes_text(event.attributes) for _, event in rows]
    columns["missing"] = [list(event.missing) for _, event in rows]
    table = pa.Table.from_pydict(columns, EVENT_FIELDS)
    table = table.add_column(0, "role", pa.array([role for role, _ in rows], pa.string()))
    return with_datetime(table, rows[0][1].unit if rows else "ns")


def with_datetime(table: pa.Table, unit: str) -> pa.Table:
    """Add ``datetime`` before ``time``, if the unit is a part of a second."""
    if unit not in PER_SECOND:
        return table
    moments = table["time"].cast(pa.timestamp(unit, "UTC"))
    return table.add_column(table.column_names.index("time"), "datetime", moments)


def attributes_text(attributes: Mapping[str, Any]) -> str | None:
    """Write attributes as JSON; None if there are none."""
    if not attributes:
        return None
    text = json.dumps(dict(attributes), ensure_ascii=False, default=str)
    try:
        text.encode()
    except UnicodeEncodeError:  # Half of a surrogate pair, which only an escape can express.
        return json.dumps(dict(attributes), default=str)
    return text


def count(number: int, thing: str) -> str:
    """Write a number with its noun: ``1 cause``, ``2 causes``."""
    plural = f"{thing}es" if thing.endswith("ss") else f"{thing}s"
    return f"{number:,} {thing if number == 1 else plural}"


def name_event(event: Event) -> str:
    """Name an event in a summary."""
    return event.id if event.name is None else f"{event.id} {event.name!r}"
