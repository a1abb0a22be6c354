"""Rows of `REPORTS` whose messages are known by their channel, as rows whose messages have names.

Three literal rows (other columns left out), the first two of 5 and 3 bytes that one receive takes together::

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
from ledto.causality.channels import ChannelEnds, Matched, Unreported, match_ends, unreported_in
from ledto.causality.order import NO_TIME
from ledto.events.schema import RECEIVE, SEND, SPAN

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
"""What is counted of a row: those whose outcome has one of these bits.

- matched: receives that follow sends of all that they took;
- unmatched: sends of which nobody received anything, and receives of which nobody known sent all;
- ambiguous: receives that may have taken something else, and each kind of doubt by itself;
- left out: those of them whose sends are a mere guess, so that nothing is said about what precedes them.
"""

Outcomes = NDArray[np.int16]

CHANNEL_COLUMNS: Final = ("channel_key", "channel_bytes")

OR_LATER: Final = " or later"
"""After the name of a message that a receive took, or else one that the same process sent later."""


def match_channels_in(table: pa.Table) -> tuple[pa.Table, Outcomes]:
    """The rows of whole computations with no channel, and the outcome of each that had one, as `match_table` gives them.

    Rows that had none come first.
    """
    inside = in_channels(table)
    ends, unreported = table.filter(pa.array(inside)), unreported_in(table).filter(inside)
    matched, outcomes = match_table(ends, unreported)
    others = without_channels(table.filter(pa.array(~inside)))
    return pa.concat_tables([others, matched.cast(table.schema)]), outcomes


def match_table(table: pa.Table, unreported: Unreported | None = None) -> tuple[pa.Table, Outcomes]:
    """The rows with `sends`, `receives` and `receives_more` set and no channel; and the outcome of each, see `OUTCOMES`.

    `table` has the columns of `REPORTS`, perhaps among others, and only sends and receives with a `channel_key`, all those
    of a channel: what is left out counts as never sent or received. Computations have no channel in common.

    A receive whose match is a guess gets no send: its cause is known to be missing. Where it is only unknown whether the
    send or a later one of the same process was taken, the name of the message says so, and something is known to be
    missing as well. `unreported` says which reports of the processes are missing; without it, none are.
    """
    table = table.combine_chunks()
    ends = ends_of(table, unreported or Unreported.none(len(table)))
    found = match_ends(ends)
    return with_names(table, ends, found), outcomes_of(ends, found)


def ends_of(table: pa.Table, unreported: Unreported) -> ChannelEnds:
    """The rows, sends and receives of channels, as numbers; channels are numbered by computation and key, ascending."""
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
        file=_ranks(table, "file"),
        place=_longs(table, "place", 0),
        name=_ranks(table, "id"),
        unreported=unreported,
    )


def outcomes_of(ends: ChannelEnds, found: Matched) -> Outcomes:
    """What came of each row, see `OUTCOMES`; nothing of copies."""
    outcome = found.doubts.astype(np.int16)
    is_receive = ~ends.is_send
    took = np.diff(found.offsets) > 0
    outcome[is_receive & took & ~found.missing & ~found.guessed] |= MATCHED
    outcome[is_receive & found.missing] |= UNMATCHED_RECEIVE
    outcome[found.guessed] |= LEFT_OUT
    outcome[ends.is_send & found.unreceived] |= UNMATCHED_SEND
    outcome[found.copy] = 0
    return outcome


def count_outcomes(outcomes: Outcomes) -> dict[str, int]:
    """How many rows have each of `OUTCOMES`."""
    return {name: int(np.count_nonzero(outcomes & bits)) for name, bits in OUTCOMES.items()}


def with_names(table: pa.Table, ends: ChannelEnds, found: Matched, *, or_later: bool = True) -> pa.Table:
    """The rows with `sends`, `receives` and `receives_more` set and no channel.

    `or_later`: where a loss leaves it open which of the messages of one process a receive took, their names say so.
    """
    keys, rows = table["channel_key"].combine_chunks(), table.num_rows
    number = pa.array(found.number).cast(pa.string())
    of_receive = np.repeat(np.arange(rows), np.diff(found.offsets))
    perhaps_later = np.zeros(rows, np.bool_)
    if or_later:
        perhaps_later[found.causes[(found.doubts[of_receive] != 0) & ~found.guessed[of_receive]]] = True
        # Copies of a send are called as it is.
        perhaps_later = _by_event(ends, found, perhaps_later)
    later = pc.if_else(pa.array(perhaps_later), OR_LATER, "")
    sent = pc.binary_join_element_wise(pc.binary_join_element_wise("channel ", keys, " #", number, ""), later, "")
    # A name of its own, which nobody asks for: it tells an event from its twin.
    told_apart = pc.binary_join_element_wise("channel ", keys, " receive #", number, "")
    # What a receive may have taken later is missing among its causes: nothing is concurrent with it.
    maybe_later = (found.doubts != 0) & ~found.guessed & ~found.missing
    unknown = pc.if_else(pa.array(maybe_later), _later_sends(keys), _unknown_sends(keys))
    names = pa.chunked_array([sent, unknown])

    known = ~found.guessed[of_receive]
    missing = found.missing | found.guessed | maybe_later
    longer = np.where(found.guessed, 0, np.diff(found.offsets)) + missing
    offsets = np.concatenate(([0], np.cumsum(longer)))
    taken: Longs = np.empty(offsets[-1], np.int64)
    is_missing = np.zeros(offsets[-1], np.bool_)
    is_missing[offsets[1:][missing] - 1] = True
    taken[~is_missing] = found.causes[known]
    taken[is_missing] = rows + np.flatnonzero(missing)

    has_any = longer > 0
    firsts = np.where(has_any, offsets[:-1], 0)
    first = np.full(rows, -1, np.int64)
    first[has_any] = taken[firsts[has_any]]
    rest = np.ones(len(taken), np.bool_)
    rest[firsts[has_any]] = False
    more_counts = np.maximum(longer - 1, 0)
    more_offsets = np.concatenate(([0], np.cumsum(more_counts))).astype(np.int32)
    more_names = names.take(pa.array(taken[rest])).combine_chunks()
    more = pa.ListArray.from_arrays(
        pa.array(more_offsets), more_names, mask=pa.array(more_counts == 0), type=pa.list_(pa.string())
    )
    receives = names.take(pa.array(first, mask=first < 0)).combine_chunks()

    is_send = pa.array(ends.is_send)
    received = pc.if_else(pa.array(_has_twin(ends)), pc.coalesce(table["sends"], told_apart), table["sends"])
    columns = {
        "sends": pc.if_else(is_send, sent, received),
        "receives": pc.if_else(is_send, table["receives"], receives),
        "receives_more": pc.if_else(is_send, table["receives_more"], more),
    }
    return without_channels(_replaced(table, columns))


def _unknown_sends(keys: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """By channel: a name that nobody sends, whose beginning says that its message is missed and is no mistake."""
    return pc.binary_join_element_wise(f"{SPAN}in channel ", keys, "")


def _later_sends(keys: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """By channel: such a name for a message that was perhaps received instead of the one that is named."""
    return pc.binary_join_element_wise(f"{SPAN}perhaps a later message in channel ", keys, "")


def without_matches(table: pa.Table) -> pa.Table:
    """Rows of channels of which nothing is known: sends without names, and receives whose send is missing."""
    is_send, keys = pc.equal(table["kind"], SEND), table["channel_key"]
    none = pa.scalar(None, pa.string())
    columns = {
        "sends": pc.if_else(is_send, none, table["sends"]),
        "receives": pc.if_else(is_send, table["receives"], _unknown_sends(keys)),
        "receives_more": pc.if_else(is_send, table["receives_more"], pa.scalar(None, pa.list_(pa.string()))),
    }
    return without_channels(_replaced(table, columns))


def in_channels(table: pa.Table) -> NDArray[np.bool_]:
    """Which rows of `REPORTS` are sends and receives of channels, and not set aside."""
    is_end = pc.is_in(table["kind"], value_set=pa.array([SEND, RECEIVE]))
    inside = pc.and_(pc.and_(pc.is_null(table["reason"]), pc.is_valid(table["channel_key"])), is_end)
    found: NDArray[np.bool_] = pc.fill_null(inside, False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return found


def _by_event(ends: ChannelEnds, found: Matched, flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The flags, also on the copies of the rows that have them: those of the same end and number."""
    event = np.stack((ends.channel * 2 + ~ends.is_send, found.number))
    place = np.unique(event, axis=1, return_inverse=True)[1].reshape(-1)
    any_of = np.zeros(place.max(initial=-1) + 1, np.bool_)
    any_of[place[flags]] = True
    return any_of[place]


def _has_twin(ends: ChannelEnds) -> NDArray[np.bool_]:
    """Receives of one process, channel and time that nothing else tells apart.

    Two that took parts of one send would receive the same message, and look like one event that was reported twice.
    """
    rows = np.flatnonzero(~ends.is_send & (ends.seq == NO_SEQ) & (ends.name < 0))
    columns = (ends.time, ends.process, ends.channel)
    rows = rows[np.lexsort([column[rows] for column in columns])]
    same = np.logical_and.reduce([column[rows[1:]] == column[rows[:-1]] for column in columns])
    twin = np.zeros(len(ends.channel), np.bool_)
    twin[rows[1:][same]] = twin[rows[:-1][same]] = True
    return twin


def without_channels(table: pa.Table) -> pa.Table:
    """The same rows with no channel."""
    return _replaced(table, {name: pa.nulls(table.num_rows, table[name].type) for name in CHANNEL_COLUMNS})


def _replaced(table: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    for name, column in columns.items():
        at = table.schema.get_field_index(name)
        table = table.set_column(at, table.schema.field(at), column)
    return table


def _ranks(table: pa.Table, name: str) -> Longs:
    """The texts of a column as numbers that sort as they do; -1 for none."""
    encoded = table[name].combine_chunks().dictionary_encode()
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
    indices = pc.fill_null(encoded.indices, -1).to_numpy()
    return np.where(indices < 0, -1, ranks[indices]) if len(ranks) else np.full(len(indices), -1, np.int64)


def _codes(column: pa.ChunkedArray) -> Longs:
    indices = column.combine_chunks().dictionary_encode().indices
    return np.asarray(pc.fill_null(indices, -1).to_numpy(), np.int64)


def _longs(table: pa.Table, name: str, none: int) -> Longs:
    return np.asarray(pc.fill_null(table[name], none).to_numpy(), np.int64)
