"""Prefixes of message keys that do not name plain messages. Needs no Arrow, for code that only shows keys."""

from __future__ import annotations

from typing import Final

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
