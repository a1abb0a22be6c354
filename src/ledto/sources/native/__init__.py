r"""Read the format ``ledto``: JSON objects, one on each line. Give rows of `ledto.events.schema.REPORTS`.

One literal line, and its row, without columns that are null::

    {"process": "shop", "seq": 1, "trace_id": "5b8e", "span_id": "eee1"}

    {"computation": "", "process": "shop", "seq": 1, "kind": "local", "line": "5b8e/eee1",
     "attributes": "{\"trace_id\":\"5b8e\",\"span_id\":\"eee1\"}", "file": "shop.jsonl", "place": 1}

`records` is the exact reader and decides what a line means. `scanned` makes the same rows by the compiled scanner
(`ledto.sources.json.scanner`), which leaves unusual lines to `records`.
"""
