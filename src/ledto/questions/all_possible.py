"""All that may have led to an event and is not recorded to: from the event back to the start, the newest first.

One pass over the rows finds, by event, the fewest steps towards the asked one that only the wide order knows, and the first
of these steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.causality.paths import UNREACHED
from ledto.causality.skeleton import Ints, Skeleton
from ledto.history import layout
from ledto.history.recorded import edges_into
from ledto.history.run import Run
from ledto.history.tables import Longs
from ledto.kernels import inlined, kernel
from ledto.questions.why import Filter, by_event_groups, kept

NONE: Longs = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Further:
    """Events, the newest first, and the first step from each towards the asked one that is not recorded."""

    position: Longs
    cause: Longs
    effect: Longs
    all_seen: bool
    """Whether there are no others."""


def further_causes(
    run: Run, position: int, most: int, most_groups: int, wanted: Filter, known: Longs, *, answered: bool = False
) -> Further:
    """Find up to `most` of them that are wanted and not among the `known`, in up to `most_groups` row groups.

    `answered`: answers that are only assumed count as recorded.
    """
    search = _Backwards(run, position, answered)
    pieces: list[tuple[Longs, Longs, Longs]] = []
    count = groups = 0
    while not search.done and count < most and groups < most_groups:
        found, cause, effect = search.step()
        groups += 1
        new = ~np.isin(found, known)
        if not wanted.takes_all:
            stretches = [kept(run, each, wanted) for each in by_event_groups(run, found[new])]
            new &= np.isin(found, np.concatenate([NONE, *stretches]))
        pieces.append((found[new][::-1], cause[new][::-1], effect[new][::-1]))
        count += len(pieces[-1][0])
    columns = [np.concatenate([NONE, *(piece[each] for piece in pieces)])[:most] for each in range(3)]
    return Further(columns[0], columns[1], columns[2], all_seen=search.done and count <= most)


@dataclass(slots=True, eq=False)
class _Steps:
    """Ways to the asked event, by where they start: steps that are not recorded, and the first of these."""

    reference: Longs
    """To an event or a list of events, as in `ledto.causality.lines`: twice the position, and one more for the list."""
    guesses: Longs
    cause: Longs
    effect: Longs

    def taken(self, which: NDArray[np.bool_] | Longs) -> _Steps:
        return _Steps(self.reference[which], self.guesses[which], self.cause[which], self.effect[which])

    def with_more(self, more: _Steps) -> _Steps:
        """The best way from each place; of equals, the one that was found first."""
        both = zip(
            (self.reference, self.guesses, self.cause, self.effect),
            (more.reference, more.guesses, more.cause, more.effect),
            strict=True,
        )
        whole = _Steps(*(np.concatenate(pair) for pair in both))
        order = np.lexsort((whole.guesses, whole.reference))
        first = np.diff(whole.reference[order], prepend=-1) != 0
        return whole.taken(order[first])


class _Backwards:
    """The row groups up to an event, the newest first."""

    def __init__(self, run: Run, position: int, answered: bool) -> None:
        self._run, self._answered = run, answered
        self._number = run.segments.segment_of(position)
        self._base = run.segments.base_of(self._number)
        first = int(run.segments.first_position[self._number])
        self._group = (position - first) // layout.SKELETON_ROWS
        none = np.array([-1], np.int64)
        self._waiting = _Steps(np.array([2 * position], np.int64), np.zeros(1, np.int64), none, none)
        self._least: Ints = np.full(len(run.processes), UNREACHED, np.int32)
        self._least_at: Longs = np.full(len(run.processes), -1, np.int64)
        self.done = False

    def step(self) -> tuple[Longs, Longs, Longs]:
        """Go through a row group: its possible causes, ascending, and the cause and effect of the step of each."""
        run, number = self._run, self._number
        start = int(run.segments.first_position[number]) + self._group * layout.SKELETON_ROWS
        skeleton = run.skeleton_group(number, self._group)
        # By reference: events stand at even places, their lists at odd ones.
        guesses = np.full(2 * len(skeleton), UNREACHED, np.int32)
        cause, effect = np.full(len(guesses), -1, np.int64), np.full(len(guesses), -1, np.int64)
        here = self._waiting.reference >= 2 * start
        arriving = self._waiting.taken(here)
        at = arriving.reference - 2 * start
        guesses[at], cause[at], effect[at] = arriving.guesses, arriving.cause, arriving.effect
        leaving = self._swept(skeleton, start, guesses, cause, effect)
        self._waiting = self._waiting.taken(~here).with_more(leaving)
        self._go_back()
        guesses, cause, effect = guesses[::2], cause[::2], effect[::2]
        only_possible = np.flatnonzero((guesses > 0) & (guesses != UNREACHED))
        return only_possible + start, cause[only_possible], effect[only_possible]

    def _swept(self, skeleton: Skeleton, start: int, guesses: Ints, cause: Longs, effect: Longs) -> _Steps:
        """Fill in the rows and lists of a group; what leads to them from before it."""
        run, number = self._run, self._number
        recorded = run.recorded_group(number, self._group, answered=self._answered)
        base = start - int(run.segments.first_position[number])
        into = edges_into(run, number).between(base, base + len(skeleton))
        counted = len(skeleton.back) + len(recorded.back) + len(recorded) + len(into.row)
        left = np.empty((4, counted), np.int64)
        count = _possible_rows(
            run.segments.codes_of(number)[skeleton.process].astype(np.int64),
            skeleton.offsets, skeleton.back, recorded.offsets, recorded.back, recorded.rest, start,
            into.row - base, into.reference, into.counts(answered=self._answered),
            guesses, cause, effect, self._least, self._least_at, left,
        )  # fmt: skip
        return _Steps(*(left[each, :count].copy() for each in range(4)))

    def _go_back(self) -> None:
        """To the row group before this one; the end where nothing is left that may lead here."""
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
    """Take this way from a row or list, if it is better than what is known."""
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
    left: Longs,
) -> int:
    """Fill in the ways from rows and lists, the newest first; give how many begin before the rows, which `left` takes."""
    count, edge = 0, len(edge_row) - 1
    for row in range(len(codes) - 1, -1, -1):
        own, at, place, listed = codes[row], start + row, 2 * row, 2 * row + 1
        if guesses[listed] != UNREACHED:
            # A list holds its row, and what it goes on with.
            _offer(place, guesses[listed], causes[listed], effects[listed], guesses, causes, effects)
            if rest[row] > 0 and place - rest[row] >= 0:
                before = place - rest[row]
                _offer(before, guesses[listed], causes[listed], effects[listed], guesses, causes, effects)
            elif rest[row] > 0:
                left[0, count], left[1, count] = 2 * start + place - rest[row], guesses[listed]
                left[2, count], left[3, count] = causes[listed], effects[listed]
                count += 1
        if least[own] != UNREACHED:
            _offer(place, least[own] + 1, at, least_at[own], guesses, causes, effects)
        mine = guesses[place]
        while edge >= 0 and edge_row[edge] >= row:
            if edge_row[edge] == row and mine != UNREACHED:
                left[0, count] = edge_reference[edge]
                if edge_recorded[edge]:
                    left[1, count], left[2, count], left[3, count] = mine, causes[place], effects[place]
                else:
                    left[1, count], left[2, count], left[3, count] = mine + 1, edge_reference[edge] // 2, at
                count += 1
            edge -= 1
        if mine == UNREACHED:
            continue
        if mine <= least[own]:
            least[own], least_at[own] = mine, at
        for entry in range(recorded_offsets[row], recorded_offsets[row + 1]):
            before = place - recorded_back[entry]
            if before >= 0:
                _offer(before, mine, causes[place], effects[place], guesses, causes, effects)
            else:
                left[0, count], left[1, count] = 2 * start + before, mine
                left[2, count], left[3, count] = causes[place], effects[place]
                count += 1
        for entry in range(offsets[row], offsets[row + 1]):
            before = row - back[entry]
            if before >= 0:
                _offer(2 * before, mine + 1, start + before, at, guesses, causes, effects)
            else:
                left[0, count], left[1, count] = 2 * (start + before), mine + 1
                left[2, count], left[3, count] = start + before, at
                count += 1
    return count
