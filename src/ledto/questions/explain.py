"""Answer how one event led to another, or may have: their relation, and the steps between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from ledto.history.run import Run
from ledto.questions.answer import ASKED, CAUSE, POSSIBLE, Answer, ShownEvents, count, name_event
from ledto.questions.event import Event, events_at
from ledto.questions.missing import Missing, missing_in_past
from ledto.questions.path import ANSWERED, LINE, ListedEdge, PathStep, path
from ledto.questions.relation import relation
from ledto.questions.standing import Standing

RELATED_FIELDS = pa.schema(
    [
        ("first", pa.string()),
        ("second", pa.string()),
        ("relation", pa.string()),
        ("direction", pa.string()),
        ("numbered", pa.bool_()),
    ]
)
"""The columns of a relation, which has one row; events by id."""
STEP_FIELDS = pa.schema(
    [
        *((name, pa.string()) for name in ("kind", "known")),
        *((f"{end}_{name}", pa.string()) for end in ("cause", "effect") for name in ("id", "process", "name")),
        *((f"{end}_{name}", pa.int64()) for end in ("cause", "effect") for name in ("time", "position")),
        ("message", pa.string()),
        ("apart", pa.int64()),
    ]
)
"""The columns of the steps of an explanation."""


@dataclass(frozen=True, slots=True, repr=False)
class Related(Answer):
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

    def to_arrow(self) -> pa.Table:
        """Make an Arrow table with one row: the columns of `RELATED_FIELDS`."""
        row = {"first": self.first.id, "second": self.second.id, "relation": self.relation.value}
        direction = None if self.direction is None else self.direction.value
        return pa.Table.from_pylist([{**row, "direction": direction, "numbered": self.numbered}], RELATED_FIELDS)

    def summary(self) -> str:
        return f"{name_event(self.first)} {self.relation.value} {name_event(self.second)}"

    def notes(self) -> Sequence[str]:
        doubtful = self.relation is Standing.CONCURRENT and not self.numbered
        return (
            *(f"Missing: {gap.words}." for gap in self.missing),
            *(["This holds only if no report was lost: not all events have numbers."] if doubtful else ()),
        )

    def shown_events(self, most: int) -> ShownEvents | None:
        events = {self.first.position: (self.relation.value, self.first), self.second.position: (ASKED, self.second)}
        return ShownEvents([events[position] for position in sorted(events)], len(events))


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(Related):
    """The answer of `History.explain`."""

    steps: tuple[PathStep, ...] = ()
    """The steps from the cause to the effect, whichever of the two that is; empty if no path leads there."""

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints."""
        return {**Related.to_json(self), "steps": [step.to_json() for step in self.steps]}

    def to_arrow(self) -> pa.Table:
        """Make an Arrow table with a row for each step: the columns of `STEP_FIELDS`."""
        rows = [
            {"kind": step.kind, "known": step.known, "message": step.message, "apart": step.apart}
            | {
                f"{end}_{name}": getattr(event, name)
                for end, event in (("cause", step.cause), ("effect", step.effect))
                for name in ("id", "process", "name", "time", "position")
            }
            for step in self.steps
        ]
        return pa.Table.from_pylist(rows, STEP_FIELDS)

    def summary(self) -> str:
        guesses = sum(not step.recorded for step in self.steps)
        how = f", {guesses:,} not recorded" if guesses else ""
        return f"{Related.summary(self)}: {count(len(self.steps), 'step')}{how}"

    def shown_events(self, most: int) -> ShownEvents | None:
        if not self.steps:
            return Related.shown_events(self, most)
        path = [self.steps[0].cause, *(step.effect for step in self.steps)]
        # Other events of a line may be between the ends of a step along it: it is drawn as a later step of the line.
        apart = (step for step in self.steps if step.kind != LINE)
        edges = [ListedEdge(step.cause.position, step.effect.position, step.kind) for step in apart]
        role = CAUSE if all(step.recorded for step in self.steps) else POSSIBLE
        events = [*((role, event) for event in path[:-1]), (ASKED, path[-1])]
        return ShownEvents(events[-most:], len(events), edges)


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
