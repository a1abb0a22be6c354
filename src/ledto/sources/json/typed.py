r"""Decode usual JSON by msgspec into typed values; raise one of `NOT_TAKEN` if an exact reader must read it.

If a key occurs twice, msgspec silently keeps the last value, while the exact readers refuse the record. So the decoded value
is encoded again: it has as many colons as the input, those in texts included, if and only if no member was lost. A colon
written as ``\u003a`` would change the count, so such input is left to an exact reader.

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
"""Exceptions of quick readers: an exact reader must read the input. Bytes that are not UTF-8 raise a `ValueError`."""

MOST_AT_ONCE_BYTES: Final = 1 << 20
"""The size of records that are decoded together, at most. Their values may take fifty times as much memory."""

COLON_ESCAPED: Final = re.compile(rb"\\u003[aA]")
COLON_OR_NUL_ESCAPED: Final = re.compile(rb"\\u00(?:3[aA]|00)")
"""Names must not hold a NUL character. (To search for an expression is twice as fast as for bytes.)"""

_COLON = ord(":")
_PLAIN = frozenset({str, int, bool, type(None), Raw})
_EACH, _ONE = msgspec.json.Decoder(list[Raw]), msgspec.json.Decoder(Raw)
_GAP = re.compile(rb"[ \t\r\n]*,?[ \t\r\n]*")
_SINGLE = frozenset(b",\n")
"""The bytes of which a single one may separate two records."""
_encode = msgspec.json.Encoder().encode


T = TypeVar("T")


class KnownObject(Struct, forbid_unknown_fields=True, gc=False):
    """An object without unknown members. Members that are not given are `UNSET`, which is false and is not encoded."""


def real(text: str) -> Raw:
    """Keep a number with a fraction or an exponent as its text. Raises `ValueError` for one beyond a double."""
    if math.isinf(float(text)):
        raise ValueError(f"{text[:60]} is beyond a double")
    return Raw(text.encode())


def check_all_is_there(raw: bytes, decoded: object, *, escapes: re.Pattern[bytes] = COLON_ESCAPED) -> None:
    """Raise `NeedsExactReader` if the decoded value lacks a member of `raw`, or if `raw` has one of these `escapes`."""
    if _colons(raw) != _colons(_encode(decoded)) or escapes.search(raw):
        raise NeedsExactReader


def check_plain(values: Collection[Any]) -> None:
    """Raise `NeedsExactReader` unless all values are texts, true, false, null, or numbers of 64 bits."""
    kinds = set(map(type, values))
    if not kinds <= _PLAIN:
        raise NeedsExactReader
    if int in kinds:
        for value in values:
            if type(value) is int and not INT64_LEAST <= value <= INT64_MOST:
                raise NeedsExactReader


def hex_ids(values: list[str], digits: int) -> list[str]:
    """Return ids in lower case with leading zeros. Raises one of `NOT_TAKEN` if one is invalid or zero."""
    ids = hex_ids_or_none(values, digits)
    if None in ids:
        raise NeedsExactReader
    return ids  # type: ignore[return-value]


def hex_ids_or_none(values: list[str], digits: int) -> list[str] | list[str | None]:
    """Return ids in lower case with leading zeros, None for zero. Raises one of `NOT_TAKEN` if one is invalid."""
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
    """Return the elements of a valid JSON array: where each begins, and its text."""
    texts = [bytes(record) for record in _EACH.decode(array)]
    return [*zip(offsets_in(array), texts, strict=True)]


def offsets_in(array: bytes) -> list[int]:
    """Return where the elements of an array begin. Raises one of `NOT_TAKEN`."""
    return [1 + offset for offset in _offsets(array[1:-1], [len(raw) for raw in _EACH.decode(array)])]


class Typed(Generic[T]):
    """A decoder of records of one type."""

    def __init__(self, kind: type[T]) -> None:
        self._one = msgspec.json.Decoder(kind, float_hook=real)
        self._list = msgspec.json.Decoder(list[kind], float_hook=real)  # type: ignore[valid-type]

    def run(self, text: bytes, *, in_list: bool) -> tuple[list[T], list[int]]:
        """Decode the records of a run (`Cursor.run`); return them and where they begin. Raises one of `NOT_TAKEN`."""
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
    starts = list(accumulate((length + 1 for length in lengths[:-1]), initial=0))
    separators = map(text.__getitem__, (start - 1 for start in starts[1:]))
    if starts[-1] + lengths[-1] == len(text) and _SINGLE.issuperset(separators):
        return starts
    starts, at = [], 0
    for length in lengths:
        gap = _GAP.match(text, at)
        assert gap is not None
        starts.append(gap.end())
        at = gap.end() + length
    return starts


def text_of(values: object) -> str:
    """Write compact JSON."""
    return _encode(values).decode()


def _colons(text: bytes) -> int:
    # For a byte that occurs often, NumPy takes a quarter of the time of `bytes.count`, from a few kB on.
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == _COLON)) if len(text) > 4_096 else text.count(b":")
