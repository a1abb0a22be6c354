"""Find missing reports. Where one is missing in the past of an event, nothing can be called concurrent with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledto.causality.taint import NEVER
from ledto.events.keys import ANSWER, CALLER, SPAN, UNENDED, UNKNOWN_ANSWER, UNKNOWN_CALL, UNKNOWN_PLACE
from ledto.events.schema import RECEIVE
from ledto.history.gone import LATE
from ledto.history.run import Run
from ledto.history.tables import Longs
from ledto.questions.event import Event, events_at
from ledto.questions.locate import code_at, index_at, position_of_index, row_of
from ledto.questions.many_pairs import numbers_within
from ledto.questions.parts import past_vector_at

MOST_TIED = 50
"""How many events at one time are searched for the one with a missing cause."""
SHOWN = 10
"""The most processes whose missing reports are listed."""
KINDS = ("numbers", "report", "cause", "caller", "callee", "answer", "call", "time", "messages")
"""What may be missing.

- ``numbers``: events of a process whose numbers are left out
- ``report``: a report that is quarantined or came late
- ``cause``: an event that another names as its cause
- ``caller``, ``callee``: who called a server, and whom a client called, if these do not report
- ``answer``: when an answer was sent
- ``call``: when a span of another process made a call
- ``time``: when an event happened that has a time before the start of its span
- ``messages``: all messages of a process
"""
WORDS = {CALLER: "caller", UNKNOWN_ANSWER: "answer", UNKNOWN_CALL: "call", UNKNOWN_PLACE: "time"}
"""The kind of each key that does not name a message."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that happened and that the history has no report of."""

    process: str | None
    """The process whose reports are missing; None if only a message shows that."""
    after_seq: int | None
    before_seq: int | None
    """The numbers of the events of the process before and after the missing ones."""
    events: int
    """How many events are missing, at least."""
    message: str | None = None
    """A message that was received and whose send nobody reported, or a span that an event names as its cause."""
    received_by: str | None = None
    """The id of the event that received the message, or names the span."""
    no_messages: bool = False
    """Whether the process reports no messages at all: what led to its events, and what they led to, is unknown."""
    reason: str | None = None
    """Why a report of the process is not used: the code of the reason, as `quarantine` lists it, or ``late``."""

    @property
    def kind(self) -> str:
        """What is missing, as a word of `KINDS`."""
        if self.no_messages:
            return "messages"
        if self.reason is not None:
            return "report"
        if self.message is None:
            return "numbers"
        if self.message.startswith(ANSWER):
            return "callee"
        if self.message.startswith(UNENDED):
            return "answer"
        return WORDS.get(self.message, "cause")

    @property
    def words(self) -> str:
        """What is missing, as part of a sentence."""
        match self.kind:
            case "messages":
                return f"all messages of {self.process}, which reports none"
            case "report" if self.reason == LATE:
                return f"a report of {self.process} that came too late to be placed"
            case "report":
                return f"a quarantined report of {self.process}: {self.reason}"
            case "answer":
                return f"when the answer was sent that {self.received_by} may have waited for"
            case "call":
                return f"when {self.received_by} was called, which is not recorded"
            case "time":
                return f"when {self.received_by} happened, which has a time before the start of its span"
            case "caller":
                return f"who called {self.received_by}, which nobody reports"
            case "callee":
                return f"what {self.received_by} called, which nobody reports"
            case "numbers":
                after, before = self.after_seq, self.before_seq
                where = f"before {before}" if after is None else f"between {after} and {before}"
                return f"{self.events:,} of {self.process} {where}"
        key = self.message or ""
        if key.startswith(SPAN):
            return f"{_named_cause(key)}, which {self.received_by} names as a cause"
        return f"the event that sent {key}, received by {self.received_by}"

    def to_json(self) -> dict[str, Any]:
        """Make the JSON object that `--json` prints. Fields that do not apply are left out."""
        values = {"kind": self.kind, **{name: getattr(self, name) for name in Missing.__slots__}}
        return {name: value for name, value in values.items() if value is not None and value is not False}


def _named_cause(key: str) -> str:
    """Describe what a key that begins with `SPAN` names: a span of a trace, or what a mapping file named."""
    trace, between, span = key.removeprefix(SPAN).partition("/")
    is_trace = between and re.fullmatch(r"[0-9a-f]{16,32}", trace)
    return f"span {span} of trace {trace}" if is_trace else key.removeprefix(SPAN)


def first_holes(run: Run) -> Longs:
    """Read, by process, the number of its first event right before which a report is missing; `NEVER` for none."""
    return _numbers(run, "first_hole")


def first_tainted(run: Run) -> Longs:
    """Read, by process, the number of its first event with a missing report in its past; `NEVER` for none."""
    return _numbers(run, "first_tainted")


def is_tainted(run: Run, position: int) -> bool:
    """Tell whether a report is missing in what may have led to an event."""
    first = int(first_tainted(run)[code_at(run, position)])
    return first != NEVER and index_at(run, position) >= first


def are_tainted(run: Run, positions: Longs) -> NDArray[np.bool_]:
    """Do as `is_tainted` for many positions. Each segment is read once."""
    tainted = np.zeros(len(positions), np.bool_)
    first = first_tainted(run)
    numbers = np.searchsorted(run.segments.first_position, positions, side="right") - 1
    for number in np.unique(numbers).tolist():
        codes = run.segments.codes_of(number)
        if (first[codes] == NEVER).all():
            continue
        chosen = np.flatnonzero(numbers == number)
        process = run.process_column(number).astype(np.int32)
        index = numbers_within(process, run.segments.before_of(number).astype(np.int64))
        rows = positions[chosen] - run.segments.first_position[number]
        tainted[chosen] = index[rows] >= first[codes[process[rows]]]
    return tainted


def missing_before(run: Run, codes: Longs, past: Longs) -> tuple[Missing, ...]:
    """Find what is missing in a past, the latest first. `past` has the number of events of each process in it."""
    holes = first_holes(run)[codes]
    reached = codes[(past >= holes) & (past > 0)][: 4 * SHOWN].tolist()
    latest = sorted(((_first_hole_at(run, code), code) for code in reached), reverse=True)[:SHOWN]
    return tuple(gap for position, code in latest for gap in _missing_at_first_hole(run, code, position))


def _first_hole_at(run: Run, code: int) -> int:
    """Find the position of the first event of a process right before which a report is missing."""
    return run.cached(("hole", code), lambda: position_of_index(run, code, int(first_holes(run)[code])), lambda _: 64)


def _missing_at_first_hole(run: Run, code: int, position: int) -> tuple[Missing, ...]:
    """Find what the first hole of a process shows to be missing. Cached: it does not depend on the event asked about."""
    return run.cached(
        ("missing", code),
        lambda: tuple(_missing_at(run, position, code, int(first_holes(run)[code]))),
        lambda gaps: 512 * (1 + len(gaps)),
    )


def missing_in_past(run: Run, position: int) -> tuple[Missing, ...]:
    """Find what is missing in what may have led to an event, the latest first: the first hole of each process."""
    if not is_tainted(run, position):
        return ()
    number, _ = row_of(run, position)
    return missing_before(run, run.segments.codes_of(number).astype(np.int64), past_vector_at(run, position))


def silent_beside(run: Run, position: int) -> tuple[Missing, ...]:
    """Find processes of the same computation that report no messages: any of them may have led to the event."""
    computation = run.processes.computation_number
    silent = (run.processes.table["messages"].to_numpy() == 0) & (first_holes(run) == 1)
    silent &= computation == computation[code_at(run, position)]
    names = [run.processes.name(code) for code in np.flatnonzero(silent)[:SHOWN].tolist()]
    return tuple(Missing(name, None, None, 0, no_messages=True) for name in names)


def _missing_at(run: Run, position: int, code: int, index: int) -> Iterator[Missing]:
    """Find what the first hole of a process shows to be missing, from the event right after it."""
    name, table = run.processes.name(code), run.processes.table
    if table["first_gone"][code].as_py() == index:
        yield Missing(name, None, None, 1, reason=table["gone_why"][code].as_py())
    elif table["messages"][code].as_py() == 0:
        yield Missing(name, None, None, 0, no_messages=True)
        return
    positions = [position] if index == 1 else [position_of_index(run, code, index - 1), position]
    *before, event = events_at(run, positions)
    after_seq = before[0].seq if before else None
    left_out = event.seq - (after_seq or 0) - 1
    if left_out > 0:
        yield Missing(name, after_seq, event.seq, left_out)
    shows = event.receives is not None or event.kind == RECEIVE or event.missing or left_out > 0
    if not shows and table["first_gone"][code].as_py() != index:
        event = _shown_by(run, code, index) or event
    for key in event.missing:
        yield Missing(None, None, None, 1, key, event.id)
    if event.kind == RECEIVE and (event.receives or "").startswith(ANSWER) and not event.missing:
        yield Missing(None, None, None, 1, event.receives, event.id)
    elif event.receives is None and event.kind == RECEIVE and (event.sends or "").startswith(SPAN):
        yield Missing(None, None, None, 1, CALLER, event.id)


def _shown_by(run: Run, code: int, index: int) -> Event | None:
    """Find an event with a missing cause at the same time as the event of this number in a process.

    Events at one time may have happened in either order, so a cause that one of them lacks is missing for all.
    """
    last = min(index + MOST_TIED, int(run.processes.events[code]))
    first, *others = events_at(run, [position_of_index(run, code, number) for number in range(index, last + 1)])
    tied = (event for event in others if event.time == first.time)
    return next((event for event in tied if event.missing or (event.receives or "").startswith(ANSWER)), None)


def _numbers(run: Run, column: str) -> Longs:
    numbers: Longs = run.processes.table[column].fill_null(NEVER).to_numpy()
    return numbers
