"""What spans record and what they leave open: waits within a process, calls without a client, processes without messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import whence
from whence.history import History, Standing
from whence.history.batch import observe as observing
from whence.history.batch.inline import InlineEngine
from whence.sources.inputs import find_inputs

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
            own, _, part = event.id.partition("/") if event.id else ("", "", "")
            name = bytes.fromhex(own).lstrip(b"\0").decode() if own else event.name
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
    return Asked(whence.open(folder / "h"))


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
