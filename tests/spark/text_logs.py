"""The same events, and the same spans, written in every text format, with large texts that repeat."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.history.computations import Event

TEXTS = [
    f"{number:05d} " + "".join(Random(number).choices("abcdefghijklmnopqrstuvwxyz", k=200)) for number in range(2_000)
]
"""Together they fill a dictionary of 400 kB, more than compressors take at once."""

Past = dict[str, int]
"""How many events of each process happened before an event, itself included."""


def text_of(at: int) -> str:
    return TEXTS[at % len(TEXTS)]


def pasts(events: Sequence[Event]) -> Iterator[Past]:
    """The past of each event, by following every edge; its causes must come before it."""
    known: dict[tuple[str, int], Past] = {}
    for event in events:
        past: Past = {}
        for cause in [*event.causes, *([event.previous] if event.previous else [])]:
            for process, count in known[cause.process, cause.number].items():
                past[process] = max(past.get(process, 0), count)
        known[event.process, event.number] = past = past | {event.process: event.number}
        yield past


def own_lines(folder: Path, events: Sequence[Event]) -> Path:
    def line(at: int, event: Event) -> dict[str, Any]:
        fields: dict[str, Any] = {"process": event.process, "seq": event.number, "time": event.time}
        fields |= {"name": text_of(at), "note": text_of(at + 1)}
        fields |= {"sends": event.sends} if event.sends else {}
        return fields | ({"receives": event.receives} if event.receives else {})

    return written(folder / "log.jsonl", (line(*each) for each in enumerate(events)))


def mapped_lines(folder: Path, events: Sequence[Event]) -> Path:
    (folder / "mapping.toml").write_text(
        'process = "who"\nseq = "n"\ntime = { from = "at", unit = "ns" }\nname = "what"\n\n'
        '[default]\nsends = { from = "out", optional = true }\nreceives = { from = "in", optional = true }\n'
    )

    def line(at: int, event: Event) -> dict[str, Any]:
        fields: dict[str, Any] = {"who": event.process, "n": event.number, "at": event.time, "what": text_of(at)}
        fields |= {"out": event.sends} if event.sends else {}
        return fields | ({"in": event.receives} if event.receives else {})

    return written(folder / "log.ndjson", (line(*each) for each in enumerate(events)))


def tracing_lines(folder: Path, events: Sequence[Event]) -> Path:
    def line(at: int, event: Event, clock: Past) -> dict[str, Any]:
        body = {"Note": text_of(at)}
        return {"TracerIdentity": event.process, "TraceID": 7, "Tag": "Step", "Body": body, "VectorClock": clock}

    stamped = zip(range(len(events)), events, pasts(events), strict=True)
    return written(folder / "log.jsonl", (line(*each) for each in stamped))


def shiviz_text(folder: Path, events: Sequence[Event]) -> Path:
    path = folder / "log.log"
    with path.open("w") as file:
        for at, event, clock in zip(range(len(events)), events, pasts(events), strict=True):
            file.write(f"{event.time} {event.process} {json.dumps(clock)}\n{text_of(at)}\n")
    return path


def written(path: Path, records: Iterable[dict[str, Any]]) -> Path:
    with path.open("w") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    return path


FORMATS: dict[str, tuple[Callable[[Path, Sequence[Event]], Path], dict[str, Any]]] = {
    "ledto": (own_lines, {}),
    "mapped": (mapped_lines, {"mapping": "mapping.toml"}),
    "shiviz": (shiviz_text, {"regex": r"(?<timestamp>\d+) (?<host>\S*) (?<clock>{.*})\n(?<event>.*)"}),
    "tracing": (tracing_lines, {}),
}


def write_events(format: str, folder: Path, events: Sequence[Event]) -> tuple[Path, dict[str, Any]]:
    """Write the events; give the file, and the options that it is read with."""
    write, options = FORMATS[format]
    path = write(folder, events)
    return path, options | ({"mapping": str(folder / "mapping.toml")} if "mapping" in options else {})


SPANS = ("web", None, "SERVER"), ("web", 0, "CLIENT"), ("stock", 1, "SERVER")
"""Of each trace: service, parent, and kind. Each waits for the next, so that its six events are one chain."""


def spans(traces: int) -> Iterator[dict[str, Any]]:
    for trace in range(traces):
        for place, (service, parent, kind) in enumerate(SPANS):
            start = 1_700_000_000_000_000 + 1_000 * trace + 10 * place
            yield (
                {"trace": f"{trace + 1:032x}", "id": span_id(trace, place), "service": service, "kind": kind}
                | {"parent": None if parent is None else span_id(trace, parent)}
                | {"name": text_of(3 * trace + place), "start": start, "duration": 100 - 20 * place}
            )


def span_id(trace: int, place: int) -> str:
    return f"{trace * len(SPANS) + place + 1:016x}"


def otlp_text(folder: Path, traces: int) -> Path:
    def request(each: dict[str, Any]) -> dict[str, Any]:
        span = {"traceId": each["trace"], "spanId": each["id"], "parentSpanId": each["parent"] or ""}
        span |= {"name": each["name"], "kind": {"SERVER": 2, "CLIENT": 3}[each["kind"]]}
        times = {"startTimeUnixNano": each["start"], "endTimeUnixNano": each["start"] + each["duration"]}
        span |= {name: str(1_000 * time) for name, time in times.items()}
        service = {"attributes": [{"key": "service.name", "value": {"stringValue": each["service"]}}]}
        return {"resourceSpans": [{"resource": service, "scopeSpans": [{"spans": [span]}]}]}

    return written(folder / "spans.jsonl", (request(each) for each in spans(traces)))


def jaeger_text(folder: Path, traces: int) -> Path:
    by_trace: dict[str, list[dict[str, Any]]] = {}
    for each in spans(traces):
        parent = {"refType": "CHILD_OF", "traceID": each["trace"], "spanID": each["parent"]}
        by_trace.setdefault(each["trace"], []).append(
            {"traceID": each["trace"], "spanID": each["id"], "operationName": each["name"]}
            | {"startTime": each["start"], "duration": each["duration"], "processID": each["service"]}
            | {"references": [parent] if each["parent"] else []}
            | {"tags": [{"key": "span.kind", "type": "string", "value": each["kind"].lower()}]}
        )
    processes = {name: {"serviceName": name} for name in ("web", "stock")}
    documents = [{"traceID": name, "spans": found, "processes": processes} for name, found in by_trace.items()]
    return written(folder / "spans.json", [{"data": documents}])


def zipkin_text(folder: Path, traces: int) -> Path:
    def span(each: dict[str, Any]) -> dict[str, Any]:
        found = {"traceId": each["trace"], "id": each["id"], "name": each["name"], "kind": each["kind"]}
        found |= {"timestamp": each["start"], "duration": each["duration"]}
        found |= {"localEndpoint": {"serviceName": each["service"]}}
        return found | ({"parentId": each["parent"]} if each["parent"] else {})

    path = folder / "spans.json"
    path.write_text(json.dumps([span(each) for each in spans(traces)]))
    return path


TRACE_FORMATS: dict[str, Callable[[Path, int], Path]] = {
    "otlp": otlp_text,
    "jaeger": jaeger_text,
    "zipkin": zipkin_text,
}
