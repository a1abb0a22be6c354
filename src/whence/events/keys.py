"""What message keys begin with that are no messages: known without Arrow, for those who only show them."""

from __future__ import annotations

from typing import Final

SPAN: Final = "span "
"""What keys begin with that name the start of a line, as ``span TRACE/SPAN``: an event that receives one
that nobody sends is kept, and its cause is known to be missing."""

ANSWER: Final = "whence:answer to "
"""What keys begin with that name the answer to a line, as ``whence:answer to TRACE/SPAN``. Whoever waited for an
answer is assumed to have got it: nothing recorded says so, and nobody misses an answer that no report tells of.
Words that a user's own key may begin with would not do: that message is recorded, not assumed."""

CALLER: Final = "its caller"
"""What is missing of a server or consumer that tells of no caller."""

STAMPED: Final = "stamp of "
"""What keys begin with that come from vector stamps: nobody sends or misses a message of that name."""

UNKNOWN_ANSWER: Final = "when its answer was sent"
"""In place of a key: what is missing of a wait whose answer ended later than it."""

UNENDED: Final = "whence:end of "
"""What keys begin with that name the end of a client's span which was still open when it was reported: nobody sends one.
The start of such a span receives it, because what was answered may have reached its process at any time since."""

UNKNOWN_PLACE: Final = "whence:when it happened"
"""What is missing of an event that stands before the start of its own span, by the clock. Nobody sends it."""

UNKNOWN_CALL: Final = "when it was called"
"""In place of a key: what is missing of a span that another process started from a span which is no call by itself."""
