"""Which columns of a Parquet file in the format ``ledto`` mean what; checked by type before any row is read."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyarrow import types as kinds

from ledto.events.schema import COLUMNS, REPORTS
from ledto.sources.contract import SourceError
from ledto.sources.native.records import FIELDS
from ledto.sources.times import NANOSECONDS_IN

TAKEN: Final = ("causal_time", "correction", "corrected_time", "missing", "level", "index", "position")

RESERVED: Final = frozenset({*COLUMNS, *FIELDS, *TAKEN})
"""Names that the tables of a history give a meaning of their own."""

_WANTED: Final = {
    "computation": "text",
    "process": "text",
    "seq": "an integer",
    "time": "an integer or a timestamp",
    "arrival": "an integer or a timestamp",
    "kind": "text",
    "message": "text, an integer, or a list of them",
    "sends": "text or an integer",
    "receives": "text, an integer, or a list of them",
    "id": "text or an integer",
    "name": "text",
    "stamp": "JSON text or a struct",
    "attributes": "JSON text, a map of text, or a struct",
    "line_parent": "text",
    "line_joins": "text or a list of texts",
    "line_phase": "text",
}
_ONLY_AS_TEXT: Final = ("clock_name", "line")
"""Columns that mean something if they are text; of another type, they are the user's own, such as lines of code."""
_DECIMAL_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Mapping:
    """What the columns of a file are. Pickles."""

    unit: str
    """What times count, in this run."""
    known: frozenset[str]
    """The columns that become those of `REPORTS`."""
    int96: frozenset[str]
    """Timestamps of the deprecated kind with 96 bits, as Spark writes by default."""
    native: tuple[tuple[str, str, pa.DataType], ...]
    """Further columns: their names, the names they get, and the types they get."""

    @property
    def native_names(self) -> tuple[str, ...]:
        """The names that further columns get."""
        return tuple(alias for _, alias, _ in self.native)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows: those of `REPORTS`, then the further ones."""
        return pa.schema([*REPORTS, *(pa.field(alias, kind) for _, alias, kind in self.native)])


def map_schema(schema: pa.Schema, file: str, unit: str, *, int96: Collection[str] = ()) -> Mapping:
    """Find out what the columns of a file mean. Raises `SourceError`, which names it, if they do not fit."""
    _check_names(schema, file)
    for name in _WANTED:
        if name in schema.names:
            _check_type(name, schema.field(name).type, file, unit)
    known = {each.name for each in schema if _is_known(each)}
    native = [
        (each.name, _native_name(each.name, schema), _native_type(each, file))
        for each in schema
        # A column of no type at all has no values.
        if each.name not in known and not kinds.is_null(each.type)
    ]
    return Mapping(unit, frozenset(known), frozenset(int96), tuple(native))


def _native_name(name: str, schema: pa.Schema) -> str:
    if name not in RESERVED:
        return name
    name += "_given"
    while name in schema.names:
        name += "_given"
    return name


def _is_known(field: pa.Field) -> bool:
    """Whether the column is one of `REPORTS`, or tells one; of another type it is the user's own."""
    if field.name == "error":
        return bool(kinds.is_boolean(field.type))
    return is_text(field.type) if field.name in _ONLY_AS_TEXT else field.name in FIELDS


def _check_names(schema: pa.Schema, file: str) -> None:
    spelled: dict[str, str] = {}
    for name in schema.names:
        other = spelled.setdefault(name.lower(), name)
        if other != name or schema.names.count(name) > 1:
            raise SourceError(
                f"{file} has the columns {other!r} and {name!r}, which Spark cannot tell apart; rename one"
            )
        if name != name.lower() and name.lower() in RESERVED:
            raise SourceError(f"{file} has a column {name!r}; rename it to {name.lower()!r}, or to something else")
        if name.startswith("__") or not name or "`" in name:
            raise SourceError(
                f"{file} has a column {name!r}; rename it: it must not be empty, begin with __ or hold a `"
            )
    if "process" not in schema.names:
        raise SourceError(f"{file} has no column process, which says where an event happened; {_has(schema)}")
    if not {"seq", "time", "stamp"} & {*schema.names}:
        raise SourceError(f"{file} has neither a column seq nor a column time to order events by; {_has(schema)}")


def _has(schema: pa.Schema) -> str:
    return f"it has {', '.join(schema.names[:20])}; rename one of them" if schema.names else "it has no columns"


def _check_type(name: str, kind: pa.DataType, file: str, unit: str) -> None:
    text, integer = is_text(kind), _is_integer(kind)
    key = text or integer
    keys = key or (is_list(kind) and (is_text(kind.value_type) or _is_integer(kind.value_type)))
    fits = {
        "seq": integer,
        "time": integer or kinds.is_timestamp(kind),
        "arrival": integer or kinds.is_timestamp(kind),
        "message": keys,
        "sends": key,
        "receives": keys,
        "id": key,
        "line_joins": text or (is_list(kind) and is_text(kind.value_type)),
        "stamp": text or kinds.is_struct(kind),
        "attributes": text or kinds.is_struct(kind) or (kinds.is_map(kind) and is_text(kind.key_type)),
    }.get(name, text)
    if not fits:
        raise SourceError(f"{file}: the column {name} is {kind}; it must be {_WANTED[name]}. Cast it, or rename it")
    if kinds.is_timestamp(kind) and unit not in NANOSECONDS_IN:
        raise SourceError(f"{file}: the column {name} is {kind}, and the unit {unit!r} is no unit of time; cast it")


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text, or nothing."""
    if kinds.is_dictionary(kind):
        kind = kind.value_type
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_null(kind))


def is_list(kind: pa.DataType) -> bool:
    """Whether a column of this type holds lists."""
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind))


def _is_integer(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) and not kinds.is_uint64(kind))


def _native_type(field: pa.Field, file: str) -> pa.DataType:
    kind = native_type(field.type)
    if kind is None:
        raise SourceError(f"{file}: the column {field.name} is {field.type}, which Spark has no type for. Cast it")
    return kind


_SIGNED: Final = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}


def native_type(kind: pa.DataType) -> pa.DataType | None:
    """The type that a further column gets: its own, or the next one that Spark and Arrow both have; None if there is none.

    No value is lost: timestamps finer than microseconds become their count of nanoseconds.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return native_type(kind.storage_type)
    if kinds.is_dictionary(kind):
        return native_type(kind.value_type)
    if kinds.is_nested(kind):
        return _nested_type(kind)
    if kinds.is_null(kind) or kinds.is_large_string(kind):
        return pa.string()
    if kinds.is_large_binary(kind) or kinds.is_fixed_size_binary(kind):
        return pa.binary()
    if kinds.is_uint64(kind):
        return pa.decimal128(20, 0)
    if kinds.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= _DECIMAL_DIGITS else None
    if kinds.is_timestamp(kind):
        return pa.int64() if kind.unit == "ns" else pa.timestamp("us", None if kind.tz is None else "UTC")
    if kinds.is_duration(kind):
        return pa.int64()
    if kinds.is_date(kind):
        return pa.date32()
    if kinds.is_float16(kind):
        return pa.float32()
    kept = kinds.is_primitive(kind) and not kinds.is_temporal(kind)
    return _SIGNED.get(kind, kind) if kept or kinds.is_string(kind) or kinds.is_binary(kind) else None


def _nested_type(kind: pa.DataType) -> pa.DataType | None:
    if kinds.is_struct(kind):
        members = [(each.name, native_type(each.type)) for each in kind]
        if not members or any(member is None for _, member in members):
            return None
        return pa.struct([pa.field(name, member) for name, member in members])
    if kinds.is_map(kind):
        key, item = native_type(kind.key_type), native_type(kind.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if is_list(kind) or kinds.is_fixed_size_list(kind):
        element = native_type(kind.value_type)
        return None if element is None else pa.list_(element)
    return None
