"""From ordered rows to a segment: which rows belong to it, their places, and their causes as distances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.causality.order import Edges, OrderedRows, last_of
from ledto.causality.skeleton import Skeleton
from ledto.kernels import kernel

Longs = NDArray[np.int64]
Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Rows in history order with their causes, and what could not be settled among them."""

    rows: Longs
    """By place: the row it came from."""
    skeleton: Skeleton
    nth: Longs
    """By place: the event's number among those of its process here, from 1."""
    open_place: Longs
    """Places whose event has a cause outside; ``-1 - process`` for the next event of a process, outside itself ..."""
    open_label: Longs
    """... and what that cause goes by (`Edges.labels`) ..."""
    open_cause: Longs
    """... or, where the cause is here and the effect is not, its place; else -1."""
    assumed: Longs
    """By place: how many of its causes in the skeleton are only assumed; these are the last of them ..."""
    tied: Longs
    """... and how many of these, again the last, are no answers: events at one time may have happened in either order, or
    two events sent one key."""


def assemble(
    process: Codes, ordered: OrderedRows, member: Flags, dropped: Flags, assumed: Flags, guessed: Flags
) -> PlacedRows:
    """The segment of the canonical rows that are members and not dropped.

    `assumed` and `guessed` go by label of an edge; see `PlacedRows.assumed` and `PlacedRows.tied`.
    """
    rows = ordered.times.order(np.flatnonzero(member & ~dropped))
    gone = member & dropped
    if not gone.any():
        return place_rows(process, ordered.edges, rows, (), assumed, guessed)
    # A dropped row still carries causality: its effects get what precedes it.
    detour = Detour(process, ordered.edges, gone)
    carried = detour.carried(last_rows(process, member))
    return place_rows(process, detour.edges(), rows, carried, assumed, guessed)


def place_rows(
    process: Codes,
    edges: Edges,
    rows: Longs,
    carried: Sequence[tuple[int, int, int]],
    assumed: Flags,
    guessed: Flags,
) -> PlacedRows:
    """`rows`, in history order, with their causes; `carried` as `Detour.carried` gives it."""
    place = np.full(len(process), -1, np.int64)
    place[rows] = np.arange(len(rows))
    effect_place = place[edges.effects()]
    mine = (effect_place >= 0) & ((edges.causes >= 0) | (edges.labels != -1))
    effect_place, cause, label = effect_place[mine], edges.causes[mine], edges.labels[mine]
    cause_place = np.where(cause >= 0, place[cause], -1)
    inside = cause_place >= 0
    at = effect_place[inside]
    doubtful = _told(assumed, label[inside])
    tied = doubtful & _told(guessed, label[inside])
    by_place = np.lexsort((tied, doubtful, at)) if doubtful.any() else np.argsort(at, kind="stable")
    back = (at - cause_place[inside])[by_place]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(at, minlength=len(rows))))).astype(np.int64)
    own = process[rows]
    handed = np.array(carried, np.int64).reshape(-1, 3)
    handed_cause = np.where(handed[:, 1] >= 0, place[handed[:, 1]], -1)
    return PlacedRows(
        rows,
        Skeleton(own, offsets, back),
        _numbered(own),
        np.concatenate((effect_place[~inside], -1 - handed[:, 0])),
        np.concatenate((label[~inside], handed[:, 2])),
        np.concatenate((np.full(int((~inside).sum()), -1), handed_cause)),
        np.bincount(at[doubtful], minlength=len(rows)).astype(np.int64),
        np.bincount(at[tied], minlength=len(rows)).astype(np.int64),
    )


def _told(assumed: Flags, label: Longs) -> Flags:
    """By edge: whether its label is one of an assumed cause."""
    if not assumed.any():
        return np.zeros(len(label), np.bool_)
    told: Flags = (label >= 0) & assumed[np.maximum(label, 0)]
    return told


class Detour:
    """What stands for rows that are dropped: the nearest rows before them that are not, and causes outside by label."""

    def __init__(self, process: Codes, edges: Edges, dropped: Flags) -> None:
        self._process, self._edges, self._dropped = process, edges, dropped
        self._previous = previous_rows(process)

    def around(self, row: int) -> list[tuple[int, int]]:
        """Causes and labels (as in `Edges`) that stand for a dropped row."""
        found: list[tuple[int, int]] = []
        waiting, seen = [row], {row}
        while waiting:
            row = waiting.pop()
            span = slice(self._edges.offsets[row], self._edges.offsets[row + 1])
            before = list(zip(self._edges.causes[span].tolist(), self._edges.labels[span].tolist(), strict=True))
            before.append((int(self._previous[row]), last_of(int(self._process[row]))))
            for cause, label in before:
                if cause >= 0 and self._dropped[cause]:
                    if cause not in seen:
                        seen.add(cause)
                        waiting.append(cause)
                elif cause >= 0 or label != -1:
                    found.append((cause, label))
        return found

    def edges(self) -> Edges:
        """The edges with every dropped cause replaced by what stands for it, rows after a dropped one included."""
        edges = self._edges
        effects = edges.effects().tolist()
        hit = (edges.causes >= 0) & self._dropped[np.maximum(edges.causes, 0)]
        found = [
            (effect, cause, label)
            for effect, cause, label in zip(
                np.array(effects)[~hit].tolist(), edges.causes[~hit].tolist(), edges.labels[~hit].tolist(), strict=True
            )
        ]
        for at in np.flatnonzero(hit).tolist():
            found.extend((effects[at], *each) for each in self.around(int(edges.causes[at])))
        for row in np.flatnonzero((self._previous >= 0) & self._dropped[self._previous] & ~self._dropped).tolist():
            found.extend((row, *each) for each in self._besides_own(int(self._previous[row])))
        ordered = np.array(sorted(found, key=lambda each: each[0]), np.int64).reshape(-1, 3)
        counts = np.bincount(ordered[:, 0], minlength=len(self._process))
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        return Edges(offsets, np.ascontiguousarray(ordered[:, 1]), np.ascontiguousarray(ordered[:, 2]))

    def carried(self, last_rows: Sequence[int]) -> list[tuple[int, int, int]]:
        """Process, cause and label of what dropped rows among `last_rows` leave to the next event of their process."""
        return [
            (int(self._process[row]), *each)
            for row in last_rows
            if self._dropped[row]
            for each in self._besides_own(row)
        ]

    def _besides_own(self, row: int) -> list[tuple[int, int]]:
        """What stands for a dropped row and is not of its own process, whose order needs no edges."""
        own = self._process[row]
        return [
            (cause, label)
            for cause, label in self.around(row)
            if (self._process[cause] != own if cause >= 0 else label != last_of(int(own)))
        ]


def last_rows(process: Codes, member: Flags) -> list[int]:
    """The last member row of each process that has one."""
    members = np.flatnonzero(member)
    return sorted({int(code): int(row) for row, code in zip(members, process[members], strict=True)}.values())


@kernel("int64[::1](int32[::1])")
def previous_rows(process: Codes) -> Longs:
    """By row: the row before it in its process; -1 for the first."""
    latest = np.full(process.max() + 1, -1, np.int64)
    found = np.empty(len(process), np.int64)
    for row in range(len(process)):
        found[row] = latest[process[row]]
        latest[process[row]] = row
    return found


@kernel("int64[::1](int32[::1])")
def _numbered(process: Codes) -> Longs:
    """By place: how many events of its process stand here up to it."""
    count = np.zeros((process.max() if len(process) else 0) + 1, np.int64)
    found = np.empty(len(process), np.int64)
    for place in range(len(process)):
        count[process[place]] += 1
        found[place] = count[process[place]]
    return found
