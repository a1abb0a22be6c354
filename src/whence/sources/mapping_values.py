"""Where a mapping takes a value from: a field of the record, text put together from several, or a part of either.

A field is a path of keys with dots between them, ``data.host``; a number picks an element of an array; a key with dots
in it stands in double quotes, ``data."host.name"``. A template has fields in braces, ``{src}:{port}``, and braces of
its own doubled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from whence.sources.rows import BadRecord
from whence.sources.timed_regex import TimedPattern
from whence.sources.times import INT64_LEAST, INT64_MOST, NANOSECONDS_IN, time_from_text

Record = Mapping[str, tuple[Any, str, str]]
"""A record as `whence.sources.strict_json.members` gives it: key -> value, the value's text, the key's text."""

TICK: Final = "tick"
UNITS: Final = (*NANOSECONDS_IN, TICK)
"""What times given as numbers may count."""

_KEY = re.compile(r'"([^"]*)"|([^."{}]+)')
_BRACES = re.compile(r'\{\{|\}\}|\{((?:"[^"]*"|[^{}"])+)\}|[{}]')
_NUMBER_TEXT = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Field:
    """A place in a record."""

    path: str
    keys: tuple[str, ...]

    def value(self, record: Record) -> Any:
        """What stands there; None where nothing does, or null."""
        found = record.get(self.keys[0])
        return None if found is None else self.within(found[0])

    def within(self, value: Any) -> Any:
        """What stands there in the value of the record's member that the path begins with."""
        for key in self.keys[1:]:
            if isinstance(value, dict):
                value = value.get(key)
            elif isinstance(value, list) and key.isascii() and key.isdigit() and len(key) < 10:
                value = value[int(key)] if int(key) < len(value) else None
            else:
                return None
        return value


@dataclass(frozen=True, slots=True)
class Value:
    """How a mapping takes one value from a record; errors name it by `what`."""

    what: str
    parts: tuple[str | Field, ...]
    """One field alone is that field's own value; everything else is text."""
    match: TimedPattern | None = None
    """Takes what its first group matches, or all that it matches, of the text."""
    optional: bool = False
    unit: str | None = None

    @property
    def field(self) -> Field | None:
        """The field whose value this is, as it stands."""
        only = self.parts[0] if len(self.parts) == 1 and self.match is None else None
        return only if isinstance(only, Field) else None

    def of(self, record: Record) -> Any:
        """The value; None for an optional one that is not there. Raises `BadRecord`."""
        field = self.field
        if field is not None:
            value = field.value(record)
            if value is None and not self.optional:
                raise self._missing(field, record)
            return value
        texts = []
        for part in self.parts:
            if isinstance(part, Field):
                value = part.value(record)
                if value is None:
                    if self.optional:
                        return None
                    raise self._missing(part, record)
                texts.append(self._spelled(value))
            else:
                texts.append(part)
        text = "".join(texts)
        return text if self.match is None else self._matched(self.match, text)

    def text_of(self, record: Record, *, may_be_empty: bool = False) -> str | None:
        """The value as text; raises `BadRecord`."""
        return self.as_text(self.of(record), may_be_empty=may_be_empty)

    def as_text(self, value: Any, *, may_be_empty: bool = False) -> str | None:
        """What `of` gave, as text; raises `BadRecord` for objects, arrays and, unless it may be so, empty text."""
        return None if value is None else self._checked(self._spelled(value), may_be_empty)

    def as_texts(self, value: Any) -> list[str]:
        """What `of` gave, as texts: all elements of an array, or the one."""
        if isinstance(value, list):
            return [self._checked(self._spelled(each), False) for each in value]
        return [] if value is None else [self._checked(self._spelled(value), False)]

    def as_integer(self, value: Any, *, least: int = INT64_LEAST) -> int | None:
        """What `of` gave, as an integer, also one written in text."""
        if isinstance(value, str) and _NUMBER_TEXT.fullmatch(value) and "." not in value:
            value = int(value)
        if value is None:
            return None
        if type(value) is not int or not least <= value <= INT64_MOST:
            expected = "an integer" if least == INT64_LEAST else f"an integer from {least} on"
            raise BadRecord("bad-field", f"{self.what} is {expected}, not {_shown(value)}")
        return value

    def as_time(self, value: Any, unit: str) -> int | None:
        """What `of` gave, as a time in `unit`, finer parts cut off: from a number, also one in text, or ISO-8601 text."""
        if value is None:
            return None
        if isinstance(value, str):
            if not _NUMBER_TEXT.fullmatch(value):
                return time_from_text(value, unit)
            numerator, denominator = _ratio(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            # The shortest text of a real is what stood in the log, up to 15 digits; its binary value is not.
            numerator, denominator = _ratio(repr(value))
        else:
            raise BadRecord("bad-field", f"{self.what} is a number or ISO-8601 text, not {_shown(value)}")
        times, parts = self.scale(unit)
        time = numerator * times // (denominator * parts)
        if not INT64_LEAST <= time <= INT64_MOST:
            raise BadRecord("bad-field", f"{self.what} is {_shown(value)}, beyond 64 bits of {unit}")
        return time

    def scale(self, unit: str) -> tuple[int, int]:
        """What a time is multiplied with, and divided by, to be in `unit`."""
        if self.unit in (None, unit):
            return 1, 1
        return NANOSECONDS_IN[str(self.unit)], NANOSECONDS_IN[unit]

    def _missing(self, field: Field, record: Record) -> BadRecord:
        there = ", ".join(key[:_SHOWN] for key in list(record)[:20]) or "nothing"
        return BadRecord("missing-field", f"{self.what} needs the field {field.path}; the record has {there}")

    def _spelled(self, value: object) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return repr(value)
        raise BadRecord("bad-field", f"{self.what} is text or a number, not {_shown(value)}")

    def _matched(self, match: TimedPattern, text: str) -> str | None:
        taken = match.extract(text)
        if taken is None and not self.optional:
            raise BadRecord("bad-field", f"{self.what} matches {match.pattern!r}, which {_shown(text)} does not")
        return taken

    def _checked(self, text: str, may_be_empty: bool) -> str:
        if not text and not may_be_empty:
            raise BadRecord("bad-field", f"{self.what} is empty")
        if "\0" in text:
            raise BadRecord("bad-field", f"{self.what} holds a NUL character")
        return text


def read_field(path: str) -> Field:
    """The field of a path; raises `ValueError`."""
    keys, at = [], 0
    while True:
        found = _KEY.match(path, at)
        if found is None:
            raise ValueError(f"{path!r} is no field: keys with dots between them, those with dots in double quotes")
        keys.append(found[1] if found[2] is None else found[2])
        at = found.end()
        if at == len(path):
            return Field(path, tuple(keys))
        if path[at] != ".":
            raise ValueError(f"{path!r} is no field: expected a dot, found {path[at:]!r}")
        at += 1


def read_parts(text: str) -> tuple[str | Field, ...]:
    """A field, if the text has no braces, or the parts of a template; raises `ValueError`."""
    if "{" not in text and "}" not in text:
        return (read_field(text),)
    parts: list[str | Field] = []
    at, literal = 0, ""
    for mark in _BRACES.finditer(text):
        literal += text[at : mark.start()]
        at = mark.end()
        if mark[1] is not None:
            parts += [literal, read_field(mark[1])] if literal else [read_field(mark[1])]
            literal = ""
        elif len(mark[0]) == 2:
            literal += mark[0][0]
        else:
            raise ValueError(f"{text!r} has a brace that is alone: fields stand in {{braces}}, braces are doubled")
    literal += text[at:]
    return (*parts, literal) if literal or not any(isinstance(part, Field) for part in parts) else tuple(parts)


def _ratio(number: str) -> tuple[int, int]:
    """The number that the text spells, as numerator and denominator."""
    if "e" in number:
        return Decimal(number).as_integer_ratio()
    whole, _, fraction = number.partition(".")
    return int(whole + fraction), int(10 ** len(fraction))


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."
