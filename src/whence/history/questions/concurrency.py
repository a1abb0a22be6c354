"""What may have happened at the same time as an event: neither its cause nor its effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from whence.causality.sweeps import FutureSweep, PastSweep
from whence.history.questions.event import Event, events_at
from whence.history.questions.future import future
from whence.history.questions.locating import code_at, row_of
from whence.history.questions.parts import Part, parts_from, parts_until
from whence.history.questions.past import past_vector_at
from whence.history.reading import Run
from whence.history.tables import Longs


@dataclass(frozen=True, slots=True)
class Concurrent:
    """The answer of `History.concurrent`."""

    event: Event
    events: tuple[Event, ...]
    """The nearest in history order, in that order."""
    total: int
    """How many there are in the computation."""

    @property
    def more(self) -> bool:
        """Whether there are further ones."""
        return self.total > len(self.events)

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return {
            "event": self.event.to_json(),
            "events": [event.to_json() for event in self.events],
            "more": self.more,
            "total": self.total,
        }


def concurrent(run: Run, position: int, k: int) -> Concurrent:
    """The `k` nearest events of the computation that are neither before nor after the event, and the number of all."""
    number, _ = row_of(run, position)
    companions = _companions(run, number, code_at(run, position))
    members = run.segments.codes_of(number)[companions]
    events = int(run.processes.events[members].sum())
    past = int(past_vector_at(run, position)[companions].sum()) - 1
    effects = int(future(run, position)[0].sum())
    total = events - past - effects - 1
    before = _nearest_before(run, position, companions, min(k, total))
    after = _nearest_after(run, position, companions, min(k, total))
    nearest = np.concatenate((before, after))
    nearest = np.sort(nearest[np.argsort(np.abs(nearest - position), kind="stable")[:k]])
    event, *others = events_at(run, np.concatenate(([position], nearest)))
    return Concurrent(event, tuple(others), total)


def _companions(run: Run, number: int, code: int) -> Longs:
    """Local codes of the processes of one computation of a segment."""
    computation = run.processes.computation_number
    return np.flatnonzero(computation[run.segments.codes_of(number)] == computation[code])


def _unrelated(part: Part, related: Longs, companions: Longs) -> Longs:
    others = np.isin(part.skeleton.process, companions)
    others[related] = False
    return np.flatnonzero(others) + part.first_position


def _nearest_before(run: Run, position: int, companions: Longs, k: int) -> Longs:
    sweep = PastSweep(len(run.segments.codes_of(row_of(run, position)[0])), position)
    pieces: list[Longs] = [np.empty(0, np.int64)]
    count = 0
    for part in parts_until(run, position):
        if count >= k:
            break
        found = sweep.step(part.skeleton, part.first_position, edges_across=part.edges_across)
        piece = _unrelated(part, found, companions)
        pieces.append(piece[piece < position])
        count += len(pieces[-1])
        if sweep.reached[companions].all():
            break
    whole = np.concatenate(pieces[::-1])
    return whole[max(0, len(whole) - k) :]


def _nearest_after(run: Run, position: int, companions: Longs, k: int) -> Longs:
    sweep = FutureSweep(len(run.segments.codes_of(row_of(run, position)[0])), position)
    pieces: list[Longs] = [np.empty(0, np.int64)]
    count = 0
    for part in parts_from(run, position):
        if count >= k:
            break
        found = sweep.step(part.skeleton, part.first_position, edges_across=part.edges_across)
        piece = _unrelated(part, found, companions)
        pieces.append(piece[piece > position])
        count += len(pieces[-1])
        if (sweep.entered[companions] >= 0).all():
            break
    return np.concatenate(pieces)[:k]
