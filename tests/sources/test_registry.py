"""Files are read as what they are, without being told."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from ledto.sources.contract import SourceError
from ledto.sources.inputs import find_inputs
from ledto.sources.records.formats import HEAD_BYTES
from ledto.sources.registry import recognise
from tests.sources.reading import SAMPLES

OTLP = b'{\n  "resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [{"spans": [{"traceId": "5b8e"}]}]}]}'


@pytest.mark.parametrize(
    ("head", "suffix", "expected"),
    [
        (OTLP, ".json", "otlp"),
        (b"\xef\xbb\xbf" + OTLP, ".txt", "otlp"),
        (b'{"resourceLogs":[]}\n', ".jsonl", "otlp"),
        (b'{"resource_spans":[]}', "", "otlp"),
        (b"\x0a\x90\x01\x0a\x20\x0a\x1e\x0a\x0cservice.name", ".pb", "otlp"),
        (b"\x00\x00\x01\x09\x0a\x90\x01\x0a\x20\x0a\x1e\x0a\x0cservice.name", "", "otlp"),
        (b'{"data":[{"traceID":"1","spans":[],"processes":{}}]}', ".json", "jaeger"),
        (b'[{"traceId":"1","id":"2","localEndpoint":{"serviceName":"a"}}]', ".json", "zipkin"),
        (b'{"TracerIdentity":"a","TraceID":1,"Tag":"t","Body":{},"VectorClock":{"a":1}}', ".log", "tracing"),
        (b'a {"a":1}\nstart\n', ".log", "shiviz"),
        (b'start\na {"a":1}\n', ".log", "shiviz"),
        (b'{"process":"a","seq":1}\n', ".jsonl", "ledto"),
        (b"", ".jsonl", "ledto"),
        (b'{"timestamp":1,"type":"LOG","thread":"1@a"}\n', ".log", None),
        (b"2024-05-01 12:00:00 INFO started\n", ".log", None),
        (b'{"batches":[{"resource":{},"scopeSpans":[{"spans":[{"traceId":"1","spanId":"2"}]}]}]}', ".json", "otlp"),
        (b'{"traceId":"1","spanId":"2","operationName":"GET"}', ".json", None),
        (b'[2013-05-24 12:00:00] INFO started\na {"a":1}\n', ".log", "shiviz"),
        (b'{"resourceMetrics":[]}', ".json", None),
        (b'{"@timestamp":"2024-05-01T12:00:00Z","ecs.version":"1.2.0","message":"a"}', ".log", "ecs"),
        (b'{"@timestamp":"2024-05-01T12:00:00Z","ecs":{"version":"8"},"process":{"pid":5}}', ".json", "ecs"),
        (b'{"@timestamp":"2024-05-01T12:00:00Z","message":"a"}', ".log", None),
        (b'{"insertId":"a","logName":"projects/p/logs/l","timestamp":"2024-05-01T12:00:00Z"}', ".json", "gcp"),
        (b'[\n  {\n    "insertId": "a",\n    "logName": "projects/p/logs/l"\n  }\n]', ".json", "gcp"),
        (
            b'{"logName":"projects/p/logs/l","jsonPayload":{"rule":"r","priority":"p","output_fields":{}}}',
            ".json",
            "gcp",
        ),
        (b'{"Records":[{"eventVersion":"1.08","eventSource":"s3.amazonaws.com"}]}', ".json", "cloudtrail"),
        (b'{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"a"}', ".log", "k8s-audit"),
        (b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":[{"auditID":"a"}]}', ".json", "k8s-audit"),
        (b'{"apiVersion":"audit.k8s.io/v1","auditID":"a","requestObject":{"traceID":"1"}}', ".log", "k8s-audit"),
        (b'{"process_exec":{"process":{"exec_id":"a","pid":1}},"time":"2024-05-01T12:00:00Z"}', ".log", "tetragon"),
        (b'{"output":"o","output_fields":{},"priority":"Notice","rule":"r","time":"t"}', ".log", "falco"),
        (b'{"trace_id":"1-5f84c7a1-e7d1852db8c4fd35d88bf49a","id":"7d","start_time":1.5}', ".jsonl", "xray"),
        (
            rb'{"Traces":[{"Segments":[{"Document":"{\"trace_id\":\"1-5f84c7a1-e7d1852db8c4fd35d88bf49a\",\"start_time\":1}"}]}]}',
            ".json",
            "xray",
        ),
        (b'{"process":"a","seq":1,"ecs.version":"1","@timestamp":"t"}', ".jsonl", "ledto"),
        (b'{"process":"a","time":1,"rule":"r","priority":"p","output_fields":{}}', ".jsonl", "ledto"),
        (b"\x00\xff{]\nnothing\n", ".jsonl", None),
    ],
)
def test_a_file_is_known_by_its_first_bytes(head: bytes, suffix: str, expected: str | None) -> None:
    """A trace that is taken for something else is a thousand bad records, or a history of nothing."""
    assert recognise(head, suffix) == expected


SAMPLE_FORMATS = {
    "ecs.jsonl": "ecs",
    "gcp.jsonl": "gcp",
    "cloudtrail.json": "cloudtrail",
    "k8s-audit.jsonl": "k8s-audit",
    "tetragon.jsonl": "tetragon",
    "falco.jsonl": "falco",
    "xray.json": "xray",
    "xray.jsonl": "xray",
    "jaeger.json": "jaeger",
    "zipkin.json": "zipkin",
    "otlp.json": "otlp",
    "otlp.jsonl": "otlp",
    "otlp.pb": "otlp",
    "shop.jsonl": "ledto",
    "lines.jsonl": "ledto",
    "shop.log": "shiviz",
    "tracing.log": "tracing",
    "threads.log": None,
}


@pytest.mark.parametrize(("sample", "expected"), SAMPLE_FORMATS.items())
def test_samples_of_all_formats_are_told_apart(sample: str, expected: str | None) -> None:
    """A new format must not take the files of another."""
    file = SAMPLES / sample
    assert recognise(file.read_bytes()[:HEAD_BYTES], file.suffix) == expected


def test_a_mapping_of_ones_own_goes_before_one_that_is_recognised(tmp_path: Path) -> None:
    """Otherwise nobody could read such a log in another way."""
    mapping = tmp_path / "mine.toml"
    mapping.write_text('process = "rule"\ntime = "time"\n')
    options = {"mapping": str(mapping)}
    assert find_inputs([str(SAMPLES / "falco.jsonl")], options=options).formats == ("mapped",)
    recognised = find_inputs([str(SAMPLES / "falco.jsonl")])
    assert recognised.formats == ("falco",)
    assert recognised.notes == ("falco is read by the mapping falco that comes with ledto",)


def test_each_log_of_a_run_may_have_a_mapping_of_its_own(tmp_path: Path) -> None:
    """The services of a system seldom agree on names: read by another's mapping, all events of a service are lost."""
    folder = tmp_path / "pods" / "shop_orders-1"
    folder.mkdir(parents=True)
    (folder / "0.log").write_text('{"svc": "orders", "at": 1}\n')
    (tmp_path / "pay.csv").write_text("who,when\npay,2\n")
    (tmp_path / "rest.log").write_text('{"name": "rest", "t": 3}\n')
    (tmp_path / "audit.jsonl").write_bytes((SAMPLES / "falco.jsonl").read_bytes())
    for name, process, time in (("orders", "svc", "at"), ("pay", "who", "when"), ("rest", "name", "t")):
        rule = f'process = "{process}"\ntime = {{ from = "{time}", unit = "s" }}\n'
        (tmp_path / f"{name}.toml").write_text(rule)
    orders, pay, rest = (str(tmp_path / f"{name}.toml") for name in ("orders", "pay", "rest"))
    given = [f"shop_orders*={orders}", rest, f"p?y.*={pay}", f"*.csv={orders}"]
    inputs = pickle.loads(pickle.dumps(find_inputs([str(tmp_path)], options={"mapping": given, "unit": "s"})))
    formats = {Path(file.name).name: name for file, name in zip(inputs.files, inputs.formats, strict=True)}
    assert formats == {
        "0.log": f"mapped:{orders}",
        "pay.csv": f"csv:{pay}",
        "rest.log": "mapped",
        "audit.jsonl": "falco",
    }
    rows = [row for file, source in inputs.text for batch in source.read(file.piece()) for row in batch.to_pylist()]
    assert {("orders", 1, None), ("pay", 2, None), ("rest", 3, None)} <= {
        (row["process"], row["time"], row["reason"]) for row in rows
    }

    named = find_inputs([str(tmp_path / "audit.jsonl")], options={"mapping": f"audit*={rest}"})
    assert named.formats == (f"mapped:{rest}",)
    for wrong, complaint in (([orders, rest], "both mappings for all files"), ([f"x*={rest}"], "no file that is read")):
        with pytest.raises(SourceError, match=complaint):
            find_inputs([str(tmp_path / "rest.log")], options={"mapping": wrong})


def test_a_document_that_a_mapping_reads_is_json_whatever_its_lines_look_like(tmp_path: Path) -> None:
    """An indented document looks like lines of text."""
    file = tmp_path / "trail.json"
    file.write_text(json.dumps(json.loads((SAMPLES / "cloudtrail.json").read_text()), indent=2))
    assert find_inputs([str(file)], options={"mapping": "cloudtrail"}).formats == ("mapped",)
    assert find_inputs([str(file)]).formats == ("cloudtrail",)
