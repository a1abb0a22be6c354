"""What is known to be missing: reports without which nobody can say that two events are concurrent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ledto.causality.taint import NEVER
from ledto.events.schema import ANSWER, CALLER, RECEIVE, SPAN, UNENDED, UNKNOWN_ANSWER, UNKNOWN_CALL, UNKNOWN_PLACE
from ledto.history.gone import LATE
from ledto.history.run import Run
from ledto.history.tables import Longs
from ledto.questions.event import Event, events_at
from ledto.questions.locate import code_at, index_at, position_of_index, row_of
from ledto.questions.many_pairs import numbers_within
from ledto.questions.parts import past_vector_at

MOST_TIED = 50
"""Events at one time that are looked at for what is missing."""
SHOWN = 10
"""Processes whose missing reports are told, at most."""
KINDS = ("numbers", "report", "cause", "caller", "callee", "answer", "call", "time", "messages")
"""What may be missing: events whose numbers are left out; a report that was set aside or came late; an event that another
names as its cause; who called a server, and whom a client called, where these do not report; when an answer was sent; when a
span of another process made a call; when something happened that stands before the start of its own span; all messages of
a process."""


WORDS = {CALLER: "caller", UNKNOWN_ANSWER: "answer", UNKNOWN_CALL: "call", UNKNOWN_PLACE: "time"}
"""The kinds of what is missing and has no key."""


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that is known to have happened and of which the history has no report."""

    process: str | None
    """The process whose reports are missing; None where only a message tells of it."""
    after_seq: int | None
    before_seq: int | None
    """The missing events lie between these two of the process."""
    events: int
    """How many, at least."""
    message: str | None = None
    """A message that was received and whose sending nobody reported, or a span that something names as its cause."""
    received_by: str | None = None
    """The id of the event that received it, or names it."""
    no_messages: bool = False
    """The process tells of no message at all, so that nobody knows what reached it, and what it reached."""
    set_aside: str | None = None
    """Why a report of the process was set aside: the code of the reason, as `quarantine` lists it, or ``late``."""

    @property
    def kind(self) -> str:
        """What sort of thing is missing, a word of `KINDS`."""
        if self.no_messages:
            return "messages"
        if self.set_aside is not None:
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
                return f"all messages of {self.process}, which tells of none"
            case "report" if self.set_aside == LATE:
                return f"the place of a report of {self.process} that came late"
            case "report":
                return f"a report of {self.process} that was set aside: {self.set_aside}"
            case "answer":
                return f"when the answer was sent that {self.received_by} may have waited for"
            case "call":
                return f"when {self.received_by} was called, which is not recorded"
            case "time":
                return f"when {self.received_by} happened, which stands before the start of its span by its clock"
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
        """Its kind, and the fields that say something."""
        every = {"kind": self.kind, **{name: getattr(self, name) for name in Missing.__slots__}}
        return {name: value for name, value in every.items() if value is not None and value is not False}


def _named_cause(key: str) -> str:
    """What a key that begins with `SPAN` names: a span of a trace, or a thread or channel by the words of its mapping."""
    trace, between, span = key.removeprefix(SPAN).partition("/")
    is_trace = between and re.fullmatch(r"[0-9a-f]{16,32}", trace)
    return f"span {span} of trace {trace}" if is_trace else key.removeprefix(SPAN)


def first_holes(run: Run) -> Longs:
    """By process: the number of its first event before which a report is missing; `NEVER` for none."""
    return _numbers(run, "first_hole")


def first_tainted(run: Run) -> Longs:
    """By process: the number of its first event with such an event in its past; `NEVER` for none."""
    return _numbers(run, "first_tainted")


def is_tainted(run: Run, position: int) -> bool:
    """Tell whether a report is missing in what may have led to an event."""
    first = int(first_tainted(run)[code_at(run, position)])
    return first != NEVER and index_at(run, position) >= first


def are_tainted(run: Run, positions: Longs) -> NDArray[np.bool_]:
    """`is_tainted` of many positions; each segment is read once."""
    found = np.zeros(len(positions), np.bool_)
    first = first_tainted(run)
    numbers = np.searchsorted(run.segments.first_position, positions, side="right") - 1
    for number in np.unique(numbers).tolist():
        codes = run.segments.codes_of(number)
        if (first[codes] == NEVER).all():
            continue
        mine = np.flatnonzero(numbers == number)
        process = run.process_column(number).astype(np.int32)
        index = numbers_within(process, run.segments.before_of(number).astype(np.int64))
        rows = positions[mine] - run.segments.first_position[number]
        found[mine] = index[rows] >= first[codes[process[rows]]]
    return found


def missing_before(run: Run, codes: Longs, past: Longs) -> tuple[Missing, ...]:
    """What is missing in a past, given how many events of each of these processes are in it: the latest first."""
    holes = first_holes(run)[codes]
    reached = codes[(past >= holes) & (past > 0)][: 4 * SHOWN].tolist()
    latest = sorted(((_first_hole_at(run, code), code) for code in reached), reverse=True)[:SHOWN]
    return tuple(told for place, code in latest for told in _told_at_first_hole(run, code, place))


def _first_hole_at(run: Run, code: int) -> int:
    """The position of the first event of a process before which a report is missing."""
    return run.kept(("hole", code), lambda: position_of_index(run, code, int(first_holes(run)[code])), lambda _: 64)


def _told_at_first_hole(run: Run, code: int, position: int) -> tuple[Missing, ...]:
    """What that event shows to be missing: found once, because it does not depend on the event that is asked about."""
    return run.kept(
        ("missing", code),
        lambda: tuple(_missing_at(run, position, code, int(first_holes(run)[code]))),
        lambda found: 512 * (1 + len(found)),
    )


def missing_in_past(run: Run, position: int) -> tuple[Missing, ...]:
    """What is missing in what may have led to an event, one or two things of each process: the latest first."""
    if not is_tainted(run, position):
        return ()
    number, _ = row_of(run, position)
    return missing_before(run, run.segments.codes_of(number).astype(np.int64), past_vector_at(run, position))


def silent_beside(run: Run, position: int) -> tuple[Missing, ...]:
    """Processes of the same computation that tell of no message: nobody knows what they have to do with the event."""
    computation = run.processes.computation_number
    silent = (run.processes.table["messages"].to_numpy() == 0) & (first_holes(run) == 1)
    silent &= computation == computation[code_at(run, position)]
    names = [run.processes.name(code) for code in np.flatnonzero(silent)[:SHOWN].tolist()]
    return tuple(Missing(name, None, None, 0, no_messages=True) for name in names)


def _missing_at(run: Run, position: int, code: int, index: int) -> Iterator[Missing]:
    """What an event shows to be missing, which is the first of its process that shows such a thing."""
    name, table = run.processes.name(code), run.processes.table
    if table["first_gone"][code].as_py() == index:
        yield Missing(name, None, None, 1, set_aside=table["gone_why"][code].as_py())
    elif table["messages"][code].as_py() == 0:
        yield Missing(name, None, None, 0, no_messages=True)
        return
    positions = [position] if index == 1 else [position_of_index(run, code, index - 1), position]
    *before, event = events_at(run, positions)
    after_seq = before[0].seq if before else None
    left_out = event.seq - (after_seq or 0) - 1
    if left_out > 0 and (before or run.has_numbers):
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
    """Find the next event of a process at the time of its event of this number that misses a cause.

    It may have happened before that one, which then counts as if it missed the cause, too.
    """
    last = min(index + MOST_TIED, int(run.processes.events[code]))
    first, *others = events_at(run, [position_of_index(run, code, each) for each in range(index, last + 1)])
    tied = (each for each in others if each.time == first.time)
    return next((each for each in tied if each.missing or (each.receives or "").startswith(ANSWER)), None)


def _numbers(run: Run, column: str) -> Longs:
    found: Longs = run.processes.table[column].fill_null(NEVER).to_numpy()
    return found
