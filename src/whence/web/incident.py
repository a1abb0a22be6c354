"""What a page about one event shows, as a value; and what of an event is worth an eye."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whence.events.schema import RECEIVE, SEND, SPAN
from whence.history import Event, Missing, Standing

SEVERITY = ("severity", "level", "severity_text", "status")
"""Attributes that may hold a severity."""
LOUD = frozenset(
    ("notice", "warn", "warning", "error", "err", "severe", "critical", "crit", "fatal", "alert", "emergency", "panic")
)
"""Severities that are worth an eye."""


@dataclass(frozen=True, slots=True)
class Ordering:
    """What one way of ordering the reports got wrong, and how long it made them wait."""

    name: str
    messages: int
    messages_inverted: int
    """Messages shown as received before they were sent."""
    before_cause: int | None
    """Events shown before one of their causes, direct or not; None where it is not known."""
    pairs: int | None
    """Pairs of cause and effect shown the wrong way round; None where it is not known."""
    delays: Mapping[str, float] | None
    """p50, p99 and max; None where nothing waits."""


@dataclass(frozen=True, slots=True)
class Incident:
    """All that the page shows."""

    history: str
    unit: str
    event: Event
    past: Sequence[Event]
    """Its last causes in causal order, by what is recorded; the event itself left out."""
    bystanders: Sequence[Event]
    """What the wall clocks show right before it, and is not among its causes; oldest first."""
    causes: Mapping[int, Sequence[int]]
    """Of what is shown, by position: positions of its causes at one step, besides its process's event before."""
    missing: Sequence[Missing]
    """What is known to have no report, among the causes shown."""
    ledger: Mapping[str, Any]
    orderings: Sequence[Ordering]
    possible: Sequence[Event] = ()
    """What may also have led to it: only through what the lines of a process share, or by an answer that is assumed."""
    standings: Mapping[int, Standing] = field(default_factory=dict)
    """Of the bystanders, by position: how each stands to the event."""
    lines: Mapping[int, str | None] = field(default_factory=dict)
    """Of what is shown, by position: its line."""
    follows: Mapping[int, Sequence[int]] | None = None
    """Of what is shown, by position: positions of what it follows within its process by what is recorded; None where that
    is the event before."""
    assumed: Collection[tuple[int, int]] = ()
    """Those of `causes` that are only assumed, as positions of cause and effect."""

    def after_by_wall_clock(self) -> int:
        """How many causes the wall clocks show after the event."""
        focus = self.event.time
        return sum(focus is not None and cause.time is not None and cause.time > focus for cause in self.past)


def is_loud(attributes: Mapping[str, Any]) -> bool:
    """Whether any attribute that may hold a severity says more than the usual."""
    return any(str(attributes.get(name, "")).lower() in LOUD for name in SEVERITY)


def label(event: Event) -> str:
    """What happened, in short."""
    has_message = event.message is not None and not event.message.startswith(SPAN)
    verb = {SEND: "sends ", RECEIVE: "gets "}.get(event.kind, "") if has_message else ""
    return verb + (event.name or event.id)
