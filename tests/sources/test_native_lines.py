"""JSON lines of the format ledto: what each line means, and that the compiled scanner means the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.simulation import closest, simulate
from ledto.simulation.simulate import write_json_lines
from ledto.sources import lines
from ledto.sources.native import lines as json_lines
from ledto.sources.native.lines import JsonLines
from ledto.sources.record_fields import REQUEST_IDS, SPAN_IDS, TRACE_IDS
from tests.sources.reading import SAMPLES, rows, table

PLAIN = JsonLines(compiled_from_bytes=1 << 60)
COMPILED = JsonLines(compiled_from_bytes=0)
BOTH = pytest.mark.parametrize("source", [PLAIN, COMPILED], ids=["plain", "compiled"])

NOON_NS = 1_714_564_800_000_000_000
"""2024-05-01T12:00:00Z."""


@BOTH
def test_the_sample_means_what_its_author_meant(source: JsonLines) -> None:
    """Every field, every default and every bad line of the page on sources, written out by hand."""
    at = {"computation": "", "file": "sample"}
    till = {"clock": "vector", "counters": {"till": 2, "shop": 2, "stock": 2}}
    found = rows(source, (SAMPLES / "shop.jsonl").read_bytes())
    first_till = '{"clock": "vector", "counters": {"till": 1, "shop": 2}}'
    lamport = '{"clock": "lamport", "time": 3, "process": "shop"}'
    assert found == [
        at
        | {"process": "shop", "seq": 1, "time": NOON_NS, "kind": "local", "name": "order placed"}
        | {"attributes": '{"order":7}', "place": 1},
        at | {"process": "shop", "seq": 2, "time": NOON_NS + 250_000_000, "kind": "send", "sends": "m1", "place": 2},
        at
        | {"process": "stock", "seq": 1, "time": NOON_NS + 300_000_000, "kind": "receive", "receives": "m1"}
        | {"receives_more": ["2"], "attributes": '{"left": 3.50}', "place": 4},
        at
        | {"process": "stock", "seq": 2, "time": NOON_NS + 10**9, "kind": "local", "name": 'said "none left"'}
        | {"arrival": NOON_NS + 1_500_000_000, "place": 5},
        at
        | {"process": "stock", "seq": 3, "reason": "no-message: a receive needs the id of its message", "place": 6}
        | {"text": '{"process": "stock", "seq": 3, "kind": "receive"}'},
        at
        | {"reason": "not-json: a record is an object in braces, not 'this line is no reco'", "place": 7}
        | {"text": "this line is no record"},
        at
        | {
            "process": "till",
            "seq": 1,
            "kind": "receive",
            "sends": "stamp of till:1",
            "receives": "stamp of shop:2",
            "place": 8,
        }
        | {"stamp": first_till},
        at
        | {
            "process": "till",
            "seq": 2,
            "kind": "receive",
            "sends": "stamp of till:2",
            "receives": "stamp of stock:2",
            "place": 9,
        }
        | {"stamp": json.dumps(till), "name": "zurück"},
        at
        | {"computation": "other", "process": "shop", "id": "9", "time": 5, "kind": "send", "sends": "k", "place": 10}
        | {"stamp": lamport},
    ]


@BOTH
@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"", None),
        (b" \t\r", None),
        (b"\x0c", "not-json"),
        (b"[1]", "not-json"),
        (b'"text"', "not-json"),
        (b'{"process":"a","seq":1', "not-json"),
        (b'{"process":"a","seq":1,}', "not-json"),
        (b'{"process":"a","seq":1}}', "not-json"),
        (b"{'process':'a','seq':1}", "not-json"),
        (b'{"process":"a","seq":NaN}', "not-json"),
        (b'{"process":"a","seq":1,"x":[1,-Infinity]}', "not-json"),
        (b'{"process":"a","seq":01}', "not-json"),
        (b'{"process":"a","seq":1,"x":1.}', "not-json"),
        (b'{"process":"a\x01","seq":1}', "not-json"),
        (b'{"process":"a","seq":1,"x":"\\q"}', "not-json"),
        (b'{"process":"a\x00","seq":1}', "not-json"),
        (b'{"process":"a\\u0000","seq":1}', "bad-field"),
        (b'{"process":"a\xff","seq":1}', "not-utf8"),
        (b'{"process":"a","seq":1,"x":"\xed\xa0\x80"}', "not-utf8"),
        (b'{"process":"a","seq":1,"x":{"y":"\\ud800"}}', "not-utf8"),
        (b'{"process":"a","seq":1,"process":"b"}', "duplicate-key"),
        (b'{"process":"a","seq":1,"x":1,"x":1}', "duplicate-key"),
        (b'{"process":"a","seq":1,"x":{"y":1,"\\u0079":2}}', "duplicate-key"),
        (b'{"process":"a","seq":1,"x":1,"attributes":{"x":2}}', "duplicate-key"),
        (b'{"process":"a","seq":9223372036854775808}', "number-out-of-range"),
        (b'{"process":"a","seq":1,"x":-9223372036854775809}', "number-out-of-range"),
        (b'{"process":"a","seq":1,"x":1e999}', "number-out-of-range"),
        (b'{"process":"a","seq":' + b"9" * 10_000 + b"}", "number-out-of-range"),
        (b'{"process":"a","seq":1,"x":' + b"[" * 64 + b"]" * 64 + b"}", "too-deep"),
        (b'{"process":"a","seq":1,"x":' + b"[" * 100_000, "too-deep"),
        (b'{"process":"a","seq":1.0}', "bad-field"),
        (b'{"process":"a","seq":true}', "bad-field"),
        (b'{"process":"a","seq":"1"}', "bad-field"),
        (b'{"process":"a","time":1.5}', "bad-field"),
        (b'{"process":"a","time":"noon"}', "bad-field"),
        (b'{"process":"a","seq":1,"arrival":[]}', "bad-field"),
        (b'{"process":7,"seq":1}', "bad-field"),
        (b'{"process":"","seq":1}', "bad-field"),
        (b'{"process":"a","seq":1,"name":{}}', "bad-field"),
        (b'{"process":"a","seq":1,"attributes":[]}', "bad-field"),
        (b'{"process":"a","seq":1,"line":"l\\u0000"}', "bad-field"),
        (b'{"process":"a","seq":1,"line":"l","line":"m"}', "duplicate-key"),
        (b'{"process":"a","seq":1,"line":"l","line":7}', "duplicate-key"),
        (b'{"process":"a","seq":1,"line":7,"line":"l"}', "duplicate-key"),
        (b'{"process":"a","seq":1,"line":7,"attributes":{"line":8}}', "duplicate-key"),
        (b'{"process":"a","seq":1,"line":"l","line_parent":7}', "bad-field"),
        (b'{"process":"a","seq":1,"line":"l","line_parent":""}', "bad-field"),
        (b'{"process":"a","seq":1,"line_parent":"k"}', "bad-field"),
        (b'{"process":"a","seq":1,"line":7,"line_parent":"k"}', "bad-field"),
        (b'{"process":"a","seq":1,"line":"l","line_phase":"start"}', "bad-field"),
        (b'{"process":"a","seq":1,"line":"l","line_phase":7}', "bad-field"),
        (b'{"process":"a","seq":1,"line_phase":"first"}', "bad-field"),
        (b'{"process":"a","seq":1,"line_joins":7}', "bad-field"),
        (b'{"process":"a","seq":1,"line_joins":["l",null]}', "bad-field"),
        (b'{"process":"a","seq":1,"line_joins":["l",[]]}', "bad-field"),
        (b'{"process":"a","seq":1,"kind":"send","message":""}', "bad-field"),
        (b'{"process":"a","seq":1,"kind":"send","message":["m"]}', "bad-field"),
        (b'{"process":"a","seq":1,"kind":"receive","message":["m",null]}', "bad-field"),
        (b'{"process":"a","seq":1,"kind":"send","message":"m","sends":"n"}', "bad-field"),
        (b'{"process":"a","seq":1,"kind":"sent"}', "bad-kind"),
        (b'{"process":"a","seq":1,"kind":"local","message":"m"}', "bad-kind"),
        (b'{"process":"a","seq":1,"kind":"local","receives":"m"}', "bad-kind"),
        (b'{"process":"a","seq":1,"message":"m"}', "no-kind"),
        (b'{"process":"a","seq":1,"kind":"send"}', "no-message"),
        (b'{"process":"a","seq":1,"kind":"receive","message":[]}', "no-message"),
        (b'{"seq":1}', "no-process"),
        (b'{"process":"a"}', "no-order"),
        (b"{}", "no-process"),
        (b'{"process":"a","seq":1,"stamp":3}', "bad-stamp"),
        (b'{"process":"a","seq":1,"stamp":{"clock":"sundial"}}', "bad-stamp"),
        (b'{"process":"a","seq":1,"sends":"m","stamp":{"clock":"lamport","time":-1,"process":"a"}}', "bad-stamp"),
        (b'{"process":"a","seq":1,"stamp":{"clock":"vector","counters":{"b":1}}}', "bad-stamp"),
    ],
    ids=repr,
)  # fmt: skip
def test_a_bad_line_is_kept_with_its_reason_and_its_neighbours_are_read(
    source: JsonLines, line: bytes, code: str | None
) -> None:
    """A line that vanished, or took the rest of the file with it, would be a hole that nobody sees."""
    good = b'{"process":"a","seq":1}\n'
    found = rows(source, good + line + b"\n" + good + line)
    expected = [None, None] if code is None else [None, code, None, code]
    assert [row.get("reason", "").partition(":")[0] or None for row in found] == expected
    places = [1, 3] if code is None else [1, 2, 3, 4]
    assert [row["place"] for row in found] == places
    for row in found:
        if "reason" in row:
            assert row["text"] == line.decode("utf-8", "backslashreplace")[:2000]


@BOTH
def test_what_is_unusual_but_right_is_taken(source: JsonLines) -> None:
    """Strictness that refused valid JSON would quarantine good reports."""
    line = (
        '\ufeff { "proc\\u0065ss" : "\\ud83d\\ude00" , "seq":-9223372036854775808, "x": 1E2, "name":"\\t\\u00e9" }\r\n'
    )
    assert rows(source, line) == [
        {"computation": "", "process": "😀", "seq": -(2**63), "kind": "local", "name": "\té", "attributes": '{"x":1E2}'}
        | {"file": "sample", "place": 1}
    ]


@BOTH
@pytest.mark.parametrize(
    ("fields", "line", "attributes"),
    [
        ({"line": "job 1"}, "job 1", None),
        ({"line": "job 1", "trace_id": "t"}, "job 1", {"trace_id": "t"}),
        ({"line": 42, "x": 1}, None, {"line": 42, "x": 1}),
        ({"line": ""}, None, {"line": ""}),
        ({"line": None}, None, {"line": None}),
        ({"line": 42, "trace_id": "t"}, "t", {"line": 42, "trace_id": "t"}),
        ({"trace_id": "t", "span_id": "s", "request_id": "r"}, "t/s", ...),
        ({"traceId": "t", "spanId": "s"}, "t/s", ...),
        ({"trace.id": "t", "span.id": "s"}, "t/s", ...),
        ({"trace.id": "c", "traceId": "b", "trace_id": "a"}, "a", ...),
        ({"trace_id": 7, "traceId": "b"}, "b", ...),
        ({"trace_id": 't\n"', "span_id": "\ts"}, 't\n"/\ts', ...),
        ({"span_id": "s"}, None, ...),
        ({"span_id": "s", "request_id": "r"}, "r", ...),
        ({"requestId": "r"}, "r", ...),
        ({"request_id": "0"}, "0", ...),
        ({"request_id": 7}, None, ...),
        ({"trace_id": "0" * 32, "span_id": "0" * 16}, None, ...),
        ({"trace_id": "0" * 32, "request_id": "r"}, "r", ...),
        ({"trace_id": "t", "span_id": "0" * 16}, "t", ...),
        ({"trace_id": "", "request_id": ""}, None, ...),
        ({"trace_id": "t", "thread_id": "7"}, "t", ...),
    ],
    ids=repr,
)
def test_a_record_is_of_the_line_that_it_or_its_ids_name(
    source: JsonLines, fields: dict[str, Any], line: str | None, attributes: Any
) -> None:
    """Requests that one process serves at the same time would be told as one after the other; no id may be lost by that."""
    other = {"process": "a", "seq": 2, "line": "other"}
    found, next_one = rows(source, "\n".join(map(json.dumps, [{"process": "a", "seq": 1, **fields}, other])))
    assert found.get("line") == line
    assert json.loads(found.get("attributes", "null")) == (fields if attributes is ... else attributes)
    assert (next_one["line"], "attributes" in next_one) == ("other", False)


@BOTH
def test_lines_are_started_and_joined(source: JsonLines) -> None:
    """Without it, what a task did would be in no order with what started it and what waited for it."""
    given_ = [
        {"process": "a", "seq": 1, "line": "task", "line_parent": "main", "line_phase": "first"},
        {"process": "a", "seq": 2, "line": "main", "line_joins": ["task", "other"], "line_parent": None},
        {"process": "a", "seq": 3, "line_joins": "main"},
        {"process": "a", "seq": 4, "line_joins": []},
    ]
    found = rows(source, "\n".join(map(json.dumps, given_)))
    named = [
        [row.get(name) for name in ("line", "line_parent", "line_phase", "line_joins", "attributes")] for row in found
    ]
    assert named == [
        ["task", "main", "first", None, None],
        ["main", None, None, ["task", "other"], None],
        [None, None, None, ["main"], None],
        [None, None, None, None, None],
    ]


@BOTH
def test_events_with_vector_stamps_follow_each_other_whatever_trace_they_are_of(source: JsonLines) -> None:
    """The clock counts all events of its process: two lines of it would take back an order that the stamps prove."""
    stamp = {"clock": "vector", "counters": {"a": 1}}
    given_ = [{"process": "a", "stamp": stamp, "trace_id": "t"}, {"process": "a", "stamp": stamp, "line": "l"}]
    assert [row.get("line") for row in rows(source, "\n".join(map(json.dumps, given_)))] == [None, "l"]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
STAMPS = st.sampled_from(
    [
        {"clock": "vector", "counters": {"a": 1, "b": 2}},
        {"clock": "vector", "counters": {"b": 2}},
        {"clock": "lamport", "time": 3, "process": "a"},
        {"clock": "bounded", "process": "a", "r": 5, "c": 0, "kn": [1, 0]},
        {"clock": "vector"},
    ]
)
TIMES = st.datetimes().map(lambda moment: moment.isoformat() + "+01:00") | st.integers(-(2**64), 2**64)
KEYS = st.text(max_size=3) | st.integers() | st.lists(st.text(max_size=2) | st.integers(0, 9), max_size=3)
LINES = st.sampled_from(["l", "a/b", 'q"\n', "0", "000", "01", "", "é", None, 7])
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "computation": st.sampled_from(["", "c", None]) | JSON_VALUES,
        "process": st.sampled_from(["a", "b", "ä"]),
        "seq": st.integers(0, 9) | JSON_VALUES,
        "time": TIMES | JSON_VALUES,
        "arrival": TIMES,
        "kind": st.sampled_from(["local", "send", "receive", "x", None]),
        "message": KEYS,
        "sends": KEYS,
        "receives": KEYS,
        "id": KEYS,
        "name": JSON_VALUES,
        "stamp": STAMPS | JSON_VALUES,
        "attributes": JSON_VALUES,
        "x": JSON_VALUES,
        "y\t": JSON_VALUES,
    },
)
OF_LINES = st.fixed_dictionaries(
    {"process": st.just("a"), "seq": st.just(1)},
    optional={
        "line": LINES | JSON_VALUES,
        "line_parent": LINES,
        "line_phase": st.just("first") | LINES,
        "line_joins": LINES | st.lists(LINES, max_size=2),
        **dict.fromkeys((*TRACE_IDS, *SPAN_IDS, *REQUEST_IDS), LINES),
        "name": st.just("n"),
        "x": JSON_VALUES,
    },
)
"""Records in which little else is wrong than what they say of lines."""
SPELLINGS = st.fixed_dictionaries({"ensure_ascii": st.booleans(), "indent": st.none()}) | st.just(
    {"separators": (",", ":"), "ensure_ascii": False}
)


def spelled(record: dict[str, Any], spelling: dict[str, Any]) -> bytes:
    return json.dumps(record, **spelling).encode("utf-8", "surrogatepass")


def test_what_a_line_quarantined_held_does_not_reach_its_neighbours() -> None:
    """The scanner learns late that a stamp is bad, when the line's texts are written; they must not become another's."""
    bad = '{"process":"b","seq":1,"name":"bad","x":2,"stamp":{"clock":"lamport","time":-1,"process":"b"}}\n'
    found = rows(COMPILED, '{"process":"a","seq":1,"x":1}\n' + bad + '{"process":"c","seq":1,"name":"good","x":3}\n')
    assert [row.get("attributes") for row in found] == ['{"x":1}', None, '{"x":3}']
    assert [row.get("name") for row in found] == [None, None, "good"]


@settings(max_examples=400)
@given(st.lists(st.builds(spelled, RECORDS | OF_LINES, SPELLINGS), max_size=8), st.sampled_from(["ns", "ms", "ticks"]))
def test_compiled_or_not_a_record_gives_the_same_row(records: list[bytes], unit: str) -> None:
    """The scanner is used for large files only: a difference would show in production and in no small test."""
    data = b"\n".join(records)
    plain = table(JsonLines(unit=unit, compiled_from_bytes=1 << 60), data)
    assert table(JsonLines(unit=unit, compiled_from_bytes=0), data).equals(plain)
    assert plain.num_rows == len(records)


@settings(max_examples=400)
@given(st.data())
def test_compiled_or_not_garbled_bytes_give_the_same_rows(data: st.DataObject) -> None:
    """As above, for what no JSON writer would write."""
    sample = (SAMPLES / "shop.jsonl").read_bytes()
    start = data.draw(st.integers(0, len(sample)))
    stop = data.draw(st.integers(start, min(len(sample), start + 30)))
    hard = [
        b'"',
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\n",
        b"\r",
        b"-",
        b"0",
        b".",
        b"e9",
        b"\xff",
        b"\0",
        b"null",
    ]
    put = data.draw(st.lists(st.sampled_from(hard) | st.binary(max_size=3), max_size=4).map(b"".join))
    garbled = sample[:start] + put + sample[stop:]
    assert table(COMPILED, garbled).equals(table(PLAIN, garbled))


@BOTH
def test_simulated_reports_come_back_as_they_were(source: JsonLines, tmp_path: Path) -> None:
    """A simulation is a source like any other only if what it writes is what is read."""
    reports, _ = simulate(closest(5, eps=10, delta=10, rate=0.1, messages=300), seed=1)
    path = tmp_path / "sim.jsonl"
    write_json_lines(path, reports)
    found = rows(source, path.read_bytes())
    assert [row["process"] for row in found] == [f"p{process}" for process in reports.process.tolist()]
    for column, given_values in (("seq", reports.seq), ("time", reports.r), ("arrival", reports.arrival)):
        assert [row[column] for row in found] == given_values.tolist()
    assert [row["sends"] for row in found] == [f"{row['process']}-{row['seq']}" for row in found]
    assert all("reason" not in row and json.loads(row["stamp"])["clock"] == "bounded" for row in found)


@BOTH
def test_a_line_without_end_is_quarantined_without_being_held(source: JsonLines) -> None:
    """A file without line ends, a binary say, must not fill the memory, nor hide the lines after it."""
    good = b'{"process":"a","seq":1}\n'
    huge = b"x" * (lines.LINE_LIMIT_BYTES + 1)
    for end in (b"\n", b"\n" + good):
        found = rows(source, good + huge + end + good)
        assert [row.get("reason", "").partition(":")[0] for row in found][:3] == ["", "line-too-long", ""]
        assert found[1]["text"] == "x" * 2000
        assert found[-1]["place"] == 2 + end.count(b"\n")
    held = max(len(block.data) for block in lines.blocks(_endless(200 << 20)))
    assert held <= lines.BLOCK_BYTES


def _endless(size: int) -> Any:
    from ledto.sources import FileSlice

    class Endless:
        left = size

        def read(self, wanted: int) -> bytes:
            given_bytes = b"x" * min(wanted, self.left)
            self.left -= len(given_bytes)
            return given_bytes

        def close(self) -> None:
            pass

    return FileSlice("endless", lambda offset: Endless())


def test_rows_do_not_depend_on_the_cut_where_clocks_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Causes are told from the clock before; a task that begins amid a file must know it, and memory must stay bounded."""
    monkeypatch.setattr(json_lines, "CELL_BYTES", 300)
    sample = "".join(
        json.dumps({"process": p, "stamp": {"clock": "vector", "counters": {p: n, "z": n // 3 + 1}}}) + "\n"
        for n in range(1, 12)
        for p in ("a", "b")
    )
    whole = table(PLAIN, sample)
    assert 6 < sum(cause is not None for cause in whole["receives"].to_pylist()) < 22
    for cut in range(0, len(sample) + 1, 7):
        both = table(PLAIN, sample, stop=cut).to_pylist() + table(PLAIN, sample, start=cut).to_pylist()
        assert both == whole.to_pylist()


@BOTH
def test_stamps_beside_messages_name_no_causes_of_their_own(source: JsonLines) -> None:
    """The failure is often a local event: taken for a receive of what nobody sent, it would be quarantined."""
    stamps = ({"a": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 2})
    fields = (
        {"process": "a", "seq": 1, "kind": "send", "message": "m"},
        {"process": "b", "seq": 1, "kind": "receive", "message": "m"},
        {"process": "b", "seq": 2, "name": "ERROR"},
    )
    lines = [
        json.dumps({**each, "stamp": {"clock": "vector", "counters": counters}})
        for each, counters in zip(fields, stamps, strict=True)
    ]
    found = table(source, "\n".join(lines)).to_pylist()
    assert [(row["kind"], row["receives"], row["reason"]) for row in found] == [
        ("send", None, None),
        ("receive", "m", None),
        ("local", None, None),
    ]
