"""The recorded past of an event, over all segments of a run, the newest first.

Row groups that hold no event of that past are passed over. What a line was before a segment is looked up in the segments
before it, nearest first (`ledto.history.line_fronts`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ledto.causality.recorded_past import members, past_of_many
from ledto.causality.skeleton import Longs
from ledto.history import layout
from ledto.history.line_fronts import fronts, lines_before
from ledto.history.run import Run

Bits = NDArray[np.uint64]

EVENTS_AT_ONCE = 64
ONE = np.uint64(1)


def are_recorded_before(run: Run, earlier: Longs, later: Longs) -> Flags:
    """By pair of positions, of which the later one stands after the earlier one."""
    found = np.zeros(len(earlier), np.bool_)
    order = np.lexsort((earlier, later))
    events, starts = np.unique(later[order], return_index=True)
    bounds = [*starts[::EVENTS_AT_ONCE].tolist(), len(order)]
    for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
        pairs = order[start:stop]
        some = events[number * EVENTS_AT_ONCE :][:EVENTS_AT_ONCE]
        bit = np.searchsorted(some, later[pairs]).astype(np.uint64)
        by_earlier = np.argsort(earlier[pairs])
        pairs, bit = pairs[by_earlier], bit[by_earlier]
        found[pairs] = _are_led(run, earlier[pairs], bit, some)
    return found


def _are_led(run: Run, earlier: Longs, bit: Bits, events: Longs) -> Flags:
    """By pair, ascending by the earlier event: whether that is in the past of the event of this bit."""
    found = np.zeros(len(earlier), np.bool_)
    references = 2 * events
    bits: Bits = ONE << np.arange(len(events), dtype=np.uint64)
    left = len(earlier)
    while left and len(references) and int(references[-1]) >= 2 * int(earlier[0]):
        newest = int(references[-1]) // 2
        number = run.segments.segment_of(newest)
        first = int(run.segments.first_position[number])
        group = (newest - first) // layout.SKELETON_ROWS
        # No row before the first that is asked for need be looked at, and no group twice.
        start = max(first + group * layout.SKELETON_ROWS, int(earlier[0]))
        begin = start - first - group * layout.SKELETON_ROWS
        causes = run.recorded_group(number, group).part(begin, newest - start + begin + 1)
        here = int(np.searchsorted(references, 2 * start))
        marked = np.zeros(2 * len(causes), np.uint64)
        marked[references[here:] - 2 * start] = bits[here:]
        leaving, leaving_bits = past_of_many(causes.offsets, causes.back, causes.rest, marked)
        of_rows = marked[::2]
        asked = int(np.searchsorted(earlier[:left], start))
        # Those after the newest are in nobody's past.
        inside = asked + int(np.searchsorted(earlier[asked:left], newest, side="right"))
        rows = earlier[asked:inside] - start
        found[asked:inside] = (of_rows[rows] >> bit[asked:inside]) & ONE != 0
        left = asked
        into = edges_into(run, number).between(start - first, newest - first + 1) if int(earlier[0]) < first else None
        more = [references[:here], leaving + 2 * start]
        more_bits = [bits[:here], leaving_bits]
        if into is not None:
            into = into.taken(into.counts(answered=False))
            more.append(into.reference)
            more_bits.append(of_rows[into.row - (start - first)])
        references, bits = _merged(np.concatenate(more), np.concatenate(more_bits))
    return found


def _merged(references: Longs, bits: Bits) -> tuple[Longs, Bits]:
    """Each reference once, ascending, with the bits of all, and none without bits."""
    chosen = np.flatnonzero(bits)
    order = chosen[np.argsort(references[chosen], kind="stable")]
    references, bits = references[order], bits[order]
    firsts = np.flatnonzero(np.diff(references, prepend=-1))
    return references[firsts], np.bitwise_or.reduceat(bits, firsts) if len(firsts) else bits[:0]


Flags = NDArray[np.bool_]

FIRST_ROWS = 4_096
"""Rows that a search goes through at first. Each time twice as many, because most who ask soon have enough."""


def recorded_past(run: Run, positions: Longs, down_to: int = 0, *, answered: bool = False) -> Iterator[Longs]:
    """Positions of all that led to these events, and their own: ascending pieces, the newest first.

    What stands before `down_to` may be left out. `answered`: answers that are only assumed count as recorded.
    """
    search = _PastSearch(run, positions, answered)
    while search.waits_at_or_after(down_to):
        yield search.step(down_to)


def past_by_stretches(
    run: Run, position: int, *, answered: bool = False, besides: Sequence[int] = ()
) -> Iterator[tuple[int, int, int, Longs, Longs]]:
    """The same for one event, stretch by stretch: the segment, its rows from which to which, and positions twice.

    First those that answers lead from which are only assumed, together with those that are recorded, then the recorded ones
    alone; there may be none. `answered`: answers count as recorded, so that both are the same. `besides`: the first have
    all that led to these events, too, which stand before the event. A stretch lies in one row group of the skeleton.
    """
    led = _PastSearch(run, np.array([position, *besides], np.int64), answered=True)
    recorded = led if not besides else _PastSearch(run, np.array([position], np.int64), answered)
    segments = run.segments
    number = segments.segment_of(position)
    base, above = segments.base_of(number), position
    none = np.empty(0, np.int64)
    size = FIRST_ROWS
    while number >= 0 and int(segments.first_position[number]) >= base:
        if recorded is led and not answered and run.assumes(number):
            # Up to here no answer was met, so that both searches stand at the same place.
            recorded = led.copy(answered=False)
        first = int(segments.first_position[number])
        stop = above - first + 1
        while stop > 0:
            start = max((stop - 1) // layout.SKELETON_ROWS * layout.SKELETON_ROWS, stop - size)
            found = led.through(number, start) if led.waits_at_or_after(first + start) else none
            known = found
            if recorded is not led:
                known = recorded.through(number, start) if recorded.waits_at_or_after(first + start) else none
            yield number, start, stop, found, known
            stop, size = start, 2 * size
        above, number = first - 1, number - 1


def recorded_causes(run: Run, position: int) -> Longs:
    """Positions of what an event follows directly, by what is recorded; ascending."""
    return recorded_steps(run, np.array([position], np.int64))[1]


def recorded_steps(run: Run, positions: Longs, *, answered: bool = False) -> tuple[Longs, Longs]:
    """What events at ascending positions follow directly, by what is recorded: effects and causes, in ascending pairs.

    `answered`: and by answers that are only assumed.
    """
    effects, references = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number, group, rows in by_groups(run, positions):
        first = int(run.segments.first_position[number])
        causes = run.recorded_group(number, group, answered=answered)
        places, at = causes.entries_of(rows - group * layout.SKELETON_ROWS)
        own = first + group * layout.SKELETON_ROWS + places
        before = edges_into(run, number).of_rows(rows)
        before = before.taken(before.counts(answered=answered))
        effects += [own, first + before.row]
        references += [2 * own - causes.back[at], before.reference]
    found, which = _positions(run, np.concatenate(references))
    return distinct_pairs(np.concatenate(effects)[which], found)


def distinct_pairs(effects: Longs, causes: Longs) -> tuple[Longs, Longs]:
    """Each pair once, ascending."""
    order = np.lexsort((causes, effects))
    effects, causes = effects[order], causes[order]
    first = (np.diff(effects, prepend=-1) != 0) | (np.diff(causes, prepend=-1) != 0)
    return effects[first], causes[first]


def by_groups(run: Run, positions: Longs) -> Iterator[tuple[int, int, Longs]]:
    """Ascending positions by row group of the skeleton: the segment, the group, and rows of the segment."""
    numbers = np.searchsorted(run.segments.first_position, positions, side="right") - 1
    rows = positions - run.segments.first_position[numbers]
    groups = rows // layout.SKELETON_ROWS
    starts = np.flatnonzero(np.diff(numbers, prepend=-1) | np.diff(groups, prepend=-1))
    for start, stop in itertools.pairwise([*starts.tolist(), len(rows)]):
        yield int(numbers[start]), int(groups[start]), rows[start:stop]


def is_recorded_before(run: Run, earlier: int, later: int, *, answered: bool = False) -> bool:
    """Tell whether what is recorded leads from one event to another, which stands after it."""
    for found in recorded_past(run, np.array([later], np.int64), earlier, answered=answered):
        if found[0] <= earlier:
            return bool((found == earlier).any())
    return False


@dataclass(frozen=True, slots=True, eq=False)
class EdgesInto:
    """What rows of a segment follow that stands before it."""

    row: Longs
    """Ascending."""
    reference: Longs
    assumed: Flags
    """Whether the row is only assumed to follow it ..."""
    tied: Flags
    """... and not as an answer, but because of events at one time."""

    def counts(self, *, answered: bool) -> Flags:
        """Tell which are recorded; `answered`: answers that are only assumed count as recorded."""
        return ~self.tied if answered else ~self.assumed

    def taken(self, which: Flags | slice) -> EdgesInto:
        """Some of them."""
        return EdgesInto(self.row[which], self.reference[which], self.assumed[which], self.tied[which])

    def between(self, start: int, stop: int) -> EdgesInto:
        """Those of rows ``start <= row < stop``."""
        low, high = np.searchsorted(self.row, [start, stop])
        return self.taken(slice(int(low), int(high)))

    def of_rows(self, rows: Longs) -> EdgesInto:
        """Those of these rows, which ascend."""
        if not len(rows) or not len(self.row):
            return self.taken(slice(0, 0))
        near = self.between(int(rows[0]), int(rows[-1]) + 1)
        return near.taken(rows[np.searchsorted(rows, near.row)] == near.row)


def edges_into(run: Run, number: int) -> EdgesInto:
    """All that rows of a segment follow before it, by messages and along their lines. Found once, and kept."""

    def find() -> EdgesInto:
        messages, (row, reference) = run.messages_into(number), line_crossings(run, number)
        rows = np.concatenate((messages.row, row))
        order = np.argsort(rows, kind="stable")
        return EdgesInto(
            rows[order],
            np.concatenate((2 * messages.position, reference))[order],
            np.concatenate((messages.assumed, np.zeros(len(row), np.bool_)))[order],
            np.concatenate((messages.tied, np.zeros(len(row), np.bool_)))[order],
        )

    return run.kept(("edges into", number), find, lambda found: 2 * found.row.nbytes + 2 * found.assumed.nbytes)


def line_crossings(run: Run, number: int) -> tuple[Longs, Longs]:
    """What rows of a segment follow before it along their lines: rows, ascending, and references."""
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
    """The same, with the positions of all events that the references stand for: may be very many."""
    rows, references = line_crossings(run, number)
    positions, which = _positions(run, references)
    order = np.argsort(which, kind="stable")
    return rows[which[order]], positions[order]


def recorded_within(run: Run, number: int) -> tuple[Longs, Longs]:
    """Rows of a segment, ascending, and the rows of the same segment that they follow directly: may be very many."""
    effects, references = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for group in range(-(-int(run.segments.rows[number]) // layout.SKELETON_ROWS)):
        recorded = run.recorded_group(number, group)
        rows = np.repeat(np.arange(len(recorded)), np.diff(recorded.offsets)) + group * layout.SKELETON_ROWS
        effects.append(rows)
        references.append(2 * rows - recorded.back)
    found, which = members(np.concatenate(references), *run.line_lists(number))
    return np.concatenate(effects)[which], found


def _positions(run: Run, references: Longs) -> tuple[Longs, Longs]:
    """The events that references stand for, and for each which of the references that was."""
    segments = run.segments
    is_list = references % 2 == 1
    alone, lists = np.flatnonzero(~is_list), np.flatnonzero(is_list)
    found, which = [references[alone] // 2], [alone]
    numbers = np.searchsorted(segments.first_position, references[lists] // 2, side="right") - 1
    for number in np.unique(numbers).tolist():
        mine = lists[numbers == number]
        first = int(segments.first_position[number])
        rows, of = members(references[mine] - 2 * first, *run.line_lists(number))
        found.append(rows + first)
        which.append(mine[of])
    return np.concatenate(found), np.concatenate(which)


class _PastSearch:
    """Goes back from events over all that leads to them, one row group at a time."""

    __slots__ = ("answered", "run", "size", "waiting")

    def __init__(self, run: Run, positions: Longs, answered: bool = False) -> None:
        """`answered`: answers that are only assumed count."""
        self.run, self.answered, self.size = run, answered, FIRST_ROWS
        self.waiting: Longs = 2 * np.unique(positions)
        """References, ascending, each once."""

    def copy(self, *, answered: bool) -> _PastSearch:
        """A search that goes on from the same place."""
        other = _PastSearch(self.run, np.empty(0, np.int64), answered)
        other.waiting = self.waiting
        return other

    def waits_at_or_after(self, position: int) -> bool:
        return len(self.waiting) > 0 and int(self.waiting[-1]) >= 2 * position

    def step(self, down_to: int = 0) -> Longs:
        """Go through rows up to the newest reference; what stands before `down_to` may be left out."""
        newest = int(self.waiting[-1]) // 2
        number = self.run.segments.segment_of(newest)
        row = newest - int(self.run.segments.first_position[number])
        start = max(row // layout.SKELETON_ROWS * layout.SKELETON_ROWS, row + 1 - self.size)
        self.size *= 2
        return self.through(number, start, down_to)

    def through(self, number: int, start: int, down_to: int = 0) -> Longs:
        """Go through the rows of a segment from this one on, which are all in one row group, up to the newest reference."""
        first = int(self.run.segments.first_position[number])
        group, begin = divmod(start, layout.SKELETON_ROWS)
        end = int(self.waiting[-1]) // 2 - first - group * layout.SKELETON_ROWS + 1
        causes = self.run.recorded_group(number, group, answered=self.answered).part(begin, end)
        base = first + start
        here = int(np.searchsorted(self.waiting, 2 * base))
        found, leaving = causes.past_of(self.waiting[here:] - 2 * base, max(0, down_to - base))
        further = [self.waiting[:here], leaving + 2 * base]
        if down_to < first:
            before = edges_into(self.run, number).of_rows(found + start)
            further.append(before.reference[before.counts(answered=self.answered)])
        self.waiting = np.unique(np.concatenate(further))
        return found + base
