"""Read Jaeger's JSON. Take bytes of a file, give rows of `ledto.events.schema.REPORTS`: two or more for a span.

One literal span, of a trace whose ``processes`` has a ``p1``::

    {"traceID": "5af7183fb1d4cf5f", "spanID": "352bff9a74ca9ad2", "operationName": "GET /stock",
     "startTime": 1700000000000000, "duration": 150000, "processID": "p1"}

`typed` reads usual spans quickly; `exact` reads all others and decides what is wrong. `ledto.sources.spans` has the rows.
"""
