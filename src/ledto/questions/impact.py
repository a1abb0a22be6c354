"""What came of an event: all of its effects counted, and the next of them listed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ledto.causality.paths import UNREACHED
from ledto.causality.sweeps import FutureSweep
from ledto.history.run import Run
from ledto.history.tables import Longs
from ledto.questions.event import Event, events_at
from ledto.questions.locate import code_at, indices_at, row_of
from ledto.questions.parts import parts_from
from ledto.questions.path import guesses_between

FIRST_LOOK, LAST_LOOK = 1 << 15, 1 << 18
"""Events after an event in which its effects are told apart, at first and at most."""


@dataclass(frozen=True, slots=True)
class Affected:
    """A process that an event had effects in."""

    process: str
    events: int
    """How many of its events the asked event led to, or may have."""

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return {"process": self.process, "events": self.events}


@dataclass(frozen=True, slots=True)
class Impact:
    """The answer of `History.impact`."""

    event: Event
    effects: tuple[Event, ...]
    """The first events that it is recorded to have led to, in an order in which each comes before its own effects."""
    total: int
    """How many there are in all: recorded ones and possible ones."""
    processes: tuple[Affected, ...]
    """The processes they belong to, the one with most first."""
    possible: tuple[Event, ...] = ()
    """The first events that it may have led to, though nothing recorded says so, in the same order."""
    more: bool = False
    """Whether there may be further recorded effects."""
    more_possible: bool = False
    """Whether there may be further possible ones."""

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return {
            "event": self.event.to_json(),
            "effects": [event.to_json() for event in self.effects],
            "more": self.more,
            "total": self.total,
            "processes": [each.to_json() for each in self.processes],
            "possible": [event.to_json() for event in self.possible],
            "more_possible": self.more_possible,
        }


def future(run: Run, position: int) -> tuple[Longs, Longs]:
    """How many events of each process, by local code, an event happened before; and where its future enters each."""
    sweep = _swept_until_complete(run, position)
    return _counts(run, position, sweep.entered), sweep.entered


def impact(run: Run, position: int, k: int, most_possible: int) -> Impact:
    """The first `k` effects, up to `most_possible` of those that are only possible, and the number of all."""
    number, _ = row_of(run, position)
    sweep = FutureSweep(len(run.segments.codes_of(number)), position)
    pieces: list[Longs] = [np.empty(0, np.int64)]
    listed = k if run.has_lines else 0
    for part in parts_from(run, position):
        rows = sweep.step(part.skeleton, part.first_position, edges_across=part.edges_across)
        if listed < k:
            pieces.append(rows[: k - listed] + part.first_position)
            listed += len(pieces[-1])
        if sweep.complete and listed >= k:
            break
    counts = _counts(run, position, sweep.entered)
    total = int(counts.sum())
    codes = run.segments.codes_of(number)
    affected = [Affected(run.processes.name(int(codes[each])), int(counts[each])) for each in np.flatnonzero(counts)]
    affected.sort(key=lambda each: (-each.events, each.process))
    led, may, all_seen = np.concatenate(pieces), np.empty(0, np.int64), True
    if run.has_lines:
        led, may, all_seen = _told_apart(run, position, k, most_possible, total)
    event, *effects = events_at(run, np.concatenate(([position], led[:k])))
    return Impact(
        event,
        tuple(effects),
        total,
        tuple(affected),
        events_at(run, may[:most_possible]),
        more=len(led) > k or not all_seen if run.has_lines else total > len(led),
        more_possible=len(may) > most_possible or not all_seen,
    )


def _told_apart(run: Run, position: int, k: int, most_possible: int, total: int) -> tuple[Longs, Longs, bool]:
    """Positions of recorded effects and of possible ones, ascending, and whether these are all there are."""
    rows = FIRST_LOOK
    while True:
        last = min(position + rows, run.events_total - 1)
        guesses = guesses_between(run, position, last)[1:]
        led = np.flatnonzero(guesses == 0) + position + 1
        may = np.flatnonzero((guesses > 0) & (guesses != UNREACHED)) + position + 1
        enough = len(led) > k and len(may) > most_possible
        all_seen = len(led) + len(may) == total
        if enough or all_seen or rows >= LAST_LOOK:
            return led, may, all_seen
        rows *= 8


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
