"""Read and check fields of spans of Jaeger and Zipkin: ids in hexadecimal digits, times in microseconds.

All functions that read a field raise `BadRecord` for a value of the wrong type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from ledto.sources.json.documents import DocumentValue
from ledto.sources.json.strict import value_of
from ledto.sources.json.typed import text_of
from ledto.sources.rows import BadRecord, bad_row
from ledto.sources.spans.spans import Span, SpansOrRows, spans_of
from ledto.sources.times import INT64_MOST

TRACE_DIGITS: Final = 32
SPAN_DIGITS: Final = 16

UNNAMED: Final = "unnamed span"

_HEX = re.compile(r"[0-9a-f]+")
_NANOSECONDS_IN_MICROSECOND = 1_000
_SHOWN = 60

Record = Mapping[str, Any]


def read_exactly(value: DocumentValue, file: str, span_of: Callable[[Record, int], Span]) -> SpansOrRows:
    """Read one record by `span_of`; a record that it refuses gives a bad row."""
    try:
        return spans_of(span_of(fields_of(value.raw), value.offset))
    except BadRecord as error:
        return bad_row(file, value.offset, str(error), value.raw)


def fields_of(raw: bytes) -> Record:
    """Parse an object; numbers with a fraction keep their text. Raises `BadRecord`."""
    return _an_object(_value(raw))


def inner_fields(raw: bytes) -> Record:
    """Parse an object that is a member of a record: its nesting counts one more. Raises `BadRecord`."""
    return _an_object(_value(b"[%b]" % raw)[0])


def _value(raw: bytes) -> Any:
    try:
        return value_of(raw.decode("utf-8"), keep_reals=True)
    except UnicodeDecodeError as error:
        raise BadRecord("not-utf8", f"byte {error.start} of the record: {error.reason}") from None


def _an_object(value: Any) -> Record:
    if not isinstance(value, dict):
        raise BadRecord("not-json", f"a record is an object in braces, not {shown(value)}")
    return value


def hex_id(record: Record, field: str, digits: int) -> str | None:
    """Return an id in lower case with leading zeros; None if it is absent, empty or zero: all mean that there is no id."""
    value = read_text(record, field)
    if value is None:
        return None
    lowered = value.lower()
    if len(value) > digits or not _HEX.fullmatch(lowered):
        raise BadRecord("bad-field", f"{field} has up to {digits} hexadecimal digits, unlike {value[:_SHOWN]!r}")
    return lowered.rjust(digits, "0") if lowered.strip("0") else None


def read_text(record: Record, field: str) -> str | None:
    """Return a text; None if it is absent or empty."""
    value = record.get(field)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise BadRecord("bad-field", f"{field} is text, not {shown(value)}")
    if "\0" in value:
        raise BadRecord("bad-field", f"{field} holds a NUL character")
    return value


def read_nanoseconds(record: Record, field: str) -> int | None:
    """Return a count of microseconds as nanoseconds; None if it is absent."""
    value = record.get(field)
    if value is None:
        return None
    if type(value) is not int or value < 0:
        raise BadRecord("bad-field", f"{field} is a count of microseconds, not {shown(value)}")
    return checked_time(value * _NANOSECONDS_IN_MICROSECOND, field)


def checked_time(time_ns: int, field: str) -> int:
    """Return the time. Raises `BadRecord` if it does not fit into 64 bits."""
    if time_ns > INT64_MOST:
        raise BadRecord("number-out-of-range", f"{field} is beyond 64 bits of nanoseconds")
    return time_ns


def read_objects(record: Record, field: str) -> list[Record]:
    """Return a list of objects; empty if it is absent."""
    value = record.get(field)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(element, dict) for element in value):
        raise BadRecord("bad-field", f"{field} is a list of objects, not {shown(value)}")
    return value


def read_object(record: Record, field: str) -> Record:
    """Return an object; empty if it is absent."""
    value = record.get(field)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRecord("bad-field", f"{field} is an object, not {shown(value)}")
    return value


def as_attributes(values: Record) -> str | None:
    """Write the values as a JSON object; None without values."""
    return text_of(values) if values else None


def shown(value: object) -> str:
    """Return the beginning of a value, for a message."""
    written = text_of(value)
    return written if len(written) <= _SHOWN else written[: _SHOWN - 3] + "..."
