"""Segments of AWS X-Ray: what becomes of them, and what they prove about causes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

import ledto
from ledto.sources import check_source
from ledto.sources.xray.source import XRay
from tests.sources.reading import SAMPLES, rows
from tests.sources.structures import Case, bad_json, complains, read_checked

LINES = (SAMPLES / "xray.jsonl").read_bytes()
GOOD = b"".join(LINES.splitlines(keepends=True)[number] for number in (0, 1, 4))
ANSWER = (SAMPLES / "xray.json").read_bytes()
TRACE = "5f84c7a1e7d1852db8c4fd35d88bf49a"
SECOND = 1_000_000_000
NOON = 1_602_537_377 * SECOND
SEGMENT: dict[str, Any] = {
    "trace_id": "1-5f84c7a1-e7d1852db8c4fd35d88bf49a",
    "id": "7df694142c905d8d",
    "name": "shop",
    "start_time": 1602537377.25,
    "end_time": 1602537378,
}


def read(*segments: Any, exact: bool = False) -> list[dict[str, Any]]:
    return rows(XRay(exact=exact), "\n".join(json.dumps(segment) for segment in segments))


def codes(*segments: Any) -> list[str | None]:
    return [row.get("reason", "").partition(":")[0] or None for row in read(*segments)]


def test_segments_become_spans_of_servers_and_clients() -> None:
    """A call that is no message, or a time of another second, would be another story."""
    found = {row["id"]: row for row in rows(XRay(), LINES) if "id" in row}
    shop, stock = "shop@i-0a1b2c", "stock@3f2a1b9c8d7e"
    start = found["7df694142c905d8d/start"]
    assert (start["process"], start["kind"], start["time"], start["name"]) == (shop, "receive", NOON, "shop starts")
    assert "receives" not in start
    end = found["7df694142c905d8d"]
    assert (end["time"], end["name"], end["error"]) == (NOON + SECOND // 10, "shop fails", True)
    assert json.loads(end["attributes"])["annotations"] == {"order": 7}
    call = found["2222222222222222/start"]
    assert (call["process"], call["kind"], call["line_parent"]) == (shop, "send", f"{TRACE}/7df694142c905d8d")
    assert call["receives_more"] == [f"span {TRACE}/1111111111111111"]
    assert found["1111111111111111/start"]["kind"] == "local"
    assert found["3333333333333333"]["time"] == NOON + 22_000_000
    served = found["8888888888888888/start"]
    assert (served["process"], served["kind"], served["receives"]) == (
        stock,
        "receive",
        f"span {TRACE}/2222222222222222",
    )
    assert found["5555555555555555"]["kind"] == "local"
    oven = found["aaaaaaaaaaaaaaaa/start"]
    assert (oven["process"], oven["receives"]) == ("oven", f"span {TRACE}/5555555555555555")
    assert "aaaaaaaaaaaaaaaa" not in found
    bad = [row["reason"].partition(":")[0] for row in rows(XRay(), LINES) if "reason" in row]
    assert bad == ["inferred", "no-process", "bad-field"]


def test_an_answer_of_xray_holds_the_same_segments() -> None:
    """``aws xray batch-get-traces`` writes segments as text within JSON."""
    of_lines = [row for row in rows(XRay(), LINES) if row.get("line", "").startswith(TRACE)]
    of_answer = [row for row in rows(XRay(), ANSWER) if "reason" not in row]
    assert [row | {"place": 0} for row in of_answer] == [row | {"place": 0} for row in of_lines]
    bad = [row["reason"].partition(":")[0] for row in rows(XRay(), ANSWER) if "reason" in row]
    assert bad == ["inferred", "no-trace"]
    documents = json.dumps({"TraceSegmentDocuments": [json.dumps(SEGMENT)]})
    assert [row["id"] for row in rows(XRay(), documents)] == ["7df694142c905d8d/start", "7df694142c905d8d"]


def test_what_segments_prove(tmp_path: Path) -> None:
    """The stock's clock is half a second behind; nothing may depend on that."""
    history = ledto.observe(SAMPLES / "xray.jsonl", tmp_path / "history")
    relations = {
        ("7df694142c905d8d/start", "8888888888888888/start"): "before",
        ("2222222222222222/start", "8888888888888888"): "before",
        ("8888888888888888/start", "4444444444444444/start"): "before",
        # A precursor had ended when the call began.
        ("1111111111111111/start", "2222222222222222/start"): "before",
        # That the caller waited for its answer is assumed.
        ("8888888888888888", "2222222222222222"): "possible",
        ("8888888888888888", "7df694142c905d8d"): "possible",
        # A link to the call that handed the message over; nobody waited for its consumer.
        ("5555555555555555/start", "aaaaaaaaaaaaaaaa/start"): "before",
        ("7df694142c905d8d/start", "aaaaaaaaaaaaaaaa/start"): "before",
    }
    assert {pair: history.relation(*pair).value for pair in relations} == relations


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"trace_id": None}, "no-span"),
        ({"trace_id": "1-5f84c7a1-e7d1"}, "bad-field"),
        ({"trace_id": 5}, "bad-field"),
        ({"id": None}, "no-span"),
        ({"id": "0000000000000000"}, "no-span"),
        ({"id": "xyz"}, "bad-field"),
        ({"name": None}, "no-process"),
        ({"name": "a\0"}, "bad-field"),
        ({"start_time": None}, "no-time"),
        ({"start_time": 0}, "no-time"),
        ({"start_time": -1}, "bad-field"),
        ({"start_time": "1602537377"}, "bad-field"),
        ({"start_time": True}, "bad-field"),
        ({"end_time": 1e300}, "number-out-of-range"),
        ({"parent_id": ["b"]}, "bad-field"),
        ({"inferred": True}, "inferred"),
        ({"type": "subsegment"}, "no-process"),
        ({"aws": []}, "bad-field"),
        ({"links": [{"attributes": {"ReferenceType": "parent"}}]}, "bad-field"),
        ({"precursor_ids": "a"}, "bad-field"),
    ],
    ids=repr,
)
def test_a_field_that_means_nothing_sets_its_segment_aside(change: dict[str, Any], code: str) -> None:
    """A guess about a wrong field would put an event where it did not happen."""
    assert codes(SEGMENT, SEGMENT | change, SEGMENT) == [None, None, code, None, None]


def test_a_bad_subsegment_is_set_aside_alone() -> None:
    """One call that cannot be read must not hide the request that it belongs to."""
    inner = {"id": "b", "name": "inner", "start_time": 1602537377.3, "end_time": 1602537377.4}
    outer = {"id": "c", "name": "outer", "start_time": "soon", "subsegments": [inner]}
    found = read(SEGMENT | {"subsegments": [outer]})
    assert [row.get("id", row.get("reason", "")[:9]) for row in found] == [
        "7df694142c905d8d/start",
        "7df694142c905d8d",
        "000000000000000b/start",
        "000000000000000b",
        "bad-field",
    ]
    assert found[2]["line_parent"] == f"{TRACE}/7df694142c905d8d"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({}, None),
        ({"fault": True}, True),
        ({"error": True}, False),
        ({"throttle": True}, False),
        ({"error": True, "fault": True}, True),
    ],
    ids=repr,
)
def test_a_service_that_refuses_a_request_has_not_failed(change: dict[str, Any], error: bool | None) -> None:
    """X-Ray calls a status of 400 to 499 an error: of the caller, whose own subsegment says so."""
    call = {"id": "b", "name": "call", "namespace": "remote", "start_time": 1602537377.3, "end_time": 1602537377.4}
    found = {row["id"]: row.get("error") for row in read(SEGMENT | change | {"subsegments": [call | change]})}
    assert found["7df694142c905d8d"] is error
    assert found["000000000000000b"] is (True if change else None)


def test_it_keeps_what_a_source_promises() -> None:
    """A source that lost, invented or reordered one record would change what caused what, without a word."""
    assert check_source(XRay(), LINES, mutations=100) > 100
    assert check_source(XRay(), ANSWER, mutations=100) > 100


@settings(max_examples=200)
@given(bad_json(GOOD))
def test_bad_input_of_any_structure_is_survived_and_told(case: Case) -> None:
    """What no strict reader can accept must not pass for a trace. The quick parser gives the rows of the exact one."""
    found = read_checked(XRay(), case)
    assert complains(found) or not case.is_wrong
    assert found.equals(read_checked(XRay(exact=True), case))
