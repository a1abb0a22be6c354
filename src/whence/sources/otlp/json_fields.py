"""What spans and log records in JSON share, at compiled speed; -1 says that the exact reader must look."""

from __future__ import annotations

from typing import Any, Final

from numba import njit

from whence.sources.json_values import BYTES
from whence.sources.otlp.emit import HEAP_BYTES, TABLE
from whence.sources.otlp.json_texts import PLACES, after_space, integer, packed, signed

_QUOTE = 34


def spellings(names: str) -> tuple[Any, Any, int]:
    """Names in camelCase, and all again in snake_case."""
    camel = tuple(names.split())
    snake = tuple("".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name) for name in camel)
    return *packed(camel + snake), len(camel)


MOST_COUNT: Final = (1 << 32) - 1

RECORD: Final = f"{BYTES}, int64, int64, boolean, {TABLE}, {TABLE}, {TABLE}, {HEAP_BYTES}, int64[::1]"


@njit(f"UniTuple(int64, 3)({BYTES}, int64, int64, int64)", cache=True, nogil=True)
def identifier(data: Any, at: int, end: int, digits: int) -> tuple[int, int, int]:
    """Where the id at `at` ends, and the high and low half of its bits; all zeros if it is empty."""
    if data[at] != _QUOTE or at + 2 > end:
        return -1, 0, 0
    if data[at + 1] == _QUOTE:
        return at + 2, 0, 0
    if at + digits + 2 > end or data[at + digits + 1] != _QUOTE:
        return -1, 0, 0
    high, low = 0, 0
    for i in range(at + 1, at + 1 + digits):
        byte = data[i]
        if 48 <= byte <= 57:
            digit = signed(byte) - 48
        elif 97 <= (byte | 32) <= 102:
            digit = signed(byte | 32) - 87
        else:
            return -1, 0, 0
        high = (high << 4) | ((low >> 60) & 15)
        low = (low << 4) | digit
    return at + digits + 2, high, low


@njit(f"UniTuple(int64, 2)({BYTES}, int64, int64, {BYTES}, {PLACES})", cache=True, nogil=True)
def choice(data: Any, at: int, end: int, names: Any, names_at: Any) -> tuple[int, int]:
    """Where the value of an enumeration ends, and its number, which may be given by name."""
    if data[at] != _QUOTE:
        at, number = integer(data, at, end)
        return (at if 0 <= number < len(names_at) - 1 else -1), number
    stop = at + 1
    while stop < end and data[stop] != _QUOTE:
        stop += 1
    for number in range(len(names_at) - 1):
        length = names_at[number + 1] - names_at[number]
        if length == stop - at - 1:
            i = 0
            while i < length and data[at + 1 + i] == names[names_at[number] + i]:
                i += 1
            if i == length:
                return stop + 1, number
    return -1, 0


@njit(f"int64({BYTES}, int64, int64)", cache=True, nogil=True)
def next_member(data: Any, at: int, end: int) -> int:
    """After a member's value: where the next member begins, or the closing brace is; -1 for anything else."""
    if at < 0:
        return -1
    at = after_space(data, at, end)
    if at < end and data[at] == 44:
        at = after_space(data, at + 1, end)
        return at if at < end and data[at] == _QUOTE else -1
    return at if at < end and data[at] == 125 else -1
