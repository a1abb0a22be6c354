"""Put rows in causal order, from the order within processes and from messages. Leave out messages that form cycles.

Rows are *canonical*: process by process, each process's rows in its own order. The causal time of an event is the largest
wall time in its past, itself included (the first part of a hybrid logical clock). Its level counts the steps since
that time last grew. Sorted by ``(causal time, level, row)``, every cause comes before its effects. This order depends only
on the computation: not on where the rows were cut, nor on how they arrived.

Nothing precedes itself, so a cycle is a contradiction in the input. Tarjan's algorithm finds the cycles among the rows that
could not be placed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledto.kernels import kernel

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

NO_TIME = int(np.iinfo(np.int64).min)
"""In place of a wall time, for an event that has none: its causal time is that of its past."""

NO_CAUSE = -1
"""In place of a row: the cause is not among the rows, or there is none."""
NO_LABEL = -1
"""In place of a label: nothing is known of the cause. With `NO_CAUSE`, the edge has been left out."""
_LAST_OF_FIRST_PROCESS = -2


@dataclass(frozen=True, slots=True)
class Edges:
    """Causes of rows, besides the row before in the same process. Row i has the edges ``offsets[i]:offsets[i + 1]``."""

    offsets: Longs
    causes: Longs
    """By edge: the row that is the cause, or `NO_CAUSE`."""
    labels: Longs
    """By edge: the number of the message's key, from 0; or what `last_of` gives; or `NO_LABEL`."""

    def effects(self) -> Longs:
        """Give the row of each edge, whose cause it names."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def without(self, gone: Flags) -> Edges:
        """Leave out some edges: they stay in their places, with `NO_CAUSE` and `NO_LABEL`."""
        return Edges(self.offsets, np.where(gone, NO_CAUSE, self.causes), np.where(gone, NO_LABEL, self.labels))


def last_of(process: int) -> int:
    """Make the label that means: the last event of this process before the rows. Keys are 0 or more, so it is below -1."""
    return _LAST_OF_FIRST_PROCESS - process


def process_of_last(label: Any) -> Any:
    """Give the process that `last_of` made a label of; for a number or an array of such labels."""
    return _LAST_OF_FIRST_PROCESS - label


@dataclass(frozen=True, slots=True)
class CausalTimes:
    """The place of each canonical row in causal order."""

    causal_time: Longs
    level: Longs

    def order(self, rows: Longs) -> Longs:
        """Sort `rows`, which ascend, so that causes come before effects."""
        by_time = rows[np.argsort(self.causal_time[rows], kind="stable")]
        _order_ties(by_time, self.causal_time, self.level)
        return by_time


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """Rows in causal order."""

    times: CausalTimes
    edges: Edges
    """The edges that were used; others are left out."""
    in_cycle: Longs
    """Rows that received a message in a cycle: its send follows the receive. These edges are left out."""
    refuted: Longs = field(default_factory=lambda: np.empty(0, np.int64))
    """Numbers of assumed edges that were left out, because the cause follows the effect."""


def order_rows(starts: Longs, time: Longs, edges: Edges, assumed: Flags | None = None) -> OrderedRows:
    """Compute the causal times of all rows; process p has the rows ``starts[p]:starts[p + 1]``.

    A message from a receive's own future is wrong, but nothing shows which message of a cycle that is. So all messages of a
    cycle are left out, and their receives are in `OrderedRows.in_cycle`. Within one process it is clear: a message from a
    later row is wrong, and one from an earlier row is right. `assumed`, by edge, marks edges that are only assumed: in a
    cycle, these are left out first.
    """
    if assumed is not None and assumed.any():
        edges, refuted = _without_refuted(starts, time, edges, assumed)
        ordered = order_rows(starts, time, edges)
        return OrderedRows(ordered.times, ordered.edges, ordered.in_cycle, refuted)
    causal_time, level = np.empty(len(time), np.int64), np.empty(len(time), np.int64)
    done = np.zeros(len(time), np.bool_)
    in_cycle = np.empty(0, np.int64)
    # Messages to an earlier row of the same process are surely wrong. Without them, other messages may be in no cycle.
    for find_wrong in (_backwards, _in_cycles):
        if not _place(starts, time, edges.offsets, edges.causes, causal_time, level, done):
            break
        wrong = find_wrong(starts, edges, done)
        in_cycle = np.union1d(in_cycle, edges.effects()[wrong])
        edges = edges.without(wrong)
        done[:] = False
    else:
        _place(starts, time, edges.offsets, edges.causes, causal_time, level, done)
    return OrderedRows(CausalTimes(causal_time, level), edges, in_cycle)


def _without_refuted(starts: Longs, time: Longs, edges: Edges, assumed: Flags) -> tuple[Edges, Longs]:
    """Leave out assumed edges that cannot be true; return the edges, and the numbers of those left out.

    Each assumed edge is judged alone, by the certain edges: it is refuted if its effect leads to its cause. So the result
    does not depend on which rows are in the window. Assumed edges that contradict only each other are all left out.
    """
    causal_time, level = np.empty(len(time), np.int64), np.empty(len(time), np.int64)
    done = np.zeros(len(time), np.bool_)
    if not _place(starts, time, edges.offsets, edges.causes, causal_time, level, done):
        return edges, np.empty(0, np.int64)
    without_assumed = order_rows(starts, time, edges.without(assumed))
    rank = np.empty(len(time), np.int64)
    rank[without_assumed.times.order(np.arange(len(time)))] = np.arange(len(time))
    effect = edges.effects()
    asked = np.flatnonzero(assumed & (edges.causes >= 0) & ~done[effect])
    certain = without_assumed.edges
    refuted = np.zeros(len(effect), np.bool_)
    refuted[asked] = _leads_to(starts, certain.offsets, certain.causes, rank, effect[asked], edges.causes[asked])
    remaining = edges.without(refuted)
    done[:] = False
    if _place(starts, time, remaining.offsets, remaining.causes, causal_time, level, done):
        refuted |= assumed & _in_cycles(starts, remaining, done)
        remaining = edges.without(refuted)
    return remaining, np.flatnonzero(refuted)


@kernel("boolean[::1](int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def _leads_to(starts: Longs, offsets: Longs, causes: Longs, rank: Longs, origin: Longs, target: Longs) -> Flags:
    """Tell for each pair whether the origin leads to the target. `rank`: rows' places in an order that keeps all edges."""
    leads = np.zeros(len(origin), np.bool_)
    is_first = np.zeros(len(rank) + 1, np.bool_)
    is_first[starts] = True
    seen = np.full(len(rank), -1, np.int64)
    waiting = np.empty(len(rank) + 1, np.int64)
    for pair in range(len(origin)):
        goal = origin[pair]
        waiting[0] = target[pair]
        seen[target[pair]] = pair
        count = 1
        while count and not leads[pair]:
            count -= 1
            row = waiting[count]
            if row == goal:
                leads[pair] = True
                break
            first = offsets[row]
            # The row before in the process comes first, like one more edge.
            for at in range(first - 1, offsets[row + 1]):
                cause = causes[at] if at >= first else NO_CAUSE if is_first[row] else row - 1
                if cause >= 0 and rank[cause] >= rank[goal] and seen[cause] != pair:
                    seen[cause] = pair
                    waiting[count] = cause
                    count += 1
    return leads


def _in_cycles(starts: Longs, edges: Edges, done: Flags) -> Flags:
    """Mark edges of cycles among the rows that are not done, but not those that only repeat a process's own order."""
    component = _strongly_connected(starts, edges.offsets, edges.causes, done)
    effect = edges.effects()
    has_cause = edges.causes >= 0
    inside = np.zeros(len(effect), np.bool_)
    inside[has_cause] = component[effect[has_cause]] == component[edges.causes[has_cause]]
    forwards = (edges.causes < effect) & _in_one_process(starts, edges)
    return inside & (component[effect] >= 0) & ~forwards


def _backwards(starts: Longs, edges: Edges, done: Flags) -> Flags:
    """Mark edges whose cause is the effect itself or a later row of the same process. `done` is not used."""
    backwards: Flags = (edges.causes >= edges.effects()) & _in_one_process(starts, edges)
    return backwards


def _in_one_process(starts: Longs, edges: Edges) -> Flags:
    """Mark edges whose cause and effect are of one process."""
    process = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    same: Flags = (edges.causes >= 0) & (process[np.maximum(edges.causes, 0)] == process[edges.effects()])
    return same


@kernel("int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], boolean[::1])")
def _place(
    starts: Longs, time: Longs, offsets: Longs, causes: Longs, causal_time: Longs, level: Longs, done: Flags
) -> int:
    """Set causal time and level of each row once its causes have theirs; return the number of rows that never got any.

    Each process runs forward until it waits for a cause. `done`, all false at first, marks the rows that got theirs.
    """
    processes = len(starts) - 1
    cursor = starts[:-1].copy()
    ready = np.empty(processes, np.int64)
    for process in range(processes):
        ready[process] = processes - 1 - process
    count = processes
    first_waiter = np.full(len(time), -1, np.int32)
    next_waiter = np.full(processes, -1, np.int32)
    while count:
        count -= 1
        process = ready[count]
        row = cursor[process]
        while row < starts[process + 1]:
            high, steps = NO_TIME, -1
            if row > starts[process]:
                high, steps = causal_time[row - 1], level[row - 1]
            missing = NO_CAUSE
            for at in range(offsets[row], offsets[row + 1]):
                cause = causes[at]
                if cause < 0:
                    continue
                if not done[cause]:
                    missing = cause
                    break
                if causal_time[cause] > high:
                    high, steps = causal_time[cause], level[cause]
                elif causal_time[cause] == high:
                    steps = max(steps, level[cause])
            if missing >= 0:
                next_waiter[process] = first_waiter[missing]
                first_waiter[missing] = process
                break
            if time[row] > high:
                causal_time[row], level[row] = time[row], 0
            else:
                causal_time[row], level[row] = high, steps + 1
            done[row] = True
            waiter = first_waiter[row]
            while waiter >= 0:
                ready[count] = waiter
                count += 1
                waiter = next_waiter[waiter]
            row += 1
        cursor[process] = row
    waiting = 0
    for process in range(processes):
        waiting += starts[process + 1] - cursor[process]
    return waiting


@kernel("void(int64[::1], int64[::1], int64[::1])")
def _order_ties(rows: Longs, causal_time: Longs, level: Longs) -> None:
    """Sort rows of equal causal time by level, in place and stably."""
    start = 0
    while start < len(rows):
        stop = start + 1
        ascending = True
        while stop < len(rows) and causal_time[rows[stop]] == causal_time[rows[start]]:
            ascending &= level[rows[stop - 1]] <= level[rows[stop]]
            stop += 1
        if not ascending:
            run = rows[start:stop].copy()
            rows[start:stop] = run[np.argsort(level[run], kind="mergesort")]
        start = stop


@kernel("int64[::1](int64[::1], int64[::1], int64[::1], boolean[::1])")
def _strongly_connected(starts: Longs, offsets: Longs, causes: Longs, placed: Flags) -> Longs:
    """Number the strongly connected components of the rows that are not placed; -1 for placed rows.

    Tarjan's algorithm without recursion, on the graph from each row to its causes and to the row before it.
    """
    rows = len(placed)
    before = np.full(rows, -1, np.int64)
    for process in range(len(starts) - 1):
        for row in range(starts[process] + 1, starts[process + 1]):
            before[row] = row - 1
    component = np.full(rows, -1, np.int64)
    number = np.full(rows, -1, np.int64)
    low = np.zeros(rows, np.int64)
    path = np.empty(rows, np.int64)
    next_edge = np.zeros(rows, np.int64)
    pending = np.empty(rows, np.int64)
    waiting = 0
    numbered = 0
    components = 0
    for root in range(rows):
        if placed[root] or number[root] >= 0:
            continue
        depth = 1
        path[0] = root
        number[root] = low[root] = numbered
        numbered += 1
        pending[waiting] = root
        waiting += 1
        next_edge[root] = offsets[root] - 1
        while depth:
            row = path[depth - 1]
            if next_edge[row] < offsets[row + 1]:
                at = next_edge[row]
                next_edge[row] += 1
                cause = before[row] if at < offsets[row] else causes[at]
                if cause < 0 or placed[cause]:
                    continue
                if number[cause] < 0:
                    number[cause] = low[cause] = numbered
                    numbered += 1
                    pending[waiting] = cause
                    waiting += 1
                    next_edge[cause] = offsets[cause] - 1
                    path[depth] = cause
                    depth += 1
                elif component[cause] < 0:
                    low[row] = min(low[row], number[cause])
                continue
            depth -= 1
            if depth:
                low[path[depth - 1]] = min(low[path[depth - 1]], low[row])
            if low[row] == number[row]:
                while True:
                    waiting -= 1
                    member = pending[waiting]
                    component[member] = components
                    if member == row:
                        break
                components += 1
    return component
