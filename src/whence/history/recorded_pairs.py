"""Of many pairs of events: whether what is recorded leads from the earlier one to the later one.

The pasts of 64 events are followed at a time, one bit of a number for each.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from whence.causality.recorded_past import past_of_many
from whence.causality.skeleton import Longs
from whence.history import layout
from whence.history.run import Run
from whence.history.recorded import Flags, edges_into

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
