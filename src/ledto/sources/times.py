"""Parse wall times of logs: ISO-8601 text with any offset."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache
from typing import Final

from ledto.sources.rows import BadRecord

NANOSECONDS_IN: Final = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""The units for times as text, in nanoseconds. In other units, times are integers."""

INT64_LEAST: Final = -(1 << 63)
INT64_MOST: Final = (1 << 63) - 1

_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?\s?(?:([Zz]|UTC|GMT)|([+-])(\d\d):?(\d\d)?)?",
    re.ASCII,
)
_POWERS: Final[tuple[int, ...]] = tuple(10 ** (9 - digits) for digits in range(10))
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_SHOWN = 60


def time_from_text(text: str, unit: str) -> int:
    """Parse ISO-8601 text into a count of `unit` since 1970. Cut off finer parts; take text without an offset as UTC.

    Raises `BadRecord` for text that is no date and time, for leap seconds, which the count cannot hold, and for times
    beyond 64 bits of `unit`.
    """
    match = _ISO.fullmatch(text)
    if match is None:
        raise BadRecord("bad-field", f"a time is an integer or ISO-8601 text, not {text[:_SHOWN]!r}")
    if unit not in NANOSECONDS_IN:
        raise BadRecord("bad-field", f"in the unit {unit!r} a time is an integer, not {text[:_SHOWN]!r}")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction = match[7] or ""
    offset_hours, offset_minutes = int(match[10] or 0), int(match[11] or 0)
    if hour > 23 or minute > 59 or second > 59 or offset_hours > 23 or offset_minutes > 59 or fraction[9:].strip("0"):
        raise BadRecord("bad-field", f"no such time, or finer than nanoseconds: {text[:_SHOWN]!r}")
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        raise BadRecord("bad-field", f"no such day: {text[:_SHOWN]!r}") from None
    offset = (offset_hours * 60 + offset_minutes) * (-1 if match[9] == "-" else 1)
    seconds = days * 86_400 + (hour * 60 + minute - offset) * 60 + second
    time = (seconds * 1_000_000_000 + int(fraction[:9].ljust(9, "0"))) // NANOSECONDS_IN[unit]
    if not INT64_LEAST <= time <= INT64_MOST:
        raise BadRecord("bad-field", f"{text[:_SHOWN]!r} is beyond 64 bits of {unit}")
    return time


def quick_time(text: str, unit: str) -> int | None:
    """Parse a usual time: in UTC, within 64 bits of nanoseconds. None for others: use `time_from_text`."""
    second, fraction = _parse_second(text[:19]), _parse_fraction(text)
    if second is None or fraction is None or unit not in NANOSECONDS_IN:
        return None
    return (second + fraction) // NANOSECONDS_IN[unit]


@lru_cache(maxsize=10_000)
def _parse_second(text: str) -> int | None:
    """Parse date and time without a fraction into nanoseconds; None if it is unusual."""
    try:
        time = time_from_text(text, "ns") if len(text) == 19 else None
    except BadRecord:
        return None
    return time if time is None or time <= INT64_MOST - NANOSECONDS_IN["s"] else None


def _parse_fraction(text: str) -> int | None:
    """Parse the fraction of a second and a Z, after the second, into nanoseconds; None if it is unusual."""
    digits = text[20:-1] if text[-1:] in ("Z", "z") else text[20:]
    if not digits:
        return 0 if text[19:] in ("", "Z", "z") else None
    if text[19] not in ".," or len(digits) > 9 or not (digits.isdigit() and digits.isascii()):
        return None
    return int(digits) * _POWERS[len(digits)]
