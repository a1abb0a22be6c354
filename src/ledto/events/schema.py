"""Prefixes of message keys that do not name plain messages. Needs no Arrow, for code that only shows keys."""

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
    "ANSWER",
    "SPAN",
    "STAMPED",
    "TEXT_LIMIT_CHARACTERS",
]


SPAN: Final = "span "
"""The prefix of keys that name the start of a line, as ``span TRACE/SPAN``. An event that receives a key which nobody
sends is kept, and its cause is known to be missing."""

ANSWER: Final = "ledto:answer to "
"""The prefix of keys that name the answer to a line, as ``ledto:answer to TRACE/SPAN``. An answer is assumed to have
reached whoever waited for it: nothing recorded says so, and an answer that no report has is not missing. The prefix is
one that no key of a user begins with: a message of a user is recorded, not assumed."""

CALLER: Final = "its caller"
"""What is missing if a server or consumer names no caller."""

STAMPED: Final = "stamp of "
"""The prefix of keys that come from vector stamps: nobody sends or misses a message of that name."""

UNKNOWN_ANSWER: Final = "when its answer was sent"
"""In place of a key: what is missing if the answer to a wait ended later than the wait."""

UNENDED: Final = "ledto:end of "
"""The prefix of keys that name the end of a client's span which was still open when it was reported. Nobody sends one.
The start of such a span receives it, because an answer may have reached its process at any time since."""

UNKNOWN_PLACE: Final = "ledto:when it happened"
"""What is missing if an event stands before the start of its own span, by the clock. Nobody sends it."""

UNKNOWN_CALL: Final = "when it was called"
"""In place of a key: what is missing if another process started a span from one that is no call by itself."""
