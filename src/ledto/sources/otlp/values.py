"""Read values of OTLP's JSON mapping: ids, integers, texts, and attributes of any type.

All functions raise `BadRecord` for a wrong value. A field may be named ``traceId`` or ``trace_id``; null means not given.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec

from ledto.sources.rows import BadRecord
from ledto.sources.times import INT64_LEAST, INT64_MOST

Fields = Mapping[str, Any]

TRACE_BYTES: Final = 16
SPAN_BYTES: Final = 8

MOST_DEPTH: Final = 32
"""Arrays and maps inside each other in one attribute, at most."""

_CAPITAL = re.compile("[A-Z]")
_INTEGER = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_HEX = re.compile("[0-9a-fA-F]*", re.ASCII)
_SHOWN = 60
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_ALWAYS_SAME = frozenset({str, int, bool, type(None)})
_LEAST_SAME, _MOST_SAME = 1e-4, 1e16
"""`msgspec` writes values of these types, and floats in this range, as Python does."""
_encode = msgspec.json.Encoder().encode
_KINDS_OF_VALUE = {
    "stringValue": "text",
    "boolValue": "true or false",
    "intValue": "an integer",
    "doubleValue": "a number",
    "arrayValue": 'an object with "values"',
    "kvlistValue": 'an object with "values"',
    "bytesValue": "base64 text",
}
"""By field of an ``AnyValue``: what it holds."""


def field_of(record: Fields, name: str) -> Any:
    """Return the field with this camelCase name, or its snake_case name; None if it is not given."""
    value = record.get(name)
    snake = _snake(name)
    if snake in record:
        if name in record and name != snake:
            raise BadRecord("duplicate-key", f"{name!r} and {snake!r} are two names of one field")
        value = record[snake]
    return value


@cache
def _snake(name: str) -> str:
    return _CAPITAL.sub(lambda capital: f"_{capital[0].lower()}", name)


def text_field(record: Fields, name: str) -> str:
    """Return a text; empty if it is not given."""
    value = field_of(record, name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadRecord("bad-field", f"{name} is text, not {shown(value)}")
    return value


def integer_field(record: Fields, name: str) -> int:
    """Return an integer that is a number or text; 0 if it is not given."""
    value = field_of(record, name)
    return 0 if value is None else _integer(value, name)


def enum_field(record: Fields, name: str, prefix: str, names: tuple[str, ...]) -> int:
    """Return the number of an enum's value, which is a number or ``PREFIX_NAME``; 0 if it is not given."""
    value = field_of(record, name)
    if isinstance(value, str) and value.startswith(prefix) and value.removeprefix(prefix) in names:
        return names.index(value.removeprefix(prefix))
    if value is None:
        return 0
    if type(value) is int:
        return value
    raise not_enum(name, value, prefix, names)


def not_enum(name: str, value: object, prefix: str, names: tuple[str, ...]) -> BadRecord:
    """Make the error for a value that the enum does not have."""
    return BadRecord("bad-field", f"{name} is 0 to {len(names) - 1} or {prefix}{names[1]} etc., not {shown(value)}")


def list_field(record: Fields, name: str) -> list[Fields]:
    """Return a list of objects; empty if it is not given."""
    value = field_of(record, name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(element, dict) for element in value):
        raise BadRecord("bad-field", f"{name} is a list of objects, not {shown(value)}")
    return value


def object_field(record: Fields, name: str) -> Fields:
    """Return an object; empty if it is not given."""
    value = field_of(record, name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRecord("bad-field", f"{name} is an object, not {shown(value)}")
    return value


def id_field(record: Fields, name: str, size_bytes: int) -> str | None:
    """Return an id as lower-case hex; None if it is not given, empty or all zeros.

    OTLP's JSON mapping has hex. Base64, of protobuf's own JSON mapping, is recognised by its length and accepted, too.
    """
    value = field_of(record, name)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise BadRecord("bad-id", f"{name} is text, not {shown(value)}")
    digits = value.lower()
    if len(value) == -(-size_bytes // 3) * 4:
        try:
            digits = base64.b64decode(value, validate=True).hex()
        except (binascii.Error, ValueError):
            raise BadRecord("bad-id", f"{name} is neither hex nor base64: {shown(value)}") from None
    if len(digits) != 2 * size_bytes or not _HEX.fullmatch(digits):
        raise BadRecord("bad-id", f"{name} has {2 * size_bytes} hex digits, not {shown(value)}")
    return digits if digits.strip("0") else None


def attributes_of(record: Fields, *, name: str = "attributes") -> dict[str, Any]:
    """Return the attributes as plain JSON values; if a key occurs twice, the last value counts."""
    return _pairs(list_field(record, name), name, 0)


def any_value(value: Any, where: str, depth: int = 0) -> Any:
    """Convert an ``AnyValue`` to a plain JSON value: bytes to base64, NaN and infinities to text."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise BadRecord("bad-field", f'{where} is an object such as {{"stringValue": ...}}, not {shown(value)}')
    if depth > MOST_DEPTH:
        raise BadRecord("too-deep", f"{where} has more than {MOST_DEPTH} values inside each other")
    kinds = [kind for kind in _KINDS_OF_VALUE if field_of(value, kind) is not None]
    if not kinds:
        return None
    if len(kinds) > 1:
        raise BadRecord("bad-field", f"{where} is one value, not {kinds[0]} and {kinds[1]}")
    kind, content = kinds[0], field_of(value, kinds[0])
    if kind == "stringValue" and isinstance(content, str):
        return content
    if kind == "boolValue" and isinstance(content, bool):
        return content
    if kind == "intValue":
        number = _integer(content, where)
        if not INT64_LEAST <= number <= INT64_MOST:
            raise BadRecord("number-out-of-range", f"{where} is {INT64_LEAST} to {INT64_MOST}, not {number}")
        return number
    if kind == "doubleValue":
        return _double(content, where)
    if kind == "bytesValue" and isinstance(content, str):
        return content
    if kind == "arrayValue" and isinstance(content, dict):
        return [any_value(element, where, depth + 1) for element in list_field(content, "values")]
    if kind == "kvlistValue" and isinstance(content, dict):
        return _pairs(list_field(content, "values"), where, depth + 1)
    raise BadRecord("bad-field", f"{where}: {kind} must be {_KINDS_OF_VALUE[kind]}, not {shown(content)}")


def json_text(value: object) -> str:
    """Write compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def object_text(attributes: Mapping[str, Any]) -> str | None:
    """Write attributes as `json_text` does, but more quickly; None without attributes."""
    if not attributes:
        return None
    if not _ALWAYS_SAME.issuperset(map(type, attributes.values())):
        for value in attributes.values():
            kind = type(value)
            if kind is dict or kind is list or (kind is float and not _LEAST_SAME <= abs(value) < _MOST_SAME):
                return json_text(attributes)
    return _encode(attributes).decode()


def shown(value: object) -> str:
    """Return the beginning of a value, for a message."""
    text = json_text(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _pairs(pairs: list[Fields], where: str, depth: int) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for pair in pairs:
        key = field_of(pair, "key")
        if key is not None and not isinstance(key, str):
            raise BadRecord("bad-field", f"a key in {where} is text, not {shown(key)}")
        values[key or ""] = any_value(field_of(pair, "value"), f"the value of {shown(key)}", depth)
    return values


def _integer(value: object, where: str) -> int:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    if type(value) is int:
        return value
    raise BadRecord("bad-field", f"{where} is an integer, not {shown(value)}")


def _double(value: object, where: str) -> float | str:
    if type(value) is float or type(value) is int:
        return float(value)
    if isinstance(value, str) and value in _NOT_FINITE:
        return value
    raise BadRecord("bad-field", f"{where} is a number, not {shown(value)}")
