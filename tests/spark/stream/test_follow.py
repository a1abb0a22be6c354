"""A stream and the batch give the same deliveries from the same reports."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa

from ledto.batch.observe import Delivering
from ledto.live import LiveHistory
from ledto.questions import open_history
from ledto.spark.stream import open_source
from ledto.spark.stream.follow import follow, journal_of
from tests.live.streams import BASE, DELTA, EPS, kind_stream, terms
from tests.spark.running import observe

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def write(folder: Path, number: int, rows: pa.Table) -> None:
    """A file of reports that appears whole."""
    columns = ["process", "seq", "time", "arrival", "kind", "sends", "receives", "receives_more", "id", "name"]
    lines = []
    for row in rows.select(columns).to_pylist():
        first, more = row.pop("receives"), row.pop("receives_more") or []
        keys = [key for key in (first, *more) if key is not None]
        lines.append(
            json.dumps({**{name: value for name, value in row.items() if value is not None}, "receives": keys})
        )
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{number}.jsonl"
    hidden.write_text("\n".join(lines) + "\n")
    os.utime(hidden, ns=(BASE + number, BASE + number))
    hidden.rename(folder / f"{number}.jsonl")


def test_a_followed_folder_is_delivered_as_the_batch_delivers_it(spark: SparkSession, tmp_path: Path) -> None:
    """However the stream is stopped and goes on: or nobody could check live what the batch says, and the reverse."""
    _, table = kind_stream(Random(11), processes=5, events=400)
    live, incoming = tmp_path / "live", tmp_path / "incoming"
    source = open_source(str(incoming), {"journal": str(_made(journal_of(live)))})
    given = terms(policies=("exact", "cbd:0.5"), close_rows=90)
    seen = []
    for number, start in enumerate(range(0, len(table), 150)):
        write(incoming, number, table.slice(start, 150))
        follow(spark, source, live, terms=given, once=True)
        seen.append(LiveHistory(live).last_delivery())
    batch = tmp_path / "batch"
    delivering = Delivering(("exact", "cbd:0.5"), delta=DELTA, as_known=True)
    observe(spark, [str(incoming)], batch, eps=EPS, delivering=delivering)
    at_once, grown = open_history(batch), LiveHistory(live).current()
    order = [event.id for event in at_once.order(policy="exact")]
    log = LiveHistory(live).deliveries(0)["id"].to_pylist()
    assert seen == sorted(seen)
    assert len(log) > 300
    assert log == order[: len(log)]
    assert [event.id for event in grown.order()] == [event.id for event in at_once.order()]
    for policy in ("exact", "cbd-0.5"):
        assert [event.id for event in grown.order(policy=policy)] == [
            event.id for event in at_once.order(policy=policy)
        ]
    last = order[-1]
    assert [event.id for event in grown.why(last, k=50).causes] == [
        event.id for event in at_once.why(last, k=50).causes
    ]


def _made(journal: Path) -> Path:
    journal.parent.mkdir(parents=True)
    return journal
