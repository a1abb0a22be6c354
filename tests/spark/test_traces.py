"""Traces through the whole pipeline: spans, logs and links of several formats in one run."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import ledto
from ledto.questions.standing import Standing
from ledto.sources import SourceError
from tests.spark.running import observe

pytestmark = pytest.mark.xdist_group("spark")

START = 1_700_000_000_000_000_000
ORDER, OTHER, WORK = (f"{number:032x}" for number in (1, 2, 3))
INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = range(1, 6)


def span(trace: str, number: int, parent: int | None, kind: int, start: int, end: int, **more: Any) -> dict[str, Any]:
    found = {"traceId": trace, "spanId": f"{number:016x}", "name": f"span {number}", "kind": kind}
    found |= {"startTimeUnixNano": str(START + start), "endTimeUnixNano": str(START + end)}
    return found | ({} if parent is None else {"parentSpanId": f"{parent:016x}"}) | more


def request(signal: str, by_service: dict[str, list[dict[str, Any]]]) -> str:
    records = {"Spans": "spans", "Logs": "logRecords"}[signal]
    return json.dumps(
        {
            f"resource{signal}": [
                {
                    "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": name}}]},
                    f"scope{signal}": [{records: found}],
                }
                for name, found in by_service.items()
            ]
        }
    )


def link(trace: str, number: int) -> dict[str, str]:
    return {"traceId": trace, "spanId": f"{number:016x}"}


@pytest.fixture(scope="module")
def history(spark, tmp_path_factory: pytest.TempPathFactory) -> ledto.History:
    """Two requests publish a message each; a worker takes both and fails because of a query. Clocks are far apart."""
    folder = tmp_path_factory.mktemp("traces")
    worker, database = -5_000_000, 90_000_000
    spans = {
        "web": [
            span(ORDER, 1, None, SERVER, 0, 100),
            span(ORDER, 2, 1, PRODUCER, 10, 20),
            span(OTHER, 3, None, SERVER, 5, 90),
            span(OTHER, 4, 3, PRODUCER, 15, 22),
            span(OTHER, 9, 3, INTERNAL, 40, 60),
        ],
        "worker": [
            span(
                WORK,
                5,
                None,
                CONSUMER,
                worker,
                worker + 500,
                links=[link(ORDER, 2), link(OTHER, 4), link(f"{99:032x}", 99)],
                status={"code": 2},
            ),
            span(WORK, 6, 5, CLIENT, worker + 100, worker + 400),
            span(WORK, 8, 255, INTERNAL, worker + 100, worker + 400),
        ],
        "db": [span(WORK, 7, 6, SERVER, database, database + 100)],
    }
    log = {"timeUnixNano": str(START + database + 50), "body": {"stringValue": "deadlock"}, **link(WORK, 7)}
    (folder / "spans.json").write_text(request("Spans", spans))
    (folder / "logs.json.gz").write_bytes(gzip.compress(request("Logs", {"db": [log]}).encode()))
    (folder / "own.jsonl").write_text('{"process": "cron", "time": 1, "name": "tick"}\n')
    manifest = observe(spark, [str(folder)], folder / "history")
    assert {each.format for each in manifest.inputs} == {"otlp", "ledto"}
    return ledto.open(folder / "history")


def name(number: int, *, start: bool = False) -> str:
    return f"{number:016x}/start" if start else f"{number:016x}"


def test_a_failure_is_followed_through_links_calls_and_logs(history: ledto.History) -> None:
    """The answer a user waits for: both messages, the query, and nothing of what ran beside them."""
    answer = history.why(name(5))
    recorded = {name(number, start=True) for number in (1, 2, 3, 4, 5)}
    assert {event.id for event in answer.causes} == recorded
    assert answer.possible[0].event.id == name(6), "the call was most likely waited for"
    waited = history.why(name(5), answered=True)
    query = {name(6, start=True), name(7, start=True), name(7), name(6)}
    assert recorded | query <= {event.id for event in waited.causes}
    assert answer.missing[0].message == f"span {99:032x}/{99:016x}"
    assert [gap.kind for gap in answer.missing] == ["cause", "caller", "messages"]


def test_relations_do_not_rest_on_clocks_of_different_machines(history: ledto.History) -> None:
    """Clocks are 95 ms apart; a call is still before its answer, and what only stood earlier is no cause."""

    def relation(first: str, second: str) -> Standing:
        return history.relation(history.event(first).position, history.event(second).position)

    assert relation(name(6, start=True), name(7, start=True)) == Standing.BEFORE
    assert relation(name(7), name(6)) == Standing.POSSIBLE, "that a call waits for its answer is assumed"
    assert relation(name(2), name(5)) == Standing.UNKNOWN, (
        "the producer's end is not the message, and a report is missing"
    )
    assert relation(name(3, start=True), name(2)) == Standing.POSSIBLE, "one process did both"
    assert relation(name(8, start=True), name(5)) == Standing.POSSIBLE, "its parent is not known, its process is"
    assert history.event(name(8, start=True)).missing == (f"span {WORK}/{255:016x}",)


def test_corrected_times_respect_causality_and_wall_times_stay(history: ledto.History) -> None:
    """A trace viewer draws a child before its parent; corrected times do not, and say by how much they differ."""
    events = [history.event(each) for each in (name(6, start=True), name(7, start=True), name(7), name(6))]
    call, served = history.event(name(6, start=True)), history.event(name(7, start=True))
    assert (call.time, served.time) == (START - 4_999_900, START + 90_000_000)
    corrected = {event.id: event.corrected_time for event in events}
    assert corrected[name(6, start=True)] <= corrected[name(7, start=True)] <= corrected[name(7)] <= corrected[name(6)]


def test_a_service_is_asked_for_by_its_name(history: ledto.History) -> None:
    """A service that did two things at once is one process of two lines: none of them is left out."""
    answer = history.why(name(5), processes=["web"])
    assert {(event.process, event.line) for event in answer.causes} == {
        *(("web", f"{ORDER}/{number:016x}") for number in (1, 2)),
        *(("web", f"{OTHER}/{number:016x}") for number in (3, 4)),
    }


def test_what_is_missing_is_counted(history: ledto.History) -> None:
    """One parent and one linked span were not reported: nobody is told that the history is whole."""
    assert history.check().ledger["missing_causes"] == 2
    assert history.check().ledger["quarantined"] == 0


def test_spans_say_themselves_what_their_times_count(spark, tmp_path: Path) -> None:
    """Milliseconds for OTLP would put every event into the year 1970."""
    (tmp_path / "spans.json").write_text(request("Spans", {"web": [span(ORDER, 1, None, SERVER, 0, 1)]}))
    with pytest.raises(SourceError, match="count nanoseconds"):
        observe(spark, [str(tmp_path / "spans.json")], tmp_path / "h", options={"unit": "ms"}, unit="ms")


def test_a_file_like_no_other_is_named(spark, tmp_path: Path) -> None:
    """A folder with one unknown file must not become a history without it."""
    (tmp_path / "own.jsonl").write_text('{"process": "cron", "time": 1}\n')
    (tmp_path / "app.log").write_text("12:00:00 INFO started\n")
    with pytest.raises(SourceError, match=r"the format of .*app\.log cannot be recognised"):
        observe(spark, [str(tmp_path)], tmp_path / "h")


@pytest.mark.parametrize("format", ["jaeger", "zipkin"])
def test_spans_without_any_tags_may_come_twice(spark, tmp_path: Path, format: str) -> None:
    """Exporters retry, and plain spans have no tags at all: the second copy would end the run instead of being counted."""
    if format == "zipkin":
        sent: dict[str, Any] = {"traceId": ORDER, "id": "1", "timestamp": 10, "duration": 5, "name": "get"}
        sent |= {"localEndpoint": {"serviceName": "web"}, "annotations": [{"timestamp": 12, "value": "miss"}]}
        document: Any = [sent, sent]
    else:
        sent = {"traceID": ORDER, "spanID": "1", "startTime": 10, "duration": 5, "operationName": "get"}
        sent |= {"processID": "p", "logs": [{"timestamp": 12, "fields": [{"key": "event", "value": "miss"}]}]}
        document = {"traceID": ORDER, "spans": [sent, sent], "processes": {"p": {"serviceName": "web"}}}
    (tmp_path / "spans.json").write_text(json.dumps(document))
    ledger = observe(spark, [str(tmp_path / "spans.json")], tmp_path / "h", format=format).ledger
    assert (ledger.reports, ledger.delivered, ledger.duplicate, ledger.quarantined) == (6, 3, 3, 0)
