"""Write the values of Arrow columns as JSON text, by column: for ``attributes``, ``stamp`` and the text of a bad row.

The text is always the same, whatever reads the file. Members have the order of the fields; null members of a struct are
left out; there are no blanks. Floats are the shortest text that reads back the same, with a point or an exponent, or
``"NaN"``, ``"Infinity"`` and ``"-Infinity"``. Times are ISO-8601 text with all their digits, those with a zone in UTC;
outside of the years 1 to 9999, they are their count. Binary values are base64.
"""

from __future__ import annotations

import base64
import json

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from ledto.sources.times import INT64_LEAST, INT64_MOST, NANOSECONDS_IN

_SECONDS = -62_135_596_800, 253_402_300_800
"""The seconds at the beginning of the years 1 and 10000."""
NO_TEXT = pa.scalar(None, pa.string())
_CONTROLS = r"[\x00-\x1f]"


def json_text(values: pa.Array) -> pa.Array:
    """Return the JSON text of each value; null where the value is null."""
    kind = values.type
    if kinds.is_dictionary(kind):
        return json_text(values.dictionary).take(values.indices)
    if isinstance(kind, pa.BaseExtensionType):
        return json_text(values.storage)
    if kinds.is_null(kind):
        return pa.nulls(len(values), pa.string())
    if kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind):
        return _quoted(values.cast(pa.string()))
    if kinds.is_floating(kind):
        return _float_text(values)
    if kinds.is_boolean(kind):
        return pc.if_else(values, "true", "false")
    if kinds.is_integer(kind) or kinds.is_decimal(kind):
        return values.cast(pa.string())
    if kinds.is_duration(kind):
        return values.cast(pa.int64()).cast(pa.string())
    if kinds.is_struct(kind):
        return _object_text(values)
    if kinds.is_map(kind):
        return _map_text(values)
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        return _array_text(values)
    if kinds.is_temporal(kind):
        return _time_text(values)
    return pa.array([None if value is None else _base64(value) for value in values.to_pylist()], pa.string())


def _base64(value: object) -> str:
    return f'"{base64.b64encode(value).decode()}"' if isinstance(value, bytes) else json.dumps(str(value))


def _quoted(texts: pa.Array) -> pa.Array:
    escaped = texts
    if pc.any(pc.match_substring_regex(texts, r'["\\]')).as_py():
        escaped = pc.replace_substring(pc.replace_substring(texts, "\\", r"\\"), '"', r"\"")
    quoted = pc.binary_join_element_wise('"', escaped, '"', "")
    controls = pc.fill_null(pc.match_substring_regex(texts, _CONTROLS), False)
    if pc.any(controls).as_py():
        rewritten = [json.dumps(text, ensure_ascii=False) for text in texts.filter(controls).to_pylist()]
        quoted = pc.replace_with_mask(quoted, controls, pa.array(rewritten, pa.string()))
    return quoted


def _float_text(values: pa.Array) -> pa.Array:
    wide = values.cast(pa.float32()) if kinds.is_float16(values.type) else values
    text = pc.replace_substring_regex(wide.cast(pa.string()), r"^(-?\d+)$", r"\1.0")
    text = pc.if_else(pc.is_nan(wide), '"NaN"', text)
    infinite = pc.if_else(pc.greater(wide, 0), '"Infinity"', '"-Infinity"')
    return pc.if_else(pc.is_inf(wide), infinite, text)


def _time_text(values: pa.Array) -> pa.Array:
    if not kinds.is_timestamp(values.type):
        return pc.binary_join_element_wise('"', values.cast(pa.string()), '"', "")
    unit, zone = values.type.unit, values.type.tz
    count = values.cast(pa.int64())
    first, last = (second * (10**9 // NANOSECONDS_IN[unit]) for second in _SECONDS)
    # Arrow's calendar is wrong outside of these years.
    near = pc.and_(pc.greater_equal(count, max(first, INT64_LEAST)), pc.less(count, min(last, INT64_MOST)))
    text = pc.if_else(near, count, 0).cast(pa.timestamp(unit)).cast(pa.string())
    text = pc.replace_substring(text, " ", "T", max_replacements=1)
    text = pc.binary_join_element_wise('"', text, '"' if zone is None else 'Z"', "")
    return pc.if_else(near, text, count.cast(pa.string()))


def _object_text(values: pa.Array) -> pa.Array:
    # `flatten` makes the fields of a null struct null, and respects the bounds of a slice.
    members = []
    for field, column in zip(values.type, values.flatten(), strict=True):
        key = f",{json.dumps(field.name, ensure_ascii=False)}:"
        members.append(pc.binary_join_element_wise(key, json_text(column), ""))
    if not members:
        return pc.if_else(values.is_valid(), "{}", NO_TEXT)
    # Null members become empty text. To skip nulls would make a row without other members null.
    joined = pc.binary_join_element_wise(*members, "}", "", null_handling="replace", null_replacement="")
    return pc.if_else(values.is_valid(), _opened(joined), NO_TEXT)


def _opened(members: pa.Array) -> pa.Array:
    """Replace the first comma by a brace; add one if there is no member."""
    return pc.if_else(pc.equal(members, "}"), "{}", pc.binary_replace_slice(members, start=0, stop=1, replacement="{"))


def _map_text(values: pa.Array) -> pa.Array:
    entries = _entries(values)
    keys = _key_text(entries[0])
    members = pc.binary_join_element_wise(keys, pc.fill_null(json_text(entries[1]), "null"), ":")
    return _joined(values, members, "{", "}")


def _key_text(keys: pa.Array) -> pa.Array:
    text = json_text(keys)
    is_text = pc.starts_with(text, '"')
    return pc.if_else(is_text, text, _quoted(text))


def _entries(values: pa.Array) -> tuple[pa.Array, pa.Array]:
    first, last = values.offsets[0].as_py(), values.offsets[len(values)].as_py()
    return values.keys.slice(first, last - first), values.items.slice(first, last - first)


def _array_text(values: pa.Array) -> pa.Array:
    if kinds.is_fixed_size_list(values.type):
        values = values.cast(pa.list_(values.type.value_type))
    return _joined(values, pc.fill_null(json_text(_elements(values)), "null"), "[", "]")


def _elements(values: pa.Array) -> pa.Array:
    first, last = values.offsets[0].as_py(), values.offsets[len(values)].as_py()
    return values.values.slice(first, last - first)


def _joined(values: pa.Array, members: pa.Array, before: str, after: str) -> pa.Array:
    """Join the members of each list or map, and put them in brackets."""
    offsets = pc.subtract(values.offsets, values.offsets[0]).cast(pa.int32())
    lists = pa.ListArray.from_arrays(offsets, members)
    text = pc.binary_join_element_wise(before, pc.binary_join(lists, ","), after, "")
    return pc.if_else(values.is_valid(), text, NO_TEXT)
