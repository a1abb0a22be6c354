"""OpenTelemetry's traces and logs, as OTLP writes them: bytes of a file in, rows of `ledto.events.schema.REPORTS` out.

`source` has the source, and `shape` tells the shapes of files apart. `walk` finds the records in JSON, `frames` those in
protobuf. Each record is read into a value of `model`: by `json_records` (msgspec) or `protobuf` (OpenTelemetry's classes) if
it is as exporters write it, and else by `exact`, with `values`, which knows every spelling and says what is wrong. What a
record means is said once, in `records` and, for events that ledto itself exported, in `own`. A test holds the quick and the
exact way equal.

One literal span, as its two rows (without columns that are null and the place in the file; ids shortened)::

    {"computation": "", "process": "cart@pod-7", "time": 1544712660000000000, "kind": "receive",
     "sends": "span 5b8e/eee1", "receives": "span 5b8e/0a01", "id": "eee1/start", "name": "GET /cart starts",
     "line": "5b8e/eee1", "line_parent": "5b8e/0a01", "line_phase": "start"}
    {"computation": "", "process": "cart@pod-7", "time": 1544712661000000000, "kind": "send",
     "sends": "ledto:answer to 5b8e/0a01", "receives": "ledto:answer to 5b8e/eee1", "id": "eee1",
     "name": "GET /cart ends", "attributes": "{...}", "line": "5b8e/eee1", "line_phase": "end",
     "line_since": 1544712660000000000}
"""

from ledto.sources.otlp.source import Otlp

__all__ = ["Otlp"]
