r"""Take reports over HTTP; give answers about a live history, and its new events to subscribers.

Applications send reports to the collector, which answers once the broker has stored them. The stream reads the broker and
writes the history. Questions and subscriptions read the history. One request and its answer::

    POST /v1/reports
    {"process": "shop", "seq": 2, "kind": "send", "message": "m1", "name": "order placed"}

    {"reports": 1, "quarantined": 0, "first_quarantined": []}

No module here imports Spark: the stream is another process.
"""
