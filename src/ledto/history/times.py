"""Times of a history as people and programs write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
ISO = re.compile(
    r"(?P<whole>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?)(?:\.(?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)


def parse_time(text: str, unit: str) -> int | None:
    """A time given as an integer in the history's unit or in ISO 8601 (UTC unless it says otherwise); None for neither."""
    if re.fullmatch(r"-?\d+", text, re.ASCII):
        return int(text)
    found = ISO.fullmatch(text)
    per_second = PER_SECOND.get(unit)
    if found is None or per_second is None:
        return None
    try:
        whole = found["whole"] if len(found["whole"]) > len("2026-01-31") else f"{found['whole']}T00:00"
        moment = datetime.fromisoformat(whole + (found["zone"] or "+00:00"))
    except ValueError:
        return None
    fraction = int((found["fraction"] or "0").ljust(9, "0"))
    seconds = round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    return seconds * per_second + fraction * per_second // 10**9


def time_or_event(text: str, unit: str) -> tuple[int, None] | tuple[None, str]:
    """What a cut is at: a time, or else the event of that name. `ValueError` for what begins like a time and is none."""
    time = parse_time(text, unit)
    if time is not None:
        return time, None
    if re.match(r"\d{4}-\d", text, re.ASCII):
        raise ValueError(f"{text!r:.60} is no time such as 2026-01-31T12:00:00.5Z")
    return None, text
