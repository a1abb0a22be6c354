"""The compiled scanners of OTLP against the exact reader, and protobuf against JSON: the same rows for all inputs."""

from __future__ import annotations

import json
import sys
from contextlib import closing, nullcontext
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sources.otlp_requests import (
    COMPILED,
    PLAIN,
    REQUESTS,
    attributes,
    lines,
    log,
    message,
    of_logs,
    of_spans,
    span,
    with_lengths,
)
from tests.sources.reading import table
from whence.sources.checking import piece_of
from whence.sources.otlp import Otlp

SOME = st.lists(REQUESTS, min_size=1, max_size=3)


def assert_same(data: bytes) -> int:
    found, expected = table(COMPILED, data), table(PLAIN, data)
    assert found.to_pylist() == expected.to_pylist()
    return expected.num_rows


@settings(max_examples=300)
@given(SOME, st.booleans())
def test_the_scanner_of_json_gives_the_rows_of_the_exact_reader(requests: list[Any], ascii_only: bool) -> None:
    """Where the two differ, what a file says would depend on its size."""
    texts = [json.dumps(each, ensure_ascii=ascii_only) for each in requests]
    assert_same("\n".join(texts).encode())
    assert_same(json.dumps(requests[0], indent=1, ensure_ascii=ascii_only).encode())


@settings(max_examples=300)
@given(SOME)
def test_protobuf_gives_the_rows_of_json(requests: list[Any]) -> None:
    """The same trace must be the same history whichever encoding its exporter was set to."""
    wired = with_lengths(*map(message, requests))
    assert_same(wired)
    expected = table(PLAIN, lines(*requests)).drop_columns(["place", "text"]).to_pylist()
    assert table(COMPILED, wired).drop_columns(["place", "text"]).to_pylist() == expected


@settings(max_examples=150)
@given(SOME, st.integers(0, 2**32), st.sampled_from(["lines", "document", "protobuf"]))
def test_damaged_input_is_damaged_in_the_same_way(requests: list[Any], seed: int, shape: str) -> None:
    """A scanner that takes what the exact reader refuses would let bad records through in large files only."""
    if shape == "lines":
        data = lines(*requests)
    elif shape == "document":
        data = "\n".join(json.dumps(each, indent=1) for each in requests).encode()
    else:
        data = with_lengths(*map(message, requests))
    random = Random(seed)
    for _ in range(8):
        changed = bytearray(data)
        for _ in range(random.randint(1, 3)):
            at = random.randrange(len(changed))
            if random.random() < 0.5:
                changed[at] = random.choice(b'"{}[]:,\\0a\n \xff') if random.random() < 0.7 else random.randrange(256)
            elif random.random() < 0.5:
                del changed[at : at + random.randint(1, 5)]
            else:
                changed[at:at] = random.choice(
                    [b'"x":1,', b"null", b'"name":"n",', b"\\u0000", b"1e5", b"{}", b"-0", b"\x00"]
                )
        assert_same(bytes(changed))


def test_what_is_as_exporters_write_it_is_taken_and_not_left(monkeypatch: Any) -> None:
    """The scanner may leave everything and still be right, and then nobody would gain anything by it."""
    good = span(
        kind=2, parentSpanId="00f067aa0ba902b8", flags=257, traceState="a=b", status={"code": 2, "message": 'a "b" \\u'},
        attributes=attributes(a="é\n", b=1, c=0.25, d=[1, "x"], e={"k": True}, f=0.1 + 0.2),
        events=[{"timeUnixNano": "5", "name": "e", "attributes": attributes(x="y")}],
        links=[{"traceId": "f" * 32, "spanId": "f" * 16, "attributes": attributes(x="y")}],
    )  # fmt: skip
    said = log(severityNumber=9, severityText="Info", attributes=attributes(a=1), body={"stringValue": "x" * 300})
    requests = [of_spans(good, good, resource={"attributes": attributes(service__name="s")}), of_logs(said, log())]
    expected = [table(PLAIN, data) for data in (lines(*requests), with_lengths(*map(message, requests)))]
    from whence.sources.otlp import json_scanned, wire_scanned

    def never(*_: Any) -> Any:
        raise AssertionError("left to the exact reader")

    monkeypatch.setattr(json_scanned, "json_rows", never)
    monkeypatch.setattr(json_scanned, "line_found", never)
    monkeypatch.setattr(wire_scanned, "wire_rows", never)
    assert table(COMPILED, lines(*requests)).equals(expected[0])
    assert table(COMPILED, with_lengths(*map(message, requests))).equals(expected[1])


def test_blocks_may_end_anywhere(monkeypatch: Any) -> None:
    """A file is read in blocks: what lies across the end of one must be read as if there were none."""
    from whence.sources import json_documents
    from whence.sources.otlp import frames

    requests = [of_spans(*(span(name=f"s{n}-{m}") for m in range(n % 5)), resource={}) for n in range(40)]
    shapes = {
        "document": json.dumps({"resourceSpans": [each["resourceSpans"][0] for each in requests]}, indent=1).encode(),
        "answer": json.dumps(
            {"trace": {"batches": [each["resourceSpans"][0] for each in requests]}}, indent=1
        ).encode(),
        "protobuf": with_lengths(*map(message, requests)),
    }
    expected = {shape: table(PLAIN, data) for shape, data in shapes.items()}
    assert all(each.num_rows == 2 * sum(n % 5 for n in range(40)) for each in expected.values())
    for size in (50, 333, 4_000):
        monkeypatch.setattr(json_documents, "BLOCK_BYTES", size)
        monkeypatch.setattr(frames, "BLOCK_BYTES", size)
        for shape, data in shapes.items():
            assert table(PLAIN, data).equals(expected[shape])
            assert table(COMPILED, data).equals(expected[shape])


@pytest.mark.parametrize("text", ["\x01", '"', "é", "a"])
def test_nothing_is_written_beyond_the_room_there_is(text: str) -> None:
    """One log record of control characters, 2 kB on its way, must not write over what else the process holds."""
    from whence.sources.otlp.wire_scanned import ScanningWireCursor

    room_bytes, guard_bytes = 64 << 10, 1 << 20
    for factor in (20, 14, 13, 12, 11, 8, 7, 2, 1):
        for more in (-90, -80, -75, 0):
            size = (room_bytes - 1_024) // factor // len(text.encode()) + more
            data = message(of_logs(log(body={"stringValue": "first\n" + text * size}, eventName="e")))
            with closing(ScanningWireCursor(piece_of(data))) as cursor:
                whole = np.full(room_bytes + guard_bytes, 0xAA, np.uint8)
                cursor._table.heap = whole[:room_bytes]
                for _ in cursor.found("bare"):
                    pass
            assert (whole[room_bytes:] == 0xAA).all(), f"{size} times {text!r}"


def test_small_files_are_read_without_the_scanners_and_large_ones_with_them(monkeypatch: Any) -> None:
    """Compiling takes 10 to 30 s: whoever looks at one small trace must not wait, and large files must not crawl."""
    for module in ("json_scanned", "wire_scanned"):
        monkeypatch.setitem(sys.modules, f"whence.sources.otlp.{module}", None)
    for size_bytes, is_large in (((2 << 20) - 1_000, False), (2 << 20, True)):
        request = of_spans(span(attributes=attributes(text="x" * size_bytes)))
        shapes = (lines(request), json.dumps(request, indent=1).encode(), message(request))
        for data in shapes:
            assert is_large == (len(data) >= 2 << 20)
            with pytest.raises(ImportError) if is_large else nullcontext():
                assert table(Otlp(), data).num_rows == 2


def test_many_small_reads_make_a_large_file(monkeypatch: Any) -> None:
    """A decompressor gives a file in small parts, and then none of them alone would be worth the scanner."""
    monkeypatch.setitem(sys.modules, "whence.sources.otlp.json_scanned", None)
    line = lines(of_spans(span(attributes=attributes(text="x" * 10_000))))
    piece = piece_of(line * ((2 << 20) // len(line) + 1), most_bytes_a_read=100_000)
    with pytest.raises(ImportError):
        list(Otlp().read(piece))
