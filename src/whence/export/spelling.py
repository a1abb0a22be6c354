r"""Names and texts as other programs can take them: one way, the same for every program, and readable.

A character that cannot stand where it would is spelt ``\n``, ``\xNN``, ``\uNNNN`` or ``\UNNNNNNNN``; a backslash of a host
is then spelt ``\\``, so that no two names become one.
"""

from __future__ import annotations

import re
from typing import Final

from whence.history.questions.event import Event

REGEX: Final = r"(?<event>.*)\n(?<host>\S*) (?<clock>{.*})"
"""ShiViz's own expression."""
GOVECTOR_REGEX: Final = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)"
"""What reads GoVector's logs."""
DELIMITER: Final = r"^=== (?<trace>.*) ===$"
"""What separates executions, where there are several."""

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
"""What every object of JavaScript has: ShiViz keeps hosts as members of one."""


def host(name: str) -> str:
    r"""A name without blanks, as ``\S*`` matches it in JavaScript and in Python; different names stay different."""
    if not name:
        return _EMPTY
    if name in _OBJECT:
        return _spelt(name[0]) + name[1:]
    return _IN_HOST.sub(lambda found: _spelt(found[0]), name)


def line(text: str) -> str:
    """A text on one line, which no expression takes for a clock or a delimiter."""
    text = _IN_LINE.sub(lambda found: _spelt(found[0]), text)
    while _LIKE_CLOCK.match(text):
        text = _LIKE_CLOCK.sub(r"\1\\x20\2", text, count=1)
    return _spelt("=") + text[1:] if _LIKE_DELIMITER.match(text) else text


def label(event: Event) -> str:
    """What an event is called: its name, or else its id."""
    return event.name or event.id


def _spelt(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    number = ord(character)
    return f"\\x{number:02x}" if number < 1 << 8 else f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"
