"""How one event stands to another, and why that can be said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ledto.history.run import Run
from ledto.questions.event import Event, events_at
from ledto.questions.missing import Missing, missing_in_past
from ledto.questions.path import ANSWERED, PathStep, path
from ledto.questions.relation import relation
from ledto.questions.standing import Standing


@dataclass(frozen=True, slots=True)
class Related:
    """The answer of `History.related`."""

    first: Event
    second: Event
    relation: Standing
    """How the first stands to the second."""
    through: PathStep | None = None
    """Where it is only possible that one led to the other: the first step from one to the other that is not recorded."""
    missing: tuple[Missing, ...] = ()
    """Where it is unknown: what is missing, in either's past."""
    numbered: bool = True
    """Whether sources number all events. Where they do not, `concurrent` holds if no report was lost."""

    @property
    def direction(self) -> Standing | None:
        """Which way it is possible: `Standing.BEFORE` where the first may have led to the second, or `AFTER`; else None."""
        if self.relation is not Standing.POSSIBLE:
            return None
        return Standing.BEFORE if self.first.position < self.second.position else Standing.AFTER

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`: what does not apply is left out."""
        found: dict[str, Any] = {
            "first": self.first.to_json(),
            "second": self.second.to_json(),
            "relation": self.relation.value,
            "numbered": self.numbered,
        }
        if self.direction is not None:
            found["direction"] = self.direction.value
        if self.through is not None:
            found["through"] = self.through.to_json()
        if self.relation is Standing.UNKNOWN:
            found["missing"] = [each.to_json() for each in self.missing]
        return found


@dataclass(frozen=True, slots=True)
class Explanation(Related):
    """The answer of `History.explain`."""

    steps: tuple[PathStep, ...] = ()
    """The way from the one to the other, whichever is the cause; none where nothing leads there."""

    def to_json(self) -> dict[str, Any]:
        """For `json.dumps`."""
        return {**Related.to_json(self), "steps": [step.to_json() for step in self.steps]}


def related(run: Run, first: int, second: int, *, answered: bool = False) -> Related:
    """How the event at one position stands to the one at another, and why; `answered`: assumed answers count as recorded."""
    found = relation(run, first, second, answered=answered)
    one, other = events_at(run, [first, second])
    through = None
    if found is Standing.POSSIBLE:
        steps = path(run, min(first, second), max(first, second), answered=answered) or ()
        through = _guess(steps, answered)
    return Related(one, other, found, through, _missing(run, found, first, second), run.has_numbers)


def explain(run: Run, first: int, second: int, *, answered: bool = False) -> Explanation:
    """The same, with the way from the one to the other."""
    steps = path(run, min(first, second), max(first, second), answered=answered) or ()
    through = _guess(steps, answered)
    if through is not None:
        found = Standing.POSSIBLE
    elif steps:
        found = Standing.BEFORE if first < second else Standing.AFTER
    else:
        found = relation(run, first, second, answered=answered)
    one, other = events_at(run, [first, second])
    return Explanation(one, other, found, through, _missing(run, found, first, second), run.has_numbers, steps)


def _guess(steps: tuple[PathStep, ...], answered: bool) -> PathStep | None:
    return next((step for step in steps if not (step.recorded or (answered and step.kind == ANSWERED))), None)


def _missing(run: Run, found: Standing, first: int, second: int) -> tuple[Missing, ...]:
    if found is not Standing.UNKNOWN:
        return ()
    told = (*missing_in_past(run, first), *missing_in_past(run, second))
    return tuple(dict.fromkeys(told))
