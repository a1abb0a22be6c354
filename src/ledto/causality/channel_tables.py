"""Give keys to the messages of channels, in tables of `REPORTS`.

Three literal rows, before and after; other columns are left out. One receive took two sends, of 5 and 3 bytes::

    {"process": "a", "kind": "send", "channel_key": "a>b", "channel_bytes": 5}    {"sends": "channel a>b #0"}
    {"process": "a", "kind": "send", "channel_key": "a>b", "channel_bytes": 3}    {"sends": "channel a>b #1"}
    {"process": "b", "kind": "receive", "channel_key": "a>b", "channel_bytes": 8}
                                  {"receives": "channel a>b #0", "receives_more": ["channel a>b #1"]}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.channel_kernels import NO_SEQ, NO_SIZE, Doubt, Longs
from ledto.causality.channels import ChannelEnds, Matched, Unreported, match_ends, side_of, unreported_in
from ledto.causality.order import NO_TIME
from ledto.events.file_names import rank_files
from ledto.events.keys import SPAN
from ledto.events.schema import RECEIVE, SEND

MATCHED: Final = 512
UNMATCHED_SEND: Final = 32
UNMATCHED_RECEIVE: Final = 64
LEFT_OUT: Final = 256
OUTCOMES: Final[Mapping[str, int]] = {
    "matched": MATCHED,
    "unmatched_sends": UNMATCHED_SEND,
    "unmatched_receives": UNMATCHED_RECEIVE,
    "ambiguous": sum(Doubt),
    "ambiguous_loss": int(Doubt.LOSS),
    "ambiguous_order": int(Doubt.ORDER),
    "ambiguous_surplus": int(Doubt.SURPLUS),
    "ambiguous_backwards": int(Doubt.BACKWARDS),
    "ambiguous_sizes": int(Doubt.SIZES),
    "ambiguous_reports": int(Doubt.REPORTS),
    "left_out": LEFT_OUT,
}
"""Names of counts, and the bits of a row's outcome for which it counts.

- matched: receives whose sends are all known;
- unmatched: sends that no known row received, and receives whose send, or a part of it, is unknown;
- ambiguous: receives that may have taken something else; and each kind of doubt by itself;
- left out: ambiguous receives whose sends are only a guess. They get no cause.
"""

Outcomes = NDArray[np.int16]
"""By row: bits of `OUTCOMES`."""

CHANNEL_COLUMNS: Final = ("channel_key", "channel_bytes")

OR_LATER: Final = " or later"
"""Ends the key of a message if the receive may have taken a later one of the same process instead."""


def match_channels_in(table: pa.Table) -> tuple[pa.Table, Outcomes]:
    """Match all channels of whole computations; return the rows, and the outcomes of those that had a channel.

    Rows without a channel come first. No row has a channel any more. See `match_table`.
    """
    inside = in_channels(table)
    ends, unreported = table.filter(pa.array(inside)), unreported_in(table).filter(inside)
    matched, outcomes = match_table(ends, unreported)
    others = without_channels(table.filter(pa.array(~inside)))
    return pa.concat_tables([others, matched.cast(table.schema)]), outcomes


def match_table(table: pa.Table, unreported: Unreported | None = None) -> tuple[pa.Table, Outcomes]:
    """Match channels; return the rows with `sends`, `receives` and `receives_more` set, and the outcome of each.

    `table` has the columns of `REPORTS`, perhaps among others. All its rows are sends and receives with a `channel_key`, and
    it has all rows of each channel: others count as never sent or received. Two computations never share a channel.

    A receive whose match is a guess gets no send, but a missing cause. If only a later send of the same process may have
    been taken instead, the key says so, and there is a missing cause as well. Without `unreported`, no reports count as
    missing.
    """
    table = table.combine_chunks()
    ends = ends_of(table, unreported or Unreported.none(len(table)))
    matched = match_ends(ends)
    return with_names(table, ends, matched), outcomes_of(ends, matched)


def ends_of(table: pa.Table, unreported: Unreported) -> ChannelEnds:
    """Convert rows of channels to numbers; channels are numbered in the order of computation and key."""
    channel = _ranks(table, "computation") * (table.num_rows + 1) + _ranks(table, "channel_key")
    channel = np.unique(channel, return_inverse=True)[1].astype(np.int64)
    return ChannelEnds(
        channel=channel,
        is_send=pc.equal(table["kind"], SEND).to_numpy(),
        size=_longs(table, "channel_bytes", NO_SIZE),
        process=_ranks(table, "process"),
        clock=_codes(pc.coalesce(table["clock_name"], table["process"])),
        seq=_longs(table, "seq", NO_SEQ),
        time=_longs(table, "time", NO_TIME),
        file=_file_ranks(table),
        place=_longs(table, "place", 0),
        name=_ranks(table, "id"),
        unreported=unreported,
    )


def outcomes_of(ends: ChannelEnds, matched: Matched) -> Outcomes:
    """Give the outcome of each row; 0 for copies."""
    outcome = matched.doubts.astype(np.int16)
    is_receive = ~ends.is_send
    took = np.diff(matched.offsets) > 0
    outcome[is_receive & took & ~matched.missing & ~matched.guessed] |= MATCHED
    outcome[is_receive & matched.missing] |= UNMATCHED_RECEIVE
    outcome[matched.guessed] |= LEFT_OUT
    outcome[ends.is_send & matched.unreceived] |= UNMATCHED_SEND
    outcome[matched.copy] = 0
    return outcome


def count_outcomes(outcomes: Outcomes) -> dict[str, int]:
    """Count the rows for each name of `OUTCOMES`."""
    return {name: int(np.count_nonzero(outcomes & bits)) for name, bits in OUTCOMES.items()}


def with_names(table: pa.Table, ends: ChannelEnds, matched: Matched, *, or_later: bool = True) -> pa.Table:
    """Set `sends`, `receives` and `receives_more` as matched, and remove the channel.

    `or_later`: mark keys with `OR_LATER` where that applies.
    """
    keys, rows = table["channel_key"].combine_chunks(), table.num_rows
    number = pa.array(matched.number).cast(pa.string())
    of_receive = np.repeat(np.arange(rows), np.diff(matched.offsets))
    perhaps_later = np.zeros(rows, np.bool_)
    if or_later:
        perhaps_later[matched.causes[(matched.doubts[of_receive] != 0) & ~matched.guessed[of_receive]]] = True
        # Copies of a send have its key.
        perhaps_later = _by_event(ends, matched, perhaps_later)
    later = pc.if_else(pa.array(perhaps_later), OR_LATER, "")
    sent = pc.binary_join_element_wise(pc.binary_join_element_wise("channel ", keys, " #", number, ""), later, "")
    # A key of its own, which nobody receives, so that a receive differs from its twin.
    own_key = pc.binary_join_element_wise("channel ", keys, " receive #", number, "")
    # If a receive may have taken a later send, a cause is missing: nothing may be called concurrent with it.
    maybe_later = (matched.doubts != 0) & ~matched.guessed & ~matched.missing
    unknown = pc.if_else(pa.array(maybe_later), _later_sends(keys), _unknown_sends(keys))
    # First the keys of sends by row, then the keys of missing causes by row.
    names = pa.chunked_array([sent, unknown])

    certain = ~matched.guessed[of_receive]
    missing = matched.missing | matched.guessed | maybe_later
    counts = np.where(matched.guessed, 0, np.diff(matched.offsets)) + missing
    offsets = np.concatenate(([0], np.cumsum(counts)))
    chosen: Longs = np.empty(offsets[-1], np.int64)
    is_missing = np.zeros(offsets[-1], np.bool_)
    is_missing[offsets[1:][missing] - 1] = True
    chosen[~is_missing] = matched.causes[certain]
    chosen[is_missing] = rows + np.flatnonzero(missing)

    has_any = counts > 0
    firsts = np.where(has_any, offsets[:-1], 0)
    first = np.zeros(rows, np.int64)
    first[has_any] = chosen[firsts[has_any]]
    is_more = np.ones(len(chosen), np.bool_)
    is_more[firsts[has_any]] = False
    more_counts = np.maximum(counts - 1, 0)
    more_offsets = np.concatenate(([0], np.cumsum(more_counts))).astype(np.int32)
    more_names = names.take(pa.array(chosen[is_more])).combine_chunks()
    more = pa.ListArray.from_arrays(
        pa.array(more_offsets), more_names, mask=pa.array(more_counts == 0), type=pa.list_(pa.string())
    )
    receives = names.take(pa.array(first, mask=~has_any)).combine_chunks()

    is_send = pa.array(ends.is_send)
    received = pc.if_else(pa.array(_has_twin(ends)), pc.coalesce(table["sends"], own_key), table["sends"])
    columns = {
        "sends": pc.if_else(is_send, sent, received),
        "receives": pc.if_else(is_send, table["receives"], receives),
        "receives_more": pc.if_else(is_send, table["receives_more"], more),
    }
    return without_channels(_replaced(table, columns))


def _unknown_sends(keys: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Make a key that nobody sends, with the prefix that marks a missing message as expected."""
    return pc.binary_join_element_wise(f"{SPAN}in channel ", keys, "")


def _later_sends(keys: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Make such a key for a message that may have been received instead of the one that was matched."""
    return pc.binary_join_element_wise(f"{SPAN}perhaps a later message in channel ", keys, "")


def without_matches(table: pa.Table) -> pa.Table:
    """Give up on rows of channels: sends get no key, and receives a missing send."""
    is_send, keys = pc.equal(table["kind"], SEND), table["channel_key"]
    none = pa.scalar(None, pa.string())
    columns = {
        "sends": pc.if_else(is_send, none, table["sends"]),
        "receives": pc.if_else(is_send, table["receives"], _unknown_sends(keys)),
        "receives_more": pc.if_else(is_send, table["receives_more"], pa.scalar(None, pa.list_(pa.string()))),
    }
    return without_channels(_replaced(table, columns))


def in_channels(table: pa.Table) -> NDArray[np.bool_]:
    """Mark the rows of `REPORTS` that are sends and receives of channels, and not quarantined."""
    is_end = pc.is_in(table["kind"], value_set=pa.array([SEND, RECEIVE]))
    inside = pc.and_(pc.and_(pc.is_null(table["reason"]), pc.is_valid(table["channel_key"])), is_end)
    flags: NDArray[np.bool_] = pc.fill_null(inside, False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return flags


def _by_event(ends: ChannelEnds, matched: Matched, flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Extend the flags to all rows that report the same event: those of the same side and number."""
    event = np.stack((side_of(ends.channel, ends.is_send), matched.number))
    event_of_row = np.unique(event, axis=1, return_inverse=True)[1].reshape(-1)
    flagged = np.zeros(event_of_row.max(initial=-1) + 1, np.bool_)
    flagged[event_of_row[flags]] = True
    return flagged[event_of_row]


def _has_twin(ends: ChannelEnds) -> NDArray[np.bool_]:
    """Mark receives of one process, channel and time that differ in nothing else.

    If two of them took parts of one send, they would look like one event that was reported twice.
    """
    rows = np.flatnonzero(~ends.is_send & (ends.seq == NO_SEQ) & (ends.name < 0))
    columns = (ends.time, ends.process, ends.channel)
    rows = rows[np.lexsort([column[rows] for column in columns])]
    same = np.logical_and.reduce([column[rows[1:]] == column[rows[:-1]] for column in columns])
    twin = np.zeros(len(ends.channel), np.bool_)
    twin[rows[1:][same]] = twin[rows[:-1][same]] = True
    return twin


def without_channels(table: pa.Table) -> pa.Table:
    """Remove the channels of all rows."""
    return _replaced(table, {name: pa.nulls(table.num_rows, table[name].type) for name in CHANNEL_COLUMNS})


def _replaced(table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Replace columns of the table."""
    for name, column in columns.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), column)
    return table


def _ranks(table: pa.Table, name: str) -> Longs:
    """Number the texts of a column in their order; -1 for null."""
    encoded = table[name].combine_chunks().dictionary_encode()
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
    indices = pc.fill_null(encoded.indices, -1).to_numpy()
    return np.where(indices < 0, -1, ranks[indices]) if len(ranks) else np.full(len(indices), -1, np.int64)


def _file_ranks(table: pa.Table) -> Longs:
    """Number the files in their order (`rank_files`); -1 for null."""
    encoded = table["file"].combine_chunks().dictionary_encode()
    ranks = np.array([*rank_files(encoded.dictionary.to_pylist()), -1], np.int64)
    return np.asarray(ranks[pc.fill_null(encoded.indices, -1).to_numpy()], np.int64)


def _codes(column: pa.ChunkedArray) -> Longs:
    """Number the different texts of a column from 0; -1 for null."""
    indices = column.combine_chunks().dictionary_encode().indices
    return np.asarray(pc.fill_null(indices, -1).to_numpy(), np.int64)


def _longs(table: pa.Table, name: str, none: int) -> Longs:
    """Convert a column to int64; `none` for null."""
    return np.asarray(pc.fill_null(table[name], none).to_numpy(), np.int64)
