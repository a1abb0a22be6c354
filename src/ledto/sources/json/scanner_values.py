"""Find the ends and kinds of JSON values in bytes, and read integers and times, at compiled speed.

Every function that finds an end returns `UNSURE` for input that a slower reader must read: for all that is not JSON, and for
some that is (escapes of more than one letter, exponents, integers that may be beyond 64 bits, objects of more than
`MOST_KEYS` keys). `ledto.sources.times` decides what a time means; here only its usual form is read.
"""

from __future__ import annotations

from typing import Any, Final

from ledto.kernels import inlined, part
from ledto.sources.json.strict import MOST_DEPTH

BYTES: Final = "Array(uint8, 1, 'C', True)"
"""Numba's type of bytes that are only read."""

MOST_KEYS: Final = 128
"""Keys of one object, at most."""

UNSURE: Final = -1
"""In place of the end of a value: a slower reader must read the line."""

STRING, INTEGER, REAL, WORD, NULL, OBJECT, ARRAY, EMPTY_OBJECT = range(1, 9)
"""Kinds of values; 0 means that there is no value."""

TAB, LINE_END, RETURN, SPACE, QUOTE, BACKSLASH = b'\t\n\r "\\'
OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET, COLON, COMMA = b"{}[]:,"
ZERO, NINE, MINUS, PLUS, POINT = b"09-+."
_LETTER_T, _LETTER_Z, _LETTER_E = b"TZe"
_TO_LOWER = 32
"""The bit in which a small letter differs from a capital one."""
_MOST_REAL_CHARACTERS = 300
_SECOND = 1_000_000_000


@part
def integer_of(data: Any, start: int, stop: int) -> int:
    """Read a JSON integer of at most 64 bits."""
    negative = data[start] == MINUS
    value = 0
    for at in range(start + negative, stop):
        value = value * 10 + (int(data[at]) - ZERO)
    return -value if negative else value


@part
def _digits(data: Any, start: int, stop: int) -> int:
    """Read a number of digits only; `UNSURE` if there is another byte."""
    value = 0
    for at in range(start, stop):
        if not ZERO <= data[at] <= NINE:
            return UNSURE
        value = value * 10 + (int(data[at]) - ZERO)
    return value


@part
def iso_time(data: Any, start: int, stop: int, unit_ns: int) -> tuple[int, bool]:
    """Read a time in the usual form of ISO-8601; return it in units of `unit_ns`, and whether it has that form."""
    if unit_ns == 0 or stop - start < 19:
        return 0, False
    if data[start + 4] != MINUS or data[start + 7] != MINUS or data[start + 13] != COLON or data[start + 16] != COLON:
        return 0, False
    if data[start + 10] != _LETTER_T and data[start + 10] != SPACE:
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
    # Days 29 to 31 are left to the slower reader if the month may not have them.
    if day > 28 and (month == 2 or day > 30):
        return 0, False
    if minute < 0 or minute > 59 or second < 0 or second > 59:
        return 0, False
    at = start + 19
    fraction = 0
    if at < stop and data[at] == POINT:
        at += 1
        first = at
        while at < stop and ZERO <= data[at] <= NINE:
            if at - first == 9:
                return 0, False
            fraction = fraction * 10 + (int(data[at]) - ZERO)
            at += 1
        if at == first:
            return 0, False
        for _ in range(9 - (at - first)):
            fraction *= 10
    offset = 0
    if at < stop:
        if data[at] == _LETTER_Z and at + 1 == stop:
            offset = 0
        elif (data[at] == PLUS or data[at] == MINUS) and at + 6 == stop and data[at + 3] == COLON:
            hours, minutes = _digits(data, at + 1, at + 3), _digits(data, at + 4, at + 6)
            if hours < 0 or hours > 23 or minutes < 0 or minutes > 59:
                return 0, False
            offset = (hours * 60 + minutes) * (1 if data[at] == PLUS else -1)
        else:
            return 0, False
    # Count days since 1970 in years that begin in March, so that a leap day is the last of its year.
    years = year - (month <= 2)
    era_year = years % 400
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days = years // 400 * 146_097 + era_year * 365 + era_year // 4 - era_year // 100 + day_of_year - 719_468
    seconds = days * 86_400 + (hour * 60 + minute - offset) * 60 + second
    return (seconds * _SECOND + fraction) // unit_ns, True


@inlined
def after_space(data: Any, at: int, end: int) -> int:
    """Return the position of the first byte from `at` on that is not blank, or `end`."""
    while at < end and (data[at] == SPACE or data[at] == TAB or data[at] == RETURN):
        at += 1
    return at


@part
def string_end(data: Any, at: int, end: int, all_utf8: bool) -> tuple[int, int]:
    """Return the position after the closing quote of a string, and its number of escapes. `at` is its first character."""
    escapes = 0
    while at < end:
        byte = data[at]
        if byte == QUOTE:
            return at + 1, escapes
        if byte < SPACE or (byte > 127 and not all_utf8):
            return UNSURE, 0
        if byte == BACKSLASH:
            at += 1
            if at == end:
                return UNSURE, 0
            byte = data[at]
            # " \ / b f n r t
            if byte not in {34, 92, 47, 98, 102, 110, 114, 116}:
                return UNSURE, 0
            escapes += 1
        at += 1
    return UNSURE, 0


@part
def _number(data: Any, at: int, end: int) -> tuple[int, int]:
    """Return the end of the number and its kind."""
    start = at
    if data[at] == MINUS:
        at += 1
    first = at
    while at < end and ZERO <= data[at] <= NINE:
        at += 1
    digits = at - first
    if digits == 0 or (digits > 1 and data[first] == ZERO):
        return UNSURE, 0
    if at < end and data[at] == POINT:
        at += 1
        point = at
        while at < end and ZERO <= data[at] <= NINE:
            at += 1
        if at == point or at - start > _MOST_REAL_CHARACTERS or (at < end and (data[at] | _TO_LOWER) == _LETTER_E):
            return UNSURE, 0
        return at, REAL
    # A number of 19 digits that begins with 9 may be beyond 64 bits.
    if digits > 19 or (digits == 19 and data[first] == NINE) or (at < end and (data[at] | _TO_LOWER) == _LETTER_E):
        return UNSURE, 0
    return at, INTEGER


@part
def scalar_end(data: Any, at: int, end: int, all_utf8: bool) -> tuple[int, int, int]:
    """Return the end of a value that is neither array nor object, its kind, and its number of escapes."""
    if at >= end:
        return UNSURE, 0, 0
    byte = data[at]
    if byte == QUOTE:
        stop, escapes = string_end(data, at + 1, end, all_utf8)
        return stop, STRING, escapes
    if byte == MINUS or ZERO <= byte <= NINE:
        stop, kind = _number(data, at, end)
        return stop, kind, 0
    # true, null, false
    if byte == 116 and at + 4 <= end and data[at + 1] == 114 and data[at + 2] == 117 and data[at + 3] == 101:
        return at + 4, WORD, 0
    if byte == 110 and at + 4 <= end and data[at + 1] == 117 and data[at + 2] == 108 and data[at + 3] == 108:
        return at + 4, NULL, 0
    if byte == 102 and at + 5 <= end and data[at + 1] == 97 and data[at + 2] == 108 and data[at + 3] == 115:
        return (at + 5, WORD, 0) if data[at + 4] == 101 else (UNSURE, 0, 0)
    return UNSURE, 0, 0


@part
def same_text(data: Any, a: int, a_end: int, b: int, b_end: int) -> bool:
    """Return whether two ranges hold the same bytes."""
    if a_end - a != b_end - b:
        return False
    i = 0
    while i < a_end - a and data[a + i] == data[b + i]:
        i += 1
    return i == a_end - a


@part
def container_end(data: Any, at: int, end: int, all_utf8: bool, frames: Any, keys: Any) -> tuple[int, int]:
    """Return the end of the array or object at `at`, and its kind.

    `frames` and `keys` are memory to work in: a row of `frames` for each open container, with its closing bracket and the
    number of keys before it; a row of `keys` for each key of open objects, with its start and stop.
    """
    outer = OBJECT if data[at] == OPEN_BRACE else ARRAY
    empty = False
    depth, count = 0, 0
    opening = True
    while True:
        if opening:
            if depth == MOST_DEPTH - 1:
                return UNSURE, 0
            closing = CLOSE_BRACE if data[at] == OPEN_BRACE else CLOSE_BRACKET
            frames[depth, 0], frames[depth, 1] = closing, count
            depth += 1
            at = after_space(data, at + 1, end)
            if at < end and data[at] == closing:
                empty = empty or depth == 1
                depth -= 1
                at += 1
                opening = False
        if not opening:
            # After a value: close the containers that end here, then go on to the next element.
            while True:
                if depth == 0:
                    return at, EMPTY_OBJECT if empty and outer == OBJECT else outer
                at = after_space(data, at, end)
                if at >= end:
                    return UNSURE, 0
                if data[at] == frames[depth - 1, 0]:
                    count = frames[depth - 1, 1]
                    depth -= 1
                    at += 1
                    continue
                if data[at] != COMMA:
                    return UNSURE, 0
                at = after_space(data, at + 1, end)
                break
        if frames[depth - 1, 0] == CLOSE_BRACE:
            if at >= end or data[at] != QUOTE or count == MOST_KEYS:
                return UNSURE, 0
            stop, escapes = string_end(data, at + 1, end, all_utf8)
            if stop == UNSURE or escapes:
                return UNSURE, 0
            for other in range(frames[depth - 1, 1], count):
                if same_text(data, keys[other, 0], keys[other, 1], at, stop):
                    return UNSURE, 0
            keys[count, 0], keys[count, 1] = at, stop
            count += 1
            at = after_space(data, stop, end)
            if at >= end or data[at] != COLON:
                return UNSURE, 0
            at = after_space(data, at + 1, end)
        if at < end and (data[at] == OPEN_BRACE or data[at] == OPEN_BRACKET):
            opening = True
            continue
        at, _, _ = scalar_end(data, at, end, all_utf8)
        if at == UNSURE:
            return UNSURE, 0
        opening = False
