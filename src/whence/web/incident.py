"""Define what a page about one event shows, how an event is labelled, and which events stand out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whence.events.schema import RECEIVE, SEND, SPAN
from whence.history import Event, Missing, Standing

SEVERITY = ("severity", "level", "severity_text", "status")
"""Attributes that may contain a severity."""
LOUD = frozenset(
    ("notice", "warn", "warning", "error", "err", "severe", "critical", "crit", "fatal", "alert", "emergency", "panic")
)
"""Severities of events that stand out."""


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
