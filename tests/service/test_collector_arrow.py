"""Rows that come as Arrow, against the same reports as lines of JSON."""

from __future__ import annotations

import io
import json
import struct
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.service.collector_stage import whole
from whence.events.payload import decode_reports, encode_reports
from whence.events.schema import REPORTS
from whence.service.arrow_rows import SENT, arrow_rows
from whence.service.limits import Limits, Refused
from whence.sources import Piece, source

SCHEMA = pa.schema([REPORTS.field(name).with_nullable(True) for name in SENT])
VECTOR = '{"clock":"vector","counters":{"p":2,"q":1}}'

UNKNOWN_OF_BAD = ("seq", "time", "kind", "sends", "receives", "receives_more", "id", "name", "stamp", "attributes")

TEXTS = st.sampled_from([None, "", "p", "m1", "é", "a\0b", 'quo"te\\'])
INTEGERS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "computation": TEXTS,
        "process": st.one_of(st.just("p"), TEXTS),
        "seq": st.one_of(st.just(1), INTEGERS),
        "time": INTEGERS,
        "arrival": INTEGERS,
        "kind": st.sampled_from([None, "local", "send", "receive", "other", ""]),
        "sends": TEXTS,
        "receives": TEXTS,
        "receives_more": st.one_of(st.none(), st.lists(TEXTS, min_size=1, max_size=3)),
        "id": TEXTS,
        "name": TEXTS,
        "stamp": st.sampled_from([None, VECTOR, '{"clock":"vector","counters":{"q":1}}', '{"clock":"x"}', "no"]),
        "attributes": st.sampled_from(
            [None, "{}", '{"a":1}', ' {"a": 1.50} ', "[1]", '{"a":1,"a":2}', '{"a":1},"process":"z"', '{"a":NaN}', ""]
        ),
    },
)


def stream(records: list[dict[str, Any]], *, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, SCHEMA, options=options) as writer:
        writer.write_table(pa.Table.from_pylist(records, SCHEMA))
    return bytes(sink.getvalue())


def line(record: dict[str, Any]) -> str | None:
    """The record as a person would write it in JSON; none where JSON has no such record."""
    fields = {name: value for name, value in record.items() if value is not None}
    more = fields.pop("receives_more", None)
    if more is not None:
        if "receives" not in fields:
            return None
        fields["receives"] = [fields["receives"], *more]
    parts = []
    for name, value in fields.items():
        if name in ("stamp", "attributes"):
            try:
                json.loads(value)
            except ValueError:
                return None
            parts.append(f'"{name}":{value}')
        else:
            parts.append(f'"{name}":{json.dumps(value)}')
    return "{" + ",".join(parts) + "}"


@given(st.lists(RECORDS, min_size=1, max_size=6))
def test_a_report_means_the_same_as_arrow_and_as_json(records: list[dict[str, Any]]) -> None:
    """A sender that turned to Arrow would get other events, or lose the reasons of bad ones."""
    found = arrow_rows(stream(records), "f", Limits()).to_pylist()
    lines = [line(record) for record in records]
    body = "\n".join("{}" if each is None else each for each in lines).encode()
    expected = whole(
        pa.Table.from_batches([*source("whence", {}).read(Piece("f", lambda at: io.BytesIO(body[at:])))])
    ).to_pylist()
    assert len(found) == len(records)
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        assert ours["place"] == number + 1
        if lines[number] is None:
            assert ours["reason"]
            continue
        if theirs["reason"] is None:
            assert ours == theirs
        else:
            assert ours["reason"] == theirs["reason"]
            assert [name for name in UNKNOWN_OF_BAD if ours[name] is not None] == []


def test_columns_that_lines_do_not_have_are_kept_and_checked() -> None:
    """Spans that an application reports by itself would lose what they belong to, or break the pipeline."""
    good = {"process": "p", "time": 1, "instance_key": "i", "instance_phase": "start", "clock_name": "c"}
    records = [
        good,
        {**good, "instance_phase": "middle"},
        {**good, "instance_key": None},
        {"process": "p", "seq": 1, "kind": "send", "channel_key": "c", "channel_bytes": 5, "sends": "m"},
        {"process": "p", "seq": 1, "channel_bytes": 5},
        {"process": "p", "seq": 1, "channel_key": ""},
    ]
    found = arrow_rows(stream(records), "f", Limits()).to_pylist()
    assert [row["reason"] is None for row in found] == [True, False, False, True, False, False]
    assert [(found[0][name]) for name in good] == [*good.values()]
    assert found[3]["channel_bytes"] == 5


def table_stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


NOT_UTF8 = pa.StringArray.from_buffers(1, pa.py_buffer(struct.pack("<ii", 0, 2)), pa.py_buffer(b"\xff\xfe"))


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (pa.table({"seq": pa.array([1], pa.int64())}), "columns"),
        (pa.table({"process": ["p"], "seq": pa.array([1], pa.int32())}), "columns"),
        (pa.table({"process": ["p"], "reason": ["mine"]}), "columns"),
        (pa.table([pa.array(["p"]), pa.array(["q"])], names=["process", "process"]), "columns"),
        (pa.table({"process": pa.array(["p"]).dictionary_encode()}), "not-arrow"),
        (pa.table({"process": NOT_UTF8}), "not-arrow"),
        (pa.table({"process": ["p"] * 11}), "too-large"),
    ],
)
def test_a_stream_that_is_not_of_reports_is_refused(table: pa.Table, reason: str) -> None:
    """Bytes that nobody can read, or too many of them, would reach the stream and stop it."""
    with pytest.raises(Refused) as refused:
        arrow_rows(table_stream(table), "f", Limits(reports=10))
    assert refused.value.reason == reason


def test_a_compressed_stream_is_refused_by_what_it_would_become() -> None:
    """A body of a few kilobytes would take all memory of the collector."""
    records = [{"process": "p" * 2_000_000, "seq": 1}]
    for compression in ("lz4", "zstd"):
        body = stream(records, compression=compression)
        assert len(body) < 20_000
        assert len(arrow_rows(body, "f", Limits(body_bytes=3_000_000))) == 1
        with pytest.raises(Refused) as refused:
            arrow_rows(body, "f", Limits(body_bytes=1_000_000))
        assert refused.value.status == 413


@given(st.data())
def test_damaged_streams_are_refused_or_read(data: st.DataObject) -> None:
    """One sender could take down the collector of all."""
    whole_body = stream(
        [{"process": "p", "seq": 1, "receives_more": ["x"], "attributes": '{"a":1}'}] * 3,
        compression=data.draw(st.sampled_from([None, "lz4"])),
    )
    body = bytearray(whole_body)
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with suppress(Refused):
        rows = arrow_rows(bytes(body[: data.draw(st.integers(0, len(body)))]), "f", Limits())
        rows.validate(full=True)
        assert decode_reports(encode_reports(rows)).num_rows == len(rows)
