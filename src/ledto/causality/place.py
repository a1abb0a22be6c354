"""Make a segment of ordered rows: choose its rows, give them places, and store their causes as distances."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ledto.causality.order import NO_CAUSE, NO_LABEL, Edges, OrderedRows, last_of, process_of_last
from ledto.causality.skeleton import Skeleton
from ledto.kernels import kernel

Longs = NDArray[np.int64]
Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]

NONE = -1
"""In place of a row, a place, a process or a key: there is none."""


@dataclass(frozen=True, slots=True, eq=False)
class OpenCauses:
    """Pairs of cause and effect of which one is outside the segment; `NONE` where a column does not apply.

    The effect is an event of the segment, or the next event of a process after it. The cause is an event of the segment, or
    one outside, known by a key or as the last event of a process before the segment.
    """

    effect: Longs
    """The place of the effect in the segment."""
    next_of: Longs
    """The process whose next event after the segment is the effect, if that has no place."""
    cause: Longs
    """The place of the cause in the segment."""
    key: Longs
    """The number of the key by which the cause is known, if it has no place."""
    last_of: Longs
    """The process whose last event before the segment is the cause, if it has neither place nor key."""


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """The rows of a segment in history order, with their causes. A row's number there is its *place*."""

    rows: Longs
    """By place: the canonical row."""
    skeleton: Skeleton
    nth: Longs
    """By place: the event's number among those of its process in the segment, from 1."""
    open: OpenCauses
    """Causes that the skeleton cannot have."""
    assumed: Longs
    """By place: how many of its causes in the skeleton are only assumed. These come last."""
    tied: Longs
    """By place: how many of the assumed ones, the last of them, are not answers: events at one time may have happened in
    either order, or two events sent one key."""


class Cause(NamedTuple):
    """A cause as in `Edges`: a row, or `NO_CAUSE` and a label by which it is known outside the rows."""

    row: int
    label: int


class InheritedCause(NamedTuple):
    """A cause that a dropped row leaves to the next event of its process, which is after the segment."""

    process: int
    cause: Cause


def assemble(
    process: Codes, ordered: OrderedRows, member: Flags, dropped: Flags, assumed: Flags, guessed: Flags
) -> PlacedRows:
    """Make the segment of the canonical rows that are members and not dropped.

    A dropped row still carries causality: its effects get its causes. `assumed` and `guessed`, by key, say which causes
    count for `PlacedRows.assumed` and `PlacedRows.tied`.
    """
    rows = ordered.times.order(np.flatnonzero(member & ~dropped))
    gone = member & dropped
    if not gone.any():
        return place_rows(process, ordered.edges, rows, (), assumed, guessed)
    detour = Detour(process, ordered.edges, gone)
    inherited = detour.inherited(last_rows(process, member))
    return place_rows(process, detour.edges(), rows, inherited, assumed, guessed)


def place_rows(
    process: Codes,
    edges: Edges,
    rows: Longs,
    inherited: Sequence[InheritedCause],
    assumed: Flags,
    guessed: Flags,
) -> PlacedRows:
    """Give places to `rows`, which are in history order, and find the places of their causes."""
    place = np.full(len(process), NONE, np.int64)
    place[rows] = np.arange(len(rows))
    effect_place = place[edges.effects()]
    used = (effect_place >= 0) & ((edges.causes != NO_CAUSE) | (edges.labels != NO_LABEL))
    effect_place, cause, label = effect_place[used], edges.causes[used], edges.labels[used]
    cause_place = np.where(cause >= 0, place[cause], NONE)
    inside = cause_place >= 0
    at = effect_place[inside]
    is_assumed = has_label_in(assumed, label[inside])
    is_tied = is_assumed & has_label_in(guessed, label[inside])
    by_place = np.lexsort((is_tied, is_assumed, at)) if is_assumed.any() else np.argsort(at, kind="stable")
    back = (at - cause_place[inside])[by_place]
    offsets = np.concatenate(([0], np.cumsum(np.bincount(at, minlength=len(rows))))).astype(np.int64)
    return PlacedRows(
        rows,
        Skeleton(process[rows], offsets, back),
        _count_within_process(process[rows]),
        _open_causes(place, effect_place[~inside], label[~inside], inherited),
        np.bincount(at[is_assumed], minlength=len(rows)).astype(np.int64),
        np.bincount(at[is_tied], minlength=len(rows)).astype(np.int64),
    )


def _open_causes(place: Longs, effect: Longs, label: Longs, inherited: Sequence[InheritedCause]) -> OpenCauses:
    """List first the effects in the segment with their labels, then what is inherited; `place` is by row."""
    process = np.array([each.process for each in inherited], np.int64)
    cause = np.array([each.cause.row for each in inherited], np.int64)
    labels = np.concatenate((label, np.array([each.cause.label for each in inherited], np.int64)))
    by_key = labels >= 0
    return OpenCauses(
        np.concatenate((effect, np.full(len(process), NONE))),
        np.concatenate((np.full(len(effect), NONE), process)),
        np.concatenate((np.full(len(effect), NONE), np.where(cause >= 0, place[cause], NONE))),
        np.where(by_key, labels, NONE),
        np.where(by_key, NONE, process_of_last(labels)),
    )


def has_label_in(chosen: Flags, labels: Longs) -> Flags:
    """Tell for each label whether it is a key that is `chosen`; `chosen` is by key."""
    if not chosen.any():
        return np.zeros(len(labels), np.bool_)
    is_chosen: Flags = (labels >= 0) & chosen[np.maximum(labels, 0)]
    return is_chosen


class Detour:
    """Ways around dropped rows: their causes take their places, the row before in the process included."""

    def __init__(self, process: Codes, edges: Edges, dropped: Flags) -> None:
        self._process, self._edges, self._dropped = process, edges, dropped
        self._previous = previous_rows(process)

    def around(self, row: int) -> list[Cause]:
        """Find the nearest causes of a dropped row that are not dropped, or are outside the rows."""
        nearest: list[Cause] = []
        waiting, seen = [row], {row}
        while waiting:
            row = waiting.pop()
            span = slice(self._edges.offsets[row], self._edges.offsets[row + 1])
            causes = list(map(Cause, self._edges.causes[span].tolist(), self._edges.labels[span].tolist()))
            causes.append(Cause(int(self._previous[row]), last_of(int(self._process[row]))))
            for cause in causes:
                if cause.row >= 0 and self._dropped[cause.row]:
                    if cause.row not in seen:
                        seen.add(cause.row)
                        waiting.append(cause.row)
                elif cause.row != NO_CAUSE or cause.label != NO_LABEL:
                    nearest.append(cause)
        return nearest

    def edges(self) -> Edges:
        """Replace every dropped cause by what `around` finds, also where a row follows a dropped one in its process."""
        edges = self._edges
        effects = edges.effects()
        hit = (edges.causes >= 0) & self._dropped[np.maximum(edges.causes, 0)]
        kept = (effects[~hit].tolist(), edges.causes[~hit].tolist(), edges.labels[~hit].tolist())
        with_effects = list(zip(*kept, strict=True))
        for at in np.flatnonzero(hit).tolist():
            with_effects.extend(_to(int(effects[at]), self.around(int(edges.causes[at]))))
        for row in np.flatnonzero((self._previous >= 0) & self._dropped[self._previous] & ~self._dropped).tolist():
            with_effects.extend(_to(row, self._around_elsewhere(int(self._previous[row]))))
        with_effects.sort(key=lambda edge: edge[0])
        effect, cause, label = np.array(with_effects, np.int64).reshape(-1, 3).T.copy()
        counts = np.bincount(effect, minlength=len(self._process))
        return Edges(np.concatenate(([0], np.cumsum(counts))).astype(np.int64), cause, label)

    def inherited(self, last_rows: Sequence[int]) -> list[InheritedCause]:
        """Find what dropped rows, if they are the last of their process, leave to its next event."""
        return [
            InheritedCause(int(self._process[row]), cause)
            for row in last_rows
            if self._dropped[row]
            for cause in self._around_elsewhere(row)
        ]

    def _around_elsewhere(self, row: int) -> list[Cause]:
        """Find the same as `around` without the row's own process, whose order needs no edges."""
        own = int(self._process[row])
        return [
            cause
            for cause in self.around(row)
            if (self._process[cause.row] != own if cause.row >= 0 else cause.label != last_of(own))
        ]


def _to(effect: int, causes: Iterable[Cause]) -> list[tuple[int, int, int]]:
    """Put the effect before each cause."""
    return [(effect, cause.row, cause.label) for cause in causes]


def last_rows(process: Codes, member: Flags) -> list[int]:
    """Find the last member row of each process that has one."""
    members = np.flatnonzero(member)
    return sorted({int(code): int(row) for row, code in zip(members, process[members], strict=True)}.values())


@kernel("int64[::1](int32[::1])")
def previous_rows(process: Codes) -> Longs:
    """Find for each row the row before it in its process; -1 for the first."""
    latest = np.full(process.max() + 1, -1, np.int64)
    previous = np.empty(len(process), np.int64)
    for row in range(len(process)):
        previous[row] = latest[process[row]]
        latest[process[row]] = row
    return previous


@kernel("int64[::1](int32[::1])")
def _count_within_process(process: Codes) -> Longs:
    """Number the events of each process from 1, in their order; by place."""
    count = np.zeros((process.max() if len(process) else 0) + 1, np.int64)
    nth = np.empty(len(process), np.int64)
    for place in range(len(process)):
        count[process[place]] += 1
        nth[place] = count[process[place]]
    return nth
