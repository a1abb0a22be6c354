"""What each reader of a format takes of the CPU for a record, against its exact reader and against ``json.loads``.

A record is a span, or a line of a log.

To measure another format, add it to `formats`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from benchmarks.otlp_traces import Json, document, json_lines, protobuf, requests
from benchmarks.readers_logs import cases as log_cases
from benchmarks.readers_text import cases as text_cases
from benchmarks.report import Goal, Section
from benchmarks.span_files import jaeger, jaeger_lines, zipkin, zipkin_lines
from ledto.sources import Source
from ledto.sources.conformance import piece_of
from ledto.sources.jaeger.source import Jaeger
from ledto.sources.otlp import Otlp
from ledto.sources.zipkin.source import Zipkin

SPANS = 16_000
ROUNDS = 3
GOAL_US = 10.0
"""What a line of the text formats that have a goal may take: 100,000 lines a second."""


@dataclass(frozen=True)
class Format:
    """A format to measure, with a file of it."""

    name: str
    data: bytes
    records: int
    record: str
    """What one record is called."""
    source: Source
    exact: Source | None = None
    """The source without its quick reader, if it has one."""
    goal_us: float | None = None
    """What a record may take of the CPU at most."""


def formats() -> list[Format]:
    """The formats that are measured."""
    logs = [Format(name, data, data.count(b"\n"), "line", source) for name, data, source in log_cases()]
    text = [
        Format(name, data, data.count(b"\n"), "line", source, goal_us=GOAL_US if _has_goal(name) else None)
        for name, data, source in text_cases()
    ]
    return [*_span_formats(requests(SPANS)), *logs, *text]


def _has_goal(name: str) -> bool:
    return name.startswith(("csv", "logfmt", "json, "))


def _span_formats(made: list[Json]) -> list[Format]:
    spans = sum(len(scope["spans"]) for each in made for one in each["resourceSpans"] for scope in one["scopeSpans"])
    jaeger_both, zipkin_both = (Jaeger(), Jaeger(exact=True)), (Zipkin(), Zipkin(exact=True))
    otlp_both = (Otlp(), Otlp(exact=True))
    return [
        Format("jaeger, a document", jaeger(made), spans, "span", *jaeger_both),
        Format("jaeger, pretty-printed", jaeger(made, indent=2), spans, "span", *jaeger_both),
        Format("jaeger, a trace a line", jaeger_lines(made), spans, "span", *jaeger_both),
        Format("zipkin, a list", zipkin(made), spans, "span", *zipkin_both),
        Format("zipkin, a span a line", zipkin_lines(made), spans, "span", *zipkin_both),
        Format("otlp, JSON lines", json_lines(made), spans, "span", *otlp_both),
        Format("otlp, a JSON document", document(made), spans, "span", *otlp_both),
        Format("otlp, protobuf", protobuf(made), spans, "span", *otlp_both),
    ]


def section() -> Section:
    """Measure all of them."""
    return compared(formats())


def compared(found: list[Format]) -> Section:
    """The table for these formats."""
    rows, goals = [], []
    for each in found:
        own, exact, loaded = (value / each.records * 1e6 for value in _measured(each))
        rows.append(
            (
                each.name,
                each.record,
                round(len(each.data) / each.records),
                own,
                round(1e6 / own),
                f"{exact / own:.1f}x" if exact else "",
                f"{loaded / own:.2f}x" if loaded else "",
            )
        )
        print(f"  {each.name}: {own:.1f} us a {each.record}, exact {exact:.1f}, json.loads {loaded:.1f}", flush=True)
        if each.goal_us is not None:
            text = f"{each.name}: at most {each.goal_us:g} us of CPU a {each.record}"
            goals.append(Goal(text, f"{own:.1f}", own <= each.goal_us))
    return Section(
        "Readers",
        "One process reads a file of each format into Arrow batches. CPU time, least of "
        f"{ROUNDS} rounds in which the ways took turns. *Exact* is the same source without its quick reader; *json.loads* makes "
        "dictionaries of the same bytes and nothing more.",
        ("format", "record", "bytes a record", "CPU, us a record", "records/s of a core", "of exact", "of json.loads"),
        rows,
        goals,
    )


def _measured(each: Format) -> tuple[float, float, float]:
    """Seconds of CPU with the source, with its exact reader, and with ``json.loads``; 0 where there is no such way."""
    ways: list[Callable[[], object] | None] = [
        lambda: _read(each.source, each.data),
        None if each.exact is None else lambda: _read(each.exact, each.data),
        (lambda: _loaded(each.data)) if each.data[:1] in b"[{" else None,
    ]
    seconds: list[list[float]] = [[] for _ in ways]
    for _ in range(ROUNDS):
        for found, way in zip(seconds, ways, strict=True):
            if way is not None:
                start = time.process_time()
                way()
                found.append(time.process_time() - start)
    own, exact, loaded = (min(found, default=0.0) for found in seconds)
    return own, exact, loaded


def _read(source: Source | None, data: bytes) -> int:
    assert source is not None
    return sum(batch.num_rows for batch in source.read(piece_of(data)))


def _loaded(data: bytes) -> None:
    """Parse a document, or each line if the first line is one by itself; lines that are no JSON are passed over."""
    first = data[: data.find(b"\n") + 1].strip()
    if first in (b"", b"{", b"["):
        json.loads(data)
    else:
        for line in data.splitlines():
            with suppress(ValueError):
                json.loads(line)
