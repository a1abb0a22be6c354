"""Answer which events are concurrent with an event: neither can have led to the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ledto.causality.sweeps import FutureSweep, PastSweep
from ledto.history.run import Run
from ledto.history.tables import Longs
from ledto.questions.answer import ASKED, CONCURRENT, EventAnswer, count, name_event
from ledto.questions.event import Event, events_at
from ledto.questions.impact import future
from ledto.questions.locate import code_at, row_of
from ledto.questions.missing import are_tainted, first_tainted, is_tainted
from ledto.questions.parts import SegmentRows, parts_from, parts_until, past_vector_at


@dataclass(frozen=True, slots=True, repr=False)
class Concurrent(EventAnswer):
    """The answer of `History.concurrent`."""

    event: Event
    events: tuple[Event, ...]
    """The nearest concurrent events, in history order."""
    total: int
    """How many concurrent events the computation has."""
    unknown: int = 0
    """How many events may be concurrent or not, because reports are missing."""
    numbered: bool = True
    """Whether sources number all events. If not, a lost report may go unnoticed, and the answer holds only if none was."""

    @property
    def more(self) -> bool:
        """Whether there are more than those listed."""
        return self.total > len(self.events)

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints."""
        return {
            "event": self.event.to_json(),
            "events": [event.to_json() for event in self.events],
            "more": self.more,
            "total": self.total,
            "unknown": self.unknown,
            "numbered": self.numbered,
        }

    def listed(self) -> Sequence[tuple[str, Event]]:
        """List the event itself, and the concurrent ones."""
        return ((ASKED, self.event), *((CONCURRENT, event) for event in self.events))

    def summary(self) -> str:
        unknown = f", {self.unknown:,} unknown" if self.unknown else ""
        return f"{name_event(self.event)}: {count(self.total, 'concurrent event')}{unknown}"

    def notes(self) -> Sequence[str]:
        return (
            *(["There are more: these are the nearest."] if self.more else ()),
            *([f"Of {self.unknown:,} more it is not known, because reports are missing."] if self.unknown else ()),
            *([] if self.numbered else ["This holds only if no report was lost: not all events have numbers."]),
        )


def concurrent(run: Run, position: int, k: int) -> Concurrent:
    """Find the `k` nearest events of the computation that are provably concurrent with an event; count all."""
    number, _ = row_of(run, position)
    companions = _companions(run, number, code_at(run, position))
    members = run.segments.codes_of(number)[companions]
    events = run.processes.events[members]
    past = past_vector_at(run, position)[companions]
    unrelated = events - past - future(run, position)[0][companions]
    unrelated[members == code_at(run, position)] = 0
    # Of the events of a process between past and future, those from its first tainted one on are in doubt.
    doubtful = np.clip(past + unrelated - np.maximum(past, first_tainted(run)[members] - 1), 0, unrelated)
    if is_tainted(run, position):
        doubtful = unrelated
    total = int((unrelated - doubtful).sum())
    before = _nearest(run, position, companions, min(k, total), _before)
    after = _nearest(run, position, companions, min(k, total), _after)
    nearest = np.concatenate((before, after))
    nearest = np.sort(nearest[np.argsort(np.abs(nearest - position), kind="stable")[:k]])
    event, *others = events_at(run, np.concatenate(([position], nearest)))
    return Concurrent(event, tuple(others), total, int(doubtful.sum()), run.has_numbers)


def _nearest(
    run: Run, position: int, companions: Longs, k: int, pieces: Callable[[Run, int, Longs], Iterator[Longs]]
) -> Longs:
    """Return the first `k` untainted positions of pieces that come nearest first."""
    nearest = np.empty(0, np.int64)
    if not k:
        return nearest
    for piece in pieces(run, position, companions):
        nearest = np.concatenate((nearest, piece[~are_tainted(run, piece)]))
        if len(nearest) >= k:
            break
    return nearest[:k]


def _companions(run: Run, number: int, code: int) -> Longs:
    """Find the processes of a segment, by local code, in the computation of a process."""
    computation = run.processes.computation_number
    return np.flatnonzero(computation[run.segments.codes_of(number)] == computation[code])


def _unrelated(part: SegmentRows, related: Longs, companions: Longs) -> Longs:
    """Find the positions of rows of the companions that are not among the related rows."""
    others = np.isin(part.skeleton.process, companions)
    others[related] = False
    return np.flatnonzero(others) + part.first_position


def _before(run: Run, position: int, companions: Longs) -> Iterator[Longs]:
    """Yield events before it in history order that are not in its past, the nearest first."""
    sweep = PastSweep(len(run.segments.codes_of(row_of(run, position)[0])), position)
    for part in parts_until(run, position):
        related = sweep.step(part.skeleton, part.first_position, edges_across=part.edges_across)
        piece = _unrelated(part, related, companions)
        yield piece[piece < position][::-1]
        if sweep.reached[companions].all():
            return


def _after(run: Run, position: int, companions: Longs) -> Iterator[Longs]:
    """Yield events after it in history order that are not in its future, the nearest first."""
    sweep = FutureSweep(len(run.segments.codes_of(row_of(run, position)[0])), position)
    for part in parts_from(run, position):
        related = sweep.step(part.skeleton, part.first_position, edges_across=part.edges_across)
        piece = _unrelated(part, related, companions)
        yield piece[piece > position]
        if (sweep.entered[companions] >= 0).all():
            return
