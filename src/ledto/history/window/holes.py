"""Where reports are known to be missing: events before which a number is left out, or that name a cause nobody reported.

A call to somebody who does not report, and a request from such a one, are of this kind, too: whatever reached that one may
have come back with the answer, or with the request.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledto.causality.order import NO_TIME
from ledto.causality.skeleton import Ints, Longs, Skeleton
from ledto.events.schema import ANSWER, LOCAL, RECEIVE, SPAN, STAMPED, UNKNOWN_PLACE

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class SegmentHoles:
    """What the events of a segment tell of messages and of missing reports, by process."""

    hole_row: Longs
    """The first row before which a report is missing; -1 for none. What is missing before the segment is not known here."""
    messages: Longs
    """Events that say themselves that they send or receive something. That one span starts another says nothing of it."""
    touched: Flags
    """Whether one of its events is a cause or an effect of one of another process in the segment."""
    stamped: Flags
    """Whether the stamp of its first event says what it knew: then a number that is left out before it hides nothing."""
    unanswered: Longs
    """Rows, ascending, that waited for an answer which nothing in the segment sent."""
    tied: Longs
    """Rows, ascending, that have the time of an earlier event of their process, on another line ..."""
    tied_to: Longs
    """... and the first event of that time, which may have happened after them."""

    def first_of_time(self, rows: Longs) -> Longs:
        """Give for each row the first of its process that may have happened after it, or itself."""
        if not len(self.tied):
            return rows
        at = np.minimum(np.searchsorted(self.tied, rows), len(self.tied) - 1)
        return np.where(self.tied[at] == rows, self.tied_to[at], rows)


def told_by(events: pa.Table, skeleton: Skeleton, processes: int) -> SegmentHoles:
    """Look through the events of a segment, in history order."""
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
    told = SegmentHoles(
        np.full(processes, -1, np.int64),
        np.bincount(process[_talks(events)], minlength=processes).astype(np.int64),
        touched,
        stamped,
        _unanswered(events, effects[apart], causes[apart]),
        tied,
        tied_to,
    )
    rows = np.sort(told.first_of_time(np.flatnonzero(is_hole)))[::-1]
    told.hole_row[process[rows]] = rows
    return told


def _talks(events: pa.Table) -> Flags:
    """By event: whether it says that it sends or receives a message. The key of a span may be there for nobody else."""
    found = np.zeros(len(events), np.bool_)
    for keys in (events["sends"], events["receives"]):
        if keys.null_count < len(keys):
            own = pc.or_(
                pc.or_(pc.starts_with(keys, SPAN), pc.starts_with(keys, ANSWER)), pc.equal(keys, UNKNOWN_PLACE)
            )
            found |= _flags(pc.is_valid(keys)) & ~_flags(pc.and_(own, pc.equal(events["kind"], LOCAL)))
    return found


def _unanswered(events: pa.Table, effects: Longs, causes: Longs) -> Longs:
    """Rows of clients, ascending, that got no answer from another process; `effects` and `causes` are between processes."""
    sends, receives = events["sends"], events["receives"]
    if receives.null_count == len(receives):
        return np.empty(0, np.int64)
    waits = _flags(pc.starts_with(receives, ANSWER)) & _flags(pc.equal(events["kind"], RECEIVE))
    into = waits[effects]
    effects, causes = effects[into], causes[into]
    answers = _flags(pc.equal(receives.take(pa.array(effects)), sends.take(pa.array(causes))))
    waits[effects[answers]] = False
    return np.flatnonzero(waits)


def called_by_nobody(events: pa.Table) -> Flags:
    """By event: whether a server or consumer begins because of somebody who does not report."""
    begins = pc.and_(pc.starts_with(events["sends"], SPAN), pc.equal(events["kind"], RECEIVE))
    return _flags(pc.and_(begins, pc.is_null(events["receives"])))


def _ties(events: pa.Table, process: Ints) -> tuple[Longs, Longs]:
    """Rows, ascending, of events that may have happened before an earlier row of their process, and that row.

    Such are events without numbers at one time, if they are on several lines.
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
    rows, to = order[chosen], order[first[chosen]]
    ascending = np.argsort(rows)
    return rows[ascending], to[ascending]


def _after_gaps(seq: Longs, process: Ints) -> Flags:
    """By row: whether its number does not follow that of the row before in its process."""
    order = np.argsort(process, kind="stable")
    found = np.zeros(len(seq), np.bool_)
    same = process[order][1:] == process[order][:-1]
    found[order[1:]] = same & (seq[order][1:] > seq[order][:-1] + 1) & (seq[order][:-1] > 0)
    return found


def _flags(values: pa.ChunkedArray) -> Flags:
    found: Flags = pc.fill_null(values, False).to_numpy().astype(np.bool_)
    return found
