"""Edges that spans add to a window or take from it, and the order of spans that begin or end at one time.

Labels of edges are numbers of keys, as in `ledto.causality.order.Edges`. `prefixed`, in several functions: keys begin with
the number of their computation and `BETWEEN`, because several computations are solved as one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.order import NO_CAUSE, Edges
from ledto.causality.place import has_label_in
from ledto.events.keys import ANSWER, SPAN
from ledto.events.schema import END, RECEIVE, SEND, START
from ledto.history.window.columns import BETWEEN, NO_CODE, ReportColumns

Longs = NDArray[np.int64]
Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]

DEEPEST = 64
"""How deep spans within spans are put in order if they begin at one time. Deeper ones may come in any order."""


def without_local_parents(
    edges: Edges, keys: pa.Array, columns: ReportColumns, order: Longs, process: Codes, *, prefixed: bool
) -> Edges:
    """Leave out edges from a parent's start to a span of the same process: lines say more about that.

    Within a process, spans that begin at one time may come in any order, so such an edge could be wrong. A server is on no
    line of its client, so it keeps its edge, unless the client's start comes after it.
    """
    if not columns.has("line_phase"):
        return edges
    begins = pc.fill_null(pc.equal(columns.text("line_phase"), START), False)
    parent = pc.if_else(begins, columns.text("line_parent"), pa.scalar(None, pa.string()))
    if parent.null_count == len(parent):
        return edges
    parent_key = pc.index_in(_start_keys(parent, columns, prefixed=prefixed), value_set=keys)
    label: Longs = parent_key.fill_null(NO_CODE).to_numpy(zero_copy_only=False).astype(np.int64)[order]
    effects = edges.effects()
    cause = np.maximum(edges.causes, 0)
    local = (edges.causes >= 0) & (edges.labels == label[effects]) & (process[cause] == process[effects])
    serves = _flags(pc.equal(columns.text("kind"), RECEIVE))[order]
    local &= ~serves[effects] | (cause > effects)
    return edges.without(local)


def with_all_answers(edges: Edges, sends: Longs, sent_again: Longs, assumed: Flags) -> Edges:
    """Add edges for the further answers to waits that have several.

    `sent_again` are rows that send a key which another row sends; `sends`, by row, is the key; `assumed`, by key, marks
    answers.
    """
    answers = sent_again[assumed[sends[sent_again]]] if len(sent_again) else sent_again
    if not len(answers):
        return edges
    effects = edges.effects()
    waits = np.flatnonzero(has_label_in(assumed, edges.labels))
    waits = waits[np.argsort(edges.labels[waits], kind="stable")]
    labels = edges.labels[waits]
    at = np.searchsorted(labels, sends[answers])
    awaited = at < len(labels)
    awaited[awaited] = labels[at[awaited]] == sends[answers][awaited]
    answers = answers[awaited]
    return _with_edges(edges, effects[waits[at[awaited]]], answers, sends[answers])


def _with_edges(edges: Edges, effects: Longs, causes: Longs, labels: Longs) -> Edges:
    """Add edges, each after those that its effect has."""
    effects = np.concatenate((edges.effects(), effects))
    causes, labels = np.concatenate((edges.causes, causes)), np.concatenate((edges.labels, labels))
    by_effect = np.argsort(effects, kind="stable")
    offsets = np.concatenate(([0], np.cumsum(np.bincount(effects, minlength=len(edges.offsets) - 1)))).astype(np.int64)
    return Edges(offsets, causes[by_effect], labels[by_effect])


def without_answers_after(edges: Edges, assumed: Flags, process: Codes) -> Edges:
    """Leave out answers of the same process that came after the wait had ended: they were not waited for."""
    effects, cause = edges.effects(), np.maximum(edges.causes, 0)
    after = has_label_in(assumed, edges.labels) & (edges.causes > effects) & (process[cause] == process[effects])
    return edges.without(after)


def with_ties(
    keys: pa.Array, assumed: Flags, edges: Edges, group: Longs, process: Codes
) -> tuple[pa.Array, Flags, Edges]:
    """Assume that events of one process at one time, on several lines, happened in either order.

    `group`, by row: such events are consecutive and have the same number. A message that one of them received may have come
    before the first of them, and one that they sent may have gone out after the last. Edges for that get one new key, the
    last, which is assumed. Returns the keys, which of them are assumed, and the edges.
    """
    effects = edges.effects()
    first, last = ends_of_groups(group)
    crosses = (edges.causes >= 0) & (process[np.maximum(edges.causes, 0)] != process[effects])
    cause = np.where(crosses, last[np.maximum(edges.causes, 0)], NO_CAUSE)
    effect = first[effects]
    tied = np.flatnonzero(crosses & ((cause != edges.causes) | (effect != effects)))
    keys = pa.concat_arrays([keys.cast(pa.string()), pa.array([ANSWER], pa.string())])
    edges = _with_edges(edges, effect[tied], cause[tied], np.full(len(tied), len(keys) - 1))
    return keys, np.append(assumed, True), edges


def ends_of_groups(group: Longs) -> tuple[Longs, Longs]:
    """Find for each row the first and the last row of its group; the rows of a group are consecutive."""
    begins = np.concatenate(([True], np.diff(group) != 0))
    firsts = np.flatnonzero(begins)
    number = np.cumsum(begins) - 1
    lasts = np.append(firsts[1:], len(group)) - 1
    return firsts[number], lasts[number]


def started_elsewhere(columns: ReportColumns, *, prefixed: bool) -> pa.Array:
    """Give rows of spans that no row of their process in the window starts the key of the start; null for other rows."""
    none = pa.nulls(len(columns.table), pa.string())
    if not columns.has("line_parent"):
        return none
    line, phase = columns.text("line"), columns.text("line_phase")
    # A row that belongs to a span names its own line as the parent.
    belongs = pc.fill_null(pc.equal(line, columns.text("line_parent")), False)
    if not pc.any(belongs).as_py():
        return none
    line_of_process = pc.binary_join_element_wise(line, columns.text("process"), BETWEEN)
    started = line_of_process.filter(pc.fill_null(pc.equal(phase, START), False))
    belongs = pc.and_(belongs, pc.invert(pc.is_in(line_of_process, value_set=pc.unique(started))))
    return pc.if_else(belongs, _start_keys(line, columns, prefixed=prefixed), none)


def _start_keys(lines: pa.Array, columns: ReportColumns, *, prefixed: bool) -> pa.Array:
    """Make for each row the key that the start of a span sends; `lines` are the spans."""
    prefix = pa.scalar(SPAN)
    if prefixed:
        computation = pc.replace_substring_regex(columns.text("process"), f"(?s){BETWEEN}.*", "")
        prefix = pc.binary_join_element_wise(computation, SPAN, BETWEEN)
    return pc.binary_join_element_wise(prefix, lines, "")


@dataclass(frozen=True, slots=True, eq=False)
class SpanEnds:
    """What the segment has of the spans that begin or end in it, by row."""

    closed_start: Flags
    """The row starts a span, and the segment has the span's end."""
    open_end: Flags
    """The row ends a span, and the segment does not have the span's start."""
    closed_end: Flags
    """The row ends a span that is not a client's, and the segment has the span's start. So nothing that it waited for ended
    before the segment."""


def span_ends(columns: ReportColumns, order: Longs, process: Codes, member: Flags) -> SpanEnds:
    """Find out for each start and end of a span whether the segment, all rows of `member`, has the other one."""
    if not columns.has("line_phase"):
        return SpanEnds(*(np.zeros(len(order), np.bool_) for _ in range(3)))
    chosen = pa.array(order)
    phase, spans = columns.text("line_phase").take(chosen), _spans(columns, order, process)
    begins, ends = (_flags(pc.equal(phase, name)) & member for name in (START, END))
    begun = np.isin(spans, spans[begins])
    calls = _flags(pc.equal(columns.text("kind").take(chosen), RECEIVE))
    return SpanEnds(begins & np.isin(spans, spans[ends]), ends & ~begun, ends & begun & ~calls)


def _spans(columns: ReportColumns, order: Longs, process: Codes) -> Longs:
    """Number the lines of processes: rows have the same number iff both are the same; below 0 for rows on no line."""
    encoded = columns.encoded("line").take(pa.array(order)).indices
    line: Longs = encoded.fill_null(NO_CODE).to_numpy(zero_copy_only=False).astype(np.int64)
    return line * (int(process.max(initial=0)) + 1) + process


def before_their_start(columns: ReportColumns, order: Longs, process: Codes) -> Longs:
    """Find records of spans that come before the start of their span in its process: logs may have coarser clocks."""
    if not columns.has("line_phase") or not columns.has("line_parent"):
        return np.empty(0, np.int64)
    chosen = pa.array(order)
    starts = _flags(pc.equal(columns.text("line_phase").take(chosen), START))
    spans = _spans(columns, order, process)
    started, first = np.unique(spans[starts], return_index=True)
    if not len(started):
        return np.empty(0, np.int64)
    at = np.minimum(np.searchsorted(started, spans), len(started) - 1)
    early = (spans >= 0) & (started[at] == spans) & (np.arange(len(order)) < np.flatnonzero(starts)[first][at])
    return np.flatnonzero(early & _flags(pc.equal(columns.text("line"), columns.text("line_parent")).take(chosen)))


def _flags(values: pa.Array) -> Flags:
    """Convert truth values to an array; null is false."""
    flags: Flags = pc.fill_null(values, False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return flags


def begins_uncalled(columns: ReportColumns, order: Longs, process: Codes, edges: Edges, spans: Flags) -> Longs:
    """Find rows that start a span whose parent is in another process and is not a call or message.

    `spans`, by key, marks the keys of spans.
    """
    if not columns.has("line_phase"):
        return np.empty(0, np.int64)
    chosen = pa.array(order)
    starts = _flags(pc.equal(columns.text("line_phase").take(chosen), START))
    calls = _flags(pc.equal(columns.text("kind").take(chosen), SEND))
    effects, cause = edges.effects(), np.maximum(edges.causes, 0)
    uncalled = (edges.causes >= 0) & starts[effects] & (starts & ~calls)[cause] & (process[cause] != process[effects])
    uncalled &= has_label_in(spans, edges.labels)
    return np.unique(effects[uncalled])


def homes_of_spans(columns: ReportColumns, order: Longs, process: Codes) -> tuple[Codes, Codes]:
    """Give the process of each row that starts or ends a span; and the same without starts of clients and producers.

    `NO_CODE` for all other rows.
    """
    if not columns.has("line_phase"):
        return np.full(len(order), NO_CODE, np.int32), np.full(len(order), NO_CODE, np.int32)
    chosen = pa.array(order)
    phase = columns.text("line_phase").take(chosen)
    calls = _flags(pc.and_(pc.equal(phase, START), pc.equal(columns.text("kind").take(chosen), SEND)))
    homes = np.where(_flags(pc.is_valid(phase)), process, NO_CODE).astype(np.int32)
    return homes, np.where(calls, NO_CODE, homes).astype(np.int32)


def rank_ties(columns: ReportColumns, rows: Longs) -> Longs:
    """Rank rows that share process and time: starts of outer spans first, their ends last, all else in between."""
    if not columns.has("line_phase"):
        return np.zeros(len(rows), np.int64)
    chosen = pa.array(rows)
    phase = columns.text("line_phase").take(chosen)
    begins, ends = (_flags(pc.equal(phase, name)) for name in (START, END))
    lines, parents = columns.text("line").take(chosen), columns.text("line_parent").take(chosen)
    # The end of a span names its parent in the key of its answer.
    answered = pc.replace_substring_regex(
        columns.text("sends").take(chosen), f"(?s)^([0-9]*{BETWEEN})?{ANSWER}(.*)$", r"\2"
    )
    parents = pc.if_else(pa.array(ends), answered, parents)
    names = pa.concat_arrays([lines, parents]).dictionary_encode()
    codes: Longs = names.indices.fill_null(NO_CODE).to_numpy(zero_copy_only=False).astype(np.int64)
    line, parent = codes[: len(rows)], codes[len(rows) :]
    # One more than there are names: `NO_CODE` finds the last, which has no parent.
    parent_of = np.full(len(names.dictionary) + 1, NO_CODE, np.int64)
    parent_of[line[begins | ends]] = parent[begins | ends]
    depth, outer = np.zeros(len(rows), np.int64), parent_of[line]
    for _ in range(DEEPEST):
        depth += outer >= 0
        outer = parent_of[outer]
    return np.where(begins, depth - DEEPEST - 1, np.where(ends, DEEPEST + 1 - depth, 0))
