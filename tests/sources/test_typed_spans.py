"""The typed readers of Jaeger and Zipkin against their exact ones: the same rows for all inputs, however they are cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from ledto.sources.jaeger.source import Jaeger
from ledto.sources.json import documents as json_documents
from ledto.sources.zipkin.source import Zipkin
from tests.sources.reading import SAMPLES, rows, table

T0 = 1_700_000_000_000_000
TRACE, OTHER = "5af7183fb1d4cf5f5af7183fb1d4cf5f", "463ac35c9f6413ad48485a3953bb6124"
SOURCES = {"jaeger": (Jaeger(), Jaeger(exact=True)), "zipkin": (Zipkin(), Zipkin(exact=True))}


def jaeger_span(number: int) -> dict[str, Any]:
    references = [{"refType": "CHILD_OF", "traceID": TRACE, "spanID": f"{number // 2 + 1:x}"}]
    if number % 3 == 0:
        references.append({"refType": "FOLLOWS_FROM", "traceID": OTHER, "spanID": "B7"})
    tags = [
        {"key": "span.kind", "type": "string", "value": ("server", "client", "internal")[number % 3]},
        {"key": "rows", "type": "int64", "value": number * 10**15},
        {"key": "ratio", "type": "float64", "value": number / 7},
        {"key": "error", "type": "bool", "value": number % 4 == 0},
        {"key": 'é: "\n', "type": "string", "value": "a:b\\ü\t"},
    ]
    if number % 5 == 0:
        tags.append({"key": "rows", "type": "int64", "value": 2})
    span = {"traceID": TRACE, "spanID": f"{number + 1:016x}", "flags": 1, "operationName": f"op {number}: x"}
    span |= {"references": references if number else [], "startTime": T0 + number, "duration": number, "tags": tags}
    logs = [{"timestamp": T0 + 1, "fields": [{"key": "event", "type": "string", "value": "e"}, tags[1]]}]
    return span | {
        "logs": logs * (number % 3),
        "processID": f"p{number % 2 + 1}",
        "warnings": ["w"] * (number % 2) or None,
    }


def zipkin_span(number: int) -> dict[str, Any]:
    span: dict[str, Any] = {"traceId": TRACE, "id": f"{number + 1:016x}", "timestamp": T0 + number, "duration": number}
    span |= {"name": f"op {number}: x", "kind": ("SERVER", "CLIENT", "PRODUCER")[number % 3], "parentId": f"{number:x}"}
    span |= {"localEndpoint": {"serviceName": "shop", "ipv4": f"10.0.0.{number % 2}", "port": 80}}
    span |= {"tags": {"http.path": "/a:b", 'é: "\n': "\\ü\t"} | ({"error": ""} if number % 4 == 0 else {})}
    if number % 3 == 0:
        span |= {"shared": True, "remoteEndpoint": {"serviceName": "db", "port": 5432}}
        span |= {"annotations": [{"timestamp": T0 + 1, "value": "ws"}]}
    if number % 5 == 0:
        span["tags"]["service.instance.id"] = "i:1"
    return span


PROCESSES = {
    "p1": {"serviceName": "shop", "tags": [{"key": "hostname", "type": "string", "value": "pod:1"}]},
    "p2": {"serviceName": "stock", "tags": []},
}


def jaeger_trace(*numbers: int) -> dict[str, Any]:
    return {"traceID": TRACE, "spans": [jaeger_span(number) for number in numbers], "processes": PROCESSES}


def shapes(name: str, count: int = 12) -> dict[str, bytes]:
    """The same spans in every layout."""
    numbers = range(count)
    if name == "zipkin":
        spans = [zipkin_span(number) for number in numbers]
        values: dict[str, list[Any]] = {"list": [spans], "traces": [[spans[:5], spans[5:6], spans[6:]]], "lines": spans}
    else:
        traces = [jaeger_trace(*numbers[:5]), jaeger_trace(*numbers[5:])]
        own = [jaeger_span(number) | {"process": PROCESSES["p1"], "startTimeMillis": 5} for number in numbers]
        values = {
            "answer": [{"data": traces, "total": 0, "errors": None}],
            "lines": traces,
            "list": [traces],
            "own": own,
        }
        values |= {"index": [{"_index": "i", "_source": span} for span in own], "one": [own]}
    made = {}
    for shape, documents in values.items():
        made[shape] = "\n".join(json.dumps(each, separators=(",", ":")) for each in documents).encode()
        made[f"{shape}, pretty"] = "\n".join(
            json.dumps(each, indent=2, ensure_ascii=False) for each in documents
        ).encode()
    return made


CASES = [(name, shape) for name in SOURCES for shape in shapes(name)]


def assert_same(name: str, data: bytes) -> int:
    typed, exact = SOURCES[name]
    found, expected = table(typed, data), table(exact, data)
    assert found.to_pylist() == expected.to_pylist()
    return int(expected.num_rows)


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_what_is_as_exporters_write_it_is_taken_and_not_left(name: str, shape: str, monkeypatch: Any) -> None:
    """The typed readers may leave everything and still be right, and then nobody would gain anything by them."""
    from ledto.sources.jaeger import source as jaeger
    from ledto.sources.zipkin import source as zipkin

    data = shapes(name)[shape]
    expected = table(SOURCES[name][1], data)
    assert expected.num_rows > 24

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("left to the exact reader")

    monkeypatch.setattr(jaeger, "read_exactly", never)
    monkeypatch.setattr(zipkin, "read_exactly", never)
    assert table(SOURCES[name][0], data).equals(expected)


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_blocks_and_runs_may_end_anywhere(name: str, shape: str, monkeypatch: Any) -> None:
    """A file is read in blocks, and spans many at once: where these end must not be seen in the rows."""
    data = shapes(name)[shape]
    expected = table(SOURCES[name][1], data)
    for block, run in ((100, 1 << 18), (700, 300), (5_000, 2_000), (1 << 20, 900)):
        monkeypatch.setattr(json_documents, "BLOCK_BYTES", block)
        monkeypatch.setattr(json_documents, "RUN_BYTES", run)
        assert table(SOURCES[name][0], data).equals(expected)


INSERTED = [b'"x":1,', b"null", b'"name":"n",', b"\\u0000", b"1e5", b"{}", b"-0", b"\x00", b"1e999", b"9" * 20, b"0.50"]
INSERTED += [
    b'"key":"k",',
    b"\\u003a",
    b"\\ud800",
    b" ",
    b"_",
    b":",
    b'"tags":null,',
    b"\n",
    b"[",
    b"],[",
    b"[[1]]",
    b"},",
]
INSERTED += [
    b'"id":"0",',
    b'"traceID":"a",',
    b"9223372036854775807",
    b"\xff",
    b'"spans":[],',
    b'{"traceId":"a"},',
    b'{"a":1}',
]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", SOURCES)
def test_damaged_input_is_damaged_in_the_same_way(name: str, seed: int) -> None:
    """A typed reader that takes what the exact one refuses would let bad records through."""
    random = Random(seed)
    samples = [*shapes(name, 4).values(), *((SAMPLES / f"{name}{bad}.json").read_bytes() for bad in ("", "_bad"))]
    for _ in range(100):
        changed = bytearray(random.choice(samples))
        for _ in range(random.randint(1, 3)):
            at = random.randrange(len(changed))
            if random.random() < 0.4:
                changed[at] = random.choice(b'"{}[]:,\\0a\n \xff') if random.random() < 0.7 else random.randrange(256)
            elif random.random() < 0.3:
                del changed[at : at + random.randint(1, 5)]
            else:
                places = (
                    [place for place, byte in enumerate(changed) if byte in b'{[,:"'] if random.random() < 0.7 else [at]
                )
                at = random.choice(places or [0]) + 1
                changed[at:at] = random.choice(INSERTED)
        assert_same(name, bytes(changed))


def members_given_twice(value: Any) -> Iterator[bytes]:
    """The value with one member of one object given twice, for every member of every object."""

    def objects(inner: Any) -> Iterator[dict[str, Any]]:
        if isinstance(inner, dict):
            yield inner
        for each in inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else ():
            yield from objects(each)

    for each in list(objects(value)):
        for key in [*each]:
            each["TWICE"] = each[key]
            yield json.dumps(value, separators=(",", ":")).replace('"TWICE":', f"{json.dumps(key)}:", 1).encode()
            del each["TWICE"]


@pytest.mark.parametrize("name", SOURCES)
def test_a_member_given_twice_is_seen_wherever_it_is(name: str) -> None:
    """The quick decoder keeps the last value without a word: of two readers, each would see another history."""
    whole = json.loads(json.dumps(jaeger_trace(0, 3) if name == "jaeger" else [zipkin_span(0), zipkin_span(3)]))
    tried = [*members_given_twice(whole)]
    assert len(tried) > 20
    for data in tried:
        assert_same(name, data)
        # A colon that is spelled out must not make up for the one that was lost.
        assert_same(name, data.replace(b"a:b", rb"a\u003ab"))


@pytest.mark.parametrize("text", ["0.10", "1e5", "-0.0", "1.5E+3", "0.1234567890123456789", "100000000000000000000.5"])
def test_numbers_keep_their_text(text: str) -> None:
    """A reader that rounds changes what was measured, and nobody can tell by how much."""
    data = json.dumps(jaeger_trace(1)).replace(str(1 / 7), text)
    for source in SOURCES["jaeger"]:
        assert f'"ratio":{text}' in rows(source, data)[-1]["attributes"]


@pytest.mark.parametrize(
    "kinds",
    [
        [("string", "server"), ("string", "server")],
        [("string", "server"), ("string", "client")],
        [("float64", 1.5)],
        [("bool", True)],
        [("int64", 3)],
    ],
)
def test_a_kind_of_span_that_is_no_text_is_read_as_the_exact_reader_does(kinds: list[tuple[str, Any]]) -> None:
    """A tag `span.kind` that was given twice ended the run with a trace-back, and a followed folder for good."""
    tags = [{"key": "span.kind", "type": kind, "value": value} for kind, value in kinds]
    span = {"traceID": "1" * 32, "spanID": "2" * 16, "operationName": "x", "startTime": 1, "duration": 5}
    span |= {"processID": "p1", "tags": tags}
    document = {"data": [{"traceID": "1" * 32, "spans": [span], "processes": {"p1": {"serviceName": "a"}}}]}
    text = json.dumps(document).encode()
    assert rows(Jaeger(), text) == rows(Jaeger(exact=True), text)
    assert len(rows(Jaeger(), text)) == 2
