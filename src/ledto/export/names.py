r"""Escape names and texts so that other programs can read them. The escapes are the same for every program.

A character that is not allowed becomes ``\n``, ``\xNN``, ``\uNNNN`` or ``\UNNNNNNNN``. A backslash of a host becomes
``\\``, so that different names stay different.
"""

from __future__ import annotations

import re
from typing import Final

from ledto.questions.event import Event

REGEX: Final = r"(?<event>.*)\n(?<host>\S*) (?<clock>{.*})"
"""The expression that ShiViz has by default."""
GOVECTOR_REGEX: Final = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"
"""The expression for GoVector's logs."""
DELIMITER: Final = r"^=== (?<trace>.*) ===$"
"""The expression for the line between two executions."""

_IN_HOST = re.compile(r"[\\\s\x00-\x1f\x7f-\x9f\u1680\u180e\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff]")
_IN_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_LIKE_CLOCK = re.compile(r"(\S*) (\{.*\})")
_LIKE_DELIMITER = re.compile(r"=== .* ===$")
_SHORT = {"\\": r"\\", "\n": r"\n", "\r": r"\r", "\t": r"\t"}
_EMPTY = r"\empty"
_OBJECT = frozenset(
    {
        *("constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString"),
        *("valueOf", "__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__"),
    }
)
"""Members of every object of JavaScript. ShiViz stores hosts as members of one, so no host may have such a name."""


def escape_host(name: str) -> str:
    r"""Escape a name so that ``\S*`` matches it in JavaScript and in Python. Different names stay different."""
    if not name:
        return _EMPTY
    if name in _OBJECT:
        return _escape(name[0]) + name[1:]
    return _IN_HOST.sub(lambda match: _escape(match[0]), name)


def escape_line(text: str) -> str:
    """Escape a text so that it is one line, and no expression reads it as a clock or a delimiter."""
    text = _IN_LINE.sub(lambda match: _escape(match[0]), text)
    while _LIKE_CLOCK.match(text):
        text = _LIKE_CLOCK.sub(r"\1\\x20\2", text, count=1)
    return _escape("=") + text[1:] if _LIKE_DELIMITER.match(text) else text


def label(event: Event) -> str:
    """Return the event's name, or its id if it has no name."""
    return event.name or event.id


def _escape(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    number = ord(character)
    return f"\\x{number:02x}" if number < 1 << 8 else f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"
