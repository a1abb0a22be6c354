"""Answer how one event led to another, or may have: their relation, and the steps between them."""

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
    """The relation of the first event to the second."""
    through: PathStep | None = None
    """If the relation is possible: the first step from one to the other that is not recorded."""
    missing: tuple[Missing, ...] = ()
    """If the relation is unknown: what is missing in the past of either."""
    numbered: bool = True
    """Whether sources number all events. If not, `concurrent` holds only if no report was lost."""

    @property
    def direction(self) -> Standing | None:
        """If the relation is possible: `BEFORE` if the first may have led to the second, otherwise `AFTER`; else None."""
        if self.relation is not Standing.POSSIBLE:
            return None
        return Standing.BEFORE if self.first.position < self.second.position else Standing.AFTER

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints. Keys that do not apply are left out."""
        document: dict[str, Any] = {
            "first": self.first.to_json(),
            "second": self.second.to_json(),
            "relation": self.relation.value,
            "numbered": self.numbered,
        }
        if self.direction is not None:
            document["direction"] = self.direction.value
        if self.through is not None:
            document["through"] = self.through.to_json()
        if self.relation is Standing.UNKNOWN:
            document["missing"] = [gap.to_json() for gap in self.missing]
        return document


@dataclass(frozen=True, slots=True)
class Explanation(Related):
    """The answer of `History.explain`."""

    steps: tuple[PathStep, ...] = ()
    """The steps from the cause to the effect, whichever of the two that is; empty if no path leads there."""

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints."""
        return {**Related.to_json(self), "steps": [step.to_json() for step in self.steps]}


def related(run: Run, first: int, second: int, *, answered: bool = False) -> Related:
    """Find the relation of two events by position, and what it depends on.

    `answered`: count assumed answers as recorded.
    """
    standing = relation(run, first, second, answered=answered)
    one, other = events_at(run, [first, second])
    through = None
    if standing is Standing.POSSIBLE:
        steps = path(run, min(first, second), max(first, second), answered=answered) or ()
        through = _first_guess(steps, answered)
    return Related(one, other, standing, through, _missing(run, standing, first, second), run.has_numbers)


def explain(run: Run, first: int, second: int, *, answered: bool = False) -> Explanation:
    """Do as `related`, and find the steps between the events."""
    steps = path(run, min(first, second), max(first, second), answered=answered) or ()
    through = _first_guess(steps, answered)
    if through is not None:
        standing = Standing.POSSIBLE
    elif steps:
        standing = Standing.BEFORE if first < second else Standing.AFTER
    else:
        standing = relation(run, first, second, answered=answered)
    one, other = events_at(run, [first, second])
    return Explanation(one, other, standing, through, _missing(run, standing, first, second), run.has_numbers, steps)


def _first_guess(steps: tuple[PathStep, ...], answered: bool) -> PathStep | None:
    """Find the first step that is not recorded; None if all are."""
    return next((step for step in steps if not (step.recorded or (answered and step.kind == ANSWERED))), None)


def _missing(run: Run, standing: Standing, first: int, second: int) -> tuple[Missing, ...]:
    if standing is not Standing.UNKNOWN:
        return ()
    return tuple(dict.fromkeys((*missing_in_past(run, first), *missing_in_past(run, second))))
