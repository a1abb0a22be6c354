"""Make one segment of one window of reports: rows in history order, their causes, and what is quarantined, with reasons.

A window holds the rows of one computation with wall times within ``[low - eps, high + eps)``. Its segment has the events
with ``low <= causal time < high``. These rows are enough if no causal time exceeds its wall time by more than eps. Proof:
let an event have a causal time of T or more, and a wall time below T. Then some event of its past has a wall time of T or
more. All events between the two have causal times of T or more as well, so wall times of ``T - eps`` or more. None has a
wall time of ``T + eps`` or more, because the first event's causal time would then exceed its wall time by more than eps. So
rows within eps of the cut T decide which events are before the cut.

An eps that is too small is always noticed. Either an event of a window exceeds it, which `Solved.lag` shows; or a message
goes from a later segment to an earlier one, or a process's numbers run backwards between two segments. `ledto.batch.join`
checks the last two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.canonical import Copies, Raw, canonical_order, find_copies, tied_places
from ledto.causality.corrected_times import find_corrections
from ledto.causality.order import NO_TIME, OrderedRows, order_rows
from ledto.causality.place import PlacedRows, assemble, has_label_in
from ledto.events.keys import ANSWER, SPAN, UNKNOWN_ANSWER
from ledto.events.schema import END, START
from ledto.history.open_ends import RECEIVES, SENDS
from ledto.history.quarantine import Quarantined
from ledto.history.window.check_stamps import contradictions, first_contradictions
from ledto.history.window.columns import ReportColumns, out_of_range
from ledto.history.window.edges import CanonicalRows, ConnectedRows, Missing, connect
from ledto.history.window.ends import WindowRows, open_ends, with_open_ties
from ledto.history.window.span_edges import homes_of_spans, rank_ties, span_ends

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

NO_COPIES = Copies(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))


@dataclass(frozen=True, slots=True)
class SegmentWindow:
    """The events of a segment: those with ``low <= causal time < high``; None for no limit."""

    low: int | None = None
    high: int | None = None

    @property
    def whole(self) -> bool:
        """Whether the window has no limits: it holds the whole computation."""
        return self.low is None and self.high is None


@dataclass(frozen=True, slots=True)
class Solved:
    """A segment before it is written."""

    table_rows: Longs
    """By place: the row of the table."""
    placed: PlacedRows
    causal_time: Longs
    """By place; `NO_TIME` where no event of the past has a time."""
    placed_time: Longs
    """By place: the causal time if assumed causes count, too. Places are in the order of it."""
    correction: Longs
    """By place: what to add to the wall time so that it respects causality."""
    missing: pa.Array
    """By place: the keys of causes that nobody reported; null for most."""
    open_receives: pa.Table
    """Causes outside the segment: rows of `ledto.history.open_ends.RECEIVES`."""
    open_sends: pa.Table
    """Events that other segments may need: rows of `ledto.history.open_ends.SENDS`."""
    quarantined: Quarantined
    """Rows of the table that are not events of the segment."""
    lag: int
    """The largest excess of a causal time over its wall time, over all rows of the window."""
    lag_row: int
    """The table's row with that excess; -1 if no row has a time."""
    clock_lag: int
    """The same without assumed causes: clocks differ at least so far."""


def solve(
    table: pa.Table, names: Sequence[str], window: SegmentWindow, *, first_come: bool = False, prefixed: bool = False
) -> Solved:
    """Solve `window`: put the rows of one computation in order. `names` are its processes, ascending.

    An event stays although its cause is missing. A message that nobody sent is left out, and its key is in `Solved.missing`;
    one that may have been sent in another window is in `Solved.open_receives`.

    `first_come` is for streams, where deliveries are final. The rows are then in the order of their arrival, and of two that
    contradict each other the first stays, whatever comes later. Messages of a cycle are left out and listed as missing;
    their receives stay. A copy is quarantined with the segment of the row that it repeats. The column ``emitted`` marks
    delivered rows.

    `prefixed`: processes and keys begin with the number of their computation and `BETWEEN`.

    `table` has columns of `ledto.events.schema.REPORTS`; absent ones count as null. Optional columns: ``own``, false for
    rows that another window quarantines if that is due; ``missing``; and ``wall``, the reported times, where ``time`` has
    others. A process without numbers is in the order of ``wall``.
    """
    columns = ReportColumns(table, names)
    process = columns.process
    time, seq = columns.longs("time"), columns.longs("seq")
    wall = columns.longs("wall") if columns.has("wall") else time
    quarantined = Quarantined()
    numbered = np.zeros(len(names), np.bool_)
    numbered[process[seq != NO_TIME]] = True
    good = ~(numbered[process] & (seq == NO_TIME))
    quarantined.quarantine(np.flatnonzero(~good & columns.own), "no-seq", "other events of its process have one")
    for absurd, code, detail in out_of_range(table, "wall" if columns.has("wall") else "time", "seq"):
        quarantined.quarantine(np.flatnonzero(good & absurd & columns.own), code, detail)
        good &= ~absurd

    raw = Raw(process, np.where(numbered[process], seq, wall), numbered, columns.file_ranks(), columns.longs("place"))
    # A row that is quarantined already is not looked at as a copy: it would be counted twice.
    order = canonical_order(raw, lambda rows: rank_ties(columns, rows))
    order = order[good[order]]
    turn = columns.turns() if first_come else None
    tied = order[tied_places(raw, order)]
    copies = NO_COPIES
    if len(tied):
        texts = [columns.codes(name, tied) for name in ("id", "sends", "receives", "name", "kind")]
        # Ids of spans are unique only within their trace.
        line = columns.codes("line", tied)
        texts[0] = np.where(texts[0] >= 0, texts[0] * (line.max() + 2) + line + 1, -1)
        content = np.array([wall[tied], *texts]).T
        arrival = columns.longs("arrival") if turn is None else turn
        copies = find_copies(raw, tied, np.array(texts[:3]).T, content, arrival[tied])
        good[copies.rows] = False
        if not first_come:
            _quarantine_copies(quarantined, copies, columns.own[copies.rows])
    order = order[good[order]]
    canonical = CanonicalRows(columns, order, process[order], time[order], raw.key[order], numbered, prefixed)
    starts = np.concatenate(([0], np.cumsum(np.bincount(process[order], minlength=len(names))))).astype(np.int64)
    return _Solver(canonical, window, starts, None if turn is None else turn[order], quarantined).solve(copies)


def _quarantine_copies(quarantined: Quarantined, copies: Copies, chosen: Flags) -> None:
    """Quarantine the chosen copies: as duplicates, or as conflicts if they do not agree."""
    quarantined.duplicate(copies.rows[chosen & copies.agrees])
    quarantined.quarantine(
        copies.rows[chosen & ~copies.agrees], "conflict", "another report of this event says otherwise"
    )


@dataclass(slots=True)
class _Solver:
    """The work of `solve`, on rows in canonical order."""

    rows: CanonicalRows
    window: SegmentWindow
    starts: Longs
    """By process: its first row; and the number of rows."""
    turn: Longs | None
    """For streams, by row: its turn of arrival. None: what came first does not matter."""
    quarantined: Quarantined
    missing: Missing = field(default_factory=lambda: defaultdict(list))

    def solve(self, copies: Copies) -> Solved:
        """Solve the window. `copies` are quarantined here in a stream only."""
        order, process, time = self.rows.order, self.rows.process, self.rows.time
        turn = time if self.turn is None else self.turn
        connected = connect(self.rows, turn, self.missing, whole=self.window.whole)
        ordered = self._order(connected)
        causal_time = ordered.times.causal_time
        member = self._members(causal_time)
        if len(copies.rows) and self.turn is not None:
            is_member = np.zeros(len(self.rows.columns.table), np.bool_)
            is_member[order[member]] = True
            _quarantine_copies(self.quarantined, copies, is_member[copies.of])
        dropped = self._drop(connected, ordered, member)
        assumed = connected.assumed
        placed = assemble(process, ordered, member, dropped, assumed, assumed & ~connected.is_answer)
        certain_time = causal_time
        if (is_assumed := has_label_in(assumed, ordered.edges.labels)).any():
            # Assumed causes say nothing about clocks.
            certain_time = order_rows(self.starts, time, ordered.edges.without(is_assumed)).times.causal_time
        lag = _lags(time, causal_time)
        worst = int(lag.argmax()) if len(lag) else -1
        missing = [self.missing.get(row) for row in placed.rows.tolist()] if self.missing else []
        open_receives, open_sends = self._open_ends(connected, ordered, placed, member, dropped)
        return Solved(
            order[placed.rows],
            placed,
            certain_time[placed.rows],
            causal_time[placed.rows],
            self._corrections(ordered)[placed.rows],
            _missing_keys(self.rows.columns, order[placed.rows], missing),
            open_receives,
            open_sends,
            self.quarantined,
            max(0, int(lag.max(initial=0))),
            int(order[worst]) if worst >= 0 and lag[worst] >= 0 else -1,
            max(0, int(_lags(time, certain_time).max(initial=0))),
        )

    def _order(self, connected: ConnectedRows) -> OrderedRows:
        """Put the rows in order. An assumed answer that this refutes is missing."""
        edges = connected.edges
        ordered = order_rows(self.starts, self.rows.time, edges, has_label_in(connected.assumed, edges.labels))
        answers = ordered.refuted[has_label_in(connected.is_answer, edges.labels)[ordered.refuted]]
        for row in np.unique(edges.effects()[answers]).tolist():
            self.missing[row].append(UNKNOWN_ANSWER)
        return ordered

    def _members(self, causal_time: Longs) -> Flags:
        """Mark the rows of the segment; the others belong to other windows."""
        member = np.ones(len(causal_time), np.bool_)
        if self.window.low is not None:
            member &= causal_time >= self.window.low
        if self.window.high is not None:
            member &= causal_time < self.window.high
        return member

    def _drop(self, connected: ConnectedRows, ordered: OrderedRows, member: Flags) -> Flags:
        """Drop rows that cannot be right; quarantine those of the segment, and mark all.

        In a stream, a row of a cycle stays, and so does a row that is delivered.
        """
        columns, order, process = self.rows.columns, self.rows.order, self.rows.process
        keys, sends, sent_again = connected.keys, connected.sends, connected.sent_again
        dropped = np.zeros(len(order), np.bool_)

        def drop(rows: Longs, code: str, details: Sequence[str] | str) -> None:
            dropped[rows] = True
            inside = member[rows]
            if not isinstance(details, str):
                details = [detail for detail, is_inside in zip(details, inside, strict=True) if is_inside]
            self.quarantined.quarantine(order[rows[inside]], code, details)

        # Keys of spans and answers may be made of numbers that are used again, of threads and ports: no reason to drop.
        of_spans = self.rows.begin_with(keys, SPAN) | self.rows.begin_with(keys, ANSWER)
        sent_again = sent_again[~of_spans[sends[sent_again]]]
        if self.turn is None:
            in_cycle = ordered.in_cycle
            if len(in_cycle) and columns.has("line_phase"):
                # A clock that was set back can put a span into a cycle: no reason to drop it.
                self._add_missing_of_cycles(connected, ordered)
                phases = pc.is_in(columns.text("line_phase"), value_set=pa.array([START, END], pa.string()))
                in_cycle = in_cycle[~phases.to_numpy(zero_copy_only=False)[order[in_cycle]]]
            drop(in_cycle, "cycle", "it receives a message that its own past depends on")
            sent_again = sent_again[~dropped[sent_again]]
        else:
            sent_again = sent_again[~columns.emitted()[order[sent_again]]]
            self._add_missing_of_cycles(connected, ordered)
        keys_sent_again = [self.rows.plain_key(keys, number) for number in sends[sent_again].tolist()]
        drop(sent_again, "sent-twice", [f"{key!r:.80} is sent by another event" for key in keys_sent_again])
        if columns.has("stamp"):
            stamps = columns.text("stamp").take(pa.array(order))
            if self.turn is None:
                rows, details = contradictions(stamps, process, ordered, dropped)
            else:
                kept, alone = columns.emitted()[order], self.window.whole
                rows, details = first_contradictions(stamps, process, ordered, dropped, self.turn, kept, alone)
            drop(rows, "stamp-contradicts", details)
        return dropped

    def _add_missing_of_cycles(self, connected: ConnectedRows, ordered: OrderedRows) -> None:
        """Add the keys of messages that were left out because of a cycle to what is missing."""
        if not len(ordered.in_cycle):
            return
        edges, keys = connected.edges, connected.keys
        gone = np.flatnonzero((edges.causes >= 0) & (ordered.edges.causes < 0) & (edges.labels >= 0))
        # An answer that was only assumed is not missing.
        gone = gone[~self.rows.begin_with(keys, ANSWER)[edges.labels[gone]]]
        for row, label in zip(edges.effects()[gone].tolist(), edges.labels[gone].tolist(), strict=True):
            self.missing[row].append(self.rows.plain_key(keys, label))

    def _open_ends(
        self, connected: ConnectedRows, ordered: OrderedRows, placed: PlacedRows, member: Flags, dropped: Flags
    ) -> tuple[pa.Table, pa.Table]:
        """Find what crosses the ends of the window: rows of `RECEIVES`, and of `SENDS`."""
        if self.window.whole:
            return RECEIVES.empty_table(), SENDS.empty_table()
        columns, order, process = self.rows.columns, self.rows.order, self.rows.process
        rows = WindowRows(
            connected.keys,
            connected.sends,
            self.rows.time,
            ordered.edges,
            placed,
            member,
            dropped,
            process,
            connected.assumed,
            connected.twice,
        )
        spans = span_ends(columns, order, process, member)
        received, sent = open_ends(rows, spans, self.window.high, *homes_of_spans(columns, order, process))
        if columns.has("line"):
            received, sent = with_open_ties(rows, connected.group, received, sent)
        return received, sent

    def _corrections(self, ordered: OrderedRows) -> Longs:
        """Find the corrections of the reported times, which are ``wall`` if the table has that column."""
        columns, order, time, edges = self.rows.columns, self.rows.order, self.rows.time, ordered.edges
        if columns.has("wall") and (wall := columns.longs("wall")[order]).tobytes() != time.tobytes():
            causal_time = order_rows(self.starts, wall, edges).times.causal_time
            return find_corrections(self.starts, wall, causal_time, edges)
        return find_corrections(self.starts, time, ordered.times.causal_time, edges)


def _lags(time: Longs, causal_time: Longs) -> Longs:
    """Give by how much each causal time exceeds the wall time; -1 for rows without a time."""
    timed = time != NO_TIME
    return np.where(timed, causal_time - np.where(timed, time, 0), -1)


def _missing_keys(columns: ReportColumns, rows: Longs, missing: Sequence[list[str] | None]) -> pa.Array:
    """List the missing keys of each row: those of its column ``missing`` and those found here; sorted, each once."""
    if not missing and not columns.has("missing"):
        return pa.nulls(len(rows), pa.list_(pa.string()))
    reported = columns.text("missing").take(pa.array(rows)).to_pylist()
    both = zip(reported, missing or [None] * len(rows), strict=True)
    return pa.array(
        [sorted({*([one] if one else []), *(others or [])}) or None for one, others in both], pa.list_(pa.string())
    )
