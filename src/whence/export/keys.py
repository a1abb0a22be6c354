"""Messages between exported events by keys, as whence's own format and its OTLP attributes have them.

A key is the position of the event that sends it. The source's own keys would not do: a history keeps the first of those
that an event received, and where events are left out, what they passed on has no key at all.
"""

from __future__ import annotations

from whence.events.schema import LOCAL, RECEIVE, SEND


def key(position: int) -> str:
    """What the event at a position sends."""
    return str(position)


def kind_of(kind: str, *, sends: bool, receives: bool) -> str:
    """The event's kind if its keys agree with it, and else the kind that they show.

    Sources set aside a send or a receive that names no message, and a local event that names one it received.
    """
    agrees = {SEND: sends, RECEIVE: receives, LOCAL: not receives}
    if agrees[kind]:
        return kind
    return RECEIVE if receives else SEND if sends else LOCAL
