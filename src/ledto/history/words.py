"""Split texts into words, and hash the words. A search and its index see the same words.

A word is a run of letters and digits, of any script; case does not matter. ``ORDER FAILED: 48208`` has the words order,
failed and 48208. A text of JSON has many values: each string, number, true, false and null in it, but no name of a member.
Numbers are taken as they are spelled: 17.5 is the words 17 and 5.

Two words without digits that follow each other in a value are a *pair*, and pairs are hashed, too: most texts have few of
them, and frequent words that never follow each other can be told from those that do.

There are two ways to the same hashes: Python, for small logs, and a compiled loop over Arrow's buffers.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from numpy.typing import NDArray

from ledto.kernels import kernel, part

if TYPE_CHECKING:
    from ledto.kernels import Kernel

Hashes = NDArray[np.uint32]

UNICODE: Final = tuple(int(number) for number in unicodedata.unidata_version.split("."))
"""The version of Unicode that says what letters are. Others may know more of them."""
FOLDED_CODES: Final = 0x20000
"""Characters from here on are ideographs, all of them letters without case."""
ASCII: Final = 0x80
PLAIN_BYTES_A_SECOND: Final = 8e6
"""How much text Python splits in a second."""
SEEN_BITS: Final = 12
SEEN: Final = 1 << SEEN_BITS
"""How many words the compiled loop remembers, so that it does not give a frequent one each time."""
QUOTE, COMMA, COLON, OPEN_ARRAY, BACKSLASH, CLOSE_ARRAY, SMALL_U, OPEN_OBJECT, CLOSE_OBJECT = b'",:[\\]u{}'
_START, _FACTOR, _LAST_FACTOR, _ALL_BITS = 0xCBF29CE484222325, 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, (1 << 64) - 1
"""Of the hash: what it begins with, and odd numbers to multiply with, whose bits are spread evenly."""
DIGIT: Final = re.compile("[0-9]")
_ESCAPE: Final = re.compile(rb"\\u")
FIRST_NO_DIGIT = 58
"""The first character after the digits; among characters of words, only digits are before it."""
NO_WORD = 0
"""What a character folds to that belongs to no word."""


def fold(code: int) -> int:
    """Fold the case of a character, given and returned as its number; `NO_WORD` for one that belongs to no word."""
    if code >= FOLDED_CODES:
        return code
    character = chr(code)
    if not character.isalnum():
        return NO_WORD
    # A word keeps its length: a character that folds to several, as the German sharp s does, is only put in lower case.
    spellings = (character.casefold(), character.lower(), character)
    return ord(next(spelling for spelling in spellings if len(spelling) == 1))


class _FoldedText(dict[int, str]):
    """For `str.translate`: by character its folded form, or a blank."""

    def __missing__(self, code: int) -> str:
        folded = self[code] = chr(fold(code) or ord(" "))
        return folded


_FOLDED_TEXT: Final = _FoldedText()


def split_words(text: str) -> list[str]:
    """List the words of a text that is no JSON, folded."""
    return text.translate(_FOLDED_TEXT).split()


def json_values(text: str) -> Iterator[str]:
    """Yield the values in a text of JSON, as `split_words` takes them. A text that is no JSON is one value."""
    try:
        waiting: list[Any] = [
            json.loads(
                text, strict=False, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_values
            )
        ]
    except (ValueError, RecursionError):
        yield text
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += reversed(value)
        elif isinstance(value, str):
            yield value
        else:
            yield "null" if value is None else "true" if value else "false"


def _values(members: list[tuple[str, Any]]) -> list[Any]:
    return [value for _, value in members]


def has_phrase(values: Iterable[str], phrase: Sequence[str]) -> bool:
    """Tell whether the words of the phrase follow each other in one of the values."""
    wanted = f" {' '.join(phrase)} "
    return any(wanted in f" {' '.join(split_words(value))} " for value in values)


def pairs_of(words: Sequence[str]) -> list[tuple[str, str]]:
    """List the pairs among words that follow each other."""
    return [pair for pair in pairwise(words) if not any(DIGIT.search(word) for word in pair)]


def hash_pairs(pairs: Iterable[tuple[str, str]]) -> Hashes:
    """Hash pairs of words, to 32 bits each."""
    both = (_hash(first) << 32 | _hash(second) for first, second in pairs)
    return np.fromiter((_finished(_next_value(_START, pair)) for pair in both), np.uint32)


def hash_words(words: Iterable[str]) -> Hashes:
    """Hash words, as `split_words` gives them, to 32 bits each: eight bytes of UTF-8 at a time."""
    return np.fromiter(map(_hash, words), np.uint32)


def _hash(word: str) -> int:
    data, value = word.encode(), _START
    for at in range(0, len(data), 8):
        value = _next_value(value, int.from_bytes(data[at : at + 8], "big"))
    return _finished(value)


def _next_value(value: int, eight_bytes: int) -> int:
    value = ((value ^ eight_bytes) * _FACTOR) & _ALL_BITS
    return value ^ (value >> 32)


def _finished(value: int) -> int:
    return ((value * _LAST_FACTOR) & _ALL_BITS) >> 32


def hashes_in(texts: pa.Array, *, is_json: bool) -> Hashes:
    """Hash all words and pairs of an array of texts; what occurs twice may be there twice, and null has none."""
    if len(texts) == texts.null_count:
        return np.empty(0, np.uint32)
    whole = texts if kinds.is_large_string(texts.type) or kinds.is_string(texts.type) else texts.cast(pa.large_string())
    _, offset_buffer, data_buffer = whole.buffers()
    if data_buffer is None:
        return np.empty(0, np.uint32)
    offset_type = np.dtype(np.int64 if kinds.is_large_string(whole.type) else np.int32)
    offsets = np.frombuffer(offset_buffer, offset_type, len(whole) + 1, whole.offset * offset_type.itemsize)
    first, last = int(offsets[0]), int(offsets[-1])
    if not cast("Kernel", _collect).count_and_decide((last - first) / PLAIN_BYTES_A_SECOND):
        return _hashes_by_python(whole, is_json)
    data = np.frombuffer(data_buffer, np.uint8)[first:last]
    starts = offsets.astype(np.int64) - first
    # A word takes a byte, and so does what is before the next one in the same text. There are fewer pairs than words.
    hashes = np.empty(last - first + len(whole) + 1, np.uint32)
    # A hash is kept at the place that its upper bits say: no hash is equal to what these places have at first.
    seen = np.zeros(SEEN, np.uint64)
    seen[0] = _ALL_BITS
    count = _collect(data, starts, is_json, _folding(data), seen, hashes)
    return hashes[:count]


def _hashes_by_python(texts: pa.Array, is_json: bool) -> Hashes:
    words: set[str] = set()
    pairs: set[tuple[str, str]] = set()
    for text in texts.to_pylist():
        if text is not None:
            for value in json_values(text) if is_json else (text,):
                of_value = split_words(value)
                words.update(of_value)
                pairs.update(pairs_of(of_value))
    return np.concatenate([hash_words(sorted(words)), hash_pairs(sorted(pairs))])


def _folding(data: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Choose the table of folded characters that these bytes need; that of all characters takes a while to make."""
    if len(data) and (int(data.max()) >= ASCII or _ESCAPE.search(data.data) is not None):
        return _table(FOLDED_CODES)
    return _table(ASCII)


@cache
def _table(codes: int) -> NDArray[np.int32]:
    return np.fromiter(map(fold, range(codes)), np.int32, codes)


@part
def _hexadecimal(data: Any, at: Any) -> Any:
    """Read four hexadecimal digits."""
    number = np.int64(0)
    for place in range(at, at + 4):
        digit = np.int64(data[place])
        number = number * 16 + (digit - 48 if digit < 58 else (digit & 0xDF) - 55)
    return number & 0xFFFF


@part
def _decode(data: Any, at: Any, stop: Any) -> tuple[Any, Any]:
    r"""Decode an escape of JSON, or a character in UTF-8; return its number, and where the next one starts.

    An escape such as ``\n``, and half of a surrogate pair, belong to no word: their number is 0.
    """
    first: Any = np.int64(data[at])
    if first == BACKSLASH:
        if at + 6 > stop or data[at + 1] != SMALL_U:
            return np.int64(0), np.int64(at + 2)
        code = _hexadecimal(data, at + 2)
        at += 6
        if code < 0xD800 or code >= 0xE000:
            return np.int64(code), np.int64(at)
        if code < 0xDC00 and at + 6 <= stop and data[at] == BACKSLASH and data[at + 1] == SMALL_U:
            low = _hexadecimal(data, at + 2)
            if 0xDC00 <= low < 0xE000:
                return np.int64(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)), np.int64(at + 6)
        return np.int64(0), np.int64(at)
    more = 1 if first < 0xE0 else 2 if first < 0xF0 else 3
    if at + more >= stop:
        more = stop - at - 1
    code = first & (0x3F >> more)
    for place in range(at + 1, at + 1 + more):
        code = (code << 6) | (np.int64(data[place]) & 0x3F)
    return np.int64(code), np.int64(at + 1 + more)


@part
def _is_between_values(byte: int) -> bool:
    """Tell whether a byte of JSON, outside of strings, belongs to no value: a blank, a comma, a colon, a bracket."""
    return byte <= 32 or byte in (COMMA, COLON, OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT)


@part
def _encode(code: Any) -> tuple[Any, Any]:
    """Encode a character beyond ASCII in UTF-8: give its bytes as one number, and how many they are."""
    last = 0x80 | (code & 0x3F)
    if code < 0x800:
        return ((0xC0 | (code >> 6)) << 8) | last, 2
    last |= (0x80 | ((code >> 6) & 0x3F)) << 8
    if code < 0x10000:
        return ((0xE0 | (code >> 12)) << 16) | last, 3
    return ((0xF0 | (code >> 18)) << 24) | ((0x80 | ((code >> 12) & 0x3F)) << 16) | last, 4


@kernel(
    "int64(Array(uint8, 1, 'C', True), Array(int64, 1, 'C', True), boolean, Array(int32, 1, 'C', True), uint64[::1], "
    "uint32[::1])",
    plain=False,
)
def _collect(data: Any, offsets: Any, is_json: bool, folding: Any, seen: Any, hashes: Any) -> int:
    """Write the hashes of words and pairs of all texts to `hashes`; return how many. Leave out those in `seen`, the last."""
    count = 0
    eight, half, no_bytes = np.uint64(8), np.uint64(32), np.uint64(0)
    start, factor, last_factor = np.uint64(_START), np.uint64(_FACTOR), np.uint64(_LAST_FACTOR)
    for text in range(len(offsets) - 1):
        at, stop = offsets[text], offsets[text + 1]
        # A bit for each open bracket, the innermost last: whether it is that of an object. Of more than 64, the outermost
        # are forgotten, and names of members are taken for values there.
        objects, expects_name = np.uint64(0), False
        while at < stop:
            begin, end, in_string = at, stop, False
            if not is_json:
                at = stop
            elif data[at] == QUOTE:
                at += 1
                begin, in_string = at, True
                if expects_name and objects & np.uint64(1):
                    while at < stop and data[at] != QUOTE:
                        at += 2 if data[at] == BACKSLASH else 1
                    at += 1
                    continue
            elif _is_between_values(data[at]):
                if data[at] == OPEN_OBJECT or data[at] == OPEN_ARRAY:
                    objects = (objects << np.uint64(1)) | np.uint64(data[at] == OPEN_OBJECT)
                    expects_name = True
                elif data[at] == CLOSE_OBJECT or data[at] == CLOSE_ARRAY:
                    objects >>= np.uint64(1)
                elif data[at] == COMMA or data[at] == COLON:
                    expects_name = data[at] == COMMA
                at += 1
                continue
            else:
                while at < stop and data[at] != QUOTE and not _is_between_values(data[at]):
                    at += 1
                end = at
            # Up to eight bytes of a word wait in `pending`; `value` is the hash of those before.
            value, pending, waiting, inside = start, no_bytes, 0, False
            # The hash of the word before, if it has no digits and there is one in this value.
            before, has_before, has_digit = no_bytes, False, False
            while begin <= end:
                code: Any = np.int64(0)
                if begin < end:
                    code = np.int64(data[begin])
                    if code < ASCII and folding[code] != NO_WORD:
                        pending = (pending << eight) | np.uint64(folding[code])
                        waiting += 1
                        begin += 1
                        inside = True
                        has_digit |= code < FIRST_NO_DIGIT
                        if waiting == 8:
                            value = (value ^ pending) * factor
                            value ^= value >> half
                            pending, waiting = no_bytes, 0
                        continue
                    if in_string and code == QUOTE:
                        end = begin
                        continue
                    if code >= ASCII or (in_string and code == BACKSLASH):
                        code, begin = _decode(data, begin, end)
                        begin = min(begin, end)
                        if code < len(folding):
                            code = np.int64(folding[code])
                    else:
                        code = np.int64(NO_WORD)
                        begin += 1
                else:
                    begin += 1
                if code != NO_WORD:
                    inside = True
                    encoded, size = (code, 1) if code < ASCII else _encode(code)
                    has_digit |= code < FIRST_NO_DIGIT
                    for place in range(size - 1, -1, -1):
                        pending = (pending << eight) | np.uint64((encoded >> (8 * place)) & 0xFF)
                        waiting += 1
                        if waiting == 8:
                            value = (value ^ pending) * factor
                            value ^= value >> half
                            pending, waiting = no_bytes, 0
                elif inside:
                    if waiting:
                        value = (value ^ pending) * factor
                        value ^= value >> half
                    value *= last_factor
                    word = value >> half
                    if seen[value >> np.uint64(64 - SEEN_BITS)] != value:
                        seen[value >> np.uint64(64 - SEEN_BITS)] = value
                        hashes[count] = word
                        count += 1
                    if has_before and not has_digit:
                        value = (start ^ ((before << half) | word)) * factor
                        value = (value ^ (value >> half)) * last_factor
                        if seen[value >> np.uint64(64 - SEEN_BITS)] != value:
                            seen[value >> np.uint64(64 - SEEN_BITS)] = value
                            hashes[count] = value >> half
                            count += 1
                    before, has_before, has_digit = word, not has_digit, False
                    value, pending, waiting, inside = start, no_bytes, 0, False
            if in_string:
                at = end + 1
    return count
