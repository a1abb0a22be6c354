"""Logs of several epochs, with large texts that repeat, in every text format, compared with what was drawn."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ledto.causality.vector_clocks import vector_clocks
from ledto.history.recorded import recorded_past
from ledto.history.run import Run, open_run
from ledto.history.store import Store
from ledto.sources import SOURCES, SourceError
from ledto.sources.mapping.builtin import BUILT_IN
from ledto.sources.records.formats import RECORD_FORMATS
from ledto.spark import engine
from tests.history.computations import draw
from tests.spark.running import observe
from tests.spark.text_logs import FORMATS, SPANS, TRACE_FORMATS, Past, pasts, span_id, text_of, write_events

EPOCH_ROWS = 1_000
EVENTS = draw(Random(5), processes=5, events=6_000, skew=40, loss=0)
TRACES = 1_000
TRUTH = {(event.process, event.number): past for event, past in zip(EVENTS, pasts(EVENTS), strict=True)}


def opened(path: Path) -> Run:
    return open_run(Store(path))


def pasts_of(run: Run) -> dict[tuple[str, int], Past]:
    """The same as `TRUTH`, from the clocks that the history's segments give."""
    names = run.processes.table["process"].to_pylist()
    found: dict[tuple[str, int], Past] = {}
    for number in range(len(run.segments)):
        rows = int(run.segments.rows[number])
        clocks = vector_clocks(run.skeleton(number, 0, rows), run.boundary(number))
        columns = [names[code] for code in run.segments.codes_of(number)]
        for row, each in enumerate(run.events(number, ["process", "seq"], 0, rows).to_pylist()):
            known = np.flatnonzero(clocks[row])
            found[each["process"], each["seq"]] = {columns[at]: int(clocks[row, at]) for at in known}
    return found


@pytest.mark.parametrize("format", FORMATS)
def test_events_of_several_epochs_have_their_true_pasts(session, tmp_path: Path, monkeypatch, format: str) -> None:
    """A user's log of more than one epoch would end the run with an error about corrupt data, or have other causes."""
    monkeypatch.setattr(engine, "MOST_READ", 1_000)  # Small files, which tasks read all the same.
    readers, read_windows = [], engine._read_windows
    monkeypatch.setattr(engine, "_read_windows", lambda *given: readers.append(1) or read_windows(*given))
    path, options = write_events(format, tmp_path, EVENTS)
    given: dict[str, Any] = {"format": format, "options": options, "epoch_rows": EPOCH_ROWS}
    has_times = format != "tracing"
    manifest = observe(session, [str(path)], tmp_path / "h", **given)
    if session is not None:
        assert bool(readers) == has_times, "tasks read what was staged"
    assert manifest.ledger.delivered == manifest.ledger.reports == len(EVENTS)
    assert (manifest.segments > 3) == has_times, "without times nothing can be cut"
    assert pasts_of(opened(tmp_path / "h")) == TRUTH
    shown = texts_of(opened(tmp_path / "h"), "name" if has_times else "attributes")
    assert all(text_of(at) in shown[event.process, event.number] for at, event in enumerate(EVENTS))


def test_tasks_of_spark_read_what_was_staged(spark, tmp_path: Path, monkeypatch) -> None:
    """One format of those above on Spark in every run: its tasks read the text of their epochs for themselves."""
    test_events_of_several_epochs_have_their_true_pasts(spark, tmp_path, monkeypatch, "ledto")


def texts_of(run: Run, column: str) -> dict[tuple[str, int], str]:
    found: dict[tuple[str, int], str] = {}
    for number in range(len(run.segments)):
        table = run.events(number, ["process", "seq", column], 0, int(run.segments.rows[number]))
        found |= {(row["process"], row["seq"]): row[column] for row in table.to_pylist()}
    return found


@pytest.mark.parametrize("format", TRACE_FORMATS)
def test_spans_of_several_windows_have_their_true_pasts(session, tmp_path: Path, format: str) -> None:
    """A user's day of traces is read in many parts; a span would have causes of another trace, or lose its own."""
    path = TRACE_FORMATS[format](tmp_path, TRACES)
    manifest = observe(session, [str(path)], tmp_path / "h", format=format, epoch_rows=EPOCH_ROWS)
    assert manifest.segments > 3
    assert manifest.computations == 1
    assert manifest.ledger.delivered == manifest.ledger.reports == 2 * len(SPANS) * TRACES
    run = opened(tmp_path / "h")
    shown: dict[str, dict[str, str]] = {}
    position: dict[str, int] = {}
    for number in range(len(run.segments)):
        first, rows = int(run.segments.first_position[number]), int(run.segments.rows[number])
        for row, each in enumerate(run.events(number, ["line", "id", "name"], 0, rows).to_pylist()):
            shown.setdefault(each["line"].partition("/")[0], {})[each["id"]] = each["name"]
            position[each["id"]] = first + row
    for trace in range(TRACES):
        ids = [span_id(trace, place) for place in range(len(SPANS))]
        texts = [text_of(3 * trace + place) for place in range(len(SPANS))]
        starts = {f"{each}/start": f"{text} starts" for each, text in zip(ids, texts, strict=True)}
        ends = {each: f"{text} ends" for each, text in zip(ids, texts, strict=True)}
        assert shown[f"{trace + 1:032x}"] == starts | ends
        chain = [*starts, *reversed(ends)]
        last = np.array([position[chain[-1]]], np.int64)
        # With the answers that are assumed, all of a trace led to its end; without them, the server's end did not.
        past = np.sort(np.concatenate([*recorded_past(run, last, answered=True)]))
        assert past.tolist() == [position[each] for each in chain]
        past = np.sort(np.concatenate([*recorded_past(run, last)]))
        assert past.tolist() == [position[chain[0]], position[chain[-1]]]


def test_every_text_format_is_here() -> None:
    """The next format would be let through without a log of several epochs."""
    # These are read by the class of `mapped`, and X-Ray as Zipkin is.
    same = {*RECORD_FORMATS, *BUILT_IN, "xray"}
    assert {*FORMATS, *TRACE_FORMATS} == set(SOURCES) - same


def test_parquet_that_only_spark_can_read_is_refused_by_name(spark, tmp_path: Path) -> None:
    """Spark's own lz4 is read by no other reader; a user who wrote his log with it would be told of corrupt data."""
    pq.write_table(pa.table({"process": ["p"], "time": [1]}), tmp_path / "log.parquet")
    folder = str(tmp_path / "lz4")
    spark.read.parquet(str(tmp_path / "log.parquet")).write.option("compression", "lz4").parquet(folder)
    with pytest.raises(SourceError, match=r"lz4.*write it again with zstd"):
        observe(spark, [folder], tmp_path / "h")
