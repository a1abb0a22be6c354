"""Keep one computation of a stream: a chain of closed segments, and a tail that is solved anew as reports come.

A cut at the date T is closed once everything dated before ``T + eps`` has come (`ledto.live.dates`). Events that are
then known to come before T, by the causal times of dates, become a segment that is written for good. The rest stays in
the tail. Cuts depend on dates alone, so a chain is a function of its reports and their arrivals, not of the
micro-batches that brought them.

A process gets its code when it first appears in a closed segment or in the tail. Codes of the tail are final when it is
closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.boundary import Boundary
from ledto.causality.order import NO_TIME
from ledto.causality.skeleton import Skeleton
from ledto.causality.sparse_vectors import Vectors
from ledto.causality.vector_clocks import Scan
from ledto.events.keys import ANSWER, UNKNOWN_CALL
from ledto.history.gone import Gone, earliest, gone_from, rows_after
from ledto.history.mark_missing import with_missing
from ledto.history.open_ends import (
    TIED,
    called_at_unknown_time,
    causes_of,
    doubt_of,
    events_for,
    is_assumed,
    lacks,
    process_of_next,
)
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
"""Most missing reports that a chain remembers, up to four for each process, processes without events included."""
KEPT_SENDS = 100_000
"""Most messages under way that a chain remembers across a cut. A receive of an older one lacks its send."""
_NEEDED = ("computation", "process", "seq", "time", "arrival", "emitted", DATED)
FIRST, LAST = -LARGEST_TIME - 1, LARGEST_TIME + 1
"""Before and after all dates."""


@dataclass(frozen=True, slots=True, eq=False)
class PendingSegment:
    """A segment of a chain before it is written."""

    events: pa.Table
    """The columns of a segment's events."""
    rows: Longs
    """By event: its row in the table that was solved."""
    skeleton: Skeleton
    boundary: Boundary
    """Positions count from the start of the chain."""
    edge_doubt: NDArray[np.uint8]
    """By edge of the boundary: how sure the cause is (`doubt_of`)."""
    assumed: Longs
    """By row: how many of its causes in the skeleton are only assumed."""
    tied: Longs
    """By row: how many of its causes are only assumed because events have the same time."""
    lines: SegmentLines | None
    holes: Holes
    """By code: where reports are missing, up to the end of the segment."""
    counts: Counts
    quarantined: pa.Table
    lag: int
    heard: tuple[tuple[int, str, int], ...] = ()
    """Events that received a message from before the segment: row, key, and arrival of the report of its send."""


class FoundSend(NamedTuple):
    """A closed event that sends a key."""

    key: str
    position: int
    code: int
    """Of its process."""
    event_number: int
    """Which event of its process it is, from 1."""
    vector: Vectors
    starts_span: bool
    """Whether it starts a span that is not a call."""


@dataclass(slots=True)
class Chain:
    """A computation where its tail begins. Stored with the closed part."""

    computation: str
    names: list[str] = field(default_factory=list)
    """By code: the name of the process."""
    scan: Scan = field(default_factory=lambda: Scan(0))
    end: int = 0
    """How many events are closed; the position of the next."""
    cut: int = FIRST
    """The date of the last cut."""
    closed_processes: ClosedProcesses = field(default_factory=ClosedProcesses)
    last_position: list[int] = field(default_factory=list)
    """By code: the position of the last closed event; -1 if there is none."""
    sends: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By message key: the positions of its sends, which the scan holds."""
    within: dict[str, int] = field(default_factory=dict)
    """By key of a span that is neither a call nor a message: the code of its process."""
    twice: set[str] = field(default_factory=set)
    """Message keys that two events sent, so that nobody knows which of them was received."""
    sent: dict[str, int] = field(default_factory=dict)
    """By message key: when the report of its send arrived."""
    holes: Holes = field(default_factory=lambda: Holes.none(0))
    gone: list[Gone] = field(default_factory=list)
    """Quarantined and late reports that belong after everything that is closed of their processes."""
    totals: Totals = field(default_factory=Totals)
    """By code: sums over closed segments."""
    pending: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """By code: positions of causes of the next event of the process, which quarantined reports named."""
    channels: Channels = field(default_factory=Channels)

    def peek(self, rows: pa.Table, find_sends: FindSends) -> PendingSegment:
        """Solve the whole tail as if nothing else came. Does not close anything."""
        return self._solve(rows, find_sends, None)[0]

    def close(self, rows: pa.Table, find_sends: FindSends, high: int) -> tuple[PendingSegment, NDArray[np.bool_]]:
        """Close the events of these rows before the date `high`; return their segment, and which rows are closed."""
        part, solved, codes = self._solve(rows, find_sends, high)
        kept, pending = self._sends_to_keep(solved, codes), self._causes_to_pass_on(solved, codes)
        wanted = {position for positions in (*kept.values(), *pending.values()) for position in positions}
        self.scan.segment(
            part.skeleton,
            self.end,
            part.boundary.edge_row,
            part.boundary.send_position[part.boundary.edge_send],
            [position for position in wanted if position >= self.end],
        )
        self.scan.keep_only(sorted(wanted))
        arrival = part.events["arrival"].to_numpy()
        open_sends = solved.open_sends
        for key, place, within in zip(
            *(open_sends[name].to_pylist() for name in ("key", "place", "within")), strict=True
        ):
            if place is not None:
                self.sent[key] = int(arrival[place])
            self.within.pop(key, None)
            if within is not None:
                self.within[key] = int(codes[within])
        self.sent = {key: arrived for key, arrived in self.sent.items() if key in kept}
        self.within = {key: code for key, code in self.within.items() if key in kept}
        opened_twice = open_sends.filter(pc.fill_null(open_sends["twice"], False))["key"].to_pylist()
        self.twice = {key for key in (*self.twice, *opened_twice) if key in kept}
        self.sends, self.pending = kept, pending
        last = np.array(self.last_position)
        last[part.skeleton.process] = self.end + np.arange(len(part.skeleton))
        self.last_position = last.tolist()
        is_closed = np.zeros(len(rows), np.bool_)
        is_closed[solved.table_rows] = is_closed[solved.quarantined.rows] = True
        self.closed_processes.close(part.events, rows.filter(pa.array(is_closed)))
        self.end += len(part.skeleton)
        self.cut = high
        self.holes, self.totals = part.holes, self.totals.plus(part.counts, part.holes)
        self.remember_gone(gone_from(part.quarantined))
        return part, is_closed

    def remember_gone(self, gone: Iterable[Gone]) -> None:
        """Remember that these reports are missing. Processes have the names of `ClosedProcesses`."""
        self.gone = earliest([*self.gone, *gone])[:MOST_GONE]

    def set_holes(self, holes: Holes) -> None:
        """Replace where reports are missing in the closed part."""
        self.holes = holes
        self.totals.set_holes(holes)

    def _solve(
        self, rows: pa.Table, find_sends: FindSends, high: int | None
    ) -> tuple[PendingSegment, Solved, NDArray[np.int32]]:
        """Solve rows up to the date `high`.

        Returns the segment, the solution, and the chain's codes of its processes.
        """
        placed = self.closed_processes.place(_drop_empty_columns(rows))
        names = sorted(pc.unique(placed["process"]).to_pylist())
        solved = solve(
            _dates_as_times(placed), names, SegmentWindow(FIRST, LAST if high is None else high), first_come=True
        )
        codes = self._assign_codes(names)
        local = solved.placed.skeleton
        skeleton = Skeleton(codes[local.process], local.offsets, local.back)
        edge_row, edge_position, doubt, missing = self._find_crossings(solved, codes, find_sends)
        events = _restore_times(events_table(_dates_as_times(placed), solved, 0), placed, solved, missing)
        boundary = self.scan.boundary(skeleton, edge_row, edge_position)
        counts = count_processes([(self.computation, name) for name in self.names], skeleton, events)
        totals, everybody = self.totals.widened(len(self.names)), np.arange(len(self.names))
        quarantined = solved.quarantined.table(placed.drop_columns([DATED, "emitted"]))
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
                counts.holes.first_of_time(unanswered(counts, skeleton, boundary)),
                self._rows_after_gone([*self.gone, *gone_from(quarantined)], skeleton, events),
            ),
            counts,
            quarantined,
            solved.lag,
            tuple(
                (row["place"], row["key"], self.sent[row["key"]])
                for row in solved.open_receives.to_pylist()
                if row["place"] >= 0 and row["key"] in self.sent
            ),
        )
        return part, solved, codes

    def _rows_after_gone(
        self, gone: Sequence[Gone], skeleton: Skeleton, events: pa.Table
    ) -> dict[int, tuple[int, str]]:
        """Find rows of a segment that may come after missing reports."""
        if not gone:
            return {}
        seq, time = events["seq"].fill_null(0).to_numpy(), events["time"].fill_null(NO_TIME).to_numpy()
        return rows_after(self.group_gone_by_code(gone), skeleton.process, seq, time)

    def group_gone_by_code(self, gone: Iterable[Gone]) -> dict[int, list[Gone]]:
        """Group missing reports by the code of their process; leaves out processes without events."""
        codes = {name: code for code, name in enumerate(self.names)}
        groups: dict[int, list[Gone]] = {}
        for report in gone:
            if report.process in codes:
                groups.setdefault(codes[report.process], []).append(report)
        return groups

    def _assign_codes(self, names: Sequence[str]) -> NDArray[np.int32]:
        """Get the codes of these processes; new ones get the next."""
        codes = {name: code for code, name in enumerate(self.names)}
        for name in names:
            if name not in codes:
                codes[name] = len(codes)
                self.names.append(name)
                self.last_position.append(-1)
        self.scan.grow(len(self.names))
        return np.array([codes[name] for name in names], np.int32)

    def _find_crossings(
        self, solved: Solved, codes: NDArray[np.int32], find_sends: FindSends
    ) -> tuple[list[int], list[int], list[int], list[tuple[int, str]]]:
        """Find the causes of rows that lie before the segment.

        Returns rows, causes, their doubt, and (row, key) of causes that nobody reported.
        """
        pairs: dict[tuple[int, int], int] = {}
        missing: list[tuple[int, str]] = []
        open_rows = [row for row in solved.open_receives.to_pylist() if row["place"] >= 0]
        # An answer is received once, where it is waited for, so its send would still be remembered.
        unknown = {
            row["key"] for row in open_rows if row["key"] is not None and not is_assumed(row)
        } - self.sends.keys()
        for send in find_sends(self, unknown) if unknown else ():
            self.scan.hold(send.position, send.code, send.event_number, send.vector)
            self.sends[send.key] = (send.position,)
            if send.starts_span:
                self.within[send.key] = send.code
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

    def _sends_to_keep(self, solved: Solved, codes: NDArray[np.int32]) -> dict[str, tuple[int, ...]]:
        """List the messages that may be received later: those remembered so far, and those of the segment."""
        offered: dict[str, set[int]] = {}
        around = _ChainSurroundings(self, codes)
        for row in solved.open_sends.to_pylist():
            # A wait may have several answers. Of several sends of another key, the nearest counts.
            others = self.sends.get(row["key"], ()) if row["key"].startswith(ANSWER) else ()
            offered.setdefault(row["key"], {*others}).update(events_for(row, around))
        kept = self.sends | {key: tuple(sorted(positions)) for key, positions in offered.items()}
        if len(kept) > KEPT_SENDS:
            newest = sorted(kept, key=lambda key: max(kept[key], default=-1))[-KEPT_SENDS:]
            kept = {key: kept[key] for key in newest}
        return kept

    def _causes_to_pass_on(self, solved: Solved, codes: NDArray[np.int32]) -> dict[int, tuple[int, ...]]:
        """Collect, by code, causes that quarantined reports pass on to the next event of their process."""
        passed_on: dict[int, set[int]] = {}
        around = _ChainSurroundings(self, codes)
        for row in solved.open_receives.to_pylist():
            if row["place"] < 0:
                passed_on.setdefault(int(codes[process_of_next(row["place"])]), set()).update(
                    causes_of(row, around) or ()
                )
        seen = set(codes[solved.placed.skeleton.process].tolist())
        unmet = {code: positions for code, positions in self.pending.items() if code not in seen}
        return unmet | {code: tuple(sorted(positions)) for code, positions in passed_on.items()}

    def last_of(self, code: int) -> tuple[int, ...]:
        """Get the position of the last closed event of a process, and let the scan hold it; empty if it has none."""
        position = self.last_position[code]
        if position < 0:
            return ()
        self.scan.hold_last(code, position)
        return (position,)


@dataclass(frozen=True, slots=True)
class _ChainSurroundings:
    """The surroundings of a chain's next segment (`ledto.history.open_ends`).

    Events are their positions in the chain.
    """

    chain: Chain
    codes: NDArray[np.int32]
    """By process of the segment: the chain's code."""

    def here(self, place: int) -> int:
        return self.chain.end + place

    def last_before(self, process: int) -> tuple[int, ...]:
        return self.chain.last_of(int(self.codes[process]))

    def senders(self, key: str) -> tuple[int, ...] | None:
        return self.chain.sends.get(key)


FindSends = Callable[[Chain, set[str]], Sequence[FoundSend]]
"""Finds the closed events of a chain that send these keys."""


def _drop_empty_columns(rows: pa.Table) -> pa.Table:
    """Drop columns without values that nothing here needs; most rows have few values."""
    kept = [name for name in rows.column_names if name in _NEEDED or rows[name].null_count < len(rows)]
    return rows.select([name for name in kept if name != "uid"])


def _dates_as_times(rows: pa.Table) -> pa.Table:
    """Put dates in place of times, as the solver needs them; the times go to the column ``wall``."""
    wall = rows["time"]
    dated = rows.set_column(rows.column_names.index("time"), "time", rows[DATED]).drop_columns([DATED])
    return dated.append_column("wall", wall)


def _restore_times(events: pa.Table, rows: pa.Table, solved: Solved, missing: list[tuple[int, str]]) -> pa.Table:
    """Give the events their reported times again, and add the causes that are missing."""
    time = rows["time"].take(pa.array(solved.table_rows))
    events = events.set_column(events.column_names.index("time"), "time", time)
    timed = pc.if_else(pc.is_valid(time), events["correction"], pa.scalar(None, pa.int64()))
    events = events.set_column(events.column_names.index("correction"), "correction", timed)
    return with_missing(events, missing)
