"""How events of a list lead to each other, at one step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from whence.questions.event import Event
from whence.questions.why import direct_steps
from whence.questions.path import (ANSWERED, JOIN, LINE, MESSAGE, START, begins_line)
from whence.history.run import Run
from whence.history.recorded import recorded_steps
from whence.history.tables import Longs


@dataclass(frozen=True, slots=True)
class ListedEdge:
    """One step from a cause to an effect."""

    cause: int
    effect: int
    """Positions of the two."""
    kind: str
    """As that of a `Step`."""

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return asdict(self)


def edges_among(run: Run, events: Sequence[Event], *, whole: bool, answered: bool) -> tuple[ListedEdge, ...]:
    """The steps between events, which are in history order and, where processes have no lines, without gaps in a process.

    `whole`: all that is recorded to have led to them is among them. `answered`: with answers that are only assumed.
    """
    by_position = {event.position: event for event in events}
    places = np.array(list(by_position), np.int64)
    by_message = _by_effect(direct_steps(run, places))
    along_lines = _by_effect(recorded_steps(run, places)) if run.has_lines else {}
    with_answers = _by_effect(recorded_steps(run, places, answered=True)) if run.has_lines and answered else {}
    last: dict[tuple[str, str], int] = {}
    begun: set[tuple[str, str, str | None]] = set()
    found: list[ListedEdge] = []
    for effect in events:
        direct = by_message.get(effect.position, [])
        key = (effect.computation, effect.process)
        if run.has_lines:
            recorded = along_lines.get(effect.position, [])
        else:
            recorded = sorted({*direct, *([last[key]] if key in last else [])})
        last[key] = effect.position
        line = (*key, effect.line)
        for cause in (by_position[each] for each in recorded if each in by_position):
            if cause.position in direct:
                kind = MESSAGE
            elif cause.line == effect.line:
                kind = LINE
            else:
                starts = line not in begun and (
                    effect.line is not None if whole else begins_line(run, effect.position, effect.line)
                )
                kind = START if starts else JOIN
            found.append(ListedEdge(cause.position, effect.position, kind))
        begun.add(line)
        answers = [each for each in with_answers.get(effect.position, []) if each in by_position]
        found += [ListedEdge(each, effect.position, ANSWERED) for each in answers if each not in recorded]
    return tuple(found)


def _by_effect(steps: tuple[Longs, Longs]) -> dict[int, list[int]]:
    """Causes by effect, from pairs."""
    found: dict[int, list[int]] = {}
    for effect, cause in zip(*(each.tolist() for each in steps), strict=True):
        found.setdefault(effect, []).append(cause)
    return found
