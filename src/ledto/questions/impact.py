"""Answer what came of an event: count all of its effects, and list the first of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ledto.causality.paths import UNREACHED
from ledto.causality.sweeps import FutureSweep
from ledto.history.run import Run
from ledto.history.tables import Longs
from ledto.questions.answer import ASKED, EFFECT, POSSIBLE, EventAnswer, count, name_event
from ledto.questions.event import Event, events_at
from ledto.questions.locate import code_at, indices_at, row_of
from ledto.questions.parts import parts_from
from ledto.questions.path import guesses_between

FIRST_LOOK, LAST_LOOK = 1 << 15, 1 << 18
"""How many events after an event are searched for recorded and possible effects: at first, and at most."""


@dataclass(frozen=True, slots=True)
class Affected:
    """A process with effects of an event."""

    process: str
    events: int
    """How many of its events are effects, possible ones included."""

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints."""
        return {"process": self.process, "events": self.events}


@dataclass(frozen=True, slots=True, repr=False)
class Impact(EventAnswer):
    """The answer of `History.impact`."""

    event: Event
    effects: tuple[Event, ...]
    """The first events that it is recorded to have led to. Causes come before their effects."""
    total: int
    """How many effects there are in all, possible ones included."""
    processes: tuple[Affected, ...]
    """The processes with effects, the one with most first."""
    possible: tuple[Event, ...] = ()
    """The first events that it may have led to, though no report says so, in the same order."""
    more: bool = False
    """Whether there may be more recorded effects."""
    more_possible: bool = False
    """Whether there may be more possible effects."""

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints."""
        return {
            "event": self.event.to_json(),
            "effects": [event.to_json() for event in self.effects],
            "more": self.more,
            "total": self.total,
            "processes": [process.to_json() for process in self.processes],
            "possible": [event.to_json() for event in self.possible],
            "more_possible": self.more_possible,
        }

    def listed(self) -> Sequence[tuple[str, Event]]:
        """List the event itself, the effects, and the possible effects."""
        return (
            (ASKED, self.event),
            *((EFFECT, event) for event in self.effects),
            *((POSSIBLE, event) for event in self.possible),
        )

    def summary(self) -> str:
        reached = f"{count(self.total, 'effect')} in {count(len(self.processes), 'process')}"
        return f"{name_event(self.event)}: {reached}, possible ones included"

    def notes(self) -> Sequence[str]:
        return (
            *(["There may be more recorded effects than those listed."] if self.more else ()),
            *(["There may be more possible effects than those listed."] if self.more_possible else ()),
        )


def future(run: Run, position: int) -> tuple[Longs, Longs]:
    """Count, by local code of the process, the events that an event may have led to; and find the first position of each.

    The first position is -1 for a process without effects.
    """
    sweep = _sweep_until_complete(run, position)
    return _counts(run, position, sweep.entered), sweep.entered


def impact(run: Run, position: int, k: int, most_possible: int) -> Impact:
    """Find the first `k` recorded effects and up to `most_possible` possible ones; count all."""
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
    affected = [Affected(run.processes.name(int(codes[code])), int(counts[code])) for code in np.flatnonzero(counts)]
    affected.sort(key=lambda process: (-process.events, process.process))
    recorded, possible, all_seen = np.concatenate(pieces), np.empty(0, np.int64), True
    if run.has_lines:
        recorded, possible, all_seen = _tell_apart(run, position, k, most_possible, total)
    event, *effects = events_at(run, np.concatenate(([position], recorded[:k])))
    return Impact(
        event,
        tuple(effects),
        total,
        tuple(affected),
        events_at(run, possible[:most_possible]),
        more=len(recorded) > k or not all_seen if run.has_lines else total > len(recorded),
        more_possible=len(possible) > most_possible or not all_seen,
    )


def _tell_apart(run: Run, position: int, k: int, most_possible: int, total: int) -> tuple[Longs, Longs, bool]:
    """Find the positions of recorded effects and of possible ones, ascending, and whether these are all `total` effects.

    Looks further ahead until there are enough of both, or `LAST_LOOK` events were searched.
    """
    rows = FIRST_LOOK
    while True:
        last = min(position + rows, run.events_total - 1)
        guesses = guesses_between(run, position, last)[1:]
        recorded = np.flatnonzero(guesses == 0) + position + 1
        possible = np.flatnonzero((guesses > 0) & (guesses != UNREACHED)) + position + 1
        enough = len(recorded) > k and len(possible) > most_possible
        all_seen = len(recorded) + len(possible) == total
        if enough or all_seen or rows >= LAST_LOOK:
            return recorded, possible, all_seen
        rows *= 8


def _sweep_until_complete(run: Run, position: int) -> FutureSweep:
    sweep = FutureSweep(len(run.segments.codes_of(row_of(run, position)[0])), position, limit=None)
    for part in parts_from(run, position):
        sweep.step(part.skeleton, part.first_position, edges_across=part.edges_across)
        if sweep.complete:
            break
    return sweep


def _counts(run: Run, position: int, entered: Longs) -> Longs:
    """Count the events of each process from the first effect in it on, without the event itself."""
    number, _ = row_of(run, position)
    counts = np.zeros(len(entered), np.int64)
    reached = np.flatnonzero(entered >= 0)
    codes = run.segments.codes_of(number)[reached]
    counts[reached] = run.processes.events[codes] - indices_at(run, entered[reached]) + 1
    of_event = np.flatnonzero(run.segments.codes_of(number) == code_at(run, position))
    counts[of_event] -= 1
    return counts
