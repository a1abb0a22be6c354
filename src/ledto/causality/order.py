"""Causal time and a linear extension of happened-before, from process order and messages; cycles are found, not followed.

Rows are *canonical*: process by process, each process's rows in its own order. The causal time of an event is the largest
wall time in its causal past, itself included (the first part of a hybrid logical clock); its level counts the steps of
a chain along which that time does not grow. Sorted by ``(causal time, level, row)`` every cause comes before its
effects, and the order depends on nothing but the computation: not on where the rows were cut or how they came.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ledto.kernels import kernel

Longs = NDArray[np.int64]


@kernel("int64[::1](int64[::1], int64[::1], int64[::1], boolean[::1])")
def strongly_connected(starts: Longs, offsets: Longs, causes: Longs, placed: NDArray[np.bool_]) -> Longs:
    """By row: the number of its strongly connected component among the rows not placed; -1 for placed rows.

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


Flags = NDArray[np.bool_]

NO_TIME = int(np.iinfo(np.int64).min)
"""In place of a wall time, for an event that has none: it takes the causal time of what precedes it."""


@dataclass(frozen=True, slots=True)
class Edges:
    """Causes of rows other than the row before in their process: those of row i are at ``offsets[i]:offsets[i + 1]``."""

    offsets: Longs
    causes: Longs
    """The row that is the cause; -1 when it is not among the rows."""
    labels: Longs
    """What the cause goes by outside these rows: the number of its message key, or `last_of` its process."""

    def effects(self) -> Longs:
        """By edge: the row whose cause it gives."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


def last_of(process: int) -> int:
    """The label of a process's last event before these rows."""
    return -2 - process


@dataclass(frozen=True, slots=True)
class CausalTimes:
    """Where each canonical row stands in causal order."""

    causal_time: Longs
    level: Longs

    def order(self, rows: Longs) -> Longs:
        """`rows`, which ascend, as a linear extension of happened-before."""
        by_time = rows[np.argsort(self.causal_time[rows], kind="stable")]
        _order_ties(by_time, self.causal_time, self.level)
        return by_time


@dataclass(frozen=True, slots=True)
class OrderedRows:
    """The times of all rows, the edges they come from, and the rows that no order could place."""

    times: CausalTimes
    edges: Edges
    in_cycle: Longs
    """Rows that receive a message which is also among their effects; the edges that say so are not in `edges`."""
    doubted: Longs = field(default_factory=lambda: np.empty(0, np.int64))
    """Numbers of assumed edges whose cause is also among the effects: what was assumed is not true."""


def order_rows(starts: Longs, time: Longs, edges: Edges, assumed: Flags | None = None) -> OrderedRows:
    """Times of the rows ``starts[p]:starts[p + 1]`` of each process p.

    A receive whose message comes from its own future cannot be right, and nothing tells which receive of a cycle is the
    wrong one: the message edges of every cycle are left out, and their receives are named. A message from later in the same
    process is wrong by itself, and one from earlier is right. `assumed`, by edge, tells which
    are only assumed: where a cycle has such edges, these are left out first.
    """
    if assumed is not None and assumed.any():
        edges, doubted = _without_doubtful(starts, time, edges, assumed)
        found = order_rows(starts, time, edges)
        return OrderedRows(found.times, found.edges, found.in_cycle, doubted)
    causal_time, level = np.empty(len(time), np.int64), np.empty(len(time), np.int64)
    done = np.zeros(len(time), np.bool_)
    in_cycle = np.empty(0, np.int64)
    # A message to what its own process did before is wrong by itself: it goes first, and others in cycles with it stay.
    for wrong in (_backwards, _in_cycles):
        if not _place(starts, time, edges.offsets, edges.causes, causal_time, level, done):
            break
        inside = wrong(starts, edges, done)
        in_cycle = np.union1d(in_cycle, edges.effects()[inside])
        edges = _without(edges, inside)
        done[:] = False
    else:
        _place(starts, time, edges.offsets, edges.causes, causal_time, level, done)
    return OrderedRows(CausalTimes(causal_time, level), edges, in_cycle)


def _without_doubtful(starts: Longs, time: Longs, edges: Edges, assumed: Flags) -> tuple[Edges, Longs]:
    """The edges without assumed ones that cannot be true, and the numbers of these.

    What is known settles that, one edge at a time, so that it does not depend on which rows are looked at together: an
    assumed cause that is known to come after its effect is none. Where several can only not all be true, none is kept.
    """
    causal_time, level = np.empty(len(time), np.int64), np.empty(len(time), np.int64)
    done = np.zeros(len(time), np.bool_)
    if not _place(starts, time, edges.offsets, edges.causes, causal_time, level, done):
        return edges, np.empty(0, np.int64)
    known = _without(edges, assumed)
    first = order_rows(starts, time, known)
    rank = np.empty(len(time), np.int64)
    rank[first.times.order(np.arange(len(time)))] = np.arange(len(time))
    effect = edges.effects()
    asked = np.flatnonzero(assumed & (edges.causes >= 0) & ~done[effect])
    hard = first.edges
    false = np.zeros(len(effect), np.bool_)
    false[asked] = _leads_to(starts, hard.offsets, hard.causes, rank, effect[asked], edges.causes[asked])
    left = _without(edges, false)
    done[:] = False
    if _place(starts, time, left.offsets, left.causes, causal_time, level, done):
        false |= assumed & _in_cycles(starts, left, done)
        left = _without(edges, false)
    return left, np.flatnonzero(false)


def _without(edges: Edges, gone: Flags) -> Edges:
    """The edges without some: a label of -1 goes by nothing."""
    return Edges(edges.offsets, np.where(gone, -1, edges.causes), np.where(gone, -1, edges.labels))


@kernel("boolean[::1](int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def _leads_to(starts: Longs, offsets: Longs, causes: Longs, rank: Longs, origin: Longs, target: Longs) -> Flags:
    """By pair: whether the origin leads to the target; `rank` is the place of rows in an order that keeps all edges."""
    found = np.zeros(len(origin), np.bool_)
    is_first = np.zeros(len(rank) + 1, np.bool_)
    is_first[starts] = True
    seen = np.full(len(rank), -1, np.int64)
    waiting = np.empty(len(rank) + 1, np.int64)
    for pair in range(len(origin)):
        goal = origin[pair]
        waiting[0] = target[pair]
        seen[target[pair]] = pair
        count = 1
        while count and not found[pair]:
            count -= 1
            row = waiting[count]
            if row == goal:
                found[pair] = True
                break
            first = offsets[row]
            for at in range(first - 1, offsets[row + 1]):
                cause = causes[at] if at >= first else -1 if is_first[row] else row - 1
                if cause >= 0 and rank[cause] >= rank[goal] and seen[cause] != pair:
                    seen[cause] = pair
                    waiting[count] = cause
                    count += 1
    return found


def _in_cycles(starts: Longs, edges: Edges, done: Flags) -> Flags:
    """By edge: whether it is part of a cycle among the rows that are not done, and says more than its process's order."""
    component = strongly_connected(starts, edges.offsets, edges.causes, done)
    effect = edges.effects()
    known = edges.causes >= 0
    inside = np.zeros(len(effect), np.bool_)
    inside[known] = component[effect[known]] == component[edges.causes[known]]
    forwards = (edges.causes < effect) & _in_one_process(starts, edges)
    return inside & (component[effect] >= 0) & ~forwards


def _backwards(starts: Longs, edges: Edges, done: Flags) -> Flags:
    """By edge: whether its cause comes after its effect in the order of their process; `done` does not matter."""
    found: Flags = (edges.causes >= edges.effects()) & _in_one_process(starts, edges)
    return found


def _in_one_process(starts: Longs, edges: Edges) -> Flags:
    process = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    found: Flags = (edges.causes >= 0) & (process[np.maximum(edges.causes, 0)] == process[edges.effects()])
    return found


@kernel("int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], boolean[::1])")
def _place(
    starts: Longs, time: Longs, offsets: Longs, causes: Longs, causal_time: Longs, level: Longs, done: Flags
) -> int:
    """Run every process forward until it waits for a cause that is not placed yet; how many rows never were."""
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
            missing = -1
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
    left = 0
    for process in range(processes):
        left += starts[process + 1] - cursor[process]
    return left


@kernel("void(int64[::1], int64[::1], int64[::1])")
def _order_ties(rows: Longs, causal_time: Longs, level: Longs) -> None:
    """Order runs of one causal time by level; rows of one level stay as they are."""
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
