"""Logs of text as sources: rows by a mapping, by ledto's own names, by usual names; whatever is around the lines."""

from __future__ import annotations

import csv
import io
import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.sources import SourceError, check_source, source
from ledto.sources.conformance import checked_rows, piece_of
from ledto.sources.files import InputFile
from ledto.sources.inputs import find_inputs
from ledto.sources.mapping.file import read_mapping
from ledto.sources.mapping.source import (
    CsvTable,
    JournaldLog,
    JsonLog,
    LogfmtLog,
    Mapped,
    PlainLog,
    RegexLog,
    SyslogLog,
    TsvTable,
)
from ledto.sources.native.lines import JsonLines
from ledto.sources.registry import recognise
from ledto.sources.zipkin.source import Zipkin
from tests.sources.reading import rows

SECOND = 1_000_000_000
NOON = 1_714_564_800 * SECOND
"""2024-05-01T12:00:00Z."""

CSV = b"""process,seq,time,kind,message,name,note
shop,1,2024-05-01T12:00:00Z,send,m1,"order ""7""
placed",1.50
stock,1,2024-05-01T12:00:01Z,receive,m1,none left,007
"never closed,1
too,few
"""
LOGFMT = b"""time=2024-05-01T12:00:00Z service=pay host=h1 level=error msg="card \\"7\\" declined" tries=2
time=2024-05-01T12:00:01Z service=pay host=h1 msg=retry
plain text
time=yesterday service=pay
"""
SYSLOG = b"""<131>1 2024-05-01T12:00:00Z shop pay 7 - [call@1 id="7"] card declined
<34>May  1 12:00:00 shop pay[7]: card declined
May  1 12:00:00 shop kernel: out of memory
no syslog
"""
JOURNAL = b"".join(
    json.dumps(entry).encode() + b"\n"
    for entry in (
        {
            "__REALTIME_TIMESTAMP": "1714564800000000",
            "_HOSTNAME": "h",
            "_SYSTEMD_UNIT": "pay.service",
            "MESSAGE": [104, 105],
            "PRIORITY": "3",
        },
        {"__REALTIME_TIMESTAMP": "1714564800000001", "_HOSTNAME": "h", "SYSLOG_IDENTIFIER": "cron", "MESSAGE": "x"},
        {"MESSAGE": "when?"},
    )
)
EXPORT = (
    b"__REALTIME_TIMESTAMP=1714564800000000\n_HOSTNAME=h\n_SYSTEMD_UNIT=pay.service\nMESSAGE\n"
    + struct.pack("<Q", 4)
    + b"a\n\nb\nPRIORITY=3\n\n__REALTIME_TIMESTAMP=1714564800000001\n_HOSTNAME=h\nMESSAGE=x\n\n"
)
CRI = b"""2024-05-01T12:00:00.5Z stdout P {"level":"error","msg":"card
2024-05-01T12:00:00.6Z stderr F {"service":"pay","ts":1714564801,"msg":"late"}
2024-05-01T12:00:00.7Z stdout F  declined"}
2024-05-01T12:00:01Z stdout F not JSON
"""
DOCKER = b"""{"log":"ERROR card declined\\n","stream":"stderr","time":"2024-05-01T12:00:00.5Z"}
{"log":"half a ","stream":"stdout","time":"2024-05-01T12:00:01Z"}
{"log":"line\\n","stream":"stdout","time":"2024-05-01T12:00:02Z"}
"""
JAVA = b"""started
2024-05-01 12:00:00,500 ERROR [main] pay.Cards: declined
java.lang.IllegalStateException: no money
\tat pay.Cards.charge(Cards.java:7)
2024-05-01 12:00:01,000 INFO [main] pay.Cards: next
"""
STAMPED = b"".join(
    b'{"process":"%b","stamp":{"clock":"vector","counters":%b}}\n' % (process, counters)
    for process, counters in ((b"a", b'{"a":1}'), (b"b", b'{"a":1,"b":1}'), (b"b", b'{"a":1,"b":2}'))
)
PATTERN = r"(?<time>\S+ \S+) (?<level>[A-Z]+) \[(?<thread>[^\]]+)\] (?<logger>\S+): (?<message>.*)"


@pytest.mark.parametrize(
    ("reader", "sample"),
    [
        (CsvTable(), CSV),
        (TsvTable(), CSV.replace(b",", b"\t")),
        (LogfmtLog(), LOGFMT),
        (SyslogLog(year=2024), SYSLOG),
        (JournaldLog(), JOURNAL),
        (JournaldLog(), EXPORT),
        (JsonLog(), CRI),
        (PlainLog(), DOCKER),
        (RegexLog(regex=PATTERN), JAVA),
        (JsonLog(), b'{"ts":1714564800.5,"service":"pay","msg":"x"}\n{"ts":null}\n'),
        (JsonLog(), STAMPED),
    ],
)
def test_text_logs_keep_what_a_source_promises(reader: Mapped, sample: bytes) -> None:
    """Whatever the bytes, wherever the cut: no exception, nothing dropped, the same rows."""
    assert check_source(reader, sample, mutations=60) > 60
    for cut in range(0, len(sample), 37):
        whole = checked_rows(reader, piece_of(sample), "whole").to_pylist()
        parts = [
            row
            for start, stop in ((0, cut), (cut, None))
            for row in checked_rows(reader, piece_of(sample, start=start, stop=stop), "cut").to_pylist()
        ]
        assert parts == whole, cut


def test_lines_say_who_when_and_how_bad() -> None:
    """What each format calls the process, the time and the severity, without a mapping."""

    def told(reader: Mapped, data: bytes, *names: str, file: str = "shop.log") -> list[tuple[Any, ...]]:
        return [tuple(row.get(name) for name in names) for row in rows(reader, data, file=file)]

    who = ("process", "clock_name", "time", "name", "error")
    assert told(LogfmtLog(), LOGFMT, *who)[:2] == [
        ("pay@h1", None, NOON, 'card "7" declined', True),
        ("pay@h1", None, NOON + SECOND, "retry", None),
    ]
    assert told(SyslogLog(year=2024), SYSLOG, *who)[:3] == [
        ("shop/pay", "shop", NOON, "card declined", True),
        ("shop/pay", "shop", NOON, "card declined", True),
        ("shop/kernel", "shop", NOON, "out of memory", None),
    ]
    assert told(SyslogLog(year=2024, zone="Europe/Berlin"), SYSLOG, "time")[:2] == [(NOON,), (NOON - 7_200 * SECOND,)]
    assert told(JournaldLog(), JOURNAL, *who)[:2] == [
        ("h/pay.service", "h", NOON, "hi", True),
        ("h/cron", "h", NOON + 1_000, "x", None),
    ]
    assert told(JournaldLog(), EXPORT, "process", "name", "error") == [
        ("h/pay.service", "a\n\nb", True),
        ("h", "x", None),
    ]
    path = "/var/log/pods/shop_pay-7f_0f6e9f2c/app/0.log"
    assert told(JsonLog(), CRI, *who, file=path)[:2] == [
        ("shop/pay-7f/app", None, NOON + SECOND, "late", None),
        ("shop/pay-7f/app", None, NOON + SECOND // 2, "card declined", True),
    ]
    docker = f"/var/lib/docker/containers/{'ab' * 32}/{'ab' * 32}-json.log"
    assert told(PlainLog(), DOCKER, *who, file=docker) == [
        ("abababababab", None, NOON + SECOND // 2, "ERROR card declined", True),
        ("abababababab", None, NOON + SECOND, "half a line", None),
    ]
    assert told(RegexLog(regex=PATTERN), JAVA, "process", "time", "name", "error")[1] == (
        "shop",
        NOON + SECOND // 2,
        "declined",
        True,
    )
    (_, stack, _) = rows(RegexLog(regex=PATTERN), JAVA)
    assert "Cards.java:7" in stack["attributes"]


@pytest.mark.parametrize("who", ['"logger":"gw.http"', '"name":"gw"', '"host":"h1"', '"service":"gw","hostname":"h1"'])
def test_two_programs_never_become_one_process(who: str) -> None:
    """Two pods with one logger were one process: what one did was told as a recorded cause of a failure in the other."""
    record = b'{"ts":1714564800.1,%b,"msg":"x"}\n' % who.encode()
    pods = (f"/var/log/pods/shop_gw-{pod}_0f6e/gw/0.log" for pod in "ab")
    found = [rows(JsonLog(), b"2024-05-01T12:00:00.1Z stdout F " + record, file=pod)[0]["process"] for pod in pods]
    assert found == ["shop/gw-a/gw", "shop/gw-b/gw"]
    if "service" not in who:
        assert recognise(record, ".log") == "json"
        assert len({rows(JsonLog(), record, file=file)[0]["process"] for file in ("gw.log", "stock.log")}) == 2


@pytest.mark.parametrize("form", ["json", "logfmt"])
@pytest.mark.parametrize("exact", [False, True])
def test_plain_lines_between_records_of_a_container_are_events(form: str, exact: bool) -> None:
    """A Go panic was quarantined without process and time, or turned the whole file into plain text."""
    record = {"json": '{"ts":1714564800,"msg":"order %d"}', "logfmt": "ts=1714564800 level=info msg=order%d"}[form]
    plain = ["panic: no cards", "goroutine 1 [running]:", "main.main()"]
    told = [*plain[:2], record % 1, plain[2], '{"ts":17145', record % 2, record % 3, record % 4, record % 5]
    lines = [f"2024-05-01T12:00:{second:02}Z stderr F {line}\n" for second, line in enumerate(told, start=1)]
    data = "".join([*lines, "not wrapped\n"]).encode()
    assert recognise(data, ".log") == form
    reader = source(form, {"exact": exact})
    found = rows(reader, data, file="/var/log/pods/shop_pay-7f_0f6e/app/0.log")
    assert {row["process"] for row in found} == {"shop/pay-7f/app"}
    events = {row["place"]: row for row in found if "reason" not in row}
    said = {"json": "order %d", "logfmt": "order%d"}[form]
    wanted = {1: plain[0], 2: plain[1], 4: plain[2]}
    assert {place: row["name"] for place, row in events.items()} == {
        **wanted,
        **{place: said % number for place, number in ((3, 1), (6, 2), (7, 3), (8, 4), (9, 5))},
    }
    assert {place: events[place]["time"] for place in wanted} == {place: NOON + place * SECOND for place in wanted}
    # What begins like an object is a damaged record. It is known to be missing in its process, from its time on.
    bad = [(row["place"], row.get("time"), row["text"]) for row in found if "reason" in row]
    assert bad == [(5, NOON + 5 * SECOND, '{"ts":17145'), (10, None, "not wrapped")]
    assert check_source(reader, data, mutations=40) > 40


@pytest.mark.parametrize("form", ["json", "logfmt"])
def test_plain_lines_between_ledtos_own_records_are_events(form: str) -> None:
    """A program that writes its reports to its output dies with a panic there."""
    record = {"json": '{"process":"pay","seq":%d}', "logfmt": "process=pay seq=%d"}[form]
    damaged = {"json": '{"process":', "logfmt": '{process="pay'}[form]
    told = [record % 1, "panic: no cards", record % 2, damaged, record % 3, record % 4, record % 5]
    data = "".join(f"2024-05-01T12:00:{at:02}Z stderr F {line}\n" for at, line in enumerate(told)).encode()
    reader = source(form, {})
    found = rows(reader, data, file="/var/log/pods/shop_pay-7f_0f6e/app/0.log")
    assert [row.get("text") for row in found] == [None, None, None, damaged, None, None, None]
    assert [(row["process"], row["time"], row["name"]) for row in found if "name" in row] == [
        ("shop/pay-7f/app", NOON + SECOND, "panic: no cards")
    ]
    assert [row.get("seq") for row in found] == [1, None, 2, None, 3, 4, 5]
    assert check_source(reader, data, mutations=40) > 40


def test_stack_traces_of_containers_are_parts_of_their_event() -> None:
    """Each line of a trace was an event, so that the failure stood among hundreds of causes of the next one."""
    told = (
        ("stderr", "java.lang.IllegalStateException: no money"),
        ("stderr", "\tat pay.Cards.charge(Cards.java:7)"),
        ("stdout", "  INFO next order"),
        ("stderr", "Caused by: java.io.IOException: reset"),
        ("stderr", "\t... 3 more"),
        ("stdout", " WARN slow"),
        ("stderr", "done"),
    )
    cri = "".join(f"2024-05-01T12:00:00.{at}Z {stream} F {text}\n" for at, (stream, text) in enumerate(told))
    docker = "".join(
        json.dumps({"log": text + "\n", "stream": stream, "time": f"2024-05-01T12:00:00.{at}Z"}, separators=(",", ":"))
        + "\n"
        for at, (stream, text) in enumerate(told)
    )
    for wrapped in (cri, docker):
        found = sorted(rows(PlainLog(), wrapped, file="app.log"), key=lambda row: row["place"])
        assert [(row["place"], row["name"]) for row in found] == [(at + 1, told[at][1]) for at in (0, 2, 5, 6)]
        continued = [json.loads(row["attributes"]).get("continuation") for row in found]
        assert continued == ["\n".join(told[at][1] for at in (1, 3, 4)), None, None, None]
        assert check_source(PlainLog(), wrapped.encode(), mutations=40) > 40


FIELDS: dict[str, Any] = {
    "process": st.sampled_from(["shop", "pay", "42"]),
    "seq": st.integers(1, 9),
    "time": st.sampled_from(["2024-05-01T12:00:00Z", 7, "no time"]),
    "kind": st.sampled_from(["send", "receive", "local", "odd"]),
    "message": st.sampled_from(["m1", "7", ["a", "b"]]),
    "line": st.sampled_from(["order 7", "7"]),
    "line_parent": st.just("main"),
    "name": st.text('ab," \n{[', min_size=1, max_size=5) | st.just("5"),
    "attributes": st.just({"a": [1, {"b": 2.50}]}),
    "stamp": st.just({"clock": "vector", "counters": {"shop": 1, "pay": 2}}),
    "trace_id": st.just("77"),
    "amount": st.sampled_from([1, 1.5, True, "007", "1e5", "-"]),
}


OPTIONAL = {name: values for name, values in FIELDS.items() if name != "process"}


@settings(max_examples=200)
@given(
    records=st.lists(st.fixed_dictionaries({"process": FIELDS["process"]}, optional=OPTIONAL), min_size=1, max_size=6)
)
def test_a_table_with_ledtos_columns_means_what_json_lines_mean(records: list[dict[str, Any]]) -> None:
    """A spreadsheet of events needs no mapping, and has no meaning of its own."""

    def cell(value: Any) -> str:
        return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))

    text = io.StringIO()
    writer = csv.DictWriter(text, list(FIELDS), lineterminator="\n")
    writer.writeheader()
    writer.writerows([{name: cell(value) for name, value in record.items()} for record in records])
    # The order of the columns is that of the header, and so is that of attributes.
    ordered = [{name: record[name] for name in FIELDS if name in record} for record in records]
    lines = "".join(json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n" for record in ordered)
    dropped = ("place", "text")
    expected = [{name: value for name, value in row.items() if name not in dropped} for row in rows(JsonLines(), lines)]
    found = [
        {name: value for name, value in row.items() if name not in dropped} for row in rows(CsvTable(), text.getvalue())
    ]
    # A cell has no type: a message of digits and a number of it are the same text.
    assert found == expected


MAPPING = """
process = { from = ["{s}@{h}", "s", "@file"] }
time = { from = ["t", "u"], unit = "auto" }
name = { from = "n", optional = true }
line = { from = ["{r}/{q}", "r"], optional = true }
severity = { from = "l", optional = true }

[[event]]
when = { k = [5, true, "x"] }
sends = { from = "to {n}", repeated = true }

[[event.also]]
name = "again {n}"
line = "q"
line_parent = "r"
line_joins = { from = ["n", "q"], optional = true }

[[event]]
when = { k = "07" }
receives = { from = "to {n}", repeated = true }

[[event]]
when = { k = { match = "^9" } }

[event.span]
trace = "r"
span = "q"
parent = "n"
process = "s"
start = { from = "t", unit = "ms" }
duration = "u"
kind = "l"
status = "k"
"""
VALUES = st.sampled_from(
    ["", "5", "true", "x", "07", "9", "1714564800", "2024-05-01T12:00:00.25Z", "error", "a b", "é", "1.50", "\0", "500"]
)


@settings(max_examples=300)
@given(
    records=st.lists(st.dictionaries(st.sampled_from("shtunrqlk"), VALUES, min_size=1), max_size=6), spans=st.booleans()
)
@pytest.mark.parametrize("form", ["csv", "json"])
def test_quick_reading_of_text_gives_the_rows_of_exact_reading(
    form: str, records: list[dict[str, str]], spans: bool, tmp_path_factory: Any
) -> None:
    """Otherwise a record would mean one thing among its like, and another beside an odd one."""
    file = tmp_path_factory.mktemp("mapping") / "mapping.toml"
    file.write_text(MAPPING if spans else MAPPING.partition("[[event]]\nwhen = { k = { match")[0])
    text = io.StringIO()
    if form == "csv":
        writer = csv.DictWriter(text, list("shtunrqlk"), lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
    else:
        text.writelines(json.dumps(record) + "\n" for record in records)
    made = {"csv": CsvTable, "json": JsonLog}[form]
    quick, exact = (made(str(file), exact=exact) for exact in (False, True))
    assert rows(quick, text.getvalue()) == rows(exact, text.getvalue())


TRACE = """
format = "csv"
name = "operation"

[span]
trace = "trace"
span = "span"
parent = "parent"
service = "service"
start = { from = "start", unit = "us" }
duration = { from = "took", unit = "us" }
kind = "kind"
status = "status"
ids = "hex"
"""


def test_a_trace_in_a_table_gives_the_rows_of_a_trace(tmp_path: Path) -> None:
    """Lines, parents and answers are those of the formats of traces: the same questions have the same answers."""
    spans = [
        ("7f", "1", "", "shop", "POST /order", 1_714_564_800_000_000, 90_000, "SERVER"),
        ("7F", "2", "1", "shop", "charge", 1_714_564_800_010_000, 70_000, "CLIENT"),
        ("7f", "3", "2", "pay", "POST /charge", 1_714_564_800_020_000, 50_000, "SERVER"),
        ("7f", "4", "3", "pay", "audit", 1_714_564_800_030_000, "", "PRODUCER"),
        ("7f", "5", "5", "audit", "write", 1_714_564_800_040_000, 5, ""),
    ]
    table = "trace,span,parent,service,operation,start,took,kind\n" + "".join(
        ",".join(map(str, span)) + "\n" for span in spans
    )
    zipkin = [
        {
            "traceId": trace,
            "id": span,
            **({"parentId": parent} if parent else {}),
            **({"kind": kind} if kind else {}),
            "name": name,
            "timestamp": start,
            **({"duration": took} if took else {}),
            "localEndpoint": {"serviceName": service},
        }
        for trace, span, parent, service, name, start, took, kind in spans
    ]
    mapping = tmp_path / "trace.toml"
    mapping.write_text(TRACE.replace('status = "status"\n', ""))
    found, expected = rows(Mapped(str(mapping)), table), rows(Zipkin(), json.dumps(zipkin))
    for row in (*found, *expected):
        del row["place"]
    for row in found:
        # The duration stays an attribute.
        kept = {name: value for name, value in json.loads(row.pop("attributes", "{}")).items() if name != "took"}
        row.update({"attributes": json.dumps(kept)} if kept else {})
    assert found == expected
    assert len(found) == 9


def test_a_span_says_whether_it_failed_and_what_is_wrong_with_it(tmp_path: Path) -> None:
    """A status of HTTP is a failure of a client earlier than of a server; ids, times and processes are needed."""
    mapping = tmp_path / "trace.toml"
    mapping.write_text(TRACE)
    head = "trace,span,parent,service,operation,start,took,kind,status\n"
    cases = {
        "7f,1,,s,a,1,2,server,404": None,
        "7f,1,,s,a,1,2,client,404": True,
        "7f,1,,s,a,1,2,,error": True,
        "7f,1,,s,a,1,2,,OK": False,
        "7f,1,,s,a,1,-2,,": "bad-field: the duration of span is negative",
        "7f,x1,,s,a,1,2,,": "bad-field: id has up to 16 hexadecimal digits",
        ",1,,s,a,1,2,,": "missing-field: trace of a span needs the field trace",
        "7f,1,,,a,1,2,,": "missing-field: service of a span needs the field service",
        "7f,1,,s,a,,2,,": "missing-field: start of a span needs the field start",
        "7f,1,,s,a,1,2,odd,": "bad-kind",
    }
    for line, expected in cases.items():
        *_, last = rows(Mapped(str(mapping)), head + line + "\n")
        if isinstance(expected, str):
            assert last["reason"].startswith(expected), line
        else:
            assert last.get("error") is expected, line


def test_one_record_can_be_several_events(tmp_path: Path) -> None:
    """A line that tells of a request and its answer is two events, on two lines if it says so."""
    mapping = tmp_path / "m.toml"
    mapping.write_text(
        'process = "svc"\ntime = "start"\nname = "begin"\nid = "id"\n[default]\nline = "call"\nsends = "call"\n'
        '[[default.also]]\ntime = "end"\nname = { text = "end" }\nline = "call"\n'
        '[[default.also]]\nprocess = "peer"\nreceives = "call"\nname = { text = "seen" }\n'
    )
    data = '{"svc":"a","peer":"b","call":"c1","start":1,"end":5,"begin":"asks","id":"x"}\n'
    told = [
        (
            row["process"],
            row["time"],
            row["name"],
            row.get("line"),
            row.get("sends"),
            row.get("receives"),
            row.get("id"),
        )
        for row in rows(Mapped(str(mapping)), data)
    ]
    assert told == [
        ("a", 1, "asks", "c1", "c1", None, "x"),
        ("a", 5, "end", "c1", None, None, None),
        ("b", 1, "seen", "c1", None, "c1", None),
    ]
    assert rows(Mapped(str(mapping)), data.replace('"end":5,', ""))[0]["reason"].startswith(
        "missing-field: time of default, also 1"
    )
    assert not Mapped(str(mapping)).has_channels


LEAST = 'process = "p"\ntime = "t"\n'


@pytest.mark.parametrize(
    ("mapping", "complaint"),
    [
        ("format = 'cvs'", "format is one of journald, json, syslog, logfmt, tsv, csv, regex, text, not 'cvs'"),
        (LEAST + "pattern = 'x'", "pattern is not known here"),
        (LEAST + "format = 'regex'\npattern = '('", "the pattern is no regular expression"),
        (LEAST + "zone = 'Mars/Olympus'", "zone is a time zone, as Europe/Berlin"),
        ("process = 'p'\ntime = {from = 't', format = '%H'}", "time '%H' needs a year"),
        ("process = 'p'\ntime = {from = []}", "time is text, not"),
        (LEAST + "[default]\nsends = {from = 'm', repeated = 1}", "sends.repeated is true or false"),
        (
            LEAST + "[[event]]\nwhen = {a = 1}\nsends = {from = 'm', repeated = true}\n[default]\nreceives = 'm'",
            "repeated stands at both ends",
        ),
        (LEAST + "[default]\nline_parent = 'x'", "line_parent is the line that started this one"),
        (LEAST + "[default]\nalso = 1", r"default, also is written \[\[default.also\]\]"),
        (LEAST + "[[default.also]]\nskip = 'x'", "default, also 1, skip is not known here"),
        (LEAST + "[span]\ntrace = 't'", "span has no span: say which field it is"),
        ("[span]\ntrace = 't'\nspan = 's'\nstart = 'b'", "span has neither service nor process"),
        (
            LEAST + "[span]\ntrace = 't'\nspan = 's'\nstart = 'b'\nend = 'e'\nduration = 'd'",
            "duration and end say the same",
        ),
        (LEAST + "[span]\ntrace = 't'\nspan = 's'\nstart = 'b'\nids = 'dec'", "ids is hex or text"),
        (LEAST + "[default]\nname = 'n'\n[span]\ntrace = 't'", "span is for the records that no rule fits"),
    ],
)
def test_a_mapping_that_is_wrong_is_refused_with_the_place(mapping: str, complaint: str) -> None:
    """A key passed over in silence is a log read in another way than its owner thinks."""
    with pytest.raises(SourceError, match=rf"^the mapping my\.toml:? .*{complaint}"):
        read_mapping(mapping.encode(), "my.toml")


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (CSV.splitlines(keepends=True)[0] + b"a,1,2,local,,x,\n", "csv"),
        (b"process\ttime\na\t5\n", "tsv"),
        (b"ts;service;msg\n2024-05-01 12:00:00;pay;x\n", "csv"),
        (b"a,b\n1,2\n", None),
        (LOGFMT.splitlines(keepends=True)[0], "logfmt"),
        (b"a=1 b=2\n", None),
        (SYSLOG.splitlines(keepends=True)[0], "syslog"),
        (SYSLOG.splitlines(keepends=True)[1], "syslog"),
        (SYSLOG.splitlines(keepends=True)[2], "syslog"),
        (JOURNAL.splitlines(keepends=True)[0], "journald"),
        (EXPORT, "journald"),
        (b"".join(CRI.splitlines(keepends=True)[:3]), "json"),
        (DOCKER, "text"),
        (b"2024-05-01T12:00:00Z stdout F time=2024-05-01T12:00:00Z service=pay a=b\n", "logfmt"),
        (b'{"ts":1714564800.5,"service":"pay","msg":"x"}\n', "json"),
        (b'{"ts":"x","service":"pay"}\n', None),
        (b'{"@timestamp":"2024-05-01T12:00:00Z","service":{"name":"pay"}}\n', "json"),
        (JAVA, None),
        (b"2024-05-01 12:00:00,250 ERROR pay.Cards: declined\n", None),
        (b"2024-05-01T12:00:00Z [warn] pay: declined\n", None),
    ],
)
def test_text_formats_are_known_by_their_first_bytes(head: bytes, expected: str | None) -> None:
    """Logs that can be read without a mapping need no option; others are not guessed."""
    assert recognise(head, ".log") == expected


def test_what_is_assumed_is_said_and_a_file_says_its_year(tmp_path: Path) -> None:
    """A user must see which fields were taken for what, and of which year a line without one is."""
    log, syslog = tmp_path / "pay.log", tmp_path / "sys.log"
    log.write_bytes(LOGFMT.splitlines(keepends=True)[0])
    syslog.write_bytes(b"Dec 31 23:59:59 shop pay[7]: x\n")
    inputs = find_inputs([str(log), str(syslog)])
    assert inputs.formats == ("logfmt", "syslog")
    assert any('process = { from = ["{service}@{host}"' in note and "pay.log" in note for note in inputs.notes)
    assert any(
        "lines without a year are taken as of the last year before the file was written" in note
        for note in inputs.notes
    )
    file = InputFile(str(syslog), str(syslog), 31, modified_ns=NOON)
    (batch,) = SyslogLog().read(file.piece())
    assert json.loads(batch["attributes"][0].as_py())["assumed_year"] == 2023
    with pytest.raises(SourceError, match="is for the format tsv, not for csv; leave out --format"):
        find_inputs([str(log)], format="csv", options={"mapping": str(_toml(tmp_path, 'format = "tsv"\n' + LEAST))})
    odd = tmp_path / "odd.csv"
    odd.write_text("who;when\npay;5\n")
    mapping = str(_toml(tmp_path, 'process = "who"\ntime = "when"\n'))
    assert find_inputs([str(odd)], options={"mapping": mapping}).formats == ("csv",)
    assert find_inputs([str(odd)], options={"mapping": mapping, "delimiter": ";"}).formats == ("csv",)
    java = tmp_path / "java.log"
    java.write_bytes(JAVA)
    assert find_inputs([str(java)], options={"regex": PATTERN}).formats == ("regex",)
    clocked = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"
    assert find_inputs([str(java)], options={"regex": clocked}).formats == ("shiviz",)
    with pytest.raises(SourceError, match="--zone is a time zone"):
        source("syslog", {"zone": "Nowhere"})


def _toml(folder: Path, text: str) -> Path:
    file = folder / "x.toml"
    file.write_text(text)
    return file
