"""Keep the state of a stream's channels behind their matched rows.

That is: counts, who took part, and the sends that nobody has received yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.channel_kernels import LONGEST_STREAM_BYTES, NO_SIZE
from ledto.causality.channels import ChannelEnds, Earlier, Matched, Unreported, left_out_before
from ledto.causality.order import NO_TIME
from ledto.events.schema import REPORTS, SEND
from ledto.history.window.columns import LARGEST_TIME
from ledto.live.closed_processes import ClosedNumbers, ClosedProcesses, history_name
from ledto.live.dates import DATED

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_CHANNELS = 10_000
"""Most channels of a computation that are remembered. Beyond that, channels in which nothing is under way are
forgotten, the longest unused first. If that is not enough, no new ones are matched: their receives lack their sends."""
MOST_UNDER_WAY = 100_000
"""Most sends of a computation that are remembered until they are received. Beyond that, the oldest in the fullest
channels are forgotten: a receive that would take one lacks its send."""
_ENOUGH = 2
"""How many names to remember where it only matters whether there are several."""

UNDER_WAY = pa.schema(
    [
        *((name, pa.string()) for name in ("channel_key", "process", "clock_name")),
        *((name, pa.int64()) for name in ("time", "earliest", "number", "first", "last")),
        pa.field("unordered", pa.bool_()),
    ]
)
"""Sends that are not received yet, channel by channel in the order of sending."""


def number_sides(channel: Longs, is_send: Flags) -> Longs:
    """Number the sides of channels: the senders of channel ``c`` are ``2c``, its receivers ``2c + 1``."""
    return channel * 2 + ~is_send


@dataclass(slots=True)
class ChannelSide:
    """The sends or the receives of a channel so far."""

    count: int = 0
    """The number of the next one."""
    length: int = 0
    """Where the stream of bytes or messages ends: what was transferred, and what may be missing in between."""
    units: int = 0
    """How many bytes or messages were transferred."""
    processes: list[str] = field(default_factory=list)
    """One or two of the processes that took part."""
    clocks: list[str] = field(default_factory=list)
    """One or two of their clocks."""
    timeless: bool = False
    """Whether some rows had no time."""
    last: dict[str, int] = field(default_factory=dict)
    """By process: its last number, or time if it has no numbers."""

    @property
    def unordered(self) -> bool:
        """Whether nobody knows the order of its processes."""
        return len(self.processes) >= _ENOUGH and (self.timeless or len(self.clocks) >= _ENOUGH)


@dataclass(slots=True)
class Channel:
    """The state of a channel behind its matched rows."""

    sends: ChannelSide
    receives: ChannelSide
    short: int = 0
    """By how many bytes or messages receives were ahead of known sends, at most; 0 if nothing is known to be
    missing."""
    unreported: int = 0
    """How many events of its sender nobody reported, if it has one sender."""
    smallest: int = LONGEST_STREAM_BYTES
    """The smallest matched send, in bytes or messages."""
    sized: bool = False
    """Whether some rows count bytes."""
    unsized: bool = False
    """Whether some rows do not."""
    by_message: bool = False
    """Whether it counts messages instead of bytes."""
    used: int = -LARGEST_TIME
    """The date up to which everything had come when it was last used."""

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way or in doubt, so that it can be forgotten and begin anew."""
        return self.sends.length == self.receives.length and not self.short and not (self.sized and self.unsized)


@dataclass(slots=True)
class Channels:
    """The channels of a computation. Stored with the closed part."""

    known: dict[str, Channel] = field(default_factory=dict)
    under_way: pa.Table = field(default_factory=UNDER_WAY.empty_table)
    first_number: int = 0
    """New channels count from here, so that no message name is given twice."""
    full: bool = False
    """Whether new channels are no longer matched."""
    counts: dict[str, int] = field(default_factory=dict)
    """Rows by outcome so far, without unmatched sends (`ledto.causality.channel_tables.OUTCOMES`)."""
    forgotten: int = 0
    """How many sends under way were forgotten."""

    def copy_or_begin(self, key: str) -> Channel:
        """Copy the state of a channel, or begin a new one."""
        if key in self.known:
            return deepcopy(self.known[key])
        return Channel(ChannelSide(self.first_number), ChannelSide(self.first_number))

    def unmatched_sends(self) -> int:
        """Count sends of which nothing has been received."""
        return self.forgotten + self.unreceived(self.under_way)

    def unreceived(self, sends: pa.Table) -> int:
        """Count those of these sends under way of which nothing has been received."""
        received = np.array([self.known[key].receives.length for key in sends["channel_key"].to_pylist()], np.int64)
        return int((sends["first"].to_numpy() >= received).sum())


@dataclass(frozen=True, slots=True, eq=False)
class JoinedSends:
    """Sends under way and, behind them, new rows of the same channels, as one table."""

    table: pa.Table
    """Columns of `REPORTS`."""
    kept: pa.Table
    """The sends under way, with the columns of `UNDER_WAY`."""
    ends: ChannelEnds
    own_order: Longs
    """By row: what orders it in its process."""
    behind: Flags
    """By row: whether later rows of its process have been matched."""
    earliest: Longs
    latest: Longs
    """By row: earliest and latest time, as in `Earlier`."""
    left_out: LeftOut

    @property
    def is_new(self) -> Flags:
        """By row: whether it was not matched before."""
        return np.arange(len(self.table)) >= len(self.kept)

    def names(self) -> list[str]:
        """List the keys of the channels, by number."""
        first = np.unique(self.ends.channel, return_index=True)[1]
        keys: list[str] = self.table["channel_key"].take(pa.array(first)).to_pylist()
        return keys


def sends_as_reports(kept: pa.Table, computation: str, channels: Channels) -> pa.Table:
    """Turn sends under way into rows of `REPORTS`."""
    sizes = kept["last"].to_numpy() - kept["first"].to_numpy()
    by_message = np.array([channels.known[key].by_message for key in kept["channel_key"].to_pylist()], np.bool_)
    columns = {name: kept[name] for name in ("channel_key", "process", "clock_name", "time")}
    columns |= {
        name: pa.array([text] * len(kept), pa.string()) for name, text in (("kind", SEND), ("computation", computation))
    }
    columns["channel_bytes"] = pa.array(sizes, mask=by_message)
    return pa.table([columns.get(column.name, pa.nulls(len(kept), column.type)) for column in REPORTS], schema=REPORTS)


def preview_channels(channels: Channels, joined: JoinedSends) -> list[Channel]:
    """Copy the channels of these rows, by number, and add the parties and sizes of the rows to the copies."""
    previewed = [channels.copy_or_begin(key) for key in joined.names()]
    ends, table = joined.ends, joined.table
    side = number_sides(ends.channel, ends.is_send)
    sides = [side for channel in previewed for side in (channel.sends, channel.receives)]
    clock_names = [
        clock or process
        for clock, process in zip(*(table[name].to_pylist() for name in ("clock_name", "process")), strict=True)
    ]
    for names, codes, texts in (
        ("processes", ends.process, table["process"].to_pylist()),
        ("clocks", ends.clock, clock_names),
    ):
        for row in np.unique(np.stack((side, codes)), axis=1, return_index=True)[1].tolist():
            members = getattr(sides[side[row]], names)
            if texts[row] not in members and len(members) < _ENOUGH:
                members.append(texts[row])
    for number in np.unique(side[ends.time == NO_TIME]).tolist():
        sides[number].timeless = True
    new = joined.is_new
    has_size = ends.size != NO_SIZE
    for number in np.unique(ends.channel[new & ~has_size]).tolist():
        previewed[number].by_message |= not previewed[number].sized
        previewed[number].unsized = True
    for number in np.unique(ends.channel[new & has_size]).tolist():
        previewed[number].sized = True
    late = np.flatnonzero(joined.behind & ends.is_send)
    for number, size in zip(ends.channel[late].tolist(), ends.size[late].tolist(), strict=True):
        channel = previewed[number]
        channel.short = max(0, channel.short - (1 if channel.by_message else max(0, size)))
    for channel in previewed:
        # Messages received without a known send are among those that the numbers now show to be missing.
        unreported = max((joined.left_out.of_process(name) for name in channel.sends.processes), default=0)
        more = unreported - channel.unreported
        if more > 0 and len(channel.sends.processes) < _ENOUGH:
            channel.short = max(0, channel.short - more) if channel.by_message else 0
        channel.unreported = unreported
    return previewed


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """Which numbers of processes nobody reported, in the closed part and in rows that are not closed."""

    closed_processes: ClosedProcesses
    before: Longs
    """By row that is not closed: how many smaller numbers of its process are missing."""
    in_all: dict[str, int]
    """By process of these rows: how many numbers are missing before its last row that has surely come."""

    @classmethod
    def of(cls, rows: pa.Table, closed_processes: ClosedProcesses, until: int) -> LeftOut:
        """Find missing numbers, given all rows that are not closed, when everything dated up to `until` has come."""
        encoded = rows["process"].combine_chunks().dictionary_encode()
        names, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)
        closed = [closed_processes.closed.get(history_name(name), ClosedNumbers()) for name in names]
        last, missing = (
            np.array([getattr(numbers, name) for numbers in closed], np.int64) for name in ("last", "missing")
        )
        before = left_out_before(codes, rows["seq"].fill_null(0).to_numpy(), last, missing)
        has_come = rows[DATED].to_numpy() <= until
        np.maximum.at(missing, codes[has_come], before[has_come])
        return cls(closed_processes, before, dict(zip(names, missing.tolist(), strict=True)))

    def of_process(self, name: str) -> int:
        """Count the events of a process that nobody reported."""
        if name in self.in_all:
            return self.in_all[name]
        closed = self.closed_processes.closed.get(history_name(name))
        return 0 if closed is None else closed.missing

    def of_rows(self, processes: Sequence[str], before: Longs) -> Unreported:
        """Look the counts up by row."""
        unreported = {name: self.of_process(name) for name in set(processes)}
        return Unreported(before, np.array([unreported[name] for name in processes], np.int64))


def make_earlier(channels: Sequence[Channel], joined: JoinedSends) -> Earlier:
    """Describe these channels, by number, for `ledto.causality.channels.match_ends`."""
    rows, kept = len(joined.table), joined.kept

    def by_channel(values: list[int]) -> Longs:
        return np.array(values, np.int64)

    def by_row(name: str) -> Longs:
        values = np.zeros(rows, np.int64)
        values[: len(kept)] = kept[name].to_numpy()
        return values

    unordered = np.zeros(rows, np.bool_)
    unordered[: len(kept)] = kept["unordered"].to_numpy()
    return Earlier(
        by_channel([channel.sends.count for channel in channels]),
        by_channel([channel.sends.length for channel in channels]),
        by_channel([channel.receives.count for channel in channels]),
        by_channel([channel.receives.length for channel in channels]),
        by_channel([channel.sends.units for channel in channels]),
        by_channel([max(map(joined.left_out.of_process, channel.sends.last), default=0) for channel in channels]),
        np.array([len(channel.sends.processes) >= _ENOUGH for channel in channels], np.bool_),
        np.array([any(map(joined.left_out.of_process, channel.receives.last)) for channel in channels], np.bool_),
        by_channel([channel.short for channel in channels]),
        by_channel([channel.smallest for channel in channels]),
        np.array([channel.by_message for channel in channels], np.bool_),
        np.array([channel.sized and channel.unsized for channel in channels], np.bool_),
        np.array([side.unordered for channel in channels for side in (channel.sends, channel.receives)], np.bool_),
        ~joined.is_new,
        by_row("number"),
        by_row("first"),
        by_row("last"),
        unordered,
        joined.behind & ~joined.ends.is_send,
        joined.earliest,
        joined.latest,
    )


def keep_matches(
    channels: Channels, previewed: Sequence[Channel], joined: JoinedSends, matched: Matched, until: int
) -> None:
    """Update the channels with the rows that were matched; `previewed` has their copies, by number."""
    ends = joined.ends
    names = joined.names()
    channels.known |= dict(zip(names, previewed, strict=True))
    processes = joined.table["process"].to_pylist()
    new = np.flatnonzero(joined.is_new & ~matched.copy)
    columns = (ends.channel, ends.is_send, matched.number, matched.first, matched.last, joined.own_order)
    for row, (code, is_send, number, first, last, order) in zip(
        new.tolist(), zip(*(column[new].tolist() for column in columns), strict=True), strict=True
    ):
        channel = previewed[code]
        side = channel.sends if is_send else channel.receives
        side.count, side.length = max(side.count, number + 1), max(side.length, last)
        side.last[processes[row]] = max(side.last.get(processes[row], NO_TIME), order)
        if is_send and last > first:
            channel.smallest = min(channel.smallest, last - first)
    for channel, short, units in zip(previewed, matched.short.tolist(), matched.units.tolist(), strict=True):
        channel.short, channel.used, channel.sends.units = short, until, units
    received = np.array([channel.receives.length for channel in previewed], np.int64)[ends.channel]
    is_under_way = ends.is_send & ~matched.copy & (matched.last > received) & (matched.last > matched.first)
    rows = np.flatnonzero(is_under_way)
    rows = rows[np.lexsort((matched.number[rows], ends.channel[rows]))]
    sends = joined.table.take(pa.array(rows))
    numbers = {"earliest": joined.earliest, "number": matched.number, "first": matched.first, "last": matched.last}
    columns_kept = {name: sends[name] for name in ("channel_key", "process", "clock_name", "time")}
    columns_kept |= {name: pa.array(values[rows]) for name, values in numbers.items()}
    columns_kept["unordered"] = pa.array(matched.unordered[rows])
    others = channels.under_way
    if len(others):
        others = others.filter(pc.invert(pc.is_in(others["channel_key"], value_set=pa.array(names, pa.string()))))
    channels.under_way = pa.concat_tables([others, pa.table(columns_kept).select(UNDER_WAY.names).cast(UNDER_WAY)])
    _forget_sends(channels)
    _forget_channels(channels)


def _forget_sends(channels: Channels) -> None:
    """Keep at most `MOST_UNDER_WAY` sends: the newest of each channel."""
    under_way = channels.under_way
    if len(under_way) <= MOST_UNDER_WAY:
        return
    codes = under_way["channel_key"].combine_chunks().dictionary_encode().indices.to_numpy()
    from_the_end = np.empty(len(codes), np.int64)
    order = np.lexsort((-under_way["number"].to_numpy(), codes))
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    from_the_end[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(starts, append=len(codes)))
    first_forgotten = np.sort(from_the_end)[MOST_UNDER_WAY]
    keep = from_the_end < first_forgotten
    channels.forgotten += int((~keep).sum())
    channels.under_way = under_way.filter(pa.array(keep)).combine_chunks()


def _forget_channels(channels: Channels) -> None:
    """Keep at most `MOST_CHANNELS`, as long as there are quiet ones to forget."""
    beyond = len(channels.known) - MOST_CHANNELS
    if beyond <= 0:
        return
    quiet = sorted((channel.used, key) for key, channel in channels.known.items() if channel.is_quiet)[:beyond]
    for _, key in quiet:
        forgotten = channels.known.pop(key)
        channels.first_number = max(channels.first_number, forgotten.sends.count, forgotten.receives.count)
    channels.full |= len(quiet) < beyond
