"""Frames become rows, whatever a sender put into them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledto.events.payload import encode_reports
from ledto.events.schema import REPORTS
from ledto.spark.stream import FRAMES, ROWS
from ledto.spark.stream.decode import Decoder, join_payloads
from ledto.spark.stream.files.list_files import cut_files, find_new_files, list_files
from ledto.spark.stream.files.source import as_frames
from ledto.spark.stream.follow import drop_after_unread

LINE = b'{"process":"p","seq":1,"name":"go"}\n'


def decoded(*payloads: tuple[str | None, bytes], positions: dict[str, int] | None = None) -> pa.Table:
    """The rows of messages that came one after the other, at 100, 101, ..."""
    frames = [
        {"partition": "t", "sequence": n, "arrival": 100 + n, "format": form, "origin": "kafka:t", "payload": payload}
        for n, (form, payload) in enumerate(payloads)
    ]
    batches = pa.Table.from_pylist(frames, FRAMES).to_batches()
    given = Decoder(positions or {}, {}, names_files=False)(iter(batches))
    return join_payloads(row["payload"] for batch in given for row in batch.to_pylist() if row["payload"] is not None)


def test_a_message_cannot_have_a_file_read(tmp_path: Path) -> None:
    """Whoever may write to a topic would read any file of the machine that follows it."""
    secret = tmp_path / "secret.jsonl"
    secret.write_bytes(LINE)
    state = secret.stat()
    named = {"name": "x", "location": str(secret), "size_bytes": state.st_size, "modified_ns": state.st_mtime_ns}
    payload = json.dumps({**named, "start": 0, "stop": None, "lines_before": 0}).encode()
    rows = decoded(("ledto", payload), ("ledto", LINE))
    assert [bool(reason) for reason in rows["reason"].to_pylist()] == [True, False]
    assert rows["process"].to_pylist() == [None, "p"]


@pytest.mark.parametrize("broken", [b"\x00", b"ARROW1", encode_reports(REPORTS.empty_table())[:40], b"{}"])
def test_a_message_that_is_no_rows_is_quarantined_and_the_next_is_read(broken: bytes) -> None:
    """One bad message would stop the stream for all."""
    good = encode_reports(
        pa.Table.from_pylist([{"computation": "", "process": "p", "seq": 1, "kind": "local"}], REPORTS)
    )
    rows = decoded((ROWS, broken), (ROWS, b""), (ROWS, good), (None, b"?"))
    assert [(reason or "").partition(":")[0] for reason in rows["reason"].to_pylist()] == [
        "bad-payload",
        "",
        "unknown-format",
    ]
    assert rows["arrival"].to_pylist() == [100, 102, 103]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ([("process", pa.string()), ("seq", pa.string())], "column seq is string, not int64"),
        ([("process", pa.string()), ("seq", pa.int64()), ("seq", pa.int32())], "column seq is int32, not int64"),
        ([pa.field("process", pa.string(), nullable=False)], "column process is string not null, not string"),
        ([("colour", pa.string())], "colour"),
    ],
)
def test_a_message_with_other_columns_says_which(fields: list[pa.Field], told: str) -> None:
    """Whoever mixes two versions would have to guess what they disagree on, or the stream would stop."""
    sink, schema = pa.BufferOutputStream(), pa.schema(fields)
    with pa.ipc.new_stream(sink, schema) as writer:
        columns = [pa.array(["1" if pa.types.is_string(field.type) else 1], field.type) for field in schema]
        writer.write_batch(pa.record_batch(columns, schema))
    reason = decoded((ROWS, bytes(sink.getvalue())))["reason"][0].as_py()
    assert told in reason
    assert reason.endswith("was it published by another version?")


def test_what_is_committed_is_passed_over() -> None:
    """A micro-batch that runs again would count its reports twice."""
    rows = decoded(("ledto", LINE), ("ledto", LINE), ("ledto", LINE), positions={"t": 1})
    assert rows["arrival"].to_pylist() == [102]


def test_parquet_in_a_stream_is_what_it_is_in_a_file() -> None:
    """A folder that is followed would give other events than the same folder read at once."""
    given = pa.table(
        {
            "process": ["p", None, "p"],
            "time": pa.array([1_500, 2_500, -1], pa.timestamp("us")),
            "kind": ["send", "local", "receive"],
            "message": pa.array([7, None, 8]),
            "latency": [0.5, None, None],
        }
    )
    sink = pa.BufferOutputStream()
    pq.write_table(given, sink)
    payload = sink.getvalue().to_pybytes()
    rows = decoded(("parquet", payload), ("parquet", payload[:-9]), ("ledto", LINE)).to_pylist()
    assert [(row["time"], row["sends"], row["receives"], row["attributes"]) for row in rows[:3]] == [
        (1_500_000, "7", None, '{"latency":0.5}'),
        (2_500_000, None, None, None),
        (-1_000, None, "8", None),
    ]
    codes = [(row["reason"] or "").partition(":")[0] for row in rows]
    assert codes == ["", "no-process", "", "not-parquet", ""]
    assert rows[1]["place"] == 1


def frames_of(payloads: list[bytes], first: int = 0) -> list[pa.RecordBatch]:
    rows = [
        {"partition": "t", "sequence": n, "arrival": 100 + n, "format": ROWS, "origin": "o", "payload": payload}
        for n, payload in enumerate(payloads, start=first)
    ]
    return pa.Table.from_pylist(rows, FRAMES).to_batches(max_chunksize=3)


def test_what_is_handed_over_at_once_is_bounded_however_well_it_is_compressed() -> None:
    """700 events of 15 MB came in a few kilobytes each, and the stream ran out of memory at every start, for good."""
    report = {"computation": "", "process": "p", "kind": "local", "attributes": "x" * 500_000}
    payloads = [encode_reports(pa.Table.from_pylist([{**report, "seq": seq}], REPORTS)) for seq in range(1, 41)]
    assert sum(map(len, payloads)) < 500_000
    most, positions, seen = 2_000_000, {}, []
    for _ in range(100):
        # Two tasks, each with half of the frames, as Spark runs them.
        decoder = Decoder(positions, {}, names_files=False, most_bytes=most)
        given = [each for half in (payloads[:20], payloads[20:]) for each in decoder(_half(half, payloads))]
        found = pa.Table.from_batches(given)
        taken = drop_after_unread(found)
        rows = join_payloads(each for each in taken["payload"].to_pylist() if each is not None)
        assert rows.nbytes <= 2 * (most + 600_000)
        seen += rows["seq"].to_pylist()
        positions = {"t": max([positions.get("t", -1), *taken["last"].to_pylist()])}
        if not any(found["unread"].to_pylist()):
            break
    assert seen == list(range(1, 41))


def _half(half: list[bytes], payloads: list[bytes]) -> Iterator[pa.RecordBatch]:
    return iter(frames_of(half, first=0 if half[0] is payloads[0] else 20))


def test_a_report_that_is_too_large_is_quarantined_with_its_beginning() -> None:
    """Or one report of 15 MB is stored, sorted and shown whole, as often as it is sent; its neighbours stay in order."""
    small = {"computation": "", "process": "p", "kind": "local"}
    large = {**small, "seq": 2, "name": "deploy", "attributes": "y" * 2_000_000, "receives_more": ["k" * 10] * 3}
    rows = pa.Table.from_pylist([{**small, "seq": 1}, large, {**small, "seq": 3}], REPORTS)
    found = decoded((ROWS, encode_reports(rows)))
    assert found["seq"].to_pylist() == [1, None, 3]
    reason, text = found["reason"][1].as_py(), found["text"][1].as_py()
    assert reason == f"too-large: its texts have {2_000_000 + 6 + 1 + 5 + 30} bytes; a report has {1 << 20} at most"
    assert text.startswith("deploy yyy")
    assert found.nbytes < 10_000


@pytest.mark.parametrize("form", ["ledto", "parquet"])
def test_of_a_file_that_decodes_to_very_much_the_beginning_is_read_and_the_rest_is_told(
    tmp_path: Path, form: str
) -> None:
    """One compressed file put into a followed folder filled the memory of the task, at every start, for good."""
    count, text = 2_000, "x" * 10_000
    path = tmp_path / "large.parquet" if form == "parquet" else tmp_path / "large.jsonl.gz"
    if form == "parquet":
        table = pa.table({"process": ["p"] * count, "seq": range(1, count + 1), "name": [text] * count})
        pq.write_table(table, path, row_group_size=100)
    else:
        lines = ({"process": "p", "seq": seq, "name": text} for seq in range(1, count + 1))
        path.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    (new,) = find_new_files(list_files(str(path), None), (), 10)
    frames = as_frames(cut_files([new], None, number=0, arrival_ns=1))
    decoder = Decoder({}, {}, names_files=True, piece_bytes=12_000_000)
    rows = join_payloads(row["payload"] for batch in decoder(iter([frames])) for row in batch.to_pylist())
    *good, last = rows.to_pylist()
    assert [row["seq"] for row in good] == list(range(1, len(good) + 1))
    assert 100 <= len(good) < 1_300
    assert last["reason"].startswith("too-large: it has more than 11 MiB of reports")
