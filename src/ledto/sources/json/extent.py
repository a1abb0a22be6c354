"""Find the end of a JSON value by its brackets and quotes alone. The strict parser checks the rest.

The scan stops early at what no valid value has (two values without a comma, a line end in a text, brackets that do not
match): the earlier damage is found, the less of the file is lost.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

MOST_NESTED: Final = 1_000
"""Open brackets at which a scan gives up. It only limits memory: the strict parser refuses fewer already."""

_TEXT = rb'"[^"\\\x00-\x1f]*+(?:\\[^\x00-\x1f][^"\\\x00-\x1f]*+)*+"'
_INSIDE = rb'[^"\[\]{}]*+(?:' + _TEXT + rb'[^"\[\]{}]*+)*+'
_NO_COMMA = rb'(?:((?=[ \t\r\n]*+[\[{"]))|)'
"""An empty group that matches if another value follows without a comma."""
_MARKS = re.compile(
    rb"(?:(?:\{" + _INSIDE + rb"\})|(?:\[" + _INSIDE + rb"\]))" + _NO_COMMA + rb"|"
    rb"([\[{])|([\]}])" + _NO_COMMA + rb"|" + _TEXT + rb'|(")'
)
_FLAT_NO_COMMA, _OPEN, _CLOSE, _CLOSE_NO_COMMA, _LONE_QUOTE = range(1, 6)
_TEXT_ONLY = re.compile(_TEXT)
_UNENDED_TEXT = re.compile(rb'"[^"\\\x00-\x1f]*+(?:\\[^\x00-\x1f][^"\\\x00-\x1f]*+)*+\\?\Z')
_SCALAR = re.compile(rb"-?[0-9][0-9.eE+-]*|true|false|null")
_SCALAR_CUT = re.compile(rb"(?:-?[0-9.eE+-]*|t|tr|tru|f|fa|fal|fals|n|nu|nul)\Z")
_SKIP = msgspec.json.Decoder(msgspec.Raw)
_FOLLOWING = re.compile(r"trailing characters \(byte (\d+)\)")
_TRUNCATED = "Input data was truncated"
_OPENING_OF = {ord("]"): ord("["), ord("}"): ord("{")}


class Unfinished(Exception):
    """The data ends inside of a value that is valid so far."""


class Unfit(Exception):
    """There is no valid value here. `position` is where the scan found that out."""

    def __init__(self, code: str, detail: str, position: int) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.position = position


def value_end(data: bytes, start: int, *, is_all: bool) -> int | None:
    """Return the position after the value that begins at `start`; None if `data` ends first.

    `is_all` says that nothing follows `data`: a number at its end is then whole. The value need not be valid. Raises
    `Unfit`, but never for a valid value.
    """
    first = data[start : start + 1]
    if first in (b"{", b"["):
        try:
            end = quick_end(data, start)
        except Unfinished:
            # Valid so far. At the end of a file, the slow scan gives a better message.
            return _container_end(data, start) if is_all else None
        return _container_end(data, start) if end is None else end
    if first == b'"':
        text = _TEXT_ONLY.match(data, start)
        if text is None and not _UNENDED_TEXT.match(data, start):
            raise Unfit("not-json", "a text is not closed before the end of its line", start)
        return None if text is None else text.end()
    scalar = _SCALAR.match(data, start)
    if not is_all and (scalar is None or scalar.end() == len(data)) and _SCALAR_CUT.match(data, start):
        return None
    if scalar is None:
        raise Unfit("not-json", f"expected a value, found {shown(data, start)}", start)
    return scalar.end()


def quick_end(data: bytes, start: int) -> int | None:
    """Return the end of the object or array if it is valid JSON; None if that is not clear. Raises `Unfinished`.

    Parsing by msgspec is thirty times as fast as counting brackets. Its message about trailing characters says at which
    byte they begin, counted from 1. If that message changes one day, this function returns None, and only time is lost.
    """
    try:
        _SKIP.decode(memoryview(data)[start:])
    except (msgspec.DecodeError, RecursionError) as error:
        message = str(error)
        following = _FOLLOWING.search(message)
        if following is None:
            if message == _TRUNCATED:
                raise Unfinished from None
            return None
        end = start + int(following[1]) - 1
    else:
        end = len(data)
    while data[end - 1] in b" \t\r\n":
        end -= 1
    return end


def _container_end(data: bytes, start: int) -> int | None:
    open_brackets = bytearray()
    for mark in _MARKS.finditer(data, start):
        kind = mark.lastindex
        if kind is None or kind == _FLAT_NO_COMMA:
            if not open_brackets:
                return mark.end()
        elif kind == _OPEN:
            open_brackets.append(data[mark.start()])
            if len(open_brackets) > MOST_NESTED:
                raise Unfit("too-deep", f"more than {MOST_NESTED} brackets are open", mark.start())
        elif kind == _LONE_QUOTE:
            if _UNENDED_TEXT.match(data, mark.start()):
                return None
            raise Unfit("not-json", "a text is not closed before the end of its line", mark.start())
        else:
            if open_brackets.pop() != _OPENING_OF[data[mark.start()]]:
                raise Unfit("not-json", f"{chr(data[mark.start()])!r} closes what it did not open", mark.start())
            if not open_brackets:
                return mark.end()
        if kind in (_FLAT_NO_COMMA, _CLOSE_NO_COMMA):
            raise Unfit("not-json", f"expected ',' or a closing bracket, found {shown(data, mark.end())}", mark.end())
    return None


def shown(data: bytes, position: int) -> str:
    """Return the text at a position, for a message."""
    text = data[position : position + 40].lstrip()[:20]
    return repr(text.decode("utf-8", errors="backslashreplace")) if text else "the end of the file"
