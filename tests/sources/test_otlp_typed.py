"""The quick readers of OTLP against the exact one, and protobuf against JSON: the same rows for all inputs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.sources.conformance import piece_of
from ledto.sources.rows import BATCH_BYTES
from ledto.sources.spans.spans import SPAN_KINDS, Span, span_batches, spans_of
from tests.sources.otlp_requests import (
    EXACT,
    QUICK,
    REQUESTS,
    SPANS,
    attributes,
    lines,
    log,
    message,
    of_logs,
    of_spans,
    span,
    with_lengths,
)
from tests.sources.reading import rows, table

SOME = st.lists(REQUESTS, min_size=1, max_size=3)


def assert_same(data: bytes) -> int:
    found, expected = table(QUICK, data), table(EXACT, data)
    assert found.to_pylist() == expected.to_pylist()
    return expected.num_rows


@settings(max_examples=300)
@given(SOME, st.booleans())
def test_the_quick_reader_of_json_gives_the_rows_of_the_exact_one(requests: list[Any], ascii_only: bool) -> None:
    """Where the two differ, what a file says would depend on how its exporter spells it."""
    texts = [json.dumps(each, ensure_ascii=ascii_only) for each in requests]
    assert_same("\n".join(texts).encode())
    assert_same(json.dumps(requests[0], indent=1, ensure_ascii=ascii_only).encode())


@settings(max_examples=300)
@given(SOME)
def test_protobuf_gives_the_rows_of_json(requests: list[Any]) -> None:
    """The same trace must be the same history whichever encoding its exporter was set to."""
    wired = with_lengths(*map(message, requests))
    assert_same(wired)
    expected = table(EXACT, lines(*requests)).drop_columns(["place", "text"]).to_pylist()
    assert table(QUICK, wired).drop_columns(["place", "text"]).to_pylist() == expected


@settings(max_examples=150)
@given(SOME, st.integers(0, 2**32), st.sampled_from(["lines", "document", "protobuf"]))
def test_damaged_input_is_damaged_in_the_same_way(requests: list[Any], seed: int, shape: str) -> None:
    """A quick reader that takes what the exact one refuses would let bad records through."""
    if shape == "lines":
        data = lines(*requests)
    elif shape == "document":
        data = "\n".join(json.dumps(each, indent=1) for each in requests).encode()
    else:
        data = with_lengths(*map(message, requests))
    random = Random(seed)
    inserted = [b'"x":1,', b"null", b'"name":"n",', b"\\u0000", b"1e5", b"{}", b"-0", b"\x00", b"1e999", b"9" * 20]
    inserted += [
        b'"stringValue":"x",',
        b'"key":"k",',
        b"\\u003a",
        b"\\ud800",
        b" ",
        b"0.5",
        b"_",
        b":",
        b'"links":null,',
    ]
    for _ in range(8):
        changed = bytearray(data)
        for _ in range(random.randint(1, 3)):
            at = random.randrange(len(changed))
            if random.random() < 0.5:
                changed[at] = random.choice(b'"{}[]:,\\0a\n \xff') if random.random() < 0.7 else random.randrange(256)
            elif random.random() < 0.5:
                del changed[at : at + random.randint(1, 5)]
            else:
                changed[at:at] = random.choice(inserted)
        assert_same(bytes(changed))


def members_given_twice(request: Any) -> Iterator[bytes]:
    """The request with one member of one object given twice, for every member of every object."""
    marker = "TWICE"

    def objects(value: Any) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict):
            yield value
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            yield from objects(each)

    for each in list(objects(request)):
        for key in [*each]:
            each[marker] = each[key]
            text = json.dumps(request, separators=(",", ":"))
            del each[marker]
            yield text.replace(f'"{marker}":', f'"{key}":', 1).encode()
            first, _, second = text.partition(f'"{marker}":')
            yield f'{first}"{key}":null,"{key}":{second}'.encode()


FULL = {
    "spans": of_spans(
        span(
            kind=2, parentSpanId="00f067aa0ba902b8", flags=257, traceState="a=b:c", status={"code": 2, "message": "a:b"},
            attributes=attributes(a="é\n:", b=1, c=0.25, d=[1, "x"], e={"k": True}, f=0.1 + 0.2, g=b"x"),
            events=[{"timeUnixNano": "5", "name": "e", "attributes": attributes(x="y")}],
            links=[{"traceId": "f" * 32, "spanId": "f" * 16, "attributes": attributes(x="y")}],
        ),
        span(),
        resource={"attributes": attributes(service__name="s", service__version="2")},
    ),
    "logs": of_logs(
        log(severityNumber=9, severityText="Info", attributes=attributes(a=-1), body={"stringValue": "x" * 300}),
        log(body={"kvlistValue": {"values": attributes(a=[1, {}])}}, eventName="e", traceId="f" * 32, spanId="f" * 16),
        log(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("signal", FULL)
def test_a_member_given_twice_is_seen_wherever_it_is(signal: str) -> None:
    """The quick decoder keeps the last value without a word: of two readers, each would see another history."""
    tried = [*members_given_twice(FULL[signal])]
    assert len(tried) > 50
    for data in tried:
        assert_same(data)
        # A colon that is spelled out must not make up for the one that was lost.
        for spelled in (rb"\u003a", rb"\u003A"):
            assert_same(data.replace(b'"a', b'"' + spelled + b"a", 1))


@pytest.mark.parametrize("kind", ["intValue", "boolValue", "doubleValue", "bytesValue", "arrayValue", "kvlistValue"])
def test_a_value_of_two_kinds_is_seen(kind: str) -> None:
    """One reader would take the text and another the number."""
    values = {"intValue": 1, "boolValue": True, "doubleValue": 1.5, "bytesValue": "eA=="}
    both = {"stringValue": "x", kind: values.get(kind, {})}
    for value in (both, dict(reversed(both.items()))):
        found = rows(QUICK, lines(of_spans(span(attributes=[{"key": "a", "value": value}])), of_logs(log(body=value))))
        assert [row["reason"].partition(":")[0] for row in found] == ["bad-field"] * 2


def test_what_is_as_exporters_write_it_is_taken_and_not_left(monkeypatch: Any) -> None:
    """The quick readers may leave everything and still be right, and then nobody would gain anything by them."""
    requests = [*FULL.values()]
    shapes = (lines(*requests), json.dumps(requests[0], indent=1).encode(), with_lengths(*map(message, requests)))
    expected = [table(EXACT, data) for data in shapes]
    from ledto.sources.otlp import json_walk, protobuf, source

    def never(*_: Any) -> Any:
        raise AssertionError("left to the exact reader")

    monkeypatch.setattr(json_walk, "exact_rows", never)
    monkeypatch.setattr(source, "read_line", never)
    monkeypatch.setattr(protobuf, "exact_record", never)
    for data, same in zip(shapes, expected, strict=True):
        assert same.num_rows > 2
        assert table(QUICK, data).equals(same)


@given(st.sampled_from(range(6)), SPANS)
def test_spans_are_the_same_rows_as_those_of_other_tracing_systems(kind: int, given_: Any) -> None:
    """A trace sent to two systems must be the same events, whichever of them is asked."""
    made = {**given_, "kind": kind, "attributes": [], "links": [], "status": {}, "traceState": "", "name": "n"}
    made["events"] = [{"timeUnixNano": "7", "name": "e"}]
    made = {name: value for name, value in made.items() if not name.startswith("dropped")}
    parent = made.get("parentSpanId") or None
    expected = Span(
        trace=made["traceId"],
        key=made["spanId"],
        process="unknown_service",
        name="n",
        start=int(made["startTimeUnixNano"]),
        end=int(made.get("endTimeUnixNano", 0)) or None,
        kind=("internal", *SPAN_KINDS)[kind],
        parent=None if parent == made["spanId"] else parent,
        moments=[(7, "e", None)],
        start_attributes=json.dumps({"span.kind": ("internal", *SPAN_KINDS)[kind]}, separators=(",", ":")),
    )
    found = table(QUICK, lines(of_spans(made))).drop_columns(["file", "place"]).to_pylist()
    (batch,) = span_batches([spans_of(expected)], "")
    assert found == batch.drop_columns(["file", "place"]).to_pylist()


def test_blocks_may_end_anywhere(monkeypatch: Any) -> None:
    """A file is read in blocks: what lies across the end of one must be read as if there were none."""
    from ledto.sources.json import documents as json_documents
    from ledto.sources.otlp import protobuf_walk

    requests = [of_spans(*(span(name=f"s{n}-{m}") for m in range(n % 5)), resource={}) for n in range(40)]
    shapes = {
        "document": json.dumps({"resourceSpans": [each["resourceSpans"][0] for each in requests]}, indent=1).encode(),
        "answer": json.dumps(
            {"trace": {"batches": [each["resourceSpans"][0] for each in requests]}}, indent=1
        ).encode(),
        "protobuf": with_lengths(*map(message, requests)),
    }
    expected = {shape: table(EXACT, data) for shape, data in shapes.items()}
    assert all(each.num_rows == 2 * sum(n % 5 for n in range(40)) for each in expected.values())
    for size in (50, 333, 4_000):
        monkeypatch.setattr(json_documents, "BLOCK_BYTES", size)
        monkeypatch.setattr(protobuf_walk, "BLOCK_BYTES", size)
        for shape, data in shapes.items():
            assert table(EXACT, data).equals(expected[shape])
            assert table(QUICK, data).equals(expected[shape])


def test_what_rows_repeat_of_their_resource_cannot_fill_memory() -> None:
    """A file of a few MB, made for it, would become gigabytes in one batch."""
    name, version = "s" * 900, "v" * 900
    resource = {"attributes": attributes(service__name=name, service__version=version, service__namespace="n" * 200)}
    request = of_logs(*[{"timeUnixNano": "1"}] * 60_000, resource=resource)
    for data in (lines(request), json.dumps(request, indent=0).encode(), message(request)):
        sizes, count = [], 0
        for batch in QUICK.read(piece_of(data)):
            sizes.append(batch.nbytes)
            count += batch.num_rows
            assert batch["process"][0].as_py() == name
            kept = json.loads(batch["attributes"][0].as_py())
            assert kept == {"service.namespace": "n" * 200, "service.version": "v" * 200 + "…"}
        assert count == 60_000
        assert max(sizes) < 2 * BATCH_BYTES
        assert len(sizes) > 2


def test_reading_needs_no_compiler() -> None:
    """A compiler that is loaded, or runs, before the first span costs every task and every small file seconds."""
    code = "import sys, ledto.sources.otlp; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
