"""Parse and format times as people and programs write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
ISO = re.compile(
    r"(?P<whole>\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?)(?:\.(?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)


def parse_time(text: str, unit: str) -> int | None:
    """Parse an integer in the history's unit, or ISO 8601 (UTC unless it names a zone); None if it is neither."""
    if re.fullmatch(r"-?\d+", text, re.ASCII):
        return int(text)
    match = ISO.fullmatch(text)
    per_second = PER_SECOND.get(unit)
    if match is None or per_second is None:
        return None
    try:
        whole = match["whole"] if len(match["whole"]) > len("2026-01-31") else f"{match['whole']}T00:00"
        moment = datetime.fromisoformat(whole + (match["zone"] or "+00:00"))
    except ValueError:
        return None
    fraction = int((match["fraction"] or "0").ljust(9, "0"))
    seconds = round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
    return seconds * per_second + fraction * per_second // 10**9


def format_time(time: int | None, unit: str, *, digits: int | None = None) -> str:
    """Format a time in UTC, with `digits` after the second or all of the unit; a plain number if the unit is a tick."""
    if time is None:
        return ""
    per_second = PER_SECOND.get(unit)
    if per_second is None:
        return str(time)
    seconds, fraction = divmod(time, per_second)
    try:
        whole = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
    except (ValueError, OverflowError, OSError):
        return str(time)
    every = len(str(per_second)) - 1
    shown = f"{fraction:0{every}d}"[: every if digits is None else digits] if every else ""
    return f"{whole}.{shown}Z" if shown else f"{whole}Z"


def count_digits(times: Iterable[int | None], unit: str) -> int:
    """Count the digits after the second that show these times exactly: 0, 3, 6 or 9."""
    per_second = PER_SECOND.get(unit, 1)
    every = len(str(per_second)) - 1
    fractions = [f"{time % per_second:0{every}d}".rstrip("0") for time in times if time is not None and every]
    return -(-max(map(len, fractions), default=0) // 3) * 3


def time_or_event(text: str, unit: str) -> tuple[int, None] | tuple[None, str]:
    """Read where to cut: a time, or the name of an event. Raises `ValueError` for a text that begins like a time."""
    time = parse_time(text, unit)
    if time is not None:
        return time, None
    if re.match(r"\d{4}-\d", text, re.ASCII):
        raise ValueError(f"{text!r:.60} is not a time; write it like 2026-01-31T12:00:00.5Z")
    return None, text
