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

from whence.causality.skeleton import Ints, Longs
from whence.events.schema import ANSWER, RECEIVE, SPAN, STAMPED

Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What the events of a segment tell of messages and of missing reports, by process."""

    hole_row: Longs
    """The first row before which a report is missing; -1 for none. What is missing before the segment is not known here."""
    messages: Longs
    """Events that send or receive something."""
    stamped: Flags
    """Whether its stamps say what it knew: then a number that is left out hides nothing."""
    unanswered: Longs
    """Rows, ascending, that waited for an answer which nothing in the segment sent."""


def told_by(events: pa.Table, process: Ints, processes: int, assumed: Longs) -> Told:
    """Look through the events of a segment, in history order; `assumed` tells how many answers each got in it."""
    sends, receives = events["sends"], events["receives"]
    talks = _flags(pc.or_(pc.is_valid(sends), pc.is_valid(receives)))
    stamped = np.zeros(processes, np.bool_)
    if sends.null_count < len(sends):
        stamped[process[_flags(pc.starts_with(sends, STAMPED))]] = True
    is_hole = _flags(pc.is_valid(events["missing"])) | called_by_nobody(events)
    unanswered = np.empty(0, np.int64)
    if receives.null_count < len(receives):
        waits = _flags(pc.starts_with(receives, ANSWER)) & _flags(pc.equal(events["kind"], RECEIVE))
        unanswered = np.flatnonzero(waits & (assumed == 0))
    if events["seq"].null_count < len(events):
        is_hole |= _after_gaps(events["seq"].fill_null(0).to_numpy(), process) & ~stamped[process]
    rows = np.flatnonzero(is_hole)[::-1]
    hole_row = np.full(processes, -1, np.int64)
    hole_row[process[rows]] = rows
    return Told(hole_row, np.bincount(process[talks], minlength=processes).astype(np.int64), stamped, unanswered)


def called_by_nobody(events: pa.Table) -> Flags:
    """By event: whether a server or consumer begins because of somebody who does not report."""
    begins = pc.and_(pc.starts_with(events["sends"], SPAN), pc.equal(events["kind"], RECEIVE))
    return _flags(pc.and_(begins, pc.is_null(events["receives"])))


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
