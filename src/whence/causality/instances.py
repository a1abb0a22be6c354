"""Spans of a trace as lines and causes: starting a child duplicates an instance, the child's end combines the two.

An instance is what one process did for one span: its rows in order, the start first. Instances of one process share its
clock, which alone decides the order between a parent and its children there:

- A child starts after the last row of its parent that is earlier, and after every sibling that ended before it started.
- Its end precedes the next row of its parent that is later, and so nothing of a parent that ended first: a child that
  outlives its parent is not forced into it.
- Rows of different children overlap in time or not at all: what overlaps is concurrent.

Between processes clocks decide nothing. A child elsewhere starts after its parent's start, and its end precedes its
parent's end only where the one answers, the other awaits an answer, and the child did not last longer than the parent.

Lines are what the rest of whence calls processes: rows that follow one another by cause. Rows are strung onto as few as a
greedy choice finds, so that a process which works on one thing at a time is one line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from whence.kernels import kernel

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

EVER = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class Instances:
    """Rows of instances, each event once: those of instance i are ``starts[i]:starts[i + 1]``, in their order."""

    starts: Longs
    time: Longs
    """By row; within an instance it never decreases."""
    process: Longs
    """By instance: whose clock its times are from. Instances of different computations have different ones."""
    parent: Longs
    """By instance: what it was started from; -1 for none."""
    begins: Flags
    """By instance: whether its first row is its start."""
    end_row: Longs
    """By instance: the row of its end; -1 for one that never ended."""
    answers: Flags
    awaits: Flags
    """By instance: what its end does."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Where each row stands, and what else precedes it."""

    line: Longs
    """By row. Lines are numbered by first rows."""
    nth: Longs
    """By row: its number in its line, from 1."""
    process: Longs
    """By line."""
    offsets: Longs
    causes: Longs
    """Those of row r, besides the rows before in its line, are at ``offsets[r]:offsets[r + 1]``."""


def string_lines(instances: Instances) -> Lines:
    """The lines of instances, and the causes between them.

    Parents that go in a circle give causes that do: the rows are there, and nothing says which of them is wrong.
    """
    effects, causes = _edges(instances)
    rows = len(instances.time)
    by_effect = np.lexsort((causes, effects))
    effects, causes = effects[by_effect], causes[by_effect]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(effects, minlength=rows)))).astype(np.int64)
    instance = np.repeat(np.arange(len(instances.process)), np.diff(instances.starts))
    process = instances.process[instance]
    by_cause = np.argsort(causes, kind="stable")
    later = np.concatenate(([0], np.cumsum(np.bincount(causes, minlength=rows)))).astype(np.int64)
    line, nth, line_process = _string(offsets, causes, later, effects[by_cause], process)
    kept = line[causes] != line[effects]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(effects[kept], minlength=rows)))).astype(np.int64)
    return Lines(line, nth, line_process, offsets, causes[kept])


def _edges(instances: Instances) -> tuple[Longs, Longs]:
    """Effects and causes, by row: the rows of an instance in their order, and what parents and children give."""
    starts, parent = instances.starts, instances.parent
    rows = np.arange(len(instances.time))
    follows = np.ones(len(rows), np.bool_)
    follows[starts[:-1]] = False
    effects, causes = [rows[follows]], [rows[follows] - 1]

    child = np.flatnonzero(parent >= 0)
    elsewhere = child[instances.process[child] != instances.process[parent[child]]]
    effects.append(starts[elsewhere])
    causes.append(starts[parent[elsewhere]])
    opener = parent[elsewhere]
    own_end, its_end = instances.end_row[elsewhere], instances.end_row[opener]
    replied = instances.answers[elsewhere] & instances.awaits[opener] & (own_end >= 0) & (its_end >= 0)
    lasted, waited = (
        np.where(end >= 0, instances.time[end] - instances.time[starts[which]], 0)
        for end, which in ((own_end, elsewhere), (its_end, opener))
    )
    replied &= lasted <= waited
    effects.append(its_end[replied])
    causes.append(own_end[replied])

    # A part of an instance that has no start of its own is not what a parent waits for.
    local = child[(instances.process[child] == instances.process[parent[child]]) & instances.begins[child]]
    end = np.where(instances.end_row[local] >= 0, instances.time[instances.end_row[local]], EVER)
    ordered = local[np.lexsort((local, end, parent[local]))]
    firsts = np.flatnonzero(np.diff(parent[ordered], prepend=-1))
    found = _local_edges(
        starts,
        instances.time,
        instances.end_row,
        parent[ordered[firsts]],
        np.append(firsts, len(ordered)).astype(np.int64),
        ordered,
    )
    return np.concatenate((*effects, found[0])), np.concatenate((*causes, found[1]))


@kernel("UniTuple(int64[::1], 2)(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def _local_edges(
    starts: Longs, time: Longs, end_row: Longs, parents: Longs, firsts: Longs, children: Longs
) -> tuple[Longs, Longs]:
    """Effects and causes between each of the parents and its children in its own process.

    The children of parent p are ``children[firsts[p]:firsts[p + 1]]``, by the time of their end; those without one are last.
    """
    capacity = 4 * len(children) + 16
    effects, causes = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    count = 0
    for at in range(len(parents)):
        parent, first, stop = parents[at], firsts[at], firsts[at + 1]
        ended = stop
        while ended > first and end_row[children[ended - 1]] < 0:
            ended -= 1
        latest_start = np.empty(ended - first, np.int64)
        most = np.iinfo(np.int64).min
        for n in range(first, ended):
            most = max(most, time[starts[children[n]]])
            latest_start[n - first] = most
        own_first, own_stop = starts[parent], starts[parent + 1]
        # First what the parent's own rows follow, then what each child's start follows.
        for turn in range((own_stop - own_first - 1) + (stop - first)):
            own = own_first + 1 + turn
            is_own = own < own_stop
            row = own if is_own else starts[children[first + turn - (own_stop - own_first - 1)]]
            # The end of a parent comes after the ends of children at the same time.
            until = time[row] + 1 if is_own and row == end_row[parent] else time[row]
            before = own - 1
            if not is_own:
                low, high = own_first + 1, own_stop
                while low < high:
                    middle = (low + high) // 2
                    if time[middle] < time[row]:
                        low = middle + 1
                    else:
                        high = middle
                before = low - 1
            low, high = first, ended
            while low < high:
                middle = (low + high) // 2
                if time[end_row[children[middle]]] < until:
                    low = middle + 1
                else:
                    high = middle
            needed = 1 + low - first
            if count + needed > capacity:
                capacity = 2 * capacity + needed
                more_effects, more_causes = np.empty(capacity, np.int64), np.empty(capacity, np.int64)
                more_effects[:count], more_causes[:count] = effects[:count], causes[:count]
                effects, causes = more_effects, more_causes
            if not is_own:
                effects[count], causes[count] = row, before
                count += 1
            if low == first:
                continue
            # What ended before another child started, or before the parent's own row, precedes through that.
            least = latest_start[low - 1 - first]
            if before > own_first:
                least = max(least, time[before])
            while low > first and time[end_row[children[low - 1]]] >= least:
                low -= 1
                effects[count], causes[count] = row, end_row[children[low]]
                count += 1
    return effects[:count].copy(), causes[:count].copy()


@kernel("UniTuple(int64[::1], 3)(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])")
def _string(
    offsets: Longs, causes: Longs, later_offsets: Longs, later: Longs, process: Longs
) -> tuple[Longs, Longs, Longs]:
    """By row: line, and number in it; by line: process.

    A row goes where one of its causes is the last one so far, in the line that began first; else it begins one. Rows in a
    circle, which no order reaches, begin one each.
    """
    rows = len(process)
    waits_for = np.diff(offsets)
    ready = np.empty(rows, np.int64)
    count = 0
    for row in range(rows):
        if waits_for[row] == 0:
            ready[count] = row
            count += 1
    line, nth = np.full(rows, -1, np.int64), np.ones(rows, np.int64)
    last = np.empty(rows, np.int64)
    line_process = np.empty(rows, np.int64)
    lines = 0
    for at in range(rows):
        if at < count:
            row = ready[at]
            for n in range(offsets[row], offsets[row + 1]):
                cause = causes[n]
                is_last = process[cause] == process[row] and last[line[cause]] == cause
                if is_last and (line[row] < 0 or line[cause] < line[row]):
                    line[row], nth[row] = line[cause], nth[cause] + 1
            if line[row] < 0:
                line[row], line_process[lines] = lines, process[row]
                lines += 1
            last[line[row]] = row
            for n in range(later_offsets[row], later_offsets[row + 1]):
                waits_for[later[n]] -= 1
                if waits_for[later[n]] == 0:
                    ready[count] = later[n]
                    count += 1
    for row in range(rows):
        if line[row] < 0:
            line[row], line_process[lines] = lines, process[row]
            lines += 1
    return line, nth, line_process[:lines].copy()
