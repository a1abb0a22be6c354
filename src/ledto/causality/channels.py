"""Which send a receive of a channel took: where messages have no names, by their order in the channel.

A channel is one direction of one connection; what is sent first is received first. The sends of a channel, in their
order, lie one behind the other in a stream, and so do the receives. A message that has a count of bytes is as long as
that, and a receive takes every send with which it shares a byte; where counts are not given, a message is of length one, and
the nth receive takes the nth send.

The order of one end is that of its process: by sequence numbers, or else by time, file and place. Rows of several
processes (threads that use one socket) are merged by time, each process keeping its own order.

What this takes for granted: the channel keeps the order of its messages, and nothing is received that was not sent, or more
often than it was sent. Where the rows show that a receive may have taken something else, it has its `Doubt`:

- LOSS: more was sent than received. Which sends were lost is unknown, and without a lost one this receive would have taken
  a later one;
- ORDER: rows of several processes at one time, or on several clocks, or without a time: their order is unknown, and in
  another one this receive might have taken something else;
- SURPLUS: more was received than sent, so some sends are not known, and they need not be the last ones;
- BACKWARDS: by the one clock of both, it was received before it was sent;
- SIZES: some rows of the channel count bytes and others do not, so messages were counted;
- REPORTS: several processes send, and numbers show that reports of one of them were lost.

If one process sends, and its numbers show that reports were lost (`ledto.causality.channels`), each of these may have
been a send in this channel. So a send is put as far on in its stream as it can have been: behind all that are missing
before it. What lies there precedes the receive of that place, however many of the missing ones were sends here. A receive
of a place at which no send lies lacks its send. Of a stream of bytes, nothing behind a missing report has a place.

A match with a doubt is a *guess*, but for one kind: if only losses are in doubt, and all sends that the receive may have
taken are of one process, then the first of them precedes the receive whichever it was. docs/decisions/0014 has the proof.
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
    """By row: how many events of its process nobody reported."""

    before: Longs
    """Those with a smaller number than the row's."""
    in_all: Longs
    """Those before any event of the process that is known."""

    def filter(self, chosen: NDArray[np.bool_]) -> Unreported:
        """The same of these rows."""
        return Unreported(self.before[chosen], self.in_all[chosen])

    @classmethod
    def none(cls, rows: int) -> Unreported:
        """Of rows before which nothing is missing."""
        return cls(np.zeros(rows, np.int64), np.zeros(rows, np.int64))


def unreported_in(table: pa.Table) -> Unreported:
    """Of rows of `REPORTS`, which are all there are of their processes; those that are set aside report nothing."""
    usable = pc.and_(pc.is_null(table["reason"]), pc.greater_equal(table["seq"].fill_null(0), 1))
    rows = np.flatnonzero(usable.to_numpy())
    found = Unreported.none(len(table))
    if not len(rows):
        return found
    computation, process = (_codes(table[name]) for name in ("computation", "process"))
    codes = np.unique(computation * (process.max() + 1) + process, return_inverse=True)[1].astype(np.int64)
    seq = table["seq"].take(pa.array(rows)).to_numpy()
    nothing = np.zeros(codes.max() + 1, np.int64)
    found.before[rows] = left_out_before(codes[rows], seq, nothing, nothing)
    in_all = nothing.copy()
    np.maximum.at(in_all, codes[rows], found.before[rows])
    found.in_all[rows] = in_all[codes[rows]]
    return found


def left_out_before(process: Longs, seq: Longs, last: Longs, missing: Longs) -> Longs:
    """By row: how many smaller numbers of its process are in no row.

    By process: all up to `last` were reported before these rows, but for `missing` of them. Rows up to there get 0.
    """
    found = np.zeros(len(seq), np.int64)
    new = np.flatnonzero(seq > last[process])
    if not len(new):
        return found
    order = new[np.lexsort((seq[new], process[new]))]
    whose, numbers = process[order], seq[order]
    starts = np.diff(whose, prepend=-1) != 0
    is_first_report = starts | (np.diff(numbers, prepend=-1) != 0)
    reported = np.cumsum(is_first_report)
    before_process = np.maximum.accumulate(np.where(starts, reported - 1, 0))
    found[order] = missing[whose] + (numbers - last[whose]) - (reported - before_process)
    return found


def _codes(column: pa.ChunkedArray) -> Longs:
    indices = column.combine_chunks().dictionary_encode().indices
    return np.asarray(pc.fill_null(indices, -1).to_numpy(zero_copy_only=False), np.int64) + 1


@dataclass(frozen=True, slots=True)
class ChannelEnds:
    """Sends and receives of whole channels, in any order; texts as numbers that are equal iff the texts are."""

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
    """Rank of the file's name."""
    place: Longs
    name: Longs
    """The event's own id; -1 where it has none."""
    unreported: Unreported


@dataclass(frozen=True, slots=True)
class Earlier:
    """What is known of channels whose rows up to now are gone, so that `match_ends` goes on where they end.

    Of those rows, sends that are not received yet are among the rows of `ChannelEnds` again: they are *kept*.
    """

    sent_count: Longs
    """By channel: sends so far, kept ones included; then what they add up to, and both for receives."""
    sent: Longs
    received_count: Longs
    received: Longs
    units: Longs
    """By channel: what its sends add up to, without what may be missing between them."""
    unreported: Longs
    """By channel: the most events that are missing of a process that sent so far ..."""
    several: Flags
    """... and whether there are several of these."""
    receivers_lack: Flags
    """By channel: events are missing of a process that received so far."""
    short: Longs
    """By channel: how much more was received than sent, at some time; 0 if nothing is known to be missing."""
    smallest: Longs
    """By channel: the smallest send that is gone."""
    by_message: Flags
    """By channel: messages are counted, whatever their bytes."""
    sizes_differ: Flags
    """By channel: some rows count bytes and others do not."""
    unordered: Flags
    """By end (sends of the first channel, its receives, sends of the second, ...): the order of its processes is unknown."""
    kept: Flags
    """By row; the following three count for kept ones."""
    number: Longs
    first: Longs
    last: Longs
    kept_unordered: Flags
    """By row: it is kept, and its place among other sends is unknown."""
    behind: Flags
    """By row: receives that come after later ones of their process were matched. They count, and take nothing."""
    earliest: Longs
    """By row: the earliest time at which it can have been sent, on a common clock ..."""
    latest: Longs
    """... and the latest at which it can have been received."""

    @classmethod
    def nothing(cls, channels: int, rows: int) -> Earlier:
        """Of channels that begin with these rows, whose clocks are not compared."""
        none, no = np.zeros(channels, np.int64), np.zeros(channels, np.bool_)
        largest = np.full(channels, LONGEST_STREAM_BYTES, np.int64)
        by_row, not_so = np.zeros(rows, np.int64), np.zeros(rows, np.bool_)
        unordered = np.zeros(2 * channels, np.bool_)
        return cls(
            *(none, none, none, none, none, none, no, no, none, largest, no, no, unordered),
            *(not_so, by_row, by_row, by_row, not_so, not_so, by_row, by_row),
        )


@dataclass(frozen=True, slots=True)
class Matched:
    """By row of `ChannelEnds`, what it took or gave."""

    number: Longs
    """Which send, or which receive, of its channel it is, from 0; copies of a report share it."""
    offsets: Longs
    """The sends that row ``i`` received are ``causes[offsets[i]:offsets[i + 1]]``, in the channel's order."""
    causes: Longs
    missing: Flags
    """Receives of which a part, or all, was sent by nobody known."""
    unreceived: Flags
    """Sends of which nothing was received by anybody known."""
    doubts: Codes
    """Of a receive that took something: its `Doubt`."""
    guessed: Flags
    """Receives of which nobody knows that the sends given here precede them."""
    copy: Flags
    """Rows that repeat the report of another row, and are as that one is."""
    first: Longs
    """Where in its stream it begins ..."""
    last: Longs
    """... and ends."""
    unordered: Flags
    """Rows of which nobody knows the place in their stream."""
    short: Longs
    """By channel: how much more was received than sent; 0 where nothing is known to be missing."""
    units: Longs
    """By channel: what its sends add up to, without what may be missing between them."""


def match_ends(ends: ChannelEnds, earlier: Earlier | None = None) -> Matched:
    """Match the receives of every channel with its sends; linear but for sorting, and all channels are held at once.

    Two rows of one end, process and number (or, without numbers, of one time and id) are one event reported twice. With
    `earlier`, the rows go on where others ended, and more is known: what can have been sent before a receive, by time.
    """
    rows = len(ends.channel)
    if earlier is None:
        earlier = Earlier.nothing(int(ends.channel.max(initial=-1)) + 1, rows)
    side = ends.channel * 2 + ~ends.is_send
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
    found = match_streams(
        np.append(starts, len(order)),
        ends.is_send[order],
        *(first, last, low, high),
        *(ends.clock[order], ends.time[order], ends.process[order]),
        *(earlier.earliest[order], earlier.latest[order]),
        *(earlier.sent[channels[starts]], sent_at_most[channels[starts]]),
        *((~several)[channels[starts]], receivers_lack[channels[starts]]),
        *(each[channels[starts]] for each in (earlier.received, earlier.short, earlier.smallest)),
    )
    counts, causes, missing, unreceived, doubts, guessed, short_now = found
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
    taken = np.arange(offsets[-1]) - np.repeat(offsets[:-1] - begins[at], counts[at])
    return Matched(
        *(number[at], offsets, order[causes[taken]], missing[at], unreceived[at], doubts[at], guessed[at], copy),
        *(first[at], last[at], low[at] >= 0, short, units),
    )


def _senders(ends: ChannelEnds, earlier: Earlier, order: Longs) -> tuple[Flags, Longs]:
    """By channel: whether several processes send, and the most events that are missing of one of these."""
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
    """Where each row of the order begins and ends in its stream, and its number there; by channel, what sends add up to."""
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
    """By row, the row whose event it reports: itself, or for a copy the first in time, file and place."""
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
    """The rows channel by channel, sends first, each end in the order of its stream; and the time each then stands at.

    Rows that are kept come first, as they are.
    """
    rank = np.empty(len(side), np.int64)
    rank[rows[np.lexsort((ends.place[rows], ends.file[rows], ends.time[rows]))]] = np.arange(len(rows))
    lines = rows[np.lexsort((rank[rows], ends.seq[rows], ends.process[rows], side[rows]))]
    # A process whose numbers and times disagree stands, for others, at the latest time it has shown.
    reached = latest_so_far(side[lines], ends.process[lines], rank[lines])
    old = kept[lines]
    by_stream = np.lexsort((np.arange(len(lines)), np.where(old, lines, reached), ~old, side[lines]))
    time_of_rank = np.empty(len(rows), np.int64)
    time_of_rank[rank[rows]] = ends.time[rows]
    return lines[by_stream], time_of_rank[reached[by_stream]]
