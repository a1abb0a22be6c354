"""Find holes: events before which a number is left out, or that name a cause which nobody reported.

A call to a process that does not report is a hole, too, and so is a request from one: the answer, or the request, may have
brought along anything that had reached that process.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.order import NO_TIME
from ledto.causality.skeleton import Ints, Longs, Skeleton
from ledto.events.keys import ANSWER, SPAN, STAMPED, UNKNOWN_PLACE
from ledto.events.schema import LOCAL, RECEIVE

Flags = NDArray[np.bool_]

NO_HOLE = -1
"""In place of a row: the process has no hole."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentHoles:
    """What the events of a segment say about missing reports and about messages. The first four are by process."""

    hole_row: Longs
    """Its first row that is a hole, or `NO_HOLE`. Numbers left out before the segment are not known here."""
    messages: Longs
    """The number of its events that send or receive a message. That one span starts another does not count."""
    touched: Flags
    """Whether one of its events is a cause or an effect of another process's event in the segment."""
    stamped: Flags
    """Whether its first event has a stamp that says what it knew. Then a number left out before it is no hole."""
    unanswered: Longs
    """Rows, ascending, that waited for an answer which no event of the segment sent."""
    tied: Longs
    """Rows, ascending, with the time of an earlier row of their process, on another line."""
    tied_to: Longs
    """For each of `tied`: the first row of that time, which may have happened after it."""

    def first_of_time(self, rows: Longs) -> Longs:
        """Give for each row the first row of its process that may have happened after it, or else the row itself."""
        if not len(self.tied):
            return rows
        at = np.minimum(np.searchsorted(self.tied, rows), len(self.tied) - 1)
        return np.where(self.tied[at] == rows, self.tied_to[at], rows)


def find_holes(events: pa.Table, skeleton: Skeleton, processes: int) -> SegmentHoles:
    """Look through the events of a segment, which are in history order."""
    sends, process = events["sends"], skeleton.process
    has_stamp = _flags(pc.starts_with(sends, STAMPED))
    stamped = np.zeros(processes, np.bool_)
    stamped[process[::-1]] = has_stamp[::-1]
    is_hole = _flags(pc.is_valid(events["missing"])) | called_by_nobody(events)
    if events["seq"].null_count < len(events):
        is_hole |= _after_gaps(events["seq"].fill_null(0).to_numpy(), process) & ~has_stamp
    tied, tied_to = _ties(events, process)
    effects, causes = np.repeat(np.arange(len(skeleton)), np.diff(skeleton.offsets)), skeleton.cause_rows()
    apart = process[effects] != process[causes]
    touched = np.zeros(processes, np.bool_)
    touched[process[effects[apart]]] = touched[process[causes[apart]]] = True
    holes = SegmentHoles(
        np.full(processes, NO_HOLE, np.int64),
        np.bincount(process[_have_messages(events)], minlength=processes).astype(np.int64),
        touched,
        stamped,
        _unanswered(events, effects[apart], causes[apart]),
        tied,
        tied_to,
    )
    rows = np.sort(holes.first_of_time(np.flatnonzero(is_hole)))[::-1]
    holes.hole_row[process[rows]] = rows
    return holes


def _have_messages(events: pa.Table) -> Flags:
    """Mark events that send or receive a message. A local event's key of a span does not count: it may have no receiver."""
    marked = np.zeros(len(events), np.bool_)
    for keys in (events["sends"], events["receives"]):
        if keys.null_count < len(keys):
            of_span = pc.or_(
                pc.or_(pc.starts_with(keys, SPAN), pc.starts_with(keys, ANSWER)), pc.equal(keys, UNKNOWN_PLACE)
            )
            marked |= _flags(pc.is_valid(keys)) & ~_flags(pc.and_(of_span, pc.equal(events["kind"], LOCAL)))
    return marked


def _unanswered(events: pa.Table, effects: Longs, causes: Longs) -> Longs:
    """Find rows of clients, ascending, without an answer. `effects` and `causes`: pairs of rows of different processes."""
    sends, receives = events["sends"], events["receives"]
    if receives.null_count == len(receives):
        return np.empty(0, np.int64)
    waits = _flags(pc.starts_with(receives, ANSWER)) & _flags(pc.equal(events["kind"], RECEIVE))
    of_waits = waits[effects]
    effects, causes = effects[of_waits], causes[of_waits]
    answers = _flags(pc.equal(receives.take(pa.array(effects)), sends.take(pa.array(causes))))
    waits[effects[answers]] = False
    return np.flatnonzero(waits)


def called_by_nobody(events: pa.Table) -> Flags:
    """Mark starts of servers and consumers whose caller does not report."""
    begins = pc.and_(pc.starts_with(events["sends"], SPAN), pc.equal(events["kind"], RECEIVE))
    return _flags(pc.and_(begins, pc.is_null(events["receives"])))


def _ties(events: pa.Table, process: Ints) -> tuple[Longs, Longs]:
    """Find rows, ascending, that may have happened before an earlier row of their process; return them and that row.

    These are rows without numbers, of one process and time, on several lines.
    """
    none = np.empty(0, np.int64)
    if "line" not in events.column_names or events["line"].null_count == len(events):
        return none, none
    time, numbered = events["time"].fill_null(NO_TIME).to_numpy(), _flags(pc.is_valid(events["seq"]))
    order = np.argsort(process, kind="stable")
    same = np.diff(process[order], prepend=-1) == 0
    same[1:] &= (np.diff(time[order]) == 0) & (time[order][1:] != NO_TIME) & ~numbered[order][1:]
    if not same.any():
        return none, none
    encoded = events["line"].combine_chunks().dictionary_encode()
    line = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)[order]
    first = np.maximum.accumulate(np.where(same, 0, np.arange(len(order))))
    mixed = np.zeros(len(order), np.bool_)
    mixed[first[line != line[first]]] = True
    chosen = np.flatnonzero(same & mixed[first])
    rows, first_rows = order[chosen], order[first[chosen]]
    ascending = np.argsort(rows)
    return rows[ascending], first_rows[ascending]


def _after_gaps(seq: Longs, process: Ints) -> Flags:
    """Mark rows with a number left out between them and the row before in their process; `seq` is 0 for null."""
    order = np.argsort(process, kind="stable")
    after_gap = np.zeros(len(seq), np.bool_)
    same = process[order][1:] == process[order][:-1]
    after_gap[order[1:]] = same & (seq[order][1:] > seq[order][:-1] + 1) & (seq[order][:-1] > 0)
    return after_gap


def _flags(values: pa.ChunkedArray) -> Flags:
    """Convert truth values to an array; null is false."""
    flags: Flags = pc.fill_null(values, False).to_numpy().astype(np.bool_)
    return flags
