"""Match receives with sends by their order in a channel, for messages that have no keys.

A channel is one direction of one connection: what is sent first is received first. Its sends, in their order, make a stream,
and so do its receives. A message takes up as many units of the stream as it has bytes, and a receive took every send with
which it shares a byte. If bytes are not counted, each message takes up one unit, and the nth receive took the nth send.

Each *end* of a channel, its sends or its receives, is in the order of its process: by sequence number, or else by time, file
and place. Rows of several processes, such as threads that share a socket, are merged by time.

Matching assumes that the channel keeps the order of its messages, and that each was sent before it is received, at most
once. If the rows show that a receive may have taken something else, its match has a `Doubt`:

- LOSS: more was sent than received. If an earlier send was lost, this receive took a later one;
- ORDER: rows of several processes at one time, on several clocks or without a time: their order is unknown, and in another
  order this receive took something else;
- SURPLUS: more was received than sent, so some sends are unknown, and not necessarily the last ones;
- BACKWARDS: send and receive have the same clock, and the receive is earlier;
- SIZES: some rows of the channel count bytes and others do not, so messages are counted;
- REPORTS: several processes send, and numbers show that a report of one of them was lost.

Reports are known to be lost if numbers are left out: a process that reported the events 1, 2 and 5 had two more, and each
may have been a send in this channel. Without numbers, nothing shows that a report was lost. If only one process sends, each
send is put as late in its stream as it can have been: behind all missing events before it. A send then precedes the receive
at its place, however many of the missing events were sends. A receive at a place without a send has a missing cause. In a
stream of bytes, sends behind a missing report have no place.

A match with a doubt is a *guess*, with one exception: if the only doubt is LOSS, and all sends that the receive may have
taken are of one process, then the first of them precedes the receive in any case. docs/decisions/0014 has the proof.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.channel_kernels import (
    LONGEST_STREAM_BYTES,
    NO_SEQ,
    NO_SIZE,
    Codes,
    Doubt,
    Flags,
    Longs,
    latest_so_far,
    match_streams,
    places_in_streams,
    unordered_parts,
)
from ledto.causality.order import NO_TIME


@dataclass(frozen=True, slots=True, eq=False)
class Unreported:
    """By row: the number of events of its process that nobody reported."""

    before: Longs
    """Those with smaller numbers than the row's."""
    in_all: Longs
    """Those with smaller numbers than the largest that was reported."""

    def filter(self, chosen: NDArray[np.bool_]) -> Unreported:
        """Take the chosen rows."""
        return Unreported(self.before[chosen], self.in_all[chosen])

    @classmethod
    def none(cls, rows: int) -> Unreported:
        """Make the value for rows before which nothing is missing."""
        return cls(np.zeros(rows, np.int64), np.zeros(rows, np.int64))


@dataclass(frozen=True, slots=True)
class ChannelEnds:
    """Sends and receives of whole channels, in any order. Texts are numbers that are equal iff the texts are."""

    channel: Longs
    is_send: Flags
    size: Longs
    """Bytes, or `NO_SIZE`."""
    process: Longs
    clock: Longs
    """The clock that `time` was read from."""
    seq: Longs
    """`NO_SEQ` where none is given."""
    time: Longs
    """`NO_TIME` where none is given."""
    file: Longs
    """The rank of the file's name."""
    place: Longs
    """The row's place in the file."""
    name: Longs
    """The event's id; -1 without one."""
    unreported: Unreported


@dataclass(frozen=True, slots=True)
class Earlier:
    """The state of channels after earlier rows, so that `match_ends` goes on there.

    The earlier rows are not given again, except sends that are not received yet: these are *kept*.
    """

    sent_count: Longs
    """By channel: the number of sends so far, kept ones included."""
    sent: Longs
    """By channel: where the stream of its sends ends."""
    received_count: Longs
    """By channel: the number of receives so far."""
    received: Longs
    """By channel: where the stream of its receives ends."""
    units: Longs
    """By channel: the sum of its sends, without what may be missing between them."""
    unreported: Longs
    """By channel: the number of missing events of a process that sent so far; the largest such number."""
    several: Flags
    """By channel: whether several processes sent so far."""
    receivers_lack: Flags
    """By channel: whether events are missing of a process that received so far."""
    short: Longs
    """By channel: by how much receives exceeded sends, at the most; 0 if nothing is known to be missing."""
    smallest: Longs
    """By channel: the smallest send that is not kept."""
    by_message: Flags
    """By channel: whether messages are counted, and not bytes."""
    sizes_differ: Flags
    """By channel: whether some rows count bytes and others do not."""
    unordered: Flags
    """By side, see `side_of`: whether the order of its processes is unknown."""
    kept: Flags
    """By row: whether it is kept. The next four columns are for kept rows."""
    number: Longs
    first: Longs
    last: Longs
    """As in `Matched`."""
    kept_unordered: Flags
    """Whether its place among other sends is unknown."""
    behind: Flags
    """By row: it is a receive, and later ones of its process are matched already. It counts, and takes nothing."""
    earliest: Longs
    """By row: the earliest time at which it can have been sent, on a common clock."""
    latest: Longs
    """By row: the latest time at which it can have been received, on that clock."""

    @classmethod
    def nothing(cls, channels: int, rows: int) -> Earlier:
        """Make the state of channels that begin with these rows, and whose clocks are not compared."""
        zero, no = np.zeros(channels, np.int64), np.zeros(channels, np.bool_)
        largest = np.full(channels, LONGEST_STREAM_BYTES, np.int64)
        zero_by_row, no_by_row = np.zeros(rows, np.int64), np.zeros(rows, np.bool_)
        unordered = np.zeros(2 * channels, np.bool_)
        return cls(
            *(zero, zero, zero, zero, zero, zero, no, no, zero, largest, no, no, unordered),
            *(no_by_row, zero_by_row, zero_by_row, zero_by_row, no_by_row, no_by_row, zero_by_row, zero_by_row),
        )


@dataclass(frozen=True, slots=True)
class Matched:
    """The result of matching, by row of `ChannelEnds`."""

    number: Longs
    """The row's number among the sends, or receives, of its channel, from 0; copies have that of their original."""
    offsets: Longs
    causes: Longs
    """Row ``i`` received the sends ``causes[offsets[i]:offsets[i + 1]]``, in the channel's order."""
    missing: Flags
    """Receives of which the send, or a part of it, is unknown."""
    unreceived: Flags
    """Sends of which no known row received anything."""
    doubts: Codes
    """The `Doubt` of a receive that took something."""
    guessed: Flags
    """Receives whose `causes` do not surely precede them."""
    copy: Flags
    """Rows that repeat the report of another row; all other columns are those of the other."""
    first: Longs
    """Where the row begins in its stream."""
    last: Longs
    """Where it ends."""
    unordered: Flags
    """Rows whose place in their stream is unknown."""
    short: Longs
    """By channel: by how much receives exceed sends; 0 if nothing is known to be missing."""
    units: Longs
    """By channel: the sum of its sends, without what may be missing between them."""


def side_of(channel: Longs, is_send: Flags) -> Longs:
    """Number the sides of channels: 0 for the sends of channel 0, 1 for its receives, 2 for the sends of channel 1, ..."""
    return channel * 2 + ~is_send


def match_ends(ends: ChannelEnds, earlier: Earlier | None = None) -> Matched:
    """Match the receives of every channel with its sends. Time is linear, except for sorting; memory holds all channels.

    Two rows of one side, process and number (or, without numbers, of one time and id) report the same event. With `earlier`,
    the rows continue earlier ones, and times bound what can have been sent before a receive.
    """
    rows = len(ends.channel)
    if earlier is None:
        earlier = Earlier.nothing(int(ends.channel.max(initial=-1)) + 1, rows)
    side = side_of(ends.channel, ends.is_send)
    original = _originals(ends, side)
    copy = original != np.arange(rows)
    order, moment = _stream_order(ends, side, earlier.kept, np.flatnonzero(~copy))

    channels = ends.channel[order]
    starts = np.flatnonzero(np.diff(channels, prepend=-1))
    sizes = ends.size[order]
    size = np.where(earlier.by_message[channels] | (sizes == NO_SIZE), 1, np.clip(sizes, 0, LONGEST_STREAM_BYTES))
    differ = earlier.sizes_differ.copy()
    if len(order):
        unsized = np.logical_or.reduceat(sizes == NO_SIZE, starts)
        sized = np.logical_or.reduceat(sizes != NO_SIZE, starts)
        differ[channels[starts]] |= sized & unsized
        size = np.where(differ[channels], 1, size)
    counts_bytes = (sizes != NO_SIZE) & ~(earlier.by_message | differ)[channels]
    several, unreported = _senders(ends, earlier, order)
    first, last, number, units = _placed(ends, earlier, order, side, size, counts_bytes, several)
    receivers_lack = earlier.receivers_lack.copy()
    receivers_lack[channels[~ends.is_send[order] & (ends.unreported.in_all[order] > 0)]] = True
    in_bytes = np.zeros(len(several), np.bool_)
    in_bytes[channels[counts_bytes]] = True
    at_most_missing = np.where(in_bytes & (unreported > 0), LONGEST_STREAM_BYTES, unreported)
    sent_at_most = np.minimum(units, LONGEST_STREAM_BYTES - at_most_missing) + at_most_missing
    low, high = unordered_parts(side[order], ends.process[order], ends.clock[order], moment, first, last)
    lost_order = earlier.unordered[side[order]] | earlier.kept_unordered[order]
    low, high = np.where(lost_order, 0, low), np.where(lost_order, LONGEST_STREAM_BYTES, high)
    counts, causes, missing, unreceived, doubts, guessed, short_now = match_streams(
        np.append(starts, len(order)),
        ends.is_send[order],
        *(first, last, low, high),
        *(ends.clock[order], ends.time[order], ends.process[order]),
        *(earlier.earliest[order], earlier.latest[order]),
        *(earlier.sent[channels[starts]], sent_at_most[channels[starts]]),
        *((~several)[channels[starts]], receivers_lack[channels[starts]]),
        *(column[channels[starts]] for column in (earlier.received, earlier.short, earlier.smallest)),
    )
    doubts[(counts > 0) & differ[channels]] |= int(Doubt.SIZES)
    doubts[(counts > 0) & (several & (unreported > 0))[channels]] |= int(Doubt.REPORTS)
    guessed |= (doubts & ~np.uint8(Doubt.LOSS)) != 0
    guessed |= earlier.behind[order]
    short = earlier.short.copy()
    short[channels[starts]] = short_now

    at = np.empty(rows, np.int64)
    at[order] = np.arange(len(order))
    at = at[original]
    begins = np.concatenate(([0], np.cumsum(counts)))
    offsets = np.concatenate(([0], np.cumsum(counts[at])))
    entries = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - begins[at], counts[at])
    return Matched(
        *(number[at], offsets, order[causes[entries]], missing[at], unreceived[at], doubts[at], guessed[at], copy),
        *(first[at], last[at], low[at] >= 0, short, units),
    )


def _senders(ends: ChannelEnds, earlier: Earlier, order: Longs) -> tuple[Flags, Longs]:
    """Find for each channel whether several processes send, and the largest number of missing events of one of them."""
    several, unreported = earlier.several.copy(), earlier.unreported.copy()
    sends = order[ends.is_send[order]]
    channels = ends.channel[sends]
    np.maximum.at(unreported, channels, ends.unreported.in_all[sends])
    lowest, highest = np.full(len(several), NO_TIME), np.full(len(several), -1)
    lowest[channels] = ends.process[sends]
    np.minimum.at(lowest, channels, ends.process[sends])
    np.maximum.at(highest, channels, ends.process[sends])
    several[channels] |= (lowest != highest)[channels]
    return several, unreported


def _placed(
    ends: ChannelEnds, earlier: Earlier, order: Longs, side: Longs, size: Longs, counts_bytes: Flags, several: Flags
) -> tuple[Longs, Longs, Longs, Longs]:
    """Find where each row of `order` begins and ends in its stream, its number there, and by channel the sum of sends."""
    kept, sides = earlier.kept[order], side[order]
    channels, is_send = ends.channel[order], ends.is_send[order]
    first, last = earlier.first[order], earlier.last[order]
    number = earlier.number[order]
    new = np.flatnonzero(~kept)
    missing = np.where(is_send & ~several[channels], ends.unreported.before[order], 0)
    missing[counts_bytes & (missing > 0)] = LONGEST_STREAM_BYTES
    begun = np.where(is_send, earlier.sent[channels], earlier.received[channels])
    units_before = np.where(is_send, earlier.units[channels], begun)
    first[new], last[new], units_then = places_in_streams(
        size[new], sides[new], begun[new], units_before[new], missing[new]
    )
    units = earlier.units.copy()
    np.maximum.at(units, channels[new][is_send[new]], units_then[is_send[new]])
    counted = np.where(is_send, earlier.sent_count[channels], earlier.received_count[channels])[new]
    starts = np.maximum.accumulate(np.where(np.diff(sides[new], prepend=-1) != 0, np.arange(len(new)), 0))
    number[new] = counted + np.arange(len(new)) - starts
    return first, last, number, units


def _originals(ends: ChannelEnds, side: Longs) -> Longs:
    """Find for each row the first row, by file and place, that reports the same event: itself unless it is a copy."""
    numbered = ends.seq != NO_SEQ
    original = np.arange(len(side))
    for chosen, key, name in (
        (np.flatnonzero(numbered), ends.seq, np.zeros_like(ends.name)),
        (np.flatnonzero(~numbered & (ends.name >= 0)), ends.time, ends.name),
    ):
        columns = (name, key, ends.process, side)
        by_event = chosen[np.lexsort((ends.place[chosen], ends.file[chosen], *(column[chosen] for column in columns)))]
        repeats = np.zeros(len(by_event), np.bool_)
        if len(by_event):
            same = [column[by_event[1:]] == column[by_event[:-1]] for column in columns]
            repeats[1:] = np.logical_and.reduce(same)
        leader = np.maximum.accumulate(np.where(repeats, 0, np.arange(len(by_event))))
        original[by_event] = by_event[leader]
    return original


def _stream_order(ends: ChannelEnds, side: Longs, kept: Flags, rows: Longs) -> tuple[Longs, Longs]:
    """Sort rows by channel, sends first, each side in the order of its stream; return them, and the time of each there.

    Kept rows come first, in the order in which they are given.
    """
    rank = np.empty(len(side), np.int64)
    rank[rows[np.lexsort((ends.place[rows], ends.file[rows], ends.time[rows]))]] = np.arange(len(rows))
    by_process = rows[np.lexsort((rank[rows], ends.seq[rows], ends.process[rows], side[rows]))]
    # If a process's numbers and times disagree, a row counts as being at the latest time of its process so far.
    reached = latest_so_far(side[by_process], ends.process[by_process], rank[by_process])
    is_kept = kept[by_process]
    by_stream = np.lexsort(
        (np.arange(len(by_process)), np.where(is_kept, by_process, reached), ~is_kept, side[by_process])
    )
    time_of_rank = np.empty(len(rows), np.int64)
    time_of_rank[rank[rows]] = ends.time[rows]
    return by_process[by_stream], time_of_rank[reached[by_stream]]


def unreported_in(table: pa.Table) -> Unreported:
    """Count the unreported events, from all rows of `REPORTS` of their processes. Quarantined rows report nothing."""
    usable = pc.and_(pc.is_null(table["reason"]), pc.greater_equal(table["seq"].fill_null(0), 1))
    rows = np.flatnonzero(usable.to_numpy())
    unreported = Unreported.none(len(table))
    if not len(rows):
        return unreported
    computation, process = (_codes(table[name]) for name in ("computation", "process"))
    codes = np.unique(computation * (process.max() + 1) + process, return_inverse=True)[1].astype(np.int64)
    seq = table["seq"].take(pa.array(rows)).to_numpy()
    nothing = np.zeros(codes.max() + 1, np.int64)
    unreported.before[rows] = left_out_before(codes[rows], seq, nothing, nothing)
    in_all = nothing.copy()
    np.maximum.at(in_all, codes[rows], unreported.before[rows])
    unreported.in_all[rows] = in_all[codes[rows]]
    return unreported


def left_out_before(process: Longs, seq: Longs, last: Longs, missing: Longs) -> Longs:
    """Count for each row the smaller numbers of its process that no row has.

    `last` and `missing`, by process: numbers up to `last` came before these rows, except `missing` of them. Rows with
    such numbers get 0.
    """
    left_out = np.zeros(len(seq), np.int64)
    new = np.flatnonzero(seq > last[process])
    if not len(new):
        return left_out
    order = new[np.lexsort((seq[new], process[new]))]
    processes, numbers = process[order], seq[order]
    starts = np.diff(processes, prepend=-1) != 0
    is_first_report = starts | (np.diff(numbers, prepend=-1) != 0)
    reported = np.cumsum(is_first_report)
    before_process = np.maximum.accumulate(np.where(starts, reported - 1, 0))
    left_out[order] = missing[processes] + (numbers - last[processes]) - (reported - before_process)
    return left_out


def _codes(column: pa.ChunkedArray) -> Longs:
    """Number the different texts from 1; 0 for null."""
    indices = column.combine_chunks().dictionary_encode().indices
    return np.asarray(pc.fill_null(indices, -1).to_numpy(zero_copy_only=False), np.int64) + 1
