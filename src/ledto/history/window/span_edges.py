"""What spans add to the edges of a window, and the order of those that begin or end at the same time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.order import Edges
from ledto.events.schema import ANSWER, END, RECEIVE, SEND, SPAN, START
from ledto.history.window.columns import BETWEEN, ReportColumns

Longs = NDArray[np.int64]
Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]

DEEPEST = 64
"""Spans within spans that begin at one time; what is deeper may stand in any order."""


def edges_told(told: Flags, labels: Longs) -> Flags:
    """By edge: whether its label is one that is told."""
    if not len(told):
        return np.zeros(len(labels), np.bool_)
    found: Flags = (labels >= 0) & told[np.maximum(labels, 0)]
    return found


def without_local_parents(
    edges: Edges, keys: pa.Array, columns: ReportColumns, order: Longs, process: Codes, *, told_apart: bool
) -> Edges:
    """Leave out that a span follows its parent's start, where that is in its own process: lines tell more of it.

    Spans that begin at the same time may stand in any order there. A server is on no line of its client's: it keeps its
    message, unless that stands after it. `told_apart` as for `started_elsewhere`.
    """
    if not columns.has("line_phase"):
        return edges
    begins = pc.fill_null(pc.equal(columns.text("line_phase"), START), False)
    parent = pc.if_else(begins, columns.text("line_parent"), pa.scalar(None, pa.string()))
    if parent.null_count == len(parent):
        return edges
    named = pc.index_in(_start_keys(parent, columns, told_apart=told_apart), value_set=keys)
    label: Longs = named.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)[order]
    effects = edges.effects()
    cause = np.maximum(edges.causes, 0)
    local = (edges.causes >= 0) & (edges.labels == label[effects]) & (process[cause] == process[effects])
    serves = pc.fill_null(pc.equal(columns.text("kind"), RECEIVE), False).to_numpy(zero_copy_only=False)[order]
    local &= ~serves[effects] | (cause > effects)
    return Edges(edges.offsets, np.where(local, -1, edges.causes), np.where(local, -1, edges.labels))


def with_all_answers(edges: Edges, sends: Longs, again: Longs, assumed: Flags) -> Edges:
    """Add the answers to a wait that has several."""
    more = again[assumed[sends[again]]] if len(again) else again
    if not len(more):
        return edges
    effects = edges.effects()
    waits = np.flatnonzero(edges_told(assumed, edges.labels))
    waits = waits[np.argsort(edges.labels[waits], kind="stable")]
    labels = edges.labels[waits]
    at = np.searchsorted(labels, sends[more])
    there = at < len(labels)
    there[there] = labels[at[there]] == sends[more][there]
    added, cause = effects[waits[at[there]]], more[there]
    effects = np.concatenate((effects, added))
    causes = np.concatenate((edges.causes, cause))
    labels = np.concatenate((edges.labels, sends[cause]))
    by_effect = np.argsort(effects, kind="stable")
    offsets = np.concatenate(([0], np.cumsum(np.bincount(effects, minlength=len(edges.offsets) - 1)))).astype(np.int64)
    return Edges(offsets, causes[by_effect], labels[by_effect])


def without_answers_after(edges: Edges, assumed: Flags, process: Codes) -> Edges:
    """Leave out answers that came after the wait for them by the clock of one process: nobody waited for these."""
    effects, cause = edges.effects(), np.maximum(edges.causes, 0)
    after = edges_told(assumed, edges.labels) & (edges.causes > effects) & (process[cause] == process[effects])
    return Edges(edges.offsets, np.where(after, -1, edges.causes), np.where(after, -1, edges.labels))


def with_ties(
    keys: pa.Array, assumed: Flags, edges: Edges, group: Longs, process: Codes
) -> tuple[pa.Array, Flags, Edges]:
    """Assume that events of one process at one time, on several lines, happened in either order.

    `group`, by row: the same number for such events, which stand together. What one of them received from another process
    may have come before the first of them, and what one of them sent may have gone out after the last. The edges that say
    so go by a key of their own, the last one, which is assumed.
    """
    effects = edges.effects()
    first, last = ends_of_groups(group)
    known = (edges.causes >= 0) & (process[np.maximum(edges.causes, 0)] != process[effects])
    cause = np.where(known, last[np.maximum(edges.causes, 0)], -1)
    effect = first[effects]
    more = np.flatnonzero(known & ((cause != edges.causes) | (effect != effects)))
    keys = pa.concat_arrays([keys.cast(pa.string()), pa.array([ANSWER], pa.string())])
    assumed = np.append(assumed, True)
    all_effects = np.concatenate((effects, effect[more]))
    causes = np.concatenate((edges.causes, cause[more]))
    labels = np.concatenate((edges.labels, np.full(len(more), len(keys) - 1)))
    by_effect = np.argsort(all_effects, kind="stable")
    offsets = np.concatenate(([0], np.cumsum(np.bincount(all_effects, minlength=len(group))))).astype(np.int64)
    return keys, assumed, Edges(offsets, causes[by_effect], labels[by_effect])


def ends_of_groups(group: Longs) -> tuple[Longs, Longs]:
    """By row: the first and the last row of its group, whose rows stand together."""
    begins = np.concatenate(([True], np.diff(group) != 0))
    firsts = np.flatnonzero(begins)
    number = np.cumsum(begins) - 1
    lasts = np.append(firsts[1:], len(group)) - 1
    return firsts[number], lasts[number]


def started_elsewhere(columns: ReportColumns, *, told_apart: bool) -> pa.Array:
    """By row that belongs to a span which no row of its process starts here: the key of its start.

    `told_apart`: keys begin with the number of their computation and `BETWEEN`.
    """
    none = pa.nulls(len(columns.table), pa.string())
    if not columns.has("line_parent"):
        return none
    line, phase = columns.text("line"), columns.text("line_phase")
    belongs = pc.fill_null(pc.equal(line, columns.text("line_parent")), False)
    if not pc.any(belongs).as_py():
        return none
    whose = pc.binary_join_element_wise(line, columns.text("process"), BETWEEN)
    started = whose.filter(pc.fill_null(pc.equal(phase, START), False))
    belongs = pc.and_(belongs, pc.invert(pc.is_in(whose, value_set=pc.unique(started))))
    return pc.if_else(belongs, _start_keys(line, columns, told_apart=told_apart), none)


def _start_keys(lines: pa.Array, columns: ReportColumns, *, told_apart: bool) -> pa.Array:
    """By row: the key that the start of this span sends."""
    prefix = pa.scalar(SPAN)
    if told_apart:
        computation = pc.replace_substring_regex(columns.text("process"), f"(?s){BETWEEN}.*", "")
        prefix = pc.binary_join_element_wise(computation, SPAN, BETWEEN)
    return pc.binary_join_element_wise(prefix, lines, "")


@dataclass(frozen=True, slots=True, eq=False)
class SpanEnds:
    """What a window has of the spans that begin or end in it, by row."""

    closed_start: Flags
    """It starts a span whose end is a member of the segment, too."""
    open_end: Flags
    """It ends a span whose start is not among the rows of the window."""
    closed_end: Flags
    """It ends a span of the segment that is no client: what it waited for cannot have ended before the segment."""


def span_ends(columns: ReportColumns, order: Longs, process: Codes, member: Flags) -> SpanEnds:
    """Find starts and ends of spans that have the other one in the window, or lack it."""
    if not columns.has("line_phase"):
        return SpanEnds(*(np.zeros(len(order), np.bool_) for _ in range(3)))
    taken = pa.array(order)
    phase, line = columns.text("line_phase").take(taken), columns.encoded("line").take(taken)
    codes = line.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = codes * (int(process.max(initial=0)) + 1) + process
    begins, ends = (
        pc.fill_null(pc.equal(phase, name), False).to_numpy(zero_copy_only=False).astype(np.bool_)
        for name in (START, END)
    )
    begun = np.isin(pairs, pairs[begins & member])
    calls = pc.fill_null(pc.equal(columns.text("kind").take(taken), RECEIVE), False).to_numpy(zero_copy_only=False)
    return SpanEnds(
        begins & member & np.isin(pairs, pairs[ends & member]), ends & member & ~begun, ends & member & begun & ~calls
    )


def before_their_start(columns: ReportColumns, order: Longs, process: Codes) -> Longs:
    """Records of spans that stand before the start of their span in their process: clocks of logs may be coarser."""
    if not columns.has("line_phase") or not columns.has("line_parent"):
        return np.empty(0, np.int64)
    taken = pa.array(order)
    starts = _flags(pc.equal(columns.text("line_phase").take(taken), START))
    line = columns.encoded("line").take(taken).indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    pairs = np.where(line >= 0, line * (int(process.max(initial=0)) + 1) + process, -1)
    started, first = np.unique(pairs[starts], return_index=True)
    if not len(started):
        return np.empty(0, np.int64)
    at = np.minimum(np.searchsorted(started, pairs), len(started) - 1)
    early = (pairs >= 0) & (started[at] == pairs) & (np.arange(len(order)) < np.flatnonzero(starts)[first][at])
    return np.flatnonzero(early & _flags(pc.equal(columns.text("line"), columns.text("line_parent")).take(taken)))


def _flags(values: pa.Array) -> Flags:
    found: Flags = pc.fill_null(values, False).to_numpy(zero_copy_only=False).astype(np.bool_)
    return found


def begins_uncalled(columns: ReportColumns, order: Longs, process: Codes, edges: Edges, spans: Flags) -> Longs:
    """Rows that start spans of another process than what started them, which is no call or message by itself.

    `spans` tells, by label of an edge, whether that is the key of a span.
    """
    if not columns.has("line_phase"):
        return np.empty(0, np.int64)
    taken = pa.array(order)
    starts = _flags(pc.equal(columns.text("line_phase").take(taken), START))
    calls = _flags(pc.equal(columns.text("kind").take(taken), SEND))
    effects, cause = edges.effects(), np.maximum(edges.causes, 0)
    found = (edges.causes >= 0) & starts[effects] & (starts & ~calls)[cause] & (process[cause] != process[effects])
    found &= edges_told(spans, edges.labels)
    return np.unique(effects[found])


def homes_of_spans(columns: ReportColumns, order: Longs, process: Codes) -> tuple[Codes, Codes]:
    """By row: its process if it starts or ends a span, else -1; and the same without starts of clients and producers."""
    if not columns.has("line_phase"):
        return np.full(len(order), -1, np.int32), np.full(len(order), -1, np.int32)
    taken = pa.array(order)
    phase = columns.text("line_phase").take(taken)
    calls = _flags(pc.and_(pc.equal(phase, START), pc.equal(columns.text("kind").take(taken), SEND)))
    homes = np.where(_flags(pc.is_valid(phase)), process, -1).astype(np.int32)
    return homes, np.where(calls, -1, homes).astype(np.int32)


def rank_ties(columns: ReportColumns, rows: Longs) -> Longs:
    """Rank rows that share process and time: starts of outer spans first, their ends last, all else in between."""
    if not columns.has("line_phase"):
        return np.zeros(len(rows), np.int64)
    taken = pa.array(rows)
    phase = columns.text("line_phase").take(taken)
    begins, ends = (
        pc.fill_null(pc.equal(phase, name), False).to_numpy(zero_copy_only=False).astype(np.bool_)
        for name in (START, END)
    )
    lines, parents = columns.text("line").take(taken), columns.text("line_parent").take(taken)
    # The end of a span names the one that started it in its answer.
    answered = pc.replace_substring_regex(
        columns.text("sends").take(taken), f"(?s)^([0-9]*{BETWEEN})?{ANSWER}(.*)$", r"\2"
    )
    parents = pc.if_else(pa.array(ends), answered, parents)
    names = pa.concat_arrays([lines, parents]).dictionary_encode()
    codes: Longs = names.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    line, parent = codes[: len(rows)], codes[len(rows) :]
    parent_of = np.full(len(names.dictionary) + 1, -1, np.int64)
    parent_of[line[begins | ends]] = parent[begins | ends]
    depth, outer = np.zeros(len(rows), np.int64), parent_of[line]
    for _ in range(DEEPEST):
        depth += outer >= 0
        outer = parent_of[outer]
    return np.where(begins, depth - DEEPEST - 1, np.where(ends, DEEPEST + 1 - depth, 0))
