"""Channels in a DataFrame: the same matches as in one table, however the rows are spread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from ledto.causality.channel_tables import count_outcomes, match_table
from ledto.causality.channels import Unreported, unreported_in
from ledto.events.keys import SPAN
from ledto.events.schema import REPORTS
from ledto.spark import channels
from ledto.spark.channels import match_channels
from ledto.spark.read import REPORTS_DDL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BLANK: dict[str, Any] = dict.fromkeys(REPORTS.names) | {"computation": "", "file": "f"}


def frame_of(spark: SparkSession, rows: list[dict[str, Any]], *, tasks: int = 3) -> DataFrame:
    """The rows, spread over tasks; `schema` and all are closed over, as workers cannot import this module."""
    blank, schema = BLANK, REPORTS
    filled = [blank | {"place": at} | row for at, row in enumerate(rows)]

    def give(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield pa.RecordBatch.from_pylist(filled[number::tasks], schema=schema)

    return spark.range(0, tasks, 1, tasks).mapInArrow(give, REPORTS_DDL)


def sample(seed: int, count: int) -> list[dict[str, Any]]:
    """Some computations, each with channels of bytes that lose some, which one or several threads use, and other rows.

    Processes of one of them have numbers, of which some are left out.
    """
    random = Random(seed)
    rows: list[dict[str, Any]] = []
    seqs = Counter[str]()
    for time in range(count):
        kind = random.choice(["send", "receive", "local"])
        row: dict[str, Any] = {"computation": random.choice(["", "other"]), "time": time // 20, "kind": kind}
        channel, thread = random.randrange(5), random.randrange(2)
        row |= {"process": f"{kind}-{thread if channel < 2 else 0}", "clock_name": kind, "name": f"event {time}"}
        if row["computation"]:
            seqs[row["process"]] += 1 if time < count // 2 else random.choice((1, 1, 1, 2))
            row["seq"] = seqs[row["process"]]
        if kind != "local":
            row |= {"channel_key": f"c{channel}", "channel_bytes": random.randrange(9 if kind == "send" else 7)}
        rows.append(row)
    return rows


def test_channels_spread_over_tasks_are_matched_whole(spark: SparkSession) -> None:
    """A channel torn between tasks or batches would join receives to sends that come too early or never."""
    rows = sample(7, 600)
    expected: dict[int, tuple[Any, ...]] = {}
    counts: dict[str, int] = {}
    keys = {(row["computation"], row["channel_key"]) for row in rows if "channel_key" in row}
    whole = pa.Table.from_pylist([BLANK | {"place": at} | row for at, row in enumerate(rows)], schema=REPORTS)
    unreported = unreported_in(whole)
    assert unreported.before.max() > 5
    for key in keys:
        chosen = [at for at, row in enumerate(rows) if (row["computation"], row.get("channel_key")) == key]
        named, outcomes = match_table(
            whole.take(chosen), Unreported(unreported.before[chosen], unreported.in_all[chosen])
        )
        for at, row in zip(chosen, named.to_pylist(), strict=True):
            expected[at] = row["sends"], row["receives"], row["receives_more"]
        counts = {name: counts.get(name, 0) + count for name, count in count_outcomes(outcomes).items()}
    assert counts["matched"] > 50
    assert min(counts["ambiguous_order"], counts["ambiguous_loss"], counts["left_out"]) > 5
    before = spark.conf.get("spark.sql.execution.arrow.maxRecordsPerBatch")
    try:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
        matched, told = match_channels(frame_of(spark, rows))
        collected = [row.asDict() for row in matched.collect()]
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", before)
    assert told.get() == counts
    assert matched.columns == list(REPORTS.names)
    assert sorted(row["place"] for row in collected) == list(range(len(rows)))
    for row in collected:
        given = rows[row["place"]]
        assert (row["sends"], row["receives"], row["receives_more"]) == expected.get(row["place"], (None, None, None))
        assert (row["channel_key"], row["channel_bytes"]) == (None, None)
        assert all(row[name] == value for name, value in given.items() if not name.startswith("channel_"))


def test_groups_of_whole_channels_are_matched_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task takes its rows in batches that end anywhere; its memory is a channel and its answers the same."""
    rows = [BLANK | {"place": at} | row for at, row in enumerate(sample(3, 300))]
    for row in rows:
        row["channel_outcome"] = -1 if row["channel_key"] is None else 0
        row |= {"channel_unreported_before": row["place"] // 100, "channel_unreported_in_all": 3}
    rows.sort(key=lambda row: (row["channel_outcome"], *(row[n] or "" for n in ("computation", "channel_key"))))
    schema = pa.schema([*REPORTS, ("channel_outcome", pa.int16())])
    for name in ("channel_unreported_before", "channel_unreported_in_all"):
        schema = schema.append(pa.field(name, pa.int64()))
    whole = pa.Table.from_pylist(rows, schema=schema)
    expected = pa.Table.from_batches(channels._match_sorted(iter(whole.to_batches())))
    held: list[int] = []

    def noting(table: pa.Table, unreported: Unreported) -> Any:
        held.append(table.num_rows)
        return match_table(table, unreported)

    monkeypatch.setattr(channels, "match_table", noting)
    monkeypatch.setattr(channels, "AT_ONCE_ROWS", 10)
    for size in (1, 3, 50):
        found = pa.Table.from_batches(channels._match_sorted(iter(whole.to_batches(max_chunksize=size))))
        assert found.equals(expected)
    in_channels = whole.num_rows - pa.compute.sum(pa.compute.equal(whole["channel_outcome"], -1)).as_py()
    assert max(held) < in_channels / 2


def test_what_has_no_channel_or_no_sender_stays(spark: SparkSession) -> None:
    """Rows quarantined keep their reason, and a receive from outside the log is an event whose cause is missing."""
    at = {"process": "p", "time": 1}
    bad = {"reason": "bad-field: x", "text": "x", "channel_key": "c", "kind": None}
    rows = [at | {"kind": "local", "name": "n"}, bad, at | {"kind": "receive", "channel_key": "c"}]
    rows.append(at | {"kind": "send", "sends": "m", "receives": "k", "receives_more": ["l"]})
    matched, counts = match_channels(frame_of(spark, rows))
    by_place = {row["place"]: row.asDict() for row in matched.collect()}
    assert len(by_place) == 4
    assert by_place[1]["reason"] == "bad-field: x"
    assert by_place[2]["receives"].startswith(SPAN)
    assert (by_place[3]["sends"], by_place[3]["receives"], by_place[3]["receives_more"]) == ("m", "k", ["l"])
    assert {name: count for name, count in counts.get().items() if count} == {"unmatched_receives": 1}
    nothing, counts = match_channels(frame_of(spark, rows).where("place < 0"))
    assert nothing.collect() == []
    assert set(counts.get().values()) == {0}
