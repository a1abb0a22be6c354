"""Files are read as what they are, without being told."""

from __future__ import annotations

import pytest

from ledto.sources.registry import recognise

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
        (b"\x00\xff{]\nnothing\n", ".jsonl", None),
    ],
)
def test_a_file_is_known_by_its_first_bytes(head: bytes, suffix: str, expected: str | None) -> None:
    """A trace that is taken for something else is a thousand bad records, or a history of nothing."""
    assert recognise(head, suffix) == expected
