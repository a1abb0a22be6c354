"""Messages between exported events by keys, as whence's own format and its OTLP attributes have them.

A key is the position of the event that sends it. The source's own keys would not do: a history keeps the first of those
that an event received, and where events are left out, what they passed on has no key at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from whence.events.keys import ANSWER, STAMPED
from whence.events.schema import LOCAL, RECEIVE, SEND

LEFT_OUT = "left out after "
"""What the key of a cause begins with that leads to an event only through events that are left out, and only possibly."""
UNREPORTED = "unreported "
"""What the key of a missing cause begins with, where as it is it would mean something else."""


def key(position: int, sends: str | None = None) -> str:
    """What the event at a position sends, given what it has sent by its source: an answer stays an answer."""
    return f"{ANSWER}{position}" if (sends or "").startswith(ANSWER) else str(position)


def received(causes: Iterable[tuple[int, bool]], missing: Iterable[str], *, whole: bool) -> list[str]:
    """What an event receives that has these causes, each with whether it is only possibly one, and misses those keys.

    Where events are left out, nothing can tell what is only possible: such a cause becomes one that nobody reported, so
    that a reader takes the two events for neither ordered nor concurrent.
    """
    found = [str(cause) if not assumed else f"{ANSWER if whole else LEFT_OUT}{cause}" for cause, assumed in causes]
    # A number would be the key of another event, and nobody misses an answer.
    return found + [
        f"{UNREPORTED}{each}" if each.isdecimal() or each.startswith((ANSWER, STAMPED)) else each for each in missing
    ]


def kind_of(kind: str, *, sends: bool, receives: bool) -> str:
    """The event's kind if its keys agree with it, and else the kind that they show.

    Sources set aside a send or a receive that names no message, and a local event that names one it received.
    """
    agrees = {SEND: sends, RECEIVE: receives, LOCAL: not receives}
    if agrees[kind]:
        return kind
    return RECEIVE if receives else SEND if sends else LOCAL
