"""The mappings that come with ledto: what their formats prove about causes, and nothing beyond it.

The relations are those that the documentation of each format implies, worked out by hand. ``unknown`` and ``possible``
matter as much as ``before``: an edge that a record does not prove would be told as the cause of a failure.
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

import ledto
from ledto.questions import RELATIONS, History
from ledto.sources import SOURCES, FileSlice, SourceError, check_source
from ledto.sources.mapping.builtin import BUILT_IN
from ledto.sources.mapping.documents import document_chunks
from ledto.sources.mapping.file import read_mapping
from ledto.sources.mapping.source import Mapped
from ledto.sources.registry import recognise
from tests.sources.hard_lines import hard_files
from tests.sources.reading import SAMPLES, rows
from tests.sources.structures import Case, bad_json, complains, read_checked

SAMPLE_OF = {
    "ecs": "ecs.jsonl",
    "gcp": "gcp.jsonl",
    "cloudtrail": "cloudtrail.json",
    "k8s-audit": "k8s-audit.jsonl",
    "tetragon": "tetragon.jsonl",
    "falco": "falco.jsonl",
}
"""Each sample ends with records that cannot be used."""


def sample(format: str) -> bytes:
    return (SAMPLES / SAMPLE_OF[format]).read_bytes()


def read(format: str, data: bytes | str | None = None) -> list[dict[str, Any]]:
    return rows(SOURCES[format](), sample(format) if data is None else data)


def history_of(folder: Path, file: Path) -> History:
    """Observe a file that must be recognised by itself."""
    return ledto.observe(file, folder / "history")


def assert_relations(history: History, relations: dict[tuple[str, str], str]) -> None:
    found = {pair: history.relation(*pair).value for pair in relations}
    assert found == relations


@pytest.mark.parametrize("format", BUILT_IN)
def test_builtin_mappings_keep_what_a_source_promises(format: str) -> None:
    """Whatever the bytes, wherever the cut: no exception, nothing dropped, the same rows."""
    assert check_source(SOURCES[format](), sample(format), mutations=60) > 60


@pytest.mark.parametrize("format", BUILT_IN)
def test_a_format_and_the_mapping_of_its_name_read_the_same(format: str) -> None:
    """A user who copies a mapping to change it begins with what he had; quickly read or not, records mean the same."""
    assert rows(Mapped(format), sample(format)) == read(format)
    assert rows(Mapped(format, exact=True), sample(format)) == read(format)


def test_ecs_records_are_on_the_lines_of_their_traces(tmp_path: Path) -> None:
    """Two services in one trace tell of no message; two requests of one service are not each other's cause."""
    history = history_of(tmp_path, SAMPLES / "ecs.jsonl")
    assert_relations(
        history,
        {
            ("e1", "e4"): "before",
            ("e2", "e4"): "possible",
            ("e3", "e4"): "unknown",
            ("e1", "e3"): "unknown",
            # A parent's start, its child's start, and what the child does.
            ("p1", "p2"): "before",
            ("p2", "p4"): "before",
            ("p1", "p4"): "before",
            ("p3", "p4"): "possible",
            ("p4", "s1"): "unknown",
            ("e4", "p4"): "unknown",
        },
    )


def test_ecs_fields_may_be_nested_or_have_dots() -> None:
    """Libraries of one project write both."""
    found = {row["id"]: row for row in read("ecs") if "id" in row}
    assert (found["e1"]["process"], found["e1"]["line"]) == (
        "shop@shop-1",
        "7f0c8a51d2b34c6f9a1e5b7d3c2f4e60/a1b2c3d4e5f60718",
    )
    assert (found["e2"]["process"], found["e2"]["line"]) == (
        "shop@shop-1",
        "8e1d9b62c3a45d70ab2f6c8e4d305f71/b2c3d4e5f6071829",
    )
    assert "line" not in found["e5"]
    assert [found[key].get("error") for key in ("e1", "e2", "e4")] == [None, None, True]
    assert found["s1"]["process"] == "system.syslog@db-1"
    flat = {"@timestamp": "2024-05-01T12:00:00Z", "ecs": {"version": "8"}, "service.name": "a", "host": {"name": "h"}}
    assert [row["process"] for row in read("ecs", json.dumps(flat))] == ["a@h"]
    mixed = flat | {"service": {"node.name": "n"}}
    assert [row["process"] for row in read("ecs", json.dumps(mixed))] == ["a@n"]


def test_logs_and_traces_of_one_process_are_read_together(tmp_path: Path) -> None:
    """What a request logged belongs between the start and the end of its span, whoever recorded that."""
    segment = {
        "trace_id": "1-7f0c8a51-d2b34c6f9a1e5b7d3c2f4e60",
        "id": "a1b2c3d4e5f60718",
        "name": "shop",
        "aws": {"ecs": {"container_id": "shop-1"}},
        "start_time": 1714564799.9,
        "end_time": 1714564800.5,
    }
    (tmp_path / "segment.json").write_text(json.dumps(segment))
    history = ledto.observe([tmp_path / "segment.json", SAMPLES / "ecs.jsonl", SAMPLES / "gcp.jsonl"], tmp_path / "h")
    relations = {("a1b2c3d4e5f60718/start", "e1"): "before", ("e4", "a1b2c3d4e5f60718"): "before"}
    assert_relations(history, relations | {("a1b2c3d4e5f60718/start", "e2"): "possible"})


def test_log_entries_are_on_the_lines_of_traces_and_operations(tmp_path: Path) -> None:
    """A firewall that was changed while a machine was being deleted is not its cause."""
    assert_relations(
        history_of(tmp_path, SAMPLES / "gcp.jsonl"),
        {
            ("g1", "g4"): "before",
            ("g2", "g4"): "possible",
            ("g3", "g4"): "unknown",
            ("g5", "g7"): "before",
            ("g6", "g7"): "possible",
            ("g4", "g7"): "unknown",
        },
    )
    found = {row["id"]: row for row in read("gcp") if "id" in row}
    assert found["g1"]["process"] == "web@shop/web-7d4b"
    assert found["g1"]["line"] == "7f0c8a51d2b34c6f9a1e5b7d3c2f4e60/a1b2c3d4e5f60718"
    assert found["g3"]["process"] == "pay@00f1e2d3"
    assert found["g4"]["error"] is True


@pytest.mark.parametrize(
    ("trace", "span", "line"),
    [
        ("projects/p/traces/7f", "a1", "7f/a1"),
        ("projects/p/traces/7f", None, "7f"),
        ("projects/p/traces/7f", "0000000000000000", "7f"),
        ("7f", "a1", "7f/a1"),
        ("projects/p/traces/000", "a1", None),
        ("", None, None),
    ],
)
def test_a_trace_of_google_cloud_is_named_as_its_spans_name_it(trace: str, span: str | None, line: str | None) -> None:
    """Otherwise a log would not be placed in the trace that it was written in."""
    entry = {"logName": "projects/p/logs/l", "timestamp": "2024-05-01T12:00:00Z", "trace": trace, "spanId": span}
    (row,) = read("gcp", json.dumps(entry))
    assert row.get("line") == line


@pytest.mark.parametrize(
    ("ids", "line"),
    [
        ({"trace.id": "7f", "span.id": "a1", "transaction.id": "b2"}, "7f/a1"),
        ({"trace": {"id": "7f"}, "transaction": {"id": "b2"}}, "7f/b2"),
        ({"trace.id": "7f"}, "7f"),
        ({"trace.id": "7f", "span.id": "0000"}, "7f"),
        ({"trace.id": "0000", "span.id": "a1"}, None),
        ({"http": {"request": {"id": "r1"}}}, "r1"),
        ({"http.request.id": "r1"}, "r1"),
        ({"http": {"request.id": "r1"}}, "r1"),
        ({"http.request": {"id": "r1"}}, "r1"),
        ({}, None),
    ],
    ids=repr,
)
def test_an_ecs_record_is_on_the_line_of_its_span(ids: dict[str, Any], line: str | None) -> None:
    """Its service's spans have the same names, so that logs and traces can be read together."""
    record = {"@timestamp": "2024-05-01T12:00:00Z", "ecs.version": "8", "service.name": "a", **ids}
    (row,) = read("ecs", json.dumps(record))
    assert row.get("line") == line
    (exact,) = rows(Mapped("ecs", exact=True), json.dumps(record))
    assert exact == row


def events_told(format: str, data: str) -> list[dict[str, Any]]:
    """The rows without their places, which differ between layouts of a file."""
    return [{name: value for name, value in row.items() if name != "place"} for row in read(format, data)]


@pytest.mark.parametrize(("format", "holder"), [("gcp", "entries"), ("cloudtrail", "Records"), ("k8s-audit", "items")])
def test_the_layout_of_a_file_does_not_matter(format: str, holder: str) -> None:
    """The same records come as lines, as a list, and inside of a document, indented or not, one document or several."""
    text = sample(format).decode()
    if format == "cloudtrail":
        records = json.loads(text)["Records"]
    else:
        records = [json.loads(line) for line in text.splitlines()[:-1]]
    compact = [json.dumps(record, separators=(",", ":")) for record in records]
    expected = events_told(format, "\n".join(compact))
    assert len(expected) >= len(records)
    before = '{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{"note":"a:b"},'
    listed = ",\n".join(compact)
    assert events_told(format, f"[{listed}]") == expected
    assert events_told(format, f'{before}"{holder}":[{listed}],"nextPageToken":"t"}}') == expected
    halves = [compact[:2], compact[2:]]
    documents = [f'{before}"{holder}":[{",".join(half)}]}}' for half in halves]
    assert events_told(format, "\n".join(documents)) == expected
    assert events_told(format, "".join(documents)) == expected
    indented = events_told(format, json.dumps({"kind": "List", holder: records}, indent=2))
    assert [without_text(row) for row in indented] == [without_text(row) for row in expected]


def without_text(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "text"}


def test_a_damaged_record_of_a_document_does_not_take_the_next_with_it() -> None:
    """All calls of an hour may stand in one line of a file."""
    text = sample("cloudtrail").decode().replace("\n", "")
    damaged = text.replace('"eventID":"c3"', '"eventID":c3"')
    found = read("cloudtrail", damaged)
    assert [row["id"] for row in found if "id" in row] == ["c1", "c2", "c4", "c5", "c6"]
    assert sum("reason" in row for row in found) == 2


def test_a_document_is_never_held_as_a_whole() -> None:
    """Documents of an hour of a large account do not fit into memory."""
    record = json.dumps({"eventVersion": "1.08", "eventID": "c1", "padding": "x" * 1_000})
    data = ('{"Records": [' + ",".join([record] * 8_000) + "]}").encode()
    read_bytes = 0

    class Counted(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            nonlocal read_bytes
            part = super().read(size)
            read_bytes += len(part)
            return part

    chunks = document_chunks(FileSlice("sample", lambda _: Counted(data)), "Records", data[:1_000])
    first = next(chunks)
    assert read_bytes < len(data) / 2
    assert len(first.records) + sum(len(chunk.records) for chunk in chunks) == 8_000


@pytest.mark.parametrize(
    ("mapping", "complaint"),
    [
        ("records = 5", "records is the member of JSON documents"),
        ("records = ''", "records is the member of JSON documents"),
        ("records = 'r'\nformat = 'csv'", "records is the member of JSON documents"),
        ("dotted = 1", "dotted is true or false, not 1"),
    ],
)
def test_keys_about_documents_are_checked(mapping: str, complaint: str) -> None:
    """A key that is passed over is a log read in another way than its owner thinks."""
    with pytest.raises(SourceError, match=f"the mapping mine: {complaint}"):
        read_mapping(f"{mapping}\nprocess = 'p'\ntime = 't'\n".encode(), "mine")


def test_a_holder_that_holds_no_list_is_told() -> None:
    """A file of another shape must not pass for an empty one."""
    (row,) = read("cloudtrail", '{"Records": 5}')
    assert row["reason"].startswith("bad-field: Records holds a list of records, not 5")


def test_cloudtrail_tells_who_issued_the_key_of_a_session(tmp_path: Path) -> None:
    """Who gave somebody the right to do this is the first question after an incident."""
    history = history_of(tmp_path, SAMPLES / "cloudtrail.json")
    assert_relations(
        history,
        {
            ("c1", "c4"): "before",
            ("c1", "c5"): "before",
            # Calls of one session, in different seconds; whoever holds the key may have acted on the answer.
            ("c4", "c5"): "possible",
            # Another user changed the bucket's policy before: records do not say that this mattered.
            ("c3", "c5"): "unknown",
            # The copy of the call for the owner of the role is no cause and no effect.
            ("c1", "c2"): "unknown",
            ("c2", "c5"): "unknown",
            ("c6", "c5"): "unknown",
        },
    )
    assert [event.id for event in history.why("c5").causes] == ["c1"]
    assert history.event("c5").error is True


def test_audit_events_tell_whose_version_a_request_used(tmp_path: Path) -> None:
    """A version is seen as soon as it is stored, perhaps before its writer is answered: only the request precedes."""
    history = history_of(tmp_path, SAMPLES / "k8s-audit.jsonl")
    done = "{}/ResponseComplete".format
    assert_relations(
        history,
        {
            ("a1/written", done("a1")): "before",
            ("a1/written", done("a2")): "before",
            ("a2/RequestReceived", done("a2")): "before",
            # The answer of the creation only happened to be earlier.
            (done("a1"), done("a2")): "possible",
            ("a1/written", done("a3")): "before",
            ("a2/RequestReceived", done("a3")): "possible",
            # Bob's update was answered after the operator had used the version that it wrote.
            ("a3/written", done("a5")): "before",
            (done("a5"), done("a3")): "possible",
            # A conflict names a version that was not the present one.
            ("a1/written", done("a4")): "possible",
            ("a3/written", done("a4")): "possible",
            # An update without a change writes no version.
            (done("a5"), done("a6")): "possible",
        },
    )
    events = {event.id: event for event in map(history.event, (done("a6"), done("a7")))}
    assert events[done("a6")].missing == ("span deployments shop/web version 77",)
    assert events[done("a7")].error is True


def test_tetragon_tells_which_program_started_which(tmp_path: Path) -> None:
    """Everything else on a machine is only possible: pipes, files and signals are not recorded."""
    history = history_of(tmp_path, SAMPLES / "tetragon.jsonl")
    assert_relations(
        history,
        {
            ("node-1:1", "node-1:2"): "before",
            ("node-1:1", "node-1:3"): "before",
            ("node-1:1", "node-1:4"): "before",
            ("node-1:2", "node-1:4"): "before",
            ("node-1:4", "node-1:5"): "before",
            ("node-1:1", "node-1:6"): "before",
            # Another thread of the parent, and a child that ended: nobody says that they mattered.
            ("node-1:3", "node-1:4"): "possible",
            ("node-1:3", "node-1:6"): "possible",
            ("node-1:5", "node-1:6"): "possible",
            # A record without the number of its thread follows its exec.
            ("node-2:1", "node-2:2"): "before",
            ("node-1:4", "node-2:2"): "unknown",
            ("node-2:1", "node-1:4"): "unknown",
        },
    )
    assert history.event("node-1:5").error is True
    assert history.event("node-1:6").error is not True


def test_falco_tells_what_one_thread_did(tmp_path: Path) -> None:
    """Two alerts of one machine need not have to do with each other."""
    history = history_of(tmp_path, SAMPLES / "falco.jsonl")
    assert_relations(
        history,
        {
            ("node-1:1", "node-1:3"): "before",
            ("node-1:1", "node-1:2"): "possible",
            ("node-1:2", "node-1:3"): "possible",
            ("node-2:1", "node-1:3"): "unknown",
        },
    )
    assert [history.event(f"node-1:{number}").error for number in (1, 2, 3)] == [None, None, True]


DOTTED = r"""
dotted = true
process = { from = ["{a.b.c}@{p}", "a.b.c", "p"] }
time = "t"
name = { from = ["a.b", "p"], optional = true }
line = { from = ["a.b.c", "p"], match = "^([^0]+)", optional = true }

[[event]]
when = { "a.b.c" = { present = true }, "{p} {a.b.c}" = { match = '^(.+) \1$' } }
kind = "receive"
sends = { from = ["span {a.b}", "span {t}"] }

[[event]]
when = { "a.b" = { present = true } }
receives = { from = "a.b.0", optional = true }
"""
HARD_KEYS = ("a", "a.b", "a.b.c", "p", "t")
HARD_VALUES = (
    '"x"',
    "5",
    '{"b":{"c":"x"}}',
    '{"b.c":"x","b":null}',
    '{"b":["x"]}',
    '{"c":"x"}',
    '""',
    "null",
    "0",
    "[]",
)


@settings(max_examples=300)
@given(data=hard_files(HARD_KEYS, HARD_VALUES))
def test_keys_with_dots_are_read_quickly_as_exactly(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Otherwise a record would mean one thing among its like, and another beside an odd one."""
    file = tmp_path_factory.mktemp("mapping") / "mine.toml"
    file.write_text(DOTTED)
    assert rows(Mapped(str(file)), data) == rows(Mapped(str(file), exact=True), data)


GOOD_TRAIL = json.dumps({"Records": json.loads(sample("cloudtrail"))["Records"][:3]}, indent=1).encode()


@settings(max_examples=200)
@given(bad_json(GOOD_TRAIL))
def test_documents_of_any_bad_structure_are_survived_and_told(case: Case) -> None:
    """What no strict reader can accept must not pass for a log."""
    found = read_checked(SOURCES["cloudtrail"](), case)
    assert complains(found) or not case.is_wrong
    assert found.equals(read_checked(Mapped("cloudtrail", exact=True), case))


@pytest.mark.parametrize("format", ["ecs", "tetragon", "falco"])
def test_records_are_recognised_in_the_files_of_containers(format: str) -> None:
    """Falco, Tetragon and most services write to a container's output, and Kubernetes wraps each line."""
    lines = sample(format).splitlines()[:4]
    wrapped = b"".join(b"2024-05-01T12:00:07.000000001Z stdout F " + line + b"\n" for line in lines)
    assert recognise(wrapped, ".log") == format
    told = ("process", "line", "time", "name", "sends", "receives")
    found = [{name: row.get(name) for name in told} for row in read(format, wrapped)]
    assert found == [{name: row.get(name) for name in told} for row in read(format, b"\n".join(lines))]


@pytest.mark.parametrize("who", [{"service.name": "gw"}, {"log.logger": "gw.http"}])
def test_two_pods_of_a_service_are_two_processes(who: dict[str, str]) -> None:
    """As one process, what one pod did would be a recorded cause of what failed in the other."""
    record = {"@timestamp": "2024-05-01T12:00:00Z", "ecs.version": "1.2.0", "message": "x", **who}
    line = f"2024-05-01T12:00:00Z stdout F {json.dumps(record)}\n".encode()
    pods = (f"/var/log/pods/shop_gw-{pod}_0f6e/gw/0.log" for pod in "ab")
    found = [rows(SOURCES["ecs"](), line, file=pod)[0]["process"] for pod in pods]
    assert [name.rpartition("@")[2] for name in found] == ["shop/gw-a/gw", "shop/gw-b/gw"]


@pytest.mark.parametrize("format", BUILT_IN)
def test_nothing_is_told_as_concurrent(format: str, tmp_path: Path) -> None:
    """Clients, networks and shared files are in none of these logs, so nothing is ever proved to be independent."""
    history = history_of(tmp_path, SAMPLES / SAMPLE_OF[format])
    pairs = [(first, second) for first in range(len(history)) for second in range(first)]
    found = history.relations([first for first, _ in pairs], [second for _, second in pairs])
    assert "concurrent" not in {RELATIONS[number].value for number in found.tolist()}
