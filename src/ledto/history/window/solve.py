"""One window of reports becomes one segment: rows in history order, their causes, and what is set aside, with reasons.

A window holds the rows of one computation whose wall times lie within ``[low - eps, high + eps)``; its segment has the
events with ``low <= causal time < high``. Why these rows are enough, if no causal time exceeds its wall time by more
than eps: let an event have a causal time of T or more, and a wall time below T. Then some event of its past has a wall
time from T on; all events between the two have causal times from T on as well, so wall times from ``T - eps`` on; and
none has a wall time of ``T + eps`` or more, or the first event's causal time would exceed its own wall time by more than
eps. So which events stand before the cut T is settled by rows within eps of it.

An eps that is too small cannot pass: either an event in a window exceeds it, which `Solved.lag` shows, or a message goes
from a later segment to an earlier one, or a process's numbers run backwards from one segment to the next. The last two
are checked where the segments meet (`ledto.batch.join`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.canonical import Copies, Raw, canonical_order, find_copies, tied_places
from ledto.causality.corrected_times import corrections
from ledto.causality.order import NO_TIME, CausalTimes, Edges, OrderedRows, order_rows
from ledto.causality.place import PlacedRows, assemble
from ledto.events.schema import ANSWER, END, SPAN, STAMPED, START, UNKNOWN_ANSWER, UNKNOWN_CALL, UNKNOWN_PLACE
from ledto.history.open_ends import RECEIVES, SENDS
from ledto.history.quarantine import Quarantined
from ledto.history.window.check_stamps import contradictions, first_contradictions
from ledto.history.window.columns import BETWEEN, ReportColumns, out_of_range
from ledto.history.window.ends import WindowRows, open_ends, with_open_ties
from ledto.history.window.span_edges import (
    before_their_start,
    begins_uncalled,
    edges_told,
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


@dataclass(frozen=True, slots=True)
class SegmentWindow:
    """Which events a segment is to hold; an open window holds the whole computation."""

    low: int | None = None
    high: int | None = None

    @property
    def whole(self) -> bool:
        return self.low is None and self.high is None


@dataclass(frozen=True, slots=True)
class Solved:
    """A segment before it is written."""

    table_rows: Longs
    """By place: the row of the table."""
    placed: PlacedRows
    causal_time: Longs
    """By place; `NO_TIME` where nothing in the past has a time."""
    placed_time: Longs
    """By place: the same with causes that are only assumed. Places ascend by it."""
    correction: Longs
    """By place: what makes the wall time respect causality."""
    missing: pa.Array
    """By place: the keys of causes that are known and were not reported; null for most."""
    open_receives: pa.Table
    """What crosses the segment's ends: rows of `ledto.history.open_ends.RECEIVES`."""
    open_sends: pa.Table
    """What others may name: rows of `ledto.history.open_ends.SENDS`."""
    aside: Quarantined
    lag: int
    """The largest excess of a causal time over its wall time, over all rows of the window."""
    lag_row: int
    """The table's row where that is; -1 without a time."""
    clock_lag: int
    """The same without causes that are only assumed: how far clocks differ at least."""


def solve(
    table: pa.Table, names: Sequence[str], window: SegmentWindow, *, first_come: bool = False, told_apart: bool = False
) -> Solved:
    """The segment of `window` from the rows of one computation, whose processes are `names`, ascending.

    An event stays although its cause is missing: a message that nobody sent is left out and told in `Solved.missing`. What
    may be sent in another window is in `Solved.open_receives`.

    `first_come` is for streams, in which what is delivered cannot be taken back. Rows come in the order of their arrival,
    and where two contradict each other, the first stays: an event that was in order stays so, whatever comes later.
    Messages that go in a circle are left out and told as missing; their receives stay. A copy is set aside with the row
    that it repeats. The column ``emitted`` tells which rows are delivered.

    `told_apart`: processes and keys begin with the number of their computation and `BETWEEN`.

    `table` has columns of `ledto.events.schema.REPORTS`, of which absent ones count as null, and optionally ``own``:
    false for rows that another window answers for when they turn out to be copies; ``missing``; and ``wall``, the times that
    were reported, by which a process without numbers is in order, where ``time`` has others.
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
    # A row that is set aside is no copy of another: it would be counted twice.
    order = canonical_order(raw, lambda rows: rank_ties(columns, rows))
    order = order[good[order]]
    came = columns.came() if first_come else None
    tied = order[tied_places(raw, order)]
    copies = NO_COPIES
    if len(tied):
        texts = [columns.codes(name, tied) for name in ("id", "sends", "receives", "name", "kind")]
        # The id of a span is one within its trace.
        line = columns.codes("line", tied)
        texts[0] = np.where(texts[0] >= 0, texts[0] * (line.max() + 2) + line + 1, -1)
        content = np.array([wall[tied], *texts]).T
        arrival = columns.longs("arrival") if came is None else came
        copies = find_copies(raw, tied, np.array(texts[:3]).T, content, arrival[tied])
        good[copies.rows] = False
        if not first_come:
            _set_aside(aside, copies, columns.own[copies.rows])
    order = order[good[order]]
    work = _Work(columns, order, process[order], time[order], window, aside, told_apart, raw.key[order], numbered)
    return work.solve(len(names), None if came is None else came[order], copies)


LONGEST_ANSWER = 4
"""An answer that took more than this many times the wait is not the one that was waited for."""
NO_COPIES = Copies(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.bool_))


def _set_aside(aside: Quarantined, copies: Copies, mine: Flags) -> None:
    aside.duplicate(copies.rows[mine & copies.agrees])
    aside.quarantine(copies.rows[mine & ~copies.agrees], "conflict", "another report of this event says otherwise")


@dataclass(slots=True)
class _Work:
    """`solve` for the rows of `order`, canonical and each event once."""

    columns: ReportColumns
    order: Longs
    process: Codes
    time: Longs
    window: SegmentWindow
    aside: Quarantined
    told_apart: bool
    key: Longs
    """By row: what orders the rows of its process."""
    numbered: Flags
    """By process: whether that is a number, which no two events share."""

    def tied_groups(self) -> Longs | None:
        """By row: a number for all rows of its process at its time, if these are of several lines; None without any."""
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
        return np.where(mixed[group], group, -1 - np.arange(len(group))) if mixed.any() else None

    def solve(self, processes: int, came: Longs | None, copies: Copies) -> Solved:
        """`came`: when each row came, if what came first stays; `copies` are then set aside with what they repeat."""
        columns, order, process, time, window = self.columns, self.order, self.process, self.time, self.window
        starts = np.concatenate(([0], np.cumsum(np.bincount(process, minlength=processes)))).astype(np.int64)
        keys, sends, edges = _edges(columns, order, told_apart=self.told_apart)
        assumed = self._begin_with(keys, ANSWER)
        sent_by, again = _senders(sends, time if came is None else came, len(keys))
        if len(keys):
            causes = np.where(edges.labels >= 0, sent_by[edges.labels], -1)
            edges = Edges(edges.offsets, causes, edges.labels)
            edges = without_local_parents(edges, keys, columns, order, process, told_apart=self.told_apart)
            edges = with_all_answers(edges, sends, again, assumed)
            edges = without_answers_after(edges, assumed, process)
        missing = {row: [UNKNOWN_PLACE] for row in before_their_start(columns, order, process).tolist()}
        twice = self._sent_by_two(keys, sends, sent_by, again)
        doubtful = edges_told(assumed, edges.labels)
        if doubtful.any():
            edges = self._without_long_answers(edges, doubtful, missing)
        if window.whole and len(keys):
            edges = self._without_unsent(edges, keys, missing)
        for row in begins_uncalled(columns, order, process, edges, self._begin_with(keys, SPAN)).tolist():
            missing.setdefault(row, []).append(UNKNOWN_CALL)
        # Which of the two was received is not known: the one that is kept is only possible.
        unsure = np.flatnonzero(edges_told(twice, edges.labels) & (edges.causes >= 0))
        for row, label in zip(edges.effects()[unsure].tolist(), edges.labels[unsure].tolist(), strict=True):
            missing.setdefault(row, []).append(self._plain(keys, label))
        is_answer, assumed = assumed, assumed | twice
        doubtful = edges_told(assumed, edges.labels)
        if (group := self.tied_groups()) is not None:
            keys, assumed, edges = with_ties(keys, assumed, edges, group, process)
            doubtful = edges_told(assumed, edges.labels)
            is_answer = np.append(is_answer, False)
        ordered = order_rows(starts, time, edges, doubtful)
        answers = ordered.doubted[edges_told(is_answer, edges.labels)[ordered.doubted]]
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
            _set_aside(self.aside, copies, is_member[copies.of])

        dropped = np.zeros(len(order), np.bool_)

        def drop(rows: Longs, code: str, details: Sequence[str] | str) -> None:
            dropped[rows] = True
            mine = member[rows]
            chosen = (
                details if isinstance(details, str) else [each for each, own in zip(details, mine, strict=True) if own]
            )
            self.aside.quarantine(order[rows[mine]], code, chosen)

        # Numbers of threads and ports come again, and what names them by these is no less an event.
        again = again[~(self._begin_with(keys, SPAN) | self._begin_with(keys, ANSWER))[sends[again]]]
        if came is None:
            in_cycle = ordered.in_cycle
            if len(in_cycle) and columns.has("line_phase"):
                # A clock that was set back can do that to a span, which is no less an event.
                self._tell_circles(edges, ordered, keys, missing)
                of_spans = pc.is_in(columns.text("line_phase"), value_set=pa.array([START, END], pa.string()))
                in_cycle = in_cycle[~of_spans.to_numpy(zero_copy_only=False)[order[in_cycle]]]
            drop(in_cycle, "cycle", "it receives a message that its own past depends on")
            again = again[~dropped[again]]
        else:
            again = again[~columns.emitted()[order[again]]]
            self._tell_circles(edges, ordered, keys, missing)
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
        known, known_times = ordered.edges, ordered.times
        if (doubtful := edges_told(assumed, known.labels)).any():
            # What is only assumed says nothing of clocks.
            known = Edges(known.offsets, np.where(doubtful, -1, known.causes), np.where(doubtful, -1, known.labels))
            known_times = order_rows(starts, time, known).times
        lag = np.where(time != NO_TIME, causal_time - np.where(time != NO_TIME, time, 0), -1)
        worst = int(lag.argmax()) if len(lag) else -1
        open_receives, open_sends = RECEIVES.empty_table(), SENDS.empty_table()
        if not window.whole:
            settled = WindowRows(keys, sends, time, ordered.edges, placed, member, dropped, process, assumed, twice)
            spans = span_ends(columns, order, process, member)
            open_receives, open_sends = open_ends(settled, spans, window.high, *homes_of_spans(columns, order, process))
            if columns.has("line"):
                open_receives, open_sends = with_open_ties(settled, group, open_receives, open_sends)
        return Solved(
            order[placed.rows],
            placed,
            known_times.causal_time[placed.rows],
            causal_time[placed.rows],
            self._corrections(starts, ordered.edges, ordered.times)[placed.rows],
            _missing_keys(
                columns, order[placed.rows], [missing.get(row) for row in placed.rows.tolist()] if missing else []
            ),
            open_receives,
            open_sends,
            self.aside,
            max(0, int(lag[worst])) if worst >= 0 else 0,
            int(order[worst]) if worst >= 0 and lag[worst] >= 0 else -1,
            max(
                0,
                int(
                    np.where(time != NO_TIME, known_times.causal_time - np.where(time != NO_TIME, time, 0), -1).max(
                        initial=0
                    )
                ),
            ),
        )

    def _corrections(self, starts: Longs, edges: Edges, times: CausalTimes) -> Longs:
        columns, order, time = self.columns, self.order, self.time
        if columns.has("wall") and (wall := columns.longs("wall")[order]).tobytes() != time.tobytes():
            return corrections(starts, wall, order_rows(starts, wall, edges).times.causal_time, edges)
        return corrections(starts, time, times.causal_time, edges)

    def _sent_by_two(self, keys: pa.Array, sends: Longs, sent_by: Longs, again: Longs) -> Flags:
        """By key: whether two events sent it, which for a span are of two processes. A wait may have several answers."""
        found = np.zeros(len(keys), np.bool_)
        if not len(again):
            return found
        is_span, is_answer = self._begin_with(keys, SPAN), self._begin_with(keys, ANSWER)
        label = sends[again]
        elsewhere = self.process[again] != self.process[sent_by[label]]
        found[label[~is_answer[label] & (~is_span[label] | elsewhere)]] = True
        return found

    def _without_unsent(self, edges: Edges, keys: pa.Array, missing: dict[int, list[str]]) -> Edges:
        """Leave out edges whose cause nobody reported, and tell it in `missing`, by row.

        What a stamp knows of is not told: it may never have been logged, and is no message. Nor is an answer.
        """
        plain = self._plain_keys(keys)
        told = ~(self._begin_with(keys, STAMPED) | self._begin_with(keys, ANSWER))
        lost = (edges.causes < 0) & (edges.labels >= 0)
        named = np.flatnonzero(lost & told[edges.labels])
        for row, label in zip(edges.effects()[named].tolist(), edges.labels[named].tolist(), strict=True):
            missing.setdefault(row, []).append(plain[label].as_py())
        return Edges(edges.offsets, edges.causes, np.where(lost, -1, edges.labels))

    def _tell_circles(self, edges: Edges, ordered: OrderedRows, keys: pa.Array, missing: dict[int, list[str]]) -> None:
        """Tell which messages were left out because they go in a circle."""
        if not len(ordered.in_cycle):
            return
        gone = np.flatnonzero((edges.causes >= 0) & (ordered.edges.causes < 0) & (edges.labels >= 0))
        # Nobody misses what was only assumed.
        gone = gone[~self._begin_with(keys, ANSWER)[edges.labels[gone]]]
        for row, label in zip(edges.effects()[gone].tolist(), edges.labels[gone].tolist(), strict=True):
            missing.setdefault(row, []).append(self._plain(keys, label))

    def _without_long_answers(self, edges: Edges, assumed: Flags, missing: dict[int, list[str]]) -> Edges:
        """Leave out answers that cannot be those that were waited for: they took far longer than the wait."""
        since, time = self.columns.longs("line_since")[self.order], self.time
        effects = edges.effects()
        known = assumed & (edges.causes >= 0)
        cause, effect = np.where(known, edges.causes, 0), effects
        known &= self.process[cause] != self.process[effect]
        timed = known & (since[cause] != NO_TIME) & (since[effect] != NO_TIME)
        lasted, waited = (np.where(timed, time[row] - since[row], 0) for row in (cause, effect))
        too_long = timed & (lasted > LONGEST_ANSWER * np.maximum(waited, 0))
        for row in effects[too_long].tolist():
            missing.setdefault(row, []).append(UNKNOWN_ANSWER)
        return Edges(edges.offsets, np.where(too_long, -1, edges.causes), np.where(too_long, -1, edges.labels))

    def _begin_with(self, keys: pa.Array, prefix: str) -> Flags:
        """By key: whether it begins so, as its source wrote it."""
        found: Flags = pc.starts_with(self._plain_keys(keys), prefix).to_numpy(zero_copy_only=False).astype(np.bool_)
        return found

    def _plain_keys(self, keys: pa.Array) -> pa.Array:
        if not self.told_apart:
            return keys
        return pc.replace_substring_regex(keys, rf"^\d*{BETWEEN}", "", max_replacements=1)

    def _shown(self, keys: pa.Array, number: int) -> str:
        """A key as its source wrote it, for people."""
        return f"{self._plain(keys, number)!r:.80}"

    def _plain(self, keys: pa.Array, number: int) -> str:
        """A key as its source wrote it, without the computation that may have been put before it."""
        key = str(keys[int(number)].as_py())
        return key.partition(BETWEEN)[2] if self.told_apart else key


def _missing_keys(columns: ReportColumns, rows: Longs, found: Sequence[list[str] | None]) -> pa.Array:
    """What each row names and nobody reported: what its own column says, and what was found; sorted, each once."""
    if not found and not columns.has("missing"):
        return pa.nulls(len(rows), pa.list_(pa.string()))
    told = columns.text("missing").take(pa.array(rows)).to_pylist()
    both = zip(told, found or [None] * len(rows), strict=True)
    return pa.array(
        [sorted({*([one] if one else []), *(others or [])}) or None for one, others in both], pa.list_(pa.string())
    )


def _edges(columns: ReportColumns, order: Longs, *, told_apart: bool) -> tuple[pa.Array, Longs, Edges]:
    """All message keys, the number of the key each row sends (-1: none), and the edges by the keys each row receives."""
    rows = len(columns.table)
    several = columns.has("receives_more")
    more = columns.lists("receives_more") if several else pa.array([], pa.list_(pa.string()))
    # Numbers are taken into order instead of texts, which are longer.
    received_first = pc.coalesce(columns.text("receives"), started_elsewhere(columns, told_apart=told_apart))
    encoded = pa.concat_arrays([columns.text("sends"), received_first, more.flatten()]).dictionary_encode()
    numbers = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    sent, received = numbers[:rows][order], numbers[rows : 2 * rows][order]
    lengths, rest = np.zeros(len(order), np.int64), numbers[:0]
    if several:
        ordered = pa.ListArray.from_arrays(*_list_parts(more, numbers[2 * rows :])).take(pa.array(order))
        lengths = pc.fill_null(pc.list_value_length(ordered), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        rest = ordered.flatten().to_numpy(zero_copy_only=False)
    first = received >= 0
    offsets = np.concatenate(([0], np.cumsum(first + lengths))).astype(np.int64)
    labels = np.full(int(offsets[-1]), -1, np.int64)
    labels[offsets[:-1][first]] = received[first]
    if len(rest):
        within = np.arange(len(rest)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        labels[np.repeat(offsets[:-1] + first, lengths) + within] = rest
    return encoded.dictionary, sent, Edges(offsets, np.full(len(labels), -1, np.int64), labels)


def _list_parts(lists: pa.ListArray, values: Longs) -> tuple[pa.Array, pa.Array]:
    """Offsets and values for lists of the same lengths, null ones empty, that hold these values instead."""
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32)), pa.array(values)


def _senders(sends: Longs, time: Longs, keys: int) -> tuple[Longs, Longs]:
    """By key: the row that sends it, or -1; and the rows that send a key again, later by this time."""
    rows = np.flatnonzero(sends >= 0)
    sent_by = np.full(keys, -1, np.int64)
    counts = np.bincount(sends[rows], minlength=keys)
    if not len(counts) or counts.max() <= 1:
        sent_by[sends[rows]] = rows
        return sent_by, np.empty(0, np.int64)
    latest_first = rows[np.lexsort((rows, time[rows]))[::-1]]
    sent_by[sends[latest_first]] = latest_first
    return sent_by, rows[sent_by[sends[rows]] != rows]
