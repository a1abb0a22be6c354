"""Find out what the columns of a Parquet file in the format ``ledto`` mean. Check their types before any row is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyarrow import types as kinds

from ledto.events.schema import COLUMNS, REPORTS
from ledto.sources.contract import SourceError
from ledto.sources.record_fields import FIELD_TYPES, FieldType
from ledto.sources.times import NANOSECONDS_IN

HISTORY_COLUMNS: Final = ("causal_time", "correction", "corrected_time", "missing", "level", "index", "position")

RESERVED: Final = frozenset({*COLUMNS, *FIELD_TYPES, *HISTORY_COLUMNS})
"""Names of columns that the tables of a history have themselves."""


_DECIMAL_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Mapping:
    """What the columns of a file mean. Pickles."""

    unit: str
    """The unit of times in this run."""
    known: frozenset[str]
    """The columns that become columns of `REPORTS`."""

    native: tuple[tuple[str, str, pa.DataType], ...]
    """Further columns, which the history keeps: name in the file, name and type in the history."""

    @property
    def native_names(self) -> tuple[str, ...]:
        """Return the names of further columns in the history."""
        return tuple(alias for _, alias, _ in self.native)

    @property
    def schema(self) -> pa.Schema:
        """Return the columns of the rows: those of `REPORTS`, then the further ones."""
        return pa.schema([*REPORTS, *(pa.field(alias, kind) for _, alias, kind in self.native)])


def map_schema(schema: pa.Schema, file: str, unit: str) -> Mapping:
    """Find out what the columns of a file mean. Raises `SourceError`, which names the file, if they do not fit."""
    _check_names(schema, file)
    for name in FIELD_TYPES:
        if name in schema.names:
            _check_type(name, schema.field(name).type, file, unit)
    known = {field.name for field in schema if field.name in FIELD_TYPES and _fits(field.name, field.type)}
    native = [
        (field.name, _native_name(field.name, schema), _native_type(field, file))
        for field in schema
        # A column of type null has no values.
        if field.name not in known and not kinds.is_null(field.type)
    ]
    return Mapping(unit, frozenset(known), tuple(native))


def _native_name(name: str, schema: pa.Schema) -> str:
    if name not in RESERVED:
        return name
    name += "_given"
    while name in schema.names:
        name += "_given"
    return name


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
    wanted = FIELD_TYPES[name]
    if not _fits(name, kind) and wanted not in (FieldType.TEXT_OR_ATTRIBUTE, FieldType.TRUTH_OR_ATTRIBUTE):
        raise SourceError(f"{file}: the column {name} is {kind}; it must be {wanted.value}. Cast it, or rename it")
    if wanted is FieldType.TIME and kinds.is_timestamp(kind) and unit not in NANOSECONDS_IN:
        raise SourceError(f"{file}: the column {name} is {kind}, and the unit {unit!r} is no unit of time; cast it")


def _fits(name: str, kind: pa.DataType) -> bool:
    """Return whether a column of this type can be the field of this name."""
    text, integer, items = is_text(kind), _is_integer(kind), kind.value_type if is_list(kind) else None
    texts = text or (items is not None and is_text(items))
    return bool(
        {
            FieldType.INTEGER: integer,
            FieldType.TIME: integer or kinds.is_timestamp(kind),
            FieldType.KEY: text or integer,
            FieldType.KEYS: texts or integer or (items is not None and _is_integer(items)),
            FieldType.TEXTS: texts,
            FieldType.STAMP: text or kinds.is_struct(kind),
            FieldType.ATTRIBUTES: text or kinds.is_struct(kind) or (kinds.is_map(kind) and is_text(kind.key_type)),
            FieldType.TRUTH_OR_ATTRIBUTE: kinds.is_boolean(kind),
        }.get(FIELD_TYPES[name], text)
    )


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds text, or only nulls."""
    if kinds.is_dictionary(kind):
        kind = kind.value_type
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_null(kind))


def is_list(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds lists."""
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
    """Return the type of a further column in the history; None if there is none that Spark and Arrow both have.

    It is the column's own type if both have it. No value is lost: timestamps in nanoseconds become integers.
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
        members = [(field.name, native_type(field.type)) for field in kind]
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
