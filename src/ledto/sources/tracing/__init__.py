r"""Read files of the DistributedClocks tracing server: JSON lines with a vector clock for each event.

Take bytes of a file; give rows of `ledto.events.schema.REPORTS`. One literal line, and its row, without columns that
are null::

    {"TracerIdentity": "shop", "TraceID": 7, "Tag": "OrderPlaced", "Body": {"Order": 12}, "VectorClock": {"shop": 2}}

    {"computation": "", "process": "shop", "seq": 2, "kind": "local", "sends": "stamp of shop:2", "name": "OrderPlaced",
     "stamp": "{\"clock\":\"vector\",\"counters\":{\"shop\": 2}}", "attributes": "{\"Order\": 12,\"TraceID\":\"7\"}",
     "file": "trace.log", "place": 1}
"""
