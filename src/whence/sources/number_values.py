"""Numbers and times in bytes, at compiled speed; `whence.sources.times` says what they mean."""

from __future__ import annotations

from typing import Any

from whence.kernels import part

_SECOND = 1_000_000_000


@part
def integer_of(data: Any, start: int, stop: int) -> int:
    """The integer in a JSON number of at most 64 bits."""
    negative = data[start] == 45
    value = 0
    for at in range(start + negative, stop):
        value = value * 10 + (int(data[at]) - 48)
    return -value if negative else value


@part
def _digits(data: Any, start: int, stop: int) -> int:
    """The number in these digits, or a negative number."""
    value = 0
    for at in range(start, stop):
        if not 48 <= data[at] <= 57:
            return -1
        value = value * 10 + (int(data[at]) - 48)
    return value


@part
def iso_time(data: Any, start: int, stop: int, unit_ns: int) -> tuple[int, bool]:
    """The time in the usual spelling of ISO-8601, and whether it is in that spelling."""
    if unit_ns == 0 or stop - start < 19:
        return 0, False
    if data[start + 4] != 45 or data[start + 7] != 45 or data[start + 13] != 58 or data[start + 16] != 58:
        return 0, False
    if data[start + 10] != 84 and data[start + 10] != 32:
        return 0, False
    year, month, day = (
        _digits(data, start, start + 4),
        _digits(data, start + 5, start + 7),
        _digits(data, start + 8, start + 10),
    )
    hour, minute = _digits(data, start + 11, start + 13), _digits(data, start + 14, start + 16)
    second = _digits(data, start + 17, start + 19)
    if year < 1700 or year > 2200 or month < 1 or month > 12 or day < 1 or hour < 0 or hour > 23:
        return 0, False
    # Days 29 to 31 are left where the month may not have them.
    if day > 28 and (month == 2 or day > 30):
        return 0, False
    if minute < 0 or minute > 59 or second < 0 or second > 59:
        return 0, False
    at = start + 19
    fraction = 0
    if at < stop and data[at] == 46:
        at += 1
        first = at
        while at < stop and 48 <= data[at] <= 57:
            if at - first == 9:
                return 0, False
            fraction = fraction * 10 + (int(data[at]) - 48)
            at += 1
        if at == first:
            return 0, False
        for _ in range(9 - (at - first)):
            fraction *= 10
    offset = 0
    if at < stop:
        if data[at] == 90 and at + 1 == stop:
            offset = 0
        elif (data[at] == 43 or data[at] == 45) and at + 6 == stop and data[at + 3] == 58:
            hours, minutes = _digits(data, at + 1, at + 3), _digits(data, at + 4, at + 6)
            if hours < 0 or hours > 23 or minutes < 0 or minutes > 59:
                return 0, False
            offset = (hours * 60 + minutes) * (1 if data[at] == 43 else -1)
        else:
            return 0, False
    # Days since 1970 by the count of years that begin in March.
    years = year - (month <= 2)
    era_year = years % 400
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days = years // 400 * 146_097 + era_year * 365 + era_year // 4 - era_year // 100 + day_of_year - 719_468
    seconds = days * 86_400 + (hour * 60 + minute - offset) * 60 + second
    return (seconds * _SECOND + fraction) // unit_ns, True
