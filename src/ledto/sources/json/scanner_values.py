"""JSON values in bytes, at compiled speed: where each ends, and of which kind it is.

Every function gives -1 for what it is not sure of: all that is no JSON, and some that is (escapes beyond one letter,
exponents, integers that may be beyond 64 bits, objects of more than `MOST_KEYS` keys), which a slower reader must look at.
"""

from __future__ import annotations

from typing import Any, Final

from ledto.kernels import inlined, part
from ledto.sources.json.strict import MOST_DEPTH

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


BYTES: Final = "Array(uint8, 1, 'C', True)"
"""Bytes that are not written to, as numba spells it."""

MOST_KEYS: Final = 128

STRING, INTEGER, REAL, WORD, NULL, OBJECT, ARRAY, EMPTY_OBJECT = range(1, 9)
"""Kinds of values; 0 is none."""

_MOST_REAL_CHARACTERS = 300


@inlined
def after_space(data: Any, at: int, end: int) -> int:
    """The first byte from `at` on that is no blank, or `end`."""
    while at < end and (data[at] == 32 or data[at] == 9 or data[at] == 13):
        at += 1
    return at


@part
def string_end(data: Any, at: int, end: int, all_utf8: bool) -> tuple[int, int]:
    """Where the string whose first character is at `at` ends, after its quote, and its escapes; -1 to leave the line."""
    escapes = 0
    while at < end:
        byte = data[at]
        if byte == 34:
            return at + 1, escapes
        if byte < 32 or (byte > 127 and not all_utf8):
            return -1, 0
        if byte == 92:
            at += 1
            if at == end:
                return -1, 0
            byte = data[at]
            # " \ / b f n r t
            if byte not in {34, 92, 47, 98, 102, 110, 114, 116}:
                return -1, 0
            escapes += 1
        at += 1
    return -1, 0


@part
def _number(data: Any, at: int, end: int) -> tuple[int, int]:
    """Where the number ends, and which kind it is; -1 to leave the line."""
    start = at
    if data[at] == 45:
        at += 1
    first = at
    while at < end and 48 <= data[at] <= 57:
        at += 1
    digits = at - first
    if digits == 0 or (digits > 1 and data[first] == 48):
        return -1, 0
    if at < end and data[at] == 46:
        at += 1
        point = at
        while at < end and 48 <= data[at] <= 57:
            at += 1
        if at == point or at - start > _MOST_REAL_CHARACTERS or (at < end and (data[at] | 32) == 101):
            return -1, 0
        return at, REAL
    # With 19 digits, those that begin with 9 may be beyond 64 bits.
    if digits > 19 or (digits == 19 and data[first] == 57) or (at < end and (data[at] | 32) == 101):
        return -1, 0
    return at, INTEGER


@part
def scalar_end(data: Any, at: int, end: int, all_utf8: bool) -> tuple[int, int, int]:
    """Where a value that is no container ends, its kind, and its escapes; -1 to leave the line."""
    if at >= end:
        return -1, 0, 0
    byte = data[at]
    if byte == 34:
        stop, escapes = string_end(data, at + 1, end, all_utf8)
        return stop, STRING, escapes
    if byte == 45 or 48 <= byte <= 57:
        stop, kind = _number(data, at, end)
        return stop, kind, 0
    if byte == 116 and at + 4 <= end and data[at + 1] == 114 and data[at + 2] == 117 and data[at + 3] == 101:
        return at + 4, WORD, 0
    if byte == 110 and at + 4 <= end and data[at + 1] == 117 and data[at + 2] == 108 and data[at + 3] == 108:
        return at + 4, NULL, 0
    if byte == 102 and at + 5 <= end and data[at + 1] == 97 and data[at + 2] == 108 and data[at + 3] == 115:
        return (at + 5, WORD, 0) if data[at + 4] == 101 else (-1, 0, 0)
    return -1, 0, 0


@part
def same_text(data: Any, a: int, a_end: int, b: int, b_end: int) -> bool:
    """Whether two parts hold the same bytes."""
    if a_end - a != b_end - b:
        return False
    i = 0
    while i < a_end - a and data[a + i] == data[b + i]:
        i += 1
    return i == a_end - a


@part
def container_end(data: Any, at: int, end: int, all_utf8: bool, frames: Any, keys: Any) -> tuple[int, int]:
    """Where the array or object at `at` ends, and its kind; -1 to leave the line. `frames` and `keys` are scratch."""
    outer = OBJECT if data[at] == 123 else ARRAY
    empty = False
    depth, count = 0, 0
    opening = True
    while True:
        if opening:
            if depth == MOST_DEPTH - 1:
                return -1, 0
            closing = 125 if data[at] == 123 else 93
            frames[depth, 0], frames[depth, 1] = closing, count
            depth += 1
            at = after_space(data, at + 1, end)
            if at < end and data[at] == closing:
                empty = empty or depth == 1
                depth -= 1
                at += 1
                opening = False
        if not opening:
            # After a value: close what ends here, or go on to the next element.
            while True:
                if depth == 0:
                    return at, EMPTY_OBJECT if empty and outer == OBJECT else outer
                at = after_space(data, at, end)
                if at >= end:
                    return -1, 0
                if data[at] == frames[depth - 1, 0]:
                    count = frames[depth - 1, 1]
                    depth -= 1
                    at += 1
                    continue
                if data[at] != 44:
                    return -1, 0
                at = after_space(data, at + 1, end)
                break
        if frames[depth - 1, 0] == 125:
            if at >= end or data[at] != 34 or count == MOST_KEYS:
                return -1, 0
            stop, escapes = string_end(data, at + 1, end, all_utf8)
            if stop < 0 or escapes:
                return -1, 0
            for other in range(frames[depth - 1, 1], count):
                if same_text(data, keys[other, 0], keys[other, 1], at, stop):
                    return -1, 0
            keys[count, 0], keys[count, 1] = at, stop
            count += 1
            at = after_space(data, stop, end)
            if at >= end or data[at] != 58:
                return -1, 0
            at = after_space(data, at + 1, end)
        if at < end and (data[at] == 123 or data[at] == 91):
            opening = True
            continue
        at, _, _ = scalar_end(data, at, end, all_utf8)
        if at < 0:
            return -1, 0
        opening = False
