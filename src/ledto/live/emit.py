"""Which events of the tail are delivered by now, in which order, and each once.

When an event is delivered is a function of its report and of those that had come by then
(`ledto.history.deliver.segment`, as known). A policy that looks at the whole buffer needs a little longer to be sure
(`LiveTerms.settling`). So the log is the same for every way of cutting the stream, as long as the clocks that are
believed differ by at most eps; where they break that, a cause may or may not have come in time. That each event is in it
once does not rest on this: the tail says which are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.events.schema import ANSWER, SPAN, STAMPED, UNKNOWN_ANSWER, UNKNOWN_CALL, UNKNOWN_PLACE
from ledto.live.chain import PendingSegment
from ledto.live.delivery_log import DELIVERED
from ledto.live.records import Record

Longs = NDArray[np.int64]


@dataclass(slots=True, eq=False)
class UnloggedEvents:
    """Events of a segment that may not all be in the log."""

    part: PendingSegment
    record: Record
    reported: pa.Table
    """By event: process, seq and messages received, as they were reported."""
    deliveries: pa.Table
    """By event: columns of `ledto.history.deliver.segment.DELIVERIES`."""
    emitted: NDArray[np.bool_]
    """By event; brought up to date here."""
    final: bool
    """Whether the segment is closed: then all of its events are delivered."""


FirstSent = Callable[[UnloggedEvents, set[str]], dict[str, int]]
"""By key of these that closed segments before a piece send: when the first report of that arrived."""


def emit(pieces: list[UnloggedEvents], until: int, last_number: int, first_sent: FirstSent, *, tick: int) -> pa.Table:
    """The deliveries of these pieces up to a time that are not in the log yet, with numbers from `last_number` on."""
    tables = []
    for piece in pieces:
        at = piece.deliveries["at"].fill_null(until if piece.final else until + 1).to_numpy()
        due = ~piece.emitted & (piece.final | (at <= until))
        if due.any():
            tables.append(_rows(piece, np.flatnonzero(due), first_sent, tick))
            piece.emitted |= due
    if not tables:
        return DELIVERED.empty_table()
    rows = pa.concat_tables(tables)
    rows = rows.take(pa.array(_order(rows)))
    numbers = pa.array(np.arange(last_number + 1, last_number + 1 + len(rows)))
    return rows.append_column("number", numbers).select(DELIVERED.names).cast(DELIVERED)


UNTOLD = {UNKNOWN_ANSWER, UNKNOWN_CALL, UNKNOWN_PLACE}
"""What the log does not tell as missing."""


def _order(rows: pa.Table) -> Longs:
    """By time and lead, which the key starts with; among computations by name, and within one as their keys are."""
    keys: list[Longs] = [rows[name].to_numpy() for name in ("tie", "lead", "at")]
    names = rows["computation"].combine_chunks().dictionary_encode()
    if len(names.dictionary) > 1:
        rank = pc.rank(names.dictionary).to_numpy()
        keys.insert(1, rank[names.indices.to_numpy()])
    found: Longs = np.lexsort(keys)
    return found


def _rows(piece: UnloggedEvents, chosen: Longs, first_sent: FirstSent, tick: int) -> pa.Table:
    taken = pa.array(chosen)
    every = len(chosen) == len(piece.part.events)
    events, deliveries, reported = (
        each if every else each.take(taken) for each in (piece.part.events, piece.deliveries, piece.reported)
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
    unheard = _unheard(piece, chosen, columns["at"].to_numpy() + tick, first_sent)
    columns["missing"] = events["missing"]
    if unheard or events["missing"].null_count < len(events):
        # That an answer came too late, or a span began after its events, is known when it comes: perhaps after the delivery.
        missing = [
            sorted({*(known or ()), *unheard.get(place, ())} - UNTOLD) or None
            for place, known in zip(chosen.tolist(), events["missing"].to_pylist(), strict=True)
        ]
        columns["missing"] = pa.array(missing, DELIVERED.field("missing").type)
    return pa.table(columns)


def _unheard(piece: UnloggedEvents, chosen: Longs, until: Longs, first_sent: FirstSent) -> dict[int, list[str]]:
    """By event: messages it received whose send was reported only after it was delivered.

    That is told by keys and arrivals alone. Edges would not do: between spans of one process there are none.
    """
    place, keys = _received(piece.reported.take(pa.array(chosen)))
    end = until[place]
    place = chosen[place]
    never = int(np.iinfo(np.int64).max)
    events = piece.part.events
    # Of several that send a key, the one that came first counts.
    sends = events["sends"].take(pc.sort_indices(events["arrival"]))
    arrival = np.sort(events["arrival"].to_numpy())
    here = pc.index_in(keys, value_set=sends.combine_chunks(), skip_nulls=True)
    at = here.fill_null(-1).to_numpy(zero_copy_only=False)
    came = np.where(at >= 0, arrival[at] if len(arrival) else never, never)
    heard: dict[int, list[tuple[str, int]]] = {}
    for row, key, arrived in piece.part.heard:
        heard.setdefault(row, []).append((key, arrived))
    found: dict[int, list[str]] = {}
    for each in np.flatnonzero(came >= end).tolist():
        row, key = int(place[each]), keys[each].as_py()
        # What nobody sent is known to be missing without this.
        if key not in (events["missing"][row].as_py() or ()) and all(
            known != key or arrived >= end[each] for known, arrived in heard.get(row, ())
        ):
            found.setdefault(row, []).append(key)
    if not found:
        return found
    # A second report of a send that is closed, or another send of the key, may be its cause now. It was heard of before.
    earlier = first_sent(piece, {key for mine in found.values() for key in mine})
    ends = dict(zip(chosen.tolist(), until.tolist(), strict=True))
    return {row: [key for key in mine if earlier.get(key, never) >= ends[row]] for row, mine in found.items()}


def _received(reported: pa.Table) -> tuple[Longs, pa.Array]:
    """The messages that events received, which somebody is known to have sent: their places and keys."""
    belongs = pc.equal(reported["line"], reported["line_parent"])
    start = pc.if_else(belongs, pc.binary_join_element_wise(SPAN, reported["line"], ""), pa.scalar(None, pa.string()))
    first = pc.coalesce(reported["receives"], start).combine_chunks()
    more = reported["receives_more"].combine_chunks()
    place = np.concatenate((np.arange(len(first)), pc.list_parent_indices(more).to_numpy(zero_copy_only=False)))
    keys = pa.concat_arrays([_one(first), _one(pc.list_flatten(more))])
    told = pc.invert(pc.or_(pc.starts_with(keys, ANSWER), pc.starts_with(keys, STAMPED))).fill_null(False)
    return place[told.to_numpy(zero_copy_only=False)].astype(np.int64), keys.filter(told)


def _one(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
