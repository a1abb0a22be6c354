"""Lines of the tracing library: what each means, and that their causes are the true ones."""

from __future__ import annotations

import base64
import json
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.events.keys import STAMPED
from ledto.interop.govector import GoVector
from ledto.sources import check_source
from ledto.sources.native import lines as json_lines
from ledto.sources.tracing import source as tracing
from ledto.sources.tracing.source import FIELDS, Tracing
from tests.sources.hard_lines import hard_files
from tests.sources.reading import SAMPLES, rows, table
from tests.sources.test_vectors import known_by_rows

SAMPLE = (SAMPLES / "tracing.log").read_bytes()
LARGEST = 2**64 - 1


def line(process: str, tag: str, clock: Any, *, trace: Any = 7, body: Any = None) -> dict[str, Any]:
    values = (process, trace, tag, {} if body is None else body, clock)
    return dict(zip(FIELDS, values, strict=True))


def token_line(process: str, tag: str, clock: Any, token: bytes, *, trace: Any = 7) -> dict[str, Any]:
    return line(process, tag, clock, trace=trace, body={"Token": base64.b64encode(token).decode()})


def lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def test_the_sample_means_what_its_author_meant() -> None:
    """Every field of a line and every bad line of the sample, written out by hand."""
    at = {"computation": "", "file": "sample"}

    def event(place: int, process: str, seq: int, name: str, kind: str, clock: str, attributes: str) -> dict[str, Any]:
        stamp = '{"clock":"vector","counters":' + clock + "}"
        common = {"process": process, "seq": seq, "name": name, "kind": kind, "stamp": stamp, "attributes": attributes}
        return at | common | {"place": place, "sends": f"{STAMPED}{process}:{seq}"}

    shop_token, stock_token = '"Token":"pHNob3AHgaRzaG9wAw=="', '"Token":"pXN0b2NrB4Kkc2hvcAOlc3RvY2sD"'
    till = '{"Token":"pHRpbGzP//////////+BpHRpbGwC","TraceID":"18446744073709551615"}'
    sent, received = "GenerateTokenTrace", "ReceiveTokenTrace"
    assert rows(Tracing(), SAMPLE) == [
        event(1, "shop", 1, "CreateTrace", "local", '{"shop":1}', '{"TraceID":"7"}'),
        event(2, "shop", 2, "OrderPlaced", "local", '{"shop":2}', '{"Order":12,"Price":3.50,"TraceID":"7"}'),
        event(3, "shop", 3, sent, "send", '{"shop":3}', "{" + shop_token + ',"TraceID":"7"}'),
        event(4, "stock", 1, received, "receive", '{"shop":3,"stock":1}', "{" + shop_token + ',"TraceID":"7"}')
        | {"receives": f"{STAMPED}shop:3"},
        event(5, "stock", 2, "NoneLeft", "local", '{"shop":3,"stock":2}', '{"Order":12,"TraceID":"7"}'),
        at
        | {"place": 6, "reason": "not-json: a record is an object in braces, not 'this line is no reco'"}
        | {"text": "this line is no record"},
        at
        | {"place": 7, "reason": "bad-clock: the clock does not count its own tracer 'till'", "process": "till"}
        | {"text": '{"TracerIdentity":"till","TraceID":7,"Tag":"Paid","Body":{},"VectorClock":{"shop":3}}'},
        event(8, "stock", 3, sent, "send", '{"shop":3,"stock":3}', "{" + stock_token + ',"TraceID":"7"}'),
        event(9, "shop", 4, received, "receive", '{"shop":4,"stock":3}', "{" + stock_token + ',"TraceID":"7"}')
        | {"receives": f"{STAMPED}stock:3"},
        event(10, "till", 1, "CreateTrace", "local", '{"till":1}', f'{{"TraceID":"{LARGEST}"}}'),
        event(11, "till", 2, sent, "send", '{"till":2}', till),
        event(12, "shop", 5, received, "receive", '{"shop":5,"stock":3,"till":2}', till)
        | {"receives": f"{STAMPED}till:2"},
    ]


@pytest.mark.parametrize("cell_bytes", [json_lines.CELL_BYTES, 300])
def test_it_keeps_what_a_source_promises(monkeypatch: pytest.MonkeyPatch, cell_bytes: int) -> None:
    """Lines dropped, or rows that depend on where a file is cut, also where clocks are forgotten within it."""
    monkeypatch.setattr(json_lines, "CELL_BYTES", cell_bytes)
    assert check_source(Tracing(), SAMPLE) > 300


GOOD = line("a", "Tag", {"a": 1})
BAD_LINES: list[tuple[dict[str, Any], str]] = [
    *(({key: value for key, value in GOOD.items() if key != name}, "bad-field") for name in FIELDS),
    ({**GOOD, "Extra": 1}, "bad-field"),
    ({**GOOD, "TracerIdentity": 3}, "bad-field"),
    ({**GOOD, "TracerIdentity": ""}, "no-process"),
    ({**GOOD, "TracerIdentity": "a\0"}, "bad-field"),
    ({**GOOD, "Tag": None}, "bad-field"),
    ({**GOOD, "Tag": ""}, "bad-field"),
    ({**GOOD, "Body": []}, "bad-field"),
    ({**GOOD, "Body": {"TraceID": 1, "line.TraceID": 2}}, "duplicate-key"),
    ({**GOOD, "Body": {"x": 2**63}}, "number-out-of-range"),
    ({**GOOD, "TraceID": -1}, "bad-field"),
    ({**GOOD, "TraceID": 1.0}, "bad-field"),
    ({**GOOD, "TraceID": True}, "bad-field"),
    ({**GOOD, "TraceID": 2**64}, "number-out-of-range"),
    ({**GOOD, "TraceID": str(2**64)}, "bad-field"),
    ({**GOOD, "TraceID": "07"}, "bad-field"),
    ({**GOOD, "VectorClock": None}, "bad-clock"),
    ({**GOOD, "VectorClock": {}}, "bad-clock"),
    ({**GOOD, "VectorClock": {"a": 0}}, "bad-clock"),
    ({**GOOD, "VectorClock": {"b": 1}}, "bad-clock"),
    ({**GOOD, "VectorClock": {"a": 1, "b": -1}}, "bad-clock"),
    ({**GOOD, "VectorClock": {"a": 1, "b": 1.0}}, "bad-clock"),
    ({**GOOD, "VectorClock": {"a": 1, "b": 2**63}}, "number-out-of-range"),
    ({**GOOD, "VectorClock": {"a": 1, "": 1}}, "bad-clock"),
    ({**GOOD, "VectorClock": {"a": 1, "b\0": 1}}, "bad-clock"),
    ({**GOOD, "VectorClock": {"a": 1, "b" * 256: 1}}, "bad-clock"),
    (line("a", "GenerateTokenTrace", {"a": 1}), "bad-token"),
    (line("a", "ReceiveTokenTrace", {"a": 1}, body={"Token": None}), "bad-token"),
    (line("a", "ReceiveTokenTrace", {"a": 1}, body={"Token": "not base64!"}), "bad-token"),
    (line("a", "ReceiveTokenTrace", {"a": 1}, body={"Token": ""}), "bad-token"),
    (token_line("a", "ReceiveTokenTrace", {"a": 1}, b"\xa1b\x07\x81\xa1b"), "bad-token"),
]


@pytest.mark.parametrize(("record", "code"), BAD_LINES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_bad_line_is_kept_with_its_reason_and_its_neighbours_are_read(record: dict[str, Any], code: str) -> None:
    """A line that vanished, or took the rest of the file with it, would be a hole that nobody sees."""
    bad = json.dumps(record)
    found = rows(Tracing(), f"{json.dumps(GOOD)}\n{bad}\n{json.dumps(GOOD)}\n")
    assert [row.get("reason", "").partition(":")[0] for row in found] == ["", code, ""]
    assert found[1]["text"] == bad


def token(process: str, clock: dict[str, int], *, payload: Any = 7) -> bytes:
    """A token with this clock, from a process that heard of the rest of it from others."""
    sender = GoVector(process)
    for name, count in clock.items():
        if name != process:
            peer = GoVector(name)
            for _ in range(count - 1):
                peer.clock.local()
            sender.unpack_receive(peer.prepare_send(None))
    while sender.clock.count < clock[process] - 1:
        sender.clock.local()
    return sender.prepare_send(payload)


CONTRADICTIONS = {
    "another trace": token_line("a", "GenerateTokenTrace", {"a": 1}, token("a", {"a": 1}, payload=8)),
    "no trace": token_line("a", "GenerateTokenTrace", {"a": 1}, token("a", {"a": 1}, payload="7")),
    "a trace that is true": token_line(
        "a", "GenerateTokenTrace", {"a": 1}, token("a", {"a": 1}, payload=True), trace=1
    ),
    "another sender": token_line("a", "GenerateTokenTrace", {"a": 1, "b": 1}, token("b", {"b": 1})),
    "made later": token_line("a", "GenerateTokenTrace", {"a": 1}, token("a", {"a": 2})),
    "knows more than the send": token_line("a", "GenerateTokenTrace", {"a": 2}, token("a", {"a": 2, "b": 1})),
    "unknown to the receive": token_line("a", "ReceiveTokenTrace", {"a": 2, "b": 1}, token("b", {"b": 2})),
    "a cause unknown to the receive": token_line(
        "a", "ReceiveTokenTrace", {"a": 2, "b": 2}, token("b", {"b": 2, "c": 1})
    ),
    "knows of its own receive": token_line("a", "ReceiveTokenTrace", {"a": 1, "b": 2}, token("b", {"b": 2, "a": 1})),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_line_that_its_token_contradicts_is_quarantined(name: str) -> None:
    """A forged or mixed-up token would pass for a message, and one of its two ends would lie."""
    (row,) = rows(Tracing(), lines([CONTRADICTIONS[name]]))
    assert row["reason"].startswith("token-contradicts: ")


def test_a_send_that_was_logged_too_late_is_where_its_token_says() -> None:
    """Of two threads of a tracer, one reads the clock that the other has moved on: its receivers would lose their cause."""
    records = [
        token_line("a", "GenerateTokenTrace", {"a": 2, "c": 5}, token("a", {"a": 1})),
        token_line("b", "ReceiveTokenTrace", {"a": 1, "b": 1}, token("a", {"a": 1})),
    ]
    sent, received = rows(Tracing(), lines(records))
    assert (sent["seq"], sent["sends"], sent.get("receives")) == (1, received["receives"], None)
    assert json.loads(sent["stamp"])["counters"] == {"a": 1}


def test_a_receive_names_its_token_also_where_it_tells_nothing_new() -> None:
    """Two messages that arrive in the other order: the older one would not count as a message."""
    first, second = token("a", {"a": 1}), token("a", {"a": 2})
    records = [
        token_line("a", "GenerateTokenTrace", {"a": 1}, first),
        token_line("a", "GenerateTokenTrace", {"a": 2}, second),
        token_line("b", "ReceiveTokenTrace", {"a": 2, "b": 1}, second),
        token_line("b", "ReceiveTokenTrace", {"a": 2, "b": 2}, first),
    ]
    found = rows(Tracing(), lines(records))
    assert [row.get("receives") for row in found] == [None, None, f"{STAMPED}a:2", f"{STAMPED}a:1"]


def test_a_receive_whose_send_was_lost_still_follows_what_that_send_had_heard_of() -> None:
    """One lost line would make everything before it look concurrent with everything after it."""
    records = [
        line("c", "Tag", {"c": 1}),
        token_line("b", "ReceiveTokenTrace", {"a": 2, "b": 1, "c": 1}, token("a", {"a": 2, "c": 1})),
    ]
    _, received = rows(Tracing(), lines(records))
    assert (received["receives"], received["receives_more"]) == (f"{STAMPED}a:2", [f"{STAMPED}c:1"])


def test_ids_beyond_63_bits_are_kept_to_the_last_digit() -> None:
    """Traces whose ids differ in the last digits would become one; text that looks like an id would be changed."""
    text = '"TraceID": 18446744073709551615, '
    records = [
        line("a", "Tag", {"a": 1}, trace=2**63, body={"TraceID": LARGEST, "text": text}),
        line("a", "Tag", {"a": 2}, trace=2**63 - 1, body={"\\": text + "}"}),
    ]
    found = [json.loads(row["attributes"]) for row in rows(Tracing(), lines(records))]
    assert found == [
        {"TraceID": str(LARGEST), "text": text, "line.TraceID": str(2**63)},
        {"\\": text + "}", "TraceID": str(2**63 - 1)},
    ]


def played(random: Random, *, events: int, names: list[str]) -> list[dict[str, Any]]:
    """Lines of tracers that exchange tokens, in an order in which they could have happened."""
    tracers = {name: GoVector(name) for name in names}
    wire: list[tuple[int, bytes]] = []
    records = []
    for _ in range(events):
        name = random.choice(names)
        tracer = tracers[name]
        act = random.choice(["local", "send", "receive"])
        if act == "receive" and wire:
            trace, data = random.choice(wire)
            assert tracer.unpack_receive(data) == trace
            records.append(token_line(name, "ReceiveTokenTrace", dict(tracer.clock.stamp), data, trace=trace))
        elif act == "send":
            trace = random.getrandbits(64)
            data = tracer.prepare_send(trace)
            wire.append((trace, data))
            records.append(token_line(name, "GenerateTokenTrace", dict(tracer.clock.stamp), data, trace=trace))
        else:
            tracer.clock.local()
            records.append(line(name, "Tag", dict(tracer.clock.stamp), body={"n": len(records)}))
    return [dict(random.sample(list(record.items()), len(record))) for record in records]


@pytest.mark.parametrize("cell_bytes", [json_lines.CELL_BYTES, 700])
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_causes_are_the_true_ones(cell_bytes: int, seed: int) -> None:
    """A relation that the clocks know and the rows do not, or the other way round, in whatever order lines are written."""
    random = Random(seed)
    records = played(random, events=40, names=["p0", "p1", "žluť", "p:3"])
    if random.random() < 0.5:
        random.shuffle(records)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(json_lines, "CELL_BYTES", cell_bytes)
        found = table(Tracing(), lines(records)).to_pylist()
    assert [row["reason"] for row in found] == [None] * len(records)
    past = known_by_rows(found)
    clocks = {f"{each['TracerIdentity']}:{each['VectorClock'][each['TracerIdentity']]}": each for each in records}
    assert past.keys() == clocks.keys()
    for key, record in clocks.items():
        clock = record["VectorClock"]
        expected = {
            other
            for other, each in clocks.items()
            if all(clock.get(name, 0) >= count for name, count in each["VectorClock"].items())
        }
        assert past[key] == expected


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
CLOCKS = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(0, 5), max_size=3)
TOKENS = st.builds(
    lambda process, clock, payload: {
        "Token": base64.b64encode(token(process, {**clock, process: 2}, payload=payload)).decode()
    },
    st.sampled_from(["a", "b"]),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 3), max_size=2),
    st.sampled_from([7, LARGEST, "7"]),
)
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "TracerIdentity": st.sampled_from(["a", "b"]) | JSON_VALUES,
        "TraceID": st.sampled_from([7, 2**63, LARGEST]) | JSON_VALUES,
        "Tag": st.sampled_from(["Tag", "GenerateTokenTrace", "ReceiveTokenTrace"]) | JSON_VALUES,
        "Body": TOKENS | JSON_VALUES,
        "VectorClock": CLOCKS | JSON_VALUES,
    },
)


@settings(max_examples=300, deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=6))
def test_any_values_give_a_row_each(records: list[dict[str, Any]]) -> None:
    """A value of a type that nobody expected would end the run, or be taken for what it is not."""
    found = rows(Tracing(), "".join(json.dumps(record) + "\n" for record in records))
    assert len(found) == len(records)
    for record, row in zip(records, found, strict=True):
        if "reason" not in row:
            clock = record["VectorClock"]
            assert (row["process"], row["name"]) == (record["TracerIdentity"], record["Tag"])
            assert 0 < row["seq"] <= clock[row["process"]]
            expected = {"Token": record["Body"]["Token"]} if "Token" in (record["Body"] or {}) else {}
            assert json.loads(row["attributes"]).items() >= {**expected, "TraceID": str(record["TraceID"])}.items()


USUAL = (
    '"shop"',
    "7",
    '{"shop":2, "stock":1}',
    '{"a":1,"shop":3}',
    '"GenerateTokenTrace"',
    '{"Token":"pHNob3AHgaRzaG9wAg=="}',
)
HARD = hard_files(FIELDS, USUAL)
CLOCKS = st.dictionaries(st.sampled_from(["shop", "stock", "a:b", ""]), st.sampled_from([0, 1, 2, 2**63 - 1, 2**63]))


@st.composite
def nearly_right(draw: st.DrawFn) -> bytes:
    """A line of which each member is of the right type, and perhaps wrong."""
    process, trace = draw(st.sampled_from(["shop", "stock"])), draw(st.sampled_from([0, 7, 2**63 - 1, 2**63, LARGEST]))
    clock = draw(CLOCKS) | {process: draw(st.sampled_from([1, 2, 3]))}
    packed = [
        process,
        draw(st.sampled_from([trace, trace, 8, None, "7"])),
        draw(st.sampled_from([clock, clock, {process: 1}])),
    ]
    token = b"".join(msgspec.msgpack.encode(value) for value in packed) + draw(st.sampled_from([b"", b"", b"x"]))
    token = token.replace(
        b"\x81\xa4shop\x01", draw(st.sampled_from([b"\x81\xa4shop\x01", b"\x82\xa4shop\x01\xa4shop\x01"]))
    )
    body: dict[str, Any] = {"Token": base64.b64encode(token).decode()}
    body |= draw(
        st.sampled_from([{}, {"TraceID": 1}, {"TraceID": LARGEST}, {"n": [2**64]}, {"Token": "!"}, {"a": {"b": "c:d"}}])
    )
    tag = draw(st.sampled_from(["Order", "GenerateTokenTrace", "ReceiveTokenTrace"]))
    return json.dumps(line(process, tag, clock, trace=trace, body=body)).encode()


@settings(max_examples=300)
@given(st.one_of(HARD, st.lists(nearly_right(), max_size=6).map(b"\n".join)))
def test_quick_reading_gives_the_rows_of_exact_reading(data: bytes) -> None:
    """Otherwise a line would mean one thing as the library writes it, and another with a space more."""
    quick = table(Tracing(), data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracing, "quick_values", lambda *_: None)
        assert quick == table(Tracing(), data)


def test_usual_lines_are_all_read_quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick reading that leaves everything would be right, and slow."""
    shop, stock = GoVector("shop"), GoVector("stock")
    found = []
    for number, trace in enumerate([7, LARGEST, 2**63, 0] * 5):
        token = shop.prepare_send(trace)
        found.append(token_line("shop", "GenerateTokenTrace", dict(shop.clock.stamp), token, trace=trace))
        stock.unpack_receive(token)
        found.append(token_line("stock", "ReceiveTokenTrace", dict(stock.clock.stamp), token, trace=trace))
        stock.clock.local()
        body = {"Order": number, "Said": 'a "b": é', "n": [1.5]}
        found.append(line("stock", "Order", dict(stock.clock.stamp), trace=trace, body=body))

    def refuse(*_: object) -> None:
        raise AssertionError("a usual line was left to the exact reader")

    monkeypatch.setattr(tracing, "exact_row", refuse)
    assert len(rows(Tracing(), lines(found))) == 60
