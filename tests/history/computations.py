"""Computations drawn at random, what is true of them, and histories made of their reports, cut wherever a test likes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ledto.batch.inline import InlineEngine, InlineReports
from ledto.batch.observe import Delivering, RunSettings, run_from
from ledto.causality.vector_clocks import vector_clocks
from ledto.events.schema import REPORTS
from ledto.history.draft import Draft
from ledto.history.run import Run, open_run
from ledto.history.window.plan import Epochs, TimeBins, WindowPlan
from ledto.history.window.segment import SegmentTarget
from ledto.sources.inputs import Inputs


@dataclass
class Event:
    """An event as drawn, and what is true of it."""

    process: str
    number: int
    time: int
    sends: str | None = None
    receives: list[str] = field(default_factory=list)
    causes: list[Event] = field(default_factory=list)
    previous: Event | None = None
    lost: bool = False

    @property
    def lacks(self) -> list[str]:
        """Keys that it receives and nobody reported to have sent."""
        return sorted(str(cause.sends) for cause in self.causes if cause.lost)


def draw(random: Random, *, processes: int, events: int, skew: int, loss: float, prefix: str = "") -> list[Event]:
    """A computation in an order in which it may have happened, by clocks that differ by up to `skew`."""
    names = [f"p{number}" for number in range(processes)]
    offset = {name: random.randint(0, skew) for name in names}
    last: dict[str, Event] = {}
    sent: list[Event] = []
    drawn: list[Event] = []
    for step in range(events):
        name = random.choice(names)
        previous = last.get(name)
        time = max(step * 2 + offset[name], previous.time + 1 if previous else 0)
        event = Event(name, previous.number + 1 if previous else 1, time, previous=previous)
        choice = random.random()
        if choice < 0.45:
            event.sends = f"{prefix}m{step}"
            sent.append(event)
        elif choice < 0.85 and sent:
            recent = sent[-6:] if random.random() < 0.8 else sent
            event.causes = random.sample(recent, min(len(recent), random.choice((1, 1, 1, 2))))
            event.receives = [str(cause.sends) for cause in event.causes]
            if random.random() < 0.2:
                event.sends = f"{prefix}m{step}"
                sent.append(event)
        event.lost = random.random() < loss
        last[name] = event
        drawn.append(event)
    return drawn


def past_of(events: list[Event]) -> dict[int, set[int]]:
    """By event: everything that happened before it by what was reported, by following every edge. Keys are ids of events."""
    reported = [event for event in events if not event.lost]
    latest: dict[str, Event] = {}
    past: dict[int, set[int]] = {}
    for event in reported:
        before = [cause for cause in event.causes if not cause.lost]
        if event.process in latest:
            before.append(latest[event.process])
        past[id(event)] = set().union(*({id(each)} | past[id(each)] for each in before)) if before else set()
        latest[event.process] = event
    return past


def reports(events: list[Event], random: Random, *, numbered: bool, copies: float) -> pa.Table:
    """What was reported, shuffled, some of it twice."""
    rows: list[dict[str, Any]] = []
    for event in events:
        if event.lost:
            continue
        row = {
            "computation": "",
            "process": event.process,
            "seq": event.number if numbered else None,
            "time": event.time,
            "kind": "receive" if event.receives else "send" if event.sends else "local",
            "sends": event.sends,
            "receives": event.receives[0] if event.receives else None,
            "receives_more": event.receives[1:] or None,
            "id": f"{event.process}-{event.number}",
            "file": "log",
            "place": len(rows),
        }
        rows.append(row)
        if random.random() < copies:
            rows.append({**row, "file": "log-2"})
    random.shuffle(rows)
    return pa.Table.from_pylist(rows, REPORTS)


class CutAt:
    """A planner that cuts at given times."""

    def __init__(self, table: pa.Table, cuts: list[int]) -> None:
        start = min(0, pc.min(table["time"]).as_py())
        names = tuple(sorted(pc.unique(table["process"]).to_pylist()))
        firsts = (0, *sorted({cut - start for cut in cuts if cut > start}))
        self.epochs = Epochs("", names, TimeBins(start, 1, 1_000), firsts, len(table))

    def plan(self, eps: int) -> WindowPlan:
        return WindowPlan(0, (self.epochs,), eps)

    def guess_eps(self) -> int:
        return 0


def observe_cut(folder: Path, table: pa.Table, cuts: list[int], eps: int) -> Run:
    """Make the history at `folder` from the rows, cut at these times; raises what the pipeline would raise.

    Where nothing is cut, eps bounds nothing.
    """
    reports = InlineReports(table)
    with Draft(folder) as draft:
        made = run_from(
            InlineEngine(),
            Inputs((), (), {}, "tick"),
            reports,
            reports.survey(window_rows=0),
            CutAt(table, cuts),
            SegmentTarget(draft.store, draft.run),
            RunSettings("tick", eps if cuts else None, delivering=Delivering(())),
        )
        draft.commit(made.description, made.tables.segments, made.tables.processes)
    return open_run(draft.store)


def told_of(run: Run) -> dict[str, tuple[int, list[str]]]:
    """By id: the correction of an event's time, and the causes it lacks."""
    found: dict[str, tuple[int, list[str]]] = {}
    for number in range(len(run.segments)):
        table = run.events(number, ["id", "correction", "missing"], 0, int(run.segments.rows[number]))
        found |= {row["id"]: (row["correction"], row["missing"] or []) for row in table.to_pylist()}
    return found


def relations_of(run: Run) -> tuple[list[str], dict[str, set[str]]]:
    """All events in history order, by id or as ``process-seq``, and the past of each, from the segments' vector clocks."""
    ids: list[str] = []
    vectors: list[tuple[str, np.ndarray]] = []
    place: dict[tuple[int, int], str] = {}
    for number in range(len(run.segments)):
        rows = int(run.segments.rows[number])
        skeleton = run.skeleton(number, 0, rows)
        clocks = vector_clocks(skeleton, run.boundary(number))
        codes = run.segments.codes_of(number)
        named = run.events(number, ["computation", "process", "seq", "id"], 0, rows).to_pylist()
        names = [each["id"] or f"{each['computation']}{each['process']}-{each['seq']}" for each in named]
        for row, own in enumerate(names):
            code = int(skeleton.process[row])
            place[int(codes[code]), int(clocks[row, code])] = own
            vector = np.zeros(len(run.processes), np.int64)
            vector[codes] = clocks[row]
            vectors.append((own, vector))
            ids.append(own)
    past = {
        own: {place[code, index] for code, count in enumerate(vector) for index in range(1, count + 1)} - {own}
        for own, vector in vectors
    }
    return ids, past
