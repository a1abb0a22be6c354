"""Choose the events that are due for delivery, in order, each once.

When an event is delivered depends on its report and on those that had come by then (`ledto.history.deliver.segment`, as
known). A policy that looks at the whole buffer needs a little longer to be sure (`LiveTerms.settling`). So the log is
the same however the stream is cut, as long as believed clocks differ by at most eps; if they differ by more, a cause
may or may not have come in time. An event is never logged twice even then: the tail marks those that are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.events.keys import ANSWER, SPAN, STAMPED, UNKNOWN_ANSWER, UNKNOWN_CALL, UNKNOWN_PLACE
from ledto.live.chain import PendingSegment
from ledto.live.delivery_log import DELIVERED
from ledto.live.written_segments import WrittenSegment

Longs = NDArray[np.int64]

NOT_LOGGED = {UNKNOWN_ANSWER, UNKNOWN_CALL, UNKNOWN_PLACE}
"""What `missing` never lists in the log: it may become known only after the delivery."""


@dataclass(slots=True, eq=False)
class UnloggedEvents:
    """A segment of which some events may not be in the log."""

    part: PendingSegment
    record: WrittenSegment
    reported: pa.Table
    """By event: process, seq and received messages, as reported."""
    deliveries: pa.Table
    """By event: columns of `ledto.history.deliver.segment.DELIVERIES`."""
    emitted: NDArray[np.bool_]
    """By event: whether it is in the log. `emit` updates it."""
    final: bool
    """Whether the segment is closed. Then all of its events are due."""


FirstSent = Callable[[UnloggedEvents, set[str]], dict[str, int]]
"""Finds, by key, when a send of it was first reported, in closed segments before this one."""


def emit(pieces: list[UnloggedEvents], until: int, last_number: int, first_sent: FirstSent, *, tick: int) -> pa.Table:
    """Make log rows of the events due up to a time and not in the log, numbered from ``last_number + 1``."""
    tables = []
    for piece in pieces:
        at = piece.deliveries["at"].fill_null(until if piece.final else until + 1).to_numpy()
        due = ~piece.emitted & (piece.final | (at <= until))
        if due.any():
            tables.append(_log_rows(piece, np.flatnonzero(due), first_sent, tick))
            piece.emitted |= due
    if not tables:
        return DELIVERED.empty_table()
    rows = pa.concat_tables(tables)
    rows = rows.take(pa.array(_delivery_order(rows)))
    numbers = pa.array(np.arange(last_number + 1, last_number + 1 + len(rows)))
    return rows.append_column("number", numbers).select(DELIVERED.names).cast(DELIVERED)


def _delivery_order(rows: pa.Table) -> Longs:
    """Sort by time, then lead, which a key begins with; then by computation, then by the rest of the key."""
    keys: list[Longs] = [rows[name].to_numpy() for name in ("tie", "lead", "at")]
    names = rows["computation"].combine_chunks().dictionary_encode()
    if len(names.dictionary) > 1:
        rank = pc.rank(names.dictionary).to_numpy()
        keys.insert(1, rank[names.indices.to_numpy()])
    order: Longs = np.lexsort(keys)
    return order


def _log_rows(piece: UnloggedEvents, chosen: Longs, first_sent: FirstSent, tick: int) -> pa.Table:
    """Make log rows of the chosen events, still without numbers."""
    rows = pa.array(chosen)
    is_whole = len(chosen) == len(piece.part.events)
    events, deliveries, reported = (
        table if is_whole else table.take(rows) for table in (piece.part.events, piece.deliveries, piece.reported)
    )
    as_is = ("computation", "id", "name", "kind", "time", "arrival", "attributes", "error", "file", "place")
    columns = {name: events[name].cast(DELIVERED.field(name).type) for name in as_is}
    columns |= {name: reported[name] for name in ("process", "seq")}
    arrival = events["arrival"]
    columns["at"] = pc.coalesce(deliveries["at"], arrival)
    columns["waited"] = pc.coalesce(deliveries["waited"], pa.scalar(0, pa.int64()))
    columns["late"] = pc.coalesce(deliveries["late"], pa.scalar(False))
    columns["lead"] = pc.coalesce(deliveries["lead"], arrival)
    columns["tie"] = pc.coalesce(deliveries["tie"], pa.scalar(0, pa.int32()))
    late_sends = _find_late_sends(piece, chosen, columns["at"].to_numpy() + tick, first_sent)
    columns["missing"] = events["missing"]
    if late_sends or events["missing"].null_count < len(events):
        # An answer that is too late, or a span that begins after its events, may become known only after the delivery.
        missing = [
            sorted({*(lacking or ()), *late_sends.get(place, ())} - NOT_LOGGED) or None
            for place, lacking in zip(chosen.tolist(), events["missing"].to_pylist(), strict=True)
        ]
        columns["missing"] = pa.array(missing, DELIVERED.field("missing").type)
    return pa.table(columns)


def _find_late_sends(piece: UnloggedEvents, chosen: Longs, until: Longs, first_sent: FirstSent) -> dict[int, list[str]]:
    """Find, by event, messages it received whose sends were reported only after it was delivered.

    Uses keys and arrivals alone. Edges would not do: there are none between spans of one process.
    """
    place, keys = _received_keys(piece.reported.take(pa.array(chosen)))
    end = until[place]
    place = chosen[place]
    never = int(np.iinfo(np.int64).max)
    events = piece.part.events
    # Of several sends of a key, the one reported first counts.
    sends = events["sends"].take(pc.sort_indices(events["arrival"]))
    arrival = np.sort(events["arrival"].to_numpy())
    in_segment = pc.index_in(keys, value_set=sends.combine_chunks(), skip_nulls=True)
    at = in_segment.fill_null(-1).to_numpy(zero_copy_only=False)
    came = np.where(at >= 0, arrival[at] if len(arrival) else never, never)
    heard: dict[int, list[tuple[str, int]]] = {}
    for row, key, arrived in piece.part.heard:
        heard.setdefault(row, []).append((key, arrived))
    late: dict[int, list[str]] = {}
    for number in np.flatnonzero(came >= end).tolist():
        row, key = int(place[number]), keys[number].as_py()
        # A message that nobody sent is in `missing` already.
        if key not in (events["missing"][row].as_py() or ()) and all(
            heard_key != key or arrived >= end[number] for heard_key, arrived in heard.get(row, ())
        ):
            late.setdefault(row, []).append(key)
    if not late:
        return late
    # The cause found now may be another send of the key, or a second report of it. A closed one may have come in time.
    first_arrival = first_sent(piece, {key for keys in late.values() for key in keys})
    ends = dict(zip(chosen.tolist(), until.tolist(), strict=True))
    return {row: [key for key in keys if first_arrival.get(key, never) >= ends[row]] for row, keys in late.items()}


def _received_keys(reported: pa.Table) -> tuple[Longs, pa.Array]:
    """List the received messages that somebody must have sent: the places of the events, and the keys."""
    belongs = pc.equal(reported["line"], reported["line_parent"])
    start = pc.if_else(belongs, pc.binary_join_element_wise(SPAN, reported["line"], ""), pa.scalar(None, pa.string()))
    first = pc.coalesce(reported["receives"], start).combine_chunks()
    more = reported["receives_more"].combine_chunks()
    place = np.concatenate((np.arange(len(first)), pc.list_parent_indices(more).to_numpy(zero_copy_only=False)))
    keys = pa.concat_arrays([_combine(first), _combine(pc.list_flatten(more))])
    must_be_sent = pc.invert(pc.or_(pc.starts_with(keys, ANSWER), pc.starts_with(keys, STAMPED))).fill_null(False)
    return place[must_be_sent.to_numpy(zero_copy_only=False)].astype(np.int64), keys.filter(must_be_sent)


def _combine(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
