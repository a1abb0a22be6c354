r"""Read any log of JSON lines by a mapping, which says what its fields mean.

Take bytes of a file and a mapping; give rows of `ledto.events.schema.REPORTS`. One literal mapping, a line, and its
row, without columns that are null::

    process = "host"
    time = { from = "timestamp", unit = "ms" }
    type = "type"
    name = "{type}"

    {"host": "shop", "timestamp": 1700000000000, "type": "order", "order": 7}

    {"computation": "", "process": "shop", "time": 1700000000000000000, "kind": "local", "name": "order",
     "attributes": "{\"order\":7}", "file": "shop.jsonl", "place": 1}
"""
