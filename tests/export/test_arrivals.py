"""Arrivals of reports in exports: what was live can be delivered again as it was."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from ledto.batch.observe import Delivering
from ledto.batch.redeliver import redeliver
from ledto.events.schema import REPORTS
from ledto.export import export
from ledto.live import LiveHistory, LiveWriter
from ledto.questions.history import History, open_history
from ledto.questions.order import order_documents
from tests.live.streams import DELTA, EPS, HOUR, kind_stream, terms
from tests.spark.running import observe

POLICIES = ("exact", "cbd:0.5")


def arrivals(history: History) -> dict[str, int]:
    rows = history.run.rows(np.arange(len(history)), ["id", "arrival"])
    return dict(zip(rows["id"].to_pylist(), rows["arrival"].to_pylist(), strict=True))


def deliveries(history: History, policy: str) -> list[tuple[Any, ...]]:
    documents = order_documents(history.run, policy=policy)
    return [(document["id"], document["at"], document["waited"], document["late"]) for document in documents]


@pytest.mark.parametrize("format", ["parquet", "otlp"])
def test_what_was_live_is_delivered_again_as_it_was(format: str, tmp_path: Path) -> None:
    """Who takes an incident home could not find out which policy would have shown it in time: all reports seem prompt."""
    _, table = kind_stream(Random(5), processes=4, events=200)
    with LiveWriter(str(tmp_path / "live"), terms(policies=POLICIES, close_rows=60)) as writer:
        writer.step(table, now=table["arrival"][-1].as_py(), positions={"rows": len(table)})
        writer.step(REPORTS.empty_table(), now=writer.now + HOUR)
    live = LiveHistory(tmp_path / "live").current()
    with (tmp_path / "export").open("wb") as sink:
        export(live, format, sink)
    named = {"parquet": "export.parquet", "otlp": "export.jsonl"}[format]
    (tmp_path / "export").rename(tmp_path / named)
    observe(None, [str(tmp_path / named)], tmp_path / "back", format="otlp" if format == "otlp" else None, eps=EPS)
    back = open_history(tmp_path / "back")
    assert arrivals(back) == dict(zip(table["id"].to_pylist(), table["arrival"].to_pylist(), strict=True))
    redeliver(back.run, tmp_path / "copy", Delivering(POLICIES, delta=DELTA, as_known=True), eps=EPS)
    copy = open_history(tmp_path / "copy")
    for policy in ("exact", "cbd-0.5"):
        assert deliveries(copy, policy) == deliveries(live, policy)
