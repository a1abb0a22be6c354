"""Ask a history for everything that the page about one event shows: `gather` gives an `Incident`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from ledto.events.keys import SPAN
from ledto.events.schema import RECEIVE, SEND
from ledto.history.recorded import recorded_causes
from ledto.history.run import Run
from ledto.questions import Event, History, Missing, Standing
from ledto.questions.event import events_at
from ledto.questions.why import direct_causes

SEVERITY = ("severity", "level", "severity_text", "status")
"""Attributes that may contain a severity."""
LOUD = frozenset(
    ("notice", "warn", "warning", "error", "err", "severe", "critical", "crit", "fatal", "alert", "emergency", "panic")
)
"""Severities of events that stand out."""


NEARBY_ROWS = 16_384
"""How far before and after the event, in history order, to search for bystanders."""
SUSPECTS = 256
"""How many of those to compare with the event, at most; each takes about a millisecond."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """The errors of one way to order reports, and how long reports wait for it."""

    name: str
    messages: int
    messages_inverted: int
    """Messages shown as received before they were sent."""
    before_cause: int | None
    """Events shown before one of their causes, direct or not; None if not known."""
    pairs: int | None
    """Pairs of cause and effect shown in the wrong order; None if not known."""
    delays: Mapping[str, float] | None
    """p50, p99 and max of the waiting times; None if nothing waits."""


@dataclass(frozen=True, slots=True)
class Incident:
    """Everything that the page shows. Mappings are by position of an event that is shown."""

    history: str
    unit: str
    event: Event
    past: Sequence[Event]
    """Its last recorded causes in causal order, without the event itself."""
    bystanders: Sequence[Event]
    """Events right before it by wall clock that are not among its causes; oldest first."""
    causes: Mapping[int, Sequence[int]]
    """Positions of direct causes, without the event before it in its process."""
    missing: Sequence[Missing]
    """Holes among the causes shown."""
    ledger: Mapping[str, Any]
    orderings: Sequence[Ordering]
    possible: Sequence[Event] = ()
    """Possible causes: through what the lines of a process share, or by an answer that is assumed."""
    standings: Mapping[int, Standing] = field(default_factory=dict)
    """How each bystander is related to the event."""
    lines: Mapping[int, str | None] = field(default_factory=dict)
    """The line of each event."""
    follows: Mapping[int, Sequence[int]] | None = None
    """Positions of the events that it is recorded to follow within its process; None if that is always the event before."""
    assumed: Collection[tuple[int, int]] = ()
    """Those of `causes` that are only assumed, as positions of cause and effect."""

    def count_after_by_wall_clock(self) -> int:
        """Count the causes that have a later wall time than the event."""
        focus = self.event.time
        return sum(focus is not None and cause.time is not None and cause.time > focus for cause in self.past)


def is_loud(attributes: Mapping[str, Any]) -> bool:
    """Whether an attribute has a severity that stands out."""
    return any(str(attributes.get(name, "")).lower() in LOUD for name in SEVERITY)


def label(event: Event) -> str:
    """Say in short what happened."""
    has_message = event.message is not None and not event.message.startswith(SPAN)
    verb = {SEND: "sends ", RECEIVE: "gets "}.get(event.kind, "") if has_message else ""
    return verb + (event.name or event.id)


def gather(
    history: History,
    event: str,
    *,
    last: int,
    where: str | None = None,
    beside: int = 0,
    computation: str | None = None,
) -> Incident:
    """Collect the event, its `last` causes that meet `where`, and up to `beside` bystanders. Raises as `History.why`."""
    answer = history.why(event, k=last, where=where, computation=computation)
    check = history.check()
    others = find_bystanders(history, answer.event, beside)
    possible = tuple(sorted((cause.event for cause in answer.possible), key=lambda cause: cause.position))
    shown = [one.position for one in (*answer.causes, *possible, answer.event, *others)]
    drawn = find_connections(history.run, shown)
    return Incident(
        history=str(history.run.store),
        unit=history.unit,
        event=answer.event,
        past=answer.causes,
        bystanders=others,
        causes=drawn.causes,
        missing=answer.missing,
        ledger=check.ledger,
        orderings=read_orderings(check.wall_clock, check.policies),
        possible=possible,
        standings={other.position: history.relation(other.position, answer.event.position) for other in others},
        lines=drawn.lines,
        follows=drawn.follows,
        assumed=drawn.assumed,
    )


@dataclass(frozen=True, slots=True)
class DrawnCauses:
    """Direct causes and lines of the events that are drawn; the fields are those of `Incident`."""

    causes: dict[int, list[int]]
    lines: dict[int, str | None]
    follows: dict[int, list[int]] | None
    assumed: set[tuple[int, int]]


def find_connections(run: Run, shown: Sequence[int]) -> DrawnCauses:
    """Find the direct causes and the lines of the events at these positions."""
    causes = {position: direct_causes(run, position).tolist() for position in shown}
    if not run.has_lines:
        return DrawnCauses(causes, {}, None, set())
    lines = dict(zip(shown, run.rows(np.array(shown), ["line"])["line"].to_pylist(), strict=True))
    recorded = {position: recorded_causes(run, position).tolist() for position in shown}
    assumed = {
        (cause, effect) for effect, direct in causes.items() for cause in direct if cause not in recorded[effect]
    }
    follows = {
        effect: [cause for cause in direct if cause not in causes[effect]] for effect, direct in recorded.items()
    }
    return DrawnCauses(causes, lines, follows, assumed)


def cannot_have_led(history: History, suspect: int, event: int) -> bool:
    """Whether no recorded or possible path leads from one event to another; with missing reports, there may still be one."""
    standing = history.relation(suspect, event)
    # A possible path leads from the event with the lower position to the other.
    return standing not in (Standing.BEFORE, Standing.EQUAL, Standing.POSSIBLE) or (
        standing is Standing.POSSIBLE and suspect > event
    )


def find_bystanders(history: History, event: Event, most: int) -> tuple[Event, ...]:
    """Find events shortly before an event by wall clock from which nothing leads to it; return them by wall time.

    Searches within `NEARBY_ROWS` in history order. Prefers events that stand out, then those nearest in time. If reports
    are missing, a bystander may still have led to the event: `History.relation` is then unknown.
    """
    if event.time is None or most < 1:
        return ()
    near = np.arange(max(0, event.position - NEARBY_ROWS), min(len(history), event.position + NEARBY_ROWS))
    rows = history.run.rows(near, ["computation", "time", "error", "attributes"])
    suspects = (int(near[row]) for row in _rank_suspects(rows, event))
    innocent = (position for position in suspects if cannot_have_led(history, position, event.position))
    bystanders = events_at(history.run, list(islice(innocent, most)))
    return tuple(sorted(bystanders, key=lambda bystander: (bystander.time or 0, bystander.position)))


def _rank_suspects(rows: pa.Table, event: Event) -> list[int]:
    """List rows of the same computation with an earlier wall time; those that stand out first, then the nearest in time."""
    ranked = []
    columns = (rows[name].to_pylist() for name in ("computation", "time", "error", "attributes"))
    for row, (computation, time, error, attributes) in enumerate(zip(*columns, strict=True)):
        if computation == event.computation and time is not None and time < event.time:
            loud = error or (attributes is not None and is_loud(json.loads(attributes)))
            ranked.append((not loud, event.time - time, row))
    return [row for *_, row in sorted(ranked)[:SUSPECTS]]


def read_orderings(wall_clock: Mapping[str, Any], policies: Mapping[str, Any]) -> tuple[Ordering, ...]:
    """Read the errors of the order by wall time and of each policy from a check; leave out those without counts."""
    checks = {"wall clock": wall_clock, **policies}
    return tuple(
        _read_ordering(name, check) for name, check in checks.items() if "messages" in check.get("violations", {})
    )


def _read_ordering(name: str, check: Mapping[str, Any]) -> Ordering:
    violations, delays = check["violations"], check.get("delays", {})
    return Ordering(
        name,
        messages=violations["messages"],
        messages_inverted=violations["messages_inverted"],
        before_cause=violations["before_cause"],
        pairs=violations["pairs"],
        delays=delays if "p50" in delays else None,
    )
