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

from ledto.sources.rows import NeedsExactReader
from ledto.sources.times import INT64_LEAST, INT64_MOST

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
_SINGLE = frozenset(b",\n")
"""What stands between records that nothing else stands between."""
_encode = msgspec.json.Encoder().encode


T = TypeVar("T")


class KnownObject(Struct, forbid_unknown_fields=True, gc=False):
    """An object whose members are all known; what is not given is `UNSET`, which is false and is not written again."""


def real(text: str) -> Raw:
    """A number with a fraction or an exponent, as its text. Raises `ValueError` for one beyond a double."""
    if math.isinf(float(text)):
        raise ValueError(f"{text[:60]} is beyond a double")
    return Raw(text.encode())


def check_all_is_there(raw: bytes, decoded: object, *, escapes: re.Pattern[bytes] = COLON_ESCAPED) -> None:
    """Raise `NeedsExactReader` if what was decoded lacks anything of `raw`, or if `raw` has one of these `escapes`."""
    if _colons(raw) != _colons(_encode(decoded)) or escapes.search(raw):
        raise NeedsExactReader


def check_plain(values: Collection[Any]) -> None:
    """Raise `NeedsExactReader` unless these are texts, words, and numbers of 64 bits."""
    kinds = set(map(type, values))
    if not kinds <= _PLAIN:
        raise NeedsExactReader
    if int in kinds:
        for value in values:
            if type(value) is int and not INT64_LEAST <= value <= INT64_MOST:
                raise NeedsExactReader


def hex_ids(values: list[str], digits: int) -> list[str]:
    """Ids in lower case with leading zeros. Raises one of `NOT_TAKEN` if one is none, or zero."""
    found = hex_ids_or_none(values, digits)
    if None in found:
        raise NeedsExactReader
    return found  # type: ignore[return-value]


def hex_ids_or_none(values: list[str], digits: int) -> list[str] | list[str | None]:
    """The same, with None for zero."""
    if not {digits}.issuperset(map(len, values)):
        values = [value.rjust(digits, "0") for value in values]
    joined = "".join(values)
    if len(joined) != digits * len(values) or len(bytes.fromhex(joined)) * 2 != len(joined):
        raise NeedsExactReader
    if joined != joined.lower():
        values = [value.lower() for value in values]
    zero = "0" * digits
    return [None if value == zero else value for value in values] if zero in values else values


def each_record(array: bytes) -> list[tuple[int, bytes]]:
    """The elements of an array of good JSON: where each begins, and its text."""
    texts = [bytes(record) for record in _EACH.decode(array)]
    return [*zip(offsets_in(array), texts, strict=True)]


def offsets_in(array: bytes) -> list[int]:
    """Where the elements of an array begin. Raises one of `NOT_TAKEN`."""
    return [1 + offset for offset in _offsets(array[1:-1], [len(raw) for raw in _EACH.decode(array)])]


class Typed(Generic[T]):
    """A type of records, and how they are decoded."""

    def __init__(self, kind: type[T]) -> None:
        self._one = msgspec.json.Decoder(kind, float_hook=real)
        self._list = msgspec.json.Decoder(list[kind], float_hook=real)  # type: ignore[valid-type]

    def run(self, text: bytes, *, in_list: bool) -> tuple[list[T], list[int]]:
        """The records of a run (`Cursor.run`), and where in its text they begin. Raises one of `NOT_TAKEN`."""
        if in_list:
            array = b"[%b]" % text
            lengths = [len(raw) for raw in _EACH.decode(array)]
            records = self._list.decode(array)
        else:
            lengths = [len(raw) for raw in _ONE.decode_lines(text)]
            records = self._one.decode_lines(text)
        check_all_is_there(text, records, escapes=COLON_OR_NUL_ESCAPED)
        return records, _offsets(text, lengths)


def _offsets(text: bytes, lengths: list[int]) -> list[int]:
    if not lengths:
        return []
    found = list(accumulate((length + 1 for length in lengths[:-1]), initial=0))
    if found[-1] + lengths[-1] == len(text) and _SINGLE.issuperset(map(text.__getitem__, (at - 1 for at in found[1:]))):
        return found
    found, at = [], 0
    for length in lengths:
        gap = _GAP.match(text, at)
        assert gap is not None
        found.append(gap.end())
        at = gap.end() + length
    return found


def text_of(values: object) -> str:
    """Compact JSON."""
    return _encode(values).decode()


def _colons(text: bytes) -> int:
    # `bytes.count` is made for what is rare: from a few kB on, this takes a quarter of its time.
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == _COLON)) if len(text) > 4_096 else text.count(b":")
