"""Traces as a Collector would write them: 40 services, requests of a few hundred spans grouped by service and library."""

from __future__ import annotations

import base64
import json
from collections import deque
from random import Random
from typing import Any

SERVICES = 40
SPANS_A_REQUEST = 512
MOST_BETWEEN_TRACES_NS = 20_000_000
LINKS_BACK = 1_000
"""Traces back at most that a link leads."""
START_NS = 1_714_564_800_000_000_000

_WORDS = ("cart", "order", "user", "price", "stock", "quote", "ship", "mail", "auth", "search", "media", "review")
_ROUTES = tuple(f"/api/v{version}/{word}s/{{id}}" for version in (1, 2) for word in _WORDS)
_IDS = frozenset({"traceId", "spanId", "parentSpanId"})

Json = dict[str, Any]
Made = tuple[int, int, Json]
"""A service, its library, and the span."""


def requests(
    spans: int, *, seed: int = 1, start_ns: int = START_NS, calls_deep: int = 4, clocks_differ_ns: int = 0
) -> list[Json]:
    """Requests of OTLP, in the JSON mapping, with about this many spans in all.

    Traces have 3.5 spans for each of `calls_deep` on average, and 2.5; one begins every 10 ms. Each service's clock is
    ahead of the truth by up to `clocks_differ_ns`, always by the same.
    """
    maker = _Maker(Random(seed), calls_deep, clocks_differ_ns)
    made: list[Made] = []
    now = start_ns
    found = []
    while spans > 0:
        now += maker.random.randrange(1, MOST_BETWEEN_TRACES_NS)
        made += maker.trace(now)
        if len(made) >= SPANS_A_REQUEST:
            found.append(_request(made))
            spans -= len(made)
            made = []
    return found


def json_lines(found: list[Json]) -> bytes:
    """One request a line, spelled as the file exporter does."""
    return b"".join(json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in found)


def document(found: list[Json]) -> bytes:
    """All in one document."""
    whole = {"resourceSpans": [resource for each in found for resource in each["resourceSpans"]]}
    return json.dumps(whole, indent=2).encode()


def protobuf(found: list[Json]) -> bytes:
    """The same requests as messages, each with its length before it."""
    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    messages = (ParseDict(with_base64_ids(each), ExportTraceServiceRequest()).SerializeToString() for each in found)
    return b"".join(len(message).to_bytes(4, "big") + message for message in messages)


def with_base64_ids(value: Any) -> Any:
    """What protobuf's own JSON mapping wants, which OTLP's departs from in its ids."""
    if isinstance(value, dict):
        return {
            key: base64.b64encode(bytes.fromhex(inner)).decode() if key in _IDS else with_base64_ids(inner)
            for key, inner in value.items()
        }
    return [with_base64_ids(inner) for inner in value] if isinstance(value, list) else value


def _request(made: list[Made]) -> Json:
    grouped: dict[int, dict[int, list[Json]]] = {}
    for service, library, span in made:
        grouped.setdefault(service, {}).setdefault(library, []).append(span)
    return {
        "resourceSpans": [
            {
                "resource": _resource(service),
                "scopeSpans": [
                    {"scope": {"name": f"io.opentelemetry.library-{library}", "version": "2.4.0"}, "spans": spans}
                    for library, spans in libraries.items()
                ],
                "schemaUrl": "https://opentelemetry.io/schemas/1.24.0",
            }
            for service, libraries in grouped.items()
        ]
    }


def _resource(service: int) -> Json:
    name = f"{_WORDS[service % len(_WORDS)]}-{service}"
    return {
        "attributes": _attributes(
            {
                "service.name": name,
                "service.namespace": "shop",
                "service.version": f"1.{service}.0",
                "service.instance.id": f"{name}-7d9f8b6c5-x2x{service}",
                "deployment.environment.name": "production",
                "host.name": f"node-{service % 8}.internal",
                "k8s.namespace.name": "shop",
                "k8s.pod.name": f"{name}-7d9f8b6c5-x2x{service}",
                "process.pid": 1 + service,
                "process.runtime.name": "OpenJDK Runtime Environment",
                "telemetry.sdk.language": "java",
                "telemetry.sdk.name": "opentelemetry",
                "telemetry.sdk.version": "1.38.0",
            }
        )
    }


class _Maker:
    """Makes one trace after the other."""

    def __init__(self, random: Random, calls_deep: int, clocks_differ_ns: int) -> None:
        self.random = random
        self._calls_deep = calls_deep
        # Drawn apart: the traces are the same, whatever the clocks say.
        clocks = Random(0)
        self._ahead_ns = [clocks.randint(0, clocks_differ_ns) for _ in range(SERVICES)]
        self._earlier: deque[tuple[str, str]] = deque(maxlen=LINKS_BACK)
        """First spans of earlier traces, which others link to."""

    def trace(self, start: int) -> list[Made]:
        random = self.random
        trace = f"{random.getrandbits(128) | 1:032x}"
        made: list[Made] = []

        def add(service: int, library: int, parent: str, key: str, kind: int, at: int, end: int, said: Json) -> None:
            ahead = self._ahead_ns[service]
            made.append((service, library, self._span(trace, parent, key, kind, at + ahead, end + ahead, said)))

        def call(service: int, parent: str, at: int, depth: int) -> tuple[str, int]:
            """A server span with its database and its calls; gives its id and when it ends."""
            span = _span_id(random)
            now = at + random.randrange(10_000, 500_000)
            for _ in range(random.randrange(1, 3)):
                end = now + random.randrange(100_000, 3_000_000)
                add(service, 1, span, _span_id(random), 3, now, end, _query(random))
                now = end + random.randrange(1_000, 100_000)
            for _ in range(random.randrange(0, 3) if depth < self._calls_deep else 0):
                client, other = _span_id(random), random.randrange(SERVICES)
                _, answered = call(other, client, now + random.randrange(10_000, 900_000), depth + 1)
                end = answered + random.randrange(10_000, 900_000)
                add(service, 0, span, client, 3, now, end, _http(random, other))
                now = end + random.randrange(1_000, 100_000)
            add(service, 0, parent, span, 2, at, now, _http(random, service))
            return span, now

        first, _ = call(random.randrange(SERVICES), "", start, 0)
        self._earlier.append((trace, first))
        return made

    def _span(self, trace: str, parent: str, key: str, kind: int, start: int, end: int, attributes: Json) -> Json:
        span: Json = {
            "traceId": trace,
            "spanId": key,
            "parentSpanId": parent,
            "flags": 257,
            "name": attributes.get("http.route")
            or f"{attributes['db.operation.name']} {attributes['db.collection.name']}",
            "kind": kind,
            "startTimeUnixNano": str(start),
            "endTimeUnixNano": str(end),
            "attributes": _attributes(attributes),
            "status": {},
        }
        if self.random.random() < 0.1:
            error = {
                "exception.type": "java.net.SocketTimeoutException",
                "exception.message": "Read timed out\n\tat line 7",
            }
            span["events"] = [{"timeUnixNano": str(end - 1_000), "name": "exception", "attributes": _attributes(error)}]
            span["status"] = {"message": 'upstream said "no"', "code": 2}
        if self._earlier and self.random.random() < 0.03:
            linked, first = self._earlier[self.random.randrange(len(self._earlier))]
            span["links"] = [{"traceId": linked, "spanId": first}]
        return span


def _span_id(random: Random) -> str:
    return f"{random.getrandbits(64) | 1:016x}"


def _http(random: Random, service: int) -> Json:
    route = random.choice(_ROUTES)
    return {
        "http.request.method": random.choice(("GET", "POST", "PUT")),
        "http.response.status_code": random.choice((200, 200, 200, 201, 404, 503)),
        "http.route": route,
        "url.path": route.replace("{id}", str(random.randrange(100_000))),
        "url.scheme": "https",
        "server.address": f"{_WORDS[service % len(_WORDS)]}-{service}.shop.svc.cluster.local",
        "server.port": 8443,
        "network.protocol.version": "1.1",
        "network.peer.address": f"10.{random.randrange(256)}.{random.randrange(256)}.{random.randrange(256)}",
        "user_agent.original": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
        "thread.id": random.randrange(1, 200),
        "thread.name": f"http-nio-8443-exec-{random.randrange(1, 200)}",
        "sampling.ratio": random.randrange(1, 1000) / 1000,
    }


def _query(random: Random) -> Json:
    table = random.choice(_WORDS)
    return {
        "db.system.name": "postgresql",
        "db.namespace": "shop",
        "db.operation.name": "SELECT",
        "db.collection.name": f"{table}s",
        "db.query.text": f'SELECT * FROM "{table}s" WHERE id = ? AND state <> ? ORDER BY created LIMIT 20',
        "db.response.returned_rows": random.randrange(20),
        "server.address": "postgres.shop.svc.cluster.local",
        "server.port": 5432,
        "network.peer.address": "10.2.3.4",
        "thread.id": random.randrange(1, 200),
        "thread.name": f"pool-{random.randrange(1, 20)}-thread-{random.randrange(1, 20)}",
        "db.pooled": True,
    }


def _attributes(values: Json) -> list[Json]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: object) -> Json:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    return {"stringValue": value}
