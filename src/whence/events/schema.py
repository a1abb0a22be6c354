r"""The rows that every source gives: one a report, the ones that cannot be read included.

One literal row, as JSON::

    {"computation": "", "process": "shop", "seq": 2, "time": 1700000000000000000, "arrival": null, "kind": "send",
     "sends": "m1", "receives": null, "receives_more": null, "id": null, "name": "order placed", "stamp": null,
     "attributes": "{\"order\":7}", "error": null, "clock_name": null, "line": "request-9", "line_parent": null,
     "line_phase": null, "line_joins": null, "line_since": null, "channel_key": null, "channel_bytes": null,
     "file": "shop.jsonl", "place": 2, "reason": null, "text": null}

A row with a `reason` is set aside: it says why, and `text` holds what was read. All other rows have a process, a kind,
and a ``seq`` or a ``time``, which was read from the clock ``clock_name`` or, without one, from the process's own. What an
event has to do with others is said in these ways:

- by message keys: a send has ``sends``, a receive has ``receives``;
- by ``channel_key``: sends and receives of one channel are matched in their order, message by message or, where they
  have ``channel_bytes``, byte by byte;
- by ``line``: one of the things that a process does, such as a request, a task or a span. Its events follow each other.
  The first row of a line, or its row of phase ``start``, tells by ``line_parent`` which line it was started from. Where
  the phase ``first`` says that a row is the first, nobody has to look for rows of the line before it; a start
  that receives something was started by that, and not from a line of its process. A row of
  phase ``end`` tells by ``line_parent`` which line goes on after it, and by ``line_since`` when it began. ``line_joins``
  names lines that were waited for. A row whose line is its own parent belongs to a span that another row starts.

What a key means that begins with `SPAN`, `ANSWER` or `STAMPED` is told in `whence.events.keys`.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from whence.events.keys import ANSWER, SPAN, STAMPED

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
"""Columns of a table of reports, in this order."""

COLUMNS: Final = tuple(REPORTS.names)
"""The names of `REPORTS`."""

LOCAL: Final = "local"
SEND: Final = "send"
RECEIVE: Final = "receive"
KINDS: Final = (LOCAL, SEND, RECEIVE)
"""What an event's ``kind`` may be."""

START: Final = "start"
END: Final = "end"
FIRST: Final = "first"
PHASES: Final = (START, END, FIRST)
"""What an event's ``line_phase`` may be: of a span, none for an event between start and end; of any other line, none for an
event of which nobody says that it is the first."""

TEXT_LIMIT_CHARACTERS: Final = 2_000
"""How much of a bad row's text is kept."""

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
    "ANSWER",
    "SPAN",
    "STAMPED",
    "TEXT_LIMIT_CHARACTERS",
]
