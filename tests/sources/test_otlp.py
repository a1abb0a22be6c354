"""OpenTelemetry: what spans and log records mean, in every shape of file, and what becomes of bad ones."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from ledto.events.keys import ANSWER
from ledto.sources import check_source
from ledto.sources.otlp import Otlp
from tests.sources.otlp_requests import (
    EXACT,
    NOON_NS,
    QUICK,
    SPAN,
    TRACE,
    attributes,
    lines,
    log,
    message,
    of_logs,
    of_spans,
    span,
    varint,
    with_lengths,
)
from tests.sources.reading import SAMPLES, rows, table

BOTH = pytest.mark.parametrize("source", [EXACT, QUICK], ids=["exact", "quick"])


class Anywhere(Otlp):
    """The same source where lines mean nothing."""

    records = "anywhere"


@BOTH
def test_the_sample_means_what_its_author_meant(source: Otlp) -> None:
    """Every field of spans and logs that the page names, written out by hand."""
    stock, shop = {"process": "stock"}, {"process": "shop@pod-1"}
    order, take, served = "00f067aa0ba902b7", "00f067aa0ba902b8", "00f067aa0ba902b9"
    at = {"computation": "", "file": "sample"}

    def of(key: str, parent: str | None = None, phase: str | None = None) -> dict[str, str]:
        started = {} if parent is None else {"line_parent": f"{TRACE}/{parent}"}
        return {"line": f"{TRACE}/{key}"} | started | ({} if phase is None else {"line_phase": phase})

    assert rows(source, (SAMPLES / "otlp.jsonl").read_bytes()) == [
        at | shop | {"time": NOON_NS, "kind": "receive", "sends": f"span {TRACE}/{order}", "id": f"{order}/start"}
        | {"name": "POST /order starts", "attributes": '{"span.kind":"server"}', "place": 1}
        | of(order, phase="start"),
        at | shop | {"time": NOON_NS + 100_000_000, "kind": "local", "name": "priced", "id": f"{order}/1"}
        | of(order) | {"attributes": '{"currency":"€"}', "place": 1},
        at | shop | {"time": NOON_NS + 900_000_000, "kind": "send", "id": order, "name": "POST /order ends", "place": 1}
        | {"attributes": '{"order":7,"total":12.5,"service.version":"2.1"}'}
        | {"receives": f"{ANSWER}{TRACE}/{order}"} | of(order, phase="end") | {"line_since": NOON_NS},
        at | shop | {"time": NOON_NS + 200_000_000, "kind": "send", "sends": f"span {TRACE}/{take}", "id": f"{take}/start"}
        | {"name": "take starts", "attributes": '{"span.kind":"client"}', "place": 1}
        | {"receives": f"span {TRACE}/{order}"} | of(take, order, "start"),
        at | shop | {"time": NOON_NS + 800_000_000, "kind": "receive", "id": take, "name": "take fails", "place": 1}
        | {"attributes": '{"otel.status_description":"said \\"none left\\"","service.version":"2.1"}'}
        | {"sends": f"{ANSWER}{TRACE}/{order}", "receives": f"{ANSWER}{TRACE}/{take}"} | of(take, phase="end")
        | {"line_since": NOON_NS + 200_000_000, "error": True},
        at | stock | {"time": NOON_NS - 10**9, "kind": "receive", "sends": f"span {TRACE}/{served}"}
        | {"receives": f"span {TRACE}/{take}", "receives_more": [f"span {TRACE[:-1]}d/00f067aa0ba902c0"]}
        | {"id": f"{served}/start", "name": "take starts", "place": 2, "attributes": '{"span.kind":"server"}'}
        | of(served, take, "start"),
        {"computation": "", "process": "stock", "file": "sample", "place": 2}
        | {"reason": 'bad-id: traceId has 32 hex digits, not "00"'}
        | {"text": '{"traceId":"00","spanId":"00f067aa0ba902ba","name":"bad id","startTimeUnixNano":"5"}'},
        {"computation": "", "file": "sample", "place": 4, "text": "this line is no request"}
        | {"reason": "not-json: at byte 0: expected '{', found 'this line is no requ'; the rest of the line is not read"},
        at | {"process": "unknown_service", "time": NOON_NS - 500_000_000, "kind": "local", "name": "none left", "place": 5}
        | {"attributes": '{"severity":"ERROR","body":"none left\\nat stock.py:7"}', "error": True} | of(served, served),
        {"computation": "", "process": "unknown_service", "time": NOON_NS - 400_000_000, "kind": "local", "place": 5}
        | {"name": '{"left":0}', "attributes": '{"severity":"Notice"}', "file": "sample"},
        {"computation": "", "process": "unknown_service", "file": "sample", "place": 5}
        | {"reason": "no-time: a log record needs timeUnixNano or observedTimeUnixNano"}
        | {"text": '{"body":{"stringValue":"never"}}'},
    ]  # fmt: skip


@BOTH
@pytest.mark.parametrize(
    ("record", "code"),
    [
        (span(traceId=...), "bad-id"),
        (span(traceId="0" * 32), "bad-id"),
        (span(traceId=TRACE[1:]), "bad-id"),
        (span(traceId="g" + TRACE[1:]), "bad-id"),
        (span(traceId=7), "bad-id"),
        (span(spanId=""), "bad-id"),
        (span(spanId="0" * 16), "bad-id"),
        (span(spanId=SPAN + "00"), "bad-id"),
        (span(parentSpanId="abc"), "bad-id"),
        (span(links=[{"traceId": TRACE}]), "bad-id"),
        (span(startTimeUnixNano=...), "no-time"),
        (span(startTimeUnixNano="0"), "no-time"),
        (span(events=[{"name": "when?"}]), "no-time"),
        (span(startTimeUnixNano="noon"), "bad-field"),
        (span(startTimeUnixNano=1.5), "bad-field"),
        (span(startTimeUnixNano=-5), "number-out-of-range"),
        (span(startTimeUnixNano="9223372036854775808"), "number-out-of-range"),
        (span(endTimeUnixNano=10**30), "number-out-of-range"),
        (span(kind=6), "bad-field"),
        (span(kind="SPAN_KIND_GUEST"), "bad-field"),
        (span(kind=True), "bad-field"),
        (span(status={"code": 3}), "bad-field"),
        (span(status=[]), "bad-field"),
        (span(name=7), "bad-field"),
        (span(name="a\0b"), "bad-field"),
        (span(trace_id=TRACE), "duplicate-key"),
        (span(attributes={}), "bad-field"),
        (span(attributes=[7]), "bad-field"),
        (span(attributes=[{"key": "a", "value": 7}]), "bad-field"),
        (span(attributes=[{"key": 7}]), "bad-field"),
        (span(attributes=[{"key": "a", "value": {"intValue": "x"}}]), "bad-field"),
        (span(attributes=[{"key": "a", "value": {"intValue": "9223372036854775808"}}]), "number-out-of-range"),
        (span(attributes=[{"key": "a", "value": {"boolValue": "yes"}}]), "bad-field"),
        (span(attributes=[{"key": "a", "value": {"stringValue": "x", "intValue": 1}}]), "bad-field"),
        (span(droppedLinksCount=-1), "number-out-of-range"),
        ("span", "bad-field"),
        (None, "bad-field"),
    ],
    ids=repr,
)
def test_a_bad_span_is_quarantined_with_its_reason_and_its_neighbours_are_not(
    source: Otlp, record: Any, code: str
) -> None:
    """A wrong id, time or type must cost the one span that has it, and say so."""
    data = lines(of_spans(span(), record, span(), resource={"attributes": attributes(service__name="shop")}))
    found = rows(source, data)
    assert [row.get("reason", "good").partition(":")[0] for row in found] == ["good", "good", code, "good", "good"]
    assert found[2]["text"] == json.dumps(record, separators=(",", ":"))
    assert found[2]["process"] == "shop"


@BOTH
@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b'{"traceId":"a","traceId":"b"}', "duplicate-key"),
        (b'{"name":NaN}', "not-json"),
        (b'{"name":"\xff"}', "not-utf8"),
        (b'{"name":"\\ud800"}', "not-utf8"),
        (b'{"x":' + b"[" * 70 + b"]" * 70 + b"}", "too-deep"),
        (b'{"x":1e999}', "number-out-of-range"),
        (b'{"x":1,}', "not-json"),
    ],
    ids=repr,
)
def test_what_other_readers_would_read_in_another_way_is_refused(source: Otlp, raw: bytes, code: str) -> None:
    """One reader's last value and another's first must not become two histories of one file."""
    data = lines(of_spans(span(), "HERE", span())).replace(b'"HERE"', raw)
    assert [row.get("reason", "good").partition(":")[0] for row in rows(source, data)] == ["good"] * 2 + [code] + [
        "good"
    ] * 2


@BOTH
@pytest.mark.parametrize(
    ("values", "process"),
    [
        ({}, "unknown_service"),
        ({"service__name": ""}, "unknown_service"),
        ({"service__name": "shop"}, "shop"),
        ({"service__name": "shop", "service__instance__id": "a", "k8s__pod__name": "b"}, "shop@a"),
        ({"service__name": "shop", "k8s__pod__name": "b", "host__name": "c", "process__pid": 7}, "shop@b/c/pid-7"),
        ({"service__name": "shop", "host__name": "c"}, "shop@c"),
        ({"service__name": "shop", "host__ip": ["10.0.0.2", "10.0.0.1"]}, "shop@10.0.0.1/10.0.0.2"),
        ({"service__name": "shop", "process__pid": 7}, "shop@pid-7"),
        ({"service__instance__id": 7}, "unknown_service@7"),
    ],
)
def test_the_process_is_the_service_and_its_instance(source: Otlp, values: Any, process: str) -> None:
    """Two instances taken for one process would be given an order that nobody observed."""
    resource = {"attributes": attributes(**values)}
    for data in (lines(of_spans(span(), resource=resource)), message(of_spans(span(), resource=resource))):
        assert {row["process"] for row in rows(source, data)} == {process}


@BOTH
def test_records_of_a_resource_that_cannot_be_read_are_quarantined(source: Otlp) -> None:
    """Events must not be given to a process that nobody named."""
    resource = {"attributes": attributes(service__name=["shop"])}
    found = rows(source, lines(of_spans(span(), span(), resource=resource)))
    assert [row["reason"] for row in found] == ['bad-resource: bad-field: service.name is text, not ["shop"]'] * 2


@BOTH
def test_attributes_of_every_kind_become_plain_json(source: Otlp) -> None:
    """A value that changes on its way in cannot be searched for."""
    values = {
        "text": "a\n\"b\" é \u2028", "yes": True, "number": -(2**63), "real": 0.1, "large": 1e300, "whole": 5.0,
        "bytes": b"\0\xff", "list": [1, ["x"], {}], "map": {"k": {"l": [False]}}, "none": "",
    }  # fmt: skip
    request = of_spans(span(attributes=[*attributes(**values), {"key": "null"}]))
    expected = values | {"bytes": "AP8=", "null": None}
    for data in (lines(request), json.dumps(request, indent=1).encode(), message(request)):
        assert json.loads(rows(source, data)[1]["attributes"]) == expected


@BOTH
def test_numbers_names_and_ids_may_be_spelled_in_every_way_of_json(source: Otlp) -> None:
    """Exporters differ: integers as text, enumerations by name, snake_case, ids as base64."""
    plain = of_spans(span(kind=5, parentSpanId=SPAN, status={"code": 2}, attributes=attributes(a=7, b="x")))
    other = {
        "resource_spans": [
            {
                "scope_spans": [
                    {
                        "spans": [
                            {
                                "trace_id": "W47/95gDgQPSabYzgT/GDA==",
                                "span_id": "APBnqgupArc=",
                                "parent_span_id": SPAN.upper(),
                                "name": "work",
                                "kind": "SPAN_KIND_CONSUMER",
                                "start_time_unix_nano": NOON_NS,
                                "end_time_unix_nano": NOON_NS + 10,
                                "status": {"code": "STATUS_CODE_ERROR", "later": [1]},
                                "attributes": [
                                    {"value": {"int_value": 7}, "key": "a"},
                                    {"key": "b", "value": {"string_value": "x"}, "unknown": {}},
                                ],
                                "links": None,
                                "of_the_future": {"x": [None]},
                            }
                        ]
                    }
                ],
                "resource": {"attributes": []},
                "schemaUrl": "",
            }
        ]
    }
    expected = rows(source, lines(plain))
    assert len(expected) == 2
    assert rows(source, lines(other)) == expected


@BOTH
@pytest.mark.parametrize(
    ("record", "name", "kept"),
    [
        (log(), "said", None),
        (log(body={"stringValue": "a" * 200}), "a" * 200, None),
        (log(body={"stringValue": "é" * 201}), "é" * 200, {"body": "é" * 201}),
        (log(body={"stringValue": "one\r\ntwo"}), "one", {"body": "one\r\ntwo"}),
        (log(body={"stringValue": "\n\n one"}), " one", {"body": "\n\n one"}),
        (log(body=..., eventName="login"), "login", None),
        (log(body={"intValue": "5"}, eventName="login"), "login", {"body": 5}),
        (log(eventName="login"), "said", {"event.name": "login"}),
        (log(eventName="said"), "said", None),
        (log(body={"boolValue": False}), "false", None),
        (log(body={"stringValue": ""}), None, None),
        (log(severityNumber=10, severityText=""), "said", {"severity": "INFO2"}),
        (log(severityNumber=10, severityText="note"), "said", {"severity": "note"}),
        (
            log(droppedAttributesCount=3, attributes=attributes(a=1)),
            "said",
            {"a": 1, "otel.dropped_attributes_count": 3},
        ),
        (log(attributes=attributes(severity="mine"), severityNumber=9), "said", {"severity": "mine"}),
    ],
    ids=repr,
)
def test_a_log_record_is_named_by_its_body(source: Otlp, record: Any, name: str | None, kept: Any) -> None:
    """In a list of causes a log line must read as it was written, and lose nothing of it."""
    request = of_logs(record)
    for data in (lines(request), message(request)):
        (found,) = rows(source, data)
        assert found.get("name") == name
        assert json.loads(found.get("attributes", "null")) == kept
        assert (found["kind"], found["computation"], found["time"]) == ("local", "", NOON_NS)


@BOTH
def test_a_log_record_is_of_the_line_of_its_span_or_of_its_trace(source: Otlp) -> None:
    """Requests that one service serves at the same time would be told as one after the other."""
    of_trace, of_span = {"line": TRACE}, {"line": f"{TRACE}/{SPAN}", "line_parent": f"{TRACE}/{SPAN}"}
    for ids, line in (
        ({"traceId": TRACE, "spanId": SPAN}, of_span),
        ({"traceId": TRACE}, of_trace),
        ({"traceId": TRACE, "spanId": "0" * 16}, of_trace),
        ({"spanId": SPAN}, {}),
        ({}, {}),
    ):
        request = of_logs(log(**ids))
        for data in (lines(request), message(request)):
            (found,) = rows(source, data)
            assert found["computation"] == ""
            assert {name: value for name, value in found.items() if name.startswith("line")} == line


@BOTH
def test_a_span_receives_its_parent_once_and_never_itself(source: Otlp) -> None:
    """A span that waits for its own start would be quarantined as a cycle, and a cause named twice counted twice."""
    parent, link = "00f067aa0ba902c7", {"traceId": TRACE, "spanId": "00f067aa0ba902c8"}
    linked = span(parentSpanId=parent, links=[{"traceId": TRACE, "spanId": parent}, link])
    request = of_spans(span(parentSpanId=SPAN), linked)
    for data in (lines(request), message(request)):
        alone, _, start, _ = rows(source, data)
        assert not {"receives", "line_parent"} & {*alone}
        assert (start["receives"], start["receives_more"]) == (
            f"span {TRACE}/{parent}",
            [f"span {TRACE}/{link['spanId']}"],
        )


@BOTH
def test_an_event_of_ledto_itself_comes_back_as_it_was(source: Otlp) -> None:
    """What is exported must give the same relations when it is read again, not those of a span."""
    own = {
        "ledto.process": "shop", "ledto.computation": "run 1", "ledto.seq": 3, "ledto.time": 17,
        "ledto.kind": "receive", "ledto.sends": "m2", "ledto.receives": ["m1", "m0"],
        "ledto.id": "e3", "ledto.name": "got it", "ledto.correction": -5, "order": 7,
        "ledto.line": "job 1", "ledto.line_parent": "job 0", "ledto.line_joins": ["job 2"],
    }  # fmt: skip
    made = attributes(**{key.replace(".", "__"): value for key, value in own.items()})
    expected = {
        "computation": "run 1", "process": "shop", "seq": 3, "time": 17, "kind": "receive", "sends": "m2", "receives": "m1",
        "receives_more": ["m0"], "id": "e3", "name": "got it", "attributes": '{"order":7}', "file": "sample", "place": 1,
        "line": "job 1", "line_parent": "job 0", "line_joins": ["job 2"],
    }  # fmt: skip
    resource = {"attributes": attributes(service__name="exported")}
    for request in (
        of_logs(log(attributes=made), resource=resource),
        of_spans(span(attributes=made), resource=resource),
    ):
        assert rows(source, lines(request)) == [expected]
        (wired,) = rows(source, message(request))
        assert wired | {"place": 1} == expected
    short = attributes(ledto__process="p")
    assert rows(source, lines(of_logs(log(attributes=short))))[0]["time"] == NOON_NS
    assert "time" not in rows(source, lines(of_logs(log(attributes=[*short, *attributes(ledto__seq=1)]))))[0]


@BOTH
def test_a_resource_may_stand_after_its_spans(source: Otlp) -> None:
    """Objects have no order: a process read too late would be another process."""
    named = {"attributes": attributes(service__name="shop")}
    scopes_first = {"scopeSpans": [{"spans": [span()]}], "schemaUrl": "", "resource": named}
    request = {"resourceSpans": [scopes_first, {"scopeSpans": [{"spans": [span()]}]}]}
    inner = message(of_spans(span(), resource=named))
    resource, scopes = _fields(inner[2:])
    reversed_message = b"\x0a" + varint(len(resource + scopes)) + scopes + resource
    for data in (lines(request), json.dumps(request, indent=1).encode()):
        assert [row["process"] for row in rows(source, data)] == ["shop"] * 2 + ["unknown_service"] * 2
    assert [row["process"] for row in rows(source, reversed_message)] == ["shop"] * 2


def _fields(raw: bytes) -> list[bytes]:
    """The parts of a message whose fields all have their length in one byte."""
    parts = []
    while raw:
        parts.append(raw[: 2 + raw[1]])
        raw = raw[2 + raw[1] :]
    return parts


@BOTH
@pytest.mark.parametrize(
    ("request_", "codes"),
    [
        ({}, []),
        ({"resourceSpans": []}, []),
        ({"resourceSpans": None}, []),
        ({"resourceMetrics": [{"a": 1}]}, []),
        ({"a": 1}, ["not-otlp"]),
        ({"result": {}}, []),
        ({"result": {"a": 1}}, ["not-otlp"]),
        ({"result": "ok"}, ["not-otlp"]),
        ({"result": {"trace": {"resourceSpans": []}}}, ["not-otlp"]),
        ({"data": [{"traceID": "1"}]}, ["unknown-field"]),
        ([], ["not-json"]),
        ({"resourceSpans": [{"instrumentationLibrarySpans": [{"spans": []}]}]}, ["legacy"]),
        ({"resourceSpans": [{"scopeSpans": [{"spans": 7}]}]}, ["not-json"]),
    ],
    ids=repr,
)
def test_requests_without_spans(source: Otlp, request_: Any, codes: list[str]) -> None:
    """A file of something else must say so, and metrics among traces must not."""
    found = rows(source, lines(of_spans(span()), request_, of_spans(span())))
    assert [row["reason"].partition(":")[0] for row in found[2:-2]] == codes
    assert all("reason" not in row for row in found[:2] + found[-2:])


ENVELOPES = {
    "Jaeger, API v3": lambda resources: {"result": {"resourceSpans": resources}},
    "Tempo, API v2": lambda resources: {
        "trace": {"resourceSpans": resources},
        "metrics": {"bytes": "7"},
        "message": "",
    },
    "Tempo, API v1": lambda resources: {"batches": resources},
    "both of Tempo": lambda resources: {"status": "COMPLETE", "trace": {"batches": resources}},
}


@BOTH
@pytest.mark.parametrize("envelope", ENVELOPES)
def test_answers_of_trace_stores_are_read_as_the_request_in_them(source: Otlp, envelope: str) -> None:
    """A trace saved from Jaeger or Tempo must not come out empty, nor damage in it cost more than elsewhere."""
    named = [{"attributes": attributes(service__name=name)} for name in "abc"]
    resources = [of_spans(span(), span(traceId="00"), resource=each)["resourceSpans"][0] for each in named]
    resources[0] = dict(reversed(resources[0].items()))
    wrapped = ENVELOPES[envelope](resources)
    expected = table(EXACT, lines({"resourceSpans": resources}) * 2)
    assert expected.num_rows == 18
    assert table(source, lines(wrapped, wrapped)).equals(expected)
    text = json.dumps(wrapped, indent=1).encode()
    assert [row["process"] for row in rows(source, text + text)] == [*"aaabbbccc"] * 2
    broken = text.replace(b'"scopeSpans": [', b'"scopeSpans" [', 1)
    found = rows(source, broken + text)
    assert found[0]["reason"].startswith("not-json: ")
    assert [row["process"] for row in found if "process" in row] == [*"bbbccc", *"aaabbbccc"]


@BOTH
def test_an_answer_may_be_larger_than_any_record(source: Otlp) -> None:
    """An envelope that had to fit into memory would quarantine exactly the traces that are worth a look."""
    long = attributes(text="x" * (1 << 20))
    request = {"result": of_spans(*(span(name=f"s{n}", attributes=long) for n in range(18)))}
    found = rows(source, lines(request))
    assert [row["name"] for row in found[::2]] == [f"s{n} starts" for n in range(18)]
    assert not any("reason" in row for row in found)


@BOTH
@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (
            {"resourceSpan": [{"scopeSpans": []}], **of_spans(span())},
            "'resourceSpan' in a request is a list of objects (1), none of which is read; "
            "expected resourceSpans, resourceLogs or batches",
        ),
        (
            {"resourceSpans": [{"spans": [span(), span()], "scopeSpans": [{"spans": [span()]}]}]},
            "'spans' in an element of resourceSpans is a list of objects (2), none of which is read; "
            "expected scopeSpans or scopeLogs",
        ),
        (
            {"resourceSpans": [{"scopeSpans": [{"spans": [span()]}], "scopeSpan": [None, {"spans": []}]}]},
            "'scopeSpan' in an element of resourceSpans is a list of objects (1), none of which is read; ",
        ),
        (
            {"trace": {"batches": [{"scope_spans": [{"span": [span()], "spans": [span()]}]}]}},
            "'span' in an element of scope_spans is a list of objects (1), none of which is read; "
            "expected spans or logRecords",
        ),
    ],
    ids=["request", "resource", "misspelt", "scope"],
)
def test_records_under_a_name_that_nobody_knows_are_complained_of(source: Otlp, request_: Any, said: str) -> None:
    """One wrong letter in an exporter must not make its spans vanish without a word."""
    first, line = lines(of_spans(span())), lines(request_)
    document = json.dumps(request_, indent=1).encode()
    for data, read_from, place, good in ((first + line, line, 2, 4), (document, document, None, 2)):
        found = rows(source, data)
        (bad,) = (row for row in found if "reason" in row)
        reason = re.fullmatch(r"unknown-field: at byte (\d+): (.*)", bad["reason"])
        assert reason is not None
        assert said in reason[2]
        assert bad["text"].startswith("[")
        assert read_from[int(reason[1]) :].decode().startswith(bad["text"])
        assert bad["place"] == (place or int(reason[1]))
        assert len(found) == good + 1


@BOTH
def test_other_members_that_nobody_knows_are_passed_over(source: Otlp) -> None:
    """Exporters add fields every year, and metrics may stand beside traces: neither is worth a complaint."""
    other: Any = {"text": "", "number": 7, "object": {"a": [{}]}, "none": None, "empty": [], "list": [1, "x", [{}]]}
    metrics = [{"name": "cpu", "gauge": {}}]
    scope = other | {"scope": {"name": "s"}, "metrics": metrics, "spans": [span()]}
    resource = other | {"scopeMetrics": [{"metrics": metrics}], "scopeSpans": [scope]}
    request_ = other | {"resourceMetrics": [resource], "resourceProfiles": [{"a": 1}], "resourceSpans": [resource]}
    for data in (lines(request_), json.dumps(request_, indent=1).encode()):
        assert [row.get("name") for row in rows(source, data)] == ["work starts", "work ends"]


@BOTH
@pytest.mark.parametrize("name", [{}, {"name": ""}], ids=["none", "empty"])
def test_an_event_of_a_span_without_a_name_is_called_event(source: Otlp, name: Any) -> None:
    """A row without a name cannot be told from another in a list of causes."""
    moments = [{"timeUnixNano": "5", **name, "attributes": attributes(a=1)}, {"timeUnixNano": "6", "name": "e"}]
    request_ = of_spans(span(events=moments))
    for data in (lines(request_), json.dumps(request_, indent=1).encode(), message(request_)):
        assert [row["name"] for row in rows(source, data)] == ["work starts", "event", "e", "work ends"]


@BOTH
def test_a_torn_document_gives_what_came_before(source: Otlp) -> None:
    """A collector that was killed must cost the span it was writing, not the file."""
    whole = json.dumps(of_spans(*(span(name=f"s{n}") for n in range(50))), indent=2).encode()
    found = rows(source, whole[: len(whole) // 2])
    assert len(found) > 20
    assert [row["name"] for row in found[:4]] == ["s0 starts", "s0 ends", "s1 starts", "s1 ends"]
    assert [("reason" in row) for row in found] == [False] * (len(found) - 1) + [True]
    torn = message(of_spans(*(span(name=f"s{n}") for n in range(50))))
    found = rows(source, torn[: len(torn) // 2])
    assert [row["name"] for row in found[:2]] == ["s0 starts", "s0 ends"]
    assert len(found) > 20
    assert found[-1]["reason"].endswith("the rest is not read")


@BOTH
def test_reading_goes_on_after_damage(source: Otlp) -> None:
    """One broken byte in a document must not hide all that follows."""
    named = [{"attributes": attributes(service__name=name)} for name in "abc"]
    whole = {"resourceSpans": [of_spans(span(), resource=each)["resourceSpans"][0] for each in named]}
    text = json.dumps(whole, indent=1).encode()
    broken = text.replace(b'"scopeSpans": [', b'"scopeSpans" [', 1)
    found = rows(source, broken)
    assert [row.get("process", "?") for row in found] == ["?", "b", "b", "c", "c"]
    frames = [message(of_spans(span(), resource=each)) for each in named]
    frames[1] = b"\x0b" + frames[1][1:]
    assert [row.get("process", "?") for row in rows(source, with_lengths(*frames))] == ["a", "a", "?", "c", "c"]


REQUESTS = [
    of_spans(
        span(attributes=attributes(a=1, b="x\ny")), span(kind=3), resource={"attributes": attributes(service__name="s")}
    ),
    of_logs(log(traceId=TRACE, spanId=SPAN), log(severityNumber=9, timeUnixNano="0")),
    of_spans(span(traceId="00"), span(events=[{"timeUnixNano": 5, "name": "e"}])),
]
SHAPES = {
    "lines": (SAMPLES / "otlp.jsonl").read_bytes(),
    "document": json.dumps(REQUESTS[0], indent=2).encode(),
    "documents": b"\n".join(json.dumps(each, indent=1).encode() for each in REQUESTS),
    "bare": message(REQUESTS[0]),
    "4 bytes": with_lengths(*map(message, REQUESTS)),
    "varint": b"".join(varint(len(message(each))) + message(each) for each in REQUESTS),
}


@pytest.mark.parametrize("exact", [False, True], ids=["quick", "exact"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_keeps_the_promises_of_a_source(shape: str, exact: bool) -> None:
    """Torn, garbled and cut files must give rows, the same ones however they are cut."""
    kind = Otlp if shape == "lines" else Anywhere
    assert check_source(kind(exact=exact), SHAPES[shape], seed=1) > 200


def test_all_shapes_of_the_same_requests_give_the_same_rows() -> None:
    """Nobody should have to know how their exporter was set up."""
    data = [lines(*REQUESTS), SHAPES["documents"], SHAPES["4 bytes"], SHAPES["varint"]]
    without = [table(EXACT, each).drop_columns(["place", "text"]) for each in data]
    assert without[0].num_rows == 10
    assert all(each.equals(without[0]) for each in without[1:])
