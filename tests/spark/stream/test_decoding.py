"""Frames become rows, whatever a sender put into them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from whence.events.payload import encode_reports
from whence.events.schema import REPORTS
from whence.spark.stream.decoding import Decoder, rows_of
from whence.spark.stream.sources import FRAMES, ROWS

LINE = b'{"process":"p","seq":1,"name":"go"}\n'


def decoded(*payloads: tuple[str | None, bytes], positions: dict[str, int] | None = None) -> pa.Table:
    """The rows of messages that came one after the other, at 100, 101, ..."""
    frames = [
        {"partition": "t", "sequence": n, "arrival": 100 + n, "format": form, "origin": "kafka:t", "payload": payload}
        for n, (form, payload) in enumerate(payloads)
    ]
    batches = pa.Table.from_pylist(frames, FRAMES).to_batches()
    given = Decoder(positions or {}, {}, names_files=False)(iter(batches))
    return rows_of(row["payload"] for batch in given for row in batch.to_pylist() if row["payload"] is not None)


def test_a_message_cannot_have_a_file_read(tmp_path: Path) -> None:
    """Whoever may write to a topic would read any file of the machine that follows it."""
    secret = tmp_path / "secret.jsonl"
    secret.write_bytes(LINE)
    state = secret.stat()
    named = {"name": "x", "location": str(secret), "size_bytes": state.st_size, "modified_ns": state.st_mtime_ns}
    payload = json.dumps({**named, "start": 0, "stop": None, "lines_before": 0}).encode()
    rows = decoded(("whence", payload), ("whence", LINE))
    assert [bool(reason) for reason in rows["reason"].to_pylist()] == [True, False]
    assert rows["process"].to_pylist() == [None, "p"]


@pytest.mark.parametrize("broken", [b"\x00", b"ARROW1", encode_reports(REPORTS.empty_table())[:40], b"{}"])
def test_a_message_that_is_no_rows_is_set_aside_and_the_next_is_read(broken: bytes) -> None:
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


def test_what_is_committed_is_passed_over() -> None:
    """A micro-batch that runs again would count its reports twice."""
    rows = decoded(("whence", LINE), ("whence", LINE), ("whence", LINE), positions={"t": 1})
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
    rows = decoded(("parquet", payload), ("parquet", payload[:-9]), ("whence", LINE)).to_pylist()
    assert [(row["time"], row["sends"], row["receives"], row["attributes"]) for row in rows[:3]] == [
        (1_500_000, "7", None, '{"latency":0.5}'),
        (None, None, None, None),
        (-1_000, None, "8", None),
    ]
    codes = [(row["reason"] or "").partition(":")[0] for row in rows]
    assert codes == ["", "no-process", "", "not-parquet", ""]
    assert rows[1]["place"] == 1
