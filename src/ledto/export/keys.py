"""Make the keys of messages between exported events, for ledto's own format and for its OTLP attributes.

A key is the position of the event that sends it. The source's keys are not enough: a history keeps only the first key that
an event received, and a path over events that are left out has no key at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from ledto.events.keys import ANSWER, STAMPED
from ledto.events.schema import LOCAL, RECEIVE, SEND

LEFT_OUT = "left out after "
"""The prefix of the key of a possible cause, in an export that leaves events out."""
UNREPORTED = "unreported "
"""The prefix of a missing key that would otherwise mean something else."""


def sent_key(position: int, source_key: str | None = None) -> str:
    """Make the key that the event at a position sends. If its key in the source is that of an answer, this is one, too."""
    return f"{ANSWER}{position}" if (source_key or "").startswith(ANSWER) else str(position)


def received_keys(causes: Iterable[tuple[int, bool]], missing: Iterable[str], *, whole: bool) -> list[str]:
    """Make the keys that an event receives, from its causes, each with whether it is assumed, and its missing keys.

    If events are left out (`whole` is false), no key can say that a cause is only possible. Such a cause becomes one that
    nobody reported: a reader then calls the two events neither ordered nor concurrent.
    """
    keys = [str(cause) if not assumed else f"{ANSWER if whole else LEFT_OUT}{cause}" for cause, assumed in causes]
    # A number would be the key of another event, and an answer is never missing.
    return keys + [
        f"{UNREPORTED}{key}" if key.isdecimal() or key.startswith((ANSWER, STAMPED)) else key for key in missing
    ]


def kind_of(kind: str, *, sends: bool, receives: bool) -> str:
    """Return the event's kind if it agrees with the event's keys; else the kind that the keys show.

    Sources quarantine a send or a receive without a key, and a local event that receives one.
    """
    agrees = {SEND: sends, RECEIVE: receives, LOCAL: not receives}
    if agrees[kind]:
        return kind
    return RECEIVE if receives else SEND if sends else LOCAL
