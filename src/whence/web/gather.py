"""Asks a history all that the page about one event shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from whence.history import Event, History, Standing
from whence.history.questions.event import events_at
from whence.history.questions.past import direct_causes
from whence.history.reading import Run
from whence.history.recorded import recorded_causes
from whence.web.incident import Incident, Ordering, is_loud

NEARBY_ROWS = 16_384
"""How far from the event, in history order and either way, bystanders are looked for."""
SUSPECTS = 256
"""How many of those are compared with the event, at most; each takes a millisecond or so."""


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
    possible = tuple(sorted((each.event for each in answer.possible), key=lambda each: each.position))
    shown = [each.position for each in (*answer.events, *possible, answer.event, *others)]
    drawn = connections(history.run, shown)
    return Incident(
        history=str(history.run.store),
        unit=history.unit,
        event=answer.event,
        past=answer.events,
        bystanders=others,
        causes=drawn.causes,
        missing=answer.missing,
        ledger=check.ledger,
        orderings=orderings(check.wall_clock, check.policies),
        possible=possible,
        standings={each.position: history.relation(each.position, answer.event.position) for each in others},
        lines=drawn.lines,
        follows=drawn.follows,
        assumed=drawn.assumed,
    )


@dataclass(frozen=True, slots=True)
class Connections:
    """What leads at one step to what is drawn, as `Incident` has it."""

    causes: dict[int, list[int]]
    lines: dict[int, str | None]
    follows: dict[int, list[int]] | None
    assumed: set[tuple[int, int]]


def connections(run: Run, shown: Sequence[int]) -> Connections:
    """What leads at one step to each of the events at these positions."""
    causes = {position: direct_causes(run, position).tolist() for position in shown}
    if not run.has_lines:
        return Connections(causes, {}, None, set())
    lines = dict(zip(shown, run.rows(np.array(shown), ["line"])["line"].to_pylist(), strict=True))
    recorded = {position: recorded_causes(run, position).tolist() for position in shown}
    assumed = {(cause, effect) for effect, found in causes.items() for cause in found if cause not in recorded[effect]}
    follows = {
        position: [each for each in found if each not in causes[position]] for position, found in recorded.items()
    }
    return Connections(causes, lines, follows, assumed)


def cannot_have_led(history: History, suspect: int, event: int) -> bool:
    """Tell whether nothing leads from one event to another, as far as it is known."""
    standing = history.relation(suspect, event)
    # What is possible leads from the one that stands earlier.
    return standing not in (Standing.BEFORE, Standing.EQUAL, Standing.POSSIBLE) or (
        standing is Standing.POSSIBLE and suspect > event
    )


def bystanders(history: History, event: Event, most: int) -> tuple[Event, ...]:
    """What stands shortly before an event by wall clock, with nothing that leads from there to it, by wall time.

    The loud come first, then the nearest, of events within `NEARBY_ROWS` of it in history order. Where reports are missing,
    one may still have led to it: `History.relation` then says that it is unknown.
    """
    if event.time is None or most < 1:
        return ()
    near = np.arange(max(0, event.position - NEARBY_ROWS), min(len(history), event.position + NEARBY_ROWS))
    rows = history.run.rows(near, ["computation", "time", "error", "attributes"])
    suspects = (int(near[row]) for row in _suspects(rows, event))
    innocent = (place for place in suspects if cannot_have_led(history, place, event.position))
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
