"""Read values from records as a mapping says: from a field, from a template with several, or from a part of either.
Several may be given, of which the first that the record has counts.

A field is a path of keys with dots between them, ``data.host``. A number is an index of an array. A key with dots in it
is in double quotes, ``data."host.name"``. A template has fields in braces, ``{src}:{port}``; other braces are doubled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

from ledto.sources.mapping.moments import ISO, TimeText
from ledto.sources.regex.timed import TimedPattern
from ledto.sources.rows import BadRecord
from ledto.sources.times import INT64_LEAST, INT64_MOST, NANOSECONDS_IN

Record = Mapping[str, tuple[Any, str, str]]
"""A record as `ledto.sources.json.strict.members` returns it: by key, the value, its text, and the key's text."""

TICK: Final = "tick"
UNITS: Final = (*NANOSECONDS_IN, TICK)
"""The units of times as numbers."""
AUTO: Final = "auto"
"""In place of a unit: the size of a number tells it. Times since 1973 in seconds, milliseconds, microseconds and nanoseconds
have sizes of their own."""
_AUTO_BELOW: Final = ((10**11, "s"), (10**14, "ms"), (10**17, "us"))

_KEY = re.compile(r'"([^"]*)"|([^."{}]+)')
_BRACES = re.compile(r'\{\{|\}\}|\{((?:"[^"]*"|[^{}"])+)\}|[{}]')
_NUMBER_TEXT = re.compile(r"-?[0-9]{1,20}(?:\.[0-9]{1,20})?")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record, as a path."""

    path: str
    keys: tuple[str, ...]
    forms: tuple[tuple[str, ...], ...]
    """The keys to follow, in all ways in which records may write the path; the first that a record has counts."""

    def value(self, record: Record) -> Any:
        """Return the field's value; None if it is missing or null."""
        for first, *rest in self.forms:
            member = record.get(first)
            if member is not None and (value := follow(member[0], rest)) is not None:
                return value
        return None


def follow(value: Any, keys: Sequence[str]) -> Any:
    """Follow a path of keys into a value; None if it leads nowhere."""
    for key in keys:
        value = member_of(value, key)
    return value


def member_of(value: Any, key: str) -> Any:
    """Return the member of an object, or the element of an array with that index; None if there is none."""
    if isinstance(value, dict):
        return value.get(key)
    if isinstance(value, list) and key.isascii() and key.isdigit() and len(key) < 10:
        return value[int(key)] if int(key) < len(value) else None
    return None


Parts: TypeAlias = tuple[str | Field, ...]
"""A field, or the literal texts and fields of a template."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value that a mapping reads from records. Errors call it `what`."""

    what: str
    parts: Parts
    """A single field gives its value, of any type. All else gives text."""
    match: TimedPattern | None = None
    """An expression. What its first group matches, or the whole match, becomes the text."""
    optional: bool = False
    unit: str | None = None
    others: tuple[Parts, ...] = ()
    """Other parts, in case the record lacks a field of those before them, or has empty text there."""
    time_text: TimeText = ISO
    """How times are written as text."""

    @property
    def choices(self) -> tuple[Parts, ...]:
        """Return all parts, of which the first that the record has count."""
        return (self.parts, *self.others)

    @property
    def field(self) -> Field | None:
        """Return the field whose unchanged value this is; None if it is not one."""
        return None if self.others or self.match is not None else only_field(self.parts)

    def of(self, record: Record) -> Any:
        """Return the value in a record; None for an optional one that is missing. Raises `BadRecord`."""
        for parts in self.choices:
            value = self._fill(parts, record)
            if value is not None and not (self.others and value == ""):
                return value if self.match is None else self._extract(self.match, self._to_text(value))
        if self.optional:
            return None
        raise self._missing_error(record)

    def _fill(self, parts: Parts, record: Record) -> Any:
        """Return the value of a field, or the text of a template; None if a field is missing."""
        field = only_field(parts)
        if field is not None:
            return field.value(record)
        texts = []
        for part in parts:
            value = part.value(record) if isinstance(part, Field) else part
            if value is None:
                return None
            texts.append(self._to_text(value))
        return "".join(texts)

    def text_of(self, record: Record, *, may_be_empty: bool = False) -> str | None:
        """Return the value in a record as text. Raises `BadRecord`."""
        return self.as_text(self.of(record), may_be_empty=may_be_empty)

    def as_text(self, value: Any, *, may_be_empty: bool = False) -> str | None:
        """Convert a result of `of` to text. Raises `BadRecord` for objects, arrays and, by default, for empty text."""
        return None if value is None else self._check_text(self._to_text(value), may_be_empty)

    def as_texts(self, value: Any) -> list[str]:
        """Convert a result of `of` to texts: one for each element of an array, or one. Raises `BadRecord`."""
        if isinstance(value, list):
            return [self._check_text(self._to_text(element), False) for element in value]
        return [] if value is None else [self._check_text(self._to_text(value), False)]

    def as_integer(self, value: Any, *, least: int = INT64_LEAST) -> int | None:
        """Convert a result of `of` to an integer, also from text. Raises `BadRecord`."""
        if isinstance(value, str) and _NUMBER_TEXT.fullmatch(value) and "." not in value:
            value = int(value)
        if value is None:
            return None
        if type(value) is not int or not least <= value <= INT64_MOST:
            expected = "an integer" if least == INT64_LEAST else f"an integer from {least} on"
            raise BadRecord("bad-field", f"{self.what} is {expected}, not {_show(value)}")
        return value

    def as_time(self, value: Any, unit: str) -> int | None:
        """Convert a result of `of` to a time in `unit`, from a number, also in text, or from text.

        Cuts off finer parts. Raises `BadRecord`.
        """
        if value is None:
            return None
        if self.time_text.format is not None and type(value) is int:
            value = str(value)
        if isinstance(value, str):
            if self.time_text.format is not None or not _NUMBER_TEXT.fullmatch(value):
                return self.time_text.exact(value, unit)
            numerator, denominator = _parse_ratio(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            # The shortest text of a float is that of the log, up to 15 digits; its binary value is not.
            numerator, denominator = _parse_ratio(repr(value))
        else:
            raise BadRecord("bad-field", f"{self.what} is a number or ISO-8601 text, not {_show(value)}")
        times, divisor = self.scale(unit, numerator // denominator)
        time = numerator * times // (denominator * divisor)
        if not INT64_LEAST <= time <= INT64_MOST:
            raise BadRecord("bad-field", f"{self.what} is {_show(value)}, beyond 64 bits of {unit}")
        return time

    def scale(self, unit: str, number: int = 0) -> tuple[int, int]:
        """Return the factor and the divisor that convert a time, given as this number, to `unit`."""
        if self.unit in (None, unit):
            return 1, 1
        own = str(self.unit)
        if own == AUTO:
            own = next((name for below, name in _AUTO_BELOW if abs(number) < below), "ns")
        return NANOSECONDS_IN[own], NANOSECONDS_IN[unit]

    def _missing_error(self, record: Record) -> BadRecord:
        present = ", ".join(key[:_SHOWN] for key in list(record)[:20]) or "nothing"
        missing = [self._missing_field(parts, record) for parts in self.choices]
        return BadRecord(
            "missing-field", f"{self.what} needs the field {' or '.join(missing)}; the record has {present}"
        )

    def _missing_field(self, parts: Parts, record: Record) -> str:
        fields = [part for part in parts if isinstance(part, Field)]
        return next((field.path for field in fields if field.value(record) is None), fields[0].path if fields else "")

    def _to_text(self, value: object) -> str:
        if isinstance(value, str):
            return value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return repr(value)
        raise BadRecord("bad-field", f"{self.what} is text or a number, not {_show(value)}")

    def _extract(self, match: TimedPattern, text: str) -> str | None:
        part = match.extract(text)
        if part is None and not self.optional:
            raise BadRecord("bad-field", f"{self.what} must match {match.pattern!r}, and {_show(text)} does not")
        return part

    def _check_text(self, text: str, may_be_empty: bool) -> str:
        if not text and not may_be_empty:
            raise BadRecord("bad-field", f"{self.what} is empty")
        if "\0" in text:
            raise BadRecord("bad-field", f"{self.what} holds a NUL character")
        return text


def only_field(parts: Parts) -> Field | None:
    """Return the field if these parts are one field and nothing else."""
    return parts[0] if len(parts) == 1 and isinstance(parts[0], Field) else None


def read_field(path: str, *, dotted: bool = False) -> Field:
    """Parse the path of a field. Raises `ValueError`."""
    keys, at = [], 0
    while True:
        key = _KEY.match(path, at)
        if key is None:
            raise ValueError(
                f"{path!r} is no field: write keys with dots between them, and keys with dots in double quotes"
            )
        keys.append(key[1] if key[2] is None else key[2])
        at = key.end()
        if at == len(path):
            return Field(path, tuple(keys), tuple(_joined(keys)) if dotted else (tuple(keys),))
        if path[at] != ".":
            raise ValueError(f"{path!r} is no field: expected a dot, found {path[at:]!r}")
        at += 1


def _joined(keys: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield all ways to join neighbouring keys by dots: all of them first, and at last none."""
    for count in range(len(keys), 0, -1):
        first = ".".join(keys[:count])
        if count == len(keys):
            yield (first,)
        else:
            yield from ((first, *rest) for rest in _joined(keys[count:]))


def read_parts(text: str, *, dotted: bool = False) -> Parts:
    """Parse a field, if the text has no braces, or the parts of a template. Raises `ValueError`.

    `dotted`: several keys of a path may be written as one, with dots between them.
    """
    if "{" not in text and "}" not in text:
        return (read_field(text, dotted=dotted),)
    parts: list[str | Field] = []
    at, literal = 0, ""
    for mark in _BRACES.finditer(text):
        literal += text[at : mark.start()]
        at = mark.end()
        if mark[1] is not None:
            parts += [*([literal] if literal else []), read_field(mark[1], dotted=dotted)]
            literal = ""
        elif len(mark[0]) == 2:
            literal += mark[0][0]
        else:
            raise ValueError(f"{text!r} has a single brace: write fields in {{braces}}, and double other braces")
    literal += text[at:]
    return (*parts, literal) if literal or not any(isinstance(part, Field) for part in parts) else tuple(parts)


def _parse_ratio(number: str) -> tuple[int, int]:
    """Parse a number into numerator and denominator."""
    if "e" in number:
        return Decimal(number).as_integer_ratio()
    whole, _, fraction = number.partition(".")
    return int(whole + fraction), int(10 ** len(fraction))


def _show(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."
