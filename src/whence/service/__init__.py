r"""Takes reports over HTTP and a live history; gives answers, and events to those who wait for them.

Applications send to the collector, which answers when the broker has stored what they sent; the stream reads the broker and
writes the history; questions and subscriptions read the history. One literal request and its answer::

    POST /v1/reports
    {"process": "shop", "seq": 2, "kind": "send", "message": "m1", "name": "order placed"}

    {"reports": 1, "set_aside": 0, "first_set_aside": []}

A module here never imports Spark: the stream is another process.
"""
