"""Any log of JSON lines through a mapping: what its fields become, what is quarantined, and what a mapping may not say."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ledto.causality.channel_tables import match_table
from ledto.sources import SourceError, check_source
from ledto.sources.mapping.file import read_mapping, shipped_mappings
from ledto.sources.mapping.reading import RecordsChunk
from ledto.sources.mapping.source import Mapped
from ledto.sources.mapping.values import read_parts
from ledto.sources.regex import javascript
from ledto.sources.regex import timed as timed_regex
from tests.sources.hard_lines import hard_files
from tests.sources.reading import SAMPLES, piece, rows, table

LEAST = 'process = "p"\ntime = "t"\n'
MILLISECOND = 1_000_000


def mapped(folder: Path, mapping: str, *, unit: str = "ns", exact: bool = False) -> Mapped:
    """A source whose mapping is gone once it is made: it must not be read again."""
    file = folder / "mapping.toml"
    file.write_text(mapping)
    source = Mapped(str(file), unit=unit, exact=exact)
    file.unlink()
    return source


def one(folder: Path, mapping: str, record: dict[str, Any] | str, *, unit: str = "ns") -> dict[str, Any]:
    text = record if isinstance(record, str) else json.dumps(record)
    (row,) = rows(mapped(folder, mapping, unit=unit), text)
    return {name: value for name, value in row.items() if name not in ("computation", "file", "place") or value}


def test_a_trace_of_system_calls_is_read_without_a_mapping_of_ones_own() -> None:
    """Threads, connections and bytes become causes: this is what a Falcon trace is for."""
    found = rows(Mapped("falcon"), (SAMPLES / "threads.log").read_bytes())
    told = [
        (row["place"], row.get("process"), row.get("kind"), row.get("sends"), row.get("receives"), row.get("name"))
        for row in found
    ]
    assert told[:3] == [
        (1, "10@oven", "send", "span create 11@oven", None, "creates 11@oven"),
        (2, "11@oven", "receive", None, "span create 11@oven", "starts"),
        (3, "11@oven", "send", "span connect 10.1.0.2:5001>10.1.0.3:80", None, "connects to 10.1.0.3:80"),
    ]
    assert told[5] == (6, "7@shelf", "receive", None, "span connect 10.1.0.2:5001>10.1.0.3:80", "accepts 10.1.0.2:5001")
    assert [(row.get("channel_key"), row.get("channel_bytes")) for row in (*found[3:5], *found[6:8], found[11])] == [
        ("10.1.0.2:5001>10.1.0.3:80", 30),
        ("10.1.0.2:5001>10.1.0.3:80", 12),
        ("10.1.0.2:5001>10.1.0.3:80", 8),
        ("10.1.0.2:5001>10.1.0.3:80", 34),
        ("udp 10.9.9.9:53>10.1.0.3:6000 20", None),
    ]
    assert (found[8]["name"], found[8]["kind"], found[8]["clock_name"]) == ("no bread left", "local", "shelf")
    assert found[8]["time"] == 1_714_564_799_993 * MILLISECOND
    assert found[8]["attributes"] == '{"type":"LOG","data":{"level":"WARN"}}'
    assert (told[12][5], told[12][2], found[12]["attributes"]) == ("FSYNC", "local", '{"fd":4}')
    assert told[13][3:5] == ("span end 11@oven", None)
    assert told[14][3:5] == (None, "span end 11@oven")
    bad = {row["place"]: row["reason"] for row in found if "reason" in row}
    assert [bad[place].partition(":")[0] for place in (10, 11, 16, 17)] == [
        "not-json",
        "not-json",
        "bad-field",
        "missing-field",
    ]
    assert len(bad) == 4
    assert bad[16] == "bad-field: bytes of event 9 (type = SND) is an integer from 0 on, not -1"
    assert bad[17].startswith("missing-field: name of event 9 (type = SND) needs the field dst_port; the record has ")
    assert found[16]["process"] == "10@oven"


def test_bytes_of_the_sample_go_to_the_reads_that_took_them() -> None:
    """Source and matching together: a read of the end of one write and the whole of the next has both as causes."""
    read = table(Mapped("falcon"), (SAMPLES / "threads.log").read_bytes())
    chosen = read.filter(read["channel_key"].is_valid())
    matched = {row["place"]: row for row in match_table(chosen)[0].to_pylist()}
    wrote = [matched[place]["sends"] for place in (4, 5)]
    assert (matched[7]["receives"], matched[7]["receives_more"]) == (wrote[0], None)
    assert (matched[8]["receives"], matched[8]["receives_more"]) == (wrote[0], [wrote[1]])
    assert matched[12]["receives"] == "span in channel udp 10.9.9.9:53>10.1.0.3:6000 20"


@pytest.mark.parametrize("name", shipped_mappings())
def test_mapped_logs_keep_what_a_source_promises(name: str) -> None:
    """Whatever the bytes, wherever the cut: no exception, nothing dropped, the same rows."""
    assert check_source(Mapped(name), (SAMPLES / "threads.log").read_bytes(), mutations=100) > 200


EVERYTHING = """
process = "who.names.0"
clock = { from = "{host}", optional = true }
computation = { text = "run 7" }
time = { from = "at", unit = "s" }
seq = { from = "n", optional = true }
id = { from = '"odd.key"', optional = true }
name = "{op}: {who.level}{{{flag}}}"
type = "op"

[[event]]
when = "beat"
skip = "heartbeats"

[[event]]
when = { type = ["put", "get"], peer = { present = true } }
sends = { from = "m", match = "^m(.*)" }
receives = ["last", { from = "list", optional = true }]
kind = "receive"

[[event]]
when = { type = { match = "^log" }, level = 3 }
name = "text"

[default]
name = "op"
"""


def test_every_way_of_saying_where_a_value_is(tmp_path: Path) -> None:
    """Paths, arrays, odd keys, templates, constants, expressions: what users' logs need, each with its exact result."""
    record = {"who": {"names": ["a"], "level": 1.5}, "at": 1.25, "op": "put", "peer": 0, "m": "m42", "last": 7}
    record |= {"list": ["x", 8], "odd.key": "e1", "flag": True, "n": "12", "host": "h", "rest": [1]}
    assert one(tmp_path, EVERYTHING, record) == {
        "process": "a",
        "clock_name": "h",
        "computation": "run 7",
        "time": 1_250_000_000,
        "seq": 12,
        "id": "e1",
        "name": "put: 1.5{true}",
        "kind": "receive",
        "sends": "42",
        "receives": "7",
        "receives_more": ["x", "8"],
        "attributes": '{"who":{"names": ["a"], "level": 1.5},"op":"put","peer":0,"m":"m42","flag":true,"rest":[1]}',
        "place": 1,
        "file": "sample",
    }
    local = {"who": {"names": ["a"]}, "at": "2024-05-01T12:00:00Z", "op": "put"}
    found = one(tmp_path, EVERYTHING, local, unit="ms")
    assert (found["kind"], found["name"], found["time"]) == ("local", "put", 1_714_564_800_000)
    assert one(tmp_path, EVERYTHING, local | {"op": "beat"})["reason"] == "skipped: heartbeats (event 1 (type = beat))"
    logged = local | {"op": "logged", "level": 3, "text": "hello"}
    assert one(tmp_path, EVERYTHING, logged)["name"] == "hello"
    assert one(tmp_path, EVERYTHING, logged | {"level": True})["name"] == "logged"


@pytest.mark.parametrize(
    ("given_time", "unit", "expected"),
    [
        (1714564800123, "ms", 1_714_564_800_123_000_000),
        (1714564800.123, "s", 1_714_564_800_123_000_000),
        ("1714564800123456", "us", 1_714_564_800_123_456_000),
        ("1714564800.5", "s", 1_714_564_800_500_000_000),
        (-0.0000000015, "s", -2),
        ("2024-05-01T14:00:00.25+02:00", "ms", 1_714_564_800_250_000_000),
        (2**62, "s", "bad-field"),
        (True, "s", "bad-field"),
        ("soon", "s", "bad-field"),
        ([1], "s", "bad-field"),
        (None, "s", "missing-field"),
    ],
)
def test_times_are_the_same_moments_in_any_unit(tmp_path: Path, given_time: Any, unit: str, expected: Any) -> None:
    """Logs count in what they like; a second taken for a nanosecond is another day."""
    mapping = f'process = "p"\ntime = {{ from = "t", unit = "{unit}" }}\n'
    found = one(tmp_path, mapping, {"p": "a", "t": given_time})
    assert found["reason"].partition(":")[0] == expected if isinstance(expected, str) else found["time"] == expected


@pytest.mark.parametrize(
    ("mapping", "complaint"),
    [
        (
            "proces = 'p'",
            "proces is not known here; known are process, line, line_parent, line_joins, clock, computation, time, seq",
        ),
        ("process = 'p'", "default has neither time nor seq"),
        ("time = 't'", "default has no process"),
        ("process = 1", "process is a field or a template in quotes, or a table of from, text, match, optional"),
        ("process = {from = 'p', unit = 's'}", "process, unit is not known here"),
        ("process = {from = 'p', text = 'p'}", "process has either from"),
        ("process = {from = 'p', match = '('}", "process.match is no regular expression"),
        ("process = {from = 'p', match = '(.)(.)'}", "process.match is a regular expression with at most one group"),
        ("process = {from = 'p', optional = 1}", "process.optional is true or false"),
        ("process = 'a..b'", "'a..b' is no field"),
        ("process = '{a'", "has a single brace"),
        ("time = {from = 't', unit = 'h'}", "time.unit is one of ns, us, ms, s, tick, auto, not 'h'"),
        (LEAST + "event = 1", r"event is written \[\[event\]\]"),
        (LEAST + "default = 1", r"default is a table, written \[default\]"),
        (LEAST + "[[event]]\nkind = 'local'", "event 1 has no when"),
        (LEAST + "[[event]]\nwhen = 'x'", "event 1, when gives a type, but nothing says which field is the type"),
        (LEAST + "[[event]]\nwhen = {}", "event 1, when is empty"),
        (LEAST + "[[event]]\nwhen = {a = []}", "event 1, when.a is text, a number, true or false"),
        (LEAST + "[[event]]\nwhen = {a = {matches = 'x'}}", "event 1, when.a is a value, a list of values"),
        (LEAST + "[[event]]\nwhen = {a = 1}\nwhat = 1", "event 1, what is not known here; known are when, process"),
        (LEAST + "[default]\nwhen = {a = 1}", "default, when is not known here"),
        (LEAST + "[default]\nkind = 'sent'", "default, kind is one of local, send, receive, not 'sent'"),
        (LEAST + "[default]\nkind = 'send'", "default is a send: say what it sends"),
        (LEAST + "[default]\nkind = 'receive'", "default is a receive: say what it receives"),
        (LEAST + "[default]\nkind = 'local'\nsends = 'm'", "default, kind is local"),
        (LEAST + "[default]\nchannel = 'c'", "default, kind must say which end of the channel"),
        (LEAST + "[default]\nkind = 'send'\nchannel = 'c'\nsends = 'm'", "default, channel replaces sends"),
        (LEAST + "[default]\nbytes = 'b'", "default, bytes counts the bytes"),
        (LEAST + "[default]\nskip = ''", "default, skip is the reason why"),
        (LEAST + "[default]\nskip = 'x'\nname = 'y'", "default, name means nothing beside skip"),
        ("process = ", "is not valid TOML"),
    ],
)
def test_a_mapping_that_is_wrong_is_refused_with_the_place(mapping: str, complaint: str) -> None:
    """A key passed over in silence is a log read in another way than its owner thinks."""
    with pytest.raises(SourceError, match=rf"^the mapping my\.toml:? .*{complaint}"):
        read_mapping(mapping.encode(), "my.toml")


def test_a_mapping_that_is_not_there_is_told_what_there_is(tmp_path: Path) -> None:
    """The name of a shipped mapping and a path are given in one place; a slip in either is told so."""
    with pytest.raises(SourceError, match=r"the mapping flacon cannot be read: No such file.*or one of .*falcon"):
        Mapped("flacon")
    with pytest.raises(SourceError, match="has times in ms, which cannot be converted to tick"):
        Mapped("falcon", unit="tick")
    with pytest.raises(SourceError, match="the unit is one of ns, us, ms, s, tick, not 'h'"):
        Mapped("falcon", unit="h")
    assert Mapped("falcon").has_channels
    source = mapped(tmp_path, LEAST)
    assert not source.has_channels
    assert rows(pickle.loads(pickle.dumps(source)), '{"p":"a","t":1}')[0]["time"] == 1


NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
GOOD = {"who": {"names": ["a"], "level": 2}, "at": 5, "op": "put", "peer": 1, "m": "m1", "last": "k", "flag": False}
KEYS = st.sampled_from([*GOOD, "list", "odd.key", "n", "host", "text"]) | st.text(max_size=3)
ODD = st.dictionaries(KEYS, JSON, max_size=4)
RECORDS = st.builds(lambda good, odd: good | odd, st.sampled_from([GOOD, GOOD | {"op": "other"}, {}]), ODD)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Mapped:
    return mapped(tmp_path_factory.mktemp("mapping"), EVERYTHING)


@given(st.lists(RECORDS, max_size=4))
@example([GOOD | {"last": []}])
@settings(max_examples=300)
def test_records_of_any_shape_give_a_row_each(everything: Mapped, records: list[dict[str, Any]]) -> None:
    """A log has fields of other types than its mapping says; each such record is quarantined, and none is lost."""
    lines = [json.dumps(record) for record in records]
    found = rows(everything, "\n".join(lines))
    assert len(found) == len(records)
    for record, line, row in zip(records, lines, found, strict=True):
        if "reason" in row:
            assert row["text"] == line[:2_000]
            continue
        kept = json.loads(row.get("attributes", "{}"))
        assert all(record[name] == value for name, value in kept.items())
        assert record.keys() - kept.keys() <= {"at", "n", "odd.key", "host", "last", "list", "op"}
        is_message = record["op"] == "put" and record.get("peer") is not None
        # The mapping says the kind, also of a record whose list of received messages is empty.
        assert row["kind"] == ("receive" if is_message else "local")


NAMES = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters='"{}\0'), min_size=1, max_size=4)


@given(st.lists(NAMES, min_size=1, max_size=3), st.text(st.characters(blacklist_categories=["Cs"]), max_size=5))
@settings(max_examples=200)
def test_any_field_and_any_text_can_be_spelled(keys: list[str], literal: str) -> None:
    """Keys with dots and spaces, text with braces: nothing that a log has is out of a mapping's reach."""
    path = ".".join(f'"{key}"' for key in keys)
    doubled = literal.replace("{", "{{").replace("}", "}}")
    *before, field = read_parts(f"{doubled}{{{path}}}")
    assert before == ([literal] if literal else [])
    assert not isinstance(field, str)
    assert field.keys == tuple(keys)
    value: Any = "found"
    for key in reversed(keys[1:]):
        value = {key: value}
    assert field.value({keys[0]: (value, "", "")}) == "found"


@pytest.mark.parametrize(
    ("line", "fields", "expected"),
    [
        ('"thread"', {"thread": "main"}, "main"),
        ('"thread"', {"thread": 17}, "17"),
        ('"{ctx.trace}/{thread}"', {"ctx": {"trace": "t"}, "thread": 17}, "t/17"),
        ('{ from = "req", optional = true }', {"req": "r"}, "r"),
        ('{ from = "req", optional = true }', {"req": None}, None),
        ('{ from = "req", optional = true }', {}, None),
        ('"req"', {"req": ""}, None),
        ('"req"', {}, "missing-field"),
        ('"req"', {"req": []}, "bad-field"),
    ],
)
@pytest.mark.parametrize("where", ["", "[default]\n"], ids=["of all records", "of a rule"])
def test_a_mapping_names_the_line_of_a_record(
    tmp_path: Path, where: str, line: str, fields: dict[str, Any], expected: str | None
) -> None:
    """A server's threads and requests would be told as one after the other; by what tells them apart one searches, too."""
    mapping = f'process = "p"\ntime = "t"\n{where}line = {line}\n'
    record = {"p": "a", "t": 1, **fields}
    found = one(tmp_path, mapping, record)
    if "reason" in found:
        assert found["reason"].partition(":")[0] == expected
        return
    assert found.get("line") == expected
    assert json.loads(found.get("attributes", "{}")) == fields
    (exact,) = rows(mapped(tmp_path, mapping, exact=True), json.dumps(record))
    assert exact.get("line") == expected


def test_one_rule_for_all_records_tells_sends_from_receives(tmp_path: Path) -> None:
    """A log with one field for each side needs one rule; its sends must not be shown as receives."""
    mapping = """
process = "p"
seq = "q"
[default]
sends = { from = "out", optional = true }
receives = { from = "in", optional = true }
"""
    lines = [{"p": "a", "q": 1, "out": "m"}, {"p": "b", "q": 1, "in": "m"}, {"p": "b", "q": 2}]
    lines.append({"p": "b", "q": 3, "in": "n", "out": "m2"})
    for exact in (False, True):
        made = rows(mapped(tmp_path, mapping, exact=exact), "\n".join(map(json.dumps, lines)))
        assert [row["kind"] for row in made] == ["send", "receive", "local", "receive"]


ALL_SORTS = """
process = "p"
line = { from = "{l}", optional = true }
clock = { from = "p", match = "@(.+)$", optional = true }
time = { from = "t", unit = "ms", optional = true }
seq = { from = "q", optional = true }
computation = { from = "c", optional = true }
name = "{k} of 100%"
id = { from = "i", optional = true }

[[event]]
when = { k = ["send", 7], "call.kind" = { present = false } }
sends = { from = "{p}>{m}", optional = true }

[[event]]
when = { "call.kind" = ["in", true, 5] }
receives = ["call.id", { from = "m", optional = true }]
name = { text = "taken %s" }

[[event]]
when = { k = { match = "^r" } }
kind = "receive"
channel = { from = "{p}-{m}", optional = true }
bytes = "q"

[[event]]
when = { k = "no" }
skip = "not wanted"
"""
KEYS = ("p", "t", "q", "c", "k", "i", "m", "l", "call")
USUAL = ('""', '"send"', '"r"', "7", '"x@y"', "5", "1.5", '"2024-05-01T12:00:00.25Z"', '{"kind":"in","id":5}', "null")


@pytest.mark.parametrize("unit", ["ns", "s"])
@settings(max_examples=300)
@given(data=hard_files(KEYS, USUAL))
def test_quick_reading_gives_the_rows_of_exact_reading(unit: str, data: bytes, tmp_path_factory: Any) -> None:
    """Otherwise a record would mean one thing among its like, and another beside an odd one."""
    folder = tmp_path_factory.mktemp("mapping")
    quick, exact = (mapped(folder, ALL_SORTS, unit=unit, exact=exact) for exact in (False, True))
    assert rows(quick, data) == rows(exact, data)


def test_usual_records_are_all_read_quickly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick reading that leaves everything would be right, and slow."""
    source = mapped(tmp_path, ALL_SORTS)
    text = "".join(
        json.dumps(
            {
                "p": f"{n}@h",
                "l": n,
                "t": time,
                "k": kind,
                "m": n,
                "q": n,
                "call": call,
                "text": 'a "b": é',
                "n": {"a": [1.50]},
            }
        )
        + "\n"
        for n, time in enumerate((5, 1.5, "2024-05-01T12:00:00Z", "2024-05-01T12:00:00.5", "7"))
        for kind in ("send", "r", "other", 7)
        for call in (None, {"kind": "in", "id": n}, {"kind": "in", "id": ["a", n]})
    )
    expected = rows(mapped(tmp_path, ALL_SORTS, exact=True), text)
    assert not any("reason" in row for row in expected)

    def refuse(*_: object) -> None:
        raise AssertionError("a usual record was left to the exact reader")

    monkeypatch.setattr(RecordsChunk, "exact", refuse)
    assert rows(source, text) == expected
    monkeypatch.undo()
    parted = [row for batch in source.read(piece(text.encode() * 400, file="sample")) for row in batch.to_pylist()]
    assert [row["place"] for row in parted] == list(range(1, 400 * 60 + 1))
    assert [
        {name: value for name, value in row.items() if value is not None} | {"place": 1} for row in parted[-60:]
    ] == [row | {"place": 1} for row in expected]


SLOW = r"^(\w|\w\w)*!$"


@pytest.mark.parametrize(
    "mapping",
    [
        LEAST + f"name = {{ from = 'm', match = '{SLOW.replace('(', '(?:')}', optional = true }}",
        LEAST + f"[[event]]\nwhen = {{ m = {{ match = '{SLOW}' }} }}\nname = 'm'",
    ],
)
def test_a_record_for_which_an_expression_takes_too_long_is_quarantined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mapping: str
) -> None:
    """Without a limit, one line of one file would keep observe busy for years; with many, the mapping is to blame."""
    monkeypatch.setattr(javascript, "LINE_SECONDS", 0.05)
    texts = ["one!", "1" * 60 + " !", "two!", "1" * 60 + " !"]
    log = [json.dumps({"p": "a", "t": number, "m": text}) for number, text in enumerate(texts)]
    source = mapped(tmp_path, mapping)
    found = rows(pickle.loads(pickle.dumps(source)), "\n".join(log))
    assert [row.get("reason", "")[:9] for row in found] == ["", "too-slow:", "", "too-slow:"]
    assert [row.get("name") for row in found if "reason" not in row] == ["one!", "two!"]
    slow = ("1" * number + " !" for number in range(60, 60 + timed_regex.MOST_SLOW_TEXTS))
    log += [json.dumps({"p": "a", "t": 9, "m": text}) for text in slow]
    with pytest.raises(SourceError, match=r"w\)\*!\$' of the mapping takes more than 0.05 s for a text, the 5th time"):
        rows(source, "\n".join(log))


PIECES = (
    *(
        r"\w+",
        "(a*)",
        "(?P<x>a|ab)",
        "(?:a|b)+?",
        "[^b]",
        "[[ab]",
        r"\b",
        "^",
        "$",
        "(?=b)",
        "(?<!b)",
        "{e}",
        "{",
        "a{1,2}",
    ),
    *(
        ".*",
        r"\S*",
        r"\s",
        "(b)?",
        "|",
        "[a-b&&b]",
        "é",
        r"\d",
        "[[:alpha:]]",
        "(?i)",
        "É",
        "ß",
        r"\Z",
        "(?x) # {",
        "\n",
    ),
)


@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")
@settings(max_examples=500)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=5), st.text("aAbß1 {e}\n[éÉ:\u0130\u017f", max_size=20))
def test_expressions_of_mappings_find_what_those_of_python_find(pieces: list[str], text: str) -> None:
    """They are run by another package, so that they can be stopped, and must mean what Python's documentation says."""
    expression = "".join(pieces)
    try:
        usual = re.compile(expression)
    except re.error:
        with pytest.raises(ValueError, match=r".+"):
            timed_regex.compile_timed(expression)
        return
    timed, found = timed_regex.compile_timed(expression), usual.search(text)
    assert timed.groups == usual.groups
    assert timed.occurs_in(text) == (found is not None)
    assert timed.extract(text) == (None if found is None else found[1 if usual.groups else 0])
