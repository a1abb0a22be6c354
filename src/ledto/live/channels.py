"""Match sends and receives that only share a channel, by their order, while a stream goes on.

The rules are those of batch (`ledto.causality.channels`), and one more: two clocks differ by at most eps, so a receive
cannot take what was sent more than eps later. Rows are matched once they are *settled*: nothing that belongs before
them can still come in time. When a part of the stream is closed, its settled rows get the names of their messages for
good, and are ordinary rows from then on. Of a channel the stream keeps how much was sent and received, by whom, and the
sends that nobody has received yet.

A match is never undone. If a reason for doubt shows only later, batch, which sees the end, doubts from the start, and a
stream doubts from then on. docs/decisions/0014 lists these cases.
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
from ledto.live.channel_state import (
    Channels,
    JoinedSends,
    LeftOut,
    keep_matches,
    make_earlier,
    number_sides,
    preview_channels,
    sends_as_reports,
)
from ledto.live.closed_processes import ClosedProcesses
from ledto.live.dates import DATED
from ledto.live.state import NOT_STORED
from ledto.live.terms import LiveTerms

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

_NAMES_CHANGE = ("sends", "receives", "receives_more", "channel_key", "channel_bytes")
"""The columns that change when a row gets the name of its message."""


@dataclass(frozen=True, slots=True, eq=False)
class NamedRows:
    """Rows with the names of their messages, as far as these are settled."""

    rows: pa.Table
    """The rows for the solver: without channels, in the given order."""
    settled: Flags
    """By row: whether it has its name, or is in no channel."""
    again_at: int | None
    """The date up to which everything must have come for more rows to be settled; None if all are."""
    counts: dict[str, int]
    """Counts of all rows so far, by outcome."""

    def store_names(self, rows: pa.Table) -> pa.Table:
        """Give those of these rows that are settled their names for good. They must be the rows that were named."""
        changed = in_channels(rows) & self.settled
        if not changed.any():
            return rows
        for name in (*_NAMES_CHANGE, "uid"):
            # Changed rows are in no file yet.
            new = self.rows[name] if name != "uid" else pa.scalar(NOT_STORED, pa.int64())
            rows = _set_column(rows, name, pc.if_else(pa.array(changed), new, rows[name]))
        return rows


def name_messages(
    channels: Channels,
    closed_processes: ClosedProcesses,
    rows: pa.Table,
    until: int,
    terms: LiveTerms,
    *,
    for_good: bool,
) -> NamedRows:
    """Match those of these rows that are settled when everything dated up to `until` has come.

    `rows` are all that are not closed. `closed_processes` knows which numbers are closed, and how many are missing
    there. With `for_good`, updates `channels`; else changes nothing.
    """
    inside = in_channels(rows)
    if not inside.any():
        return NamedRows(rows, ~inside, None, _fill_counts(channels.counts, channels.unmatched_sends()))
    places = np.flatnonzero(inside)
    ends = rows.take(pa.array(places)).combine_chunks()
    reached = _settled_at(ends, terms)
    ready = reached <= until
    again_at = int(reached[~ready].min()) if not ready.all() else None
    ready_ends = ends.filter(pa.array(ready))
    left_out = LeftOut.of(rows, closed_processes, until)
    left_out = replace(left_out, before=left_out.before[places[ready]])
    others = rows.filter(pa.array(~inside))
    named, counts = _match(channels, ready_ends, left_out, others, terms, until if for_good else None)
    result = pa.concat_tables([others, named, without_matches(ends.filter(pa.array(~ready)))])
    order = np.concatenate((np.flatnonzero(~inside), places[ready], places[~ready]))
    settled = ~inside
    settled[places[ready]] = True
    return NamedRows(result.take(pa.array(np.argsort(order))).combine_chunks(), settled, again_at, counts)


def count_unsettled(channels: Channels, rows: pa.Table) -> None:
    """Count rows that were closed before they were settled, which broken clocks can cause. They match nothing."""
    if not len(rows):
        return
    for row in rows.select(["channel_key", "kind", "channel_bytes"]).to_pylist():
        channel = channels.known.get(row["channel_key"])
        if channel is not None:
            side = channel.sends if row["kind"] == SEND else channel.receives
            side.count += 1
            size = 1 if channel.by_message else max(0, row["channel_bytes"] or 0)
            side.length, side.units = side.length + size, side.units + size


def count_channel_outcomes(closed: Mapping[str, Channels], tails: Mapping[str, dict[str, int]]) -> dict[str, int]:
    """Count outcomes over all computations; `tails` has the counts of those with a tail."""
    total = Counter[str]()
    for computation, channels in closed.items():
        total.update(tails.get(computation) or _fill_counts(channels.counts, channels.unmatched_sends()))
    return {name: total[name] for name in OUTCOMES} if total else {}


def _settled_at(ends: pa.Table, terms: LiveTerms) -> Longs:
    """By row, find the date up to which everything must have come before it can be matched.

    Never falls in a process.
    """
    dated, believed = _longs(ends, DATED), _is_believed(ends)
    is_send = pc.equal(ends["kind"], SEND).to_numpy()
    by_itself = np.where(is_send, _earliest(ends, terms), np.where(believed, dated + terms.eps, dated))
    side = number_sides(_codes(ends["channel_key"]), is_send)
    process = _codes(ends["process"])
    order = np.lexsort((_order_in_process(ends), process, side))
    reached = np.empty(len(ends), np.int64)
    reached[order] = latest_so_far(side[order], process[order], by_itself[order])
    return reached


def _earliest(ends: pa.Table, terms: LiveTerms) -> Longs:
    """By row, find the earliest time at which it can have happened, by a correct clock."""
    earliest: Longs = np.where(_is_believed(ends), _longs(ends, DATED), _longs(ends, "arrival") - terms.delta)
    return earliest


def _is_believed(ends: pa.Table) -> Flags:
    """Flag rows whose clock is believed."""
    believed: Flags = _longs(ends, "time") == _longs(ends, DATED)
    return believed


def _order_in_process(ends: pa.Table) -> Longs:
    """By row, get what orders the rows of its process: its number, or its time if it has none."""
    seq = _longs(ends, "seq")
    order: Longs = np.where(seq == NO_SEQ, _longs(ends, "time"), seq)
    return order


def _match(
    channels: Channels, ends: pa.Table, left_out: LeftOut, named: pa.Table, terms: LiveTerms, until: int | None
) -> tuple[pa.Table, dict[str, int]]:
    """Name the settled rows `ends`, and count outcomes.

    `named` are rows that have their names, or need none. `left_out` has the settled rows. Updates `channels` if `until`
    is given.
    """
    order = _order_in_process(ends)
    last_matched = _last_matched(channels, ends)
    # A report that comes after later ones of its process is a repeated one, or late.
    repeated = _find_repeated(ends, named, order <= last_matched)
    is_refused = np.zeros(len(ends), np.bool_)
    if channels.full:
        known = pa.array(sorted(channels.known), pa.string())
        is_refused = ~pc.is_in(ends["channel_key"], value_set=known).to_numpy(zero_copy_only=False).astype(np.bool_)
    is_chosen = ~is_refused
    is_chosen[list(repeated)] = is_refused[list(repeated)] = False
    chosen = ends.filter(pa.array(is_chosen))
    if not len(chosen):
        counted = _fill_counts(channels.counts, channels.unmatched_sends())
        return _restore_order(ends, chosen, is_chosen, is_refused, repeated), counted
    left_out = replace(left_out, before=left_out.before[is_chosen])
    joined = _join_under_way(channels, chosen, left_out, (order < last_matched)[is_chosen], terms)
    touched = preview_channels(channels, joined)
    matched = match_ends(joined.ends, make_earlier(touched, joined))
    outcomes = outcomes_of(joined.ends, matched)
    new_counts = count_outcomes(outcomes[joined.is_new] & ~np.int16(UNMATCHED_SEND))
    counts = {name: channels.counts.get(name, 0) + new_counts[name] for name in OUTCOMES}
    elsewhere = channels.unmatched_sends() - channels.unreceived(joined.kept)
    names = with_names(joined.table, joined.ends, matched, or_later=False).slice(len(joined.kept))
    result = _restore_order(ends, names, is_chosen, is_refused, repeated)
    if until is not None:
        keep_matches(channels, touched, joined, matched, until)
        channels.counts = counts
    return result, _fill_counts(counts, elsewhere + int(np.count_nonzero(outcomes & UNMATCHED_SEND)))


def _join_under_way(
    channels: Channels, chosen: pa.Table, left_out: LeftOut, behind: Flags, terms: LiveTerms
) -> JoinedSends:
    """Put what is under way in the channels of new rows before these."""
    kept = channels.under_way
    if len(kept):
        kept = kept.filter(pc.is_in(kept["channel_key"], value_set=chosen["channel_key"].unique()))
    before = sends_as_reports(kept, chosen["computation"][0].as_py(), channels)
    table = pa.concat_tables([before, chosen.select(REPORTS.names).cast(REPORTS)]).combine_chunks()
    nothing = np.zeros(len(kept), np.int64)
    latest = np.where(_is_believed(chosen), _longs(chosen, DATED) + terms.eps, LARGEST_TIME)
    unreported = left_out.of_rows(table["process"].to_pylist(), np.concatenate((nothing, left_out.before)))
    return JoinedSends(
        table,
        kept,
        ends_of(table, unreported),
        np.concatenate((nothing, _order_in_process(chosen))),
        np.concatenate((nothing.astype(np.bool_), behind)),
        np.concatenate((kept["earliest"].to_numpy(), _earliest(chosen, terms))),
        np.concatenate((nothing, latest)),
        left_out,
    )


def _fill_counts(counts: dict[str, int], unmatched: int) -> dict[str, int]:
    """Make counts of all outcomes; empty if nothing was counted."""
    if not counts and not unmatched:
        return {}
    return {name: unmatched if name == "unmatched_sends" else counts.get(name, 0) for name in OUTCOMES}


def _last_matched(channels: Channels, ends: pa.Table) -> Longs:
    """By row, get the last matched number or time of its process on its side of its channel."""
    last = np.full(len(ends), NO_TIME, np.int64)
    if not channels.known:
        return last
    columns = (ends[name].to_pylist() for name in ("channel_key", "kind", "process"))
    for row, (key, kind, process) in enumerate(zip(*columns, strict=True)):
        channel = channels.known.get(key)
        if channel is not None:
            side = channel.sends if kind == SEND else channel.receives
            last[row] = side.last.get(process, NO_TIME)
    return last


def _find_repeated(ends: pa.Table, named: pa.Table, suspected: Flags) -> dict[int, dict[str, Any]]:
    """Find suspected rows that repeat a row of `named`; return that row's names by row."""
    if not suspected.any():
        return {}

    def identity(row: dict[str, Any]) -> tuple[Any, ...] | None:
        if row["seq"] is not None:
            return row["process"], row["kind"], row["seq"]
        return None if row["id"] is None else (row["process"], row["kind"], row["time"], row["id"])

    identifying = ["process", "kind", "seq", "time", "id"]
    first = {
        key: row
        for row in named.select([*identifying, "sends", "receives", "receives_more"]).to_pylist()
        if (key := identity(row))
    }
    repeated = {}
    for row in np.flatnonzero(suspected).tolist():
        key = identity({name: ends[name][row].as_py() for name in identifying})
        if key is not None and key in first:
            repeated[row] = first[key]
    return repeated


def _restore_order(
    ends: pa.Table, names: pa.Table, is_matched: Flags, is_refused: Flags, repeated: dict[int, dict[str, Any]]
) -> pa.Table:
    """Put the rows back in their order.

    Matched ones get `names`, refused ones none, and repeated ones those of the rows they repeat.
    """
    unmatched = without_matches(ends.filter(pa.array(is_refused)))
    copies = without_matches(ends.take(pa.array(list(repeated), pa.int64())))
    matched = ends.filter(pa.array(is_matched))
    for name in ("sends", "receives", "receives_more"):
        copies = _set_column(
            copies, name, pa.array([original[name] for original in repeated.values()], copies.schema.field(name).type)
        )
    for name in _NAMES_CHANGE:
        matched = _set_column(matched, name, names[name])
    order = np.concatenate((np.flatnonzero(is_matched), np.flatnonzero(is_refused), np.array(list(repeated), np.int64)))
    return pa.concat_tables([matched, unmatched, copies]).take(pa.array(np.argsort(order)))


def _set_column(rows: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), rows.schema.field(name), column)


def _codes(column: pa.ChunkedArray) -> Longs:
    return np.asarray(column.combine_chunks().dictionary_encode().indices.to_numpy(), np.int64)


def _longs(table: pa.Table, name: str) -> Longs:
    return np.asarray(table[name].fill_null(NO_TIME).to_numpy(), np.int64)
