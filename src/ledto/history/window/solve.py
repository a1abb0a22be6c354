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

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.canonical import Copies, Raw, canonical_order, find_copies, tied_places
from ledto.causality.corrected_times import find_corrections
from ledto.causality.order import NO_CAUSE, NO_LABEL, NO_TIME, CausalTimes, Edges, OrderedRows, order_rows
from ledto.causality.place import NONE, PlacedRows, assemble, has_label_in
from ledto.events.schema import ANSWER, END, SPAN, STAMPED, START, UNKNOWN_ANSWER, UNKNOWN_CALL, UNKNOWN_PLACE
from ledto.history.open_ends import RECEIVES, SENDS
from ledto.history.quarantine import Quarantined
from ledto.history.window.check_stamps import contradictions, first_contradictions
from ledto.history.window.columns import BETWEEN, ReportColumns, out_of_range
from ledto.history.window.ends import WindowRows, open_ends, with_open_ties
from ledto.history.window.span_edges import (
    before_their_start,
    begins_uncalled,
    homes_of_spans,
    rank_ties,
    span_ends,
    started_elsewhere,
    with_all_answers,
    with_ties,
    without_answers_after,
    without_local_parents,
)

Longs = NDArray[np.int64]
Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]

LONGEST_ANSWER = 4
"""An answer that took more than this many times the wait is not the one that was waited for."""
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
    aside: Quarantined
    """Rows of the table that are not events of the segment."""
    lag: int
    """The largest excess of a causal time over its wall time, over all rows of the window."""
    lag_row: int
    """The table's row with that excess; -1 if no row has a time."""
    clock_lag: int
    """The same without assumed causes: clocks differ at least so far."""


def solve(
    table: pa.Table, names: Sequence[str], window: SegmentWindow, *, first_come: bool = False, told_apart: bool = False
) -> Solved:
    """Solve `window`: put the rows of one computation in order. `names` are its processes, ascending.

    An event stays although its cause is missing. A message that nobody sent is left out, and its key is in `Solved.missing`;
    one that may have been sent in another window is in `Solved.open_receives`.

    `first_come` is for streams, where deliveries are final. The rows are then in the order of their arrival, and of two that
    contradict each other the first stays, whatever comes later. Messages of a cycle are left out and listed as missing;
    their receives stay. A copy is quarantined with the segment of the row that it repeats. The column ``emitted`` marks
    delivered rows.

    `told_apart`: processes and keys begin with the number of their computation and `BETWEEN`.

    `table` has columns of `ledto.events.schema.REPORTS`; absent ones count as null. Optional columns: ``own``, false for
    rows that another window quarantines if that is due; ``missing``; and ``wall``, the reported times, where ``time`` has
    others. A process without numbers is in the order of ``wall``.
    """
    columns = ReportColumns(table, names)
    process = columns.process
    time, seq = columns.longs("time"), columns.longs("seq")
    wall = columns.longs("wall") if columns.has("wall") else time
    aside = Quarantined()
    numbered = np.zeros(len(names), np.bool_)
    numbered[process[seq != NO_TIME]] = True
    good = ~(numbered[process] & (seq == NO_TIME))
    aside.quarantine(np.flatnonzero(~good & columns.own), "no-seq", "other events of its process have one")
    for absurd, code, detail in out_of_range(table, "wall" if columns.has("wall") else "time", "seq"):
        aside.quarantine(np.flatnonzero(good & absurd & columns.own), code, detail)
        good &= ~absurd

    raw = Raw(process, np.where(numbered[process], seq, wall), numbered, columns.ranks("file"), columns.longs("place"))
    # A row that is quarantined already is not looked at as a copy: it would be counted twice.
    order = canonical_order(raw, lambda rows: rank_ties(columns, rows))
    order = order[good[order]]
    came = columns.came() if first_come else None
    tied = order[tied_places(raw, order)]
    copies = NO_COPIES
    if len(tied):
        texts = [columns.codes(name, tied) for name in ("id", "sends", "receives", "name", "kind")]
        # Ids of spans are unique only within their trace.
        line = columns.codes("line", tied)
        texts[0] = np.where(texts[0] >= 0, texts[0] * (line.max() + 2) + line + 1, -1)
        content = np.array([wall[tied], *texts]).T
        arrival = columns.longs("arrival") if came is None else came
        copies = find_copies(raw, tied, np.array(texts[:3]).T, content, arrival[tied])
        good[copies.rows] = False
        if not first_come:
            _quarantine_copies(aside, copies, columns.own[copies.rows])
    order = order[good[order]]
    work = _Work(columns, order, process[order], time[order], window, aside, told_apart, raw.key[order], numbered)
    return work.solve(len(names), None if came is None else came[order], copies)


def _quarantine_copies(aside: Quarantined, copies: Copies, chosen: Flags) -> None:
    """Quarantine the chosen copies: as duplicates, or as conflicts if they do not agree."""
    aside.duplicate(copies.rows[chosen & copies.agrees])
    aside.quarantine(copies.rows[chosen & ~copies.agrees], "conflict", "another report of this event says otherwise")


@dataclass(slots=True)
class _Work:
    """The work of `solve` on rows in canonical order, with each event once. *Row* means a place in `order`."""

    columns: ReportColumns
    order: Longs
    """By row: the row of the table."""
    process: Codes
    time: Longs
    window: SegmentWindow
    aside: Quarantined
    told_apart: bool
    key: Longs
    """By row: the number or wall time by which the rows of its process are sorted."""
    numbered: Flags
    """By process: whether `key` is a number, which only one event has."""

    def tied_groups(self) -> Longs | None:
        """Group rows of one process and time, if they are on several lines; any other row is a group of its own.

        Returns the number of each row's group, ascending; None if no group has two rows.
        """
        if not self.columns.has("line"):
            return None
        same = (np.diff(self.process) == 0) & (np.diff(self.key) == 0) & ~self.numbered[self.process[1:]]
        if not same.any():
            return None
        group = np.concatenate(([0], np.cumsum(~same)))
        line = self.columns.codes("line", self.order)
        first = np.concatenate(([True], ~same))
        mixed = np.zeros(int(group[-1]) + 1, np.bool_)
        mixed[group[line != line[np.flatnonzero(first)][group]]] = True
        return np.cumsum(first | ~mixed[group]) if mixed.any() else None

    def solve(self, processes: int, came: Longs | None, copies: Copies) -> Solved:
        """Solve the window. `came`, for streams: each row's turn of arrival; `copies` are then quarantined here."""
        columns, order, process, time, window = self.columns, self.order, self.process, self.time, self.window
        starts = np.concatenate(([0], np.cumsum(np.bincount(process, minlength=processes)))).astype(np.int64)
        keys, sends, edges = _edges(columns, order, told_apart=self.told_apart)
        assumed = self._begin_with(keys, ANSWER)
        sent_by, again = _senders(sends, time if came is None else came, len(keys))
        if len(keys):
            causes = np.where(edges.labels >= 0, sent_by[edges.labels], NO_CAUSE)
            edges = Edges(edges.offsets, causes, edges.labels)
            edges = without_local_parents(edges, keys, columns, order, process, told_apart=self.told_apart)
            edges = with_all_answers(edges, sends, again, assumed)
            edges = without_answers_after(edges, assumed, process)
        missing = {row: [UNKNOWN_PLACE] for row in before_their_start(columns, order, process).tolist()}
        twice = self._sent_by_two(keys, sends, sent_by, again)
        is_assumed = has_label_in(assumed, edges.labels)
        if is_assumed.any():
            edges = self._without_long_answers(edges, is_assumed, missing)
        if window.whole and len(keys):
            edges = self._without_unsent(edges, keys, missing)
        for row in begins_uncalled(columns, order, process, edges, self._begin_with(keys, SPAN)).tolist():
            missing.setdefault(row, []).append(UNKNOWN_CALL)
        # It is unknown which of the two sends was received, so the one that stays is only possible.
        unsure = np.flatnonzero(has_label_in(twice, edges.labels) & (edges.causes >= 0))
        for row, label in zip(edges.effects()[unsure].tolist(), edges.labels[unsure].tolist(), strict=True):
            missing.setdefault(row, []).append(self._plain(keys, label))
        is_answer, assumed = assumed, assumed | twice
        if (group := self.tied_groups()) is not None:
            keys, assumed, edges = with_ties(keys, assumed, edges, group, process)
            is_answer = np.append(is_answer, False)
        ordered = order_rows(starts, time, edges, has_label_in(assumed, edges.labels))
        answers = ordered.refuted[has_label_in(is_answer, edges.labels)[ordered.refuted]]
        for row in np.unique(edges.effects()[answers]).tolist():
            missing.setdefault(row, []).append(UNKNOWN_ANSWER)
        causal_time = ordered.times.causal_time
        member = np.ones(len(order), np.bool_)
        if window.low is not None:
            member &= causal_time >= window.low
        if window.high is not None:
            member &= causal_time < window.high
        if len(copies.rows) and came is not None:
            is_member = np.zeros(len(columns.table), np.bool_)
            is_member[order[member]] = True
            _quarantine_copies(self.aside, copies, is_member[copies.of])

        dropped = np.zeros(len(order), np.bool_)

        def drop(rows: Longs, code: str, details: Sequence[str] | str) -> None:
            """Drop the rows, and quarantine those of the segment; other windows quarantine the others."""
            dropped[rows] = True
            inside = member[rows]
            if not isinstance(details, str):
                details = [detail for detail, is_inside in zip(details, inside, strict=True) if is_inside]
            self.aside.quarantine(order[rows[inside]], code, details)

        # Keys of spans and answers may be made of numbers that are used again, of threads and ports: no reason to drop.
        again = again[~(self._begin_with(keys, SPAN) | self._begin_with(keys, ANSWER))[sends[again]]]
        if came is None:
            in_cycle = ordered.in_cycle
            if len(in_cycle) and columns.has("line_phase"):
                # A clock that was set back can put a span into a cycle: no reason to drop it.
                self._add_missing_of_cycles(edges, ordered, keys, missing)
                of_spans = pc.is_in(columns.text("line_phase"), value_set=pa.array([START, END], pa.string()))
                in_cycle = in_cycle[~of_spans.to_numpy(zero_copy_only=False)[order[in_cycle]]]
            drop(in_cycle, "cycle", "it receives a message that its own past depends on")
            again = again[~dropped[again]]
        else:
            again = again[~columns.emitted()[order[again]]]
            self._add_missing_of_cycles(edges, ordered, keys, missing)
        drop(again, "sent-twice", [f"{self._shown(keys, sends[row])} is sent by another event" for row in again])
        if columns.has("stamp"):
            stamps = columns.text("stamp").take(pa.array(order))
            if came is None:
                rows, details = contradictions(stamps, process, ordered, dropped)
            else:
                kept = columns.emitted()[order]
                rows, details = first_contradictions(stamps, process, ordered, dropped, came, kept, window.whole)
            drop(rows, "stamp-contradicts", details)
        placed = assemble(process, ordered, member, dropped, assumed, assumed & ~is_answer)
        certain_time = causal_time
        if (is_assumed := has_label_in(assumed, ordered.edges.labels)).any():
            # Assumed causes say nothing about clocks.
            certain_time = order_rows(starts, time, ordered.edges.without(is_assumed)).times.causal_time
        lag = _lags(time, causal_time)
        worst = int(lag.argmax()) if len(lag) else -1
        open_receives, open_sends = RECEIVES.empty_table(), SENDS.empty_table()
        if not window.whole:
            solved = WindowRows(keys, sends, time, ordered.edges, placed, member, dropped, process, assumed, twice)
            spans = span_ends(columns, order, process, member)
            open_receives, open_sends = open_ends(solved, spans, window.high, *homes_of_spans(columns, order, process))
            if columns.has("line"):
                open_receives, open_sends = with_open_ties(solved, group, open_receives, open_sends)
        return Solved(
            order[placed.rows],
            placed,
            certain_time[placed.rows],
            causal_time[placed.rows],
            self._corrections(starts, ordered.edges, ordered.times)[placed.rows],
            _missing_keys(
                columns, order[placed.rows], [missing.get(row) for row in placed.rows.tolist()] if missing else []
            ),
            open_receives,
            open_sends,
            self.aside,
            max(0, int(lag.max(initial=0))),
            int(order[worst]) if worst >= 0 and lag[worst] >= 0 else -1,
            max(0, int(_lags(time, certain_time).max(initial=0))),
        )

    def _corrections(self, starts: Longs, edges: Edges, times: CausalTimes) -> Longs:
        """Find the corrections of the reported times, which are ``wall`` if the table has that column."""
        columns, order, time = self.columns, self.order, self.time
        if columns.has("wall") and (wall := columns.longs("wall")[order]).tobytes() != time.tobytes():
            return find_corrections(starts, wall, order_rows(starts, wall, edges).times.causal_time, edges)
        return find_corrections(starts, time, times.causal_time, edges)

    def _sent_by_two(self, keys: pa.Array, sends: Longs, sent_by: Longs, again: Longs) -> Flags:
        """Mark keys that two events sent; for spans, of different processes. Not answers: a wait may have several."""
        twice = np.zeros(len(keys), np.bool_)
        if not len(again):
            return twice
        is_span, is_answer = self._begin_with(keys, SPAN), self._begin_with(keys, ANSWER)
        label = sends[again]
        elsewhere = self.process[again] != self.process[sent_by[label]]
        twice[label[~is_answer[label] & (~is_span[label] | elsewhere)]] = True
        return twice

    def _without_unsent(self, edges: Edges, keys: pa.Array, missing: dict[int, list[str]]) -> Edges:
        """Leave out edges whose cause nobody reported, and add their keys to `missing`, which is by row.

        Keys of stamps are not added: such an event is no message, and may never have been logged. Nor are answers.
        """
        plain = self._plain_keys(keys)
        is_message = ~(self._begin_with(keys, STAMPED) | self._begin_with(keys, ANSWER))
        unsent = (edges.causes < 0) & (edges.labels >= 0)
        messages = np.flatnonzero(unsent & is_message[edges.labels])
        for row, label in zip(edges.effects()[messages].tolist(), edges.labels[messages].tolist(), strict=True):
            missing.setdefault(row, []).append(plain[label].as_py())
        return Edges(edges.offsets, edges.causes, np.where(unsent, NO_LABEL, edges.labels))

    def _add_missing_of_cycles(
        self, edges: Edges, ordered: OrderedRows, keys: pa.Array, missing: dict[int, list[str]]
    ) -> None:
        """Add the keys of messages that were left out because of a cycle to `missing`, which is by row."""
        if not len(ordered.in_cycle):
            return
        gone = np.flatnonzero((edges.causes >= 0) & (ordered.edges.causes < 0) & (edges.labels >= 0))
        # An answer that was only assumed is not missing.
        gone = gone[~self._begin_with(keys, ANSWER)[edges.labels[gone]]]
        for row, label in zip(edges.effects()[gone].tolist(), edges.labels[gone].tolist(), strict=True):
            missing.setdefault(row, []).append(self._plain(keys, label))

    def _without_long_answers(self, edges: Edges, assumed: Flags, missing: dict[int, list[str]]) -> Edges:
        """Leave out answers that took far longer than the wait: another one was waited for. `assumed` is by edge."""
        since, time = self.columns.longs("line_since")[self.order], self.time
        effects = edges.effects()
        answers = assumed & (edges.causes >= 0)
        cause, effect = np.where(answers, edges.causes, 0), effects
        answers &= self.process[cause] != self.process[effect]
        timed = answers & (since[cause] != NO_TIME) & (since[effect] != NO_TIME)
        lasted, waited = (np.where(timed, time[row] - since[row], 0) for row in (cause, effect))
        too_long = timed & (lasted > LONGEST_ANSWER * np.maximum(waited, 0))
        for row in effects[too_long].tolist():
            missing.setdefault(row, []).append(UNKNOWN_ANSWER)
        return edges.without(too_long)

    def _begin_with(self, keys: pa.Array, prefix: str) -> Flags:
        """Tell for each key whether it begins with the prefix, as its source wrote it."""
        begins: Flags = pc.starts_with(self._plain_keys(keys), prefix).to_numpy(zero_copy_only=False).astype(np.bool_)
        return begins

    def _plain_keys(self, keys: pa.Array) -> pa.Array:
        """Give the keys as their sources wrote them."""
        if not self.told_apart:
            return keys
        return pc.replace_substring_regex(keys, rf"^\d*{BETWEEN}", "", max_replacements=1)

    def _shown(self, keys: pa.Array, number: int) -> str:
        """Quote a key as its source wrote it, cut off if it is long."""
        return f"{self._plain(keys, number)!r:.80}"

    def _plain(self, keys: pa.Array, number: int) -> str:
        """Give a key as its source wrote it, without the number of its computation."""
        key = str(keys[int(number)].as_py())
        return key.partition(BETWEEN)[2] if self.told_apart else key


def _lags(time: Longs, causal_time: Longs) -> Longs:
    """Give by how much each causal time exceeds the wall time; -1 for rows without a time."""
    timed = time != NO_TIME
    return np.where(timed, causal_time - np.where(timed, time, 0), -1)


def _missing_keys(columns: ReportColumns, rows: Longs, found: Sequence[list[str] | None]) -> pa.Array:
    """List the missing keys of each row: those of its column ``missing`` and those found here; sorted, each once."""
    if not found and not columns.has("missing"):
        return pa.nulls(len(rows), pa.list_(pa.string()))
    reported = columns.text("missing").take(pa.array(rows)).to_pylist()
    both = zip(reported, found or [None] * len(rows), strict=True)
    return pa.array(
        [sorted({*([one] if one else []), *(others or [])}) or None for one, others in both], pa.list_(pa.string())
    )


def _edges(columns: ReportColumns, order: Longs, *, told_apart: bool) -> tuple[pa.Array, Longs, Edges]:
    """Number all keys; return them, the key that each row sends (`NONE`: nothing), and edges for the keys it receives."""
    rows = len(columns.table)
    several = columns.has("receives_more")
    more = columns.lists("receives_more") if several else pa.array([], pa.list_(pa.string()))
    received_first = pc.coalesce(columns.text("receives"), started_elsewhere(columns, told_apart=told_apart))
    # Numbers instead of texts are put in order, because they are shorter.
    encoded = pa.concat_arrays([columns.text("sends"), received_first, more.flatten()]).dictionary_encode()
    numbers = encoded.indices.fill_null(NONE).to_numpy(zero_copy_only=False).astype(np.int64)
    sent, received = numbers[:rows][order], numbers[rows : 2 * rows][order]
    lengths, rest = np.zeros(len(order), np.int64), numbers[:0]
    if several:
        ordered = pa.ListArray.from_arrays(*_list_parts(more, numbers[2 * rows :])).take(pa.array(order))
        lengths = pc.fill_null(pc.list_value_length(ordered), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        rest = ordered.flatten().to_numpy(zero_copy_only=False)
    first = received >= 0
    offsets = np.concatenate(([0], np.cumsum(first + lengths))).astype(np.int64)
    labels = np.full(int(offsets[-1]), NO_LABEL, np.int64)
    labels[offsets[:-1][first]] = received[first]
    if len(rest):
        within = np.arange(len(rest)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        labels[np.repeat(offsets[:-1] + first, lengths) + within] = rest
    return encoded.dictionary, sent, Edges(offsets, np.full(len(labels), NO_CAUSE, np.int64), labels)


def _list_parts(lists: pa.ListArray, values: Longs) -> tuple[pa.Array, pa.Array]:
    """Make offsets and values for lists of the same lengths with other values; null lists become empty."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)), pa.array(values)


def _senders(sends: Longs, time: Longs, keys: int) -> tuple[Longs, Longs]:
    """Find the row that sends each key, the first by `time`, or `NO_CAUSE`; and all rows that send a key again."""
    rows = np.flatnonzero(sends >= 0)
    sent_by = np.full(keys, NO_CAUSE, np.int64)
    counts = np.bincount(sends[rows], minlength=keys)
    if not len(counts) or counts.max() <= 1:
        sent_by[sends[rows]] = rows
        return sent_by, np.empty(0, np.int64)
    latest_first = rows[np.lexsort((rows, time[rows]))[::-1]]
    sent_by[sends[latest_first]] = latest_first
    return sent_by, rows[sent_by[sends[rows]] != rows]
