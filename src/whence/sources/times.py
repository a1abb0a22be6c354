"""Wall times as they stand in logs: integers, and ISO-8601 text with any offset."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import Final

from whence.sources.rows import BadRecord

NANOSECONDS_IN: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""The units of time that text can be turned into; in other units, times are integers."""

INT64_LEAST: Final = -(1 << 63)
INT64_MOST: Final = (1 << 63) - 1

_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?\s?(?:([Zz])|([+-])(\d\d):?(\d\d)?)?", re.ASCII
)
_FRACTION = re.compile(r"(?:[.,](\d{1,9}))?[Zz]?", re.ASCII)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_SHOWN = 60


def time_from_text(text: str, unit: str) -> int:
    """ISO-8601 text as a count of `unit` since 1970, finer parts cut off; text without an offset is UTC.

    Raises `BadRecord` for all that is not a date and time, for leap seconds, which the count has no place for, and for
    times beyond 64 bits of `unit`.
    """
    found = _ISO.fullmatch(text)
    if found is None:
        raise BadRecord("bad-field", f"a time is an integer or ISO-8601 text, not {text[:_SHOWN]!r}")
    if unit not in NANOSECONDS_IN:
        raise BadRecord("bad-field", f"in the unit {unit!r} a time is an integer, not {text[:_SHOWN]!r}")
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    fraction = found[7] or ""
    offset_hours, offset_minutes = int(found[10] or 0), int(found[11] or 0)
    if hour > 23 or minute > 59 or second > 59 or offset_hours > 23 or offset_minutes > 59 or fraction[9:].strip("0"):
        raise BadRecord("bad-field", f"no such time, or finer than nanoseconds: {text[:_SHOWN]!r}")
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        raise BadRecord("bad-field", f"no such day: {text[:_SHOWN]!r}") from None
    offset = (offset_hours * 60 + offset_minutes) * (-1 if found[9] == "-" else 1)
    seconds = days * 86_400 + (hour * 60 + minute - offset) * 60 + second
    time = (seconds * 1_000_000_000 + int(fraction[:9].ljust(9, "0"))) // NANOSECONDS_IN[unit]
    if not INT64_LEAST <= time <= INT64_MOST:
        raise BadRecord("bad-field", f"{text[:_SHOWN]!r} is beyond 64 bits of {unit}")
    return time


def quick_time(text: str, unit: str) -> int | None:
    """As `time_from_text` for the usual, times of UTC within 64 bits of nanoseconds; None where that must look."""
    second, fraction = _second(text[:19]), _fraction(text[19:])
    if second is None or fraction is None or unit not in NANOSECONDS_IN:
        return None
    return (second + fraction) // NANOSECONDS_IN[unit]


@lru_cache(maxsize=10_000)
def _second(text: str) -> int | None:
    try:
        time = time_from_text(text, "ns") if len(text) == 19 else None
    except BadRecord:
        return None
    return time if time is None or time <= INT64_MOST - NANOSECONDS_IN["s"] else None


@lru_cache(maxsize=10_000)
def _fraction(text: str) -> int | None:
    """Nanoseconds of what follows the seconds."""
    found = _FRACTION.fullmatch(text)
    return None if found is None else int((found[1] or "").ljust(9, "0"))
