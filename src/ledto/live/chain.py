"""One computation of a stream: a chain of closed segments, and a tail that is solved anew as reports come.

A cut at the date T is closed once everything dated before ``T + eps`` has come (`ledto.live.dates`). What is then
known to stand before T, by the causal times of dates, becomes a segment, written for good. The rest stays in the tail.
Where cuts lie depends on the dates alone, so a chain is a function of its reports and their arrivals, not of the
micro-batches that brought them.

Codes of processes are given out once, in the order in which they first stand in a closed segment or in the tail; those of
the tail are settled when it is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.boundary import Boundary
from ledto.causality.order import NO_TIME
from ledto.causality.skeleton import Skeleton
from ledto.causality.sparse_vectors import Vectors
from ledto.causality.vector_clocks import Scan
from ledto.events.schema import ANSWER, UNKNOWN_CALL
from ledto.history.gone import Gone, earliest, gone_from, rows_after
from ledto.history.mark_missing import with_missing
from ledto.history.open_ends import TIED, called_at_unknown_time, causes_of, doubt_of, events_for, is_assumed, lacks
from ledto.history.run_tables import Holes, Totals, unanswered
from ledto.history.window.columns import LARGEST_TIME
from ledto.history.window.lines import SegmentLines
from ledto.history.window.segment import Counts, count_processes, events_table, segment_lines
from ledto.history.window.solve import SegmentWindow, Solved, solve
from ledto.live.channel_state import Channels
from ledto.live.closed_processes import ClosedProcesses
from ledto.live.dates import DATED

Longs = NDArray[np.int64]

MOST_GONE = 20_000
"""Reports that are gone which a chain remembers, up to four a process, also of processes without events."""
KEPT_SENDS = 100_000
"""Messages under way that a chain remembers across a cut; a receive of an older one says that its send is missing."""
_NEEDED = ("computation", "process", "seq", "time", "arrival", "emitted", DATED)
FIRST, LAST = -LARGEST_TIME - 1, LARGEST_TIME + 1
"""Before and after all dates."""


@dataclass(frozen=True, slots=True, eq=False)
class PendingSegment:
    """A segment of a chain before it is written."""

    events: pa.Table
    """Columns of a segment's events."""
    rows: Longs
    """By event: its row in the table that was solved."""
    skeleton: Skeleton
    boundary: Boundary
    """Positions count from the start of the chain."""
    edge_doubt: NDArray[np.uint8]
    """By edge of the boundary: how sure the cause is, as `doubt_of` tells it."""
    assumed: Longs
    """By row: how many of its causes in the skeleton are only assumed ..."""
    tied: Longs
    """... and how many of these because of events at one time."""
    lines: SegmentLines | None
    holes: Holes
    """Where reports are missing, up to the end of the segment, by code."""
    counts: Counts
    aside: pa.Table
    lag: int
    heard: tuple[tuple[int, str, int], ...] = ()
    """Events that received a message from before the segment: row, key, and when the report of its send arrived."""


@dataclass(slots=True)
class Chain:
    """What is known of a computation where its tail begins."""

    computation: str
    names: list[str] = field(default_factory=list)
    """By code."""
    scan: Scan = field(default_factory=lambda: Scan(0))
    end: int = 0
    """Events closed; the position of the next."""
    cut: int = FIRST
    lines: ClosedProcesses = field(default_factory=ClosedProcesses)
    last_position: list[int] = field(default_factory=list)
    """By code: of the last event closed; -1 for none."""
    sends: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By message key: positions of what sent it, which the scan holds."""
    within: dict[str, int] = field(default_factory=dict)
    """By key of a span that is no call or message by itself: the code of its process."""
    twice: set[str] = field(default_factory=set)
    """Message keys that two events sent: nobody knows which of them was received."""
    sent: dict[str, int] = field(default_factory=dict)
    """By message key: when the report of what sent it arrived."""
    holes: Holes = field(default_factory=lambda: Holes.none(0))
    gone: list[Gone] = field(default_factory=list)
    """Reports that were set aside or came late, and that belong after all that is closed of their processes."""
    totals: Totals = field(default_factory=Totals)
    """Over what is closed, by code."""
    pending: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """By code: positions that precede the next event of the process, because of reports that were set aside."""
    channels: Channels = field(default_factory=Channels)

    def peek(self, rows: pa.Table, find_sends: FindSends) -> PendingSegment:
        """The segment that these rows, the whole tail, would be if nothing else came."""
        return self._solved(rows, find_sends, None)[0]

    def close(self, rows: pa.Table, find_sends: FindSends, high: int) -> tuple[PendingSegment, NDArray[np.bool_]]:
        """Pass over the events of these rows that stand before the date `high`; gives them, and which rows that is."""
        part, solved, codes = self._solved(rows, find_sends, high)
        kept, later = self._kept_sends(solved, codes), self._pending(solved, codes)
        wanted = {each for positions in (*kept.values(), *later.values()) for each in positions}
        self.scan.segment(
            part.skeleton,
            self.end,
            part.boundary.edge_row,
            part.boundary.send_position[part.boundary.edge_send],
            [each for each in wanted if each >= self.end],
        )
        self.scan.keep_only(sorted(wanted))
        arrival = part.events["arrival"].to_numpy()
        opened = solved.open_sends
        for key, place, within in zip(*(opened[name].to_pylist() for name in ("key", "place", "within")), strict=True):
            if place is not None:
                self.sent[key] = int(arrival[place])
            self.within.pop(key, None)
            if within is not None:
                self.within[key] = int(codes[within])
        self.sent = {key: arrived for key, arrived in self.sent.items() if key in kept}
        self.within = {key: code for key, code in self.within.items() if key in kept}
        opened_twice = opened.filter(pc.fill_null(opened["twice"], False))["key"].to_pylist()
        self.twice = {key for key in (*self.twice, *opened_twice) if key in kept}
        self.sends, self.pending = kept, later
        last = np.array(self.last_position)
        last[part.skeleton.process] = self.end + np.arange(len(part.skeleton))
        self.last_position = last.tolist()
        over = np.zeros(len(rows), np.bool_)
        over[solved.table_rows] = over[solved.aside.rows] = True
        self.lines.pass_over(part.events, rows.filter(pa.array(over)))
        self.end += len(part.skeleton)
        self.cut = high
        self.holes, self.totals = part.holes, self.totals.plus(part.counts, part.holes)
        self.miss(gone_from(part.aside))
        return part, over

    def miss(self, gone: Iterable[Gone]) -> None:
        """Keep in mind that these reports are gone, whose processes are told as `ClosedProcesses` calls them."""
        self.gone = earliest([*self.gone, *gone])[:MOST_GONE]

    def set_holes(self, holes: Holes) -> None:
        """Take over where reports are missing in what is closed."""
        self.holes = holes
        self.totals.set_holes(holes)

    def _solved(
        self, rows: pa.Table, find_sends: FindSends, high: int | None
    ) -> tuple[PendingSegment, Solved, NDArray[np.int32]]:
        placed = self.lines.placed(_present(rows))
        names = sorted(pc.unique(placed["process"]).to_pylist())
        solved = solve(_by_dates(placed), names, SegmentWindow(FIRST, LAST if high is None else high), first_come=True)
        codes = self._codes(names)
        found = solved.placed.skeleton
        skeleton = Skeleton(codes[found.process], found.offsets, found.back)
        edge_row, edge_position, doubt, missing = self._crossings(solved, codes, find_sends)
        events = _with_times(events_table(_by_dates(placed), solved, 0), placed, solved, missing)
        boundary = self.scan.boundary(skeleton, edge_row, edge_position)
        counts = count_processes([(self.computation, name) for name in self.names], skeleton, events)
        totals, everybody = self.totals.widened(len(self.names)), np.arange(len(self.names))
        aside = solved.aside.table(placed.drop_columns([DATED, "emitted"]))
        part = PendingSegment(
            events,
            solved.table_rows,
            skeleton,
            boundary,
            np.array(doubt, np.uint8),
            solved.placed.assumed,
            solved.placed.tied,
            segment_lines(placed, solved, [(self.computation, name) for name in names]),
            self.holes.widened(len(self.names)).after(
                skeleton,
                boundary,
                totals.hole_rows(counts, everybody),
                counts.told.first_of_time(unanswered(counts, skeleton, boundary)),
                self._gone_rows([*self.gone, *gone_from(aside)], skeleton, events),
            ),
            counts,
            aside,
            solved.lag,
            tuple(
                (row["place"], row["key"], self.sent[row["key"]])
                for row in solved.open_receives.to_pylist()
                if row["place"] >= 0 and row["key"] in self.sent
            ),
        )
        return part, solved, codes

    def _gone_rows(self, gone: Sequence[Gone], skeleton: Skeleton, events: pa.Table) -> dict[int, tuple[int, str]]:
        """Find rows of a segment that may come after reports that are gone."""
        if not gone:
            return {}
        seq, time = events["seq"].fill_null(0).to_numpy(), events["time"].fill_null(NO_TIME).to_numpy()
        return rows_after(self.gone_by_code(gone), skeleton.process, seq, time)

    def gone_by_code(self, gone: Iterable[Gone]) -> dict[int, list[Gone]]:
        """Reports that are gone, by the codes of their processes, which have events."""
        known = {name: code for code, name in enumerate(self.names)}
        found: dict[int, list[Gone]] = {}
        for each in gone:
            if each.process in known:
                found.setdefault(known[each.process], []).append(each)
        return found

    def _codes(self, names: Sequence[str]) -> NDArray[np.int32]:
        known = {name: code for code, name in enumerate(self.names)}
        for name in names:
            if name not in known:
                known[name] = len(known)
                self.names.append(name)
                self.last_position.append(-1)
        self.scan.grow(len(self.names))
        return np.array([known[name] for name in names], np.int32)

    def _crossings(
        self, solved: Solved, codes: NDArray[np.int32], find_sends: FindSends
    ) -> tuple[list[int], list[int], list[int], list[tuple[int, str]]]:
        """Rows with causes before the segment, those causes, how sure these are, and what nobody reported."""
        pairs: dict[tuple[int, int], int] = {}
        missing: list[tuple[int, str]] = []
        open_rows = [row for row in solved.open_receives.to_pylist() if row["place"] >= 0]
        # An answer is received once, where it is waited for: it would be remembered.
        unknown = {
            row["key"] for row in open_rows if row["key"] is not None and not is_assumed(row)
        } - self.sends.keys()
        for key, position, code, index, known, within in find_sends(self, unknown) if unknown else ():
            self.scan.hold(position, code, index, known)
            self.sends[key] = (position,)
            if within:
                self.within[key] = code
        around = _ChainSurroundings(self, codes)
        for row in open_rows:
            causes = causes_of(row, around)
            doubtful = row["key"] in self.twice
            if (causes is None or doubtful) and lacks(row):
                missing.append((row["place"], row["key"]))
            home = None if row["home"] is None else int(codes[row["home"]])
            if causes and called_at_unknown_time(row, home, self.within.get(row["key"])):
                missing.append((row["place"], UNKNOWN_CALL))
            for position in causes or ():
                pair = (row["place"], position)
                pairs[pair] = min(pairs.get(pair, TIED), TIED if doubtful else doubt_of(row))
        first: dict[int, int] = {}
        for place, code in enumerate(codes[solved.placed.skeleton.process].tolist() if self.pending else ()):
            first.setdefault(code, place)
        for code, positions in self.pending.items():
            if code in first:
                pairs |= {(first[code], position): pairs.get((first[code], position), TIED) for position in positions}
        ordered = sorted(pairs)
        doubt = [pairs[pair] for pair in ordered]
        return [row for row, _ in ordered], [position for _, position in ordered], doubt, missing

    def _kept_sends(self, solved: Solved, codes: NDArray[np.int32]) -> dict[str, tuple[int, ...]]:
        """The messages that may be received later: those remembered, and those of the segment."""
        offered: dict[str, set[int]] = {}
        around = _ChainSurroundings(self, codes)
        for row in solved.open_sends.to_pylist():
            # A wait may have several answers; of what is sent again under one name, the nearest counts.
            others = self.sends.get(row["key"], ()) if row["key"].startswith(ANSWER) else ()
            offered.setdefault(row["key"], {*others}).update(events_for(row, around))
        kept = self.sends | {key: tuple(sorted(positions)) for key, positions in offered.items()}
        if len(kept) > KEPT_SENDS:
            newest = sorted(kept, key=lambda key: max(kept[key], default=-1))[-KEPT_SENDS:]
            kept = {key: kept[key] for key in newest}
        return kept

    def _pending(self, solved: Solved, codes: NDArray[np.int32]) -> dict[int, tuple[int, ...]]:
        """What reports that were set aside leave to the next event of their process."""
        left: dict[int, set[int]] = {}
        around = _ChainSurroundings(self, codes)
        for row in solved.open_receives.to_pylist():
            if row["place"] < 0:
                left.setdefault(int(codes[-1 - row["place"]]), set()).update(causes_of(row, around) or ())
        seen = set(codes[solved.placed.skeleton.process].tolist())
        unmet = {code: positions for code, positions in self.pending.items() if code not in seen}
        return unmet | {code: tuple(sorted(positions)) for code, positions in left.items()}

    def last_of(self, code: int) -> tuple[int, ...]:
        """The position of the last event of a process that is closed, which the scan then holds."""
        position = self.last_position[code]
        if position < 0:
            return ()
        self.scan.hold_last(code, position)
        return (position,)


@dataclass(frozen=True, slots=True)
class _ChainSurroundings:
    """The surroundings of a chain's next segment (`ledto.history.open_ends`): events go by their positions in the chain."""

    chain: Chain
    codes: NDArray[np.int32]
    """The chain's codes of the segment's processes."""

    def here(self, place: int) -> int:
        return self.chain.end + place

    def last_before(self, process: int) -> tuple[int, ...]:
        return self.chain.last_of(int(self.codes[process]))

    def senders(self, key: str) -> tuple[int, ...] | None:
        return self.chain.sends.get(key)


FindSends = Callable[[Chain, set[str]], Sequence[tuple[str, int, int, int, Vectors, bool]]]
"""Key, position, code, number within the process and vector of the closed events that send these keys; and whether that
starts a span which is no call."""


def _present(rows: pa.Table) -> pa.Table:
    """The rows without columns that have no values and that nothing here asks for: most have few."""
    kept = [name for name in rows.column_names if name in _NEEDED or rows[name].null_count < len(rows)]
    return rows.select([name for name in kept if name != "uid"])


def _by_dates(rows: pa.Table) -> pa.Table:
    """The rows with their dates in place of their times, as the solver takes them."""
    wall = rows["time"]
    dated = rows.set_column(rows.column_names.index("time"), "time", rows[DATED]).drop_columns([DATED])
    return dated.append_column("wall", wall)


def _with_times(events: pa.Table, rows: pa.Table, solved: Solved, missing: list[tuple[int, str]]) -> pa.Table:
    """The events with the times that were reported, and with all that is known to be missing."""
    time = rows["time"].take(pa.array(solved.table_rows))
    events = events.set_column(events.column_names.index("time"), "time", time)
    timed = pc.if_else(pc.is_valid(time), events["correction"], pa.scalar(None, pa.int64()))
    events = events.set_column(events.column_names.index("correction"), "correction", timed)
    return with_missing(events, missing)
