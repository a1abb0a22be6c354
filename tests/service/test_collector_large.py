"""Large records of every sort, to a real collector: it answers each of them, and lives."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ledto.service.collector.parse import BodyFormat, Parser
from ledto.service.http.limits import Limits, RequestRefused
from tests.service.collector_stage import Stage, served
from tests.sources.otlp_requests import NOON_NS, SPAN, TRACE, attributes, log, message, of_logs, of_spans, span

JSON, PROTOBUF = "application/json", "application/x-protobuf"
PLACEHOLDER = "Q"
"""What stands for text that cannot be put into JSON or a message in the usual way, byte by byte."""
CHARACTERS = {
    "control characters": "\x01",
    "quotes": '"',
    "backslashes": "\\",
    "four bytes each": "😀",
    "no UTF-8": PLACEHOLDER,
}
CHARACTERS_A_TEXT = 150_000
LARGEST = 1_900_000

Rows = list[dict[str, Any]]
Field = tuple[Callable[[str], Any], Callable[[Rows], Any]]


def _end(rows: Rows) -> Any:
    return json.loads(rows[-1]["attributes"])


def _only_key(values: dict[str, Any]) -> str:
    (key,) = (key for key, value in values.items() if value == "here")
    return key


def _pair(key: str, value: str) -> list[Any]:
    return [{"key": key, "value": {"stringValue": value}}]


def _event(**fields: Any) -> Any:
    return [{"timeUnixNano": str(NOON_NS + 5), "name": "e", **fields}]


def _link(**fields: Any) -> Any:
    return [{"traceId": TRACE, "spanId": SPAN, **fields}]


def _nowhere(rows: Rows) -> None:
    """Of what is not kept."""


FIELDS: dict[str, Field] = {
    "a span's name": (lambda text: of_spans(span(name=text)), lambda rows: rows[0]["name"].removesuffix(" starts")),
    "its trace state": (lambda text: of_spans(span(traceState=text)), lambda rows: _end(rows)["w3c.tracestate"]),
    "its status": (
        lambda text: of_spans(span(status={"code": 2, "message": text})),
        lambda rows: _end(rows)["otel.status_description"],
    ),
    "a key": (lambda text: of_spans(span(attributes=_pair(text, "here"))), lambda rows: _only_key(_end(rows))),
    "a value": (lambda text: of_spans(span(attributes=_pair("k", text))), lambda rows: _end(rows)["k"]),
    "a list": (lambda text: of_spans(span(attributes=attributes(k=[text]))), lambda rows: _end(rows)["k"][0]),
    "a map": (
        lambda text: of_spans(span(attributes=attributes(k={"m": text}))),
        lambda rows: _end(rows)["k"]["m"],
    ),
    "an event's name": (lambda text: of_spans(span(events=_event(name=text))), lambda rows: rows[1]["name"]),
    "an event's key": (
        lambda text: of_spans(span(events=_event(attributes=_pair(text, "here")))),
        lambda rows: _only_key(json.loads(rows[1]["attributes"])),
    ),
    "an event's value": (
        lambda text: of_spans(span(events=_event(attributes=_pair("k", text)))),
        lambda rows: json.loads(rows[1]["attributes"])["k"],
    ),
    "a link's trace state": (lambda text: of_spans(span(links=_link(traceState=text))), _nowhere),
    "a link's value": (lambda text: of_spans(span(links=_link(attributes=_pair("k", text)))), _nowhere),
    "a resource's value": (lambda text: of_spans(span(), resource={"attributes": _pair("k", text)}), _nowhere),
    "a service's name": (
        lambda text: of_spans(span(), resource={"attributes": _pair("service.name", text)}),
        lambda rows: rows[0]["process"],
    ),
    "a service's version": (
        lambda text: of_spans(span(), resource={"attributes": _pair("service.version", text)}),
        lambda rows: _end(rows)["service.version"],
    ),
    "a body": (lambda text: of_logs(log(body={"stringValue": text})), lambda rows: _end(rows)["body"]),
    "a body's list": (
        lambda text: of_logs(log(body={"arrayValue": {"values": [{"stringValue": text}]}})),
        lambda rows: _end(rows)["body"][0],
    ),
    "a severity": (lambda text: of_logs(log(severityText=text)), lambda rows: _end(rows)["severity"]),
    "a log's event": (lambda text: of_logs(log(eventName=text)), lambda rows: _end(rows)["event.name"]),
    "a log's key": (lambda text: of_logs(log(attributes=_pair(text, "here"))), lambda rows: _only_key(_end(rows))),
    "a log's value": (lambda text: of_logs(log(attributes=_pair("k", text))), lambda rows: _end(rows)["k"]),
}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with served(tmp_path_factory.mktemp("service") / "history") as running:
        yield running


def put(stage: Stage, field: str, text: str, kind: str, *, packed: bool) -> list[dict[str, Any]]:
    """Send a record with this text in this field; it must be taken. Gives the rows that are there of it."""
    request = FIELDS[field][0](text)
    body = json.dumps(request, ensure_ascii=False).encode() if kind == JSON else message(request)
    if PLACEHOLDER in text:
        body = body.replace(text.encode(), b"\xff" * len(text))
    headers = {"Content_Encoding": "gzip"} if packed else {}
    path = "/v1/logs" if "resourceLogs" in request else "/v1/traces"
    stage.purge()
    answer = stage.post(path, gzip.compress(body, 1) if packed else body, kind, **headers)
    assert answer.status == 200, (field, kind, answer.status, answer.body[:300])
    rows = stage.rows().to_pylist()
    assert rows, (field, kind)
    return rows


def check(rows: list[dict[str, Any]], field: str, text: str, kind: str) -> None:
    """The text must be there as it was sent, or a reason why not."""
    kept, is_utf8 = FIELDS[field][1], PLACEHOLDER not in text
    reasons = {row["reason"].partition(":")[0] for row in rows if row["reason"] is not None}
    if is_utf8 and "service's" not in field:
        assert not reasons, (field, kind, reasons)
        assert kept(rows) in (text, None)
    elif is_utf8:
        assert reasons == {"bad-resource"}
    elif "link's" not in field or kind == PROTOBUF:
        # A scope, a resource or a record that is not text is quarantined, whichever reader found it.
        assert reasons
    assert is_utf8 or all(row["reason"] is not None for row in rows)


@pytest.mark.parametrize("characters", CHARACTERS)
@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
def test_every_text_of_a_record_may_be_large(stage: Stage, kind: str, characters: str) -> None:
    """One record would end the collector, and with it everybody's reports."""
    for number, field in enumerate(FIELDS):
        text = CHARACTERS[characters] * CHARACTERS_A_TEXT
        check(put(stage, field, text, kind, packed=bool(number % 2)), field, text, kind)
    assert stage.post("/v1/traces", message(of_spans(span())), PROTOBUF).status == 200


@pytest.mark.parametrize("kind", [JSON, PROTOBUF])
@pytest.mark.parametrize("field", ["a span's name", "a value", "a body", "an event's key"])
def test_records_of_megabytes_are_quarantined_alone(stage: Stage, kind: str, field: str) -> None:
    """One record ended the collector; or, refused with all that came with it, took everybody else's spans along."""
    for packed in (True, False):
        rows = put(stage, field, "\x01" * LARGEST, kind, packed=packed)
        large = [row for row in rows if row["reason"] is not None]
        assert {row["reason"].partition(":")[0] for row in large} == {"too-large"}
        assert all(len(row["text"]) <= 2_000 for row in large)
    assert stage.post("/v1/traces", message(of_spans(span())), PROTOBUF).status == 200


@pytest.mark.parametrize("written_in", [BodyFormat.OTLP_JSON, BodyFormat.OTLP_PROTOBUF])
def test_what_rows_repeat_is_counted_before_it_fills_memory(written_in: BodyFormat) -> None:
    """A body of 1 MB, a few kB when packed, would take gigabytes of the collector's memory."""
    resource = {"attributes": attributes(service__name="é" * 900, service__instance__id="é" * 900)}
    request = of_logs(*[{"timeUnixNano": "1"}] * 50_000, resource=resource)
    body = message(request) if written_in is BodyFormat.OTLP_PROTOBUF else json.dumps(request).encode()
    with pytest.raises(RequestRefused) as refused:
        Parser(Limits()).parse(body, written_in, "f")
    assert (refused.value.status, refused.value.reason) == (413, "too-large")
    assert "67,108,864" in refused.value.message
    assert Parser(Limits(decoded_bytes=1 << 30)).parse(body, written_in, "f").num_rows == 50_000


def field(number: int, content: bytes) -> bytes:
    """A field of protobuf that has a length."""
    length, size = len(content), b""
    while length >= 128:
        size += bytes([length & 127 | 128])
        length >>= 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + content


SPAN_BYTES = (
    field(1, bytes(range(16))) + field(2, bytes(range(1, 9))) + b"\x39" + bytes(7) + b"\x01\x41" + bytes(7) + b"\x02"
)
"""Ids and times of a span."""


def nested(depth: int) -> bytes:
    """A request with a good span, and one whose attribute is an array in an array, and so on."""
    value = b""
    for _ in range(depth):
        value = field(5, field(1, value))
    deep = SPAN_BYTES + field(9, field(1, b"k") + field(2, value))
    return field(1, field(2, field(2, SPAN_BYTES) + field(2, deep)))


@pytest.mark.parametrize("depth", [30, 90, 200, 3_000])
def test_values_inside_each_other_end_nothing(depth: int) -> None:
    """One attribute of 3,000 lists raised through the reader: the file, or the request, was lost with all its spans."""
    rows = Parser(Limits()).parse(nested(depth), BodyFormat.OTLP_PROTOBUF, "f").to_pylist()
    reasons = [(row["reason"] or "").partition(":")[0] for row in rows]
    assert reasons[0] == "", "the span beside it is taken"
    assert depth <= 30 or reasons[-1] in ("not-protobuf", "too-deep")


EMPTY = {
    "resources": field(1, b"") * 500_000,
    "scopes": field(1, field(2, b"") * 500_000),
    "scopes in JSON": b'{"resourceSpans":[{"scopeSpans":[' + b"{}," * 1_000_000 + b"{}]}]}",
    "events in JSON": b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"events":[' + b"{}," * 1_000_000 + b"{}]}]}]}]}",
}


@pytest.mark.parametrize("what", EMPTY)
def test_nothing_a_million_times_is_refused(what: str) -> None:
    """16 kB of compressed emptiness took forty seconds, or gigabytes, and gave no report that could be counted."""
    written_in = BodyFormat.OTLP_JSON if "JSON" in what else BodyFormat.OTLP_PROTOBUF
    with pytest.raises(RequestRefused) as refused:
        Parser(Limits()).parse(EMPTY[what], written_in, "f")
    assert refused.value.status == 413


def test_a_record_of_many_empty_parts_is_quarantined_unread() -> None:
    """A span of seven million empty events took a gigabyte to be refused."""
    body = field(1, field(2, field(2, SPAN_BYTES + field(11, b"") * 1_500_000) + field(2, SPAN_BYTES)))
    rows = Parser(Limits()).parse(body, BodyFormat.OTLP_PROTOBUF, "f").to_pylist()
    assert [(row["reason"] or "").partition(":")[0] for row in rows][:2] == ["too-large", ""]
