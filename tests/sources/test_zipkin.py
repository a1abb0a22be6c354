"""Zipkin's JSON: what each span means, however spans are laid out, and what becomes of bad ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.events.keys import ANSWER
from ledto.sources import check_source
from ledto.sources.zipkin.source import Zipkin
from tests.sources.reading import SAMPLES, rows
from tests.sources.structures import Case, bad_json, complains, read_checked

GOOD = (SAMPLES / "zipkin.json").read_bytes()
BAD = (SAMPLES / "zipkin_bad.json").read_bytes()
T0 = 1_700_000_000_000_000
"""Microseconds."""
SPAN = {"traceId": "a", "id": "b", "timestamp": T0, "duration": 7, "localEndpoint": {"serviceName": "shop"}}


def read(data: Any) -> list[dict[str, Any]]:
    text = data if isinstance(data, bytes | str) else json.dumps(data)
    return [{k: v for k, v in row.items() if k not in ("file", "place", "text")} for row in rows(Zipkin(), text)]


def codes(data: Any) -> list[str | None]:
    """The code of each row's reason."""
    return [row["reason"].partition(":")[0] if "reason" in row else None for row in read(data)]


def test_the_sample_means_what_its_author_meant() -> None:
    """Every field of a span, both sides of a shared one, and ids of both lengths, written out by hand."""
    trace, other = "00000000000000005af7183fb1d4cf5f", "463ac35c9f6413ad48485a3953bb6124"
    a1, b2, c3, d4, f7 = (f"00000000000000{end}" for end in ("a1", "b2", "c3", "d4", "f7"))

    def start(in_trace: str, key: str, process: str, us: int, name: str, kind: str = "local", parent: str = "") -> Any:
        at = {"computation": "", "process": process, "time": (T0 + us) * 1000, "kind": kind}
        at |= {"sends": f"span {in_trace}/{key}", "id": f"{key}/start", "name": f"{name} starts"}
        at |= {"line": f"{in_trace}/{key}", "line_phase": "start"}
        return at | ({"line_parent": f"{in_trace}/{parent}", "receives": f"span {in_trace}/{parent}"} if parent else {})

    def end(in_trace: str, key: str, process: str, us: int, name: str, kind: str, **more: str) -> Any:
        at = {"computation": "", "process": process, "time": (T0 + us) * 1000, "kind": kind, "id": key}
        at |= {"line_since": (T0 + begun[key]) * 1000}
        at |= {"name": name, "line": f"{in_trace}/{key}", "line_phase": "end"}
        return at | {"receives": f"{ANSWER}{in_trace}/{key}"} | more

    begun = {a1: 0, b2: 1000, f"{b2}/server": 2000, f7: 0}
    to_a1 = {"sends": f"{ANSWER}{trace}/{a1}"}
    answer = f"{ANSWER}{trace}/{b2}"
    remote = '{"remoteEndpoint":{"ipv4":"10.0.0.2","port":8080},"http.path":"/stock"}'
    assert read(GOOD) == [
        start(trace, a1, "shop@10.0.0.1", 0, "checkout", "receive"),
        end(trace, a1, "shop@10.0.0.1", 9000, "checkout ends", "send"),
        start(trace, b2, "shop", 1000, "get /stock", "send", parent=a1),
        {"computation": "", "process": "shop", "time": (T0 + 1500) * 1000, "kind": "local", "name": "ws"}
        | {"id": f"{b2}/1", "line": f"{trace}/{b2}"},
        end(trace, b2, "shop", 7000, "get /stock ends", "receive", attributes=remote) | to_a1,
        start(trace, f"{b2}/server", "stock", 2000, "get /stock", "receive", parent=b2),
        end(trace, f"{b2}/server", "stock", 5000, "get /stock fails", "send", sends=answer, attributes='{"error":""}')
        | {"error": True},
        start(trace, c3, "10.0.0.2:8080", 2500, "query", parent=b2) | {"attributes": '{"rows":"0"}'},
        start(other, d4, "[2001:db8::c001]", 0, "unnamed span", "send"),
        start(f"{'77':0>32}", f7, "mail", 0, "alone"),
        end(f"{'77':0>32}", f7, "mail", 5, "alone ends", "local"),
    ]
    assert [row["place"] for row in rows(Zipkin(), GOOD)][:3] == [
        GOOD.index(b'{"traceId'),
        GOOD.index(b'{"traceId'),
        227,
    ]


def test_bad_spans_are_told_and_their_neighbours_read() -> None:
    """A span that vanished would be a hole in a trace that nobody sees."""
    assert codes(BAD) == ["no-time", "bad-field", "not-json", None, None, "not-json"]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"traceId": None}, "no-span"),
        ({"id": "0000000000000000"}, "no-span"),
        ({"id": "xyz"}, "bad-field"),
        ({"id": "0" * 16 + "1"}, "bad-field"),
        ({"traceId": 5}, "bad-field"),
        ({"parentId": ["b"]}, "bad-field"),
        ({"timestamp": None}, "no-time"),
        ({"timestamp": 0}, "no-time"),
        ({"timestamp": -1}, "bad-field"),
        ({"timestamp": 1.5}, "bad-field"),
        ({"timestamp": True}, "bad-field"),
        ({"timestamp": 2**63 - 1}, "number-out-of-range"),
        ({"duration": 2**53}, "number-out-of-range"),
        ({"duration": -1}, "bad-field"),
        ({"kind": "server"}, "bad-kind"),
        ({"localEndpoint": None}, "no-process"),
        ({"localEndpoint": {}}, "no-process"),
        ({"localEndpoint": "shop"}, "bad-field"),
        ({"localEndpoint": {"serviceName": "a\0"}}, "bad-field"),
        ({"localEndpoint": {"ipv4": "1.2.3.4", "port": "80"}}, "bad-field"),
        ({"shared": "yes"}, "bad-field"),
        ({"annotations": {}}, "bad-field"),
        ({"annotations": [{"value": "x"}]}, "no-time"),
        ({"annotations": [5]}, "bad-field"),
        ({"tags": []}, "bad-field"),
        ({"name": 5}, "bad-field"),
    ],
    ids=repr,
)
def test_a_field_that_means_nothing_quarantines_its_span(change: dict[str, Any], code: str) -> None:
    """A guess about a wrong field would put an event where it did not happen."""
    assert codes([SPAN, SPAN | change, SPAN]) == [None, None, code, None, None]


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"parentId": ""},
        {"parentId": "0"},
        {"parentId": "B"},
        {"kind": None},
        {"annotations": None},
        {"future": [1]},
    ],
    ids=repr,
)
def test_what_is_absent_in_other_words_is_absent(change: dict[str, Any]) -> None:
    """Some write null, empty text or zero for what is not there; and a span that is its own parent has none."""
    assert read([SPAN | change]) == read([SPAN])


def test_only_the_servers_side_of_a_shared_span_gets_a_key_of_its_own() -> None:
    """The client's side is what others name; if it changed its key, nothing would be caused by it."""

    def key(**more: Any) -> tuple[str, str | None]:
        first = read([SPAN | {"parentId": "a"} | more])[0]
        assert (first["sends"], first["receives"]) == (f"span {first['line']}", f"span {first['line_parent']}")
        return first["line"], first["line_parent"]

    own, parent = (f"{'a':0>32}/{key:0>16}" for key in ("b", "a"))
    assert key(kind="SERVER") == key(kind="SERVER", shared=False) == (own, parent)
    assert key(kind="CLIENT", shared=True) == (own, parent)
    assert key(kind="SERVER", shared=True) == key(shared=True) == (f"{own}/server", own)


@pytest.mark.parametrize(
    ("endpoint", "tags", "process"),
    [
        ({}, {}, "shop"),
        ({"ipv4": "10.0.0.1"}, {}, "shop@10.0.0.1"),
        ({"ipv4": "10.0.0.1", "port": 8080}, {}, "shop@10.0.0.1:8080"),
        ({"ipv6": "2001:db8::1", "port": 0}, {}, "shop@[2001:db8::1]"),
        ({"ipv4": "10.0.0.1", "ipv6": "::1", "port": 80}, {}, "shop@10.0.0.1:80/[::1]:80"),
        ({"port": 8080}, {}, "shop@:8080"),
        ({"ipv4": "10.0.0.1"}, {"service.instance.id": "i-1", "http.path": "/"}, "shop@i-1"),
        ({"ipv4": "10.0.0.1"}, {"hostname": "h", "process.pid": "7"}, "shop@h/10.0.0.1/pid-7"),
    ],
    ids=repr,
)
def test_a_process_is_a_service_and_its_address(endpoint: Any, tags: Any, process: str) -> None:
    """Instances of a service run on machines of their own: one process of all would be in the order of many clocks."""
    found = read([SPAN | {"localEndpoint": {"serviceName": "shop", **endpoint}, "tags": tags}])
    assert {row["process"] for row in found} == {process}


SPANS = st.lists(
    st.fixed_dictionaries(
        {"traceId": st.sampled_from(["a", "b" * 32]), "id": st.integers(1, 2**64 - 1).map("{:x}".format)},
        optional={
            "parentId": st.integers(1, 99).map("{:016X}".format),
            "timestamp": st.integers(1, T0),
            "duration": st.integers(0, 10**9),
            "kind": st.sampled_from(["CLIENT", "SERVER", "PRODUCER", "CONSUMER"]),
            "shared": st.booleans(),
            "name": st.text(max_size=4),
            "localEndpoint": st.just({"serviceName": "shop"}),
            "tags": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
            "annotations": st.lists(st.just({"timestamp": 5, "value": "x"}), max_size=2),
        },
    ),
    max_size=6,
)


@settings(max_examples=200)
@given(SPANS, st.sampled_from([None, 1]), st.integers(1, 3))
def test_the_layout_of_a_file_does_not_matter(spans: list[dict[str, Any]], indent: int | None, size: int) -> None:
    """The same spans come as a list, as traces, as lines, or as several answers in one file."""
    expected = read(spans)
    parts = [spans[at : at + size] for at in range(0, len(spans), size)]
    assert read(json.dumps(parts, indent=indent)) == expected
    assert read("\n".join(map(json.dumps, spans))) == expected
    assert read("\n".join(map(json.dumps, parts))) == expected
    assert read("".join(json.dumps([part], indent=indent) for part in parts)) == expected


def test_a_damaged_span_does_not_take_the_next_with_it() -> None:
    """All spans of a service may stand in one line of gigabytes."""
    texts = [json.dumps(SPAN | {"id": f"{number}"}) for number in range(1, 6)]
    texts[1] = texts[1].replace('"duration', "duration")
    texts[3] = texts[3][:-1]
    found = read(f"[{','.join(texts)}]")
    assert [row["line"][-1] for row in found if row.get("line_phase") == "start"] == ["1", "3", "5"]
    assert sum("reason" in row for row in found) == 2


def test_it_keeps_what_a_source_promises() -> None:
    """A source that lost, invented or reordered one record would change what caused what, without a word."""
    assert check_source(Zipkin(), GOOD + BAD, mutations=200) > 200


@settings(max_examples=300)
@given(bad_json(GOOD))
def test_bad_input_of_any_structure_is_survived_and_told(case: Case) -> None:
    """What no strict reader can accept must not pass for a trace."""
    assert complains(read_checked(Zipkin(), case)) or not case.is_wrong
