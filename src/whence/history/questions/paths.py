"""The way from one event to another, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.causality.paths import FewestGuesses
from whence.causality.sweeps import FutureSweep
from whence.events.keys import ANSWER
from whence.history import layout
from whence.history.questions.event import Event, events_at
from whence.history.questions.locating import code_at, row_of
from whence.history.questions.parts import part_of, parts_from
from whence.history.questions.past import direct_causes
from whence.history.reading import Run
from whence.history.recorded import line_crossings
from whence.history.tables import Ints, Longs

LINE, MESSAGE, PROCESS, ASSUMED = "line", "message", "process", "assumed"
"""The kinds of steps. The first two are recorded."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a path, from a cause to an effect."""

    kind: str
    """``line``: one thing that a process does, or what it started or waited for; others of its events may lie between.
    ``message``. ``process``: only the process is the same, whose state the effect may have found changed. ``assumed``: the
    effect is taken to have waited for the cause."""
    cause: Event
    effect: Event
    message: str | None
    """The key of the message, or of the answer that is assumed; None within a process."""

    @property
    def recorded(self) -> bool:
        """Whether it is known that the one led to the other."""
        return self.kind in (LINE, MESSAGE)

    @property
    def apart(self) -> int | None:
        """The time between the two: by the clock of their process, or else by corrected times; None where one has none."""
        times = (
            (self.cause.time, self.effect.time)
            if self.cause.process == self.effect.process
            else (self.cause.corrected_time, self.effect.corrected_time)
        )
        return None if times[0] is None or times[1] is None else times[1] - times[0]

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        found: dict[str, Any] = {"kind": self.kind, "cause": self.cause.to_json(), "effect": self.effect.to_json()}
        if self.message is not None:
            found["message"] = self.message
        if not self.recorded and self.apart is not None:
            found["apart"] = self.apart
        return found


def path(run: Run, earlier: int, later: int, *, answered: bool = False) -> tuple[Step, ...] | None:
    """How one event led, or may have led, to another that is not before it in history order; None where it did not.

    As few steps as can be are not recorded. Steps along lines are taken together. `answered`: answers that are only assumed
    count as recorded; their steps are of the kind ``assumed`` all the same.
    """
    if earlier == later:
        return ()
    found = _guessing_least(run, earlier, later, answered) if run.has_lines else _recorded(run, earlier, later)
    if found is None:
        return None
    edges = list(_joined(found))
    places = sorted({place for cause, effect, _ in edges for place in (cause, effect)})
    events = dict(zip(places, events_at(run, places), strict=True))
    if answered:
        edges = [(cause, effect, _kind_of(events[cause], kind)) for cause, effect, kind in edges]
    return tuple(
        Step(kind, events[cause], events[effect], (events[cause].sends or "") if kind in (MESSAGE, ASSUMED) else None)
        for cause, effect, kind in edges
    )


def _kind_of(cause: Event, kind: str) -> str:
    """Tell answers, which counted as recorded, from messages."""
    return ASSUMED if kind == MESSAGE and (cause.sends or "").startswith(ANSWER) else kind


Edge = tuple[int, int, str]
"""Cause and effect by position, and the kind of the step."""


def _joined(edges: Iterable[Edge]) -> Iterator[Edge]:
    """Take steps along lines together that follow each other."""
    waiting: Edge | None = None
    for cause, effect, kind in edges:
        if kind == LINE:
            waiting = (waiting[0] if waiting else cause, effect, kind)
            continue
        if waiting:
            yield waiting
            waiting = None
        yield cause, effect, kind
    if waiting:
        yield waiting


def _recorded(run: Run, earlier: int, later: int) -> list[Edge] | None:
    """Where processes have no lines."""
    number, _ = row_of(run, earlier)
    codes = run.segments.codes_of(number)
    local = np.flatnonzero(codes == code_at(run, later))
    if not len(local):
        return None

    def local_at(position: int) -> int:
        return int(np.flatnonzero(codes == code_at(run, position))[0])

    sweep = FutureSweep(len(codes), earlier)
    for part in parts_from(run, earlier):
        sweep.step(part.skeleton, part.first_position, edges_across=part.edges_across)
        if part.first_position + len(part.skeleton) > later:
            break
        if sweep.complete:
            # Everything from here on is an effect: what lies between need not be read.
            last, row = row_of(run, later)
            end = part_of(run, last, row // layout.SKELETON_ROWS * layout.SKELETON_ROWS, row + 1)
            sweep.step(end.skeleton, end.first_position, edges_across=end.edges_across)
            break
    edges = sweep.path(later, int(local[0]), process_of=local_at)
    return None if edges is None else [(each.cause, each.effect, MESSAGE if each.message else LINE) for each in edges]


def _guessing_least(run: Run, earlier: int, later: int, answered: bool) -> list[Edge] | None:
    """Where processes do several things at once."""
    found = _searched(run, earlier, later, answered).path()
    if found is None:
        return None
    return [(cause, effect, _kind(run, cause, effect, is_recorded)) for cause, effect, is_recorded in found]


def guesses_between(run: Run, earlier: int, later: int) -> Ints:
    """By event from one position to another: 0 where what is recorded leads to it from the first, more where only the wide
    order does, and `UNREACHED` where nothing does."""
    return _searched(run, earlier, later).guesses


def _searched(run: Run, earlier: int, later: int, answered: bool = False) -> FewestGuesses:
    search = FewestGuesses(len(run.processes), earlier, later)
    last, last_row = row_of(run, later)
    number, row = row_of(run, earlier)
    for each in range(number, last + 1):
        stop = last_row + 1 if each == last else int(run.segments.rows[each])
        _step_over(run, search, each, row if each == number else 0, stop, answered)
    return search


def _kind(run: Run, cause: int, effect: int, is_recorded: bool) -> str:
    by_message = bool((direct_causes(run, effect) == cause).any())
    if is_recorded:
        return MESSAGE if by_message else LINE
    return ASSUMED if by_message else PROCESS


def unrecorded_step(run: Run, cause: Event, effect: Event) -> Step:
    """The step from one event to another that only the wide order knows."""
    kind = _kind(run, cause.position, effect.position, is_recorded=False)
    return Step(kind, cause, effect, cause.sends or "" if kind == ASSUMED else None)


def _step_over(run: Run, search: FewestGuesses, number: int, start: int, stop: int, answered: bool) -> None:
    """Go over rows ``start <= row < stop`` of a segment."""
    first, names = int(run.segments.first_position[number]), run.segments.codes_of(number)
    into = run.messages_into(number)
    lines_row, lines_reference = line_crossings(run, number)
    edge_row = np.concatenate((into.row, lines_row))
    order = np.argsort(edge_row, kind="stable")
    edge_row = edge_row[order]
    edge_reference = np.concatenate((2 * into.position, lines_reference))[order]
    edge_recorded = np.concatenate((~into.assumed | answered, np.ones(len(lines_row), np.bool_)))[order]
    while start < stop:
        group, begin = divmod(start, layout.SKELETON_ROWS)
        end = min(stop - group * layout.SKELETON_ROWS, layout.SKELETON_ROWS)
        skeleton = run.skeleton(number, start, start + end - begin)
        low, high = np.searchsorted(edge_row, [start, start + len(skeleton)])
        edges: tuple[Longs, Longs, NDArray[np.bool_]] = (
            edge_row[low:high] - start,
            edge_reference[low:high],
            edge_recorded[low:high],
        )
        recorded = run.recorded_group(number, group, answered=answered).part(begin, end)
        search.step(skeleton, recorded, first + start, names[skeleton.process].astype(np.int64), edges)
        start += len(skeleton)
