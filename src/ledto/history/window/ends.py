"""Find what crosses the ends of a window: causes that its segment lacks, and events that other segments may need.

`ledto.history.open_ends` says what the rows of both tables mean, and how causes are found for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.order import Edges, process_of_last
from ledto.causality.place import NONE, Detour, PlacedRows, has_label_in
from ledto.events.keys import ANSWER
from ledto.history.open_ends import RECEIVES, SENDS
from ledto.history.window.columns import BETWEEN
from ledto.history.window.span_edges import SpanEnds, ends_of_groups

Longs = NDArray[np.int64]
Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]

TIED_KEY = f"{ANSWER}{BETWEEN}"
"""Prefix of a second key for a message that may have gone out later: other events have the time of its send."""


@dataclass(frozen=True, slots=True, eq=False)
class WindowRows:
    """The rows of a window in canonical order, and what the solver found. Keys have numbers: the labels of edges."""

    keys: pa.Array
    """By number: the key."""
    sends: Longs
    """By row: the number of the key it sends; `NONE` for nothing."""
    time: Longs
    edges: Edges
    placed: PlacedRows
    member: Flags
    """By row: whether it belongs to the segment, and not to another window."""
    dropped: Flags
    """By row: whether it was quarantined."""
    process: Codes
    assumed: Flags
    """By key: whether its causes are only assumed."""
    twice: Flags
    """By key: whether two events send it."""

    def places(self) -> Longs:
        """Give the place of each row in the segment; `NONE` for rows that are not in it."""
        place = np.full(len(self.process), NONE, np.int64)
        place[self.placed.rows] = np.arange(len(self.placed.rows))
        return place


def open_ends(
    rows: WindowRows, spans: SpanEnds, high: int | None, home: Codes, within: Codes
) -> tuple[pa.Table, pa.Table]:
    """Find what must be settled with other segments: rows of `RECEIVES`, and of `SENDS`.

    `high`: the time where the window ends; None if it has no end. `home` and `within`: those columns by row; `NONE` for
    null.
    """
    edges, place = rows.edges, rows.places()
    received = _receives(rows, spans, home)
    # A wait that began before the window may have had answers there, besides those in the window.
    waits = np.flatnonzero(
        (edges.causes >= 0) & has_label_in(rows.assumed, edges.labels) & spans.open_end[edges.effects()]
    )
    waits = waits[place[edges.effects()[waits]] >= 0]
    if len(waits):
        received = pa.concat_tables([received, _unnamed(rows, place[edges.effects()[waits]], edges.labels[waits])])
    return received, _sends(rows, spans, high, within, place)


def _receives(rows: WindowRows, spans: SpanEnds, home: Codes) -> pa.Table:
    """Make the rows of `RECEIVES` for the open causes of the segment."""
    keys, placed, crossing = rows.keys, rows.placed, rows.placed.open
    in_segment, by_key = crossing.effect >= 0, crossing.key >= 0
    effect_rows = _rows_at(placed, crossing.effect)
    received = pa.table(
        {
            "place": pa.array(np.where(in_segment, crossing.effect, _next_event_of(crossing.next_of))),
            "key": pc.if_else(pa.array(by_key), keys.take(pa.array(np.maximum(crossing.key, 0))), None),
            "process": pa.array(crossing.last_of.astype(np.int32)),
            "cause": pa.array(crossing.cause),
            "named": pa.array(in_segment & by_key & _named(rows.edges, effect_rows, crossing.key)),
            "home": _codes(home, np.where(in_segment, effect_rows, NONE)),
        },
        RECEIVES,
    )
    if spans.closed_end.any():
        # The answers that such an end waited for came within the segment.
        idle = has_label_in(rows.assumed, crossing.key) & in_segment & (crossing.cause < 0)
        idle &= spans.closed_end[effect_rows]
        received = received.filter(pa.array(~idle))
    return received


def _next_event_of(process: Longs) -> Longs:
    """Code the next event of a process after the segment as the column ``place`` of `RECEIVES` has it: below 0."""
    return -1 - process


def _sends(rows: WindowRows, spans: SpanEnds, high: int | None, within: Codes, place: Longs) -> pa.Table:
    """Make the rows of `SENDS`: keys that events of other segments may receive.

    A message received once in the segment needs no row, unless another window may have a receive, too. This leaves out some
    that are needed: those who need them search the events themselves.
    """
    keys, sends, edges = rows.keys, rows.sends, rows.edges
    has_cause = edges.causes >= 0
    senders, effects = edges.causes[has_cause], edges.effects()[has_cause]
    receives = np.bincount(senders, minlength=len(rows.process))
    settled = receives == 1
    settled[senders[~rows.member[effects]]] = False
    if high is not None and len(senders):
        longest_flight = int((rows.time[effects] - rows.time[senders]).max())
        settled &= rows.time < high - max(0, longest_flight)
    # Hardly any event of another segment follows the start of a span that also ends in this one.
    settled |= spans.closed_start
    sent_twice = has_label_in(rows.twice, sends)
    settled &= ~sent_twice
    offered = np.flatnonzero((sends >= 0) & rows.member & ~settled)
    kept, dropped = offered[~rows.dropped[offered]], offered[rows.dropped[offered] & ~sent_twice[offered]]
    by_kept = pa.table(
        {
            "key": keys.take(pa.array(sends[kept])),
            "place": pa.array(place[kept]),
            "within": _codes(within, kept),
            "twice": pa.array(sent_twice[kept]),
        }
    )
    sent = pa.concat_tables([by_kept, _stand_ins(rows, dropped, place)], promote_options="default")
    return sent.select(SENDS.names).cast(SENDS)


def with_open_ties(
    rows: WindowRows, group: Longs | None, received: pa.Table, sent: pa.Table
) -> tuple[pa.Table, pa.Table]:
    """Add rows for messages of events at one time, which may have happened in either order; return both tables.

    `ledto.history.window.span_edges.with_ties` does the same within the window, for the same `group`. A message may have
    gone out from the last event of its sender's group, and come in at the first event of its receiver's group. The first has
    a second key for that, with the prefix `TIED_KEY`. A receiver cannot know whether its sender has a group, so it asks for
    both.
    """
    keys, sends, edges, place = rows.keys, rows.sends, rows.edges, rows.places()
    received = received.filter(pc.fill_null(pc.not_equal(received["key"], ANSWER), True))
    if group is not None:
        first, last = ends_of_groups(group)
        effects = edges.effects()
        inside = (edges.causes >= 0) & (place[np.maximum(edges.causes, 0)] >= 0)
        # The last key is the one that `with_ties` added: it does not leave the window.
        crossing = (edges.labels >= 0) & (edges.labels != len(keys) - 1) & ~inside
        late = np.flatnonzero(crossing & (first[effects] != effects) & (place[first[effects]] >= 0))
        received = pa.concat_tables([received, _unnamed(rows, place[first[effects[late]]], edges.labels[late])])
        early = np.flatnonzero((sends >= 0) & (last != np.arange(len(last))) & (place[last] >= 0))
        crosses = pc.is_in(keys.take(pa.array(sends[early])), value_set=sent["key"].combine_chunks())
        early = early[crosses.to_numpy(zero_copy_only=False) | (place[early] < 0)]
        tied_keys = pc.binary_join_element_wise(TIED_KEY, keys.take(pa.array(sends[early])).cast(pa.string()), "")
        offered = pa.table({"key": tied_keys, "place": place[last[early]], "twice": np.zeros(len(early), np.bool_)})
        sent = pa.concat_tables([sent, offered], promote_options="default")
    by_key = received.filter(pc.and_(received["key"].is_valid(), pc.less(received["cause"], 0)))
    tied_keys = pc.binary_join_element_wise(TIED_KEY, by_key["key"], "")
    asked = by_key.set_column(1, RECEIVES.field("key"), tied_keys).set_column(
        4, RECEIVES.field("named"), pa.repeat(False, len(by_key))
    )
    return pa.concat_tables([received, asked]), sent


def _unnamed(rows: WindowRows, places: Longs, labels: Longs) -> pa.Table:
    """Make rows of `RECEIVES` for the events at these places: they may have received these keys, and do not name them."""
    count = len(places)
    return pa.table(
        {
            "place": places,
            "key": rows.keys.take(pa.array(labels)),
            "process": np.full(count, NONE, np.int32),
            "cause": np.full(count, NONE, np.int64),
            "named": np.zeros(count, np.bool_),
            "home": pa.nulls(count, pa.int32()),
        },
        RECEIVES,
    )


def _codes(codes: Codes, rows: Longs) -> pa.Array:
    """Take the codes of rows; null where the row or the code is `NONE`."""
    taken = np.where(rows >= 0, codes[np.maximum(rows, 0)] if len(codes) else NONE, NONE).astype(np.int32)
    return pa.array(taken, mask=taken < 0)


def _rows_at(placed: PlacedRows, places: Longs) -> Longs:
    """Take the rows at places; any row where the place is `NONE`."""
    return placed.rows[np.maximum(places, 0)] if len(placed.rows) else np.zeros(len(places), np.int64)


def _named(edges: Edges, rows: Longs, keys: Longs) -> Flags:
    """Tell for each row and key whether an edge of the row has that key."""
    factor = int(edges.labels.max(initial=0)) + 1
    by_key = edges.labels >= 0
    named: Flags = np.isin(rows * factor + keys, (edges.effects() * factor + edges.labels)[by_key])
    return named


def _stand_ins(rows: WindowRows, dropped: Longs, place: Longs) -> pa.Table:
    """Find what those who receive the messages of dropped rows follow instead: rows of `SENDS`."""
    if not len(dropped):
        return SENDS.empty_table()
    detour = Detour(rows.process, rows.edges, rows.member & rows.dropped)
    entries: list[dict[str, Any]] = []
    for row in dropped.tolist():
        for cause in detour.around(row):
            entry: dict[str, Any] = {"key": rows.keys[rows.sends[row]].as_py()}
            if cause.row >= 0 and place[cause.row] >= 0:
                entry["place"] = int(place[cause.row])
            elif cause.label >= 0:
                entry["alias"] = rows.keys[cause.label].as_py()
            else:
                entry["process"] = process_of_last(cause.label)
            entries.append(entry)
    return pa.Table.from_pylist(entries, SENDS)
