"""Log records with the id of a trace, of processes that record no messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledto import observe
from ledto.questions import History, Standing
from tests.sources.otlp_requests import NOON_NS, TRACE, Json, attributes, lines, log, of_logs

MS = 1_000_000


def said(service: str, body: str, at_ms: int, trace: str | None = TRACE) -> Json:
    record = log(timeUnixNano=str(NOON_NS + at_ms * MS), body={"stringValue": body}, traceId=trace or ...)
    return of_logs(record, resource={"attributes": attributes(service__name=service)})


def history_of(folder: Path, *requests: Json) -> History:
    (folder / "logs.jsonl").write_bytes(lines(*requests))
    return observe(folder / "logs.jsonl", folder / "history", format="otlp")


@pytest.mark.parametrize("declined_ms", [3, 7])
def test_a_trace_in_two_processes_tells_of_no_order_between_them(declined_ms: int, tmp_path: Path) -> None:
    """Neither clock says whether the card was declined before the order failed; to call them concurrent would be a guess."""
    history = history_of(tmp_path, said("web", "order failed", 5), said("pay", "card declined", declined_ms))
    found = history.related("web:1", "pay:1")
    assert found.relation is Standing.UNKNOWN
    assert {each.process for each in found.missing} == {"web", "pay"}
    assert not history.why("web:1").causes


def test_a_trace_in_one_process_is_a_line(tmp_path: Path) -> None:
    """What one request logs is in order, and what another one logs between is only possible."""
    history = history_of(
        tmp_path,
        said("shop", "card declined", 3),
        said("shop", "card accepted", 4, trace="6" * 32),
        said("shop", "order failed", 5),
    )
    assert history.relation("shop:1", "shop:3") is Standing.BEFORE
    assert history.relation("shop:2", "shop:3") is Standing.POSSIBLE
    assert [event.name for event in history.why("shop:3").causes] == ["card declined"]
