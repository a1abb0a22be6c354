"""Read logs for ShiViz, as GoVector writes them: text with a host and a vector clock for each event.

Take bytes of a file; give rows of `ledto.events.schema.REPORTS`. One literal event, and its row, without columns that
are null::

    shop {"shop":2}
    order placed

    {"computation": "", "process": "shop", "seq": 2, "kind": "local", "sends": "shop:2", "name": "order placed",
     "file": "shop.log", "place": 1}
"""
