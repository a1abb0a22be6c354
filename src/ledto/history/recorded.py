"""Find the recorded past of events, over all segments of a run, from the newest to the oldest.

A search reads only row groups that hold an event of that past. `ledto.history.line_fronts` finds what lines follow in
earlier segments. For many pairs of events, `are_recorded_before` searches the pasts of up to 64 later events in one pass,
with a bit for each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.causality.lines import referred_row, refers_to_list, row_reference
from ledto.causality.recorded_past import members, past_of_many
from ledto.causality.skeleton import Longs
from ledto.history import layout
from ledto.history.line_fronts import fronts, lines_before
from ledto.history.run import Run

Bits = NDArray[np.uint64]
Flags = NDArray[np.bool_]

EVENTS_AT_ONCE = 64
"""Later events that share one search: one for each bit of a number."""
ONE = np.uint64(1)
FIRST_ROWS = 4_096
"""Rows that the first step of a search reads. Each step reads twice as many: most callers soon have enough."""


def recorded_past(run: Run, positions: Longs, down_to: int = 0, *, answered: bool = False) -> Iterator[Longs]:
    """Give the positions of these events and of all that led to them: in pieces, newest first, each ascending.

    Events before `down_to` may be left out. `answered`: count answers that are only assumed as recorded.
    """
    search = _PastSearch(run, positions, answered)
    while search.waits_at_or_after(down_to):
        yield search.step(down_to)


def past_by_stretches(
    run: Run, position: int, *, answered: bool = False, besides: Sequence[int] = ()
) -> Iterator[tuple[int, int, int, Longs, Longs]]:
    """Give the past of one event, stretch by stretch: the segment, its rows from start to stop, and positions twice.

    The first positions are the past by what is recorded or assumed to be answered, the second the recorded past alone; both
    may be empty. `answered`: count answers as recorded, so that both are the same. `besides`: the first also have these
    events, which must be before the event, and their past. A stretch lies in one row group of the skeleton.
    """
    with_answers = _PastSearch(run, np.array([position, *besides], np.int64), answered=True)
    recorded = with_answers if not besides else _PastSearch(run, np.array([position], np.int64), answered)
    segments = run.segments
    number = segments.segment_of(position)
    base, above = segments.base_of(number), position
    none = np.empty(0, np.int64)
    size = FIRST_ROWS
    while number >= 0 and int(segments.first_position[number]) >= base:
        if recorded is with_answers and not answered and run.assumes(number):
            # No segment so far had an assumed answer, so that one search did for both.
            recorded = with_answers.copy(answered=False)
        first = int(segments.first_position[number])
        stop = above - first + 1
        while stop > 0:
            start = max((stop - 1) // layout.SKELETON_ROWS * layout.SKELETON_ROWS, stop - size)
            past = with_answers.through(number, start) if with_answers.waits_at_or_after(first + start) else none
            recorded_only = past
            if recorded is not with_answers:
                recorded_only = recorded.through(number, start) if recorded.waits_at_or_after(first + start) else none
            yield number, start, stop, past, recorded_only
            stop, size = start, 2 * size
        above, number = first - 1, number - 1


def recorded_causes(run: Run, position: int) -> Longs:
    """Find the recorded direct causes of an event: positions, ascending."""
    return recorded_steps(run, np.array([position], np.int64))[1]


def recorded_steps(run: Run, positions: Longs, *, answered: bool = False) -> tuple[Longs, Longs]:
    """Find the recorded direct causes of events at ascending positions: effects and causes, in ascending pairs.

    `answered`: count answers that are only assumed as recorded.
    """
    effects, references = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number, group, rows in by_groups(run, positions):
        first = int(run.segments.first_position[number])
        causes = run.recorded_group(number, group, answered=answered)
        places, at = causes.entries_of(rows - group * layout.SKELETON_ROWS)
        within = first + group * layout.SKELETON_ROWS + places
        into = edges_into(run, number).of_rows(rows)
        into = into.take(into.are_recorded(answered=answered))
        effects += [within, first + into.row]
        references += [row_reference(within) - causes.back[at], into.reference]
    positions_of_causes, which = _positions(run, np.concatenate(references))
    return distinct_pairs(np.concatenate(effects)[which], positions_of_causes)


def distinct_pairs(effects: Longs, causes: Longs) -> tuple[Longs, Longs]:
    """Sort pairs, and keep each once."""
    order = np.lexsort((causes, effects))
    effects, causes = effects[order], causes[order]
    first = (np.diff(effects, prepend=-1) != 0) | (np.diff(causes, prepend=-1) != 0)
    return effects[first], causes[first]


def by_groups(run: Run, positions: Longs) -> Iterator[tuple[int, int, Longs]]:
    """Split ascending positions by row group of the skeleton: give the segment, the group, and rows of the segment."""
    numbers = np.searchsorted(run.segments.first_position, positions, side="right") - 1
    rows = positions - run.segments.first_position[numbers]
    groups = rows // layout.SKELETON_ROWS
    starts = np.flatnonzero(np.diff(numbers, prepend=-1) | np.diff(groups, prepend=-1))
    for start, stop in itertools.pairwise([*starts.tolist(), len(rows)]):
        yield int(numbers[start]), int(groups[start]), rows[start:stop]


def is_recorded_before(run: Run, earlier: int, later: int, *, answered: bool = False) -> bool:
    """Tell whether the recorded past of the later event holds the earlier one. `earlier` must be the smaller position."""
    for piece in recorded_past(run, np.array([later], np.int64), earlier, answered=answered):
        if piece[0] <= earlier:
            return bool((piece == earlier).any())
    return False


@dataclass(frozen=True, slots=True, eq=False)
class EdgesInto:
    """Edges from before a segment to its rows, by messages and along lines."""

    row: Longs
    """The row of the effect in the segment; ascending."""
    reference: Longs
    """The cause, over the whole history (`ledto.causality.lines`)."""
    assumed: Flags
    """Whether the cause is only assumed."""
    tied: Flags
    """Whether it is assumed because of events at one time, and not as an answer."""

    def are_recorded(self, *, answered: bool) -> Flags:
        """Tell which edges are recorded. `answered`: count answers that are only assumed as recorded."""
        return ~self.tied if answered else ~self.assumed

    def take(self, which: Flags | slice) -> EdgesInto:
        """Select edges."""
        return EdgesInto(self.row[which], self.reference[which], self.assumed[which], self.tied[which])

    def between(self, start: int, stop: int) -> EdgesInto:
        """Select the edges of rows ``start <= row < stop``."""
        low, high = np.searchsorted(self.row, [start, stop])
        return self.take(slice(int(low), int(high)))

    def of_rows(self, rows: Longs) -> EdgesInto:
        """Select the edges of these rows, which must ascend."""
        if not len(rows) or not len(self.row):
            return self.take(slice(0, 0))
        near = self.between(int(rows[0]), int(rows[-1]) + 1)
        return near.take(rows[np.searchsorted(rows, near.row)] == near.row)


def edges_into(run: Run, number: int) -> EdgesInto:
    """Find all edges from before a segment to its rows. The result is cached."""

    def find() -> EdgesInto:
        messages, (row, reference) = run.messages_into(number), line_crossings(run, number)
        rows = np.concatenate((messages.row, row))
        order = np.argsort(rows, kind="stable")
        return EdgesInto(
            rows[order],
            np.concatenate((row_reference(messages.position), reference))[order],
            np.concatenate((messages.assumed, np.zeros(len(row), np.bool_)))[order],
            np.concatenate((messages.tied, np.zeros(len(row), np.bool_)))[order],
        )

    return run.cached(("edges into", number), find, lambda edges: 2 * edges.row.nbytes + 2 * edges.assumed.nbytes)


def line_crossings(run: Run, number: int) -> tuple[Longs, Longs]:
    """Find what rows of a segment follow before it along lines: rows, ascending, and references of the causes."""
    rows, marks = lines_before(run, number)
    mark, of_row = np.unique(marks, return_inverse=True)
    which, references = fronts(run, number, mark)
    by_mark = np.argsort(which, kind="stable")
    counts = np.bincount(which, minlength=len(mark))
    starts = np.cumsum(counts) - counts
    lengths = counts[of_row]
    at = np.repeat(starts[of_row] - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))
    return np.repeat(rows, lengths), references[by_mark][at]


def recorded_crossings(run: Run, number: int) -> tuple[Longs, Longs]:
    """Find the same as `line_crossings`, with the positions of the causes. Lists have many events: may be large."""
    rows, references = line_crossings(run, number)
    positions, which = _positions(run, references)
    order = np.argsort(which, kind="stable")
    return rows[which[order]], positions[order]


def recorded_within(run: Run, number: int) -> tuple[Longs, Longs]:
    """Find the recorded direct causes within a segment: rows of effects, ascending, and rows of causes. May be large."""
    effects, references = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for group in range(-(-int(run.segments.rows[number]) // layout.SKELETON_ROWS)):
        recorded = run.recorded_group(number, group)
        rows = np.repeat(np.arange(len(recorded)), np.diff(recorded.offsets)) + group * layout.SKELETON_ROWS
        effects.append(rows)
        references.append(row_reference(rows) - recorded.back)
    causes, which = members(np.concatenate(references), *run.line_lists(number))
    return np.concatenate(effects)[which], causes


def _positions(run: Run, references: Longs) -> tuple[Longs, Longs]:
    """Resolve references to events: give the events' positions, and for each the place of its reference."""
    segments = run.segments
    names_list = refers_to_list(references)
    alone, lists = np.flatnonzero(~names_list), np.flatnonzero(names_list)
    positions, which = [referred_row(references[alone])], [alone]
    numbers = np.searchsorted(segments.first_position, referred_row(references[lists]), side="right") - 1
    for number in np.unique(numbers).tolist():
        in_segment = lists[numbers == number]
        first = int(segments.first_position[number])
        rows, of = members(references[in_segment] - row_reference(first), *run.line_lists(number))
        positions.append(rows + first)
        which.append(in_segment[of])
    return np.concatenate(positions), np.concatenate(which)


class _PastSearch:
    """A search back from events over all that led to them, at most one row group in each step."""

    __slots__ = ("answered", "run", "size", "waiting")

    def __init__(self, run: Run, positions: Longs, answered: bool = False) -> None:
        """Start at these positions. `answered`: count answers that are only assumed as recorded."""
        self.run, self.answered, self.size = run, answered, FIRST_ROWS
        self.waiting: Longs = row_reference(np.unique(positions))
        """References still to be followed: ascending, each once."""

    def copy(self, *, answered: bool) -> _PastSearch:
        """Make a search that continues from the same place."""
        other = _PastSearch(self.run, np.empty(0, np.int64), answered)
        other.waiting = self.waiting
        return other

    def waits_at_or_after(self, position: int) -> bool:
        """Tell whether the search still has to visit an event at or after a position."""
        return len(self.waiting) > 0 and int(self.waiting[-1]) >= row_reference(position)

    def step(self, down_to: int = 0) -> Longs:
        """Search some rows up to the newest reference; give positions, ascending. May leave out those before `down_to`."""
        newest = referred_row(int(self.waiting[-1]))
        number = self.run.segments.segment_of(newest)
        row = newest - int(self.run.segments.first_position[number])
        start = max(row // layout.SKELETON_ROWS * layout.SKELETON_ROWS, row + 1 - self.size)
        self.size *= 2
        return self.through(number, start, down_to)

    def through(self, number: int, start: int, down_to: int = 0) -> Longs:
        """Search the rows of a segment from `start` up to the newest reference; all must be in one row group."""
        first = int(self.run.segments.first_position[number])
        group, begin = divmod(start, layout.SKELETON_ROWS)
        end = referred_row(int(self.waiting[-1])) - first - group * layout.SKELETON_ROWS + 1
        causes = self.run.recorded_group(number, group, answered=self.answered).part(begin, end)
        base = first + start
        shift = row_reference(base)
        reached = int(np.searchsorted(self.waiting, shift))
        rows, leaving = causes.past_of(self.waiting[reached:] - shift, max(0, down_to - base))
        further = [self.waiting[:reached], leaving + shift]
        if down_to < first:
            into = edges_into(self.run, number).of_rows(rows + start)
            further.append(into.reference[into.are_recorded(answered=self.answered)])
        self.waiting = np.unique(np.concatenate(further))
        return rows + base


def are_recorded_before(run: Run, earlier: Longs, later: Longs) -> Flags:
    """Tell for each pair of positions whether the earlier event is in the recorded past of the later one.

    The earlier position of each pair must be the smaller one.
    """
    is_before = np.zeros(len(earlier), np.bool_)
    order = np.lexsort((earlier, later))
    events, starts = np.unique(later[order], return_index=True)
    bounds = [*starts[::EVENTS_AT_ONCE].tolist(), len(order)]
    for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
        pairs = order[start:stop]
        some = events[number * EVENTS_AT_ONCE :][:EVENTS_AT_ONCE]
        bit = np.searchsorted(some, later[pairs]).astype(np.uint64)
        by_earlier = np.argsort(earlier[pairs])
        pairs, bit = pairs[by_earlier], bit[by_earlier]
        is_before[pairs] = _are_in_past(run, earlier[pairs], bit, some)
    return is_before


def _are_in_past(run: Run, earlier: Longs, bit: Bits, events: Longs) -> Flags:
    """Tell for each pair whether the earlier event is in the past of the event of this bit. `earlier` must ascend."""
    is_before = np.zeros(len(earlier), np.bool_)
    references = row_reference(events)
    bits: Bits = ONE << np.arange(len(events), dtype=np.uint64)
    undecided = len(earlier)
    while undecided and len(references) and int(references[-1]) >= row_reference(int(earlier[0])):
        newest = referred_row(int(references[-1]))
        number = run.segments.segment_of(newest)
        first = int(run.segments.first_position[number])
        group = (newest - first) // layout.SKELETON_ROWS
        # One step covers the group down to the first wanted row, so that no group is read twice.
        start = max(first + group * layout.SKELETON_ROWS, int(earlier[0]))
        begin = start - first - group * layout.SKELETON_ROWS
        causes = run.recorded_group(number, group).part(begin, newest - start + begin + 1)
        shift = row_reference(start)
        reached = int(np.searchsorted(references, shift))
        marked = np.zeros(row_reference(len(causes)), np.uint64)
        marked[references[reached:] - shift] = bits[reached:]
        leaving, leaving_bits = past_of_many(causes.offsets, causes.back, causes.rest, marked)
        bits_of_rows = marked[::2]
        low = int(np.searchsorted(earlier[:undecided], start))
        # Events after the newest reference are in nobody's past.
        high = low + int(np.searchsorted(earlier[low:undecided], newest, side="right"))
        rows = earlier[low:high] - start
        is_before[low:high] = (bits_of_rows[rows] >> bit[low:high]) & ONE != 0
        undecided = low
        more = [references[:reached], leaving + shift]
        more_bits = [bits[:reached], leaving_bits]
        if int(earlier[0]) < first:
            into = edges_into(run, number).between(start - first, newest - first + 1)
            into = into.take(into.are_recorded(answered=False))
            more.append(into.reference)
            more_bits.append(bits_of_rows[into.row - (start - first)])
        references, bits = _merge(np.concatenate(more), np.concatenate(more_bits))
    return is_before


def _merge(references: Longs, bits: Bits) -> tuple[Longs, Bits]:
    """Sort references, join the bits of equal ones, and drop those without bits."""
    chosen = np.flatnonzero(bits)
    order = chosen[np.argsort(references[chosen], kind="stable")]
    references, bits = references[order], bits[order]
    firsts = np.flatnonzero(np.diff(references, prepend=-1))
    return references[firsts], np.bitwise_or.reduceat(bits, firsts) if len(firsts) else bits[:0]
