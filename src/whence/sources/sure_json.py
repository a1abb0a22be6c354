r"""JSON decoded by msgspec into typed values, if nothing in it needs a second look; `NOT_TAKEN` is raised for what does.

Of a key given twice, msgspec keeps the last value without a word, and the exact readers refuse the record. What was decoded
is therefore written again: it has exactly the members that were kept, so it has as many colons as what was read, those in
texts included, if and only if nothing was lost. (A colon spelled ``\u003a`` would upset the count, and is left.)

Numbers with a fraction or an exponent keep their text: they are `Raw`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from itertools import accumulate
from typing import Any, Final, Generic, TypeVar

import msgspec
import numpy as np
from msgspec import Raw, Struct

from whence.sources.times import INT64_LEAST, INT64_MOST

NOT_TAKEN: Final = (msgspec.MsgspecError, ValueError, RecursionError)
"""What decoding raises for what must be left to an exact reader. Bytes that are no UTF-8 are a `ValueError`."""

MOST_AT_ONCE_BYTES: Final = 1 << 20
"""Of records that are decoded together; what they are decoded to may take fifty times as much."""

COLON_ESCAPED: Final = re.compile(rb"\\u003[aA]")
COLON_OR_NUL_ESCAPED: Final = re.compile(rb"\\u00(?:3[aA]|00)")
"""No name may hold a NUL character. (An expression is found twice as fast as a text of bytes.)"""

_COLON = ord(":")
_PLAIN = frozenset({str, int, bool, type(None), Raw})
_EACH, _ONE = msgspec.json.Decoder(list[Raw]), msgspec.json.Decoder(Raw)
_GAP = re.compile(rb"[ \t\r\n]*,?[ \t\r\n]*")
_SPACED, _SPACED_WITHIN_BYTES = re.compile(rb'":[ \t]|[\r\n]'), 256
"""What text with spaces has in its beginning."""
_encode = msgspec.json.Encoder().encode


T = TypeVar("T")


class NotSure(ValueError):
    """The exact reader must look."""


class Strict(Struct, forbid_unknown_fields=True, gc=False):
    """An object whose members are all known; what is not given is `UNSET`, which is false and is not written again."""


def real(text: str) -> Raw:
    """A number with a fraction or an exponent, as its text. Raises `ValueError` for one beyond a double."""
    if math.isinf(float(text)):
        raise ValueError(f"{text[:60]} is beyond a double")
    return Raw(text.encode())


def check_all_is_there(raw: bytes, decoded: object, *, escapes: re.Pattern[bytes] = COLON_ESCAPED) -> None:
    """Raise `NotSure` unless everything that was read is in what was decoded, or if one of these `escapes` stands in it."""
    if _colons(raw) != _colons(_encode(decoded)) or escapes.search(raw):
        raise NotSure


def check_plain(values: Collection[Any]) -> None:
    """Raise `NotSure` unless these are texts, words, and numbers of 64 bits."""
    kinds = set(map(type, values))
    if not kinds <= _PLAIN:
        raise NotSure
    if int in kinds:
        for value in values:
            if type(value) is int and not INT64_LEAST <= value <= INT64_MOST:
                raise NotSure


def hex_ids(values: list[str], digits: int) -> list[str]:
    """Ids in lower case with leading zeros. Raises one of `NOT_TAKEN` if one is none, or zero."""
    found = hex_ids_or_none(values, digits)
    if None in found:
        raise NotSure
    return found  # type: ignore[return-value]


def hex_ids_or_none(values: list[str], digits: int) -> list[str] | list[str | None]:
    """The same, with None for zero."""
    if not {digits}.issuperset(map(len, values)):
        values = [value.rjust(digits, "0") for value in values]
    joined = "".join(values)
    if len(joined) != digits * len(values) or len(bytes.fromhex(joined)) * 2 != len(joined):
        raise NotSure
    if joined != joined.lower():
        values = [value.lower() for value in values]
    zero = "0" * digits
    return [None if value == zero else value for value in values] if zero in values else values


class Typed(Generic[T]):
    """A type of records, and how they are decoded."""

    def __init__(self, kind: type[T]) -> None:
        self._one = msgspec.json.Decoder(kind, float_hook=real)
        self._list = msgspec.json.Decoder(list[kind], float_hook=real)  # type: ignore[valid-type]

    def run(self, text: bytes, *, in_list: bool) -> tuple[list[T], list[int]]:
        """The records of a run (`Cursor.run`), and where in its text they begin. Raises one of `NOT_TAKEN`."""
        if in_list:
            array = b"[%b]" % text
            raws, records = _EACH.decode(array), self._list.decode(array)
        else:
            raws, records = _ONE.decode_lines(text), self._one.decode_lines(text)
        check_all_is_there(text, records, escapes=COLON_OR_NUL_ESCAPED)
        return records, places_in(text, 0, raws)[0]


def compact(text: bytes) -> bytes:
    """Good JSON without the spaces outside of its texts, if it begins with such. Raises one of `NOT_TAKEN`."""
    return msgspec.json.format(text, indent=-1) if _SPACED.search(text, 0, _SPACED_WITHIN_BYTES) else text


def places_in(text: bytes, start: int, raws: list[Raw]) -> tuple[list[int], int]:
    """Where each of these records begins, the first one at `start`, and where the last one ends. Raises `NotSure`.

    They follow each other after commas or line ends, with or without spaces.
    """
    if not raws:
        return [], start
    lengths = [*map(len, raws)]
    for mark in (b",", b"\n"):
        if text.startswith(mark.join(raws), start):
            ends = [start + end for end in accumulate(length + 1 for length in lengths)]
            return [start, *ends[:-1]], ends[-1] - 1
    found, at = [], start
    for raw, length in zip(raws, lengths, strict=True):
        gap = _GAP.match(text, at)
        assert gap is not None
        if not text.startswith(raw, gap.end()):
            raise NotSure
        found.append(gap.end())
        at = gap.end() + length
    return found, at


def text_of(values: object) -> str:
    """Compact JSON."""
    return _encode(values).decode()


def _colons(text: bytes) -> int:
    # `bytes.count` is made for what is rare: from a few kB on, this takes a quarter of its time.
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == _COLON)) if len(text) > 4_096 else text.count(b":")
