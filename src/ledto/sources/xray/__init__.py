"""Read segments of AWS X-Ray.

One literal segment, which is one line of a file; `ledto.sources.spans` says what the rows of a span are::

    {"trace_id": "1-5f84c7a1-e7d1852db8c4fd35d88bf49a", "id": "7df694142c905d8d", "name": "shop",
     "start_time": 1602537377.017, "end_time": 1602537377.254,
     "subsegments": [{"id": "54cd9a7ca5e4b5b2", "name": "stock", "namespace": "remote",
                      "start_time": 1602537377.031, "end_time": 1602537377.240}]}
"""
