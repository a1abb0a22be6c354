"""Say which texts of a log are numbers or truth values: those that JSON would write the same.

    7    -3    1.50    true          are 7, -3, 1.50 and true
    007    +3    1e5    1e5x    True    stay text

Ids often consist of digits. So a text with leading zeros stays text, and so does one with an exponent, which may be an id in
hexadecimal digits: only exponents as JSON writers write them (``1e-07``) make a number.
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec import Raw

from ledto.sources.times import INT64_LEAST, INT64_MOST

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})(\.[0-9]{1,40})?", re.ASCII)
_is_number = _NUMBER.fullmatch
_WITH_EXPONENT = re.compile(r"-?[1-9](?:\.[0-9]{1,17})?e[+-][0-9]{2,3}", re.ASCII)
_LAST_OF_TYPED: Final = frozenset("0123456789e")
_SURELY_64_BITS = 18
"""So many decimal digits fit into 64 bits, whichever they are."""
_BOOLEANS: Final = {"true": True, "false": False}
FIRST_OF_TYPED: Final = frozenset("-0123456789tf")
"""The first characters of texts that may be numbers or truth values."""


def typed(text: str) -> str | int | float | bool:
    """Return the number or truth value that a text means; the text itself if it means none."""
    if text[:1] not in FIRST_OF_TYPED or not text:
        return text
    number = _is_number(text)
    if number is None:
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        return float(text) if _WITH_EXPONENT.fullmatch(text) and repr(float(text)) == text else text
    if number[1] is not None:
        return float(text)
    value = int(text)
    return value if INT64_LEAST <= value <= INT64_MOST and text != "-0" else text


def as_json(text: str) -> Any:
    """Return a value that msgspec writes as the JSON of this text: a number in its own spelling, a truth value, or text."""
    if text.isdigit() and len(text) <= _SURELY_64_BITS and text.isascii():
        return int(text) if text[0] != "0" or len(text) == 1 else text
    if text[-1:] not in _LAST_OF_TYPED:
        return text
    number = _is_number(text)
    if number is not None and number[1] is not None:
        return Raw(text.encode())
    if number is None and text not in _BOOLEANS and "e+" not in text and "e-" not in text:
        return text
    value = typed(text)
    return Raw(text.encode()) if isinstance(value, float) else value
