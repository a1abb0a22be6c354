"""Streams of reports of every sort, also of sorts that nobody should send; and what must be true of each.

`check_stream` draws a stream from a seed, writes its live history twice, at once and in random steps with restarts, and
gives all that is wrong with them. `benchmarks/streams.py` does so for as many seeds as wanted.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from ledto.causality.vector_clocks import vector_clocks
from ledto.events.keys import ANSWER, SPAN
from ledto.events.schema import REPORTS
from ledto.history.recorded import recorded_past
from ledto.history.run import Run
from ledto.live import LiveHistory, LiveTerms, LiveWriter
from tests.history.computations import draw
from tests.live.lined import drawn_lines
from tests.live.streams import BASE, DELTA, EPS, FAR, MS, row_of, terms

LARGEST = 1 << 62
ABSURD = (LARGEST + 1, -LARGEST - 1, (1 << 63) - 1, -(1 << 63))
BAD_SEQS = (0, -1, LARGEST + 1, -(1 << 63), (1 << 63) - 1)
COMPUTATIONS = ("", "t", "t (late)", "t (late 2)", f"t (late {'1' * 5_000})", "../t", "t\x00u", "(late)")
PROCESSES = ("a", "b", "a (late)", "a (late 2)", "a~2", "a\x00b", "", "../p")
STAMPS = (
    '{"clock": "lamport", "process": "a", "time": 1}',
    '{"clock": "lamport", "process": "b", "time": 7}',
    '{"clock": "lamport", "process": "b", "time": 3}',
    "{}",
    "not a stamp",
)
LATER = 3_600_000_000_000


@dataclass(frozen=True)
class Stream:
    """Reports in order of arrival; `place` numbers them."""

    table: pa.Table
    terms: LiveTerms
    keeps_eps: bool
    """Clocks that are believed differ by at most eps, so that not even the order of the log depends on the steps."""


def draw_stream(seed: int) -> Stream:
    """The stream of a seed."""
    random = Random(seed)
    keeps_eps = random.random() < 0.5
    rows = _consistent(random) if keeps_eps else _soup(random)
    rows.sort(key=lambda row: row["arrival"])
    for place, row in enumerate(rows):
        row |= {"file": "f", "place": place}
    given = terms(
        policies=(random.choice(("exact", "exact", "cbd:0.5", "dapw:0.3", "physical-only:0.4")),),
        close_rows=random.choice((4, 20, 1000)),
        close_after=random.choice((300 * MS, 1_000 * MS, 600_000 * MS)),
    )
    return Stream(pa.Table.from_pylist(rows, REPORTS), given, keeps_eps)


def _consistent(random: Random) -> list[dict[str, Any]]:
    """A computation that may have happened, or two, with what goes wrong on the way to the observer."""
    rows: list[dict[str, Any]] = []
    for number in range(random.choice((1, 1, 2))):
        drawn = random.choice((_messages, _lines))(random)
        names = sorted({row["process"] for row in drawn})
        far = {name: random.choice(FAR) for name in names}
        sort = {name: random.choice(("both", "both", "both", "no seq", "no time", "mixed")) for name in names}
        for row in drawn:
            if random.random() < 0.05:
                continue
            late = random.randint(0, 4_000 * MS) if random.random() < 0.08 else 0
            row["arrival"] = row["time"] + random.randint(0, DELTA) + late
            row["time"] += far[row["process"]]
            row["computation"] = COMPUTATIONS[number]
            what = sort[row["process"]]
            if what == "no seq" or (what == "mixed" and random.random() < 0.5):
                row["seq"] = None
            elif what == "no time" and row["seq"] is not None:
                row["time"] = None
            rows.append(row)
            rows += _repeated(random, row)
    return rows


def _messages(random: Random) -> list[dict[str, Any]]:
    """Rows of processes that do one thing at a time."""
    drawn = draw(random, processes=random.randint(1, 4), events=random.randint(3, 40), skew=10, loss=0)
    return [row_of(event, 0) for event in drawn]


def _lines(random: Random) -> list[dict[str, Any]]:
    """Rows of processes that do several things at once, spans with parents anywhere among them."""
    return drawn_lines(random, events=random.randint(3, 40)).rows


def _repeated(random: Random, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Second reports of an event, such as they may be."""
    found = []
    while random.random() < 0.12:
        again = {**row, "arrival": row["arrival"] + random.choice((0, 10 * MS, 300 * MS, 4_000 * MS))}
        change = random.choice(("none", "none", "name", "seq", "time", "reason", "no id"))
        if change == "name":
            again["name"] = "something else"
        elif change == "seq":
            again["seq"] = random.choice(BAD_SEQS)
        elif change == "time":
            again["time"] = random.choice(ABSURD)
        elif change == "reason":
            again |= {"reason": "not-json: oops", "text": "{"}
        elif change == "no id":
            again["id"] = None
        found.append(again)
    return found


def _soup(random: Random) -> list[dict[str, Any]]:
    """Reports without rhyme or reason."""
    processes, computations = (
        random.sample(names, random.randint(1, most)) for names, most in ((PROCESSES, 4), (COMPUTATIONS, 3))
    )
    lines = [f"t/{number}" for number in range(random.randint(1, 4))]
    keys = [f"m{number}" for number in range(random.randint(1, 8))]
    keys += [f"{prefix}{line}" for prefix in (SPAN, ANSWER) for line in lines if random.random() < 0.5]
    # Starts of spans may have names that come again, unlike what stamped events send (docs/follow.md, "What is exact").
    stamps = STAMPS if random.random() < 0.5 else ()
    keys = [key for key in keys if not (stamps and key.startswith(SPAN))]
    rows = []
    for _ in range(random.randint(2, 40)):
        time = BASE + random.randint(0, 300) * 10 * MS + random.choice((0, 0, 0, random.choice(FAR)))
        row: dict[str, Any] = {
            "computation": random.choice(computations),
            "process": random.choice(processes),
            "seq": random.choice((None, random.randint(1, 12), random.randint(1, 12), random.choice(BAD_SEQS))),
            "time": random.choice((time, time, time, None, random.choice(ABSURD))),
            "arrival": BASE + random.randint(0, 400) * 10 * MS,
            "kind": random.choice(("local", "send", "receive")),
            "sends": random.choice((None, random.choice(keys))),
            "receives": random.choice((None, random.choice(keys))),
            "receives_more": random.choice((None, None, random.choices(keys, k=random.randint(1, 3)))),
            "id": random.choice((None, f"e{random.randint(0, 9)}")),
            "name": random.choice((None, "step", "other")),
            "stamp": random.choice((None, None, *stamps)),
            "attributes": random.choice((None, '{"x":1}')),
            "clock_name": random.choice((None, None, "clock")),
            "reason": random.choice((*[None] * 9, "not-json: oops")),
            "line": random.choice((None, random.choice(lines))),
            "line_parent": random.choice((None, random.choice((*lines, "nobody")))),
            "line_phase": random.choice((None, None, "start", "end", "neither")),
            "line_joins": random.choice((None, None, None, random.choices((*lines, "nobody"), k=random.randint(0, 3)))),
            "line_since": random.choice((None, None, time - 10 * MS, random.choice(ABSURD))),
            "channel_key": random.choice((None, None, None, "a>b")),
            "channel_bytes": random.choice((None, 0, 5, -1)),
        }
        if row["seq"] is None and row["time"] is None:
            row["time"] = time
        rows += [row] * random.choice((1, 1, 1, 1, 2, 3))
    return [dict(row) for row in rows]


@dataclass(frozen=True)
class Outcome:
    """What a live history tells when its stream is over, with reports by their places in it."""

    events: list[tuple[Any, ...]]
    past: dict[int, list[int]]
    recorded: dict[int, list[int]]
    """Of `past`, what is recorded."""
    log: list[tuple[Any, ...]]
    quarantined: list[tuple[Any, ...]]
    ledger: dict[str, Any]


def write_stream(folder: Path, stream: Stream, steps: Iterable[int], *, restart: Random | None = None) -> Outcome:
    """The history of a stream that comes in steps of these sizes, with a new writer now and then, until time has passed."""
    table = stream.table
    writer = LiveWriter(str(folder), stream.terms)
    try:
        done = 0
        for size in steps:
            part = table.slice(done, size)
            if not len(part):
                break
            done += len(part)
            writer.step(part, now=part["arrival"][-1].as_py(), positions={"rows": done})
            if restart is not None and restart.random() < 0.2:
                writer.close()
                writer = LiveWriter(str(folder))
        for _ in range(2):
            writer.step(REPORTS.empty_table(), now=writer.now + LATER)
    finally:
        writer.close()
    return _outcome(folder, stream)


def _outcome(folder: Path, stream: Stream) -> Outcome:
    live = LiveHistory(folder)
    history = live.current()
    run = history.run
    columns = ["place", "computation", "process", "seq", "time", "causal_time", "correction", "missing"]
    events: list[tuple[Any, ...]] = []
    for number in range(len(run.segments)):
        rows = run.events(number, columns, 0, int(run.segments.rows[number])).to_pylist()
        events += [tuple(str(row[name]) if name == "missing" else row[name] for name in columns) for row in rows]
    log = [
        (row["place"], row["computation"], row["at"], row["late"], str(row["missing"]))
        for row in live.deliveries(0).to_pylist()
    ]
    quarantined = sorted((each.place, each.outcome, each.reason) for each in history.quarantine(outcome=None))
    places = [event[0] for event in events]
    recorded = {
        place: sorted(
            places[cause]
            for part in recorded_past(run, np.array([position], np.int64))
            for cause in part.tolist()
            if cause != position
        )
        for position, place in enumerate(places)
    }
    return Outcome(events, _pasts(run), recorded, log, quarantined, history.check().ledger)


def _pasts(run: Run) -> dict[int, list[int]]:
    """By place: the places of all that is before, from the segments' vector clocks."""
    at: dict[tuple[int, int], int] = {}
    vectors = []
    for number in range(len(run.segments)):
        rows = int(run.segments.rows[number])
        skeleton = run.skeleton(number, 0, rows)
        clocks = vector_clocks(skeleton, run.boundary(number))
        codes = run.segments.codes_of(number)
        for row, place in enumerate(run.events(number, ["place"], 0, rows)["place"].to_pylist()):
            own = int(skeleton.process[row])
            at[int(codes[own]), int(clocks[row, own])] = place
            vectors.append((place, codes, clocks[row]))
    return {
        place: sorted(
            at[int(code), index]
            for code, count in zip(codes, vector, strict=True)
            for index in range(1, int(count) + 1)
            if at[int(code), index] != place
        )
        for place, codes, vector in vectors
    }


def check_stream(seed: int, *, within: str | None = None) -> list[str]:
    """All that is wrong with the live history of the stream of a seed, which is written to a new folder `within` another."""
    stream = draw_stream(seed)
    random = Random(~seed)
    with tempfile.TemporaryDirectory(dir=within) as folder:
        try:
            whole = write_stream(Path(folder) / "whole", stream, [len(stream.table)])
            cut = write_stream(Path(folder) / "cut", stream, iter(lambda: random.randint(1, 9), 0), restart=random)
        except Exception as fault:
            return [f"{type(fault).__name__}: {fault}"]
    faults = [
        f"{which}: {fault}" for which, each in (("whole", whole), ("cut", cut)) for fault in accounts(stream, each)
    ]
    names = ["events", "past", "recorded", "quarantined", "ledger"] + (["log"] if stream.keeps_eps else [])
    faults += [f"{name} depends on the steps" for name in names if getattr(whole, name) != getattr(cut, name)]
    return faults


def accounts(stream: Stream, found: Outcome) -> list[str]:
    """What is wrong with where each report went."""
    faults = []
    told = Counter([event[0] for event in found.events] + [each[0] for each in found.quarantined])
    if told != Counter(range(len(stream.table))):
        faults.append(f"reports that are not told of once: {told} of {len(stream.table)}")
    if any(not each[2] for each in found.quarantined):
        faults.append("a report is quarantined without a reason")
    delivered = [each[0] for each in found.log]
    if sorted(delivered) != sorted(event[0] for event in found.events):
        faults.append("the log has other events than the history")
    position = {event[0]: at for at, event in enumerate(found.events)}
    if any(position[cause] > position[place] for place, causes in found.past.items() for cause in causes):
        faults.append("an event stands before its cause")
    if any(place in causes for place, causes in found.past.items()):
        faults.append("an event is its own cause")
    if any({*causes} - {*found.past[place]} for place, causes in found.recorded.items()):
        faults.append("what is recorded to be before an event is not in its past")
    if stream.terms.policies == ("exact",) and stream.keeps_eps:
        faults += _out_of_order(stream, found)
    return faults


def _out_of_order(stream: Stream, found: Outcome) -> list[str]:
    """Deliveries before a cause that had been reported in time, where both keep the promises."""
    time, arrival = (stream.table[name].fill_null(0).to_numpy() for name in ("time", "arrival"))
    in_time = (arrival - time <= DELTA) & (arrival - time >= -EPS)
    number = {each[0]: at for at, each in enumerate(found.log)}
    # What is only assumed holds up nobody.
    return [
        f"{place} is delivered before its cause {cause}"
        for place, causes in found.recorded.items()
        for cause in causes
        if np.all(in_time[[place, cause]]) and number.get(cause, 0) > number.get(place, 0)
    ]
