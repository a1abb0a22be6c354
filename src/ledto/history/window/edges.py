"""Connect the rows of a window: find the edges from the keys that rows send and receive, and what is missing.

Keys have numbers, which are the labels of edges. A cause is *assumed* if nothing records it: an answer that a wait is
assumed to have ended with, one of two events that sent the same key, or an event at the same time as the sender.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.order import NO_CAUSE, NO_LABEL, NO_TIME, Edges
from ledto.causality.place import NONE, has_label_in
from ledto.events.keys import ANSWER, SPAN, STAMPED, UNKNOWN_ANSWER, UNKNOWN_CALL, UNKNOWN_PLACE
from ledto.history.window.columns import BETWEEN, ReportColumns
from ledto.history.window.span_edges import (
    before_their_start,
    begins_uncalled,
    started_elsewhere,
    with_all_answers,
    with_ties,
    without_answers_after,
    without_local_parents,
)

Longs = NDArray[np.int64]
Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]

Missing = defaultdict[int, list[str]]
"""By row: the keys of causes that nobody reported, or what `ledto.events.schema` has for causes without a key."""

LONGEST_ANSWER = 4
"""An answer that took more than this many times the wait is not the one that was waited for."""


@dataclass(frozen=True, slots=True, eq=False)
class CanonicalRows:
    """The rows of a window in canonical order, with each event once. *Row* means a place in that order."""

    columns: ReportColumns
    order: Longs
    """By row: the row of the table."""
    process: Codes
    time: Longs
    key: Longs
    """By row: the number or wall time by which the rows of its process are sorted."""
    numbered: Flags
    """By process: whether `key` is a number, which only one event has."""
    prefixed: bool
    """Whether processes and keys begin with the number of their computation and `BETWEEN`."""

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

    def plain_keys(self, keys: pa.Array) -> pa.Array:
        """Give the keys as their sources wrote them, without prefix."""
        if not self.prefixed:
            return keys
        return pc.replace_substring_regex(keys, rf"^\d*{BETWEEN}", "", max_replacements=1)

    def plain_key(self, keys: pa.Array, number: int) -> str:
        """Give one key as its source wrote it, without prefix."""
        key = str(keys[int(number)].as_py())
        return key.partition(BETWEEN)[2] if self.prefixed else key

    def begin_with(self, keys: pa.Array, prefix: str) -> Flags:
        """Tell for each key whether it begins with this text, as its source wrote it."""
        begins: Flags = pc.starts_with(self.plain_keys(keys), prefix).to_numpy(zero_copy_only=False).astype(np.bool_)
        return begins


@dataclass(frozen=True, slots=True, eq=False)
class ConnectedRows:
    """The keys and edges of a window's rows."""

    keys: pa.Array
    """By number: the key."""
    sends: Longs
    """By row: the key it sends; `NONE` for nothing."""
    sent_again: Longs
    """Rows that send a key which an earlier row sends, too."""
    edges: Edges
    assumed: Flags
    """By key: whether its causes are only assumed."""
    is_answer: Flags
    """By key: whether it is that of an answer."""
    twice: Flags
    """By key: whether two events send it."""
    group: Longs | None
    """What `CanonicalRows.tied_groups` gives."""


def connect(rows: CanonicalRows, turn: Longs, missing: Missing, *, whole: bool) -> ConnectedRows:
    """Find the edges of the rows, and add to `missing`.

    Of two rows that send one key, the first by `turn` is the cause. `whole`: the window has all rows of the computation, so
    a key that no row sends is missing.
    """
    columns, order, process = rows.columns, rows.order, rows.process
    keys, sends, edges = _edges_by_key(columns, order, prefixed=rows.prefixed)
    is_answer = rows.begin_with(keys, ANSWER)
    sent_by, sent_again = _senders(sends, turn, len(keys))
    if len(keys):
        causes = np.where(edges.labels >= 0, sent_by[edges.labels], NO_CAUSE)
        edges = Edges(edges.offsets, causes, edges.labels)
        edges = without_local_parents(edges, keys, columns, order, process, prefixed=rows.prefixed)
        edges = with_all_answers(edges, sends, sent_again, is_answer)
        edges = without_answers_after(edges, is_answer, process)
    for row in before_their_start(columns, order, process).tolist():
        missing[row].append(UNKNOWN_PLACE)
    answers = has_label_in(is_answer, edges.labels)
    if answers.any():
        edges = _without_long_answers(rows, edges, answers, missing)
    if whole and len(keys):
        edges = _without_unsent(rows, edges, keys, missing)
    for row in begins_uncalled(columns, order, process, edges, rows.begin_with(keys, SPAN)).tolist():
        missing[row].append(UNKNOWN_CALL)
    # It is unknown which of the two sends was received, so the one that stays is only possible.
    twice = _sent_by_two(rows, keys, sends, sent_by, sent_again)
    unsure = np.flatnonzero(has_label_in(twice, edges.labels) & (edges.causes >= 0))
    for row, label in zip(edges.effects()[unsure].tolist(), edges.labels[unsure].tolist(), strict=True):
        missing[row].append(rows.plain_key(keys, label))
    assumed = is_answer | twice
    if (group := rows.tied_groups()) is not None:
        keys, assumed, edges = with_ties(keys, assumed, edges, group, process)
        is_answer = np.append(is_answer, False)
    return ConnectedRows(keys, sends, sent_again, edges, assumed, is_answer, twice, group)


def _edges_by_key(columns: ReportColumns, order: Longs, *, prefixed: bool) -> tuple[pa.Array, Longs, Edges]:
    """Number all keys; return them, the key that each row sends (`NONE`: nothing), and edges for the keys it receives.

    The edges have labels, and no causes yet.
    """
    rows = len(columns.table)
    several = columns.has("receives_more")
    more = columns.lists("receives_more") if several else pa.array([], pa.list_(pa.string()))
    received_first = pc.coalesce(columns.text("receives"), started_elsewhere(columns, prefixed=prefixed))
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


def _senders(sends: Longs, turn: Longs, keys: int) -> tuple[Longs, Longs]:
    """Find the row that sends each key, the first by `turn`, or `NO_CAUSE`; and all rows that send a key again."""
    rows = np.flatnonzero(sends >= 0)
    sent_by = np.full(keys, NO_CAUSE, np.int64)
    counts = np.bincount(sends[rows], minlength=keys)
    if not len(counts) or counts.max() <= 1:
        sent_by[sends[rows]] = rows
        return sent_by, np.empty(0, np.int64)
    latest_first = rows[np.lexsort((rows, turn[rows]))[::-1]]
    sent_by[sends[latest_first]] = latest_first
    return sent_by, rows[sent_by[sends[rows]] != rows]


def _sent_by_two(rows: CanonicalRows, keys: pa.Array, sends: Longs, sent_by: Longs, sent_again: Longs) -> Flags:
    """Mark keys that two events sent; for spans, of different processes. Not answers: a wait may have several."""
    twice = np.zeros(len(keys), np.bool_)
    if not len(sent_again):
        return twice
    is_span, is_answer = rows.begin_with(keys, SPAN), rows.begin_with(keys, ANSWER)
    label = sends[sent_again]
    elsewhere = rows.process[sent_again] != rows.process[sent_by[label]]
    twice[label[~is_answer[label] & (~is_span[label] | elsewhere)]] = True
    return twice


def _without_unsent(rows: CanonicalRows, edges: Edges, keys: pa.Array, missing: Missing) -> Edges:
    """Leave out edges whose cause nobody reported, and add their keys to `missing` (docs/decisions/0023-missing-causes.md).

    Keys of stamps are not added: such an event is no message, and may never have been logged. Nor are answers.
    """
    plain = rows.plain_keys(keys)
    is_message = ~(rows.begin_with(keys, STAMPED) | rows.begin_with(keys, ANSWER))
    unsent = (edges.causes < 0) & (edges.labels >= 0)
    messages = np.flatnonzero(unsent & is_message[edges.labels])
    for row, label in zip(edges.effects()[messages].tolist(), edges.labels[messages].tolist(), strict=True):
        missing[row].append(plain[label].as_py())
    return edges.without(unsent)


def _without_long_answers(rows: CanonicalRows, edges: Edges, answers: Flags, missing: Missing) -> Edges:
    """Leave out answers that took far longer than the wait: another one was waited for. `answers` is by edge."""
    since, time = rows.columns.longs("line_since")[rows.order], rows.time
    effect = edges.effects()
    answered = answers & (edges.causes >= 0)
    cause = np.where(answered, edges.causes, 0)
    timed = answered & (rows.process[cause] != rows.process[effect])
    timed &= (since[cause] != NO_TIME) & (since[effect] != NO_TIME)
    lasted, waited = (np.where(timed, time[row] - since[row], 0) for row in (cause, effect))
    too_long = timed & (lasted > LONGEST_ANSWER * np.maximum(waited, 0))
    for row in effect[too_long].tolist():
        missing[row].append(UNKNOWN_ANSWER)
    return edges.without(too_long)
