"""Jaeger's JSON: what each span means, however traces are laid out, and what becomes of bad ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.events.keys import ANSWER
from ledto.sources import check_source
from ledto.sources.jaeger import source as jaeger
from ledto.sources.jaeger.source import Jaeger
from tests.sources.reading import SAMPLES, rows
from tests.sources.structures import Case, bad_json, complains, read_checked

GOOD = (SAMPLES / "jaeger.json").read_bytes()
BAD = (SAMPLES / "jaeger_bad.json").read_bytes()
T0 = 1_700_000_000_000_000
"""Microseconds."""
SPAN = {"traceID": "a", "spanID": "b", "operationName": "x", "startTime": T0, "duration": 7, "processID": "p1"}
PROCESSES = {"p1": {"serviceName": "shop"}, "p2": {"serviceName": "stock", "tags": []}}
TRACE, KEY = f"{'a':0>32}", f"{'b':0>16}"


def trace(*spans: dict[str, Any], processes: Any = PROCESSES) -> dict[str, Any]:
    return {"traceID": "a", "spans": list(spans), "processes": processes}


def read(data: Any) -> list[dict[str, Any]]:
    text = data if isinstance(data, bytes | str) else json.dumps(data)
    return [{k: v for k, v in row.items() if k not in ("file", "place", "text")} for row in rows(Jaeger(), text)]


def codes(data: Any) -> list[str | None]:
    """The code of each row's reason."""
    return [row["reason"].partition(":")[0] if "reason" in row else None for row in read(data)]


def started(data: Any) -> list[str]:
    """The last digit of each span that was read."""
    return [row["line"][-1] for row in read(data) if row.get("line_phase") == "start"]


def test_the_sample_means_what_its_author_meant() -> None:
    """Every field of a span, references of all kinds, logs and processes, written out by hand."""
    main, mail = "00000000000000005af7183fb1d4cf5f", f"{'77':0>32}"
    a1, b2, c3, d4, e5 = (f"00000000000000{end}" for end in ("a1", "b2", "c3", "d4", "e5"))

    def start(in_trace: str, key: str, process: str, us: int, name: str, kind: str = "local", parent: str = "") -> Any:
        at = {"computation": "", "process": process, "time": (T0 + us) * 1000, "kind": kind}
        at |= {"sends": f"span {in_trace}/{key}", "id": f"{key}/start", "name": f"{name} starts"}
        at |= {"line": f"{in_trace}/{key}", "line_phase": "start"}
        return at | ({"line_parent": f"{in_trace}/{parent}", "receives": f"span {in_trace}/{parent}"} if parent else {})

    def end(in_trace: str, key: str, process: str, us: int, name: str, kind: str, attributes: str, **more: Any) -> Any:
        at = {"computation": "", "process": process, "time": (T0 + us) * 1000, "kind": kind, "id": key, "name": name}
        at |= {"line_since": (T0 + begun[key]) * 1000, "attributes": attributes}
        at |= {"line": f"{in_trace}/{key}", "line_phase": "end", "receives": f"{ANSWER}{in_trace}/{key}"}
        return at | more

    begun = {a1: 0, b2: 1000, c3: 2000, e5: 0}
    client = '{"warnings":["clock skew"],"span.kind":"client","retry":[1,2]}'
    log = {
        "computation": "",
        "process": "stock@s-2",
        "kind": "local",
        "line": f"{main}/{c3}",
    }
    causes = {"receives_more": [f"span {main}/{c3}", f"span {mail}/{e5}"]}
    awaits = {"sends": f"{ANSWER}{main}/{a1}"}
    answers = {"sends": f"{ANSWER}{main}/{b2}", "error": True}
    assert read(GOOD) == [
        start(main, a1, "shop@pod-1", 0, "checkout", "receive"),
        end(main, a1, "shop@pod-1", 9000, "checkout ends", "send", '{"span.kind":"server"}'),
        start(main, b2, "shop@pod-1", 1000, "GET /stock", "send", parent=a1),
        end(main, b2, "shop@pod-1", 7000, "GET /stock ends", "receive", client, **awaits),
        start(main, c3, "stock@s-2", 2000, "GET /stock", "receive", parent=b2),
        log | {"id": f"{c3}/1", "time": (T0 + 4000) * 1000, "name": "none left", "attributes": '{"item":7}'},
        log | {"id": f"{c3}/2", "time": (T0 + 4500) * 1000, "name": "log", "attributes": '{"level":"warn"}'},
        end(main, c3, "stock@s-2", 5000, "GET /stock fails", "send", '{"span.kind":"server","error":true}', **answers),
        start(main, d4, "mail", 8000, "mail the customer", "receive", parent=a1)
        | causes
        | {"attributes": '{"span.kind":"consumer"}'},
        start(mail, e5, "mail", 0, "newsletter"),
        end(mail, e5, "mail", 5, "newsletter fails", "local", '{"otel.status_code":"ERROR"}', error=True),
    ]
    assert rows(Jaeger(), GOOD)[0]["place"] == GOOD.index(b'{"traceID": "5af7183fb1d4cf5f", "spanID": "A1"')


def test_bad_spans_and_answers_are_told_and_their_neighbours_read() -> None:
    """A span that vanished would be a hole in a trace that nobody sees."""
    assert codes(BAD) == ["no-process", "duplicate-key", "no-traces", "not-json", None, None]


@pytest.mark.parametrize(
    ("references", "parent", "awaited", "links"),
    [
        ([("CHILD_OF", "A", "C")], "c", True, []),
        ([("FOLLOWS_FROM", "a", "c")], "c", False, []),
        ([("FOLLOWS_FROM", "a", "c"), ("CHILD_OF", "a", "d")], "d", True, ["a/c"]),
        ([("CHILD_OF", "a", "c"), ("CHILD_OF", "a", "d"), ("FOLLOWS_FROM", "a", "d")], "c", True, ["a/d"]),
        ([("CHILD_OF", "e", "c"), ("FOLLOWS_FROM", "a", "d")], "d", False, ["e/c"]),
        ([("FOLLOWS_FROM", "e", "c"), ("FOLLOWS_FROM", "e", "d")], None, True, ["e/c", "e/d"]),
        ([("CHILD_OF", "a", "b")], None, True, []),
        ([], None, True, []),
    ],
)
def test_the_first_child_of_in_the_trace_is_the_parent_and_the_rest_are_causes(
    references: list[tuple[str, str, str]], parent: str | None, awaited: bool, links: list[str]
) -> None:
    """A parent taken for a link is not waited for; a link taken for the parent forces a span inside one it is not in."""
    given_references = [{"refType": kind, "traceID": t, "spanID": s} for kind, t, s in references]
    server = [{"key": "span.kind", "value": "server"}]
    start, end = read(trace(SPAN | {"references": given_references, "tags": server}))

    def line(of_trace: str, key: str) -> str:
        return f"{of_trace.rjust(32, '0')}/{key.rjust(16, '0')}"

    of_parent = None if parent is None else line("a", parent)
    assert start.get("line_parent") == of_parent
    # A server's parent is elsewhere, and learns of its end by the answer alone.
    assert end.get("line_parent") is None
    assert end["kind"] == ("send" if awaited else "local")
    assert end.get("sends") == (f"{ANSWER}{of_parent}" if of_parent and awaited else None)
    lines = [*([of_parent] if of_parent else []), *(line(*link.split("/")) for link in links)]
    expected = [f"span {each}" for each in lines]
    assert [start[key] for key in ("receives",) if key in start] + start.get("receives_more", []) == expected


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"traceID": None}, "no-span"),
        ({"spanID": ""}, "no-span"),
        ({"spanID": "g"}, "bad-field"),
        ({"traceID": "1" * 33}, "bad-field"),
        ({"startTime": None}, "no-time"),
        ({"startTime": "2024-05-01T12:00:00Z"}, "bad-field"),
        ({"startTime": -5}, "bad-field"),
        ({"startTime": 2**60}, "number-out-of-range"),
        ({"duration": 1.5}, "bad-field"),
        ({"processID": None}, "no-process"),
        ({"processID": "p7"}, "no-process"),
        ({"process": {"tags": []}}, "no-process"),
        ({"references": {}}, "bad-field"),
        ({"references": [{"refType": "PARENT", "traceID": "a", "spanID": "c"}]}, "bad-field"),
        ({"references": [{"refType": "CHILD_OF", "traceID": "a"}]}, "bad-field"),
        ({"tags": {"error": True}}, "bad-field"),
        ({"tags": ["error"]}, "bad-field"),
        ({"logs": [{"fields": []}]}, "no-time"),
        ({"logs": [{"timestamp": 5, "fields": [7]}]}, "bad-field"),
        ({"operationName": ["x"]}, "bad-field"),
    ],
    ids=repr,
)
def test_a_field_that_means_nothing_quarantines_its_span(change: dict[str, Any], code: str) -> None:
    """A guess about a wrong field would put an event where it did not happen."""
    assert codes(trace(SPAN, SPAN | change, SPAN)) == [None, None, code, None, None]


@pytest.mark.parametrize(
    ("tags", "process"),
    [
        ([], "shop"),
        ([("hostname", "pod-1"), ("ip", "10.0.0.1")], "shop@pod-1/10.0.0.1"),
        ([("ip", "10.0.0.1")], "shop@10.0.0.1"),
        ([("ip", 7), ("service.instance.id", "i-1"), ("hostname", "pod-1")], "shop@i-1"),
        ([("hostname", "")], "shop"),
        ([("jaeger.version", "Go-2")], "shop"),
    ],
)
def test_a_process_is_a_service_and_its_instance(tags: list[tuple[str, Any]], process: str) -> None:
    """Two instances of a service have two clocks; taken for one process, their events would seem to be in order."""
    given_tags = [{"key": key, "value": value} for key, value in tags]
    found = read(trace(SPAN, processes={"p1": {"serviceName": "shop", "tags": given_tags}}))
    assert {row["process"] for row in found} == {process}


SPANS = st.lists(
    st.fixed_dictionaries(
        {"traceID": st.just("a"), "spanID": st.integers(1, 2**64 - 1).map("{:x}".format)},
        optional={
            "processID": st.sampled_from(["p1", "p2"]),
            "startTime": st.integers(0, T0),
            "duration": st.integers(0, 10**9),
            "operationName": st.text(max_size=4),
            "references": st.lists(st.just({"refType": "CHILD_OF", "traceID": "a", "spanID": "c"}), max_size=2),
            "tags": st.lists(
                st.fixed_dictionaries({"key": st.text(max_size=3), "value": st.integers(0, 9)}), max_size=3
            ),
            "logs": st.lists(st.just({"timestamp": 5, "fields": [{"key": "event", "value": "x"}]}), max_size=2),
        },
    ),
    max_size=6,
)


@settings(max_examples=200)
@given(SPANS, st.sampled_from([None, 1]), st.sampled_from([0, 200, 1 << 20]))
def test_the_layout_of_a_file_does_not_matter(spans: list[dict[str, Any]], indent: int | None, held_bytes: int) -> None:
    """Answers, bare traces, lists and lines hold the same spans; those of a trace too large to hold are read twice."""

    def text(value: Any) -> str:
        return json.dumps(value, indent=indent)

    expected = read(trace(*spans))
    early = {"processes": PROCESSES, "traceID": "a", "spans": spans}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jaeger, "HELD_BYTES", held_bytes)
        assert read(text({"data": [trace(*spans)], "total": 1, "errors": None})) == expected
        assert read(text([trace(*spans)])) == expected
        assert read(text(early)) == expected
        assert read("\n".join(json.dumps(trace(span)) for span in spans)) == expected
        assert read("".join(text({"data": [trace(span)]}) for span in spans)) == expected


@settings(max_examples=100)
@given(SPANS)
def test_spans_of_elasticsearch_bring_their_process_along(spans: list[dict[str, Any]]) -> None:
    """One document a line, as dumps of an index have them, bare or in their envelope."""
    whole = [SPAN | span for span in spans]
    expected = read(trace(*whole))
    documents = [
        {key: value for key, value in span.items() if key != "processID"}
        | {"process": PROCESSES[span["processID"]], "startTimeMillis": 5}
        for span in whole
    ]
    assert read("\n".join(map(json.dumps, documents))) == expected
    assert read("\n".join(json.dumps({"_index": "i", "_source": document}) for document in documents)) == expected


def numbered(*numbers: int) -> list[str]:
    return [json.dumps(SPAN | {"spanID": str(number)}) for number in numbers]


def whole(spans: list[str], *, first: str = "a") -> str:
    return f'{{"traceID":"{first}","spans":[{",".join(spans)}],"processes":{json.dumps(PROCESSES)}}}'


@pytest.mark.parametrize("held_bytes", [0, 1 << 20])
def test_a_damaged_span_does_not_take_its_trace_with_it(held_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace of a day may be one list, and its processes come last: without them, no span has a service."""
    monkeypatch.setattr(jaeger, "HELD_BYTES", held_bytes)
    spans = numbered(1, 2, 3, 4)
    spans[1] = spans[1].replace('"duration', "duration")
    spans[2] = spans[2][:-1]
    text = f'{{"data":[{whole(spans)},{whole(numbered(5))}]}}'
    assert started(text) == ["1", "4", "5"]
    assert codes(text).count("not-json") == 2


def test_after_damage_no_span_is_given_to_the_processes_of_another_trace() -> None:
    """Ids of processes repeat from trace to trace: p1 of the next one is another service."""
    first = whole(numbered(1, 2)).partition('],"processes"')[0]
    second = whole([json.dumps(SPAN | {"traceID": "e", "spanID": "3"})], first="e").partition('"spans":[')[2]
    found = read(f"[{first} lost {second}]")
    assert [row["reason"].partition(":")[0] for row in found if "reason" in row][:2] == ["no-process", "no-process"]
    assert not any(row.get("line_phase") for row in found)


def test_a_trace_cut_off_before_its_processes_is_told_span_by_span() -> None:
    """Nothing tells which services they are of; with the processes first, what came before the cut is good."""
    cut = whole(numbered(1, 2)).partition('],"processes"')[0]
    assert codes(cut) == ["no-process", "no-process", "not-json"]
    early = f'{{"processes":{json.dumps(PROCESSES)},"spans":[{",".join(numbered(1, 2))}'
    assert started(early) == ["1", "2"]
    assert codes(early)[-1] == "not-json"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"data":[]}', []),
        ('{"data":null}', []),
        ('{"traceID":"a","spans":null,"processes":{}}', []),
        ('{"data":5}', ["bad-field"]),
        ('{"data":["x"]}', ["not-json"]),
        ('{"spans":{}}', ["bad-field"]),
        ('{"spans":[],"processes":[]}', ["bad-field"]),
        ('{"spans":[],"spans":[]}', ["duplicate-key"]),
        ("{}", ["no-span"]),
        ('{"total":0}', ["no-span"]),
        ("[[[[[[{}]]]]]]", ["not-json"]),
        ("5", ["not-json"]),
    ],
)
def test_what_holds_no_spans_is_told_unless_it_is_empty(text: str, expected: list[str]) -> None:
    """An answer of another kind, read as nothing, would look like a system in which nothing happened."""
    assert codes(text) == expected


def test_it_keeps_what_a_source_promises() -> None:
    """A source that lost, invented or reordered one record would change what caused what, without a word."""
    assert check_source(Jaeger(), GOOD + BAD, mutations=200) > 200


@settings(max_examples=300)
@given(bad_json(GOOD))
def test_bad_input_of_any_structure_is_survived_and_told(case: Case) -> None:
    """What no strict reader can accept must not pass for a trace."""
    assert complains(read_checked(Jaeger(), case)) or not case.is_wrong
