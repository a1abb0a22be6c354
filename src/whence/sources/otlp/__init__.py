"""OpenTelemetry's traces and logs, as OTLP writes them: bytes of a file in, rows of `whence.events.schema.REPORTS` out.

`source` has the source, and `shape` tells the shapes of files apart. `values`, `records` and `own` say what a record
means, from the fields of OTLP's JSON mapping; `walk` brings them the records of JSON, `frames` and `wire` those of protobuf.
That is the exact reader. Beside it stand compiled scanners (`json_scan` and `wire_scan`, with what they need), which take
what is as exporters write it and leave all else to the exact reader; `table` makes batches of both. A test holds the two
ways equal.

One literal span, as its two rows (columns that are null left out, ids shortened)::

    {"computation": "5b8e", "process": "cart@pod-7", "time": 1544712660000000000, "kind": "receive",
     "sends": "span 5b8e/eee1", "id": "eee1/start", "name": "GET /cart starts", "instance_key": "eee1",
     "instance_phase": "start"}
    {"computation": "5b8e", "process": "cart@pod-7", "time": 1544712661000000000, "kind": "send", "id": "eee1",
     "name": "GET /cart ends", "attributes": "{...}", "instance_key": "eee1", "instance_phase": "answers"}
"""

from whence.sources.otlp.source import Otlp

__all__ = ["Otlp"]
