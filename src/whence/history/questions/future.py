"""What came of an event: all of its effects counted, and the next of them listed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from whence.causality.sweeps import FutureSweep
from whence.history.questions.event import Event, events_at
from whence.history.questions.locating import code_at, indices_at, row_of
from whence.history.questions.parts import parts_from
from whence.history.reading import Run
from whence.history.tables import Longs


@dataclass(frozen=True, slots=True)
class Affected:
    """A process that an event had effects in."""

    process: str
    events: int
    """How many of its events the asked event happened before."""

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return {"process": self.process, "events": self.events}


@dataclass(frozen=True, slots=True)
class Impact:
    """The answer of `History.impact`."""

    event: Event
    events: tuple[Event, ...]
    """The first events it happened before, in an order in which each comes before its own effects."""
    total: int
    """How many there are in all."""
    processes: tuple[Affected, ...]
    """The processes they belong to, the one with most first."""

    @property
    def more(self) -> bool:
        """Whether there are further effects after those listed."""
        return self.total > len(self.events)

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return {
            "event": self.event.to_json(),
            "events": [event.to_json() for event in self.events],
            "more": self.more,
            "total": self.total,
            "processes": [each.to_json() for each in self.processes],
        }


def future(run: Run, position: int) -> tuple[Longs, Longs]:
    """How many events of each process, by local code, an event happened before; and where its future enters each."""
    sweep = _swept_until_complete(run, position)
    return _counts(run, position, sweep.entered), sweep.entered


def impact(run: Run, position: int, k: int) -> Impact:
    """The first `k` effects, and the number of all."""
    number, _ = row_of(run, position)
    sweep = FutureSweep(len(run.segments.codes_of(number)), position)
    pieces: list[Longs] = []
    listed = 0
    for part in parts_from(run, position):
        rows = sweep.step(part.skeleton, part.first_position, edges_across=part.edges_across)
        if listed < k:
            pieces.append(rows[: k - listed] + part.first_position)
            listed += len(pieces[-1])
        if sweep.complete and listed >= k:
            break
    counts = _counts(run, position, sweep.entered)
    event, *effects = events_at(run, np.concatenate([[position], *pieces]).astype(np.int64))
    codes = run.segments.codes_of(number)
    affected = [Affected(run.processes.name(int(codes[each])), int(counts[each])) for each in np.flatnonzero(counts)]
    affected.sort(key=lambda each: (-each.events, each.process))
    return Impact(event, tuple(effects), int(counts.sum()), tuple(affected))


def _swept_until_complete(run: Run, position: int) -> FutureSweep:
    sweep = FutureSweep(len(run.segments.codes_of(row_of(run, position)[0])), position, limit=None)
    for part in parts_from(run, position):
        sweep.step(part.skeleton, part.first_position, edges_across=part.edges_across)
        if sweep.complete:
            break
    return sweep


def _counts(run: Run, position: int, entered: Longs) -> Longs:
    """Events of each process from where the future entered it, without the event itself."""
    number, _ = row_of(run, position)
    counts = np.zeros(len(entered), np.int64)
    reached = np.flatnonzero(entered >= 0)
    codes = run.segments.codes_of(number)[reached]
    counts[reached] = run.processes.events[codes] - indices_at(run, entered[reached]) + 1
    own = np.flatnonzero(run.segments.codes_of(number) == code_at(run, position))
    counts[own] -= 1
    return counts
