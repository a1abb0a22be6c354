"""What is known to be missing: reports without which nobody can say that two events are concurrent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.causality.taint import NEVER
from whence.events.keys import ANSWER, CALLER, SPAN
from whence.history.questions.dealing import numbers_within
from whence.history.questions.event import events_at
from whence.history.questions.locating import code_at, index_at, position_of_index
from whence.history.reading import Run
from whence.history.tables import Longs

SHOWN = 10
"""Processes whose missing reports are told, at most."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that is known to have happened and of which the history has no report."""

    process: str | None
    """The process whose reports are missing; None where only a message tells of it."""
    after_seq: int | None
    before_seq: int | None
    """The missing events lie between these two of the process."""
    events: int
    """How many, at least."""
    message: str | None = None
    """A message that was received and whose sending nobody reported, or a span that something names as its cause."""
    received_by: str | None = None
    """The id of the event that received it, or names it."""
    no_messages: bool = False
    """The process tells of no message at all, so that nobody knows what reached it, and what it reached."""

    def to_json(self) -> dict[str, Any]:
        """The fields that say something."""
        every = {name: getattr(self, name) for name in Missing.__slots__}
        return {name: value for name, value in every.items() if value is not None and value is not False}


def first_holes(run: Run) -> Longs:
    """By process: the number of its first event before which a report is missing; `NEVER` for none."""
    return _numbers(run, "first_hole")


def first_tainted(run: Run) -> Longs:
    """By process: the number of its first event with such an event in its past; `NEVER` for none."""
    return _numbers(run, "first_tainted")


def is_tainted(run: Run, position: int) -> bool:
    """Tell whether a report is missing in what may have led to an event."""
    first = int(first_tainted(run)[code_at(run, position)])
    return first != NEVER and index_at(run, position) >= first


def are_tainted(run: Run, positions: Longs) -> NDArray[np.bool_]:
    """`is_tainted` of many positions; each segment is read once."""
    found = np.zeros(len(positions), np.bool_)
    first = first_tainted(run)
    numbers = np.searchsorted(run.segments.first_position, positions, side="right") - 1
    for number in np.unique(numbers).tolist():
        codes = run.segments.codes_of(number)
        if (first[codes] == NEVER).all():
            continue
        mine = np.flatnonzero(numbers == number)
        process = run.process_column(number).astype(np.int32)
        index = numbers_within(process, run.segments.before_of(number).astype(np.int64))
        rows = positions[mine] - run.segments.first_position[number]
        found[mine] = index[rows] >= first[codes[process[rows]]]
    return found


def missing_before(run: Run, codes: Longs, past: Longs) -> tuple[Missing, ...]:
    """What is missing in a past, given how many events of each of these processes are in it: the latest first."""
    holes = first_holes(run)[codes]
    reached = np.flatnonzero((past >= holes) & (past > 0))
    places = [position_of_index(run, int(codes[each]), int(holes[each])) for each in reached[: 4 * SHOWN].tolist()]
    latest = sorted(zip(places, reached.tolist(), strict=False), reverse=True)[:SHOWN]
    return tuple(told for place, each in latest for told in _missing_at(run, place, int(codes[each]), int(holes[each])))


def _missing_at(run: Run, position: int, code: int, index: int) -> Iterator[Missing]:
    """What an event shows to be missing, which is the first of its process that shows such a thing."""
    name = run.processes.name(code)
    if run.processes.table["messages"][code].as_py() == 0:
        yield Missing(name, None, None, 0, no_messages=True)
        return
    positions = [position] if index == 1 else [position_of_index(run, code, index - 1), position]
    *before, event = events_at(run, positions)
    after_seq = before[0].seq if before else None
    left_out = event.seq - (after_seq or 0) - 1
    if run.has_numbers and left_out > 0:
        yield Missing(name, after_seq, event.seq, left_out)
    for key in event.missing:
        yield Missing(None, None, None, 1, key, event.id)
    if (event.receives or "").startswith(ANSWER) and not event.missing:
        yield Missing(None, None, None, 1, event.receives, event.id)
    elif event.receives is None and (event.sends or "").startswith(SPAN):
        yield Missing(None, None, None, 1, CALLER, event.id)


def _numbers(run: Run, column: str) -> Longs:
    found: Longs = run.processes.table[column].fill_null(NEVER).to_numpy()
    return found
