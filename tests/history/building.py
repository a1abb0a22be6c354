"""Histories made without Spark, from computations drawn at random, together with the truth about them."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from ledto.causality.skeleton import Skeleton
from ledto.causality.vector_clocks import Scan
from ledto.history import layout
from ledto.history.attribute_types import NULL, attribute_types, merge_types
from ledto.history.draft import Draft
from ledto.history.manifest import WallClockSummary
from ledto.history.write import write_boundary, write_quarantine, write_segment
from tests.history.manifests import description, ledger

NAMES = ("order", "pay", "ship", None)
UNTIMED = -(1 << 62)
"""The causal time of events in whose past nothing has a time; stored as null."""
REASON = "not-json: line 3 is no object"


@dataclass
class Made:
    """One event as drawn; `past` and `position` are the truth that answers are compared with."""

    computation: str
    process: str
    index: int
    seq: int
    id: str | None
    name: str | None
    time: int | None
    kind: str
    causes: list[Made] = field(default_factory=list)
    previous: Made | None = None
    number: int = 0
    """Place in drawing order, within its computation."""
    past: int = 0
    """Bits of the numbers of all events that happened before this one."""
    causal_time: int = UNTIMED
    level: int = 0
    position: int = -1
    attributes: dict[str, object] | None = None
    error: bool | None = None

    @property
    def key(self) -> str:
        return f"{self.process}:{self.seq}"

    def happened_before(self, other: Made) -> bool:
        return self.computation == other.computation and bool(other.past >> self.number & 1)


def draw(
    random: Random,
    computation: str,
    processes: int,
    events: int,
    *,
    ids: bool = False,
    gaps: bool = False,
    untimed: bool = False,
) -> list[Made]:
    """A computation in an order in which it may have happened: local events, sends, receives of one or several messages."""
    names = [f"p{number}" for number in range(processes)]
    last: dict[str, Made] = {}
    sends: list[Made] = []
    made: list[Made] = []
    skew = {name: random.randint(-6, 6) for name in names}
    for number in range(events):
        process = random.choice(names)
        previous = last.get(process)
        kind = random.choice(("local", "send", "receive"))
        foreign = [send for send in sends if send.process != process]
        causes: list[Made] = []
        if kind == "receive" and foreign:
            recent = foreign[-8:] if random.random() < 0.8 else foreign
            causes = random.sample(recent, min(len(recent), 1 if random.random() < 0.8 else 2))
        elif kind == "receive":
            kind = "local"
        step = random.randint(1, 3) if gaps else 1
        event = Made(
            computation,
            process,
            index=previous.index + 1 if previous else 1,
            seq=previous.seq + step if previous else step,
            id=f"{computation}/{number}" if ids else None,
            name=random.choice(NAMES),
            time=None
            if (previous or untimed) and random.random() < (0.5 if untimed else 0.1)
            else 1000 + 3 * number + skew[process],
            kind=kind,
            causes=causes,
            previous=previous,
            number=number,
            attributes=random.choice(
                (None, {"status": random.randint(1, 9), "who": random.choice("ab"), "a b": number})
            ),
        )
        for cause in [*causes, *([previous] if previous else [])]:
            event.past |= cause.past | 1 << cause.number
            if (cause.causal_time, cause.level) > (event.causal_time, event.level):
                event.causal_time, event.level = cause.causal_time, cause.level
        if event.time is not None and event.time > event.causal_time:
            event.causal_time, event.level = event.time, 0
        else:
            event.level += 1
        last[process] = event
        if kind == "send":
            sends.append(event)
        made.append(event)
    return made


def write_history(
    folder: Path,
    large: list[tuple[list[Made], list[int]]],
    small: list[list[list[Made]]],
    *,
    unit: str = "ticks",
    numbered: bool = True,
) -> list[Made]:
    """Write computations with the rows at which each is cut into segments, then segments of several small ones.

    Gives all events by position, and sets their positions. Without numbers, as where the source gives none, events are
    numbered by readers.
    """
    with Draft(folder) as draft:
        codes: dict[tuple[str, str], int] = {}
        segments: list[dict[str, object]] = []
        history: list[Made] = []

        def ordered(events: list[Made]) -> list[Made]:
            return sorted(events, key=lambda it: (it.causal_time, it.level, it.process, it.index))

        for events, cuts in large:
            rows = ordered(events)
            scan = Scan(len({event.process for event in events}))
            bounds = [0, *sorted(cuts), len(rows)]
            starts = len(history)
            for at, row in enumerate(rows):
                row.position = starts + at
            for start, stop in itertools.pairwise(bounds):
                part = rows[start:stop]
                later = [
                    cause.position
                    for row in rows[stop:]
                    for cause in row.causes
                    if start <= cause.position - starts < stop
                ]
                history.extend(_segment(draft, codes, segments, [events], part, len(history), scan, later, numbered))
        for group in small:
            rows = ordered([event for events in group for event in events])
            for at, row in enumerate(rows, start=len(history)):
                row.position = at
            history.extend(_segment(draft, codes, segments, group, rows, len(history), None, [], numbered))
        quarantined = pa.Table.from_pylist(
            [{"outcome": "quarantined", "reason": REASON, "file": "a.jsonl", "place": 3, "text": "{oops"}],
            layout.QUARANTINE,
        )
        draft.commit(
            description(
                unit=unit,
                eps=12,
                ledger=ledger(len(history), not_json=1),
                attributes=merge_types(
                    [
                        {"a b": NULL, "status": NULL, "who": NULL},
                        attribute_types(_events(history, numbered=numbered)["attributes"]),
                    ]
                ),
                given_seq=numbered,
                has_ids=any(event.id is not None for event in history),
                wall_clock=WallClockSummary(0, None, {"pairs": 0}, 0, 0, 0),
                quarantine_files=(write_quarantine(draft.store, draft.run, quarantined, attempt="0"),),
            ),
            pa.Table.from_pylist(segments, layout.SEGMENTS),
            _processes(codes, history),
        )
    return history


def _segment(
    draft: Draft,
    codes: dict[tuple[str, str], int],
    segments: list[dict[str, object]],
    computations: list[list[Made]],
    rows: list[Made],
    first: int,
    scan: Scan | None,
    later: list[int],
    numbered: bool,
) -> list[Made]:
    local = sorted({(event.computation, event.process) for events in computations for event in events})
    for name in local:
        codes.setdefault(name, len(codes))
    number_of = {name: number for number, name in enumerate(local)}
    process = [number_of[row.computation, row.process] for row in rows]
    back = [
        [at - (cause.position - first) for cause in row.causes if cause.position >= first]
        for at, row in enumerate(rows)
    ]
    edges = [(at, cause.position) for at, row in enumerate(rows) for cause in row.causes if cause.position < first]
    skeleton = Skeleton(
        np.array(process, np.int32),
        np.cumsum([0, *map(len, back)]),
        np.array([d for each in back for d in each], np.int64),
    )
    attempt = f"a{first}"
    number = len(segments)
    files = write_segment(draft.store, draft.run, number, _events(rows, numbered=numbered), skeleton, attempt=attempt)
    write_segment(draft.store, draft.run, number, _events(rows, numbered=numbered), skeleton, attempt="failed")
    boundary_file = None
    if scan is not None:
        boundary = scan.segment(skeleton, first, [edge[0] for edge in edges], [edge[1] for edge in edges], later)
        if boundary.before.any():
            boundary_file = write_boundary(draft.store, draft.run, number, boundary, attempt=attempt)
    by_process = [[row for row in rows if (row.computation, row.process) == name] for name in local]
    timed = [row.causal_time for row in rows if row.causal_time != UNTIMED]
    everything = [event for events in computations for event in events]
    segments.append(
        {
            "number": number,
            "first_position": first,
            "rows": len(rows),
            "processes": [codes[name] for name in local],
            "counts": [len(mine) for mine in by_process],
            "before": [
                sum((event.computation, event.process) == name and 0 <= event.position < first for event in everything)
                for name in local
            ],
            "first_seq": [mine[0].seq if mine else 0 for mine in by_process],
            "first_causal_time": min(timed, default=0),
            "last_causal_time": max(timed, default=0),
            "starts_computation": boundary_file is None,
            "events_file": files.events_file,
            "skeleton_file": files.skeleton_file,
            "boundary_file": boundary_file,
            "ids_file": files.ids_file,
            "words_file": files.words_file,
        }
    )
    return rows


def _events(rows: list[Made], *, numbered: bool) -> pa.Table:
    columns = {
        "computation": [row.computation for row in rows],
        "process": [row.process for row in rows],
        "seq": [row.seq if numbered else None for row in rows],
        "id": [row.id for row in rows],
        "name": [row.name for row in rows],
        "time": [row.time for row in rows],
        "causal_time": [None if row.causal_time == UNTIMED else row.causal_time for row in rows],
        "kind": [row.kind for row in rows],
        "sends": [f"m-{row.key}" if row.kind == "send" else None for row in rows],
        "receives": [f"m-{row.causes[0].key}" if row.causes else None for row in rows],
        "error": [row.error for row in rows],
        "attributes": [None if row.attributes is None else json.dumps(row.attributes) for row in rows],
        "file": ["a.jsonl"] * len(rows),
        "place": list(range(len(rows))),
    }
    table = pa.table([columns.get(name, [None] * len(rows)) for name in layout.EVENTS.names], schema=layout.EVENTS)
    table = table.set_column(1, "process", table["process"].dictionary_encode())
    if not numbered:
        seen: dict[tuple[str, str], int] = {}
        nth = [seen.setdefault(name, 0) for name in ((row.computation, row.process) for row in rows)]
        for at, row in enumerate(rows):
            seen[row.computation, row.process] += 1
            nth[at] = seen[row.computation, row.process]
        table = table.append_column("segment", pa.array([0] * len(rows), pa.int32()))
        table = table.append_column("nth", pa.array(nth, pa.int64()))
    return table


def _processes(codes: dict[tuple[str, str], int], history: list[Made]) -> pa.Table:
    rows = []
    for (computation, process), code in codes.items():
        mine = [event for event in history if (event.computation, event.process) == (computation, process)]
        times = [event.time for event in mine if event.time is not None]
        rows.append(
            {
                "code": code,
                "computation": computation,
                "process": process,
                "events": len(mine),
                "first_time": min(times, default=None),
                "last_time": max(times, default=None),
                "dense_seq": bool(mine) and mine[-1].seq - mine[0].seq == len(mine) - 1,
                "messages": sum(event.kind != "local" for event in mine),
            }
        )
    return pa.Table.from_pylist(rows, layout.PROCESSES)
