"""What spans record and what they leave open: waits within a process, calls without a client, processes without messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import ledto
from ledto.batch import observe as observing
from ledto.batch.inline import InlineEngine
from ledto.questions import History, Standing
from ledto.sources.inputs import find_inputs

KINDS = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
BEFORE, POSSIBLE, CONCURRENT, UNKNOWN = Standing.BEFORE, Standing.POSSIBLE, Standing.CONCURRENT, Standing.UNKNOWN


@dataclass(frozen=True)
class Told:
    """A span as somebody reports it, with times in milliseconds; its name is its id."""

    process: str
    name: str
    kind: str
    start: int
    end: int | None
    parent: str = ""
    moments: Sequence[int] = ()
    links: Sequence[str] = ()
    trace: str = "t"


def _hex(name: str, digits: int) -> str:
    return name.encode().hex().rjust(digits, "0")


def _nanoseconds(milliseconds: int) -> str:
    return str((1_700_000_000_000 + milliseconds) * 1_000_000)


def _as_otlp(span: Told) -> str:
    told = {
        "traceId": _hex(span.trace, 32),
        "spanId": _hex(span.name, 16),
        "parentSpanId": _hex(span.parent, 16) if span.parent else "",
        "name": span.name,
        "kind": KINDS[span.kind],
        "startTimeUnixNano": _nanoseconds(span.start),
        "endTimeUnixNano": "0" if span.end is None else _nanoseconds(span.end),
        "events": [{"timeUnixNano": _nanoseconds(time), "name": "moment"} for time in span.moments],
        "links": [{"traceId": _hex(span.trace, 32), "spanId": _hex(each, 16)} for each in span.links],
    }
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": span.process}}]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [told]}]}]}) + "\n"


def _as_record(process: str, span: str, time: int) -> str:
    told = {
        "timeUnixNano": _nanoseconds(time),
        "traceId": _hex("t", 32),
        "spanId": _hex(span, 16),
        "body": {"stringValue": f"record of {span}"},
    }
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": process}}]}
    return json.dumps({"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": [told]}]}]}) + "\n"


class Asked:
    """A history, asked by the names of spans: ``A`` is the end of A, ``A/start`` its start, ``A/1`` its first moment."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._position = {}
        for event in history.order():
            own, _, part = event.id.partition("/")
            name = str(event.name) if ":" in own else bytes.fromhex(own).lstrip(b"\0").decode()
            self._position[f"{name}/{part}" if part else name] = event.position

    def at(self, name: str) -> int:
        return self._position[name]

    def relation(self, one: str, other: str, *, answered: bool = False) -> Standing:
        return self.history.relation(self.at(one), self.at(other), answered=answered)

    def missing(self, name: str) -> list[str]:
        return [each.kind for each in self.history.why(self.at(name)).missing]


def ask(folder: Path, *told: Told | str) -> Asked:
    folder.mkdir(exist_ok=True)
    (folder / "spans.jsonl").write_text("".join(each if isinstance(each, str) else _as_otlp(each) for each in told))
    inputs = find_inputs([str(folder / "spans.jsonl")], format="otlp")
    observing.observe(InlineEngine(), inputs, folder / "h")
    return Asked(ledto.open(folder / "h"))


@pytest.mark.parametrize("kind", ["internal", "client", "producer"])
@pytest.mark.parametrize("home", ["r", None])
def test_of_two_calls_to_a_process_the_first_did_not_lead_to_the_second(
    kind: str, home: str | None, tmp_path: Path
) -> None:
    """A user would be told, as recorded, that a request led to the next one that only came later."""
    root = [Told(home, "R", "internal", 0, 100)] if home else []
    asked = ask(tmp_path, *root, Told("p", "A", kind, 5, 20, "R"), Told("p", "B", kind, 30, 40, "R"))
    assert asked.relation("A", "B/start") == POSSIBLE


def test_that_a_span_waited_for_its_children_is_assumed(tmp_path: Path) -> None:
    """A user would be told, as recorded, that background work led to what was done beside it."""
    asked = ask(
        tmp_path,
        Told("p", "R", "internal", 0, 100),
        Told("p", "A", "internal", 5, 20, "R"),
        Told("p", "B", "internal", 6, 40, "R"),
        Told("p", "C", "internal", 21, 50, "R"),
        Told("p", "D", "internal", 60, 120, "R"),
    )
    assert asked.relation("R/start", "A/start") == asked.relation("A/start", "A") == BEFORE
    assert asked.relation("A", "C/start") == asked.relation("A", "C/start", answered=True) == POSSIBLE
    assert asked.relation("A", "R") == POSSIBLE
    assert asked.relation("A", "R", answered=True) == BEFORE
    step = asked.history.explain(asked.at("A"), asked.at("R")).steps[-1]
    assert (step.kind, step.known) == ("answer", "assumed")
    # D went on: nobody waited for it, and nothing is missing for that.
    assert asked.relation("D", "R", answered=True) == POSSIBLE
    assert asked.history.why(asked.at("R")).complete


@pytest.mark.parametrize("kind", ["server", "internal"])
def test_a_call_without_a_client_may_have_been_answered(kind: str, tmp_path: Path) -> None:
    """A user would be told that what a service did cannot have led to how its caller ended."""
    asked = ask(tmp_path, Told("p", "R", "internal", 0, 100), Told("q", "S", kind, 20, 30, "R"))
    assert asked.relation("S", "R") == POSSIBLE
    assert asked.relation("S", "R", answered=True) == BEFORE


def test_a_call_that_nobody_saw_end_may_have_been_answered_at_any_time(tmp_path: Path) -> None:
    """A user would be told that a service cannot have led to a failure after a call to it, because the call never ended."""
    asked = ask(
        tmp_path,
        Told("p", "R", "internal", 0, 100),
        Told("p", "C", "client", 5, None, "R"),
        Told("q", "S", "server", 20, 30, "C"),
    )
    assert asked.relation("C/start", "S/start") == BEFORE
    assert asked.relation("S", "R") == UNKNOWN
    assert asked.missing("R") == ["answer"]


@pytest.mark.parametrize("early", ["record", "moment", "end"])
def test_what_stands_before_the_start_of_its_span_is_no_evidence(early: str, tmp_path: Path) -> None:
    """A coarse clock of a log would clear what led to the record, since the record stands before its span begins."""
    asked = ask(
        tmp_path,
        Told("z", "X", "producer", 0, 10),
        Told("q", "K", "consumer", 40, 30 if early == "end" else 90, "X", moments=[35] if early == "moment" else []),
        *([_as_record("q", "K", 35)] if early == "record" else []),
    )
    name = {"record": "record of K", "moment": "K/1", "end": "K"}[early]
    assert asked.relation("X/start", name) == UNKNOWN
    assert asked.relation("X/start", "K/start") == BEFORE


def test_spans_within_a_process_tell_nothing_of_its_messages(tmp_path: Path) -> None:
    """A user would be told that a job cannot have led to a failure, although nothing says whom the job talked to."""
    asked = ask(
        tmp_path,
        Told("cron", "R", "internal", 0, 20),
        Told("cron", "C", "internal", 5, 10, "R"),
        Told("web", "A", "producer", 30, 50),
        Told("far", "F", "internal", 40, 45, "A"),
    )
    assert asked.relation("R", "A/start") == UNKNOWN
    assert asked.history.related(asked.at("R"), asked.at("A/start")).missing[0].no_messages
    # Who was called by another process tells of its messages.
    assert asked.relation("F", "A") == CONCURRENT


def test_one_wrong_link_takes_no_other_cause_along(tmp_path: Path) -> None:
    """A link to what began later would hide who called a service, and call the caller missing."""
    asked = ask(
        tmp_path,
        Told("p", "L", "internal", 10, 90, links=["S"]),
        Told("p", "C", "client", 20, 80),
        Told("p", "S", "server", 30, 70, "C"),
    )
    assert asked.relation("C/start", "S/start") == BEFORE
    assert asked.history.event(asked.at("S/start")).missing == ()
    assert len(asked.history.event(asked.at("L/start")).missing) == 1


def test_links_in_a_circle_at_one_time_name_each_other_as_missing(tmp_path: Path) -> None:
    """A user would look for a call that nobody made: the key of what is only assumed would be told as missing."""
    asked = ask(
        tmp_path,
        Told("p", "A", "producer", 10, 90, links=["D"]),
        Told("p", "B", "internal", 10, 90),
        Told("q", "D", "producer", 10, 90, links=["A"]),
        Told("q", "E", "internal", 10, 90),
    )
    kinds = {each.kind for name in ("A", "B", "D", "E") for each in asked.history.why(asked.at(name)).missing}
    assert kinds == {"cause"}


def test_when_a_span_called_is_known_of_clients_and_producers_only(tmp_path: Path) -> None:
    """A user would be told that what a span did before it called a service cannot have led to what that did."""
    asked = ask(
        tmp_path,
        Told("p", "R", "internal", 0, 120, moments=[8]),
        Told("p", "A", "producer", 5, 20, "R"),
        Told("p", "C", "client", 50, 70, "R"),
        Told("q", "D", "server", 30, 40, "R"),
        Told("s", "S", "server", 55, 60, "C"),
    )
    assert asked.relation("R/start", "D/start") == BEFORE
    assert asked.relation("R/1", "D/start") == asked.relation("A", "D/start") == UNKNOWN
    assert asked.missing("D") == ["call"]
    assert asked.relation("C/start", "S/start") == BEFORE
    assert asked.missing("S") == []


def test_a_child_in_the_same_process_does_not_answer_a_call(tmp_path: Path) -> None:
    """A look-up of a name within the call would be taken for the answer of a service that does not report."""
    asked = ask(
        tmp_path,
        Told("p", "C", "client", 0, 50),
        Told("p", "X", "internal", 5, 10, "C"),
        Told("q", "K", "producer", 20, 30),
    )
    assert asked.relation("K/start", "C") == UNKNOWN
    assert asked.missing("C") == ["callee"]
