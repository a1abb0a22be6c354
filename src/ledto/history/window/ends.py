"""What crosses the ends of a window: causes that its segment names and lacks, and events that other segments may name.

`ledto.history.open_ends` says what the rows of both tables mean, and how they are settled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.order import Edges
from ledto.causality.place import Detour, PlacedRows
from ledto.events.schema import ANSWER
from ledto.history.open_ends import RECEIVES, SENDS
from ledto.history.window.columns import BETWEEN
from ledto.history.window.span_edges import SpanEnds, edges_told, ends_of_groups

Longs = NDArray[np.int64]
Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]

TIED_KEY = f"{ANSWER}{BETWEEN}"
"""What the keys begin with of messages that may have gone out later than they were sent, by a clock that is coarse."""


@dataclass(frozen=True, slots=True, eq=False)
class WindowRows:
    """The rows of a window after they were ordered."""

    keys: pa.Array
    """By label of an edge: the key of the message."""
    sends: Longs
    """By row: the label of what it sends; -1 for nothing."""
    time: Longs
    edges: Edges
    placed: PlacedRows
    member: Flags
    """By row: whether it belongs to the segment, and not to another window."""
    dropped: Flags
    """By row: whether it was set aside."""
    process: Codes
    assumed: Flags
    """By label: whether causes of that key are only assumed."""
    twice: Flags
    """By label: whether two events send it."""

    def places(self) -> Longs:
        """By row: its place in the segment; -1 for none."""
        place = np.full(len(self.process), -1, np.int64)
        place[self.placed.rows] = np.arange(len(self.placed.rows))
        return place


def open_ends(
    rows: WindowRows, spans: SpanEnds, high: int | None, home: Codes, within: Codes
) -> tuple[pa.Table, pa.Table]:
    """Find what the segments of the other windows must settle: rows of `RECEIVES`, and of `SENDS`.

    `high`: where the window ends, if it does. `home` and `within`, by row, are those columns of the two tables; -1 for null.
    """
    keys, sends, edges, placed = rows.keys, rows.sends, rows.edges, rows.placed
    by_key = placed.open_label >= 0
    label = np.where(by_key, placed.open_label, 0)
    received = pa.table(
        {
            "place": pa.array(placed.open_place),
            "key": pc.if_else(pa.array(by_key), keys.take(pa.array(label)), None),
            "process": pa.array(np.where(by_key, -1, -2 - placed.open_label).astype(np.int32)),
            "cause": pa.array(placed.open_cause),
            "named": pa.array(by_key & _named(edges, placed)),
            "home": _codes(home, np.where(placed.open_place >= 0, _rows_at(placed, placed.open_place), -1)),
        },
        RECEIVES,
    )
    if spans.closed_end.any():
        here = placed.open_place >= 0
        idle = edges_told(rows.assumed, placed.open_label) & here & (placed.open_cause < 0)
        idle &= spans.closed_end[_rows_at(placed, placed.open_place)]
        received = received.filter(pa.array(~idle))
    # A message that was received here is nobody else's concern, unless it was sent to several, or so late that others
    # may still receive it. Where that is not enough, the events themselves are looked through.
    known = edges.causes >= 0
    senders, effects = edges.causes[known], edges.effects()[known]
    receives = np.bincount(senders, minlength=len(rows.process))
    settled = receives == 1
    settled[senders[~rows.member[effects]]] = False
    if high is not None and len(senders):
        flight = int((rows.time[effects] - rows.time[senders]).max())
        settled &= rows.time < high - max(0, flight)
    # Hardly anybody follows the start of a span that ends here, too.
    settled |= spans.closed_start
    doubled = edges_told(rows.twice, sends)
    settled &= ~doubled
    place = rows.places()
    # A wait that began before may have had answers before, besides those here.
    waits = np.flatnonzero(known & edges_told(rows.assumed, edges.labels) & spans.open_end[edges.effects()])
    waits = waits[place[edges.effects()[waits]] >= 0]
    if len(waits):
        received = pa.concat_tables([received, _unnamed(rows, place[edges.effects()[waits]], edges.labels[waits])])
    offered = np.flatnonzero((sends >= 0) & rows.member & ~settled)
    there, gone = offered[~rows.dropped[offered]], offered[rows.dropped[offered] & ~doubled[offered]]
    sent = pa.table(
        {
            "key": keys.take(pa.array(sends[there])),
            "place": pa.array(place[there]),
            "within": _codes(within, there),
            "twice": pa.array(doubled[there]),
        }
    )
    instead = _stand_ins(rows, gone, place)
    return received, pa.concat_tables([sent, instead], promote_options="default").select(SENDS.names).cast(SENDS)


def with_open_ties(
    rows: WindowRows, group: Longs | None, received: pa.Table, sent: pa.Table
) -> tuple[pa.Table, pa.Table]:
    """Add to what `open_ends` finds what may cross, since events at one time may have happened in either order.

    `group` is what `ledto.history.window.span_edges.with_ties` takes, which does the same within the window. What crosses
    may have gone out from the last of its sender's group, under a key of its own, and come in at the first of its
    receiver's. A receiver cannot know whether its sender was one of several.
    """
    keys, sends, edges, place = rows.keys, rows.sends, rows.edges, rows.places()
    received = received.filter(pc.fill_null(pc.not_equal(received["key"], ANSWER), True))
    if group is not None:
        first, last = ends_of_groups(group)
        effects = edges.effects()
        inside = (edges.causes >= 0) & (place[np.maximum(edges.causes, 0)] >= 0)
        # The last key is that of ties within the window.
        crossing = (edges.labels >= 0) & (edges.labels != len(keys) - 1) & ~inside
        late = np.flatnonzero(crossing & (first[effects] != effects) & (place[first[effects]] >= 0))
        received = pa.concat_tables([received, _unnamed(rows, place[first[effects[late]]], edges.labels[late])])
        early = np.flatnonzero((sends >= 0) & (last != np.arange(len(last))) & (place[last] >= 0))
        crosses = pc.is_in(keys.take(pa.array(sends[early])), value_set=sent["key"].combine_chunks())
        early = early[crosses.to_numpy(zero_copy_only=False) | (place[early] < 0)]
        tied = pc.binary_join_element_wise(TIED_KEY, keys.take(pa.array(sends[early])).cast(pa.string()), "")
        offered = pa.table({"key": tied, "place": place[last[early]], "twice": np.zeros(len(early), np.bool_)})
        sent = pa.concat_tables([sent, offered], promote_options="default")
    by_key = received.filter(pc.and_(received["key"].is_valid(), pc.less(received["cause"], 0)))
    tied = pc.binary_join_element_wise(TIED_KEY, by_key["key"], "")
    asked = by_key.set_column(1, RECEIVES.field("key"), tied).set_column(
        4, RECEIVES.field("named"), pa.repeat(False, len(by_key))
    )
    return pa.concat_tables([received, asked]), sent


def _unnamed(rows: WindowRows, places: Longs, labels: Longs) -> pa.Table:
    """Rows of `RECEIVES` for events at places that may follow what sends keys which they do not name themselves."""
    count = len(places)
    return pa.table(
        {
            "place": places,
            "key": rows.keys.take(pa.array(labels)),
            "process": np.full(count, -1, np.int32),
            "cause": np.full(count, -1, np.int64),
            "named": np.zeros(count, np.bool_),
            "home": pa.nulls(count, pa.int32()),
        },
        RECEIVES,
    )


def _codes(codes: Codes, rows: Longs) -> pa.Array:
    """The codes of rows; null for -1, and for no row."""
    found = np.where(rows >= 0, codes[np.maximum(rows, 0)] if len(codes) else -1, -1).astype(np.int32)
    return pa.array(found, mask=found < 0)


def _rows_at(placed: PlacedRows, places: Longs) -> Longs:
    """The rows at places; any for places that are none."""
    return placed.rows[np.maximum(places, 0)] if len(placed.rows) else np.zeros(len(places), np.int64)


def _named(edges: Edges, placed: PlacedRows) -> Flags:
    """Of each open end: whether its event names the cause itself."""
    here = placed.open_place >= 0
    rows = np.where(here, _rows_at(placed, placed.open_place), -1)
    keys = int(edges.labels.max(initial=0)) + 1
    own = edges.effects() * keys + edges.labels
    named: Flags = here & np.isin(rows * keys + placed.open_label, own[edges.labels >= 0])
    return named


def _stand_ins(rows: WindowRows, gone: Longs, place: Longs) -> pa.Table:
    """Find for sends that are set aside what those who receive them get instead: rows of `SENDS`."""
    found = []
    detour = Detour(rows.process, rows.edges, rows.member & rows.dropped) if len(gone) else None
    for row in gone.tolist():
        assert detour is not None
        for cause, label in detour.around(row):
            entry: dict[str, Any] = {"key": rows.keys[rows.sends[row]].as_py()}
            if cause >= 0 and place[cause] >= 0:
                entry["place"] = int(place[cause])
            elif label >= 0:
                entry["alias"] = rows.keys[label].as_py()
            else:
                entry["process"] = -2 - label
            found.append(entry)
    return pa.Table.from_pylist(found, SENDS)
