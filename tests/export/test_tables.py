from __future__ import annotations

import csv
import io
import json
from typing import Any

import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from ledto.export.tables import COLUMNS
from tests.export.returning import brought_back, exported, hard_history, parquet_rows, selections
from tests.history.building import UNTIMED, Made


def expected(event: Made, kept: list[Made], *, whole: bool) -> dict[str, Any]:
    """What is true of an event, without what depends on its causes where events are left out."""
    row: dict[str, Any] = {
        "position": event.position,
        "computation": event.computation,
        "process": event.process,
        "seq": event.seq,
        "id": event.key,
        "name": event.name,
        "time": event.time,
        "corrected_time": event.time,
        "causal_time": None if event.causal_time == UNTIMED else event.causal_time,
        "attributes": event.attributes,
        "error": event.error,
        "clock_name": None,
        "missing": None,
        "file": "a.jsonl",
        "source_sends": f"m-{event.key}" if event.kind == "send" else None,
        "source_receives": f"m-{event.causes[0].key}" if event.causes else None,
    }
    if whole:
        effects = [other for other in kept if event in other.causes]
        sends = bool(effects) or event.kind == "send"
        row["sends"] = str(event.position) if sends else None
        row["receives"] = sorted((str(cause.position) for cause in event.causes), key=int) or None
        says = {"send": sends, "receive": bool(event.causes), "local": not event.causes}[event.kind]
        row["kind"] = event.kind if says else "receive" if event.causes else "send" if sends else "local"
    return row


def without_unknown(row: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in wanted}


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_tables_hold_every_event_as_it_is(seed: int) -> None:
    """A value that a quote, a comma, a line end or an empty text changes is a value that somebody acts on."""
    with hard_history(seed) as (history, events, random, _):
        for selection, kept in selections(history, events, random):
            wanted = [expected(event, kept, whole=selection.whole) for event in kept]
            table = pq.read_table(io.BytesIO(exported(history, "parquet", selection=selection)))
            assert table.schema.names == COLUMNS.names
            found = [without_unknown(row, wanted[0]) for row in table.to_pylist()]
            for row in found:
                row["attributes"] = None if row["attributes"] is None else json.loads(row["attributes"])
            assert found == wanted
            text = exported(history, "csv", selection=selection).decode()
            rows = list(csv.DictReader(io.StringIO(text, newline="")))
            assert [*rows[0]] == COLUMNS.names
            for row, full in zip(rows, table.to_pylist(), strict=True):
                full["receives"] = None if full["receives"] is None else json.dumps(full["receives"])
                full["error"] = None if full["error"] is None else str(full["error"]).lower()
                assert row == {name: "" if value is None else str(value) for name, value in full.items()}


def test_an_empty_text_is_not_an_unknown_one() -> None:
    """In CSV, "" is an empty name and nothing is none; and no text is altered, formulas neither."""
    with hard_history(3) as (history, events, _, _):
        lines = exported(history, "csv").decode()
        assert any(event.name == "" for event in events)
        for event in events:
            if event.name in ("", None, "=1+1"):
                shown = {"": '""', None: "", "=1+1": '"=1+1"'}[event.name]
                process = event.process.replace('"', '""')
                assert f'"{process}",{event.seq},"{process}:{event.seq}",{shown},' in lines


def corrected(event: Made, events: list[Made]) -> int | None:
    """Halfway between the largest wall time in its past and the smallest in its future, itself in both."""
    if event.time is None:
        return None
    past = [each.time for each in events if each.happened_before(event) and each.time is not None]
    future = [each.time for each in events if event.happened_before(each) and each.time is not None]
    return (max([*past, event.time]) + min([*future, event.time])) // 2


@settings(max_examples=10)
@given(st.integers(0, 2**32))
def test_corrected_times_stand_beside_wall_times(seed: int) -> None:
    """Whoever sorts by time needs one that no effect has before its cause, and must see how far it was moved."""
    with hard_history(seed) as (history, events, _, folder):
        solved = brought_back(folder / "solved", parquet_rows(exported(history, "parquet")))
        table = pq.read_table(io.BytesIO(exported(solved, "parquet")))
        named = {(event.computation, event.process, event.seq): event for event in events}
        for row in table.to_pylist():
            event = named[row["computation"], row["process"], row["seq"]]
            assert (row["time"], row["corrected_time"]) == (event.time, corrected(event, events))
