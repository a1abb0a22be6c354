"""Streams of processes that do several things at once, as rows of reports: lines, spans, links, answers, lost reports."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from ledto.events.keys import ANSWER, SPAN
from ledto.events.schema import REPORTS
from tests.live.streams import BASE, DELTA, MS

STEP, SKEW = 4, 12
"""Milliseconds from one event to the next, and most that two clocks differ by."""


@dataclass
class Line:
    """A line of a process; a span if it has a key."""

    process: str
    name: str | None
    parent: Line | None = None
    key: str | None = None
    kind: str = "local"
    began: int = 0
    open_children: int = 0
    awaits: list[str] = field(default_factory=list)
    """Spans of other processes that it started and waits for, and that have not ended."""


@dataclass
class System:
    """Draws what processes do, in an order in which it may have happened."""

    random: Random
    names: list[str]
    lines: list[Line] = field(default_factory=list)
    """Those that go on."""
    ended: list[Line] = field(default_factory=list)
    spans: list[Line] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    now: int = 0
    count: int = 0

    def __post_init__(self) -> None:
        self.skew = {name: self.random.randint(0, SKEW) for name in self.names}
        self.numbered = {name: self.random.random() < 0.6 for name in self.names}
        self.last = dict.fromkeys(self.names, 0)
        self.seq = dict.fromkeys(self.names, 0)
        self.lines = [Line(name, None) for name in self.names]

    def row(self, line: Line, **given: Any) -> dict[str, Any]:
        """Report one event of a line, with a message now and then."""
        name = line.process
        self.now += self.random.choice((0, 1, 1, 2)) * STEP
        # Some processes do two things at one time by their clocks.
        least = self.last[name] + (1 if self.numbered[name] or self.random.random() < 0.9 else 0)
        self.last[name] = time = max(self.now + self.skew[name], least)
        self.seq[name] += 1
        made = {
            "computation": "",
            "process": name,
            "seq": self.seq[name] if self.numbered[name] else None,
            "time": BASE + time * MS,
            "kind": "local",
            "line": line.name,
            "id": f"e{len(self.rows)}",
            "name": "step",
            **given,
        }
        if line.name is not None and "line_parent" not in given and self.random.random() < 0.3:
            # Only the first event of a line says what that was started from; what others say changes nothing.
            beside = [each.name for each in (*self.lines, *self.ended) if each.process == name]
            made["line_parent"] = self.random.choice(
                [each for each in beside if each not in (None, line.name)] or [None]
            )
        if "receives" not in given and self.sent and self.random.random() < 0.3:
            made["receives"] = self.random.choice(self.sent[-8:] if self.random.random() < 0.9 else self.sent)
        if "sends" not in given and self.random.random() < 0.3:
            made["sends"] = f"m{len(self.rows)}"
            self.sent.append(made["sends"])
        self.rows.append(made)
        return made

    def begin(self) -> None:
        """Start a line from another of the same process."""
        parent = self.random.choice(self.lines)
        self.count += 1
        line = Line(parent.process, f"r{self.count}", parent)
        parent.open_children += 1
        self.lines.append(line)
        self.row(line, line_parent=parent.name, line_phase=self.random.choice(("start", "start", "first", None)))

    def span(self) -> None:
        """Start a span, whose parent is anywhere or nowhere."""
        self.count += 1
        parent = self.random.choice([*self.spans[-6:], None])
        remote = parent is None or self.random.random() < 0.6
        process = self.random.choice(self.names) if remote or parent is None else parent.process
        kind = "receive" if parent is not None and process != parent.process else self.random.choice(("local", "send"))
        line = Line(process, f"t/{self.count}", parent, f"{SPAN}t/{self.count}", kind, self.now)
        more = [f"{SPAN}t/{self.random.randint(1, self.count)}"] if self.random.random() < 0.2 else None
        named = self.random.random() < 0.05
        origin = f"t/gone{self.count}" if named else parent.name if parent is not None else None
        if self.random.random() < 0.1:
            # By a coarser clock, or one that was set back since.
            self.row(Line(process, line.name), line_parent=None, sends=None, receives=None, name="early")
        made = self.row(
            line,
            kind=kind,
            sends=line.key,
            receives=None if origin is None else SPAN + origin,
            receives_more=None if more == [line.key] else more,
            line_parent=origin,
            line_phase="start",
        )
        line.began = made["time"]
        self.lines.append(line)
        self.spans.append(line)
        if parent is not None:
            if process != parent.process and parent in self.lines and self.random.random() < 0.8:
                parent.awaits.append(str(line.name))
            parent.open_children += 1

    def end(self, line: Line) -> None:
        """End a line; a span when those that it waits for have. Within a process, nobody need wait."""
        if line.key is None:
            into = line.parent.name if line.parent is not None and self.random.random() < 0.6 else None
            self.row(line, line_phase="end", line_parent=into)
        else:
            parent, sends = line.parent, None
            if parent is not None and (parent.process == line.process or line.name in parent.awaits):
                sends = f"{ANSWER}{parent.name}"
                parent.awaits = [each for each in parent.awaits if each != line.name]
            self.row(
                line, line_phase="end", line_parent=None, sends=sends, receives=f"{ANSWER}{line.name}",
                line_since=line.began, kind={"receive": "send", "send": "receive"}.get(line.kind, "local"),
            )  # fmt: skip
        self.lines.remove(line)
        self.ended.append(line)

    def log(self) -> None:
        """A log record of a span, perhaps in another process than its start, or after its end."""
        span = self.random.choice(self.spans[-8:])
        where = span.process if self.random.random() < 0.7 else self.random.choice(self.names)
        self.row(Line(where, span.name), line_parent=span.name, sends=None, receives=None)

    def join(self) -> None:
        """A line waits for others of its process."""
        line = self.random.choice(self.lines)
        others = [
            each for each in (*self.ended, *self.lines) if each.process == line.process and each.name != line.name
        ]
        names = sorted({str(each.name) for each in others if each.name is not None})
        if names:
            self.row(line, line_joins=self.random.sample(names, min(len(names), self.random.randint(1, 2))))

    def step(self) -> None:
        choice = self.random.random()
        done = [each for each in self.lines if each.name is not None and not each.awaits]
        if choice < 0.12:
            self.begin()
        elif choice < 0.3:
            self.span()
        elif choice < 0.5 and done:
            self.end(self.random.choice(done))
        elif choice < 0.58 and self.spans:
            self.log()
        elif choice < 0.66:
            self.join()
        else:
            self.row(self.random.choice(self.lines))


def drawn_lines(random: Random, *, events: int) -> System:
    """What some processes did, that many events of it."""
    system = System(random, [f"p{number}" for number in range(random.randint(1, 4))])
    while len(system.rows) < events:
        system.step()
    return system


def lined_stream(random: Random, *, events: int, loss: float = 0.0) -> pa.Table:
    """Reports in order of arrival that all come in time, from clocks that keep eps; this share of them is lost."""
    rows = [row for row in drawn_lines(random, events=events).rows if random.random() >= loss]
    for place, row in enumerate(rows):
        row |= {"arrival": row["time"] + random.randint(0, DELTA), "file": "f", "place": place}
    return pa.Table.from_pylist(sorted(rows, key=lambda row: row["arrival"]), REPORTS)


def truth_of(rows: list[dict[str, Any]]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """By id: all that is before a row by what is recorded, and by everything, from sets that grow row by row.

    `rows` stand in an order in which they may have happened, which is that of their processes' clocks.
    """
    senders: dict[str, list[str]] = {}
    recorded: dict[str, set[str]] = {}
    wide: dict[str, set[str]] = {}
    done: dict[tuple[str, str | None], set[str]] = {}
    """By process and line: all that its next row follows."""
    last: dict[str, str] = {}
    together = _at_one_time(rows)
    count: Counter[str] = Counter()
    for row in rows:
        name, process, line, parent = row["id"], row["process"], row["line"], row["line_parent"]
        count[process] += 1
        heard = [(key, sender) for key in _keys(row) for sender in senders.get(key, ())]
        before, all_before = set[str](), set[str]()
        for key, sender in heard:
            all_before |= wide[sender] | {sender}
            if not key.startswith(ANSWER):
                before |= recorded[sender] | {sender}
        # What any event at one time received may have come before all of them, and what one sent may have gone out after.
        tied = together.get(name, [row])
        for each in tied if tied[0] is row else [row]:
            for key in _keys(each):
                for sender in senders.get(key, ()):
                    last_sender = together.get(sender, [{"id": sender}])[-1]["id"]
                    all_before |= wide.get(last_sender, set()) | ({last_sender} & wide.keys())
        if process in last:
            all_before |= wide[last[process]] | {last[process]}
        served = row["line_phase"] == "start" and row["kind"] == "receive"
        starts = row["line_phase"] in ("start", "first")
        if (process, line) in done and not starts:
            before |= done[process, line]
        elif (
            parent not in (None, line)
            and not served
            and row["line_phase"] != "end"
            and (
                # The first of the line may be among what was left out before it.
                starts or (row["seq"] or 0) <= count[process]
            )
        ):
            before |= done.get((process, parent), set())
        for joined in row["line_joins"] or ():
            before |= done.get((process, joined), set())
        recorded[name], wide[name], last[process] = before, all_before, name
        done[process, line] = before | {name}
        if row["line_phase"] == "end" and parent not in (None, line):
            done[process, parent] = done.get((process, parent), set()) | before | {name}
        if row["sends"] is not None:
            senders.setdefault(row["sends"], []).append(name)
    return recorded, wide


def _keys(row: dict[str, Any]) -> list[str]:
    """What a row received: a record of a span also what its start sent."""
    keys = [row["receives"], *(row["receives_more"] or ())]
    if row["receives"] is None and row["line"] is not None and row["line"] == row["line_parent"]:
        keys.append(SPAN + row["line"])
    return [key for key in keys if key is not None]


def _at_one_time(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """By id of an event that shares its process and time with others, some of another line: all of these, in order."""
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in rows:
        if row["seq"] is None:
            found.setdefault((row["process"], row["time"]), []).append(row)
    return {row["id"]: tied for tied in found.values() if len({each["line"] for each in tied}) > 1 for row in tied}
