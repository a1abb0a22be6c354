"""Which events tell of a failure: who asks for the errors of a history gets those, from every format, and no others."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledto.sources import Source
from ledto.sources.error_column import (
    GRAVE,
    GRAVE_NUMBERS,
    HTTP_STATUSES,
    LEVELS,
    SPAN_STATUS,
    TRACES,
    errors_of,
    is_error,
)
from ledto.sources.jaeger.source import Jaeger
from ledto.sources.native.lines import JsonLines
from ledto.sources.otlp import Otlp
from ledto.sources.parquet.columns import map_schema
from ledto.sources.parquet.reports import reports_of
from ledto.sources.zipkin.source import Zipkin
from tests.sources.reading import table

TRACE, SPAN = "5b8efff798038103d269b633813fc60c", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, None),
        ({"level": "ERROR"}, True),
        ({"LevelName": "Critical"}, True),
        ({"severity": "ERROR2"}, True),
        ({"log": {"level": "fatal"}}, True),
        ({"log.level": "panic"}, True),
        ({"level": "warning"}, None),
        ({"level": "errors-and-more"}, None),
        ({"level": 50}, True),
        ({"level": 40}, None),
        ({"level": 3}, None),
        ({"level": "50"}, None),
        ({"levelno": 40}, True),
        ({"severity": 3}, True),
        ({"severity": 4}, None),
        ({"severity": True}, None),
        ({"syslog.severity": "2"}, True),
        ({"severity_number": 17}, True),
        ({"severity_number": 16}, None),
        ({"error": True}, True),
        ({"error": "disk full"}, True),
        ({"err": {"type": "Error", "message": "no"}}, True),
        ({"error": False}, False),
        ({"error": "false"}, False),
        ({"error": None}, None),
        ({"error": ""}, None),
        ({"error": "<nil>"}, None),
        ({"error": {"code": 0, "message": ""}}, None),
        ({"error": False, "level": "error"}, True),
        ({"level": "error", "error": False}, True),
        ({"error": [False, True]}, True),
        ({"exception": "ValueError: no"}, True),
        ({"exc_info": False}, None),
        ({"exception.type": "KeyError"}, True),
        ({"stack_trace": "at line 7"}, True),
        ({"error_count": 7, "errors": "none of these", "terror": True}, None),
        ({"http.status_code": 500}, True),
        ({"http.response.status_code": "503"}, True),
        ({"http": {"response": {"status_code": 502}}}, True),
        ({"http": {"status": 500}}, True),
        ({"log": {"syslog": {"severity": {"code": 3}}}}, True),
        ({"http.status_code": 404}, None),
        ({"status": 500}, None),
        ({"status_code": 600}, None),
        ({"http.status_code": 500, "otel.status_code": "OK"}, False),
        ({"otel.status_code": "ERROR", "error": False}, True),
    ],
)
def test_attributes_tell_of_a_failure(attributes: dict[str, Any], expected: bool | None) -> None:
    """What loggers and tracers write for a failure is one; what only looks like it is none."""
    assert is_error(attributes) is expected
    assert _errors([attributes]) == [expected]


def test_a_status_of_400_is_a_failure_of_the_client_alone() -> None:
    """A server that refuses a request did what it should."""
    assert is_error({"http.status_code": 404}, of_client=True) is True
    assert is_error({"http.status_code": 399}, of_client=True) is None


_WORDS = [*GRAVE, "info", "ERROR2", " error ", "", "none", "false", "ok", "Ok", "ERROR", "500", "404", "3", "17", "x"]
_VALUES = st.one_of(
    st.sampled_from(_WORDS), st.sampled_from(_WORDS).map(str.upper), st.integers(0, 700), st.booleans(), st.none()
)
_NAMES = st.sampled_from(
    sorted({"error", "err", "name", "code", "status", SPAN_STATUS, *LEVELS, *GRAVE_NUMBERS, *TRACES, *HTTP_STATUSES})
)


@st.composite
def _attributes(draw: st.DrawFn) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in draw(st.lists(_NAMES, max_size=3)):
        value: Any = draw(st.one_of(_VALUES, st.lists(_VALUES, max_size=2)))
        parts = [name] if draw(st.booleans()) else name.split(".")
        for part in reversed(parts[1:]):
            value = {part: value}
        found[draw(st.sampled_from((parts[0], parts[0].upper())))] = value
    return found


@given(st.lists(_attributes(), max_size=5), st.sampled_from((None, (", ", ": "), (",", " :\t"))), st.booleans())
def test_the_quick_look_at_many_texts_misses_nothing(
    attributes: list[dict[str, Any]], separators: tuple[str, str] | None, client: bool
) -> None:
    """The expression that leaves most texts unread leaves none that tells."""
    texts = pa.array([json.dumps(each, separators=separators) for each in attributes], pa.string())

    found = errors_of(pa.nulls(len(texts), pa.bool_()), texts, np.full(len(texts), client))
    assert found.to_pylist() == [is_error(each, of_client=client) for each in attributes]


def test_letters_spelled_as_numbers_and_numbers_of_any_length_are_read() -> None:
    """A text that is JSON never stops a run."""
    texts = pa.array(['{"\\u0065rror":true}', '{"n":' + "9" * 5_000 + ',"level":"error"}', None])
    assert errors_of(pa.nulls(3, pa.bool_()), texts).to_pylist() == [True, True, None]


def test_what_a_source_says_itself_stands() -> None:
    """Attributes fill what is not known."""
    texts = pa.array(['{"level":"error"}'] * 3)
    assert errors_of(pa.array([False, None, True]), texts).to_pylist() == [False, True, True]


@pytest.mark.parametrize("compiled_from_bytes", [0, 1 << 60])
def test_lines_tell(compiled_from_bytes: int) -> None:
    """The compiled scanner and the exact reader find the same errors."""
    lines = [
        {"process": "a", "seq": 1, "level": "error"},
        {"process": "a", "seq": 2, "level": "info"},
        {"process": "a", "seq": 3, "attributes": {"error": "disk full"}},
        {"process": "a", "seq": 4, "error": False},
        {"process": "", "seq": 5, "level": "error"},
        {"process": "a", "seq": 6},
    ]
    found = _rows(JsonLines(compiled_from_bytes=compiled_from_bytes), *lines)
    assert [row["error"] for row in found] == [True, None, True, False, None, None]


@pytest.mark.parametrize("exact", [False, True])
def test_spans_of_opentelemetry_tell_by_status_http_and_exceptions(exact: bool) -> None:
    """The end of a failed span is the error, not its start, which comes before all that led to it."""

    def span(
        number: int, *, kind: int = 1, status: int = 0, code: int | None = None, events: Any = ()
    ) -> dict[str, Any]:
        said = [] if code is None else [{"key": "http.response.status_code", "value": {"intValue": str(code)}}]
        return {
            "traceId": TRACE, "spanId": f"{number:016x}", "name": "work", "kind": kind, "startTimeUnixNano": "100",
            "endTimeUnixNano": "200", "status": {"code": status}, "attributes": said, "events": list(events),
        }  # fmt: skip

    exception = {"timeUnixNano": "150", "name": "exception"}
    typed = {
        "timeUnixNano": "150",
        "name": "x",
        "attributes": [{"key": "exception.type", "value": {"stringValue": "E"}}],
    }
    other = {"timeUnixNano": "150", "name": "cache miss"}
    spans = [
        span(1, status=2),
        span(2, status=1, code=500),
        span(3, kind=2, code=500),
        span(4, kind=2, code=404),
        span(5, kind=3, code=404),
        span(6, events=[exception, typed, other]),
    ]
    found = _rows(Otlp(exact=exact), {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})
    ends = [row["error"] for row in found if row["line_phase"] == "end"]
    assert ends == [True, False, True, None, True, None]
    assert [row["error"] for row in found if row["line_phase"] == "start"] == [None] * 6
    assert [row["error"] for row in found if row["line_phase"] is None] == [True, True, None]


@pytest.mark.parametrize("exact", [False, True])
def test_log_records_of_opentelemetry_tell_by_number_text_or_exception(exact: bool) -> None:
    """A severity counts also where its text is the program's own."""
    records: list[dict[str, Any]] = [
        {"severityNumber": 17, "severityText": "E"},
        {"severityNumber": 13},
        {"severityText": "Fatal"},
        {"attributes": [{"key": "exception.message", "value": {"stringValue": "disk full"}}]},
        {},
    ]
    records = [{"timeUnixNano": "100", "body": {"stringValue": "text"}, **each} for each in records]
    found = _rows(Otlp(exact=exact), {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]})
    assert [row["error"] for row in found] == [True, None, True, True, None]


@pytest.mark.parametrize("exact", [False, True])
def test_spans_of_jaeger_tell_by_tags_and_logs(exact: bool) -> None:
    """Also a span that never ended: its start is all there is to tell."""

    def span(number: int, tags: dict[str, Any], duration: int | None = 5, **fields: Any) -> dict[str, Any]:
        said = [{"key": key, "type": "string", "value": value} for key, value in tags.items()]
        return {
            "traceID": TRACE, "spanID": f"{number:016x}", "operationName": "work", "startTime": 1, "duration": duration,
            "tags": said, "logs": [], "processID": "p1", **fields,
        }  # fmt: skip

    log = {"timestamp": 3, "fields": [{"key": "event", "type": "string", "value": "error"}]}
    kind = {"timestamp": 4, "fields": [{"key": "error.kind", "type": "string", "value": "E"}]}
    spans = [
        span(1, {"error": True}),
        span(2, {"otel.status_code": "ERROR"}),
        span(3, {"span.kind": "client", "http.status_code": 404}),
        span(4, {"span.kind": "server", "http.status_code": "404"}),
        span(5, {"error": "false"}, logs=[log, kind]),
        span(6, {"error": True}, duration=None),
    ]
    found = _rows(
        Jaeger(exact=exact), {"data": [{"traceID": TRACE, "spans": spans, "processes": {"p1": {"serviceName": "s"}}}]}
    )
    assert [row["error"] for row in found if row["line_phase"] == "end"] == [True, True, True, None, False]
    assert [row["error"] for row in found if row["line_phase"] == "start"] == [None] * 5 + [True]
    assert [row["error"] for row in found if row["line_phase"] is None] == [True, True]


@pytest.mark.parametrize("exact", [False, True])
def test_spans_of_zipkin_tell_by_the_tag_error_whatever_it_holds(exact: bool) -> None:
    """Zipkin says that a span failed by the tag being there."""
    endpoint = {"serviceName": "s"}
    given: list[dict[str, str]] = [{"error": ""}, {"http.status_code": "500"}, {"http.status_code": "200"}]
    spans = [
        {
            "traceId": TRACE,
            "id": f"{number:016x}",
            "timestamp": 1,
            "duration": 5,
            "localEndpoint": endpoint,
            "tags": tags,
        }
        for number, tags in enumerate(given, 1)
    ]
    found = _rows(Zipkin(exact=exact), spans)
    assert [row["error"] for row in found if row["line_phase"] == "end"] == [True, True, None]


def test_columns_of_parquet_tell() -> None:
    """By a column error of its own, which stands, or by columns such as level."""
    rows = pa.table(
        {
            "process": ["a"] * 5,
            "seq": [1, 2, 3, 4, 5],
            "error": [True, False, None, None, None],
            "level": ["info", "ERROR", "ERROR", "info", None],
            "attributes": [None, None, None, '{"error":"disk full"}', None],
        }
    )
    mapping = map_schema(rows.schema, "a.parquet", "ns")
    found = reports_of(rows, mapping, "a.parquet", 0)
    assert found["error"].to_pylist() == [True, False, True, True, None]
    assert "error_given" not in found.column_names


def _errors(attributes: list[dict[str, Any]]) -> list[bool | None]:
    texts = pa.array([json.dumps(each) for each in attributes], pa.string())
    found: list[bool | None] = errors_of(pa.nulls(len(texts), pa.bool_()), texts).to_pylist()
    return found


def _rows(source: Source, *documents: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table(source, "\n".join(map(json.dumps, documents)) + "\n").to_pylist()
    return found
