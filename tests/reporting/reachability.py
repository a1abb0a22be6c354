"""The truth about reported events: who can be reached from whom, over processes' own order and messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def event_id(event: Mapping[str, Any]) -> str:
    return f"{event['process']}:{event['seq']}"


def pasts(events: Iterable[Mapping[str, Any]]) -> dict[str, set[str]]:
    """For each event the ids of all that happened before it; an event that receives what nobody sent is a KeyError."""
    by_id = {event_id(event): event for event in events}
    senders = {event["sends"]: name for name, event in by_id.items() if "sends" in event}
    found: dict[str, set[str]] = {}

    def past(name: str) -> set[str]:
        if name not in found:
            event = by_id[name]
            causes = {f"{event['process']}:{event['seq'] - 1}"} if event["seq"] > 1 else set()
            if "receives" in event:
                causes.add(senders[event["receives"]])
            found[name] = causes.union(*(past(cause) for cause in causes))
        return found[name]

    return {event_id(event): past(event_id(event)) for event in sorted(by_id.values(), key=lambda event: event["seq"])}
