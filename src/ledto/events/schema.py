r"""The columns of reports: every source gives one row for each report, unreadable ones included.

One literal row, as JSON::

    {"computation": "", "process": "shop", "seq": 2, "time": 1700000000000000000, "arrival": null, "kind": "send",
     "sends": "m1", "receives": null, "receives_more": null, "id": null, "name": "order placed", "stamp": null,
     "attributes": "{\"order\":7}", "error": null, "clock_name": null, "line": "request-9", "line_parent": null,
     "line_phase": null, "line_joins": null, "line_since": null, "channel_key": null, "channel_bytes": null,
     "file": "shop.jsonl", "place": 2, "reason": null, "text": null}

A row with a `reason` is quarantined: it says why, and `text` has what was read. All other rows have a process, a kind,
and a ``seq`` or a ``time``, which was read from the clock ``clock_name`` or, without one, from the process's own. These
columns relate an event to others:

- message keys: a send has ``sends``, a receive has ``receives``;
- ``channel_key``: sends and receives of one channel are matched in their order, message by message or, if they have
  ``channel_bytes``, byte by byte;
- ``line``: one thing that a process does, such as a request, a task or a span. Its events follow each other. In the first
  row of a line, or its row of phase ``start``, ``line_parent`` names the line that started it; a start that receives a
  message was started by that, and not by a line of its process. The phase ``first`` says that a row is the first of its
  line, so that no earlier row is missing. In a row of phase ``end``, ``line_parent`` names the line that goes on after it,
  and ``line_since`` is when it began. ``line_joins`` names lines that it waited for. A row whose line is its own parent
  belongs to a span that another row starts.

`ledto.events.keys` says what keys mean that begin with one of its prefixes.
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
        pa.field("error", pa.bool_()),
        pa.field("clock_name", pa.string()),
        pa.field("line", pa.string()),
        pa.field("line_parent", pa.string()),
        pa.field("line_phase", pa.string()),
        pa.field("line_joins", pa.list_(pa.string())),
        pa.field("line_since", pa.int64()),
        pa.field("channel_key", pa.string()),
        pa.field("channel_bytes", pa.int64()),
        pa.field("file", pa.string()),
        pa.field("place", pa.int64()),
        pa.field("reason", pa.string()),
        pa.field("text", pa.string()),
    ]
)
"""The columns of a table of reports, in this order."""

COLUMNS: Final = tuple(REPORTS.names)
"""The names of `REPORTS`."""

LOCAL: Final = "local"
SEND: Final = "send"
RECEIVE: Final = "receive"
KINDS: Final = (LOCAL, SEND, RECEIVE)
"""The values of an event's ``kind``."""

START: Final = "start"
END: Final = "end"
FIRST: Final = "first"
PHASES: Final = (START, END, FIRST)
"""The values of an event's ``line_phase``. Null for an event between the start and the end of a span, and for an event of
another line that is not known to be its first."""

TEXT_LIMIT_CHARACTERS: Final = 2_000
"""How much of an unreadable row's text is kept."""

__all__ = [
    "REPORTS",
    "COLUMNS",
    "LOCAL",
    "SEND",
    "RECEIVE",
    "KINDS",
    "START",
    "END",
    "FIRST",
    "PHASES",
    "TEXT_LIMIT_CHARACTERS",
]
