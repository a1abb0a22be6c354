"""Logs of several epochs, with large texts that repeat, in every text format, compared with what was drawn."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.history.computations import Event, draw
from tests.spark.running import observe
from whence.causality.clocks import vector_clocks
from whence.history.reading import Run, open_run
from whence.history.storage import Store
from whence.sources import SOURCES, SourceError
from whence.spark import engine

EPOCH_ROWS = 1_000
EVENTS = draw(Random(5), processes=5, events=6_000, skew=40, loss=0)
TEXTS = [
    f"{number:05d} " + "".join(Random(number).choices("abcdefghijklmnopqrstuvwxyz", k=200)) for number in range(2_000)
]
"""Together they fill a dictionary of 400 kB, more than compressors take at once."""
TRACES = 1_000

Past = dict[str, int]
"""How many events of each process happened before an event, itself included."""


def text_of(at: int) -> str:
    return TEXTS[at % len(TEXTS)]


def true_pasts() -> dict[tuple[str, int], Past]:
    """By process and number: the past of each drawn event, by following every edge."""
    found: dict[tuple[str, int], Past] = {}
    for event in EVENTS:
        causes = [*event.causes, *([event.previous] if event.previous else [])]
        past: Past = {}
        for cause in causes:
            for process, count in found[cause.process, cause.number].items():
                past[process] = max(past.get(process, 0), count)
        found[event.process, event.number] = past | {event.process: event.number}
    return found


TRUTH = true_pasts()


def own_lines(folder: Path) -> Path:
    def line(at: int, event: Event) -> dict[str, Any]:
        fields: dict[str, Any] = {"process": event.process, "seq": event.number, "time": event.time}
        fields |= {"name": text_of(at), "note": text_of(at + 1)}
        fields |= {"sends": event.sends} if event.sends else {}
        return fields | ({"receives": event.receives} if event.receives else {})

    return written(folder / "log.jsonl", [line(*each) for each in enumerate(EVENTS)])


def mapped_lines(folder: Path) -> Path:
    (folder / "mapping.toml").write_text(
        'process = "who"\nseq = "n"\ntime = { from = "at", unit = "ns" }\nname = "what"\n\n'
        '[default]\nsends = { from = "out", optional = true }\nreceives = { from = "in", optional = true }\n'
    )

    def line(at: int, event: Event) -> dict[str, Any]:
        fields: dict[str, Any] = {"who": event.process, "n": event.number, "at": event.time, "what": text_of(at)}
        fields |= {"out": event.sends} if event.sends else {}
        return fields | ({"in": event.receives} if event.receives else {})

    return written(folder / "log.ndjson", [line(*each) for each in enumerate(EVENTS)])


def tracing_lines(folder: Path) -> Path:
    def line(at: int, event: Event) -> dict[str, Any]:
        clock = TRUTH[event.process, event.number]
        body = {"Note": text_of(at)}
        return {"TracerIdentity": event.process, "TraceID": 7, "Tag": "Step", "Body": body, "VectorClock": clock}

    return written(folder / "log.jsonl", [line(*each) for each in enumerate(EVENTS)])


def shiviz_text(folder: Path) -> Path:
    def block(at: int, event: Event) -> str:
        return f"{event.time} {event.process} {json.dumps(TRUTH[event.process, event.number])}\n{text_of(at)}\n"

    path = folder / "log.log"
    path.write_text("".join(block(*each) for each in enumerate(EVENTS)))
    return path


def written(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def opened(path: Path) -> Run:
    return open_run(Store(path))


def pasts_of(run: Run) -> dict[tuple[str, int], Past]:
    """The same as `true_pasts`, from the clocks that the history's segments give."""
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


FORMATS: dict[str, tuple[Callable[[Path], Path], dict[str, Any]]] = {
    "whence": (own_lines, {}),
    "mapped": (mapped_lines, {"mapping": "mapping.toml"}),
    "shiviz": (shiviz_text, {"regex": r"(?<timestamp>\d+) (?<host>\S*) (?<clock>{.*})\n(?<event>.*)"}),
    "tracing": (tracing_lines, {}),
}


@pytest.mark.parametrize("format", FORMATS)
def test_events_of_several_epochs_have_their_true_pasts(spark, tmp_path: Path, monkeypatch, format: str) -> None:
    """A user's log of more than one epoch would end the run with an error about corrupt data, or have other causes."""
    monkeypatch.setattr(engine, "MOST_READ", 1_000)  # Small files, which tasks read all the same.
    readers, read_windows = [], engine._read_windows
    monkeypatch.setattr(engine, "_read_windows", lambda *given: readers.append(1) or read_windows(*given))
    write, options = FORMATS[format]
    path = write(tmp_path)
    options = options | ({"mapping": str(tmp_path / "mapping.toml")} if "mapping" in options else {})
    given: dict[str, Any] = {"format": format, "options": options, "epoch_rows": EPOCH_ROWS}
    has_times = format != "tracing"
    manifest = observe(spark, [str(path)], tmp_path / "h", **given)
    assert bool(readers) == has_times, "tasks read what was staged"
    assert manifest["ledger"]["delivered"] == manifest["ledger"]["reports"] == len(EVENTS)
    assert (manifest["segments"] > 3) == has_times, "without times nothing can be cut"
    assert pasts_of(opened(tmp_path / "h")) == TRUTH
    shown = texts_of(opened(tmp_path / "h"), "name" if has_times else "attributes")
    assert all(text_of(at) in shown[event.process, event.number] for at, event in enumerate(EVENTS))


def texts_of(run: Run, column: str) -> dict[tuple[str, int], str]:
    found: dict[tuple[str, int], str] = {}
    for number in range(len(run.segments)):
        table = run.events(number, ["process", "seq", column], 0, int(run.segments.rows[number]))
        found |= {(row["process"], row["seq"]): row[column] for row in table.to_pylist()}
    return found


SPANS = ("web", None, "SERVER"), ("web", 0, "CLIENT"), ("stock", 1, "SERVER")
"""Of each trace: service, parent, and kind. Each waits for the next, so that its six events are one chain."""


def spans() -> list[dict[str, Any]]:
    found = []
    for trace in range(TRACES):
        for place, (service, parent, kind) in enumerate(SPANS):
            start = 1_700_000_000_000_000 + 1_000 * trace + 10 * place
            found.append(
                {"trace": f"{trace + 1:032x}", "id": span_id(trace, place), "service": service, "kind": kind}
                | {"parent": None if parent is None else span_id(trace, parent)}
                | {"name": text_of(3 * trace + place), "start": start, "duration": 100 - 20 * place}
            )
    return found


def span_id(trace: int, place: int) -> str:
    return f"{trace * len(SPANS) + place + 1:016x}"


def otlp_text(folder: Path) -> Path:
    def request(each: dict[str, Any]) -> dict[str, Any]:
        span = {"traceId": each["trace"], "spanId": each["id"], "parentSpanId": each["parent"] or ""}
        span |= {"name": each["name"], "kind": {"SERVER": 2, "CLIENT": 3}[each["kind"]]}
        times = {"startTimeUnixNano": each["start"], "endTimeUnixNano": each["start"] + each["duration"]}
        span |= {name: str(1_000 * time) for name, time in times.items()}
        service = {"attributes": [{"key": "service.name", "value": {"stringValue": each["service"]}}]}
        return {"resourceSpans": [{"resource": service, "scopeSpans": [{"spans": [span]}]}]}

    return written(folder / "spans.jsonl", [request(each) for each in spans()])


def jaeger_text(folder: Path) -> Path:
    by_trace: dict[str, list[dict[str, Any]]] = {}
    for each in spans():
        parent = {"refType": "CHILD_OF", "traceID": each["trace"], "spanID": each["parent"]}
        by_trace.setdefault(each["trace"], []).append(
            {"traceID": each["trace"], "spanID": each["id"], "operationName": each["name"]}
            | {"startTime": each["start"], "duration": each["duration"], "processID": each["service"]}
            | {"references": [parent] if each["parent"] else []}
            | {"tags": [{"key": "span.kind", "type": "string", "value": each["kind"].lower()}]}
        )
    processes = {name: {"serviceName": name} for name in ("web", "stock")}
    traces = [{"traceID": name, "spans": found, "processes": processes} for name, found in by_trace.items()]
    return written(folder / "spans.json", [{"data": traces}])


def zipkin_text(folder: Path) -> Path:
    def span(each: dict[str, Any]) -> dict[str, Any]:
        found = {"traceId": each["trace"], "id": each["id"], "name": each["name"], "kind": each["kind"]}
        found |= {"timestamp": each["start"], "duration": each["duration"]}
        found |= {"localEndpoint": {"serviceName": each["service"]}}
        return found | ({"parentId": each["parent"]} if each["parent"] else {})

    path = folder / "spans.json"
    path.write_text(json.dumps([span(each) for each in spans()]))
    return path


TRACE_FORMATS: dict[str, Callable[[Path], Path]] = {"otlp": otlp_text, "jaeger": jaeger_text, "zipkin": zipkin_text}


@pytest.mark.parametrize("format", TRACE_FORMATS)
def test_spans_of_several_windows_have_their_true_pasts(spark, tmp_path: Path, format: str) -> None:
    """A user's day of traces is read in many parts; a span would have causes of another trace, or lose its own."""
    path = TRACE_FORMATS[format](tmp_path)
    manifest = observe(spark, [str(path)], tmp_path / "h", format=format, epoch_rows=EPOCH_ROWS)
    assert manifest["segments"] > 3
    assert manifest["computations"] == TRACES
    assert manifest["ledger"]["delivered"] == manifest["ledger"]["reports"] == 2 * len(SPANS) * TRACES
    run = opened(tmp_path / "h")
    chains: dict[str, list[tuple[int, str, str]]] = {}
    for number in range(len(run.segments)):
        rows = int(run.segments.rows[number])
        clocks = vector_clocks(run.skeleton(number, 0, rows), run.boundary(number))
        for row, each in enumerate(run.events(number, ["computation", "id", "name"], 0, rows).to_pylist()):
            chains.setdefault(each["computation"], []).append((int(clocks[row].sum()), each["id"], each["name"]))
    for trace in range(TRACES):
        ids = [span_id(trace, place) for place in range(len(SPANS))]
        texts = [text_of(3 * trace + place) for place in range(len(SPANS))]
        starts = [(f"{each}/start", f"{text} starts") for each, text in zip(ids, texts, strict=True)]
        ends = [(each, f"{text} ends") for each, text in zip(ids, texts, strict=True)]
        chain = [*starts, *reversed(ends)]
        assert sorted(chains[f"{trace + 1:032x}"]) == [(at + 1, *each) for at, each in enumerate(chain)]


def test_every_text_format_is_here() -> None:
    """The next format would be let through without a log of several epochs."""
    assert {*FORMATS, *TRACE_FORMATS} == set(SOURCES)


def test_parquet_that_only_spark_can_read_is_refused_by_name(spark, tmp_path: Path) -> None:
    """Spark's own lz4 is read by no other reader; a user who wrote his log with it would be told of corrupt data."""
    pq.write_table(pa.table({"process": ["p"], "time": [1]}), tmp_path / "log.parquet")
    folder = str(tmp_path / "lz4")
    spark.read.parquet(str(tmp_path / "log.parquet")).write.option("compression", "lz4").parquet(folder)
    with pytest.raises(SourceError, match=r"lz4.*write it again with zstd"):
        observe(spark, [folder], tmp_path / "h")
