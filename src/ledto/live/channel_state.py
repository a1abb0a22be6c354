"""What a stream keeps of its channels where their rows end: counts, who took part, and sends that nobody has received."""

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
from ledto.live.closed_processes import ClosedNumbers, ClosedProcesses, own_name
from ledto.live.dates import DATED

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

MOST_CHANNELS = 10_000
"""Channels of a computation that are remembered. Where there are more, those in which nothing is under way are forgotten,
the longest unused first. If that is not enough, no new ones are matched from then on: their receives lack their sends."""
MOST_UNDER_WAY = 100_000
"""Sends of a computation that are remembered because nobody has received them. Of more, the oldest in the fullest channels
are forgotten: a receive that would take one of these lacks its send."""
_ENOUGH = 2
"""Names of which it only matters whether there are several."""

UNDER_WAY = pa.schema(
    [
        *((name, pa.string()) for name in ("channel_key", "process", "clock_name")),
        *((name, pa.int64()) for name in ("time", "earliest", "number", "first", "last")),
        pa.field("unordered", pa.bool_()),
    ]
)
"""Sends that are not received, channel by channel as they were sent."""


@dataclass(slots=True)
class ChannelSide:
    """The sends or the receives of a channel so far."""

    count: int = 0
    """The number of the next one."""
    length: int = 0
    """Up to where the stream goes, in bytes or messages: what they add up to, and what may be missing between them."""
    units: int = 0
    """What they add up to."""
    processes: list[str] = field(default_factory=list)
    """One or two of those who took part."""
    clocks: list[str] = field(default_factory=list)
    timeless: bool = False
    """Some had no time."""
    last: dict[str, int] = field(default_factory=dict)
    """By process: its last number, or time where it has none."""

    @property
    def unordered(self) -> bool:
        """Whether nobody knows the order of its processes."""
        return len(self.processes) >= _ENOUGH and (self.timeless or len(self.clocks) >= _ENOUGH)


@dataclass(slots=True)
class Channel:
    """What is known of a channel whose rows up to now are gone."""

    sends: ChannelSide
    receives: ChannelSide
    short: int = 0
    unreported: int = 0
    """Events that nobody reported of its sender, if it has one."""
    smallest: int = LONGEST_STREAM_BYTES
    sized: bool = False
    """Some rows count bytes ..."""
    unsized: bool = False
    """... and some do not."""
    by_message: bool = False
    used: int = -LARGEST_TIME

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way or in doubt, so that it can begin anew."""
        return self.sends.length == self.receives.length and not self.short and not (self.sized and self.unsized)


@dataclass(slots=True)
class Channels:
    """The channels of a computation. Stored with what is closed."""

    known: dict[str, Channel] = field(default_factory=dict)
    under_way: pa.Table = field(default_factory=UNDER_WAY.empty_table)
    first_number: int = 0
    """New channels count from here on, so that no name is given twice."""
    full: bool = False
    """New channels are not matched any more."""
    counts: dict[str, int] = field(default_factory=dict)
    """Rows by outcome so far, without unmatched sends (`ledto.causality.channel_tables.OUTCOMES`)."""
    forgotten: int = 0
    """Sends that were under way."""

    def begun(self, key: str) -> Channel:
        """What is known of a channel, to be changed; of one that begins, nothing but where its numbers do."""
        known = self.known.get(key)
        return (
            Channel(ChannelSide(self.first_number), ChannelSide(self.first_number))
            if known is None
            else deepcopy(known)
        )

    def unmatched_sends(self) -> int:
        """Sends of which nobody has received anything."""
        return self.forgotten + self.unreceived(self.under_way)

    def unreceived(self, sends: pa.Table) -> int:
        """How many of these sends, which are under way, are not even received in part."""
        received = np.array([self.known[key].receives.length for key in sends["channel_key"].to_pylist()], np.int64)
        return int((sends["first"].to_numpy() >= received).sum())


@dataclass(frozen=True, slots=True, eq=False)
class JoinedSends:
    """Sends that are under way, and behind them new rows of the same channels, as one table."""

    table: pa.Table
    """Columns of `REPORTS`."""
    kept: pa.Table
    """The sends under way, of `UNDER_WAY`."""
    ends: ChannelEnds
    own_order: Longs
    """By row: what orders it in its process."""
    behind: Flags
    """By row: later ones of its process have been matched."""
    earliest: Longs
    latest: Longs
    """By row, as those of `Earlier`."""
    left_out: LeftOut

    @property
    def is_new(self) -> Flags:
        """Which rows were not matched before."""
        return np.arange(len(self.table)) >= len(self.kept)

    def names(self) -> list[str]:
        """By channel: its key."""
        first = np.unique(self.ends.channel, return_index=True)[1]
        found: list[str] = self.table["channel_key"].take(pa.array(first)).to_pylist()
        return found


def as_reports(kept: pa.Table, computation: str, channels: Channels) -> pa.Table:
    """Sends under way as rows of `REPORTS`."""
    sizes = kept["last"].to_numpy() - kept["first"].to_numpy()
    by_message = np.array([channels.known[key].by_message for key in kept["channel_key"].to_pylist()], np.bool_)
    given = {name: kept[name] for name in ("channel_key", "process", "clock_name", "time")}
    given |= {
        name: pa.array([text] * len(kept), pa.string()) for name, text in (("kind", SEND), ("computation", computation))
    }
    given["channel_bytes"] = pa.array(sizes, mask=by_message)
    return pa.table([given.get(each.name, pa.nulls(len(kept), each.type)) for each in REPORTS], schema=REPORTS)


def with_rows(channels: Channels, joined: JoinedSends) -> list[Channel]:
    """By channel of these rows: what is known of it, and who takes part from now on. Changes nothing."""
    found = [channels.begun(key) for key in joined.names()]
    ends, table = joined.ends, joined.table
    side = ends.channel * 2 + ~ends.is_send
    sides = [end for channel in found for end in (channel.sends, channel.receives)]
    clock_names = [
        clock or process
        for clock, process in zip(*(table[name].to_pylist() for name in ("clock_name", "process")), strict=True)
    ]
    for names, codes, texts in (
        ("processes", ends.process, table["process"].to_pylist()),
        ("clocks", ends.clock, clock_names),
    ):
        for row in np.unique(np.stack((side, codes)), axis=1, return_index=True)[1].tolist():
            known = getattr(sides[side[row]], names)
            if texts[row] not in known and len(known) < _ENOUGH:
                known.append(texts[row])
    for each in np.unique(side[ends.time == NO_TIME]).tolist():
        sides[each].timeless = True
    new = joined.is_new
    sized, unsized = (np.unique(ends.channel[new & given]) for given in (ends.size != NO_SIZE, ends.size == NO_SIZE))
    for each in unsized.tolist():
        found[each].by_message |= not found[each].sized
        found[each].unsized = True
    for each in sized.tolist():
        found[each].sized = True
    late = np.flatnonzero(joined.behind & ends.is_send)
    for each, size in zip(ends.channel[late].tolist(), ends.size[late].tolist(), strict=True):
        found[each].short = max(0, found[each].short - (1 if found[each].by_message else max(0, size)))
    for channel in found:
        # What was received and sent by nobody known is among what the numbers now show to be missing.
        unreported = max((joined.left_out.of_process(name) for name in channel.sends.processes), default=0)
        more = unreported - channel.unreported
        if more > 0 and len(channel.sends.processes) < _ENOUGH:
            channel.short = max(0, channel.short - more) if channel.by_message else 0
        channel.unreported = unreported
    return found


@dataclass(frozen=True, slots=True, eq=False)
class LeftOut:
    """Which numbers of processes nobody reported, in what is closed and in rows that are not."""

    lines: ClosedProcesses
    before: Longs
    """By row that is not closed: how many smaller numbers of its process are left out."""
    in_all: dict[str, int]
    """By process that has such rows: how many are, before any of them that has come for sure."""

    @classmethod
    def of(cls, rows: pa.Table, lines: ClosedProcesses, until: int) -> LeftOut:
        """Of all rows that are not closed, when everything dated up to `until` has come."""
        encoded = rows["process"].combine_chunks().dictionary_encode()
        names, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype(np.int64)
        closed = [lines.closed.get(own_name(name), ClosedNumbers()) for name in names]
        last, missing = (np.array([getattr(each, what) for each in closed], np.int64) for what in ("last", "missing"))
        before = left_out_before(codes, rows["seq"].fill_null(0).to_numpy(), last, missing)
        come = rows[DATED].to_numpy() <= until
        np.maximum.at(missing, codes[come], before[come])
        return cls(lines, before, dict(zip(names, missing.tolist(), strict=True)))

    def of_process(self, name: str) -> int:
        """How many events of a process nobody reported."""
        if name in self.in_all:
            return self.in_all[name]
        closed = self.lines.closed.get(own_name(name))
        return 0 if closed is None else closed.missing

    def of_rows(self, processes: Sequence[str], before: Longs) -> Unreported:
        """The same by row."""
        of_each = {name: self.of_process(name) for name in set(processes)}
        return Unreported(before, np.array([of_each[name] for name in processes], np.int64))


def earlier_of(found: Sequence[Channel], joined: JoinedSends) -> Earlier:
    """What these channels, by number, say to `ledto.causality.channels.match_ends`."""
    rows, kept = len(joined.table), joined.kept

    def by_channel(values: list[int]) -> Longs:
        return np.array(values, np.int64)

    def by_row(name: str) -> Longs:
        whole = np.zeros(rows, np.int64)
        whole[: len(kept)] = kept[name].to_numpy()
        return whole

    unordered = np.zeros(rows, np.bool_)
    unordered[: len(kept)] = kept["unordered"].to_numpy()
    return Earlier(
        by_channel([each.sends.count for each in found]),
        by_channel([each.sends.length for each in found]),
        by_channel([each.receives.count for each in found]),
        by_channel([each.receives.length for each in found]),
        by_channel([each.sends.units for each in found]),
        by_channel([max(map(joined.left_out.of_process, each.sends.last), default=0) for each in found]),
        np.array([len(each.sends.processes) >= _ENOUGH for each in found], np.bool_),
        np.array([any(map(joined.left_out.of_process, each.receives.last)) for each in found], np.bool_),
        by_channel([each.short for each in found]),
        by_channel([each.smallest for each in found]),
        np.array([each.by_message for each in found], np.bool_),
        np.array([each.sized and each.unsized for each in found], np.bool_),
        np.array([end.unordered for each in found for end in (each.sends, each.receives)], np.bool_),
        ~joined.is_new,
        by_row("number"),
        by_row("first"),
        by_row("last"),
        unordered,
        joined.behind & ~joined.ends.is_send,
        joined.earliest,
        joined.latest,
    )


def go_on(channels: Channels, found: Sequence[Channel], joined: JoinedSends, matched: Matched, until: int) -> None:
    """Keep what these channels, by number, come to with the rows that were matched."""
    ends = joined.ends
    names = joined.names()
    channels.known |= dict(zip(names, found, strict=True))
    processes = joined.table["process"].to_pylist()
    new = np.flatnonzero(joined.is_new & ~matched.copy)
    columns = (ends.channel, ends.is_send, matched.number, matched.first, matched.last, joined.own_order)
    for row, (code, is_send, number, first, last, order) in zip(
        new.tolist(), zip(*(each[new].tolist() for each in columns), strict=True), strict=True
    ):
        channel = found[code]
        end = channel.sends if is_send else channel.receives
        end.count, end.length = max(end.count, number + 1), max(end.length, last)
        end.last[processes[row]] = max(end.last.get(processes[row], NO_TIME), order)
        if is_send and last > first:
            channel.smallest = min(channel.smallest, last - first)
    for channel, short, units in zip(found, matched.short.tolist(), matched.units.tolist(), strict=True):
        channel.short, channel.used, channel.sends.units = short, until, units
    received = np.array([each.receives.length for each in found], np.int64)[ends.channel]
    open_ends = ends.is_send & ~matched.copy & (matched.last > received) & (matched.last > matched.first)
    rows = np.flatnonzero(open_ends)
    rows = rows[np.lexsort((matched.number[rows], ends.channel[rows]))]
    taken = joined.table.take(pa.array(rows))
    numbers = {"earliest": joined.earliest, "number": matched.number, "first": matched.first, "last": matched.last}
    columns_kept = {name: taken[name] for name in ("channel_key", "process", "clock_name", "time")}
    columns_kept |= {name: pa.array(values[rows]) for name, values in numbers.items()}
    columns_kept["unordered"] = pa.array(matched.unordered[rows])
    there = channels.under_way
    if len(there):
        there = there.filter(pc.invert(pc.is_in(there["channel_key"], value_set=pa.array(names, pa.string()))))
    channels.under_way = pa.concat_tables([there, pa.table(columns_kept).select(UNDER_WAY.names).cast(UNDER_WAY)])
    _forget_sends(channels)
    _forget_channels(channels)


def _forget_sends(channels: Channels) -> None:
    """Keep at most `MOST_UNDER_WAY` sends: the newest of each channel."""
    there = channels.under_way
    if len(there) <= MOST_UNDER_WAY:
        return
    codes = there["channel_key"].combine_chunks().dictionary_encode().indices.to_numpy()
    from_the_end = np.empty(len(codes), np.int64)
    order = np.lexsort((-there["number"].to_numpy(), codes))
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    from_the_end[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(starts, append=len(codes)))
    most = np.sort(from_the_end)[MOST_UNDER_WAY]
    keep = from_the_end < most
    channels.forgotten += int((~keep).sum())
    channels.under_way = there.filter(pa.array(keep)).combine_chunks()


def _forget_channels(channels: Channels) -> None:
    """Keep at most `MOST_CHANNELS`, as long as some can begin anew."""
    beyond = len(channels.known) - MOST_CHANNELS
    if beyond <= 0:
        return
    quiet = sorted((each.used, key) for key, each in channels.known.items() if each.is_quiet)[:beyond]
    for _, key in quiet:
        gone = channels.known.pop(key)
        channels.first_number = max(channels.first_number, gone.sends.count, gone.receives.count)
    channels.full |= len(quiet) < beyond
