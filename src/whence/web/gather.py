"""Asks a history all that the page about one event shows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from whence.history import Event, History, Standing
from whence.history.questions.event import events_at
from whence.history.questions.past import direct_causes
from whence.web.incident import Incident, Ordering, is_loud

NEARBY_ROWS = 16_384
"""How far from the event, in history order and either way, bystanders are looked for."""
SUSPECTS = 256
"""How many of those are compared with the event, at most; each takes a millisecond or so."""
INNOCENT = (Standing.CONCURRENT, Standing.AFTER)
"""How an event stands to another that it cannot have led to."""


def gather(
    history: History,
    event: str,
    *,
    last: int,
    where: str | None = None,
    beside: int = 0,
    computation: str | None = None,
) -> Incident:
    """The event, the `last` of its causes that meet `where`, and up to `beside` bystanders; errors as of `History.why`."""
    answer = history.why(event, k=last, where=where, computation=computation)
    check = history.check()
    others = bystanders(history, answer.event, beside)
    shown = [each.position for each in (*answer.events, answer.event, *others)]
    return Incident(
        history=str(history.run.store),
        unit=history.unit,
        event=answer.event,
        past=answer.events,
        bystanders=others,
        causes={position: direct_causes(history.run, position).tolist() for position in shown},
        missing=answer.missing,
        ledger=check.ledger,
        orderings=orderings(check.wall_clock, check.policies),
    )


def bystanders(history: History, event: Event, most: int) -> tuple[Event, ...]:
    """What the wall clocks show shortly before an event and cannot have led to it: the loud first, then the nearest.

    Given by wall time. Only events within `NEARBY_ROWS` of it in history order are looked at.
    """
    if event.time is None or most < 1:
        return ()
    near = np.arange(max(0, event.position - NEARBY_ROWS), min(len(history), event.position + NEARBY_ROWS))
    rows = history.run.rows(near, ["computation", "time", "error", "attributes"])
    suspects = (int(near[row]) for row in _suspects(rows, event))
    innocent = (place for place in suspects if history.relation(place, event.position) in INNOCENT)
    found = events_at(history.run, list(islice(innocent, most)))
    return tuple(sorted(found, key=lambda each: (each.time or 0, each.position)))


def _suspects(rows: pa.Table, event: Event) -> list[int]:
    """Rows of the same computation with an earlier wall time, the most suspect first."""
    ranked = []
    columns = (rows[name].to_pylist() for name in ("computation", "time", "error", "attributes"))
    for row, (computation, time, error, attributes) in enumerate(zip(*columns, strict=True)):
        if computation == event.computation and time is not None and time < event.time:
            loud = error or (attributes is not None and is_loud(json.loads(attributes)))
            ranked.append((not loud, event.time - time, row))
    return [row for *_, row in sorted(ranked)[:SUSPECTS]]


def orderings(wall_clock: Mapping[str, Any], policies: Mapping[str, Any]) -> tuple[Ordering, ...]:
    """What the manifest says of the order by wall time and of each policy; none where it says nothing."""
    found = {"wall clock": wall_clock, **policies}
    return tuple(_ordering(name, said) for name, said in found.items() if "messages" in said.get("violations", {}))


def _ordering(name: str, said: Mapping[str, Any]) -> Ordering:
    violations, delays = said["violations"], said.get("delays", {})
    return Ordering(
        name,
        messages=violations["messages"],
        messages_inverted=violations["messages_inverted"],
        before_cause=violations["before_cause"],
        pairs=violations["pairs"],
        delays=delays if "p50" in delays else None,
    )
