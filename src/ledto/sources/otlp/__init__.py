r"""Read OpenTelemetry's traces and logs in OTLP. Take bytes of a file, give rows of `ledto.events.schema.REPORTS`.

`source` has the source, and `framing` recognises the shape of a file. `json_walk` finds the records in JSON,
`protobuf_walk` those in protobuf. Each record becomes a value of `model`: usual ones by `json_typed` (msgspec) or `protobuf`
(OpenTelemetry's classes), all others by `exact`, with `values`, which knows every way to write a field and says what is
wrong. `records` turns these values into rows, and `exported` those of events that ledto itself exported. A test compares
the quick readers with the exact one.

One literal span (ids shortened), and its two rows, without columns that are null::

    {"traceId": "5b8e", "spanId": "eee1", "parentSpanId": "0a01", "name": "GET /cart", "kind": 2,
     "startTimeUnixNano": "1544712660000000000", "endTimeUnixNano": "1544712661000000000"}

    {"computation": "", "process": "cart@pod-7", "time": 1544712660000000000, "kind": "receive",
     "sends": "span 5b8e/eee1", "receives": "span 5b8e/0a01", "id": "eee1/start", "name": "GET /cart starts",
     "attributes": "{\"span.kind\":\"server\"}", "line": "5b8e/eee1", "line_parent": "5b8e/0a01", "line_phase": "start"}
    {"computation": "", "process": "cart@pod-7", "time": 1544712661000000000, "kind": "send",
     "sends": "ledto:answer to 5b8e/0a01", "receives": "ledto:answer to 5b8e/eee1", "id": "eee1",
     "name": "GET /cart ends", "line": "5b8e/eee1", "line_phase": "end", "line_since": 1544712660000000000}
"""

from ledto.sources.otlp.source import Otlp

__all__ = ["Otlp"]
