"""Sends and receives that only share a channel are matched by their order while a stream goes on.

The rules are those of batch (`ledto.causality.channels`), with one thing more that is known: two clocks differ by at most
eps, so a receive cannot have taken what was sent more than eps later. Rows take part once they are *settled*: nothing that
belongs before them can still come in time. When a part of the stream is closed, all settled rows get the names of their
messages for good, and from then on they are rows like all others. Of a channel are kept: how much was sent and received,
who sent and received, and the sends that nobody has received yet.

What is decided stays. Where batch, which knows the end, finds a reason for doubt that shows only later, a stream has
doubts from then on. docs/decisions/0014 says which these are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.channel_kernels import NO_SEQ, latest_so_far
from ledto.causality.channel_tables import (
    OUTCOMES,
    UNMATCHED_SEND,
    count_outcomes,
    ends_of,
    in_channels,
    outcomes_of,
    with_names,
    without_matches,
)
from ledto.causality.channels import match_ends
from ledto.causality.order import NO_TIME
from ledto.events.schema import REPORTS, SEND
from ledto.history.window.columns import LARGEST_TIME
from ledto.live.channel_state import Channels, JoinedSends, LeftOut, as_reports, earlier_of, go_on, with_rows
from ledto.live.closed_processes import ClosedProcesses
from ledto.live.dates import DATED
from ledto.live.terms import LiveTerms

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

_NAMES_CHANGE = ("sends", "receives", "receives_more", "channel_key", "channel_bytes")


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """Rows with the names of their messages, as far as these are settled."""

    rows: pa.Table
    """The rows as the solver takes them: without channels, in the order in which they were given."""
    settled: Flags
    """By row: it is in no channel, or has its name."""
    again_at: int | None
    """When more is settled; None where all is."""
    counts: dict[str, int]
    """Of all rows so far, by outcome."""

    def kept(self, rows: pa.Table) -> pa.Table:
        """The given rows, of which settled ones have their names for good."""
        changed = in_channels(rows) & self.settled
        if not changed.any():
            return rows
        for name in (*_NAMES_CHANGE, "uid"):
            there = self.rows[name] if name != "uid" else pa.scalar(-1, pa.int64())
            rows = _with(rows, name, pc.if_else(pa.array(changed), there, rows[name]))
        return rows


def name_messages(
    channels: Channels, lines: ClosedProcesses, rows: pa.Table, until: int, terms: LiveTerms, *, for_good: bool
) -> Named:
    """Match what is settled of these rows, all that are not closed, when everything dated up to `until` has come.

    `lines` tells which numbers are closed, and how many were left out there. `for_good` brings `channels` up to date.
    Without it nothing is changed.
    """
    inside = in_channels(rows)
    if not inside.any():
        return Named(rows, ~inside, None, _with_unmatched(channels.counts, channels.unmatched_sends()))
    places = np.flatnonzero(inside)
    ends = rows.take(pa.array(places)).combine_chunks()
    reached = _settled_at(ends, terms)
    ready = reached <= until
    again_at = int(reached[~ready].min()) if not ready.all() else None
    ready_ends = ends.filter(pa.array(ready))
    left_out = LeftOut.of(rows, lines, until)
    left_out = replace(left_out, before=left_out.before[places[ready]])
    others = rows.filter(pa.array(~inside))
    named, counts = _match(channels, ready_ends, left_out, others, terms, until if for_good else None)
    found = pa.concat_tables([others, named, without_matches(ends.filter(pa.array(~ready)))])
    order = np.concatenate((np.flatnonzero(~inside), places[ready], places[~ready]))
    settled = ~inside
    settled[places[ready]] = True
    return Named(found.take(pa.array(np.argsort(order))).combine_chunks(), settled, again_at, counts)


def pass_over(channels: Channels, rows: pa.Table) -> None:
    """Count rows that were closed before they were settled, which broken clocks can do. Nobody takes or gives them."""
    if not len(rows):
        return
    for row in rows.select(["channel_key", "kind", "channel_bytes"]).to_pylist():
        channel = channels.known.get(row["channel_key"])
        if channel is not None:
            end = channel.sends if row["kind"] == SEND else channel.receives
            end.count += 1
            size = 1 if channel.by_message else max(0, row["channel_bytes"] or 0)
            end.length, end.units = end.length + size, end.units + size


def counted_channels(closed: Mapping[str, Channels], tails: Mapping[str, dict[str, int]]) -> dict[str, int]:
    """Count outcomes over all computations; those that have a tail told theirs with it."""
    found = Counter[str]()
    for where, channels in closed.items():
        found.update(tails.get(where) or _with_unmatched(channels.counts, channels.unmatched_sends()))
    return {name: found[name] for name in OUTCOMES} if found else {}


def _settled_at(ends: pa.Table, terms: LiveTerms) -> Longs:
    """By row: the date up to which everything must have come before it can be matched; it does not fall in a process."""
    dated, believed = _longs(ends, DATED), _believed(ends)
    is_send = pc.equal(ends["kind"], SEND).to_numpy()
    by_itself = np.where(is_send, _earliest(ends, terms), np.where(believed, dated + terms.eps, dated))
    side = _codes(ends["channel_key"]) * 2 + ~is_send
    process = _codes(ends["process"])
    order = np.lexsort((_own_order(ends), process, side))
    reached = np.empty(len(ends), np.int64)
    reached[order] = latest_so_far(side[order], process[order], by_itself[order])
    return reached


def _earliest(ends: pa.Table, terms: LiveTerms) -> Longs:
    """By row: the earliest time at which it can have happened, by a clock that is right."""
    found: Longs = np.where(_believed(ends), _longs(ends, DATED), _longs(ends, "arrival") - terms.delta)
    return found


def _believed(ends: pa.Table) -> Flags:
    """By row: whether its clock is taken for right."""
    found: Flags = _longs(ends, "time") == _longs(ends, DATED)
    return found


def _own_order(ends: pa.Table) -> Longs:
    """By row: what orders the rows of its process."""
    seq = _longs(ends, "seq")
    found: Longs = np.where(seq == NO_SEQ, _longs(ends, "time"), seq)
    return found


def _match(
    channels: Channels, ends: pa.Table, left_out: LeftOut, named: pa.Table, terms: LiveTerms, until: int | None
) -> tuple[pa.Table, dict[str, int]]:
    """The settled rows with names, and what is counted then; `named` are the rows that have theirs, or need none.

    `left_out` has the settled rows.
    """
    own_order = _own_order(ends)
    before = _last_before(channels, ends)
    # A report that comes after later ones of its process is a second one, or late.
    repeated = _repeated(ends, named, own_order <= before)
    refused = np.zeros(len(ends), np.bool_)
    if channels.full:
        known = pa.array(sorted(channels.known), pa.string())
        refused = ~pc.is_in(ends["channel_key"], value_set=known).to_numpy(zero_copy_only=False).astype(np.bool_)
    taking = ~refused
    taking[list(repeated)] = refused[list(repeated)] = False
    chosen = ends.filter(pa.array(taking))
    if not len(chosen):
        counted = _with_unmatched(channels.counts, channels.unmatched_sends())
        return _put_back(ends, chosen, taking, refused, repeated), counted
    left_out = replace(left_out, before=left_out.before[taking])
    joined = _joined(channels, chosen, left_out, (own_order < before)[taking], terms)
    touched = with_rows(channels, joined)
    found = match_ends(joined.ends, earlier_of(touched, joined))
    outcomes = outcomes_of(joined.ends, found)
    fresh = count_outcomes(outcomes[joined.is_new] & ~np.int16(UNMATCHED_SEND))
    counts = {name: channels.counts.get(name, 0) + fresh[name] for name in OUTCOMES}
    elsewhere = channels.unmatched_sends() - channels.unreceived(joined.kept)
    names = with_names(joined.table, joined.ends, found, or_later=False).slice(len(joined.kept))
    result = _put_back(ends, names, taking, refused, repeated)
    if until is not None:
        go_on(channels, touched, joined, found, until)
        channels.counts = counts
    return result, _with_unmatched(counts, elsewhere + int(np.count_nonzero(outcomes & UNMATCHED_SEND)))


def _joined(channels: Channels, chosen: pa.Table, left_out: LeftOut, behind: Flags, terms: LiveTerms) -> JoinedSends:
    """New rows of channels, and before them what is under way in these."""
    kept = channels.under_way
    if len(kept):
        kept = kept.filter(pc.is_in(kept["channel_key"], value_set=chosen["channel_key"].unique()))
    before = as_reports(kept, chosen["computation"][0].as_py(), channels)
    table = pa.concat_tables([before, chosen.select(REPORTS.names).cast(REPORTS)]).combine_chunks()
    nothing = np.zeros(len(kept), np.int64)
    latest = np.where(_believed(chosen), _longs(chosen, DATED) + terms.eps, LARGEST_TIME)
    unreported = left_out.of_rows(table["process"].to_pylist(), np.concatenate((nothing, left_out.before)))
    return JoinedSends(
        table,
        kept,
        ends_of(table, unreported),
        np.concatenate((nothing, _own_order(chosen))),
        np.concatenate((nothing.astype(np.bool_), behind)),
        np.concatenate((kept["earliest"].to_numpy(), _earliest(chosen, terms))),
        np.concatenate((nothing, latest)),
        left_out,
    )


def _with_unmatched(counts: dict[str, int], unmatched: int) -> dict[str, int]:
    if not counts and not unmatched:
        return {}
    return {name: unmatched if name == "unmatched_sends" else counts.get(name, 0) for name in OUTCOMES}


def _last_before(channels: Channels, ends: pa.Table) -> Longs:
    """By row: the last number or time of its process that was matched, at its end of its channel."""
    found = np.full(len(ends), NO_TIME, np.int64)
    if not channels.known:
        return found
    columns = (ends[name].to_pylist() for name in ("channel_key", "kind", "process"))
    for row, (key, kind, process) in enumerate(zip(*columns, strict=True)):
        channel = channels.known.get(key)
        if channel is not None:
            end = channel.sends if kind == SEND else channel.receives
            found[row] = end.last.get(process, NO_TIME)
    return found


def _repeated(ends: pa.Table, named: pa.Table, suspected: Flags) -> dict[int, dict[str, Any]]:
    """Rows that report again what has its name: that name."""
    if not suspected.any():
        return {}

    def identity(row: dict[str, Any]) -> tuple[Any, ...] | None:
        if row["seq"] is not None:
            return row["process"], row["kind"], row["seq"]
        return None if row["id"] is None else (row["process"], row["kind"], row["time"], row["id"])

    what = ["process", "kind", "seq", "time", "id"]
    first = {
        key: row
        for row in named.select([*what, "sends", "receives", "receives_more"]).to_pylist()
        if (key := identity(row))
    }
    found = {}
    for row in np.flatnonzero(suspected).tolist():
        key = identity({name: ends[name][row].as_py() for name in what})
        if key is not None and key in first:
            found[row] = first[key]
    return found


def _put_back(
    ends: pa.Table, names: pa.Table, taking: Flags, refused: Flags, repeated: dict[int, dict[str, Any]]
) -> pa.Table:
    """The rows in their order: with the names found, without any, or with those of the rows that they repeat."""
    unmatched = without_matches(ends.filter(pa.array(refused)))
    copies = without_matches(ends.take(pa.array(list(repeated), pa.int64())))
    taken = ends.filter(pa.array(taking))
    for name in ("sends", "receives", "receives_more"):
        copies = _with(
            copies, name, pa.array([each[name] for each in repeated.values()], copies.schema.field(name).type)
        )
    for name in _NAMES_CHANGE:
        taken = _with(taken, name, names[name])
    order = np.concatenate((np.flatnonzero(taking), np.flatnonzero(refused), np.array(list(repeated), np.int64)))
    return pa.concat_tables([taken, unmatched, copies]).take(pa.array(np.argsort(order)))


def _with(rows: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), rows.schema.field(name), column)


def _codes(column: pa.ChunkedArray) -> Longs:
    return np.asarray(column.combine_chunks().dictionary_encode().indices.to_numpy(), np.int64)


def _longs(table: pa.Table, name: str) -> Longs:
    return np.asarray(table[name].fill_null(NO_TIME).to_numpy(), np.int64)
