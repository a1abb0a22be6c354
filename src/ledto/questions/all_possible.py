"""Find all possible causes of an event, from the event back to the start, the newest first.

One pass over the rows finds, for each event, the path to the asked event with the fewest *guesses*, which are steps that
are not recorded, and the first guess on that path.

`ledto.causality.lines` says what a *reference* is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.causality.lines import list_reference, referred_row, row_reference
from ledto.causality.paths import UNREACHED
from ledto.causality.skeleton import Ints, Skeleton
from ledto.history import layout
from ledto.history.recorded import edges_into
from ledto.history.run import Run
from ledto.history.tables import Longs
from ledto.kernels import inlined, kernel
from ledto.questions.why import Filter, by_event_groups, keep_wanted

NONE: Longs = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class FurtherCauses:
    """Possible causes, the newest first, each with the first guess on its path to the asked event."""

    position: Longs
    cause: Longs
    """The position where the guess starts."""
    effect: Longs
    """The position where the guess ends."""
    all_seen: bool
    """Whether there are no others."""


def further_causes(
    run: Run, position: int, most: int, most_groups: int, wanted: Filter, known: Longs, *, answered: bool = False
) -> FurtherCauses:
    """Find up to `most` wanted possible causes that are not among `known`. Read at most `most_groups` row groups.

    `answered`: count assumed answers as recorded.
    """
    search = _BackwardSearch(run, position, answered)
    pieces: list[tuple[Longs, Longs, Longs]] = []
    count = groups = 0
    while not search.done and count < most and groups < most_groups:
        positions, cause, effect = search.step()
        groups += 1
        new = ~np.isin(positions, known)
        if not wanted.takes_all:
            kept = [keep_wanted(run, group, wanted) for group in by_event_groups(run, positions[new])]
            new &= np.isin(positions, np.concatenate([NONE, *kept]))
        pieces.append((positions[new][::-1], cause[new][::-1], effect[new][::-1]))
        count += len(pieces[-1][0])
    columns = [np.concatenate([NONE, *(piece[column] for piece in pieces)])[:most] for column in range(3)]
    return FurtherCauses(columns[0], columns[1], columns[2], all_seen=search.done and count <= most)


@dataclass(slots=True, eq=False)
class _Paths:
    """Paths to the asked event, one for each event or list that they start from."""

    reference: Longs
    """Where the path starts, by position."""
    guesses: Longs
    """How many guesses it has."""
    cause: Longs
    effect: Longs
    """The positions of its first guess; -1 if it has none."""

    def select(self, which: NDArray[np.bool_] | Longs) -> _Paths:
        """Select some of them by mask or index."""
        return _Paths(self.reference[which], self.guesses[which], self.cause[which], self.effect[which])

    def with_more(self, more: _Paths) -> _Paths:
        """Merge both; keep the path with the fewest guesses from each start. Of equals, keep the one of `self`."""
        both = zip(
            (self.reference, self.guesses, self.cause, self.effect),
            (more.reference, more.guesses, more.cause, more.effect),
            strict=True,
        )
        whole = _Paths(*(np.concatenate(pair) for pair in both))
        order = np.lexsort((whole.guesses, whole.reference))
        first = np.diff(whole.reference[order], prepend=-1) != 0
        return whole.select(order[first])


class _BackwardSearch:
    """Goes through the row groups up to an event, the newest first."""

    def __init__(self, run: Run, position: int, answered: bool) -> None:
        self._run, self._answered = run, answered
        self._number = run.segments.segment_of(position)
        self._base = run.segments.base_of(self._number)
        first = int(run.segments.first_position[self._number])
        self._group = (position - first) // layout.SKELETON_ROWS
        none = np.array([-1], np.int64)
        start = np.array([row_reference(position)], np.int64)
        self._waiting = _Paths(start, np.zeros(1, np.int64), none, none)
        """Paths from events and lists of row groups that are still to come."""
        self._least: Ints = np.full(len(run.processes), UNREACHED, np.int32)
        """By process: the fewest guesses of any of its events so far, and the position of that event."""
        self._least_at: Longs = np.full(len(run.processes), -1, np.int64)
        self.done = False

    def step(self) -> tuple[Longs, Longs, Longs]:
        """Search a row group; return its possible causes, ascending, and the cause and effect of the first guess of each."""
        run, number = self._run, self._number
        start = int(run.segments.first_position[number]) + self._group * layout.SKELETON_ROWS
        skeleton = run.skeleton_group(number, self._group)
        # Indexed by reference, counted from the first row of the group.
        guesses = np.full(row_reference(len(skeleton)), UNREACHED, np.int32)
        cause, effect = np.full(len(guesses), -1, np.int64), np.full(len(guesses), -1, np.int64)
        is_here = self._waiting.reference >= row_reference(start)
        arriving = self._waiting.select(is_here)
        at = arriving.reference - row_reference(start)
        guesses[at], cause[at], effect[at] = arriving.guesses, arriving.cause, arriving.effect
        leaving = self._sweep(skeleton, start, guesses, cause, effect)
        self._waiting = self._waiting.select(~is_here).with_more(leaving)
        self._go_back()
        guesses, cause, effect = guesses[::2], cause[::2], effect[::2]
        only_possible = np.flatnonzero((guesses > 0) & (guesses != UNREACHED))
        return only_possible + start, cause[only_possible], effect[only_possible]

    def _sweep(self, skeleton: Skeleton, start: int, guesses: Ints, cause: Longs, effect: Longs) -> _Paths:
        """Fill in the arrays of a row group; return the paths that start before the group."""
        run, number = self._run, self._number
        recorded = run.recorded_group(number, self._group, answered=self._answered)
        base = start - int(run.segments.first_position[number])
        into = edges_into(run, number).between(base, base + len(skeleton))
        most = len(skeleton.back) + len(recorded.back) + len(recorded) + len(into.row)
        leaving = np.empty((4, most), np.int64)
        count = _possible_rows(
            run.segments.codes_of(number)[skeleton.process].astype(np.int64),
            skeleton.offsets, skeleton.back, recorded.offsets, recorded.back, recorded.rest, start,
            into.row - base, into.reference, into.are_recorded(answered=self._answered),
            guesses, cause, effect, self._least, self._least_at, leaving,
        )  # fmt: skip
        return _Paths(*(leaving[column, :count].copy() for column in range(4)))

    def _go_back(self) -> None:
        """Go to the row group before this one; be done if no earlier event can lead here."""
        run = self._run
        if self._group > 0:
            self._group -= 1
            return
        before = run.segments.before_of(self._number)
        reached = self._least[run.segments.codes_of(self._number)] != UNREACHED
        self._number -= 1
        self.done = (
            self._number < 0
            or int(run.segments.first_position[self._number]) < self._base
            or not (len(self._waiting.reference) or (reached & (before > 0)).any())
        )
        if not self.done:
            self._group = (int(run.segments.rows[self._number]) - 1) // layout.SKELETON_ROWS


@inlined
def _offer(at: int, steps: int, cause: int, effect: int, guesses: Ints, causes: Longs, effects: Longs) -> None:
    """Note a path from the event or list at an index, if it has fewer guesses than the one noted before."""
    if steps < guesses[at]:
        guesses[at], causes[at], effects[at] = steps, cause, effect


@kernel(
    "int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64, int64[::1], int64[::1], "
    "boolean[::1], int32[::1], int64[::1], int64[::1], int32[::1], int64[::1], int64[:,::1])"
)
def _possible_rows(
    codes: Longs,
    offsets: Longs,
    back: Longs,
    recorded_offsets: Longs,
    recorded_back: Longs,
    rest: Longs,
    start: int,
    edge_row: Longs,
    edge_reference: Longs,
    edge_recorded: NDArray[np.bool_],
    guesses: Ints,
    causes: Longs,
    effects: Longs,
    least: Ints,
    least_at: Longs,
    leaving: Longs,
) -> int:
    """Fill in the paths from events and lists, the newest first; return how many were written to `leaving`.

    `leaving` gets the paths that start before the rows: reference, guesses, cause and effect.
    """
    count, edge = 0, len(edge_row) - 1
    for row in range(len(codes) - 1, -1, -1):
        process, at, place, listed = codes[row], start + row, row_reference(row), list_reference(row)
        if guesses[listed] != UNREACHED:
            # A list contains its own row, and what `rest` refers to.
            _offer(place, guesses[listed], causes[listed], effects[listed], guesses, causes, effects)
            if rest[row] > 0 and place - rest[row] >= 0:
                before = place - rest[row]
                _offer(before, guesses[listed], causes[listed], effects[listed], guesses, causes, effects)
            elif rest[row] > 0:
                leaving[0, count], leaving[1, count] = row_reference(start) + place - rest[row], guesses[listed]
                leaving[2, count], leaving[3, count] = causes[listed], effects[listed]
                count += 1
        if least[process] != UNREACHED:
            _offer(place, least[process] + 1, at, least_at[process], guesses, causes, effects)
        fewest = guesses[place]
        while edge >= 0 and edge_row[edge] >= row:
            if edge_row[edge] == row and fewest != UNREACHED:
                leaving[0, count] = edge_reference[edge]
                if edge_recorded[edge]:
                    leaving[1, count], leaving[2, count], leaving[3, count] = fewest, causes[place], effects[place]
                else:
                    leaving[1, count] = fewest + 1
                    leaving[2, count], leaving[3, count] = referred_row(edge_reference[edge]), at
                count += 1
            edge -= 1
        if fewest == UNREACHED:
            continue
        if fewest <= least[process]:
            least[process], least_at[process] = fewest, at
        for entry in range(recorded_offsets[row], recorded_offsets[row + 1]):
            before = place - recorded_back[entry]
            if before >= 0:
                _offer(before, fewest, causes[place], effects[place], guesses, causes, effects)
            else:
                leaving[0, count], leaving[1, count] = row_reference(start) + before, fewest
                leaving[2, count], leaving[3, count] = causes[place], effects[place]
                count += 1
        for entry in range(offsets[row], offsets[row + 1]):
            before = row - back[entry]
            if before >= 0:
                _offer(row_reference(before), fewest + 1, start + before, at, guesses, causes, effects)
            else:
                leaving[0, count], leaving[1, count] = row_reference(start + before), fewest + 1
                leaving[2, count], leaving[3, count] = start + before, at
                count += 1
    return count
