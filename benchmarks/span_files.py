"""The traces of `benchmarks.otlp_traces` as Jaeger and Zipkin would write them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from benchmarks.otlp import values_of

Json = dict[str, Any]

_KINDS = {2: "SERVER", 3: "CLIENT"}


def jaeger(requests: list[Json], *, indent: int | None = None) -> bytes:
    """The traces as Jaeger's API answers them, all in one document."""
    traces: dict[str, Json] = {}
    for resource, span in _spans(requests):
        trace = traces.setdefault(span["traceId"], {"traceID": span["traceId"], "spans": [], "processes": {}})
        process = {"serviceName": resource.pop("service.name"), "tags": _tags(resource)}
        processes = trace["processes"]
        name = next((key for key, known in processes.items() if known == process), f"p{len(processes) + 1}")
        processes[name] = process
        trace["spans"].append(_jaeger_span(span, name))
    answer = {"data": [*traces.values()], "total": 0, "limit": 0, "offset": 0, "errors": None}
    return json.dumps(answer, indent=indent, separators=None if indent else (",", ":")).encode()


def jaeger_lines(requests: list[Json]) -> bytes:
    """The same, one trace a line."""
    traces = json.loads(jaeger(requests))["data"]
    return b"".join(json.dumps(trace, separators=(",", ":")).encode() + b"\n" for trace in traces)


def zipkin(requests: list[Json]) -> bytes:
    """The spans as one list, as a reporter posts them."""
    return json.dumps([_zipkin_span(*found) for found in _spans(requests)], separators=(",", ":")).encode()


def zipkin_lines(requests: list[Json]) -> bytes:
    """One span a line."""
    made = (_zipkin_span(*found) for found in _spans(requests))
    return b"".join(json.dumps(span, separators=(",", ":")).encode() + b"\n" for span in made)


def _spans(requests: list[Json]) -> Iterator[tuple[Json, Json]]:
    """The attributes of its resource, and the span."""
    for request in requests:
        for resource_spans in request["resourceSpans"]:
            for scope in resource_spans["scopeSpans"]:
                for span in scope["spans"]:
                    yield values_of(resource_spans["resource"]["attributes"]), span


def _jaeger_span(span: Json, process: str) -> Json:
    trace, attributes = span["traceId"], values_of(span["attributes"])
    attributes["span.kind"] = _KINDS[span["kind"]].lower()
    if span["status"]:
        attributes |= {"otel.status_code": "ERROR", "error": True}
    references = [{"refType": "FOLLOWS_FROM", "traceID": link["traceId"], "spanID": link["spanId"]}
                  for link in span.get("links", ())]  # fmt: skip
    if span["parentSpanId"]:
        references.insert(0, {"refType": "CHILD_OF", "traceID": trace, "spanID": span["parentSpanId"]})
    start = int(span["startTimeUnixNano"]) // 1_000
    return {
        "traceID": trace,
        "spanID": span["spanId"],
        "operationName": span["name"],
        "references": references,
        "startTime": start,
        "duration": int(span["endTimeUnixNano"]) // 1_000 - start,
        "tags": _tags(attributes),
        "logs": [
            {
                "timestamp": int(event["timeUnixNano"]) // 1_000,
                "fields": _tags({"event": event["name"], **values_of(event["attributes"])}),
            }
            for event in span.get("events", ())
        ],
        "processID": process,
        "warnings": None,
    }


def _tags(values: Json) -> list[Json]:
    kinds = {bool: "bool", int: "int64", float: "float64", str: "string"}
    return [{"key": key, "type": kinds[type(value)], "value": value} for key, value in values.items()]


def _zipkin_span(resource: Json, span: Json) -> Json:
    start = int(span["startTimeUnixNano"]) // 1_000
    tags = {key: json.dumps(value).strip('"') for key, value in values_of(span["attributes"]).items()}
    if span["status"]:
        tags["error"] = span["status"]["message"]
    made: Json = {
        "traceId": span["traceId"],
        "id": span["spanId"],
        "kind": _KINDS[span["kind"]],
        "name": span["name"],
        "timestamp": start,
        "duration": int(span["endTimeUnixNano"]) // 1_000 - start,
        "localEndpoint": {"serviceName": resource["service.name"], "ipv4": f"10.0.0.{resource['process.pid']}"},
        "tags": tags,
    }
    if span["parentSpanId"]:
        made["parentId"] = span["parentSpanId"]
    if "events" in span:
        made["annotations"] = [
            {"timestamp": int(event["timeUnixNano"]) // 1_000, "value": event["name"]} for event in span["events"]
        ]
    return made
