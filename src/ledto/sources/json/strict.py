"""Parse one JSON object from one line; refuse whatever another reader might read differently.

Besides invalid JSON it refuses a key that occurs twice, ``NaN`` and infinities, integers beyond 64 bits, halves of
surrogate pairs, nesting beyond `MOST_DEPTH`, and bytes that are not UTF-8.
"""

from __future__ import annotations

import json
import math
import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, Final, NoReturn

from msgspec import Raw

from ledto.sources.rows import BadRecord
from ledto.sources.times import INT64_LEAST, INT64_MOST

MOST_DEPTH: Final = 64
"""Arrays and objects inside each other, the record itself included."""

_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN_KEY = re.compile(r'[ \t\n\r]*("[^"\\\x00-\x1f]*")[ \t\n\r]*:[ \t\n\r]*')
_AFTER_VALUE = re.compile(r"[ \t\n\r]*([,}])")
_DEPTH_MARKS = re.compile(r'[\[{]|[\]}]|"[^"\\]*(?:\\.[^"\\]*)*"?')
_SHOWN = 60


def members(raw: bytes) -> dict[str, tuple[Any, str, str]]:
    """Parse one object. Return, by key: the value, the value's own text, and the key's own text with its quotes.

    Raises `BadRecord` for anything but one object.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRecord("not-utf8", f"byte {error.start} of the record: {error.reason}") from None
    _check_depth(text)
    try:
        return _object(text)
    except json.JSONDecodeError as error:
        raise BadRecord("not-json", _what_and_where(error)) from None


def _what_and_where(error: json.JSONDecodeError) -> str:
    # Some of Python's messages end in "at", for a position to follow.
    return f"{error.msg.removesuffix(' at')} at character {error.pos}"


def value_of(text: str, *, keep_reals: bool = False) -> Any:
    """Parse one JSON value. Raises `BadRecord`.

    With `keep_reals`, a number with a fraction or an exponent becomes its text, a `msgspec.Raw`, which msgspec writes
    unchanged.
    """
    _check_depth(text)
    try:
        value = (_KEEPING_DECODER if keep_reals else _DECODER).decode(text)
    except json.JSONDecodeError as error:
        raise BadRecord("not-json", f"{_what_and_where(error)} of {text[:_SHOWN]!r}") from None
    if "\\u" in text:
        _refuse_half_surrogates(value)
    return value


def _object(text: str) -> dict[str, tuple[Any, str, str]]:
    position = _after_space(text, 0)
    if text[position : position + 1] != "{":
        raise BadRecord("not-json", f"a record is an object in braces, not {text[position : position + 20]!r}")
    parsed: dict[str, tuple[Any, str, str]] = {}
    position = _after_space(text, position + 1)
    closed = text[position : position + 1] == "}"
    position += closed
    while not closed:
        key, key_text, start = _key(text, position)
        try:
            value, end = _DECODER.scan_once(text, start)  # type: ignore[attr-defined]
        except StopIteration as error:
            raise json.JSONDecodeError("expected a value", text, error.value) from None
        value_text = text[start:end]
        if "\\u" in key_text or "\\u" in value_text:
            _refuse_half_surrogates([key, value])
        if key in parsed:
            _refuse_duplicate(key)
        parsed[key] = value, value_text, key_text
        after = _AFTER_VALUE.match(text, end)
        if after is None:
            raise json.JSONDecodeError("expected ',' or '}'", text, end)
        closed = after[1] == "}"
        position = after.end()
    end = _after_space(text, position)
    if end != len(text):
        raise json.JSONDecodeError("more text after the object", text, end)
    return parsed


def _key(text: str, position: int) -> tuple[str, str, int]:
    """Parse a key and its colon; return the key, its own text, and where its value begins."""
    plain = _PLAIN_KEY.match(text, position)
    if plain is not None:
        return plain[1][1:-1], plain[1], plain.end()
    position = _after_space(text, position)
    if text[position : position + 1] != '"':
        raise json.JSONDecodeError("expected a key in double quotes", text, position)
    key, end = scanstring(text, position + 1, True)
    key_text = text[position:end]
    position = _after_space(text, end)
    if text[position : position + 1] != ":":
        raise json.JSONDecodeError("expected ':'", text, position)
    return key, key_text, _after_space(text, position + 1)


def _after_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    return position if space is None else space.end()


def _check_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= MOST_DEPTH:
        return
    depth = 0
    for mark in _DEPTH_MARKS.finditer(text):
        if mark[0] in "[{":
            depth += 1
            if depth > MOST_DEPTH:
                raise BadRecord("too-deep", f"more than {MOST_DEPTH} arrays and objects inside each other")
        elif mark[0] in "]}":
            depth -= 1


def _refuse_half_surrogates(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False, default=str).encode("utf-8")
    except UnicodeEncodeError:
        raise BadRecord("not-utf8", "half of a surrogate pair in an escape") from None


def _refuse_duplicate(key: str) -> NoReturn:
    raise BadRecord("duplicate-key", f"{key[:_SHOWN]!r} is given twice")


def _check_unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        _refuse_duplicate(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return members


def _integer(digits: str) -> int:
    # int() raises for thousands of digits. No integer of 64 bits has more than 20 characters.
    value = int(digits) if len(digits) <= 20 else INT64_MOST + 1
    if not INT64_LEAST <= value <= INT64_MOST:
        raise BadRecord("number-out-of-range", f"{digits[:_SHOWN]} is beyond 64 bits")
    return value


def _real(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise BadRecord("number-out-of-range", f"{digits[:_SHOWN]} is beyond a double")
    return value


def _real_text(digits: str) -> Raw:
    _real(digits)
    return Raw(digits.encode())


def _refuse_constant(name: str) -> NoReturn:
    raise BadRecord("not-json", f"{name} is no JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_check_unique, parse_int=_integer, parse_float=_real, parse_constant=_refuse_constant
)
_KEEPING_DECODER = json.JSONDecoder(
    object_pairs_hook=_check_unique, parse_int=_integer, parse_float=_real_text, parse_constant=_refuse_constant
)
