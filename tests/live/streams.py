"""Streams of reports, as they may come, and histories of them made in any number of steps."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from ledto.events.schema import REPORTS
from ledto.live import LiveHistory, LiveTerms, LiveWriter
from tests.history.computations import Event, draw, relations_of

BASE = 1_700_000_000_000_000_000
MS = 1_000_000
EPS, DELTA = 60 * MS, 500 * MS
HOUR = 3_600_000 * MS
FAR = (0, 0, 0, 0, HOUR, -HOUR, -5_000 * MS)


def terms(**given: Any) -> LiveTerms:
    return LiveTerms(**{"eps": EPS, "delta": DELTA, **given})


def kind_stream(
    random: Random, *, processes: int = 4, events: int = 150, loss: float = 0
) -> tuple[list[Event], pa.Table]:
    """Reports that keep the promises, in order of arrival; this share of them is lost."""
    drawn = draw(random, processes=processes, events=events, skew=10, loss=loss)
    rows = [row_of(event, random.randint(0, DELTA)) for event in drawn if not event.lost]
    return drawn, _table(rows)


def hard_stream(random: Random, *, off: tuple[int, ...] = FAR) -> tuple[list[Event], pa.Table]:
    """Reports that are late, doubled, lost or not readable; clocks that are hours off; processes that give no numbers."""
    drawn = draw(random, processes=random.randint(1, 5), events=random.randint(5, 120), skew=10, loss=0.03)
    names = {event.process for event in drawn}
    wrong = {name: random.choice(off) for name in sorted(names)}
    unnumbered = {name for name in sorted(names) if random.random() < 0.2}
    rows = []
    for event in drawn:
        if event.lost:
            continue
        delay = random.randint(0, DELTA) + (random.randint(0, 3_000 * MS) if random.random() < 0.05 else 0)
        row = row_of(event, delay)
        row["time"] += wrong[event.process]
        row["seq"] = None if event.process in unnumbered else row["seq"]
        rows.append(row)
        if random.random() < 0.1:
            rows.append({**row, "arrival": row["arrival"] + random.choice([0, 10 * MS, 4_000 * MS]), "file": "again"})
        if random.random() < 0.03:
            rows.append({**row, "reason": "not-json: oops", "text": "{"})
    return drawn, _table(rows)


def row_of(event: Event, delay: int) -> dict[str, Any]:
    time = BASE + event.time * 5 * MS
    return {
        "computation": "",
        "process": event.process,
        "seq": event.number,
        "time": time,
        "arrival": time + delay,
        "kind": "receive" if event.receives else "send" if event.sends else "local",
        "sends": event.sends,
        "receives": event.receives[0] if event.receives else None,
        "receives_more": event.receives[1:] or None,
        "id": f"{event.process}-{event.number}",
        "name": "step",
        "file": "f",
        "place": event.number,
    }


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(sorted(rows, key=lambda row: row["arrival"]), REPORTS)


@dataclass(frozen=True)
class Told:
    """All that a live history tells when its stream is over."""

    events: list[dict[str, Any]]
    past: dict[str, list[str]]
    log: list[dict[str, Any]]
    ledger: dict[str, Any]
    quarantined: list[tuple[Any, ...]]


def play(
    table: pa.Table, steps: Iterable[int], given: LiveTerms, *, restart: Callable[[], bool] = lambda: False
) -> Told:
    """Feed the rows in steps of these sizes, with a new writer whenever `restart` says so, and let time go on to the end."""
    with tempfile.TemporaryDirectory() as folder:
        writer = LiveWriter(folder, given)
        done = 0
        for size in steps:
            part = table.slice(done, size)
            if not len(part):
                break
            done += len(part)
            writer.step(part, now=part["arrival"][-1].as_py(), positions={"rows": done})
            if restart():
                writer.close()
                writer = LiveWriter(folder)
                assert writer.positions == {"rows": done}
        writer.step(REPORTS.empty_table(), now=writer.now + 100 * HOUR)
        writer.close()
        return told(Path(folder))


def told(folder: Path) -> Told:
    live = LiveHistory(folder)
    history = live.current()
    run = history.run
    ids, past = relations_of(run)
    columns = ["process", "seq", "id", "time", "causal_time", "correction", "kind", "missing"]
    events = [
        row
        for number in range(len(run.segments))
        for row in run.events(number, columns, 0, int(run.segments.rows[number])).to_pylist()
    ]
    quarantined = sorted(
        (each.outcome, each.reason, each.process, each.file, each.place) for each in history.quarantine(outcome=None)
    )
    log = live.deliveries(0).to_pylist()
    return Told(events, {name: sorted(past[name]) for name in ids}, log, history.check().ledger, quarantined)
