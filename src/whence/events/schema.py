r"""The rows that every source gives: one a report, the ones that cannot be read included.

One literal row, as JSON::

    {"computation": "", "process": "shop", "seq": 2, "time": 1700000000000000000, "arrival": null, "kind": "send",
     "sends": "m1", "receives": null, "receives_more": null, "id": null, "name": "order placed", "stamp": null,
     "attributes": "{\"order\":7}", "file": "shop.jsonl", "place": 2, "reason": null, "text": null}

A row with a `reason` is set aside: it says why, and `text` holds what was read. All other rows have a process, a kind,
and a ``seq`` or a ``time``; a send has ``sends``, a receive has ``receives``.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

REPORTS: Final = pa.schema(
    [
        pa.field("computation", pa.string(), nullable=False),
        pa.field("process", pa.string()),
        pa.field("seq", pa.int64()),
        pa.field("time", pa.int64()),
        pa.field("arrival", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("sends", pa.string()),
        pa.field("receives", pa.string()),
        pa.field("receives_more", pa.list_(pa.string())),
        pa.field("id", pa.string()),
        pa.field("name", pa.string()),
        pa.field("stamp", pa.string()),
        pa.field("attributes", pa.string()),
        pa.field("file", pa.string()),
        pa.field("place", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("text", pa.string()),
    ]
)
"""Columns of a table of reports, in this order."""

COLUMNS: Final = tuple(REPORTS.names)
"""The names of `REPORTS`."""

LOCAL: Final = "local"
SEND: Final = "send"
RECEIVE: Final = "receive"
KINDS: Final = (LOCAL, SEND, RECEIVE)
"""What an event's ``kind`` may be."""

STAMPED: Final = "stamp of "
"""What keys begin with that come from vector stamps: nobody sends or misses a message of that name."""

TEXT_LIMIT_CHARACTERS: Final = 2_000
"""How much of a bad row's text is kept."""
