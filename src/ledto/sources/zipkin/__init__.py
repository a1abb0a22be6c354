"""Read Zipkin's JSON, version 2. Take bytes of a file, give rows of `ledto.events.schema.REPORTS`: two or more for a span.

One literal span::

    {"traceId": "5af7183fb1d4cf5f", "id": "352bff9a74ca9ad2", "kind": "SERVER", "name": "get /stock",
     "timestamp": 1700000000000000, "duration": 150000, "localEndpoint": {"serviceName": "stock"}}

`typed` reads usual spans quickly; `exact` reads all others and decides what is wrong. `ledto.sources.spans` has the rows.
"""
